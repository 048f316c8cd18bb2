"""Element-wise work in blocks has the bits of whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.dtypes import NUMPY
from haulout.ir.patterns import Pattern
from haulout.sim.memory.slots import Slot, new_arena
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.blocks import blocks
from haulout.sim.steps import elementwise
from haulout.sim.steps.make import make_step
from haulout.support.diagnostics import HauloutError

F32 = np.dtype(np.float32)
BODY = [
    ["multiply", "f32", [0, 0]],
    ["constant", "f32", [], 0.044715],
    ["multiply", "f32", [2, 3]],
    ["add", "f32", [4, 1]],
    ["tanh", "f32", [5]],
    ["exponential", "f32", [1]],
    ["add", "f32", [6, 7]],
    ["compare", "pred", [8, 0], "GT"],
    ["select", "f32", [9, 8, 0]],
    ["convert", "bf16", [10]],
    ["negate", "bf16", [11]],
    ["convert", "f32", [12]],
    ["maximum", "f32", [13, 8]],
]
"""Of two operands: exact and approximate functions, values that are read late, narrow floats, predicates."""
MAP = {"body": BODY, "results": [len(BODY) + 1]}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise, "BLOCK", 1000)


class Arena:
    """Operands one behind the other."""

    def __init__(self) -> None:
        self.bytes, self.used = new_arena(1 << 22), 0
        self.random = np.random.default_rng(3)

    def slot(self, shape: tuple[int, ...], dtype: np.dtype[Any] = F32, pattern: Pattern | None = None) -> Slot:
        kind = TensorType(dtype, shape)
        slot = Slot(self.bytes, (pattern or Pattern(self.used, kind.nbytes),), kind)
        if pattern is None:
            self.used += -(-kind.nbytes // 64) * 64
            slot.write(self.random.standard_normal(shape).astype(dtype))
        return slot

    def over(self, slot: Slot, shape: tuple[int, ...]) -> Slot:
        """A result that begins inside an operand."""
        begin = slot.pieces[0].ctypes.data - self.bytes.ctypes.data + slot.type.nbytes // 2 // 64 * 64
        kind = TensorType(slot.type.dtype, shape)
        return self.slot(shape, slot.type.dtype, Pattern(begin, kind.nbytes))


def expect_same(opcode: str, attrs: dict[str, Any], reads: list[Slot], write: Slot) -> None:
    (wanted,) = evaluate(opcode, attrs, [slot.read().copy() for slot in reads], [write.type])
    with np.errstate(all="ignore"):
        make_step(opcode, attrs, reads, [write])()
    assert write.read().tobytes() == wanted.tobytes()


@given(st.lists(st.integers(1, 9), max_size=4).map(tuple), st.integers(4, 30))
def test_blocks_cut_an_array_once(shape: tuple[int, ...], size: int) -> None:
    found = np.zeros(shape, np.int64)
    for index in blocks(shape, size):
        part = found[index]
        assert part.size < 2 * size
        assert part.size > 1 or found.size == 1
        part += 1
    assert (found == 1).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), st.integers(4, 30), st.integers(1, 4))
def test_blocks_leave_the_last_dimensions_whole(shape: tuple[int, ...], size: int, whole: int) -> None:
    kept = max(0, len(shape) - whole)
    found = np.zeros(shape, np.int64)
    for index in blocks(shape, size, len(shape) - kept):
        part = found[index]
        assert part.shape[kept:] == shape[kept:]
        assert part.size < 2 * size or part[..., :1].size == part.size // shape[-1]
        part += 1
    assert (found == 1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 1001, 32769, 100003])
def test_a_map_has_the_bits_of_whole_arrays(size: int) -> None:
    arena = Arena()
    reads = [arena.slot((size,)), arena.slot((size,))]
    expect_same("map", MAP, reads, arena.slot((size,)))


def test_strided_operands_and_scalars() -> None:
    """A transposed operand, one that repeats a row, and one of one element."""
    arena = Arena()
    shape = (96, 640)
    turned = arena.slot((640, 96))
    begin = turned.pieces[0].ctypes.data - arena.bytes.ctypes.data
    column = arena.slot(shape, pattern=Pattern(begin, 4, ((4, 96), (4 * 96, 640))))
    row = arena.slot((640,))
    begin = row.pieces[0].ctypes.data - arena.bytes.ctypes.data
    repeated = arena.slot(shape, pattern=Pattern(begin, 4 * 640, ((0, 96),)))
    assert column.view is not None
    assert repeated.view is not None
    expect_same("map", MAP, [column, repeated], arena.slot(shape))
    expect_same("map", MAP, [arena.slot((1,)), repeated], arena.slot(shape))
    expect_same("map", MAP, [column, arena.slot(())], arena.slot(shape))
    expect_same("add", {}, [column, repeated], arena.slot(shape))
    expect_same("exponential", {}, [column], arena.slot(shape))
    expect_same("copy", {}, [column], arena.slot(shape))


@pytest.mark.parametrize("shift", [0, 4, 64, 4096])
def test_a_result_may_overlap_an_operand(shift: int) -> None:
    """In place at distance 0; elsewhere blocks would overwrite what later ones read."""
    arena = Arena()
    shape = (100_000,)
    first, second = arena.slot(shape), arena.slot(shape)
    arena.slot((1024,))
    begin = second.pieces[0].ctypes.data - arena.bytes.ctypes.data
    out = arena.slot(shape, pattern=Pattern(begin + shift, 400_000))
    expect_same("map", MAP, [first, second], out)
    for opcode in ("add", "power", "maximum"):
        expect_same(opcode, {}, [first, second], out)
    expect_same("tanh", {}, [second], out)


def test_a_scalar_operand_may_be_overwritten() -> None:
    arena = Arena()
    first = arena.slot((100_000,))
    begin = first.pieces[0].ctypes.data - arena.bytes.ctypes.data
    scalar = arena.slot((1,), pattern=Pattern(begin, 4))
    expect_same("map", MAP, [first, scalar], first)


@pytest.mark.parametrize("dims", [[0], [1], [0, 1]])
def test_a_map_is_reduced_as_a_whole(dims: list[int]) -> None:
    arena = Arena()
    reads = [arena.slot((300, 257)), arena.slot((300, 257)), arena.slot(())]
    kept = tuple(extent for dim, extent in enumerate((300, 257)) if dim not in dims)
    expect_same("map_reduce", {**MAP, "dims": dims, "op": "add"}, reads, arena.slot(kept))


@pytest.mark.parametrize("source", ["f32", "bf16", "f16", "f64", "s32", "u8", "pred"])
@pytest.mark.parametrize("target", ["f32", "bf16", "f16", "f64", "s32", "u8", "pred"])
def test_conversions(source: str, target: str) -> None:
    arena = Arena()
    read = arena.slot((1000,), NUMPY[source])
    expect_same("convert", {}, [read], arena.slot((1000,), NUMPY[target]))


@pytest.mark.parametrize("in_place", [True, False])
def test_an_update_in_place_writes_only_the_update(in_place: bool) -> None:
    arena = Arena()
    whole, update = arena.slot((20, 30)), arena.slot((3, 4))
    starts = [arena.slot((), np.dtype(np.int32)) for _ in range(2)]
    for slot, value in zip(starts, (18, -2), strict=True):
        slot.write(np.array(value, np.int32))
    expect_same("dynamic_update_slice", {}, [whole, update, *starts], whole if in_place else arena.slot((20, 30)))
    expect_same("dynamic_slice", {"sizes": [3, 4]}, [whole, *starts], arena.slot((3, 4)))


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("at", [None, 0, 1, -1])
def test_parts_are_combined_into_any_place(parts: int, at: int | None) -> None:
    arena = Arena()
    reads = [arena.slot((1000,)) for _ in range(parts)]
    expect_same("combine", {"op": "add"}, reads, arena.slot((1000,)) if at is None else reads[at])


@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_io01->bf01", "f01b_i01o->01bf"])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
def test_convolutions_are_written_to_their_place(labels: str, in_place: bool, dtype: str) -> None:
    """The last labels are those of the gradient of the weights: few positions, many taps."""
    arena, kind = Arena(), NUMPY[dtype]
    attrs: dict[str, Any] = {"dim_labels": labels, "pad_low": [1, 0], "pad_high": [0, 1]}
    shapes = {
        "b01f_01io->b01f": ((4, 9, 8, 3), (2, 2, 3, 5), (4, 9, 8, 5)),
        "bf01_io01->bf01": ((4, 3, 9, 8), (3, 5, 2, 2), (4, 5, 9, 8)),
        "f01b_i01o->01bf": ((4, 9, 8, 3), (4, 8, 7, 5), (3, 3, 3, 5)),
    }[labels]
    reads = [arena.slot(shape, kind) for shape in shapes[:2]]
    out = arena.slot(shapes[2], kind) if in_place else arena.over(reads[0], shapes[2])
    expect_same("convolution", attrs, reads, out)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("bf16", "bf16", "f32"), ("s32", "s32", "s32")])
def test_products_are_written_to_their_place(types: tuple[str, str, str], turned: bool) -> None:
    arena = Arena()
    left, right = arena.slot((4, 30, 20), NUMPY[types[0]]), arena.slot((4, 20, 50), NUMPY[types[1]])
    attrs = {"lhs_batch": [0], "rhs_batch": [0], "lhs_contracting": [2], "rhs_contracting": [1]}
    shape = (4, 30, 50)
    if turned:
        attrs = {"lhs_contracting": [0, 2], "rhs_contracting": [0, 1]}
        shape = (30, 50)
    expect_same("dot", attrs, [left, right], arena.slot(shape, NUMPY[types[2]]))


@pytest.mark.parametrize(
    ("opcode", "attrs", "types"),
    [
        ("add", {}, ("f32", "s32")),
        ("and", {}, ("f32", "f32")),
        ("map", {"body": [["add", "f32", [0, 1]]], "results": [2]}, ("f32", "s32")),
        ("map", {"results": [2]}, ("f32", "f32")),
        ("compare", {"direction": "XX"}, ("f32", "f32")),
    ],
)
def test_what_is_not_defined_is_bad_input(opcode: str, attrs: dict[str, Any], types: tuple[str, str]) -> None:
    arena = Arena()
    reads = [arena.slot((8,), NUMPY[each]) for each in types]
    with pytest.raises(HauloutError) as caught:
        make_step(opcode, attrs, reads, [arena.slot((8,))])()
    assert caught.value.diagnostics[0].code == "bad-input"
