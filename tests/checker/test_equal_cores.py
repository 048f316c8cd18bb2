"""Claims of `same=`: what the checker derives, and what it doubts, against labels, examples and the simulator."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.equal_cores import compare, held_bytes, lowered

from haulout.analysis.core_labels import core_labels
from haulout.checker.values.equal_cores import unproved_claims
from haulout.ir.attributes import format_value
from haulout.ir.core_classes import claims
from haulout.ir.enums import NONE, Kind
from haulout.ir.partitions import to_classes
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import check_sound
from haulout.passes.base import PassContext
from haulout.passes.mark_uniform import MarkUniform
from haulout_generators.lockstep_programs import lockstep_inputs, random_lockstep_program


def marked(program: Program) -> Program:
    return check_sound(MarkUniform().run(program, PassContext()))


def claimed(program: Program, labels: Ids) -> Program:
    """The program with these classes claimed of every location that is no input."""
    same = np.full(len(labels), NONE, np.int32)
    for row, line in enumerate(labels.tolist()):
        classes = [list(each) for each in to_classes(tuple(line)) if len(each) > 1]
        if classes:
            same[row] = program.strings.intern(format_value([list(each) for each in classes]))
    rows = program.locations
    inputs = np.isin(rows.kind, (Kind.INPUT, Kind.INOUT))
    everywhere = np.where(inputs, rows.same, np.tile(same, program.lnc)).astype(np.int32)
    return program.replace(locations=rows.replace(same=everywhere))


def doubted(program: Program) -> set[str]:
    found = unproved_claims(program)
    assert all(each.code == "equal-bytes-unproved" for each in found)
    return {each.message.split()[0][1:] for each in found}


@given(st.integers(0, 10**9))
def test_what_the_pass_marks_is_derived(seed: int) -> None:
    program = marked(random_lockstep_program(Random(seed)))
    assert len(claims(program))
    assert unproved_claims(program) == []
    assert unproved_claims(parse_bir(print_bir(program))) == []


def _coarser(rng: Random, labels: Ids) -> Ids:
    """Two classes of some locations joined, at random."""
    found = labels.copy()
    for row in range(len(found)):
        one, other = sorted(rng.sample(range(found.shape[1]), 2))
        low, high = sorted((int(found[row, one]), int(found[row, other])))
        found[row, found[row] == high] = low
    return found


def _accepted_and_compared(seed: int) -> tuple[int, int]:
    """Claims beyond the labels that the checker accepts are true: how many there are, and contents compared."""
    rng = Random(seed)
    program = random_lockstep_program(rng)
    labels = core_labels(program)
    wanted = _coarser(rng, labels)
    kinds = program.locations.kind[: len(labels)]
    names = [program.strings[int(each)] for each in program.locations.name[: len(labels)].tolist()]
    doubts: set[str] = set()
    while True:
        # findings are limited, so those seen are taken back, until none is left
        now = doubted(claimed(program, wanted))
        if not now:
            break
        doubts |= now
        for row, name in enumerate(names):
            if name in now:
                wanted[row] = np.arange(program.lnc)
    wanted[np.isin(kinds, (Kind.INPUT, Kind.INOUT))] = np.arange(program.lnc)
    total = 0
    for _ in range(2):
        with np.errstate(all="ignore"):
            found = compare(program, wanted, held_bytes(lowered(program), lockstep_inputs(rng, program)))
        assert found.differ == [], seed
        total += found.contents
    beyond = (wanted != labels).any(axis=1) & (wanted != np.arange(program.lnc)).any(axis=1)
    return int(beyond.sum()), total


@given(st.integers(0, 10**9))
def test_what_it_accepts_is_true(seed: int) -> None:
    _accepted_and_compared(seed)


@pytest.mark.long("60 s")
def test_it_accepts_more_than_labels_say_and_all_of_it_is_true() -> None:
    beyond = total = seed = 0
    while total < 50_000:
        accepted, contents = _accepted_and_compared(seed)
        beyond, total, seed = beyond + accepted, total + contents, seed + 1
    assert beyond > 50
