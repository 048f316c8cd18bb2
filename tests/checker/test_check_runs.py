"""Which runs of a function with loops and forks are judged: those that data flow names, or all that there are."""

from __future__ import annotations

from itertools import islice, product
from random import Random

import pytest
from tests.checker.loop_generate import random_loops
from tests.checker.loop_snippets import BUFFER, branch, core, loop
from tests.checker.snippets import codes, findings, program
from tests.checker.test_held import ONE_ENGINE
from tests.tiers import examples

from haulout.checker import check_program, driver
from haulout.checker.driver import _check_runs
from haulout.checker.flow.prove import Examined, examine
from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Function, Runs, functions
from haulout.checker.paths.runs import every_run
from haulout.support.diagnostics import Severity

WRITE = "%w = iota @act () -> (%a)"
READ = "%r = copy @pe (%a) -> ()"


def runs_of(*texts: str) -> Runs:
    (function,) = functions(program(*texts))
    assert isinstance(function, Function)
    assert function.runs is not None
    return function.runs


def forks(count: int, *inside: str, attrs: str = "", after: str = "") -> str:
    """Forks in a row, each with instructions in both of its arms."""
    parts = [core(BUFFER, "block ^entry -> ^f0:")]
    for at in range(count):
        then, other = (
            inside[at] if at < len(inside) else f"%n{at} = nop @act () -> ()",
            f"%m{at} = nop @act () -> ()",
        )
        behind = "" if at == count - 1 else f" -> ^f{at + 1}"
        parts.append(branch(then, other, name=f"f{at}", attrs=attrs, behind=behind))
    return "\n".join([*parts, after])


def test_every_run_comes_once() -> None:
    runs = runs_of(forks(3))
    every = list(every_run(runs.flow.structure, runs.copies(deep=False), 1, 64))
    taken = [tuple(arms[0] for _, arms in run.taken) for run in every]
    assert len(taken) == 8
    assert set(taken) == set(product((0, 1), repeat=3))
    assert taken[:2] == [(0, 0, 0), (1, 1, 1)]


def test_every_core_chooses_for_itself() -> None:
    text = forks(2, attrs="divergent=true")
    runs = runs_of(text, text)
    every = every_run(runs.flow.structure, runs.copies(deep=False), 2, 64)
    assert len({tuple(arms for _, arms in run.taken) for run in every}) == 16


def test_loops_of_unknown_count_run_and_do_not() -> None:
    inner = branch(name="fork", behind=" -> ^loop")
    lines = ["block ^loop -> ^fork, ^done cond=go:", inner, "block ^done:"]
    runs = runs_of(core("block ^entry -> ^loop:", *lines))
    copies = runs.copies(deep=False)
    (header,) = copies
    most = copies[header].count
    every = list(every_run(runs.flow.structure, copies, 1, 64))
    assert len(every) == 2**most + 1  # each arm in each iteration, and no iteration
    assert len({run.executions for run in every}) == len(every)
    assert [len(run.taken) for run in every].count(0) == 1
    assert len(every[0].taken) == most


def test_few_of_many_runs_have_most_combinations_of_two_arms() -> None:
    runs = runs_of(forks(40))
    some = islice(every_run(runs.flow.structure, runs.copies(deep=False), 1, 64), 64)
    taken = [tuple(arms[0] for _, arms in run.taken) for run in some]
    pairs = {(at, to, run[at], run[to]) for run in taken for at in range(40) for to in range(at)}
    assert len(pairs) > 0.9 * 4 * 40 * 39 / 2


def test_a_fault_in_a_function_with_few_paths_takes_few_runs() -> None:
    """Of 64 paths those are looked at that data flow names."""
    text = forks(6, after=f"{WRITE}\n{READ}")
    runs = runs_of(text)
    checked = _check_runs(runs, None, examine(runs))
    assert checked.faults
    assert not checked.unproved
    assert len(checked.runs) < 4


def test_both_directions_of_a_pair_are_found() -> None:
    """In an iteration the read does not wait for the write; the next write does not wait for the read."""
    found = findings(core(BUFFER, "block ^entry -> ^loop:", loop(WRITE, READ, trip=None)))
    assert {each.code for each in found} == {"missing-dependence"}
    kinds = {each.subject.kind for each in found if each.subject is not None}
    assert kinds == {"read after write", "write after read"}


def test_a_fault_that_one_run_shows_without_assumptions_is_certain() -> None:
    """The second arm writes elsewhere: whichever arm runs, the read finds unwritten bytes."""
    text = core(
        "mloc %t dram.local size=64",
        "mloc %o dram.local size=64 kind=output",
        "block ^entry -> ^fork:",
        branch("%n = nop @act () -> ()", "%p = iota @act () -> (%t[0:4])"),
        "%r = copy @act (%t) -> (%o)",
    )
    (found,) = findings(text)
    assert (found.code, found.severity) == ("uninitialized-read", Severity.ERROR)


# -- as many iterations as show everything ---------------------------------------------------------------------------

SHARED = """
    mloc %y dram.local size=4 kind=inout address=256
    mloc %a dram.local size=64 address=0
    mloc %b dram.local size=64 align=32 address=32
    mloc %d dram.local size=64 address=128
"""
TURNS = [
    "block ^loop -> ^body, ^done cond=go{}:",
    "block ^body -> ^wa, ^wb cond=go:",
    "%r = copy @act (%a) -> (%d)",
    "block ^wa -> ^wj:",
    "%w = iota @act () -> (%a)",
    "block ^wb -> ^wj:",
    "%v = iota @act () -> (%b)",
    "%q = copy @act (%b) -> (%d)",
    "block ^wj -> ^loop:",
    "block ^done:",
]


@pytest.mark.parametrize(("trip", "found"), [("", True), (" trip=5", True), (" trip=3", True), (" trip=2", False)])
def test_three_iterations_that_take_turns_on_their_bytes(trip: str, found: bool) -> None:
    """One fills %a, the next one takes its bytes, the third one reads them, also where data flow does not decide:
    a wait for what nothing signals before it, and a signal whose amount another one could stand in for.
    """
    behind = "%z = nop @act () -> () signal=[[t,1]]"
    turns = "\n".join(TURNS).format(trip)
    waits = core(SHARED, "block ^entry -> ^loop:", "%i = nop @act () -> () wait=[[t,1]]", turns, behind)
    waits = waits.replace("%v = iota @act () -> (%b)", "%v = iota @act () -> (%b) signal=[[t,1]]")
    amounts = core(
        SHARED,
        "block ^entry -> ^f:",
        "%i = op @act (%y) -> () signal=[[t,2]]",
        branch("%j = op @dma0 () -> (%y) wait_back=[[t,0]]", None, name="f", behind=" -> ^loop"),
        "%k = op @dma0 () -> () signal=[[t,1]]",
        turns,
    )
    assert ("overlapping-storage" in codes(amounts)) == found
    assert found <= ("overlapping-storage" in codes(waits) or "deadlock" in codes(waits))


@pytest.mark.parametrize("name", ONE_ENGINE)
def test_runs_alone_find_what_data_flow_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be too many, or say less of undefined bytes, but never call clean what is not, nor wrong what is."""
    clean = wrong = 0
    for seed in range(examples(60)):
        some = random_loops(Random(f"{name}, runs {seed}"), ONE_ENGINE[name])
        known = {each.code for each in check_program(some, advise=False)}
        with monkeypatch.context() as patch:
            patch.setattr(driver, "examine", lambda runs, source: Examined(Refusal("asked not to")))
            after = check_program(some, advise=False)
        found = {each.code for each in after}
        assert {each.code for each in after if each.severity == Severity.ERROR} <= known, seed
        assert found or not known, seed
        clean, wrong = clean + (not known), wrong + (known == found != set())
    assert examples(60) < 60 or min(clean, wrong) > 0
