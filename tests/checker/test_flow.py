"""Proofs by data flow: claims against every run, patterns against every iteration, verdicts on whole programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from tests.checker.flow_judge import (
    Pair,
    Seen,
    all_pairs_of_runs,
    follow_all,
    judge_run,
    pairs_of,
    run_copies,
    run_of,
    turned,
)
from tests.checker.loop_generate import random_loops
from tests.checker.loop_snippets import BUFFER, START, branch, core, loop
from tests.checker.relay_programs import random_relays
from tests.checker.snippets import program
from tests.checker.test_check_loops_agree import SHAPES
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker.flow.follow import MOST, ORDERED, UNKNOWN, UNORDERED
from haulout.checker.flow.moving import FAR, Moving, meet
from haulout.checker.flow.prove import Examined, is_proved
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text, find_text
from haulout.checker.model import Function, Runs, functions
from haulout.checker.paths.runs import Choice
from haulout.checker.paths.step_trips import Copies
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic
from haulout.support.jit import compiled, interpreted

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


def compare(program: Program, seen: Counter[str], *, most: int = MOST, shown: int = 12) -> None:
    """What is claimed of a random program is so in all of its runs; what is followed then is found to be unordered if
    some run leaves it so, and that run is named. Some of the named runs are made.
    """
    for runs in runs_of(program):
        text, found = find_text(runs), all_pairs_of_runs(runs, 60)
        followed = None if isinstance(text, Refusal) else follow_all(text, most)
        if isinstance(text, Refusal) or found is None or followed is None:
            seen["skipped"] += 1
            continue
        pairs = pairs_of(text, followed)
        known = list(map(followed.known, range(len(pairs))))
        left = {pair for pair, each in zip(pairs, known, strict=True) if each != ORDERED}
        for some in (set(pairs), left):
            assert {pair for pair in found.unordered if not {pair, turned(pair)} & some} == set()
        ordered = {pair for pair in found.pairs if not {pair, turned(pair)} & found.unordered}
        seen.update(programs=1, unordered=len(found.unordered), ordered=len(ordered), pairs=len(pairs))
        seen.update(missed=len(ordered & set(pairs)), lost=len(ordered & left), unknown=known.count(UNKNOWN))
        copies = run_copies(runs)
        trips = {header: each.count for header, each in copies.items()}
        for row in range(0, len(pairs), len(pairs) // shown + 1):
            path = followed.path(row, trips)
            if followed.known(row) == UNORDERED:
                run = Seen(set(), set(), 1)
                assert path is not None and judge_run(runs, copies, run_of(runs, copies, path), run)
                assert {pairs[row], turned(pairs[row])} & run.unordered, (pairs[row], path)
                seen["shown"] += 1


@pytest.mark.parametrize("name", ORDERS)
def test_what_is_claimed_holds_in_every_run(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(40)):
        compare(random_loops(Random(f"{name}, {seed}"), ORDERS[name]), seen)
    assert seen["programs"] > 0
    assert seen["ordered"] > 20 * seen["missed"]
    assert seen["lost"] == 0


@pytest.mark.long("3 min")
def test_what_is_claimed_holds_in_every_run_of_many_programs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1060):
        for name in ORDERS:
            compare(random_loops(Random(f"{name}, {seed}"), ORDERS[name]), seen, shown=100)
    assert seen["unordered"] > 10_000
    assert seen["ordered"] > 1000 * seen["missed"]
    assert seen["lost"] == 0


@pytest.mark.parametrize("semaphores", [False, True])
def test_what_passes_from_engine_to_engine_is_followed(semaphores: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(60)):
        compare(random_relays(Random(f"relays {seed}"), semaphores=semaphores), seen)
    assert seen["unordered"] > 0
    assert seen["shown"] == 0 if semaphores else seen["shown"] > 0 and seen["lost"] == 0


@pytest.mark.parametrize("most", [1, 2])
def test_of_too_many_states_what_they_have_in_common_is_safe(most: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(60)):
        compare(random_relays(Random(f"few {seed}")), seen, most=most)
    assert seen["unknown"] < seen["pairs"]
    assert examples(60) < 60 or seen["unknown"] > 0


def follow_text(text: Text) -> list[tuple[Pair, int, dict[Choice, int] | None]]:
    """All that is known of the pairs of a text."""
    followed = follow_all(text)
    assert followed is not None
    pairs = pairs_of(text, followed)
    return [(pair, followed.known(row), followed.path(row, {})) for row, pair in enumerate(pairs)]


def test_plain_and_compiled_kernels_are_equal() -> None:
    for seed in range(examples(10)):
        for runs in runs_of(random_loops(Random(seed), SHAPES["branches"])):
            if not isinstance(text := find_text(runs), Refusal):
                with compiled():
                    found = follow_text(text)
                with interpreted():
                    assert follow_text(text) == found


# -- what the claims lose --------------------------------------------------------------------------------------------


def known_pairs(some: Program) -> dict[Pair, int]:
    """The pairs that the claims leave open, and what following them tells."""
    (runs,) = runs_of(some)
    text = find_text(runs)
    assert text is not None
    followed = follow_all(text)
    assert followed is not None
    return {pair: followed.known(row) for row, pair in enumerate(pairs_of(text, followed))}


WRITE, READ = "%w = iota @dma0 () -> (%a)", "copy @vector (%a) -> ()"


@pytest.mark.parametrize("waits, known", [("j,k", ORDERED), ("j", UNORDERED), ("k", UNORDERED)])
def test_another_engine_knows_in_each_arm(waits: str, known: int) -> None:
    arms = branch("%p = nop @pe () -> () deps=[w]", "%q = nop @act () -> () deps=[w]")
    behind = "%j = nop @pe () -> ()", "%k = nop @act () -> ()", f"%r = {READ} deps=[{waits}]"
    some = program(core(BUFFER, "block ^entry -> ^fork:", WRITE, arms, *behind))
    assert known_pairs(some)[0, 1, 0, 0] == known
    assert all(map(is_proved, runs_of(some))) == (known == ORDERED)


@pytest.mark.parametrize("trip, known", [(1, UNORDERED), (2, UNORDERED), (3, ORDERED), (1000, ORDERED)])
def test_each_iteration_of_a_constant_number_passes_it_on(trip: int, known: int) -> None:
    relay = (
        "%x = nop @pool () -> () carried=[y]",
        "%y = nop @act () -> () carried=[z]",
        "%z = nop @vector () -> () deps=[e]",
    )
    ends = "%o = nop @pool () -> ()", "%r = copy @pe (%a) -> () deps=[o]"
    start = "block ^entry -> ^loop:", WRITE, "%e = nop @sync () -> () deps=[w]"
    some = program(core(BUFFER, *start, loop(*relay, trip=trip), *ends))
    assert known_pairs(some)[0, 1, 0, 0] == known
    assert all(map(is_proved, runs_of(some))) == (known == ORDERED)


def test_a_run_of_many_iterations_leaves_a_pair_unordered() -> None:
    """Of each iteration one arm passes it on, so all have to take the other: the path says so for each of them."""
    arms = branch("%p = nop @pe () -> () deps=[e]", "%q = nop @act () -> ()")
    lines = [BUFFER, "block ^entry -> ^loop:", WRITE, "%e = nop @sync () -> () deps=[w]"]
    lines += ["block ^loop -> ^fork, ^done trip=200 cond=go:", arms.split("\n", 1)[0], *arms.split("\n")[1:-1]]
    lines += ["block ^fork_join -> ^loop:", "block ^done:", "%o = nop @pe () -> ()", f"%r = {READ} deps=[o]"]
    (runs,) = runs_of(program(core(*lines)))
    text = find_text(runs)
    assert text is not None
    followed = follow_all(text)
    assert followed is not None
    row = pairs_of(text, followed).index((0, 1, 0, 0))
    assert followed.known(row) == UNORDERED
    path = followed.path(row, {})
    assert path is not None
    assert sorted(around for (_, around, _), side in path.items() if side == 1) == [(at,) for at in range(200)]
    copies, run = {header: Copies(200) for header in run_copies(runs)}, Seen(set(), set(), 1)
    assert judge_run(runs, copies, run_of(runs, copies, path), run)
    assert (0, 1, 0, 0) in run.unordered


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


def certain(finding: Diagnostic) -> bool:
    """False for what a loop assumes, and for undefined bytes that reach something only if nothing is overwritten."""
    return finding.code != "assumed-trip" and not any("not in the run" in note for note in finding.notes)


def test_the_proof_agrees_with_the_runs() -> None:
    """What is proved has no finding when its runs are judged; nearly all that has none is proved."""
    seen: Counter[str] = Counter()
    for seed in range(examples(6)):
        for name in SHAPES:
            some = random_loops(Random(f"{name}, proof {seed}"), SHAPES[name])
            proved = all(map(is_proved, runs_of(some)))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("haulout.checker.driver.examine", lambda runs, source: Examined(Refusal("not asked")))
                clean = not [each for each in check_program(some, advise=False) if certain(each)]
            assert clean or not proved
            seen.update(clean=clean, proved=proved)
    assert seen["proved"] > 0.6 * seen["clean"]
