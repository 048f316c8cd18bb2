"""Values that are overwritten: one that other cores read keeps its location, the next one gets its own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

import haulout
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.ir.verify import check_sound
from haulout.passes import order_by_phases
from haulout.passes.base import PassContext
from haulout.passes.split_uniform import SplitUniform
from haulout.passes.splitting.values import values_of
from haulout_generators.lockstep_programs import lockstep_inputs

SIDE = 128
CONTRACTED = {"lhs_contracting": [1], "rhs_contracting": [1]}


def layers(reads: str, *, cores: int = 2) -> Program:
    """Each layer overwrites `g` after a read: `a` by a product that needs all of it, `e` element by element."""
    build = ProgramBuilder("layers", 1)
    function = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(function, "entry")

    def location(name: str, kind: Kind) -> int:
        return build.location(
            function, name, Space.DRAM_LOCAL, 4 * SIDE * SIDE, kind=kind, dtype="s32", shape=[SIDE, SIDE]
        )

    x, w, g = location("x", Kind.INPUT), location("w", Kind.INPUT), location("g", Kind.INTERNAL)
    build.instruction(block, "begin", "add", Engine.ACT, [x, w], [g], seq=0)
    for at, each in enumerate(reads):
        out = location(f"out{at}", Kind.OUTPUT)
        opcode, operands, attrs = ("dot", [g, g], CONTRACTED) if each == "a" else ("add", [g, x], {})
        build.instruction(block, f"read{at}", opcode, Engine.PE, operands, [out], seq=2 * at + 1, attrs=attrs)
        build.instruction(block, f"next{at}", "multiply", Engine.VECTOR, [g, w], [g], seq=2 * at + 2)
    y = location("y", Kind.OUTPUT)
    build.instruction(block, "end", "add", Engine.ACT, [g, x], [y], seq=2 * len(reads) + 1)
    return replicate(build.freeze(), cores, same={row: [list(range(cores))] for row in (x, w)})


def names(program: Program) -> set[str]:
    own = program.locations.remote_name == NONE
    return {program.strings[at] for at in program.locations.name[own].tolist()}


@pytest.mark.parametrize("cores", [2, 4])
def test_layers_that_other_cores_read_need_one_fence_in_all(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_by_phases, "ROOM", 10.0)
    monkeypatch.setattr(order_by_phases, "FENCE", 2.0)  # else storage is worth some
    result = haulout.compile(layers("aaaaa", cores=cores))
    assert result.proved
    assert result.report.barriers == 1


@settings(max_examples=examples(20), deadline=None)
@given(reads=st.text("ae", min_size=1, max_size=5), cores=st.sampled_from([2, 4]))
def test_results_are_those_of_undivided_work(reads: str, cores: int) -> None:
    program = layers(reads, cores=cores)
    inputs = lockstep_inputs(Random(1), program)
    whole = haulout.simulate(haulout.compile(program, share="none").program, inputs).outputs
    result = haulout.compile(program)
    assert result.proved
    found = haulout.simulate(result.program, inputs).outputs
    assert found.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_only_what_would_wait_for_other_cores_moves() -> None:
    divided = SplitUniform().run(layers("aea"), PassContext())
    check_sound(divided)
    assert {each for each in names(divided) if each.startswith("g")} == {"g", "g.value1", "g.value2"}
    alike = SplitUniform().run(layers("eee"), PassContext())
    assert {each for each in names(alike) if each.startswith("g")} == {"g"}


def test_values_are_counted_where_nothing_else_can_be_meant() -> None:
    program = layers("aa")
    value, accesses = values_of(program), program.accesses
    name = [program.strings[int(program.locations.name[at])] for at in accesses.location[: len(value)].tolist()]
    of_g = [int(value[at]) for at, each in enumerate(name) if each == "g"]
    assert of_g == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert not any(value[at] for at, each in enumerate(name) if each != "g")
    # An output has its last value where the caller looks for it; an input its first.
    for kind in (Kind.OUTPUT, Kind.INPUT, Kind.INOUT):
        kinds = program.locations.kind.copy()
        kinds[program.locations.name == program.strings.find("g")] = kind
        assert not values_of(program.replace(locations=program.locations.replace(kind=kinds))).any()
    # A read before the first write may be of another iteration's value.
    later = program.accesses.replace(write=np.where(np.arange(len(accesses)) == 2, False, accesses.write))
    assert not values_of(program.replace(accesses=later)).any()
