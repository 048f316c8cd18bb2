"""Search and sets: the largest elements, their places, elements that are not zero."""

from __future__ import annotations

import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.types import from_f32
from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

_EIGHT = 8


def max8(call: Call) -> None:
    """The eight largest elements of each partition, the largest first; equal ones repeat."""
    values = -call.place("src").f32()
    if values.shape[1] < _EIGHT:
        bad_input(f"`src` has {values.shape[1]} elements in each partition; it needs {_EIGHT}")
    call.place("dst").store(-np.sort(np.partition(values, _EIGHT - 1, axis=1)[:, :_EIGHT], axis=1))


def nc_find_index8(call: Call) -> None:
    """The first place of each of eight values, each place once; all ones where a value is absent."""
    dst, data, vals = call.place("dst"), call.place("data").f32(), call.place("vals").f32()
    taken = np.zeros(data.shape, np.bool_)
    found = np.full((len(data), _EIGHT), np.iinfo(dst.dtype).max, np.int64)
    for at in range(_EIGHT):
        place, is_there = _first(data, vals[:, at], taken)
        found[is_there, at] = place[is_there]
    dst.put(found.astype(dst.dtype))


def nc_match_replace8(call: Call) -> None:
    """The first place of each of eight values, the last value first, becomes `imm`; `dst_idx` takes the places."""
    dst, source, vals = call.place("dst"), call.place("data"), call.place("vals").f32()
    data = source.f32()
    taken = np.zeros(data.shape, np.bool_)
    places = np.full((len(data), _EIGHT), -1, np.int64)
    for at in reversed(range(_EIGHT)):
        place, is_there = _first(data, vals[:, at], taken)
        places[is_there, at] = place[is_there]
    dst.store(np.where(taken, np.float32(call.number("imm")), data))
    if call.has("dst_idx"):
        index = call.place("dst_idx")
        index.put(places.astype(index.dtype))


def _first(data: Array, wanted: Array, taken: Array) -> tuple[Array, Array]:
    """The first place in each row that holds a value and is not taken, which it takes; and where there is one."""
    is_equal = (data == wanted[:, None]) & ~taken
    place = is_equal.argmax(axis=1)
    is_there = is_equal.any(axis=1)
    taken[np.flatnonzero(is_there), place[is_there]] = True
    return place, is_there


def nonzero_with_count(call: Call) -> None:
    """In partitions 0, 16, 32, ...: the places of elements that are not zero, padding, and how many there are."""
    dst, source = call.place("dst"), call.place("src").rows()
    kept = dst.rows().copy()
    first, padding = int(call.number("index_offset")), int(call.number("padding_val", -1))
    for row in range(0, kept.shape[0], 16):
        places = np.flatnonzero(source[row] != 0)
        kept[row, :-1] = np.asarray(padding).astype(dst.dtype)
        kept[row, : len(places)] = first + places
        kept[row, -1] = len(places)
    dst.put(kept)


def sequence_bounds(call: Call) -> None:
    """Start and end of the run of equal ids around each element; of an id of 0: the length, and -1."""
    dst, ids = call.place("dst"), call.place("segment_ids").rows()
    count = ids.shape[1]
    found = np.empty((len(ids), 2, count), np.float32)
    for row, line in enumerate(ids):
        starts = np.flatnonzero(np.append(True, line[1:] != line[:-1]))
        ends = np.append(starts[1:], count)
        run = np.cumsum(np.append(True, line[1:] != line[:-1])) - 1
        found[row, 0] = np.where(line == 0, count, starts[run])
        found[row, 1] = np.where(line == 0, -1, ends[run])
    dst.put(from_f32(found, dst.name))
