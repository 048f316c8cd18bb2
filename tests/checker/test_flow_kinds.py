"""Proofs by data flow: semaphores anywhere, meetings in divergent arms, constants, the order of the source."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.checker.flow_judge import all_pairs_of_runs, follow_all, pairs_of, turned
from tests.checker.loop_generate import LoopShape, random_loops
from tests.checker.loop_semaphores import add_semaphores
from tests.checker.loop_snippets import BUFFER, FORK, branch, core, loop
from tests.checker.snippets import program
from tests.checker.test_check_loops_agree import FORKS, SHAPES
from tests.checker.test_flow import runs_of
from tests.tiers import examples

from haulout.checker.flow.prove import examine, is_proved
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.steps import SPLIT
from haulout.checker.flow.text import find_text
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program

MET = replace(FORKS, cores=(2, 3), divergent=1.0, met=1.0, odd=0.0, one_arm=0.0, forks=(1, 2), loops=(0, 1))
MEETINGS = {"met": MET, "met, anything": replace(MET, chained=0.0, wait=0.5, barrier=0.15)}
ARMS = replace(FORKS, cores=(2, 3), divergent=0.8, chained=0.0, met=0.0, barrier=0.15, loops=(0, 2))
SIGNALS = {"arms": ARMS, "chained": SHAPES["chained"], "loops": SHAPES["anything"], "branches": SHAPES["branches"]}
Taken = dict[tuple[int, int], int]


def compare(some: Program, seen: Counter[str], taken: Taken | None = None, parts: bool = False) -> None:
    """What is claimed in a program is so in all of its runs."""
    for runs in runs_of(some):
        text = find_text(runs)
        if isinstance(text, Refusal) or (parts and not (text.steps[:, 0] == SPLIT).any()):
            continue
        found, followed = all_pairs_of_runs(runs, 60, taken), follow_all(text)
        if found is None or followed is None:
            continue
        pairs = pairs_of(text, followed)
        open_pairs = {pair for row, pair in enumerate(pairs) if not followed.is_ordered(row)}
        assert {pair for pair in found.unordered if not {pair, turned(pair)} & open_pairs} == set()
        ordered = {pair for pair in found.pairs if not {pair, turned(pair)} & found.unordered}
        seen.update(programs=1, unordered=len(found.unordered), ordered=len(ordered))
        seen["missed"] += len(ordered & open_pairs)


@pytest.mark.parametrize("name", MEETINGS)
def test_meetings_in_both_arms(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(30)):
        compare(random_loops(Random(f"{name}, {seed}"), MEETINGS[name]), seen, parts=True)
    assert seen["programs"] > 0
    assert seen["ordered"] > 20 * seen["missed"]


@pytest.mark.parametrize("name", SIGNALS)
def test_semaphores_on_barriers_and_in_divergent_arms(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(12)):
        random = Random(f"{name}, {seed}")
        compare(add_semaphores(random, random_loops(random, SIGNALS[name])), seen)
    assert seen["programs"] > 0 or examples(12) < 12
    assert seen["ordered"] >= 20 * seen["missed"]


@pytest.mark.parametrize(("queue", "proved"), [("dma0", True), ("dma1", False)])
def test_a_signal_behind_a_wait_on_its_line_does_not_stand_in(queue: str, proved: bool) -> None:
    """On another line it may, if the arm with the wait has not run by then."""
    arm = branch("%j = op @dma0 () -> (%y) wait_back=[[t,0]]", None, name="f")
    text = core(
        "mloc %y dram.local size=4 kind=inout",
        "block ^entry -> ^f:\n%i = op @act (%y) -> () signal=[[t,2]]",
        arm,
        f"%k = op @{queue} () -> () signal=[[t,2]]",
    )
    assert all(map(is_proved, runs_of(program(text)))) == proved


# -- constants -------------------------------------------------------------------------------------------------------


def settled(random: Random, shape: LoopShape) -> tuple[Program, Taken]:
    """A program some of whose forks branch on constants, and the arms that these take."""
    some = random_loops(random, replace(shape, cond=random.choice((0.0, 0.8))))
    per, rows, steps = len(some.blocks) // some.lnc, some.locations, some.instructions
    kind, data, dtype = rows.kind.copy(), rows.data.copy(), rows.dtype.copy()
    opcode, attrs = steps.opcode.copy(), steps.attrs.copy()
    taken: Taken = {}
    (runs,) = runs_of(some)
    for fork in runs.flow.structure.forks:
        alike, value = not fork.divergent, random.randrange(2)
        for at in range(some.lnc):
            value = value if alike else random.randrange(2)
            if not alike and random.random() < 0.3:
                continue
            cond = int(some.blocks.cond[at * per + fork.block])
            written = (some.accesses.location == cond) & some.accesses.write
            if written.any():
                row = int(some.accesses.instruction[written][0])
                opcode[row], attrs[row] = some.strings.intern("memset"), some.strings.intern(f"value={value}")
            else:
                kind[cond] = Kind.CONST
                data[cond] = some.strings.intern(base64.b64encode(bytes([value, 0, 0, 0])).decode())
            dtype[cond] = some.strings.intern("s32")
            taken[fork.block, at] = 1 - value
        if alike:
            taken[fork.block, NONE] = 1 - value
    made = rows.replace(kind=kind, data=data, dtype=dtype)
    return some.replace(locations=made, instructions=steps.replace(opcode=opcode, attrs=attrs)), taken


def test_forks_on_constants_take_one_arm() -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(30)):
        some, taken = settled(Random(f"settled, {seed}"), replace(ARMS, forks=(1, 3), loops=(0, 1)))
        compare(some, seen, taken)
    assert seen["programs"] > 0
    assert seen["ordered"] > 20 * seen["missed"]


LEAD = "mloc %lead dram.local size=4 {}\nmloc %s dram.shared size=64 {}"
CONST = 'kind=const dtype=s32 shape=[1] data="{}"'


def leads(first: str, second: str, before: str = "") -> Program:
    """Two cores that write `%s` in an arm, which each takes by its `%lead`."""
    texts = []
    for number, given in enumerate((first, second)):
        where = "remote=[s,0]" if number else "kind=inout"
        fork = branch("%w = iota @act () -> (%s)", None, attrs="divergent=true").replace("cond=go", "cond=lead")
        fork = fork.replace("block ^fork_then", f"{before.format(1 - number)}\nblock ^fork_then")
        texts.append("\n".join([LEAD.format(given, where), FORK, fork]))
    return program(*texts)


def test_a_core_that_never_takes_an_arm_does_not_write_there() -> None:
    one, zero = CONST.format("AQAAAA=="), CONST.format("AAAAAA==")
    assert all(map(is_proved, runs_of(leads(one, zero))))
    assert not any(map(is_proved, runs_of(leads(one, one))))
    plain, fill = "dtype=s32 shape=[1]", "%n = memset @pool () -> (%lead) value={}"
    assert all(map(is_proved, runs_of(leads(plain, plain, fill))))
    twice = fill + "\n%m = memset @pool () -> (%lead[0:1]) value=1"
    assert not any(map(is_proved, runs_of(leads(plain, plain, twice))))
    assert not any(map(is_proved, runs_of(leads("dtype=f32 shape=[1]", "dtype=f32 shape=[1]", fill))))


# -- times -----------------------------------------------------------------------------------------------------------


def test_seq_may_fall_where_a_loop_or_another_arm_is_between() -> None:
    def times(before: int, inside: int, behind: int) -> Program:
        body = f"%w = iota @act () -> (%a) seq={inside}"
        text = core(BUFFER, f"block ^entry -> ^loop:\n%i = iota @act () -> (%a) seq={before}", loop(body))
        return program(f"{text}\n%r = copy @act (%a) -> () seq={behind}")

    assert all(map(is_proved, runs_of(times(7, 2, 1))))
    arms = "%t = iota @act () -> (%a) seq={}", "%e = iota @act () -> (%a) seq={}"
    text = core(BUFFER, FORK, branch(arms[0].format(5), arms[1].format(5)), "%r = copy @act (%a) -> () seq={}")
    assert all(map(is_proved, runs_of(program(text.format(6)))))
    for wrong in (5, 4):
        (runs,) = runs_of(program(text.format(wrong)))
        found = examine(runs)
        reasons = [found.refusal] if found.refusal else [left.why() for left in found.pairs]
        assert reasons
        assert all("seq" in each.text for each in reasons)


def test_the_order_of_a_source_is_compared() -> None:
    text = core(BUFFER, FORK, branch("", None), "%w = iota @act () -> (%a)\n%r = copy @act (%a) -> ()")
    turned_text = text.replace(
        "%w = iota @act () -> (%a)\n%r = copy @act (%a) -> ()", "%r = copy @act (%a) -> ()\n%w = iota @act () -> (%a)"
    )
    some, other = program(text), program(turned_text)
    assert all(is_proved(runs, some) for runs in runs_of(some))
    assert not any(is_proved(runs, other) for runs in runs_of(some))


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_refusal_names_the_construct_and_its_block() -> None:
    fence = '%b = core_barrier @all () -> () name="b"'
    inner = branch(fence, None, name="in", behind=" -> ^fork_join")
    blocks = "block ^fork -> ^fork_then, ^fork_join cond=go divergent=true:", "block ^fork_then -> ^in:", inner
    text = core(BUFFER, FORK, *blocks, "block ^fork_join:")
    some = program(text, text)
    (runs,) = runs_of(some)
    refused = examine(runs).refusal
    assert refused is not None
    assert "%b" in refused.text
    assert runs.flow.name(refused.block) == "^in_then"
    assert some.instruction_name(refused.instruction) == "b"
