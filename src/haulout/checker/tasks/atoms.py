"""The bytes that tasks touch, cut into atoms: no access touches a part of one.

Accesses with equal storage, offset and shape share an extent. Extents whose spans overlap form a component, and no
byte of one component is in another. Components that no task writes need no atoms. In a component with strided extents
equal neighbouring rows are taken for one, where rows are as long as the largest stride: so tiles of a matrix have one
run each, or few. Runs are cut as those of a program are (`proofs/extents.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.checker.bytesets import ByteSet, compacted, normal, runs
from haulout.checker.columns import grouped
from haulout.checker.proofs.extents import Cut, cut_runs
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.task_graph import TaskGraph

MAX_RUNS = 1 << 20
"""Runs of a component ..."""
MAX_CELLS = 1 << 24
"""... and parts of them between the ends of others. A component with more is not checked, which is a finding."""


@dataclass(slots=True)
class Atoms:
    """Extents and their atoms."""

    of_access: Ids
    """Extent of each access."""
    starts: Ints
    """Extent e has the atoms `low[k]:high[k]` for k in `starts[e]:starts[e + 1]`."""
    low: Ids
    high: Ids
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
    written = np.bincount(of_access, access.write, minlength=len(low)) > 0

    component = _components(storage, low, high)
    count = int(component.max(initial=-1)) + 1
    has_write = np.bincount(component, written, minlength=count) > 0
    dims = np.array([len(each.dims) for each in sets], np.int64)[shape]
    # One extent is one atom, whatever its bytes are.
    strided = (np.bincount(component, dims, minlength=count) > 0) & (np.bincount(component, minlength=count) > 1)
    # Storages are put one behind the other: components are in their order.
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, component, low)
    np.maximum.at(last, component, high)
    key = np.cumsum(last - first) - last
    flat = np.flatnonzero((has_write & ~strided)[component]).astype(np.int32)
    shift = key[component[flat]]
    plain = cut_runs(flat, low[flat] + shift, high[flat] + shift, len(low), None)
    assert plain is not None
    cuts = [(np.arange(len(low)), plain)]
    too_fine = np.zeros(len(low), bool)
    tensor = np.zeros(len(low), np.int32)
    tensor[of_access] = access.tensor
    starts, rows = grouped(component, count)
    for each in np.flatnonzero(has_write & strided).tolist():
        inside = rows[starts[each] : starts[each + 1]]
        origin = int(graph.base[tensor[inside[0]]])
        found = _cut([sets[shape[row]].shifted(int(offset[row]) - origin) for row in inside.tolist()])
        if found is None:
            too_fine[inside] = True
        else:
            cuts.append((inside, found))
    return _joined(of_access, cuts, too_fine)


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


def _cut(sets: list[ByteSet]) -> Cut | None:
    """The atoms of some sets of bytes of one tensor; None if there are too many runs, or parts of runs."""
    pitch = max(each.dims[0][0] for each in sets if each.dims)
    parts = [(at, part) for at, each in enumerate(sets) for part in _rows(each, pitch)]
    end = max(each.offset + each.span for each in sets)
    small = compacted([part for _, part in parts], -(-end // pitch) * pitch).sets
    if sum(each.max_runs for each in small) > MAX_RUNS:
        return None
    listed = [runs(each) for each in small]
    extent = np.repeat(np.array([at for at, _ in parts], np.int32), [len(low) for low, _ in listed])
    low, high = (np.concatenate(side) for side in zip(*listed, strict=True))
    return cut_runs(extent, low, high, len(sets), MAX_CELLS)


def _rows(some: ByteSet, pitch: int) -> list[ByteSet]:
    """One run in parts: what ends a row, whole rows, what begins one. Other sets stay as they are."""
    begin, end = some.offset, some.offset + some.run
    if some.dims or begin // pitch == (end - 1) // pitch:
        return [some]
    edges = begin, -(-begin // pitch) * pitch, end // pitch * pitch, end
    return [ByteSet(low, high - low) for low, high in pairwise(edges) if high > low]


def _joined(of_access: Ids, cuts: list[tuple[Ints, Cut]], too_fine: Bools) -> Atoms:
    """Extents that were cut apart from each other, given by their numbers."""
    extents, lows, highs, count = [], [], [], 0
    for inside, found in cuts:
        extents.append(np.repeat(inside, np.diff(found.starts)))
        lows.append(found.low + count)
        highs.append(found.high + count)
        count += len(found.first_key)
    extent = np.concatenate(extents)
    order = np.argsort(extent, kind="stable")
    starts = np.searchsorted(extent[order], np.arange(len(too_fine) + 1))
    low, high = (np.concatenate(side)[order].astype(np.int32) for side in (lows, highs))
    return Atoms(of_access, starts, low, high, count, too_fine)
