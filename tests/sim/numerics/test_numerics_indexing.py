"""Data movement: gather and scatter by their defining loops, dynamic slices, padding, broadcasting, by hand."""

from typing import Any

import numpy as np
import pytest

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import HauloutError

S64 = NUMPY["s64"]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape)


def start_of(attrs: dict[str, Any], indices: np.ndarray, batch: tuple[int, ...], rank: int, keys: Any) -> list[int]:
    """Where the slice of one batch index starts, from the definition of HLO's dimension numbers."""
    index_map, operand_batching, indices_batching = (attrs.get(key, []) for key in keys)
    vector_dim = attrs["index_vector_dim"]
    at: list[Any] = list(batch)
    at.insert(vector_dim, slice(None))
    vector = np.atleast_1d(indices[tuple(at[: indices.ndim])])
    start = [0] * rank
    for number, dim in zip(vector.tolist(), index_map, strict=True):
        start[dim] = number
    for dim, indices_dim in zip(operand_batching, indices_batching, strict=True):
        start[dim] = batch[indices_dim if indices_dim < vector_dim else indices_dim - 1]
    return start


GATHER_KEYS = ("start_index_map", "operand_batching_dims", "start_indices_batching_dims")
SCATTER_KEYS = ("scatter_dims_to_operand_dims", "input_batching_dims", "scatter_indices_batching_dims")

GATHERS: list[Any] = [
    ((10, 4), (1, 5), {"offset_dims": [2], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 2,
                       "slice_sizes": [1, 4]}),
    ((8, 5, 6), (7, 2), {"offset_dims": [1], "collapsed_slice_dims": [0, 1], "start_index_map": [1, 0],
                         "index_vector_dim": 1, "slice_sizes": [1, 1, 6]}),
    ((8, 5, 6), (2, 7), {"offset_dims": [0, 2], "collapsed_slice_dims": [2], "start_index_map": [2, 0],
                         "index_vector_dim": 0, "slice_sizes": [3, 2, 1]}),
    ((3, 5, 4), (4, 2, 3, 1), {"offset_dims": [1], "start_index_map": [1], "operand_batching_dims": [0, 2],
                               "start_indices_batching_dims": [2, 0], "index_vector_dim": 3,
                               "slice_sizes": [1, 2, 1]}),
    ((4, 9), (4, 3, 1), {"start_index_map": [1], "operand_batching_dims": [0], "start_indices_batching_dims": [0],
                         "collapsed_slice_dims": [1], "index_vector_dim": 2, "slice_sizes": [1, 1]}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["s32", "u64", "s8"])
@pytest.mark.parametrize(("shape", "indices_shape", "attrs"), GATHERS)
def test_gather(shape: Any, indices_shape: Any, attrs: dict[str, Any], dtype: str) -> None:
    operand = numbers(shape)
    indices = np.random.default_rng(1).integers(0 if dtype == "u64" else -4, 14, indices_shape).astype(NUMPY[dtype])
    sizes, offset_dims = attrs["slice_sizes"], attrs.get("offset_dims", [])
    dropped = attrs.get("collapsed_slice_dims", []) + attrs.get("operand_batching_dims", [])
    batch_shape = [s for d, s in enumerate(indices_shape) if d != attrs["index_vector_dim"]]
    window = [sizes[d] for d in range(len(shape)) if d not in dropped]
    result_shape: list[int] = []
    for dim in range(len(batch_shape) + len(window)):
        source = window if dim in offset_dims else batch_shape
        result_shape.append(source[sum((d in offset_dims) == (dim in offset_dims) for d in range(dim))])
    expected = np.zeros(result_shape, int)
    for index in np.ndindex(*result_shape):
        batch = tuple(i for d, i in enumerate(index) if d not in offset_dims)
        offset = iter(index[d] for d in offset_dims)
        start = start_of(attrs, indices, batch, len(shape), GATHER_KEYS)
        start = [min(max(s, 0), shape[d] - sizes[d]) for d, s in enumerate(start)]
        expected[index] = operand[tuple(s if d in dropped else s + next(offset) for d, s in enumerate(start))]
    (found,) = evaluate("gather", attrs, [operand, indices], [TensorType(S64, tuple(result_shape))])
    np.testing.assert_array_equal(found, expected)


SCATTERS: list[Any] = [
    ((10, 4), (6,), (6, 4), {"update_window_dims": [1], "inserted_window_dims": [0],
                             "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}),
    ((5, 6, 7), (2, 9), (2, 9, 3), {"update_window_dims": [0, 2], "inserted_window_dims": [1],
                                    "scatter_dims_to_operand_dims": [1, 2], "index_vector_dim": 0}),
    ((9,), (12, 1), (12, 2), {"update_window_dims": [1], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}),
    ((4, 9), (4, 5, 1), (4, 5), {"inserted_window_dims": [1], "scatter_dims_to_operand_dims": [1],
                                 "input_batching_dims": [0], "scatter_indices_batching_dims": [0],
                                 "index_vector_dim": 2}),
]  # fmt: skip
SCATTER_OPS: dict[str, Any] = {
    "add": lambda old, new: old + new,
    "multiply": lambda old, new: old * new,
    "maximum": max,
    "minimum": min,
    "assign": lambda old, new: new,
}


@pytest.mark.parametrize("op", SCATTER_OPS)
@pytest.mark.parametrize(("shape", "indices_shape", "updates_shape", "attrs"), SCATTERS)
def test_scatter(shape: Any, indices_shape: Any, updates_shape: Any, attrs: dict[str, Any], op: str) -> None:
    operand, updates = numbers(shape), numbers(updates_shape, 1)
    indices = np.random.default_rng(2).integers(-2, 11, indices_shape)
    window_dims = attrs.get("update_window_dims", [])
    dropped = attrs.get("inserted_window_dims", []) + attrs.get("input_batching_dims", [])
    sizes = iter(updates_shape[d] for d in window_dims)
    thickness = [1 if d in dropped else next(sizes) for d in range(len(shape))]
    expected, skipped = operand.copy(), 0
    for index in np.ndindex(*updates_shape):
        batch = tuple(i for d, i in enumerate(index) if d not in window_dims)
        start = start_of(attrs, indices, batch, len(shape), SCATTER_KEYS)
        if any(not 0 <= s <= shape[d] - thickness[d] for d, s in enumerate(start)):
            skipped += 1
            continue
        offset = iter(index[d] for d in window_dims)
        at = tuple(s if d in dropped else s + next(offset) for d, s in enumerate(start))
        expected[at] = SCATTER_OPS[op](expected[at], updates[index])
    assert 0 < skipped < updates.size
    output = TensorType(S64, shape)
    before = operand.copy()
    (found,) = evaluate("scatter", attrs | {"op": op}, [operand, indices, updates], [output])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(operand, before)
    body, results = ([], [1]) if op == "assign" else ([[op, "s64", [0, 1]]], [2])
    (found,) = evaluate("scatter", attrs | {"body": body, "results": results}, [operand, indices, updates], [output])
    np.testing.assert_array_equal(found, expected)


def test_scatter_of_two_arrays_at_once() -> None:
    """Parameters: old a, old b, new a, new b. Keep the pair with the larger a."""
    attrs = {
        "inserted_window_dims": [0],
        "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1,
        "body": [["compare", "pred", [0, 2], "GE"], ["select", "s64", [4, 0, 2]], ["select", "s64", [4, 1, 3]]],
        "results": [5, 6],
    }
    operands = [np.array([5, 5]), np.array([0, 1]), np.array([[0], [0], [1], [7]]), np.array([9, 7, 3, 100]),
                np.array([2, 3, 4, 5])]  # fmt: skip
    found = evaluate("scatter", attrs, operands, [TensorType(S64, (2,))] * 2)
    assert [array.tolist() for array in found] == [[9, 5], [2, 1]]


@pytest.mark.parametrize(
    ("starts", "clamped"), [((1, 2), (1, 2)), ((-9, 99), (0, 3)), ((3, 3), (2, 3)), ((2**40, -(2**40)), (2, 0))]
)
def test_dynamic_slices_clamp(starts: Any, clamped: Any) -> None:
    operand, update = numbers((4, 6)), np.full((2, 3), 77)
    at = [np.array(start) for start in starts]
    window = np.s_[clamped[0] : clamped[0] + 2, clamped[1] : clamped[1] + 3]
    (found,) = evaluate("dynamic_slice", {"sizes": [2, 3]}, [operand, *at], [TensorType(S64, (2, 3))])
    np.testing.assert_array_equal(found, operand[window])
    expected = operand.copy()
    expected[window] = 77
    (found,) = evaluate("dynamic_update_slice", {}, [operand, update, *at], [TensorType(S64, (4, 6))])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("low", "high", "interior", "expected"),
    [
        (1, 2, 0, [9, 1, 2, 3, 9, 9]),
        (-1, 0, 0, [2, 3]),
        (0, 0, 1, [1, 9, 2, 9, 3]),
        (-1, -1, 1, [9, 2, 9]),
        (-2, 1, 1, [2, 9, 3, 9]),
        (2, -7, 2, [9, 9]),
        (-3, 3, 0, [9, 9, 9]),
        (-9, 6, 0, []),
    ],
)
def test_pad(low: int, high: int, interior: int, expected: list[int]) -> None:
    attrs = {"low": [low], "high": [high], "interior": [interior]}
    output = TensorType(S64, (len(expected),))
    assert evaluate("pad", attrs, [np.array([1, 2, 3]), np.array(9)], [output])[0].tolist() == expected


def test_broadcast_places_dimensions() -> None:
    operand = np.array([[1, 2, 3], [4, 5, 6]])
    (found,) = evaluate("broadcast", {"dims": [0, 2]}, [operand], [TensorType(S64, (2, 4, 3))])
    assert all((found[:, i] == operand).all() for i in range(4))
    (found,) = evaluate("broadcast", {"dims": [2, 0]}, [operand], [TensorType(S64, (3, 4, 2))])
    assert all((found[:, i] == operand.T).all() for i in range(4))


def test_iota_counts_along_its_dimension() -> None:
    (found,) = evaluate("iota", {"dim": 1}, [], [TensorType(NUMPY["bf16"], (2, 3))])
    assert found.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert found.flags.writeable


def test_iota_counts_from_its_start() -> None:
    for dtype in ("u8", "s64", "f32", "bf16"):
        (whole,) = evaluate("iota", {"dim": 0}, [], [TensorType(NUMPY[dtype], (300,))])
        (part,) = evaluate("iota", {"dim": 0, "start": 200}, [], [TensorType(NUMPY[dtype], (100,))])
        np.testing.assert_array_equal(part, whole[200:])


def test_bytes_are_copied_and_filled() -> None:
    (found,) = evaluate("dma_copy", {}, [np.array([1, 2], np.int32)], [TensorType(NUMPY["u8"], (2, 4))])
    assert found.tolist() == [[1, 0, 0, 0], [2, 0, 0, 0]]
    (found,) = evaluate("memset", {"value": 1}, [], [TensorType(NUMPY["s16"], (2,))])
    assert found.tolist() == [257, 257]


@pytest.mark.parametrize(
    ("opcode", "attrs", "operands", "shape"),
    [
        ("broadcast", {"dims": [0]}, [numbers((2, 3))], (2, 3)),
        ("broadcast", {"dims": [0, 0]}, [numbers((2, 3))], (2, 3)),
        ("broadcast", {"dims": [0, 1]}, [numbers((2, 1))], (2, 3)),
        ("iota", {"dim": 1}, [], (3,)),
        ("iota", {"dim": 0, "start": -1}, [], (3,)),
        ("iota", {"dim": 0, "start": 2**63}, [], (3,)),
        ("pad", {"low": [0], "high": [0], "interior": [-1]}, [numbers((3,)), np.array(0)], (3,)),
        ("pad", {"low": [0], "high": [10**15], "interior": [0]}, [numbers((3,)), np.array(0)], (3,)),
        ("pad", {"low": [0, 0], "high": [0], "interior": [0]}, [numbers((3,)), np.array(0)], (3,)),
        ("memset", {"value": 256}, [], (3,)),
        ("dma_copy", {}, [numbers((2,))], (3,)),
        ("dynamic_slice", {"sizes": [4]}, [numbers((3,)), np.array(0)], (4,)),
        ("dynamic_slice", {"sizes": [1]}, [numbers((3,))], (1,)),
        ("dynamic_slice", {"sizes": [1]}, [numbers((3,)), numbers((2,))], (1,)),
        ("dynamic_update_slice", {}, [numbers((3,)), numbers((4,)), np.array(0)], (3,)),
        ("topk", {"k": 4}, [numbers((3,))], (4,)),
        ("gather", {"slice_sizes": [9], "index_vector_dim": 1}, [numbers((3,)), numbers((2, 1))], (2,)),
        ("gather", {"slice_sizes": [1], "index_vector_dim": 1, "start_index_map": [4], "collapsed_slice_dims": [0]},
         [numbers((3,)), numbers((2, 1))], (2,)),
        ("scatter", {"op": "add", "index_vector_dim": 1}, [numbers((3,)), numbers((2, 1))], (3,)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(opcode: str, attrs: Any, operands: Any, shape: Any) -> None:
    with pytest.raises(HauloutError) as caught:
        evaluate(opcode, attrs, operands, [TensorType(S64, shape)])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "bad-input"
    assert f"`{opcode}` cannot be executed" in diagnostic.message
