"""lower_sync on programs with branches: what semaphores guarantee in every run is no less than what the edges did."""

from __future__ import annotations

from random import Random

import pytest
from tests.passes.sync_runs import behind, in_run, runs_of
from tests.passes.test_lower_sync_order import with_random_loop_edges

from haulout import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.sync.reduce import reduce_order
from haulout.passes.sync.semaphores import waits_of
from haulout_generators.branch_programs import random_branch_program

MOST_STEPS = 60


def lowered(program: Program, **options: object) -> tuple[Program, PassContext]:
    context = PassContext()
    return PassManager([LowerSync(**options)]).run(program, context), context  # type: ignore[arg-type]


def source_program(seed: int) -> Program:
    rng = Random(seed)
    while True:
        loops = rng.choice((0.0, 0.4, 0.7))
        program = random_branch_program(rng, cores=1, depth=1 + seed % 3, loops=loops, divergent=0.2)
        if len(program.instructions) <= 40:
            return with_random_loop_edges(rng, program, rng.randint(4, 20))


def orders(before: Program, after: Program, seed: int) -> list[tuple[list[set[int]], list[set[int]]]]:
    """(order before, order after) of some runs."""
    runs, _ = runs_of(before, Random(seed), most=12)
    runs = [run for run in runs if len(run) <= MOST_STEPS]
    return [(behind(in_run(before, run)), behind(in_run(after, run))) for run in runs]


@pytest.mark.thin(7, "10 s")
@pytest.mark.parametrize("most", [1, 2, 32])
@pytest.mark.parametrize("seed", range(60))
def test_branches_are_ordered_in_every_run(seed: int, most: int) -> None:
    source = source_program(seed)
    program, _ = lowered(source, semaphores=most)
    assert verify(program) == []
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert len(program.dependences) == 0
    for before, after in orders(source, program, seed):
        for less, more in zip(before, after, strict=True):
            assert more >= less


@pytest.mark.parametrize("seed", range(60))
def test_reduced_edges_of_branches_keep_the_order_of_every_run(seed: int) -> None:
    """The reduction alone, as edges: equal, not only no less."""
    source = source_program(seed)
    left = reduce_order(source, source.dependences).edges
    assert len(left) <= len(source.dependences)
    for before, after in orders(source, source.replace(dependences=left), seed):
        assert before == after


@pytest.mark.parametrize("seed", range(30))
def test_without_relative_waits_arms_keep_their_edges_and_say_so(seed: int) -> None:
    source = source_program(seed)
    program, context = lowered(source, relative_waits=False)
    assert not any(wait.back for wait in waits_of(program))
    notes = [each for each in context.diagnostics if each.code == "kept-dependences"]
    told = sum(int(each.message.split()[0]) for each in notes)
    assert told == len(program.dependences) == context.counters["lower_sync"]["kept"]
    for before, after in orders(source, program, seed):
        for less, more in zip(before, after, strict=True):
            assert more >= less


def arms(then: int, other: int | None, last: str) -> Program:
    """A branch whose arms run so many instructions on pe, each waited for; `other` None: no second arm."""

    def block(name: str, count: int) -> str:
        lines = [f"    block ^{name} -> ^join:"]
        for k in range(count):
            lines.append(f"      %{name}{k} = copy @pe (%x) -> (%out)")
            lines.append(f"      %use_{name}{k} = copy @act (%x) -> (%out) deps=[{name}{k}]")
        return "\n".join(lines) + "\n"

    second = "join" if other is None else "else"
    return parse_bir(f"""bir 1
program "arms" lnc=1
module @nc0 core=0 {{
  func @main {{
    mloc %x dram.local size=64 kind=input
    mloc %f dram.local size=1 kind=input
    mloc %out dram.local size=64 kind=output
    block ^fork -> ^then, ^{second} cond=f:
      %first = copy @pe (%x) -> (%out)
{block("then", then)}{"" if other is None else block("else", other)}    block ^join:
      %mid = copy @pe (%x) -> (%out)
      %last = copy @act (%x) -> (%out) deps=[{last}]
  }}
}}
""")


@pytest.mark.parametrize(
    "then, other, last, expected",
    [
        (2, 2, "mid", (3, False)),  # two in either arm, mid
        (2, 1, "mid", (0, True)),  # not one number: all before it
        (2, None, "mid", (0, True)),
        (2, 1, "first", (1, False)),  # nothing of an arm stands before it
        (0, 0, "mid", (1, False)),
    ],
)
def test_a_constant_where_both_arms_signal_equally_often(
    then: int, other: int | None, last: str, expected: tuple[int, bool]
) -> None:
    program, _ = lowered(arms(then, other, last))
    row = [program.instruction_name(at) for at in range(len(program.instructions))].index("last")
    assert [(wait.value, wait.back) for wait in waits_of(program) if wait.row == row] == [expected]


def test_between_a_fork_and_what_is_behind_the_least_of_the_arms_counts() -> None:
    """A loop around makes all counts relative: behind arms of one and three signals, one of them may be missing."""
    text = print_bir(arms(3, 1, "first"))
    head, tail = text.split("    block ^fork")
    tail = tail.replace("block ^join:", "block ^join -> ^head:").rstrip().removesuffix("}\n}").rstrip()
    text = head + "    block ^entry -> ^head:\n    block ^head -> ^fork, ^end cond=f:\n    block ^fork" + tail
    text = text.removesuffix("}").rstrip() + "\n    block ^end:\n  }\n}\n"
    program, _ = lowered(parse_bir(text))
    row = [program.instruction_name(at) for at in range(len(program.instructions))].index("last")
    # %mid is not waited for; the arms signal three times or once
    assert [(wait.value, wait.back) for wait in waits_of(program) if wait.row == row] == [(1, True)]


def test_an_edge_from_an_arm_to_behind_the_join_has_no_meaning() -> None:
    from tests.passes.test_lower_sync import refusal

    assert "does not run whenever it does" in refusal(arms(1, 1, "then0"))
