"""`simulate` compares what cores write to locations that are claimed to be equal."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.test_equal_cores import claimed, fork, two_cores
from tests.equal_cores import lowered

from haulout.analysis.core_labels import core_labels
from haulout.ir.program import Program
from haulout.sim import simulate
from haulout_generators.lockstep_programs import lockstep_inputs, random_lockstep_program

HEAD = """
    mloc %all dram.local size=8 kind=input dtype=s32 shape=[2] same=[[0,1]]
    mloc %own dram.local size=8 kind=input dtype=s32 shape=[2]
    mloc %a dram.local size=8 dtype=s32 shape=[2] same=[[0,1]]
"""
INPUTS = {
    "all": np.array([1, 2], np.int32),
    "nc0/own": np.array([1, 3], np.int32),
    "nc1/own": np.array([0, 3], np.int32),
}


def codes(program: Program) -> list[str]:
    return [each.code for each in simulate(program, INPUTS).diagnostics if each.code == "unequal-bytes"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("block ^e:\n%i = copy @act (%all) -> (%a)", 0),
        ("block ^e:\n%i = copy @act (%own) -> (%a)", 1),
        ("block ^e:\n%i = dma_copy @act (%own[4:8]) -> (%a[0:4])", 0),
        ("block ^e:\n%i = dma_copy @act (%own[0:4]) -> (%a[0:4])", 1),
        # overwritten later: seen at the write
        ("block ^e:\n%i = copy @act (%own) -> (%a)\n%j = copy @act (%all) -> (%a)", 1),
        # an arm that one core takes: what both have executed is equal, what is there at the end is not
        (fork("%i = copy @act (%all) -> (%a)", "%j = negate @act (%all) -> (%a)"), 1),
        (fork("%i = copy @act (%all) -> (%a)", "%j = copy @act (%all) -> (%a)"), 0),
    ],
)
def test_examples(body: str, count: int) -> None:
    program = two_cores(body, head=HEAD)
    assert codes(program) == ["unequal-bytes"] * count
    for schedule in ("random:1", "slowest:0:act"):
        found = simulate(program, INPUTS, schedule=schedule).diagnostics
        assert [each.code for each in found].count("unequal-bytes") == count


def test_the_execution_is_named() -> None:
    head = (
        HEAD
        + """
    mloc %n dram.local size=4 kind=inout dtype=s32 shape=[1]
    mloc %one dram.local size=4 kind=const dtype=s32 shape=[1] data="AQAAAA=="
    mloc %r dram.local size=8 kind=inout dtype=s32 shape=[2]
    """
    )
    body = """
    block ^e -> ^h:
      %z = memset @act () -> (%a) value=0
    block ^h -> ^b, ^x cond=n:
      %d = subtract @act (%n, %one) -> (%n)
    block ^b -> ^h:
      %i = copy @act (%r) -> (%a)
      %k = multiply @act (%r, %own) -> (%r)
    block ^x:
    """
    inputs = INPUTS | {"n": np.array([3], np.int32), "r": np.array([1, 1], np.int32)}
    found = [
        each for each in simulate(two_cores(body, head=head), inputs).diagnostics if each.code == "unequal-bytes"
    ]
    assert len(found) == 1
    assert "after %i, in execution 1 of it" in found[0].message


@given(st.integers(0, 10**9))
def test_nothing_is_reported_of_labels_and_something_of_more(seed: int) -> None:
    rng = Random(seed)
    program = random_lockstep_program(rng)
    inputs = lockstep_inputs(rng, program)
    labels = core_labels(program)
    simulated = lowered(program)
    first = {name: row for row, name in enumerate(program.locations.name[: len(labels)].tolist())}
    rows = [first.get(name, -1) for name in simulated.locations.name[simulated.location_core == 0].tolist()]
    if len(simulated.locations) % program.lnc or -1 in rows:
        return  # staging buffers
    with np.errstate(all="ignore"):
        found = simulate(claimed(simulated, labels[rows]), inputs).diagnostics
    assert [each for each in found if each.code == "unequal-bytes"] == []
