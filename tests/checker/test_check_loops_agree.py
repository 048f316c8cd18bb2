"""The checker on programs with loops and branches against every run of them (`loop_judge.py`): equal verdicts."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checker.loop_generate import LoopShape, random_loops
from tests.checker.loop_judge import judge_loops
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker import driver as checker
from haulout.checker.proofs import extents
from haulout.ir.enums import Engine, Kind
from haulout.ir.program import Program
from haulout.ir.verify import verify

SHAPES = {
    "anything": LoopShape(),
    "chained": LoopShape(chained=1.0, slip=0.06),
    "zero trips": LoopShape(chained=0.7, slip=0.05, unknown_loops=3, loops=(1, 2)),
    "one core": LoopShape(cores=(1, 1), chained=0.3, barrier=0.1),
    "moving patterns": LoopShape(
        chained=0.8, slip=0.05, stepped=0.6, unknown=0.0, unknown_loops=1, loops=(1, 2), depth=2
    ),
    "carried": LoopShape(
        cores=(1, 1), chained=1.0, slip=0.0, fenced=0.0, broken=0.4, kinds=(Kind.INOUT,), loops=(1, 2)
    ),
    "atomics": LoopShape(atomic=0.7, chained=0.7, slip=0.05, stepped=0.3, unknown_loops=1, loops=(1, 2)),
    "shared bytes": LoopShape(chained=0.9, slip=0.03, addresses=1.0, unknown=0.0),
}
FORKS = LoopShape(chained=0.8, slip=0.06, forks=(1, 3), loops=(0, 1), depth=3, unknown_loops=1)
BRANCHES = {
    "branches": FORKS,
    "branches, anything": replace(FORKS, chained=0.0, loops=(0, 2), barrier=0.2),
    "branches, one core": replace(FORKS, cores=(1, 1), chained=0.4, loops=(0, 2)),
    "divergent": replace(FORKS, cores=(2, 2), divergent=1.0, forks=(1, 2), met=0.5),
    "branches, shared bytes": replace(FORKS, chained=0.9, slip=0.03, addresses=1.0, unknown=0.0),
    "branches, atomics": replace(FORKS, atomic=0.7),
    "branches, values": replace(FORKS, kinds=(Kind.INTERNAL, Kind.OUTPUT), work=(1, 2), partial=0.2),
}
APART = replace(FORKS, cores=(3, 4), divergent=0.8, forks=(1, 2), unknown_loops=0, trips=(1, 2), depth=2, met=0.0)
BRANCHES |= {
    "each core its own arm": replace(APART, slip=0.02),
    "some cores meet": replace(APART, slip=0.02, subset=0.5, lines=(Engine.ALL, Engine.ALL, Engine.POOL)),
    "arms that share": replace(APART, stray=0.15, fenced=0.9),
}
SHAPES |= BRANCHES
ORDER = {"cross-core-race", "possible-race", "missing-dependence"}
VALUES = {"uninitialized-read", "output-not-written"}


def agree(program: Program, runs: int = 60) -> set[str] | None:
    """Compare both verdicts on a program; returns the checker's codes, None when it has too many runs."""
    wanted = judge_loops(program, runs)
    if wanted is None:
        return None
    findings = check_program(program, advise=False)
    codes = {each.code for each in findings}
    order = {(each.code, each.severity.name) for each in findings if each.code in ORDER}
    assert order <= wanted.order
    assert codes & VALUES <= wanted.may
    assert "barrier-mismatch" not in codes or wanted.mismatch
    assert codes <= ORDER | VALUES | {
        "overlapping-storage",
        "unfaithful-order",
        "deadlock",
        "barrier-mismatch",
        "unproved-paths",
    }
    if "unproved-paths" in codes:
        return codes
    assert order == wanted.order
    assert ("barrier-mismatch" in codes) == wanted.mismatch
    assert ("deadlock" in codes) == wanted.deadlock
    if not wanted.aliased:
        assert wanted.must <= codes & VALUES
    if not wanted.order:  # otherwise what a read finds, and which order there is, is left to chance
        assert ("overlapping-storage" in codes) == wanted.storage
        assert wanted.aliased or ("unfaithful-order" in codes) == wanted.unfaithful
    return codes


@pytest.mark.thin(5, "25 s")
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", ["plain", "compiled", "apart"])
def test_agrees_with_every_run(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "compiled":
        monkeypatch.setattr(checker, "plain_if_small", lambda kernel, work: nullcontext())
    if way == "apart":  # strided regions are compared pair by pair, not cut into atoms
        monkeypatch.setattr(extents, "MAX_RUNS", 2)
    seen: Counter[str] = Counter()
    count = 24 if way == "plain" else 6
    for seed in range(count if name not in BRANCHES else count // 3):
        codes = agree(random_loops(Random(f"{name}, {way}, {seed}"), SHAPES[name]))
        seen.update({"skipped"} if codes is None else codes or {"clean"})
    assert seen["clean"] > 1 or name in BRANCHES or count < 24
    assert seen["skipped"] < 20
    assert seen["unproved-paths"] < 5


@pytest.mark.thin(3, "6 s")
@pytest.mark.parametrize("name", BRANCHES)
def test_what_few_runs_prove_is_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any runs most is proved by data flow, and the rest is said."""
    monkeypatch.setattr(checker, "_MAX_RUNS", 3)
    seen: Counter[str] = Counter()
    for seed in range(12):
        codes = agree(random_loops(Random(f"{name}, few, {seed}"), SHAPES[name]))
        seen.update({"skipped"} if codes is None else codes or {"clean"})
    assert seen["unproved-paths"] < 3


@settings(max_examples=examples(30))
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(SHAPES)))
def test_agrees_on_whatever_hypothesis_draws(random: Random, name: str) -> None:
    agree(random_loops(random, SHAPES[name]))


def test_generated_programs_are_sound() -> None:
    for name, shape in SHAPES.items():
        for seed in range(20):
            assert [str(each) for each in verify(random_loops(Random(f"{name} {seed}"), shape))] == []


@pytest.mark.long("10 s")
def test_findings_are_the_same_on_every_run() -> None:
    for seed in range(15):
        first, second = (check_program(random_loops(Random(seed), SHAPES["anything"])) for _ in range(2))
        assert first == second
