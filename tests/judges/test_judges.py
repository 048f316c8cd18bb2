"""Every judge on programs whose verdict anybody can see, against each other, and against the checker."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.brute import unordered
from tests.checker.generate import Shape
from tests.checker.generate import random_program as random_list
from tests.judges.small import CASES, case

import haulout_judges as judges
from haulout.checker import check_program
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.verify import verify
from haulout.support.diagnostics import Diagnostic, Severity
from haulout_generators.loop_programs import damaged, random_judged_loops
from haulout_judges import JUDGES, Outcome, exhaustive, reachability, spin, threads
from haulout_judges.checked import checker_verdict, differs, verdict_of
from haulout_judges.straight import NotStraightError, runs

IN_PYTHON = ("reachability", "exhaustive", "schedules", "simulator")
needs_spin = pytest.mark.skipif(not spin.available(), reason="needs spin and gcc")
LISTS = (
    Shape(cores=(2, 5)),
    Shape(cores=(2, 8), orderly=1.0, slip=0.05, unknown=0.02),
    Shape(rendezvous=(3, 10), everyone=0.05, meeting=0.3, dependence=1.0, shared=(1, 2)),
)


@pytest.fixture(scope="module")
def sanitizer() -> None:
    """Makes the interpreter, which takes a second or two."""
    if threads.interpreter() is None:
        pytest.skip("needs gcc with -fsanitize=thread")


def drawn(number: int) -> Program:
    """Lists, loops, and loops with something missing, in turn."""
    rng = Random(f"judged {number}")
    if number % 2:
        return random_list(rng, LISTS[number // 2 % len(LISTS)])
    program = random_judged_loops(rng, depth=1 + number % 4 // 2, order=rng.choice((0.9, 1.0)))
    return next(damaged(program, rng)) if number % 6 == 0 else program


# -- what anybody can see --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("judge", IN_PYTHON)
@pytest.mark.parametrize("name", CASES)
def test_plain_cases(name: str, judge: str) -> None:
    program, outcome = case(name)
    verdict = JUDGES[judge](program)
    assert verdict.outcome is outcome, verdict.reason


@pytest.mark.parametrize("name", CASES)
def test_the_checker_on_plain_cases(name: str) -> None:
    program, outcome = case(name)
    assert checker_verdict(program).outcome is outcome


@needs_spin
def test_plain_cases_by_spin() -> None:
    cases = {name: case(name) for name in CASES}
    verdicts = spin.judge_all([program for program, _ in cases.values()])
    for (name, (_, outcome)), verdict in zip(cases.items(), verdicts, strict=True):
        # A crowd has too many states.
        assert verdict.outcome in (outcome, Outcome.UNJUDGED), name
    assert sum(verdict.outcome is Outcome.UNJUDGED for verdict in verdicts) < 4


@pytest.mark.thin(4, "8 s")
@pytest.mark.usefixtures("sanitizer")
@pytest.mark.parametrize("name", CASES)
def test_plain_cases_by_the_thread_sanitizer(name: str) -> None:
    program, outcome = case(name)
    assert threads.judge(program).outcome is outcome


# -- random programs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("judge", IN_PYTHON)
def test_the_checker_agrees_with_judges_in_python(judge: str) -> None:
    seen: Counter[Outcome] = Counter()
    for number in range(40):
        program = drawn(number)
        assert verify(program) == []
        verdict = JUDGES[judge](program)
        seen[verdict.outcome] += 1
        assert differs(program, verdict, check_program(program, advise=False)) == "", number
    assert seen[Outcome.CLEAN] > 6
    assert seen[Outcome.RACE] > 6
    assert seen[Outcome.UNJUDGED] < 15


@needs_spin
def test_the_checker_agrees_with_spin() -> None:
    programs = [program for program in map(drawn, range(80)) if spin.suits(program)][:16]
    for program, verdict in zip(programs, spin.judge_all(programs), strict=True):
        assert differs(program, verdict, check_program(program, advise=False)) == ""
        wanted = reachability.judge(program)
        assert (verdict.outcome, verdict.pairs) == (wanted.outcome, wanted.pairs)


@pytest.mark.usefixtures("sanitizer")
def test_the_checker_agrees_with_the_thread_sanitizer() -> None:
    for number in range(40):
        program = drawn(number)
        assert differs(program, threads.judge(program), check_program(program, advise=False)) == "", number


@pytest.mark.long("5 s")
def test_reachability_and_exploration_find_the_same_pairs() -> None:
    compared = 0
    for number in range(80):
        program = drawn(number)
        explored, reached = exhaustive.judge(program), reachability.judge(program)
        if explored.outcome is Outcome.UNJUDGED or (explored.outcome is Outcome.RACE and explored.pairs is None):
            continue
        assert (explored.outcome, explored.pairs) == (reached.outcome, reached.pairs)
        compared += 1
    assert compared > 50


def test_reachability_agrees_with_the_transitive_closure_of_the_tests() -> None:
    """Another closure, written for the passes' tests: barriers and dependences, no exchanges, no loops."""
    shape = Shape(meeting=0.0, broken=0.0, unknown=0.0, allocated=0.0, everyone=1.0)
    for seed in range(80):
        program = random_list(Random(seed), shape)
        verdict = reachability.judge(program)
        if verdict.outcome is Outcome.HANG or (program.locations.address != NONE).any():
            continue  # the other one judges names, not addresses
        assert verdict.pairs == {(a, b) for a, b, _ in unordered(program)}


# -- how judges read programs ----------------------------------------------------------------------------------------


def test_runs_are_all_trip_counts() -> None:
    program, _ = case("a loop that may not run")
    lengths = sorted(sum(step.core == 0 for step in steps) for steps in runs(program))
    # k iterations: k + 1 headers with a branch each, k barriers.
    assert lengths == [2, 5, 8, 11]
    program, _ = case("a loop that must run")
    assert len(list(runs(program))) == 1


def test_too_many_iterations_are_said_to_be_too_many() -> None:
    cores, _ = CASES["a loop that must run"]
    from tests.checker.snippets import program

    long = program(*(text.replace("trip=1", "trip=100000") for text in cores))
    with pytest.raises(NotStraightError):
        list(runs(long))
    assert all(JUDGES[name](long).outcome is Outcome.UNJUDGED for name in JUDGES if name != "threads")


def test_what_the_checker_does_not_prove_is_no_verdict_of_it() -> None:
    found = [Diagnostic("unproved-paths", Severity.WARNING, "checked 32 paths")]
    assert verdict_of(found).outcome is Outcome.UNJUDGED
    race = Diagnostic("cross-core-race", Severity.ERROR, "a race")
    assert verdict_of([*found, race]).outcome is Outcome.RACE


def test_equal_programs_give_equal_verdicts() -> None:
    for number in range(10):
        assert reachability.judge(drawn(number)) == reachability.judge(drawn(number))


def test_judges_share_nothing_with_the_checker() -> None:
    folder = Path(judges.__file__).parent
    own = [path for path in sorted(folder.glob("*.py")) if path.name not in {"checked.py", "advised.py"}]
    assert len(own) > 5  # the two compare them with the checker
    for path in own:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not any(
                name.startswith(("haulout.checker", "haulout.passes", "haulout.analysis")) for name in names
            )
            assert not any(name.endswith(("judges.checked", "judges.advised")) for name in names)
