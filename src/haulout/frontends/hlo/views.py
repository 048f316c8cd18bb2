"""Movements of elements as views: the operand with other strides, no data moves.

    copy          the operand                              slice        offset and strides, times the slice's stride
    transpose     strides in another order                 reverse      negative strides from the last element
    broadcast     stride 0 along new dimensions            reshape      strides of split and joined dimensions, if any
    iota          a line of numbers, stride 0 along the other dimensions
    moving-slice  the operand's strides, at an offset that moves with a loop (`affine_starts.py`)

Each function takes an operation, checks its attributes and its shape, and gives a view of the operand's array. The
view also knows the array that the operation itself would store (`View.stored`): the operation stays among the steps
until `movements.py` has decided who reads which of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Layout, Motion, Moving, MovingSlice, Operation, View
from haulout.ir.patterns import row_major_strides


def strides_of(view: View) -> tuple[int, ...]:
    """Bytes between neighbours along each dimension."""
    return view.layout.strides if view.layout else tuple(row_major_strides(view.shape.dims, view.itemsize))


def seen(view: View, dims: Sequence[int], strides: Sequence[int], offset: int = 0) -> View:
    """The elements of a view in another arrangement; `offset` counts from its first one."""
    first = (view.layout.offset if view.layout else 0) + offset
    shape = Shape(view.shape.dtype, tuple(dims))
    layout = Layout(first, tuple(strides), view.motion)
    itemsize = view.itemsize
    whole = shape.count * itemsize == View(view.array, view.array.shape).nbytes
    used = [(extent, stride) for extent, stride in zip(dims, strides, strict=True) if extent != 1]
    plain = row_major_strides([extent for extent, _ in used], itemsize) == [stride for _, stride in used]
    is_all = first == 0 and whole and plain and view.motion is None
    return View(view.array, shape, None if is_all else layout)


def plain(view: View, shape: Shape | None = None) -> View:
    """The same elements as all bytes of an array, row-major, in another shape if wanted."""
    array = view.array if view.layout is None else view.stored
    assert array is not None
    return View(array, shape or view.shape)


def reshaped(view: View, shape: Shape) -> View | None:
    """A view with another shape of as many elements; None where no strides give that order.

    First dimensions that follow each other without a gap become one, then each of these is split as the new shape
    asks.
    """
    if view.layout is None:
        return View(view.array, shape, stored=view.stored)
    runs: list[tuple[int, int]] = []
    for extent, step in zip(view.shape.dims, view.layout.strides, strict=True):
        if runs and runs[-1][1] == extent * step:
            runs[-1] = (runs[-1][0] * extent, step)
        elif extent != 1:
            runs.append((extent, step))
    strides: list[int] = []
    for extent in shape.dims:
        if extent == 1:
            strides.append(0)
            continue
        rest, step = runs[0]
        if rest % extent:
            return None
        strides.append(step * rest // extent)
        runs[0] = (rest // extent, step)
        if runs[0][0] == 1:
            del runs[0]
    return replace(seen(view, shape.dims, strides), stored=view.stored)


_DOT = ("batch", "contracting")


def dot_dims(dot: Operation) -> list[dict[str, tuple[int, ...]]]:
    """The dimensions of each operand of a `dot` that are `batch` and `contracting`; the others are free."""
    return [{kind: dot.integers(f"{side}_{kind}_dims", optional=True) for kind in _DOT} for side in ("lhs", "rhs")]


def dense_order(view: View, dims: dict[str, tuple[int, ...]]) -> list[int] | None:
    """The dimensions of a `dot`'s operand from the slowest to the fastest in memory.

    None where there are gaps between elements, or where free dimensions change places: the result has them in order.
    """
    steps = strides_of(view)
    order = sorted(range(len(steps)), key=lambda dim: (-steps[dim], dim))
    free = [dim for dim in order if not any(dim in each for each in dims.values())]
    expected = view.itemsize
    for dim in reversed(order):
        if view.shape.dims[dim] != 1:
            if steps[dim] != expected:
                return None
            expected *= view.shape.dims[dim]
    return order if free == sorted(free) else None


def iota_line(iota: Operation) -> tuple[Operation, View] | None:
    """The numbers along an iota's dimension as an operation of its own, and the iota as a view of them.

    None where the iota is no more than these numbers, or is not well formed.
    """
    if len(iota.results) != 1:
        return None  # refused when it is emitted
    (array,) = iota.results
    dims, dim = array.shape.dims, iota.attribute("iota_dimension", attributes.integer)
    if dim >= len(dims) or dims[dim] == array.shape.count:
        return None
    line = Array(array.source, Shape(array.shape.dtype, (dims[dim],)))
    line.producer = operation = Operation(iota.instruction, (), (line,), iota.seq)
    view = View(line, line.shape)
    strides = [view.itemsize if at == dim else 0 for at in range(len(dims))]
    return operation, View(line, array.shape, Layout(0, tuple(strides)), array)


def _copy(operation: Operation) -> View:
    operation.expect_counts(1)
    (operand,) = operation.operands
    operation.expect_result(operand.shape.dims, operand.shape.dtype)
    return operand


def _slice(operation: Operation) -> View:
    operation.expect_counts(1)
    (operand,) = operation.operands
    dims, bounds = operand.shape.dims, operation.attribute("slice", attributes.slices)
    inside = all(start <= limit <= extent for (start, limit, _), extent in zip(bounds, dims, strict=False))
    operation.expect(len(bounds) == len(dims) and inside, "the slices must be one a dimension, each inside it")
    counts = [max(0, -((start - limit) // stride)) for start, limit, stride in bounds]
    operation.expect_result(tuple(counts), operand.shape.dtype)
    steps = strides_of(operand)
    offset = sum(step * start for step, (start, _, _) in zip(steps, bounds, strict=True))
    return seen(operand, counts, [s * stride for s, (_, _, stride) in zip(steps, bounds, strict=True)], offset)


def _moving_slice(operation: Operation) -> View:
    assert isinstance(operation, MovingSlice)
    return moving_part(operation, operation.operands[0], operation.results[0].shape.dims)


def moving_part(operation: Moving, view: View, dims: Sequence[int]) -> View:
    """The part of these extents that the operation reads or writes of a view, which may move with the same loop."""
    strides = strides_of(view)
    offset, moved = (
        sum(stride * at for stride, at in zip(strides, places, strict=True))
        for places in (operation.starts, operation.steps)
    )
    moved += view.motion.stride if view.motion else 0
    offset += view.layout.offset if view.layout else 0
    part = seen(View(view.array, view.shape), dims, strides, offset)
    return replace(part, layout=Layout(offset, strides, Motion(operation.loop, moved))) if moved else part


def _transpose(operation: Operation) -> View:
    operation.expect_counts(1)
    (operand,) = operation.operands
    dims, order = operand.shape.dims, operation.integers("dimensions")
    operation.expect(sorted(order) == list(range(len(dims))), "`dimensions` must be a permutation")
    operation.expect_result(tuple(dims[dim] for dim in order), operand.shape.dtype)
    steps = strides_of(operand)
    return seen(operand, [dims[dim] for dim in order], [steps[dim] for dim in order])


def _reverse(operation: Operation) -> View:
    operation.expect_counts(1)
    (operand,) = operation.operands
    dims, chosen = operand.shape.dims, operation.integers("dimensions")
    expect_dims(operation, chosen, len(dims))
    operation.expect_result(dims, operand.shape.dtype)
    steps = strides_of(operand)
    offset = sum(steps[dim] * (dims[dim] - 1) for dim in chosen)
    return seen(operand, dims, [-step if dim in chosen else step for dim, step in enumerate(steps)], offset)


def _broadcast(operation: Operation) -> View:
    operation.expect_counts(1)
    (operand,) = operation.operands
    result, dims = operation.results[0].shape, operation.integers("dimensions", optional=True)
    expect_dims(operation, dims, len(result.dims))
    fits = tuple(result.dims[dim] for dim in dims) == operand.shape.dims
    operation.expect(fits, "`dimensions` must place every dimension of the operand in one of the same size")
    operation.expect_result(result.dims, operand.shape.dtype)
    steps = [0] * len(result.dims)
    for dim, step in zip(dims, strides_of(operand), strict=True):
        steps[dim] = step
    return seen(operand, result.dims, steps)


def expect_dims(operation: Operation, dims: tuple[int, ...], rank: int) -> None:
    """Fail unless they are distinct dimensions of an array of that rank."""
    fits = len(set(dims)) == len(dims) and all(dim < rank for dim in dims)
    operation.expect(fits, f"`dimensions` must be distinct and below {rank}")


class Movement(NamedTuple):
    """An opcode that only moves elements."""

    view: Callable[[Operation], View]
    """The operand as the operation arranges it."""
    attributes: tuple[str, ...]
    """Those that it reads."""


MOVEMENTS = {
    "copy": Movement(_copy, ()),
    "slice": Movement(_slice, ("slice",)),
    "transpose": Movement(_transpose, ("dimensions",)),
    "reverse": Movement(_reverse, ("dimensions",)),
    "broadcast": Movement(_broadcast, ("dimensions",)),
    "moving-slice": Movement(_moving_slice, ("dynamic_slice_sizes",)),
}
"""The last one is no opcode of HLO text: `flatten.py` makes it of a `dynamic-slice`."""
