"""Operands as views: they read and write exactly the bytes of their patterns, in order."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.patterns import Pattern
from haulout.sim.memory.slots import Slot, new_arena
from haulout.sim.numerics import TensorType

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
SIZE = 4096


@st.composite
def operands(draw: st.DrawFn) -> tuple[Pattern, TensorType]:
    """A pattern inside the arena and a shape of as many elements."""
    dtype = draw(st.sampled_from([F32, U8, np.dtype(np.int16)]))
    run = draw(st.integers(1, 4)) * draw(st.sampled_from([1, dtype.itemsize]))
    strides = st.integers(-20, 40).map(lambda step: step * draw(st.sampled_from([1, 4])))
    dims = tuple((draw(strides), draw(st.integers(1, 4))) for _ in range(draw(st.integers(0, 3))))
    offset = SIZE // 2 + draw(st.integers(0, 7))
    pattern = Pattern(offset, run, dims)
    elements = pattern.nbytes // dtype.itemsize
    if pattern.nbytes % dtype.itemsize:
        return pattern, TensorType(U8, (pattern.nbytes,))
    divisors = [each for each in range(1, elements + 1) if elements % each == 0]
    first = draw(st.sampled_from(divisors))
    second = draw(st.sampled_from([each for each in divisors if (elements // first) % each == 0]))
    return pattern, TensorType(dtype, (first, second, elements // first // second))


@given(operands())
def test_an_operand_reads_the_bytes_of_its_pattern(operand: tuple[Pattern, TensorType]) -> None:
    pattern, kind = operand
    arena = new_arena(SIZE)
    arena[:] = np.random.default_rng(0).integers(0, 256, SIZE)
    slot = Slot(arena, (pattern,), kind)
    wanted = arena[pattern.bytes()]
    assert slot.read().tobytes() == wanted.tobytes()
    assert slot.read().flags.c_contiguous
    if slot.view is not None:
        assert np.may_share_memory(slot.view, arena)
        assert slot.view.tobytes() == wanted.tobytes()
        assert (slot.view.shape, slot.view.dtype) == (kind.shape, kind.dtype)


@given(operands())
def test_an_operand_writes_the_bytes_of_its_pattern_and_no_others(operand: tuple[Pattern, TensorType]) -> None:
    pattern, kind = operand
    places = pattern.bytes()
    if len(np.unique(places)) != len(places):
        return
    arena, wanted = new_arena(SIZE), np.zeros(SIZE, np.uint8)
    data = np.random.default_rng(1).integers(0, 256, kind.nbytes).astype(np.uint8)
    Slot(arena, (pattern,), kind).write(data.view(kind.dtype).reshape(kind.shape))
    wanted[places] = data
    assert arena.tobytes() == wanted.tobytes()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_view_is_found_wherever_numpy_finds_one(shape: list[int], data: st.DataObject) -> None:
    """Any permutation of a contiguous array, with or without gaps, in any other shape."""
    order = data.draw(st.permutations(range(len(shape))))
    gap = data.draw(st.sampled_from([1, 2]))
    arena = new_arena(SIZE)
    strides = [4 * gap * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    elements = prod(shape)
    first = data.draw(st.sampled_from([each for each in range(1, elements + 1) if elements % each == 0]))
    kind = TensorType(F32, (first, elements // first))
    pattern = Pattern(64, 4, tuple((strides[axis], shape[axis]) for axis in order))
    whole = np.ndarray([shape[axis] for axis in order], F32, arena.data, 64, [strides[axis] for axis in order])
    is_view = np.may_share_memory(whole.reshape(kind.shape), arena)
    assert (Slot(arena, (pattern,), kind).view is not None) == is_view


def test_several_pieces_are_gathered_and_scattered_in_order() -> None:
    arena = new_arena(64)
    slot = Slot(arena, (Pattern(40, 4), Pattern(8, 8)), TensorType(F32, (3,)))
    assert slot.view is None
    slot.write(np.array([1, 2, 3], np.float32))
    assert arena.view(np.float32)[[10, 2, 3]].tolist() == [1, 2, 3]
    assert np.count_nonzero(arena.view(np.float32)) == 3
    assert slot.read().tolist() == [1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 64, 1000])
def test_the_arena_is_aligned(size: int) -> None:
    arena = new_arena(size)
    assert len(arena) == size
    assert arena.ctypes.data % 64 == 0 or not size
