"""What runs are stuck in, by data flow: against every run, and the findings against those of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from random import Random

import pytest
from tests.checker.flow_judge import Seen, judge_run, run_copies
from tests.checker.loop_generate import random_loops
from tests.checker.loop_snippets import BUFFER, FENCE, FORK, START, branch, core, loop
from tests.checker.snippets import codes, program
from tests.checker.test_check_loops_agree import BRANCHES
from tests.checker.test_check_semaphores_agree import scattered as with_loops
from tests.checker.test_check_semaphores_paths import changed, lowered
from tests.checker.test_check_semaphores_paths import scattered as with_forks
from tests.checker.test_flow import EXCHANGES, runs_of
from tests.checker.test_flow_kinds import MEETINGS
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker.driver import _check_runs
from haulout.checker.flow.prove import Examined, examine
from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Runs
from haulout.checker.paths.narrowed import Narrowed
from haulout.checker.paths.runs import every_run, walk
from haulout.ir.program import Program

MOST_RUNS = 100
APART = [shape for name, shape in {**BRANCHES, **EXCHANGES, **MEETINGS}.items() if "arm" in name or "me" in name]


def differing(random: Random) -> Program:
    """Divergent forks, most of them with meetings, that many arms do not have alike."""
    shape = random.choice([BRANCHES["divergent"], *APART])
    return random_loops(random, replace(shape, met=random.choice((0.5, 1.0)), odd=0.5, one_arm=0.4))


def damaged(random: Random) -> Program:
    """A compiled program, with a signal or a wait changed."""
    some = lowered(random)
    return changed(some, random) or some


KINDS: dict[str, Callable[[Random], Program]] = {
    "loops": lambda random: with_loops(random, random.random() < 0.5),
    "forks": with_forks,
    "damaged": damaged,
    "arms": differing,
}


def left_out(runs: Runs, rest: Narrowed | None) -> list[bool] | None:
    """Of each run that choices which are left out make: whether it is stuck. None: there are too many runs."""
    copies, structure, cores = run_copies(runs), runs.flow.structure, len(runs.flow.functions)
    every = list(islice(every_run(structure, copies, cores, MOST_RUNS), MOST_RUNS + 1))
    if len(every) > MOST_RUNS:
        return None
    kept = set()
    if rest is not None:
        left = every_run(structure, copies, cores, MOST_RUNS, rest.left)
        kept = {(run.executions, run.cores) for run in left}
    return [
        not judge_run(runs, copies, run, Seen(set(), set(), 1))
        for run in every
        if (run.executions, run.cores) not in kept
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_stuck(kind: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(40)):
        for runs in runs_of(KINDS[kind](Random(f"{kind} {seed}"))):
            found = examine(runs)
            if not found.stuck:
                continue
            for each in found.stuck:
                copies, cores = run_copies(runs), len(runs.flow.functions)
                run = walk(runs.flow.structure, copies, cores, each.narrowed.follow(each.path))
                assert not judge_run(runs, copies, run, Seen(set(), set(), 1)), each
            out = left_out(runs, found.narrowed)
            if out is not None:
                assert all(out), (seed, found.stuck)
                seen.update(functions=1, runs=len(out))
    assert seen["functions"] > 0 or examples(40) < 40


@pytest.mark.parametrize("kind", KINDS)
def test_findings_are_those_of_every_run(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same codes, where there are few enough runs to look at all of them."""
    seen: Counter[str] = Counter()
    for seed in range(examples(30)):
        some = KINDS[kind](Random(f"{kind}, findings {seed}"))
        if not any(examine(runs).stuck for runs in runs_of(some)):
            continue
        found = {each.code for each in check_program(some, advise=False)}
        with monkeypatch.context() as patch:
            patch.setattr("haulout.checker.driver.examine", lambda runs, source: Examined(Refusal("not asked")))
            wanted = {each.code for each in check_program(some, advise=False)}
        if "unproved-paths" not in wanted:
            assert found == wanted, seed
            seen["programs"] += 1
    assert seen["programs"] > 0 or examples(30) < 30


# -- one by one ------------------------------------------------------------------------------------------------------


def stuck_in(*texts: str) -> list[str]:
    """What is not enumerated: the codes of a program, and of each that runs are stuck in, its instruction."""
    some = program(*texts)
    (runs,) = runs_of(some)
    found = examine(runs)
    assert found.refusal is None
    assert not _check_runs(runs, None, found).unproved
    assert len(_check_runs(runs, None, found).runs) < 6
    return [*sorted(set(codes(*texts))), *(some.instruction_name(each.instruction) for each in found.stuck)]


RACE = "%w = iota @act () -> (%a)", "%r = copy @pe (%a) -> ()"


def test_a_wait_in_a_loop_for_its_own_signal() -> None:
    """The first iteration is stuck; behind the loop, where it does not run, is a race."""
    body = "%p = nop @pe () -> () signal=[[s,1]] wait=[[s,1]]"
    text = core(BUFFER, START, loop(body, trip=None), *RACE)
    assert stuck_in(text) == ["deadlock", "missing-dependence", "p"]
    assert stuck_in(text.replace("cond=go", "trip=2 cond=go")) == ["deadlock", "p"]


def test_an_engine_that_runs_ahead_may_signal() -> None:
    """The signal comes later in the text, and need not wait for the wait; with a fence between it does."""
    wait, signal = "%p = nop @pe () -> () wait=[[s,1]]", "%q = nop @act () -> () signal=[[s,1]]"
    arms = branch("%n = nop @pool () -> ()", None)
    alone = core(BUFFER, FORK, wait, arms, signal)
    assert codes(alone) == []
    assert stuck_in(core(BUFFER, FORK, wait, '%b = core_barrier @all () -> () name="b"', arms, signal)) == [
        "deadlock",
        "p",
    ]


def test_both_arms_are_stuck() -> None:
    wait = "nop @pe () -> () wait=[[s,1]]"
    text = core(BUFFER, FORK, branch(f"%p = {wait}", f"%q = {wait}"), *RACE)
    assert stuck_in(text) == ["deadlock", "p", "q"]


def test_cores_that_wait_in_one_arm_take_the_same() -> None:
    """Where both take the first arm they meet; where both take the second there is a race behind it."""
    fence = FENCE.format("b")
    cores = []
    for number, work in enumerate(("%w = iota @act () -> (%s)", "%r = copy @act (%s) -> ()")):
        where = "remote=[s,0]" if number else "kind=inout"
        shared = f"mloc %s dram.shared size=64 {where}"
        first, second = (work, "") if number == 0 else ("", work)
        cores.append(core(shared, FORK, first, branch(fence, None, attrs="divergent=true"), second))
    assert stuck_in(*cores) == ["barrier-mismatch", "cross-core-race", "b"]


def test_a_core_whose_arm_waits_for_one_that_never_comes_takes_the_other() -> None:
    fence = branch(FENCE.format("b"), None, attrs="divergent=true")
    plain = branch("%n = nop @pool () -> ()", None, attrs="divergent=true")
    assert stuck_in(core(BUFFER, FORK, fence, *RACE), core(BUFFER, FORK, plain)) == [
        "barrier-mismatch",
        "missing-dependence",
        "b",
    ]


def test_barriers_may_make_up_for_each_other_later() -> None:
    """A core that did not meet in the first branch may in the second, so nothing is left out."""
    first = branch(FENCE.format("b").replace("@all", "@pool"), None, attrs="divergent=true", behind=" -> ^next")
    second = branch(
        FENCE.format("c").replace("@all", "@pool").replace('"c"', '"b"'), None, name="next", attrs="divergent=true"
    )
    text = core(BUFFER, FORK, first, second)
    (runs,) = runs_of(program(text, text))
    assert not examine(runs).stuck
    assert set(codes(text, text)) == {"barrier-mismatch"}
