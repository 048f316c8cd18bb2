"""Views against NumPy: whatever chain of views a kernel makes, the bytes are those of the same chain on an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.nki import session
from haulout.frontends.nki.accessed import MAX_ROWS, accessed
from haulout.frontends.nki.byte_sets import overlap, shifted_bytes, touched
from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.layout import DynamicSlice
from haulout.frontends.nki.one_partition import first_partition
from haulout.frontends.nki.recorder import Recorder
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.patterns import Pattern
from haulout.support.diagnostics import HauloutError

Array = npt.NDArray[np.int64]


def fresh(
    shape: tuple[int, ...], dtype: str = "float32", buffer: Buffer = Buffer.private_hbm
) -> tuple[Tensor, Recorder]:
    recorder = Recorder(0, 1, Findings())
    return recorder.allocate(shape, dtype, buffer, name="x", place=("", 0)), recorder


def bytes_of(tensor: Tensor) -> set[int]:
    found: set[int] = set()
    for pattern in accessed(tensor).patterns:
        found |= set((pattern or Pattern(0, tensor.storage.size)).bytes().tolist())
    return found


def bytes_of_elements(elements: Array, itemsize: int) -> set[int]:
    return {int(at) * itemsize + byte for at in elements.ravel() for byte in range(itemsize)}


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any]]:
    """A shape and steps that are legal on it, found by carrying them out on a NumPy array."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    steps: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["index", "permute", "reshape", "expand", "broadcast"]))
        if kind == "index":
            key: list[Any] = []
            for axis, extent in enumerate(array.shape):
                if draw(st.booleans()) and array.ndim > 1 and axis == array.ndim - 1:
                    key.append(draw(st.integers(-extent, extent - 1)))
                else:
                    start = draw(st.integers(0, extent - 1))
                    key.append(slice(start, draw(st.integers(start + 1, extent)), draw(st.integers(1, 3))))
            steps.append(("index", tuple(key)))
            array = array[tuple(key)]
        elif kind == "permute":
            order = tuple(draw(st.permutations(range(array.ndim))))
            steps.append(("permute", order))
            array = array.transpose(order)
        elif kind == "reshape":
            flat = (array.size,)
            view = array.view()
            try:
                view.shape = flat
            except AttributeError:
                continue
            steps.append(("reshape", flat))
            array = view
        elif kind == "expand":
            at = draw(st.integers(0, array.ndim))
            steps.append(("expand", at))
            array = np.expand_dims(array, at)
        else:
            ones = [axis for axis, extent in enumerate(array.shape) if extent == 1]
            if ones:
                steps.append(("broadcast", ones[0]))
                wide = list(array.shape)
                wide[ones[0]] = 3
                array = np.broadcast_to(array, wide)
    return shape, steps


@given(chains())
def test_chains_of_views_touch_what_numpy_says(case: tuple[tuple[int, ...], list[Any]]) -> None:
    shape, steps = case
    tensor, recorder = fresh(shape)
    elements = np.arange(int(np.prod(shape))).reshape(shape)
    with session.recording(recorder):
        for kind, detail in steps:
            match kind:
                case "index":
                    tensor, elements = tensor[detail], elements[detail]
                case "permute":
                    tensor, elements = tensor.permute(detail), elements.transpose(detail)
                case "reshape":
                    tensor, elements = tensor.reshape(detail), elements.reshape(detail)
                case "expand":
                    tensor, elements = tensor.expand_dim(detail), np.expand_dims(elements, detail)
                case "broadcast":
                    wide = list(elements.shape)
                    wide[detail] = 3
                    tensor, elements = tensor.broadcast(detail, 3), np.broadcast_to(elements, wide)
    assert tensor.shape == elements.shape
    assert bytes_of(tensor) == bytes_of_elements(elements, 4)
    assert not recorder.findings.items


dims = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), max_size=4)


@given(st.integers(1, 6), dims)
def test_normal_form_touches_the_same_bytes(run: int, strides: list[tuple[int, int]]) -> None:
    offset = 200
    plain = set(Pattern(offset, run, tuple(strides)).bytes().tolist())
    assert set(touched(offset, run, tuple(strides)).bytes().tolist()) == plain


@given(
    st.integers(0, 20),
    st.integers(1, 6),
    dims.filter(lambda d: all(s >= 0 for s, _ in d)),
    st.integers(1, 12),
    st.integers(1, 9),
)
def test_shifted_bytes_are_the_union_of_all_shifts(
    offset: int, run: int, strides: list[tuple[int, int]], step: int, extent: int
) -> None:
    base = touched(offset, run, tuple(strides))
    size = base.hull[1] + 30
    union: set[int] = set()
    for k in range(extent):
        moved = base._replace(offset=base.offset + k * step)
        if moved.hull[1] <= size:
            union |= set(moved.bytes().tolist())
    assert set(shifted_bytes(base, step, extent, size).bytes().tolist()) == union


@given(st.integers(150, 260), st.integers(1, 6), dims, st.integers(1, 6), dims)
def test_patterns_meet_when_they_share_a_byte(
    offset: int, run: int, first: list[tuple[int, int]], other_run: int, second: list[tuple[int, int]]
) -> None:
    one, other = touched(200, run, tuple(first)), touched(offset, other_run, tuple(second))
    assert overlap(one, other) == bool(set(one.bytes().tolist()) & set(other.bytes().tolist()))


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 30), st.integers(1, 5), dims)
def test_one_partition_stands_for_all_when_all_are_alike(
    partitions: int, row: int, offset: int, run: int, strides: list[tuple[int, int]]
) -> None:
    for chosen in (strides, [*strides, (row, partitions)]):
        pattern = touched(offset, run, tuple(chosen))
        first = first_partition(pattern, row, partitions)
        if pattern.hull[0] < 0 or pattern.hull[1] > row * partitions or first is None:
            continue
        alone = set(first.bytes().tolist())
        every = {byte + row * at for byte in alone for at in range(partitions)}
        assert alone <= set(range(row))
        assert set(pattern.bytes().tolist()) == every


def test_a_part_of_all_partitions_is_found() -> None:
    tensor, _ = fresh((128, 64), buffer=Buffer.sbuf)
    for view in (tensor[:, 0:8], tensor[:, 3:64:4], tensor[:, 5], tensor.reshape((128, 8, 8))[:, :, 2:4]):
        pattern = accessed(view).patterns[0]
        assert pattern is not None
        assert first_partition(pattern, 256, 128) is not None
    part = accessed(tensor[0:64, 0:8]).patterns[0]
    assert part is not None
    assert first_partition(part, 256, 128) is None


def test_on_chip_an_integer_keeps_the_partition() -> None:
    tensor, _ = fresh((128, 64), buffer=Buffer.sbuf)
    assert tensor[3].shape == (1, 64)
    assert tensor[3, 5].shape == (1, 1)
    hbm, _ = fresh((128, 64))
    assert hbm[3].shape == (64,)


def test_ap_is_as_strided() -> None:
    tensor, recorder = fresh((64, 16))
    with session.recording(recorder):
        view = tensor.ap([[16, 32], [1, 4]], offset=32)
    elements = np.lib.stride_tricks.as_strided(np.arange(1024)[32:], (32, 4), (16 * 8, 8))
    assert bytes_of(view) == bytes_of_elements(elements, 4)


def test_ap_counts_its_offset_from_the_view() -> None:
    tensor, recorder = fresh((64, 16))
    with session.recording(recorder):
        assert tensor[2:4, :].ap([[1, 4]], offset=1).offset == 33


def test_view_as_another_type_keeps_the_bytes() -> None:
    tensor, recorder = fresh((8, 16))
    with session.recording(recorder):
        view = tensor[2:4, 4:8].view("uint8")
    assert view.shape == (2, 16)
    assert bytes_of(view) == bytes_of(tensor[2:4, 4:8])


def test_an_unknown_scalar_index_moves_the_base_pattern_by_strides_only() -> None:
    tensor, recorder = fresh((4, 8))
    index = recorder.allocate((1, 1), "int32", Buffer.sbuf, name="i", place=("", 0))
    with session.recording(recorder):
        column = tensor.ap([[8, 2], [1, 2]], offset=0, scalar_offset=index, indirect_dim=0)
        found = accessed(column)
    assert found.maybe
    # Columns 0 and 1 of any row, never another column.
    assert {byte // 4 % 8 for byte in bytes_of(column)} == {0, 1}


def test_known_indices_give_exact_rows() -> None:
    tensor, recorder = fresh((16, 8))
    index = recorder.allocate((3, 1), "int32", Buffer.sbuf, name="i", place=("", 0))
    index.storage.give(np.array([1, 7, 2]))
    with session.recording(recorder):
        rows = tensor.ap([[8, 3], [1, 8]], vector_offset=index, indirect_dim=0)
        assert not accessed(rows).maybe
    assert {byte // 32 for byte in bytes_of(rows)} == {1, 2, 7}


def test_many_known_indices_are_all_that_the_index_reaches() -> None:
    """More rows than are listed one by one: some bytes of any row."""
    for count, many in ((MAX_ROWS, False), (MAX_ROWS + 1, True)):
        tensor, recorder = fresh((2 * count, 8))
        index = recorder.allocate((count, 1), "int32", Buffer.sbuf, name="i", place=("", 0))
        index.storage.give(np.random.default_rng(0).permutation(2 * count)[:count])
        with session.recording(recorder):
            rows = tensor.ap([[8, count], [1, 4]], vector_offset=index, indirect_dim=0)
            assert accessed(rows).maybe is many
        assert len(bytes_of(rows)) == 16 * (2 * count if many else count)


def test_a_dynamic_slice_by_a_tensor_is_indirect() -> None:
    tensor, recorder = fresh((16, 8))
    index = recorder.allocate((1, 1), "int32", Buffer.sbuf, name="i", place=("", 0))
    with session.recording(recorder):
        view = tensor[DynamicSlice(index, 4), 0:2]
    assert view.shape == (4, 2)
    assert view.is_indirect()
    assert {byte // 4 % 8 for byte in bytes_of(view)} == {0, 1}


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.reshape((7, 7)),
        lambda x: x.permute((0, 0)),
        lambda x: x.permute((1, 0)).reshape((128,)),
        lambda x: x[0, 0, 0],
        lambda x: x["a"],
        lambda x: x.broadcast(0, 4),
    ],
)
def test_views_that_do_not_exist_are_refused(use: Any) -> None:
    tensor, recorder = fresh((8, 16))
    with session.recording(recorder), pytest.raises(HauloutError) as raised:
        use(tensor)
    assert raised.value.diagnostics[0].code == "kernel-error"


def test_leaving_a_dimension_is_out_of_bounds() -> None:
    tensor, recorder = fresh((8, 16))
    with session.recording(recorder):
        assert tensor[0:9, :].shape == (8, 16)
        tensor.ap([[16, 9], [1, 16]])
    assert [each.code for each in recorder.findings.items] == ["out-of-bounds", "out-of-bounds"]
