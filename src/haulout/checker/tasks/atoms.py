"""The bytes that tasks touch, cut into atoms: no access touches a part of one.

Accesses with equal storage, offset and shape share an extent. Extents whose spans overlap form a component, and no
byte of one component is in another. Components that no task writes need no atoms. In a component of single runs, the
ends of the runs cut it. A component with strided extents is a grid: its rows are as long as the most usual of the
largest strides, an extent is a few rectangles, and the edges of all rectangles cut the rows and the columns. Cells
that the same extents cover are one atom. Tiles of a matrix have one atom each, or few.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.checker.bytesets import ByteSet, normal
from haulout.checker.columns import join_ranges
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.task_graph import TaskGraph

MAX_BOXES = 1 << 18
"""Rectangles of a component ..."""
MAX_CELLS = 1 << 24
"""... and cells that they cover. A component with more is not checked, which is a finding."""

Box = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""


@dataclass(slots=True)
class Atoms:
    """Extents and their atoms."""

    of_access: Ids
    """Extent of each access."""
    starts: Ints
    """Extent e has the atoms `atoms[starts[e]:starts[e + 1]]`."""
    atoms: Ids
    count: int
    """The number of atoms."""
    too_fine: Bools
    """Extents that have no atoms because there would be too many."""


def cut(graph: TaskGraph) -> Atoms:
    """The extents and atoms of all accesses; extents of components without a write have no atoms."""
    access = graph.accesses
    sets = [normal(0, run, dims) for run, dims in graph.shapes]
    order = np.lexsort((access.shape, access.offset, access.storage))
    storage, offset, shape = access.storage[order], access.offset[order], access.shape[order]
    new = np.ones(len(order), bool)
    new[1:] = (storage[1:] != storage[:-1]) | (offset[1:] != offset[:-1]) | (shape[1:] != shape[:-1])
    of_access = np.empty(len(order), np.int32)
    of_access[order] = np.cumsum(new) - 1
    storage, offset, shape = storage[new], offset[new], shape[new]
    low = offset + np.array([each.offset for each in sets], np.int64)[shape]
    high = low + np.array([each.span for each in sets], np.int64)[shape]
    flat = np.array([not each.dims for each in sets], bool)[shape]
    written = np.bincount(of_access, access.write, minlength=len(low)) > 0

    component = _components(storage, low, high)
    count = int(component.max(initial=-1)) + 1
    has_write = np.bincount(component, written, minlength=count) > 0
    size = np.bincount(component, minlength=count)
    strided = np.bincount(component, ~flat, minlength=count) > 0
    single, grid = size == 1, strided & (size > 1) & has_write

    extents, atoms = [], []
    # One extent: one atom.
    lone = np.flatnonzero((single & has_write)[component])
    extents.append(lone)
    atoms.append(np.arange(len(lone)))
    total = len(lone)
    # Runs: the ends of all of them cut the storages, which are put one behind the other.
    runs = np.flatnonzero((~single & ~strided & has_write)[component])
    values, rank = np.unique(np.concatenate([low[runs], high[runs]]), return_inverse=True)
    keys = np.tile(component[runs].astype(np.int64), 2) * len(values) + rank
    places = np.unique(keys)
    begin, end = np.searchsorted(places, keys[: len(runs)]), np.searchsorted(places, keys[len(runs) :])
    extents.append(np.repeat(runs, end - begin))
    atoms.append(total + join_ranges(begin, end - begin))
    total += len(places)
    # Grids, one at a time.
    too_fine = np.zeros(len(low), bool)
    members = np.flatnonzero(grid[component])
    members = members[np.argsort(component[members], kind="stable")]
    ends = np.flatnonzero(np.append(component[members][1:] != component[members][:-1], True)) + 1
    tensor = np.zeros(len(low), np.int32)
    tensor[of_access] = access.tensor
    for first, last in pairwise([0, *ends.tolist()] if len(members) else []):
        inside = members[first:last]
        origin = int(graph.base[tensor[inside[0]]])
        parts = [sets[shape[each]].shifted(int(offset[each]) - origin) for each in inside.tolist()]
        found = _grid(parts)
        if found is None:
            too_fine[inside] = True
            continue
        extents.append(inside[found[0]])
        atoms.append(total + found[1])
        total += int(found[1].max(initial=-1)) + 1
    extent, atom = np.concatenate(extents), np.concatenate(atoms)
    by_extent = np.argsort(extent, kind="stable")
    starts = np.searchsorted(extent[by_extent], np.arange(len(low) + 1))
    return Atoms(of_access, starts, atom[by_extent].astype(np.int32), total, too_fine)


def _components(storage: Ids, low: Ints, high: Ints) -> Ids:
    """The component of each extent: those whose spans overlap, also by way of others."""
    component = np.empty(len(low), np.int32)
    order = np.lexsort((low, storage))
    storage, low, high = storage[order], low[order], high[order]
    begins = np.zeros(len(low), bool)
    edges = np.flatnonzero(np.append(True, storage[1:] != storage[:-1])[: len(low)])
    for begin, end in pairwise([*edges.tolist(), len(low)]):
        begins[begin] = True
        begins[begin + 1 : end] = low[begin + 1 : end] >= np.maximum.accumulate(high[begin : end - 1])
    component[order] = np.cumsum(begins) - 1
    return component


def _grid(sets: list[ByteSet]) -> tuple[Ints, Ints] | None:
    """(index of the set, atom) of sets of bytes, sorted by set; None if there are too many rectangles or cells."""
    pitch = Counter(each.dims[0][0] for each in sets if each.dims).most_common(1)[0][0]
    owner: list[int] = []
    boxes: list[Box] = []
    for at, each in enumerate(sets):
        found = _boxes(each, pitch, MAX_BOXES - len(boxes))
        if found is None:
            return None
        owner += [at] * len(found)
        boxes += found
    table = np.array(boxes, np.int64).reshape(-1, 4)
    of_set = np.array(owner, np.int64)
    rows, columns = np.unique(table[:, :2]), np.unique(table[:, 2:])
    top, bottom = np.searchsorted(rows, table[:, 0]), np.searchsorted(rows, table[:, 1])
    left, right = np.searchsorted(columns, table[:, 2]), np.searchsorted(columns, table[:, 3])
    height, width = bottom - top, right - left
    if int((height * width).sum()) > MAX_CELLS:
        return None
    # Rows of each box, then the cells of each of them.
    row = join_ranges(top, height)
    box = np.repeat(np.arange(len(table)), height)
    cell = np.repeat(row, width[box]) * len(columns) + join_ranges(left[box], width[box])
    of_cell = np.repeat(of_set[box], width[box])
    pair = np.unique(cell * len(sets) + of_cell)
    return _merged(pair // len(sets), pair % len(sets))


def _merged(cell: Ints, of_cell: Ints) -> tuple[Ints, Ints]:
    """One atom for the cells that the same sets cover, told apart by sums of random numbers.

    Should two sums be equal by chance, the atom has the sets of both: too few bytes are told apart, never too many.
    """
    first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
    sizes = np.diff(np.append(first, len(cell)))
    weight = np.random.default_rng(0).integers(0, 1 << 64, int(of_cell.max()) + 1, np.uint64)
    total = np.add.reduceat(weight[of_cell], first)
    names, atom = np.unique(total, return_inverse=True)
    pairs = np.unique(of_cell * len(names) + np.repeat(atom, sizes))
    return pairs // len(names), pairs % len(names)


def _boxes(some: ByteSet, pitch: int, limit: int) -> list[Box] | None:
    """A set of bytes as rectangles in rows of `pitch` bytes; None if there are more than `limit`."""
    if not some.dims:
        return _run(some.offset, some.offset + some.run, pitch)
    (stride, count), *inner = some.dims
    part = ByteSet(some.offset, some.run, tuple(inner))
    found: list[Box] = []
    inside = _boxes(part, pitch, limit)
    if inside is None:
        return None
    if stride == pitch and len({each[0] for each in inside}) == 1 and all(each[1] == each[0] + 1 for each in inside):
        return [(top, top + count, left, right) for top, _, left, right in inside]
    if len(inside) * count > limit:
        return None
    for at in range(count):
        again = _boxes(part.shifted(stride * at), pitch, limit)
        if again is None or len(found) + len(again) > limit:
            return None
        found += again
    return found


def _run(low: int, high: int, pitch: int) -> list[Box]:
    """A run of bytes as at most three rectangles."""
    first, last = low // pitch, (high - 1) // pitch
    if first == last:
        return [(first, first + 1, low - first * pitch, high - first * pitch)]
    found: list[Box] = []
    if low > first * pitch:
        found.append((first, first + 1, low - first * pitch, pitch))
        first += 1
    full = high // pitch
    if full > first:
        found.append((first, full, 0, pitch))
    if high > full * pitch:
        found.append((full, full + 1, 0, high - full * pitch))
    return found
