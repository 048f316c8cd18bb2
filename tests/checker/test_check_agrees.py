"""The checker against brute force (`judge.py`) over random programs: equal verdicts, and true pairs.

Thousands of them are for `benchmarks/judges.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checker.generate import Shape, random_program
from tests.checker.judge import Verdict, judge
from tests.checker.snippets import codes
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker import driver as checker
from haulout.checker.proofs import conflicts
from haulout.checker.proofs import extents as regions
from haulout.ir.program import Program
from haulout.ir.verify import verify
from haulout.support.diagnostics import Diagnostic

SHAPES = {
    "anything": Shape(),
    "clean but for one slip": Shape(orderly=1.0, slip=0.05, unknown=0.02),
    "clean, allocated": Shape(orderly=1.0, allocated=0.7, shared=(2, 4), private=(0, 3)),
    "ordered": Shape(engines=2, dependence=2.0, rendezvous=(2, 8), everyone=0.8, meeting=0.1, instructions=(2, 5)),
    "one engine": Shape(engines=1, rendezvous=(1, 8), everyone=0.3, meeting=0.4, instructions=(1, 4), shared=(1, 2)),
    "many lines": Shape(rendezvous=(3, 10), everyone=0.05, meeting=0.3, dependence=1.0, shared=(1, 2)),
    "atomics": Shape(atomic=0.8, dependence=1.0, private=(0, 1), shared=(1, 2), unknown=0.1, rendezvous=(1, 4)),
    "atomics, clean but for one slip": Shape(atomic=0.5, orderly=1.0, slip=0.1, unknown=0.02, shared=(1, 2)),
    "aliases": Shape(cores=(1, 2), dependence=1.5, allocated=1.0, private=(2, 5), shared=(0, 1), instructions=(3, 9)),
}
UNORDERED = {"cross-core-race", "possible-race", "missing-dependence", "benign-duplicate-write"}


def agree(program: Program) -> set[tuple[str, str]]:
    """Compare both verdicts on a program; returns the checker's codes with their severities."""
    wanted, findings = judge(program), check_program(program, advise=False)
    found = {(finding.code, finding.severity.name) for finding in findings}
    values = {each for each in found if each[0] == "uninitialized-read"}
    rest, codes = found - values, set(wanted.codes)
    # A pair against the source's order may stay untold behind an unordered pair of the same bytes.
    if wanted.aliased or UNORDERED & {code for code, _ in codes} or ("view-mismatch", "ERROR") in codes:
        rest.discard(("unfaithful-order", "ERROR"))
        codes.discard(("unfaithful-order", "ERROR"))
    # So may a benign write.
    if (UNORDERED - {"benign-duplicate-write"}) & {code for code, _ in codes}:
        rest.discard(("benign-duplicate-write", "NOTE"))
        codes.discard(("benign-duplicate-write", "NOTE"))
    assert rest == codes
    must, may = wanted.values
    if ("view-mismatch", "ERROR") not in codes:
        assert values <= may
        assert wanted.aliased or must <= values
    pairs_are_true(program, wanted, findings)
    return found


def pairs_are_true(program: Program, wanted: Verdict, findings: list[Diagnostic]) -> None:
    """Each pair that is shown is one of those that brute force finds, under the same code."""
    rows = {
        (program.instruction_name(row), int(program.instruction_core[row])): row
        for row in range(len(program.instructions))
    }
    for finding in findings:
        if (
            finding.code not in {*UNORDERED, "unfaithful-order", "order-dependent-result"}
            or "falls" in finding.message
        ):
            continue
        shown = [re.match(r"%(\S+) on core (\d+)", label.message) for label in finding.labels[:2]]
        pair = frozenset(rows[match[1], int(match[2])] for match in shown if match)
        assert pair in wanted.pairs[finding.code], finding


@pytest.mark.thin(7, "65 s")
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", ["plain", "compiled", "apart"])
def test_agrees_with_brute_force(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "compiled":
        monkeypatch.setattr(checker, "plain_if_small", lambda kernel, work: nullcontext())
    if way == "apart":  # strided regions are compared pair by pair, not cut into atoms
        monkeypatch.setattr(regions, "MOST_RUNS", 2)
    seen: Counter[str] = Counter()
    for seed in range(90):
        seen.update(code for code, _ in agree(random_program(Random(f"{name}, {seed}"), SHAPES[name])) or [("", "")])
    if name.startswith("clean"):
        assert seen[""] > 20
    else:
        assert seen["cross-core-race"] > 7


@pytest.mark.thin(2, "7 s")
@pytest.mark.parametrize(("budget", "limit"), [("RUN_BUDGET", 6), ("COVER_BUDGET", 3)])
def test_agrees_when_cuts_are_too_fine(budget: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, budget, limit)
    for seed in range(100):
        agree(random_program(Random(f"fine {seed}"), SHAPES["anything"]))


@pytest.mark.thin(5, "10 s")
@pytest.mark.parametrize("name", ["clean but for one slip", "clean, allocated", "aliases", "one engine", "atomics"])
def test_nothing_bad_is_called_clean_by_one_sweep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep that forgets what a write has replaced, alone: what it finds may be less, never nothing."""
    monkeypatch.setattr(conflicts, "THOROUGH", -1)
    for seed in range(80):
        program = random_program(Random(f"one sweep {name} {seed}"), SHAPES[name])
        wanted = judge(program)
        bad = bool(wanted.codes or wanted.values[0])
        found = {finding.code for finding in check_program(program, advise=False)}
        assert bool(found) == bad or (not bad and found <= {code for code, _ in wanted.values[1]})


ADD, MAXIMUM = ("%{} = " + each + " @act (%t) -> (%t) dtypes=[u8,u8] atomic=[0,1]\n" for each in ("add", "maximum"))
ZERO, ONES = (f"%{{}} = memset @act () -> (%t) value={value}\n" for value in (0, 1))


@pytest.mark.parametrize(("before", "write"), [(ADD, ZERO), (ONES, ADD), (ZERO, ADD), (MAXIMUM, ADD)])
@pytest.mark.parametrize("first", [0, 1])
def test_what_needs_no_order_hides_nothing(
    before: str, write: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes that need no order, one of them behind another write of its queue: that one needs it."""
    monkeypatch.setattr(conflicts, "THOROUGH", -1)
    idle = "".join(f"%n{at} = nop @act () -> ()\n" for at in range(4))  # so that the schedule has it last
    sides = [before.format("a") + write.format("b"), idle + write.format("b")]
    owner, view = "mloc %t dram.shared size=8 kind=inout\n", "mloc %t dram.shared size=8 remote=[t,0]\n"
    assert "cross-core-race" in codes(owner + sides[first], view + sides[1 - first])


@settings(max_examples=examples(80))
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(SHAPES)))
def test_agrees_on_whatever_hypothesis_draws(random: Random, name: str) -> None:
    agree(random_program(random, SHAPES[name]))


def test_generated_programs_are_sound() -> None:
    for seed in range(150):
        assert [str(each) for each in verify(random_program(Random(seed)))] == []


@pytest.mark.long("20 s")
def test_findings_are_the_same_on_every_run() -> None:
    for seed in range(40):
        first, second = (check_program(random_program(Random(seed))) for _ in range(2))
        assert first == second
