"""Indices of the first NKI: `nl.arange`, `nl.mgrid`, arithmetic on them, and masks made of comparisons.

    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    nl.load(x[128 * i + i_p, i_f], mask=(128 * i + i_p < rows))

Loops are unrolled, so an index array has known numbers: it is a NumPy array, and its axes are those of the tile. An
access maps onto a view if its indices are affine in the axes, and a mask if it keeps a box of the tile. All others
are a `kernel-error` at their line. A mask may cut what would leave the tensor, so bounds are checked when the view is
used (`check_grid`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import reject
from haulout.frontends.nki.layout import Dynamic, DynamicSlice
from haulout.frontends.nki.registers import VirtualRegister

if TYPE_CHECKING:
    from haulout.frontends.nki.tensor import Tensor

Box = tuple[tuple[int, int], ...]
"""Half-open range of each axis."""


class AxisIndex(NamedTuple):
    """The index of one dimension of a tensor: `base + sum(steps[d] * i_d)`."""

    axis: int
    base: int
    steps: tuple[int, ...]


Grid = tuple[AxisIndex, ...]


class ArrayView(NamedTuple):
    """The layout of `tensor[index arrays]`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    grid: Grid
    dynamic: Dynamic | None
    vector: bool
    """`dynamic` has an index for each partition."""


class Mesh:
    """`nl.mgrid[0:128, 0:512]`: an index array for each axis, also by the names p, x, y, z, w."""

    def __getitem__(self, key: slice | tuple[slice, ...]) -> MeshIndices:
        parts = key if isinstance(key, tuple) else (key,)
        arrays = [np.arange(part.start or 0, part.stop, part.step or 1) for part in parts]
        return MeshIndices(np.ix_(*arrays))


class MeshIndices(tuple[npt.NDArray[Any], ...]):
    """The arrays of a mesh."""

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        at = "pxyzw".find(name) if len(name) == 1 else -1
        if not 0 <= at < len(self):
            raise AttributeError(name)
        return self[at]


def array_view(tensor: Tensor, key: tuple[Any, ...]) -> ArrayView:
    """`tensor[key]` where some parts of the key are index arrays; dimensions without a part are whole."""
    key = tuple(_known(part) for part in key)
    arrays = [part for part in key if isinstance(part, np.ndarray)]
    vectors = [part for part in key if hasattr(part, "storage") and part.size > 1]
    try:
        grid = np.broadcast_shapes(*(each.shape for each in (*arrays, *vectors)))
    except ValueError:
        reject(f"the shapes of the index arrays do not fit: {', '.join(str(each.shape) for each in arrays)}")
    if len(key) > tensor.ndim:
        reject(f"too many indices for {tensor!r}: {len(key)}")
    rest = tensor.ndim - len(key)
    shape, steps = (*grid, *tensor.shape[len(key) :]), [0] * (len(grid) + rest)
    offset, axes = tensor.offset, []
    dynamic: Dynamic | None = None
    vector = False
    for axis, part in enumerate(key):
        stride = tensor.strides[axis]
        if isinstance(part, np.ndarray):
            base, own = affine(part, len(grid))
            axes.append(AxisIndex(axis, base, (*own, *(0,) * rest)))
            offset += base * stride
            for at, step in enumerate(own):
                steps[at] += step * stride
        elif isinstance(part, int | np.integer):
            at = int(part) + (tensor.shape[axis] if part < 0 else 0)
            axes.append(AxisIndex(axis, at, (0,) * len(shape)))
            offset += at * stride
        elif isinstance(part, VirtualRegister) or hasattr(part, "storage"):
            if dynamic is not None:
                reject("a view can have one index from the device only")
            vector = hasattr(part, "storage") and part.size > 1
            dynamic = Dynamic(part, stride, tensor.shape[axis])
        else:
            reject("index arrays and slices do not mix in one access", "nl.arange for every dimension, or slices")
    for at in range(rest):
        steps[len(grid) + at] = tensor.strides[len(key) + at]
    if vector and dynamic is not None and (dynamic.index.shape[0] != shape[0] or steps[0]):
        reject("an index tensor takes the place of the first axis, with an index for each partition")
    return ArrayView(shape, tuple(steps), offset, tuple(axes), dynamic, vector)


def as_arrays(key: tuple[Any, ...], shape: tuple[int, ...], *, on_chip: bool) -> tuple[Any, ...]:
    """A key of integers and slices of a tensor of a shape as one of integers and index arrays; others stay as they
    are."""
    kept = [at for at, part in enumerate(key) if isinstance(part, slice | DynamicSlice) or (on_chip and at == 0)]
    found = list(key)
    for place, at in enumerate(kept):
        part = key[at]
        if isinstance(part, DynamicSlice):
            array = np.arange(part.start, part.start + part.size) if isinstance(part.start, int) else None
        elif isinstance(part, slice):
            stop = shape[at] if part.stop is None else part.stop
            array = np.arange(part.start or 0, stop, part.step or 1) if (part.start or 0) >= 0 <= stop else None
        else:
            array = np.arange(int(part), int(part) + 1)
        if array is not None:
            found[at] = array.reshape(-1, *[1] * (len(kept) - place - 1))
    return tuple(found)


def _known(part: Any) -> Any:
    return part.value if isinstance(part, VirtualRegister) and part.value is not None else part


def affine(array: npt.NDArray[Any], rank: int) -> tuple[int, tuple[int, ...]]:
    """The base and the step of each axis of an index array."""
    if array.dtype.kind not in "iu" or array.size == 0:
        reject(f"an index array must have integers, found {array.dtype} of shape {array.shape}")
    base, steps = int(array.flat[0]), []
    expected = np.full(array.shape, base, np.int64)
    for axis, count in enumerate(array.shape):
        step = int(np.take(array, 1, axis).flat[0]) - base if count > 1 else 0
        steps.append(step)
        expected += (np.arange(count) * step).reshape(-1, *[1] * (array.ndim - axis - 1))
    if not np.array_equal(expected, array):
        reject("the index array is not affine in its axes", "split the access, or load the indices as a tensor")
    return base, (*(0,) * (rank - array.ndim), *steps)


def cut(grid: Grid, box: Box) -> Grid:
    """The grid of a part of a view."""
    return tuple(
        each._replace(base=each.base + sum(step * low for step, (low, _) in zip(each.steps, box, strict=True)))
        for each in grid
    )


def check_grid(tensor: Tensor, extents: tuple[int, ...], name: str) -> None:
    """Report an access that leaves its tensor, whose dimensions are `extents`."""
    for each in tensor.grid or ():
        reach = [step * (count - 1) for step, count in zip(each.steps, tensor.shape, strict=True)]
        low = each.base + sum(min(move, 0) for move in reach)
        high = each.base + sum(max(move, 0) for move in reach) + 1
        if low < 0 or high > extents[each.axis]:
            session.recorder().findings.add(
                "out-of-bounds",
                f"elements {low}:{high} are outside of dimension {each.axis} of {name}, which has "
                f"{extents[each.axis]}",
                subject=f"{name}.{each.axis}",
            )


# -- masks -----------------------------------------------------------------------------------------------------------


def mask_box(mask: Any) -> Box | None:
    """The box that a mask keeps, over its own axes; None: it keeps nothing. An axis that it does not depend on has
    the range (0, 1)."""
    if hasattr(mask, "storage"):
        reject("a mask must be a comparison of index arrays, found a tensor", "nl.where")
    array = np.asarray(mask)
    if array.dtype.kind != "b":
        reject(f"a mask must be a comparison of index arrays, found {array.dtype}")
    if not array.any():
        return None
    box: list[tuple[int, int]] = []
    for axis in range(array.ndim):
        kept = np.flatnonzero(array.any(axis=tuple(other for other in range(array.ndim) if other != axis)))
        box.append((int(kept[0]), int(kept[-1]) + 1))
    if np.count_nonzero(array) != np.prod([high - low for low, high in box], dtype=np.int64):
        reject("the mask does not keep a box of the tile", "nisa.affine_select, or slices")
    return tuple(box)


def masked(tensor: Tensor, mask: Any, box: Box) -> Tensor:
    """The part of an operand that a mask keeps. An axis of size 1 stays, as it is broadcast."""
    counts = np.shape(mask)
    parts: list[tuple[int, int]] = [(0, count) for count in tensor.shape]
    for axis, (count, kept) in enumerate(zip(counts, box, strict=True)):
        if count == 1 or kept == (0, count):
            continue
        # The first axis is the partition; the others are counted from the last, as in NumPy.
        at = 0 if axis == 0 else axis - len(counts) + tensor.ndim
        if not 0 <= at < tensor.ndim or tensor.shape[at] not in (1, count):
            reject(f"a mask of shape {list(counts)} does not fit {tensor!r}")
        if tensor.shape[at] == count:
            parts[at] = kept
    return tensor.cut(tuple(parts))
