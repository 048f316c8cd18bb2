"""Patterns as sets of bytes, and the arena cut where any of them begins or ends."""

from contextlib import nullcontext

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.sim_programs import program

from haulout.ir.patterns import Pattern
from haulout.sim.events.schedules import RandomOrder, event_order
from haulout.sim.memory.atoms import byte_set
from haulout.sim.plan import plan_section, prepare
from haulout.sim.shadow import Shadow
from haulout.support.jit import interpreted

DIMS = st.lists(st.tuples(st.integers(-12, 12), st.integers(1, 4)), max_size=3)


@given(st.integers(40, 60), st.integers(1, 5), DIMS)
def test_a_byte_set_is_the_same_set(offset: int, run: int, dims: list[tuple[int, int]]) -> None:
    pattern = Pattern(offset, run, tuple(dims))
    assert set(byte_set(pattern).bytes().tolist()) == set(pattern.bytes().tolist())
    assert byte_set(pattern).nbytes <= pattern.nbytes


def test_whole_tensors_are_one_run_in_any_order_of_their_elements() -> None:
    transposed = Pattern(0, 4, ((4, 8), (32, 16)))
    assert byte_set(transposed) == Pattern(0, 512)
    assert byte_set(Pattern(508, 4, ((-4, 128),))) == Pattern(0, 512)
    assert byte_set(Pattern(0, 4, ((0, 7),))) == Pattern(0, 4)
    assert byte_set(Pattern(0, 4, ((8, 1000), (8, 1000)))) == Pattern(0, 4, ((8, 1999),))


def test_atoms_of_operands_are_their_bytes() -> None:
    text = program("""
        mloc %x dram.local size=24 kind=input dtype=u8 shape=[24]
        mloc %y dram.local size=24 kind=output dtype=u8 shape=[24]
        %one = dma_copy @dma0 (%x[0;6x4;2]) -> (%y[16:24])
        %two = dma_copy @dma0 (%x[5:7]) -> (%y[0:2])
    """)
    operands = prepare(text).operands
    atoms = operands.atoms
    for operand in range(4 + 2):
        cells = np.arange(len(atoms))[atoms.of(operand)]
        covered = [byte for cell in cells for byte in range(atoms.cuts[cell], atoms.cuts[cell + 1])]
        assert sorted(covered) == sorted(b for p in operands.extents.patterns(operand) for b in p.bytes().tolist())


def test_compiled_and_plain_scans_agree() -> None:
    text = program(
        *(
            f"""
            mloc %x dram.local size=64 kind=input dtype=u8 shape=[64]
            mloc %y dram.local size=64 kind=output dtype=u8 shape=[64]
            %a = dma_copy @dma0 (%x[0;8x8;4]) -> (%y[0:32])
            %m = core_barrier @pool () -> () name=m
            %b = dma_copy @dma1 (%y[{core};2x16;1]) -> (%y[40:56])
            """
            for core in range(3)
        )
    )
    prepared = prepare(text)
    plan = plan_section(prepared, 0)
    found = []
    for context in (nullcontext(), interpreted()):
        with context:
            order = event_order(plan.trace, plan.graph, RandomOrder(5))
            found.append((order, Shadow(prepared, plan, runs=10**9).hashes(order)))
    (compiled, hashes), (plain, plain_hashes) = found
    np.testing.assert_array_equal(compiled, plain)
    np.testing.assert_array_equal(hashes, plain_hashes)
