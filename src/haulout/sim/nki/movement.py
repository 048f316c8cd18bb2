"""Instructions that move elements: copies, DMA, fills, shuffles, gathers."""

from __future__ import annotations

from math import prod

import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.operators import ARITHMETIC
from haulout.sim.nki.places import Place
from haulout.sim.nki.types import from_f32, to_f32
from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

QUADRANT = 32
_UNCHANGED = 255
_CORE = 16
"""Partitions of one core of GpSimd."""


def moved(source: Array, name_from: str, dst: Place) -> Array:
    """Elements as those of the destination: as they are, or through float32."""
    return source if name_from == dst.name or source.dtype == dst.dtype else from_f32(to_f32(source), dst.name)


def copy(call: Call) -> None:
    """`tensor_copy`, `dma_copy` and the older `load`, `store` and assignment: dst = src, element by element."""
    dst, src = call.place("dst"), call.place("src")
    found = src.get()
    skipped = src.skipped()
    if src.size != dst.size:
        if src.size * src.dtype.itemsize == dst.size * dst.dtype.itemsize:
            dst.put(np.ascontiguousarray(found).reshape(-1).view(np.uint8).view(dst.dtype))
            return
        if len(src.shape) > len(dst.shape) or not _broadcasts(src.shape, dst.shape):
            bad_input(f"src has {src.size} elements, dst {dst.size}")
        found = np.broadcast_to(found, dst.shape)
    rmw = call.word("dst_rmw_op")
    if rmw:
        found = ARITHMETIC[rmw](to_f32(dst.get()), to_f32(found).reshape(dst.shape))
        dst.put(from_f32(found, dst.name), skipped)
        return
    dst.put(moved(found, src.name, dst), skipped)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    tail = wanted[len(wanted) - len(shape) :]
    return all(have in (1, want) for have, want in zip(shape, tail, strict=True))


def fill(call: Call) -> None:
    """`memset` and the older fills: every element becomes a value."""
    dst = call.place("dst")
    value = call.number("value")
    if isinstance(value, int) and dst.dtype.kind in "iu":
        dst.put(np.broadcast_to(np.array(value).astype(dst.dtype), dst.shape))
        return
    dst.put(np.broadcast_to(from_f32(np.array(value, np.float32), dst.name), dst.shape))


def dma_transpose(call: Call) -> None:
    """dst = src with its axes in another order: reversed, or (3, 1, 2, 0) of four."""
    dst, src = call.place("dst"), call.place("src")
    found = src.get()
    axes = tuple(call.numbers("axes")) or {4: (3, 1, 2, 0)}.get(found.ndim, tuple(reversed(range(found.ndim))))
    if sorted(axes) != list(range(found.ndim)):
        bad_input(f"`axes` {list(axes)} do not order the {found.ndim} axes of src")
    dst.put(moved(found.transpose(axes), src.name, dst))


def dma_compute(call: Call) -> None:
    """dst = sum of the sources in float32; with an index, dst or one source is moved by it."""
    dst = call.place("dst")
    sources = call.places("srcs")
    if not sources:
        bad_input("`srcs` has no tensors")
    op = ARITHMETIC[call.word("reduce_op", "add")]
    scales = call.args.get("scales")
    values = [to_f32(each.get()).reshape(dst.shape) for each in sources]
    if isinstance(scales, list):
        values = [value * np.float32(scale) for value, scale in zip(values, scales, strict=True)]
    found = values[0]
    for other in values[1:]:
        found = op(found, other)
    skipped = [each for each in (source.skipped() for source in sources) if each is not None]
    dst.put(from_f32(found, dst.name), skipped[0] if skipped else None)


def nc_stream_shuffle(call: Call) -> None:
    """Within each 32 partitions, partition i takes partition mask[i]; those whose mask is 255 stay."""
    dst, src, mask = call.place("dst"), call.place("src"), call.numbers("shuffle_mask")
    if len(mask) != QUADRANT:
        bad_input(f"`shuffle_mask` must have {QUADRANT} entries, found {len(mask)}")
    source, kept = src.rows(), dst.rows().copy()
    rows = np.arange(kept.shape[0])
    lanes = np.asarray(mask)[rows % QUADRANT]
    taken = rows - rows % QUADRANT + lanes
    is_moved = (lanes != _UNCHANGED) & (taken < source.shape[0])
    kept[is_moved] = moved(source, src.name, dst)[taken[is_moved]]
    dst.put(kept)


def tensor_copy_predicated(call: Call) -> None:
    """dst = src where the predicate holds."""
    dst = call.place("dst")
    holds = (call.place("predicate").rows() != 0) ^ call.flag("reverse_pred")
    kept = dst.rows()
    if isinstance(call.args.get("src"), Place):
        src = call.place("src")
        new = moved(src.rows(), src.name, dst)
    else:
        new = from_f32(np.asarray(call.number("src"), np.float32), dst.name)
    dst.put(np.where(holds, new, kept))


def iota(call: Call) -> None:
    """offset + partition * channel_multiplier + what the pattern counts, in 32-bit integers."""
    dst = call.place("dst")
    dst.store(affine(call, dst).astype(np.int32 if dst.dtype.kind in "iu" else np.float32))


def affine(call: Call, dst: Place) -> Array:
    """The values that `iota` counts, as [partitions, elements]."""
    free = np.zeros((1,), np.int64)
    for step, count in call.pattern():
        free = (free[:, None] + step * np.arange(count)).reshape(-1)
    by = int(call.number("channel_multiplier"))
    first = int(call.number("offset"))
    found = first + by * np.arange(dst.partitions, dtype=np.int64)[:, None] + free
    if found.size != dst.size:
        bad_input(f"`pattern` counts {free.size} elements of each partition, dst has {dst.size // dst.partitions}")
    return found


def affine_select(call: Call) -> None:
    """on_true_tile where a count compares with 0 as asked, else a value."""
    dst = call.place("dst")
    compare = ARITHMETIC[call.word("cmp_op", "equal")]
    holds = compare(affine(call, dst), 0) != 0
    source = call.place("on_true_tile")
    other = from_f32(np.asarray(call.number("on_false_value"), np.float32), dst.name)
    dst.put(np.where(holds, moved(source.rows(), source.name, dst), other))


def nc_n_gather(call: Call) -> None:
    """dst[p, f] = data[p, indices[p, f]]."""
    dst, data, indices = call.place("dst"), call.place("data"), call.place("indices").rows().astype(np.int64)
    source = data.rows()
    _in_range(indices, source.shape[1])
    dst.put(moved(np.take_along_axis(source, indices, 1), data.name, dst))


def local_gather(call: Call) -> None:
    """Each 16 partitions have one list of indices, column by column; all of them take the elements from there."""
    dst, data, index = call.place("dst"), call.place("src_buffer"), call.place("index").rows().astype(np.int64)
    each = int(call.number("num_elem_per_idx", 1))
    source = data.rows()
    result = dst.rows().copy()
    for begin in range(0, dst.partitions, _CORE):
        lanes = slice(begin, begin + _CORE)
        order = index[lanes].T.reshape(-1)
        valid = call.args.get("num_valid_indices")
        if valid is not None:
            order = order[: int(call.number("num_valid_indices"))]
        order = order[: result.shape[1] // each]
        places = (order[:, None] + np.arange(each)).reshape(-1)
        _in_range(places, source.shape[1])
        result[lanes, : len(places)] = moved(source, data.name, dst)[lanes][:, places]
    dst.put(result)


def _in_range(indices: Array, count: int) -> None:
    outside = (indices < 0) | (indices >= count)
    if outside.any():
        bad_input(f"index {int(indices[outside].ravel()[0])} is not one of {count} elements")


def exchange(call: Call) -> None:
    """A collective of one rank: each destination takes its source."""
    sources, targets = call.places("srcs"), call.places("dsts")
    if len(sources) != len(targets) or any(
        prod(one.shape) != prod(two.shape) for one, two in zip(sources, targets, strict=True)
    ):
        bad_input("it exchanges data with other devices; the simulator has one")
    for one, two in zip(sources, targets, strict=True):
        two.put(moved(one.get(), one.name, two))
