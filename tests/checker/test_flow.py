"""Proofs by data flow: claims against every run, patterns against every iteration, verdicts on whole programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from tests.checker.flow_judge import all_pairs_of_runs, turned, unclaimed
from tests.checker.loop_generate import random_loops
from tests.checker.loop_snippets import BUFFER, START, branch, core, loop
from tests.checker.snippets import program
from tests.checker.test_check_loops_agree import SHAPES
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker.flow.moving import FAR, Moving, meet
from haulout.checker.flow.prove import is_proved
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import find_text
from haulout.checker.model import Function, Runs, functions
from haulout.ir.program import Program
from haulout.support.jit import interpreted

EXCHANGES = {
    f"{name}, sendrecv": replace(SHAPES[name], meeting=0.5, cores=(2, 3))
    for name in ("anything", "chained", "branches", "each core its own arm", "some cores meet")
}
ORDERS = SHAPES | EXCHANGES


def runs_of(some: Program) -> Iterator[Runs]:
    """The functions with loops or forks."""
    for each in functions(some):
        assert isinstance(each, Function)
        if each.runs is not None:
            yield each.runs


def compare(name: str, seed: int, seen: Counter[str]) -> None:
    """What is claimed in a random program is so in all of its runs."""
    for runs in runs_of(random_loops(Random(f"{name}, {seed}"), ORDERS[name])):
        text, found = find_text(runs), all_pairs_of_runs(runs, 60)
        if isinstance(text, Refusal) or found is None:
            seen["skipped"] += 1
            continue
        open_pairs = unclaimed(text)
        assert open_pairs is not None
        assert {pair for pair in found.unordered if not {pair, turned(pair)} & open_pairs} == set()
        ordered = {pair for pair in found.pairs if not {pair, turned(pair)} & found.unordered}
        seen.update(programs=1, unordered=len(found.unordered), ordered=len(ordered))
        seen["missed"] += len(ordered & open_pairs)


@pytest.mark.parametrize("name", ORDERS)
def test_what_is_claimed_holds_in_every_run(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(40)):
        compare(name, seed, seen)
    assert seen["programs"] > 0
    assert seen["ordered"] > 20 * seen["missed"]


@pytest.mark.long("3 min")
def test_what_is_claimed_holds_in_every_run_of_many_programs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1060):
        for name in ORDERS:
            compare(name, seed, seen)
    assert seen["unordered"] > 10_000
    assert seen["ordered"] > 1000 * seen["missed"]


def test_plain_and_compiled_claims_are_equal() -> None:
    for seed in range(examples(10)):
        for runs in runs_of(random_loops(Random(seed), SHAPES["branches"])):
            if not isinstance(text := find_text(runs), Refusal):
                compiled = unclaimed(text)
                with interpreted():
                    assert unclaimed(text) == compiled


# -- patterns that move ----------------------------------------------------------------------------------------------


def random_moving(random: Random) -> Moving:
    dims = tuple(
        (random.choice((2, 3, 4, 6, 8, -3)), random.randint(1, 3)) for _ in range(random.choice((0, 0, 1, 2)))
    )
    kind = random.choice(("line", "line", "ring", "still", "both"))
    step = random.choice((1, 2, 3, 4, 6, 8, 12, -1, -2, -4)) if kind in ("line", "both") else 0
    ring = (random.choice((1, 4, 5, 8)), random.randint(2, 4), random.randint(0, 3))
    ring = ring if kind in ("ring", "both") else (0, 1, 0)
    return Moving(random.randint(0, 30), random.randint(1, 5), dims, step, ring, random.randint(0, 9))


def bytes_at(pattern: Moving, iteration: int) -> set[int]:
    step, modulus, phase = pattern.ring
    start = pattern.start + pattern.step * iteration + step * ((iteration + phase) % modulus)
    places = product(*(range(count) for _, count in pattern.dims))
    rows = [start + sum(stride * at for (stride, _), at in zip(pattern.dims, place, strict=True)) for place in places]
    return {row + byte for row in rows for byte in range(pattern.run)}


def test_moving_patterns_meet_as_their_iterations_do() -> None:
    random = Random(5)
    for _ in range(examples(4000)):
        one, other = random_moving(random), random_moving(random)
        low = random.randint(0, 2)
        high = random.choice((low, FAR))
        places = [[bytes_at(each, at) for at in range(each.last + 1)] for each in (one, other)]
        meets = any(a & b for i, a in enumerate(places[0]) for j, b in enumerate(places[1]) if low <= j - i <= high)
        assert meet(one, other, low, high) == meets, (one, other, low, high)


# -- whole programs --------------------------------------------------------------------------------------------------


def nested(depth: int, fenced: bool) -> Program:
    """Nested loops of unknown trip count, in the innermost a copy, whose result is read behind a wait or not."""
    lines = ["mloc %a dram.local size=64 kind=inout", "mloc %b dram.local size=64 kind=inout"]
    lines += ["mloc %c dram.local size=4 kind=input", "block ^e -> ^h0:", "%w = iota @dma0 () -> (%a)"]
    for at in range(depth):
        inner = f"^h{at + 1}" if at + 1 < depth else "^body"
        lines += [f"block ^h{at} -> {inner}, ^x{at} cond=c:"]
        if at == 0:
            lines.append(f"%first = nop @act () -> () {'deps=[w]' if fenced else ''}")
    lines += [f"block ^body -> ^h{depth - 1}:", "%r = copy @act (%a) -> (%b)"]
    for at in reversed(range(depth)):
        lines += [f"block ^x{at}{f' -> ^h{at - 1}' if at else ''}:"]
    return program("\n".join(lines))


def test_many_nested_loops_are_proved() -> None:
    assert check_program(nested(14, True)) == []


def test_a_missing_wait_in_nested_loops_is_found() -> None:
    assert not any(is_proved(runs) for runs in runs_of(nested(5, False)))
    assert {each.code for each in check_program(nested(5, False), advise=False)} == {"missing-dependence"}


def test_an_operand_of_a_header_that_leaves_its_location_proves_nothing() -> None:
    """Its loop runs at least once, or there is nothing to prove."""
    read = "%r = copy @act (%a[1:2]) -> () step=[[0,loop,4,0]]"
    write = "%w = iota @dma0 () -> (%a[3:4])"
    some = program(core("mloc %a dram.local size=4 kind=inout", START, loop(write, header=read, trip=None)))
    assert not any(is_proved(runs) for runs in runs_of(some))


@pytest.mark.parametrize(
    "steps", ["[0,loop,4,2],[0,loop,4,2,1]", "[0,loop,4,0],[0,loop,-4,2]", "[0,loop,4,2],[0,loop,8,2]"]
)
def test_steps_of_one_loop_that_reach_few_places_cover_nothing(steps: str) -> None:
    write = f"%w = iota @dma0 () -> (%o[0:4]) step=[{steps}]"
    some = program(core("mloc %o dram.local size=16 kind=output", START, loop(write, trip=4)))
    assert not any(is_proved(runs) for runs in runs_of(some))
    assert {each.code for each in check_program(some, advise=False)} == {"output-not-written"}


def test_a_step_that_reaches_everything_covers_its_location() -> None:
    write = "%w = iota @dma0 () -> (%o[0:4]) step=[[0,loop,4,3]]"
    some = program(core("mloc %o dram.local size=12 kind=output", START, loop(write, trip=4)))
    assert all(is_proved(runs) for runs in runs_of(some))


def test_many_branches_are_proved_at_once() -> None:
    parts = [
        core(BUFFER, "mloc %b dram.local size=64 kind=inout", "block ^entry -> ^f0:", "%w = iota @dma0 () -> (%a)")
    ]
    for number in range(300):
        behind = "" if number == 299 else f" -> ^f{number + 1}"
        parts.append(branch(f"%t{number} = copy @act (%b) -> ()", None, name=f"f{number}", behind=behind))
    assert check_program(program("\n".join(parts))) == []


def test_few_runs_show_all_pairs_that_many_branches_leave_open() -> None:
    """Two cores write parts of their own in 40 branches, but in one of them core 1 writes what core 0 does."""
    cores = []
    for number in range(2):
        remote = "remote=[s,0]" if number else "kind=inout"
        parts = [core(BUFFER, f"mloc %s dram.shared size=128 {remote}", "block ^entry -> ^f0:")]
        for at in range(40):
            part = "0:64" if number == 0 or at == 20 else "64:128"
            behind = "" if at == 39 else f" -> ^f{at + 1}"
            parts.append(branch(f"%t{at} = iota @act () -> (%s[{part}])", None, name=f"f{at}", behind=behind))
        cores.append("\n".join(parts))
    found = check_program(program(*cores), advise=False)
    assert {each.code for each in found} == {"cross-core-race"}


def test_the_proof_agrees_with_the_runs() -> None:
    """What is proved has no finding when its runs are judged; nearly all that has none is proved."""
    seen: Counter[str] = Counter()
    for seed in range(examples(6)):
        for name in SHAPES:
            some = random_loops(Random(f"{name}, proof {seed}"), SHAPES[name])
            proved = all(map(is_proved, runs_of(some)))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("haulout.checker.driver.is_proved", lambda runs: False)
                clean = not [each for each in check_program(some, advise=False) if each.code != "assumed-trip"]
            assert clean or not proved
            seen.update(clean=clean, proved=proved)
    assert seen["proved"] > 0.6 * seen["clean"]
