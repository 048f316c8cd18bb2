"""The distinct extents that accesses touch, cut into atoms.

An *extent* is the bytes of a location with a pattern; accesses through equal patterns share one. The ends of all runs
of all extents cut the line of storage keys into segments, so no extent begins or ends inside one. Under strided
extents, segments that the same extents cover are one *atom*: the even rows of a tensor are one atom, not a thousand.
An extent is then a few ranges of atoms, two extents overlap exactly when they share an atom, and a walk over atoms
never handles bytes.

Two sorts of extents are *atomless*: `?`, whose bytes are not known, and strided ones of so many runs that cutting
them costs more than comparing them. For those, the overlapping extents are listed: `extent_pairs.py` finds candidates
without comparing all pairs, and `strided_overlap.py` decides each candidate exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np

from haulout.checker import bytesets
from haulout.checker.bytesets import ByteSet
from haulout.checker.columns import distinct, join_ranges, positions
from haulout.checker.model import Model
from haulout.checker.proofs.extent_pairs import Bounds, candidates
from haulout.checker.proofs.storage_map import StorageMap
from haulout.checker.proofs.strided_overlap import Strided, overlapping
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.ir.verify_operands import pattern_hulls

MAX_RUNS = 1 << 16
"""An extent of more runs is atomless."""
RUNS_LIMIT = 1 << 19
"""When the strided extents together have more runs, those with the most are atomless ..."""
MAX_PAIRS = 1 << 22
"""... unless more pairs would have to be compared. Then, and where the alternative to atoms is a map of the bytes (in
loops, `stale_bytes.py`, and for undefined bytes), the next limit holds."""
RUNS_LIMIT_WITHOUT_PAIRS = 1 << 22
COVERED_SEGMENTS_LIMIT = 1 << 25
"""The same for the segments that they and the extents above them cover."""


@dataclass(slots=True)
class Extents:
    """Extents as columns. The first `len(model.locations)` are whole locations, in the order of `model.locations`."""

    program: Program
    storage: StorageMap
    of_access: Ids
    """Extent of each access; NONE for accesses left out."""
    whole: Ids
    """By place in `model.locations`: the extent of the whole location. A view that is where its owner is has that of
    its owner, and so have its accesses; its own is empty, unless `wholes` names it."""
    location: Ids
    pattern: Ids
    unknown: Bools
    atomless: Bools
    starts: Ints
    """Extent r covers the atom ranges `low[k]:high[k]` for k in `starts[r]:starts[r + 1]`."""
    low: Ids
    high: Ids
    first_key: Ints
    """The first key of each atom ..."""
    end_key: Ints
    """... and the key after its first run; strided atoms have more runs."""
    slot: Ids
    """Extents that overlap an atomless one are numbered; NONE for the others."""
    overlap_starts: Ints
    overlaps: Ids
    """Extent r overlaps the slots `overlaps[overlap_starts[r]:overlap_starts[r + 1]]`, one of the two being atomless;
    two that are only read are left out."""
    _runs: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)
    _by_slot: Ints | None = None

    def runs(self, extent: int) -> tuple[Ints, Ints]:
        """The maximal runs of an extent as keys; `?` is the whole location."""
        if extent not in self._runs:
            self._runs[extent] = _runs_of(self, extent)
        return self._runs[extent]

    def overlapping(self, extent: int) -> list[int]:
        """The extents that overlap an atomless one; for one with atoms, the atomless extents that overlap it."""
        slots = self.overlaps[self.overlap_starts[extent] : self.overlap_starts[extent + 1]]
        if not len(slots):
            return []
        if self._by_slot is None:
            self._by_slot = np.argsort(self.slot, kind="stable")[np.count_nonzero(self.slot == NONE) :]
        found: list[int] = self._by_slot[slots].tolist()
        return found

    def atomless_overlaps(self, extent: int) -> list[int]:
        """The atomless extents among them."""
        return [each for each in self.overlapping(extent) if self.atomless[each]]

    def max_runs(self, extent: int) -> int:
        """An upper bound of the number of its runs; extents in a grid have few."""
        return 1 if self.storage.is_grid[self.location[extent]] else self.byte_set(extent).max_runs

    def byte_set(self, extent: int) -> ByteSet:
        """An extent of linear storage as a set of keys; `?` is the whole location."""
        location, pattern = int(self.location[extent]), int(self.pattern[extent])
        found = self.program.pattern(pattern)
        whole = ByteSet(0, int(self.program.locations.size[location]))
        normal = whole if found is None or found.is_unknown else bytesets.byte_set(found)
        return normal.shifted(int(self.storage.base[location]))


def find_extents(
    model: Model,
    storage: StorageMap,
    keep: Bools | None = None,
    wholes: Bools | None = None,
    *,
    overlaps: bool = True,
    fine: bool | None = None,
) -> Extents:
    """The extents of a model's accesses, and all its whole locations.

    `keep` masks the accesses, `wholes` the locations (of `model.locations`) that are of interest; others get no
    atoms. With `overlaps=False` the overlaps of atomless extents are not listed. With `fine`, by default in runs of
    loops, extents have atoms wherever that is possible.
    """
    program = model.program
    stands = _same_storage(model, storage)
    of_access, location, pattern = _distinct(model, stands, keep)
    patterns = program.patterns
    unknown = np.append(patterns.run == NONE, False)[pattern]
    used = np.ones(len(location), bool)
    mine = model.locations
    used[: len(mine)] = (stands[mine] == mine) if wholes is None else wholes
    used[of_access[of_access != NONE]] = True
    used &= program.locations.size[location] > 0
    extents = Extents(
        program=program,
        storage=storage,
        of_access=of_access,
        whole=positions(mine, len(program.locations))[stands[mine]],
        location=location,
        pattern=pattern,
        unknown=unknown,
        atomless=unknown & used,
        starts=np.zeros(0, np.int64),
        low=np.zeros(0, np.int32),
        high=np.zeros(0, np.int32),
        first_key=np.zeros(0, np.int64),
        end_key=np.zeros(0, np.int64),
        slot=np.full(len(location), NONE, np.int32),
        overlap_starts=np.zeros(len(location) + 1, np.int64),
        overlaps=np.zeros(0, np.int32),
    )
    # Reads do not conflict with each other: of two extents one is written, or is a whole location.
    listed = np.arange(len(location)) < len(model.locations)
    listed[of_access[model.write & (of_access != NONE)]] = True
    choices: list[tuple[int, int | None]] = [(RUNS_LIMIT_WITHOUT_PAIRS, None)]
    if overlaps and not (model.unrolled is not None if fine is None else fine):
        choices.insert(0, (RUNS_LIMIT, MAX_PAIRS))
    for budget, limit in choices:
        extents.atomless = unknown & used
        _cut(extents, *_all_runs(extents, used, budget))
        if not overlaps or not extents.atomless.any() or _find_overlaps(extents, used, listed, limit):
            break
    return extents


def _same_storage(model: Model, storage: StorageMap) -> Ids:
    """For each location its owner, if the bytes of both have equal keys, else itself."""
    owners, itself = model.owners(), np.arange(len(model.program.locations), dtype=np.int32)
    same = np.zeros(len(owners), bool)
    same[model.locations] = True
    for key in (storage.base, storage.row, storage.pitch, model.program.locations.size):
        same &= key == key[owners]
    return np.where(same, owners, itself).astype(np.int32)


def _distinct(model: Model, stands: Ids, keep: Bools | None) -> tuple[Ids, Ids, Ids]:
    """Extent of each access, and location and pattern of each extent: whole locations, then the rest by (both).

    For the location of an access, the one of `stands` is taken.
    """
    program = model.program
    wholes = len(model.locations)
    touched = stands[model.location]
    of_access = positions(model.locations, len(program.locations))[touched]
    # The pattern `0:size` is the whole location.
    patterns, sizes = program.patterns, program.locations.size
    partial = np.flatnonzero(model.pattern != NONE)
    each = model.pattern[partial]
    whole = (patterns.offset[each] == 0) & (patterns.dim_begin[each] == patterns.dim_end[each])
    whole &= patterns.run[each] == sizes[touched[partial]]
    partial = partial[~whole]
    if keep is not None:
        partial = partial[keep[partial]]
    key = touched[partial].astype(np.int64) * len(patterns) + model.pattern[partial]
    keys, inverse = np.unique(key, return_inverse=True)
    of_access[partial] = (wholes + inverse).astype(np.int32)
    if keep is not None:
        of_access[~keep] = NONE
    by = max(len(patterns), 1)
    location = np.concatenate([model.locations, (keys // by).astype(np.int32)])
    pattern = np.concatenate([np.full(wholes, NONE, np.int32), (keys % by).astype(np.int32)])
    return of_access, location, pattern


# -- runs -----------------------------------------------------------------------------------------------------------


def _all_runs(extents: Extents, used: Bools, budget: int) -> tuple[Ids, Ints, Ints]:
    """The runs of all extents with atoms, as (extent, low, high), sorted by extent; makes more extents atomless."""
    program, storage = extents.program, extents.storage
    patterns = program.patterns
    grid = storage.is_grid[extents.location]
    dims = np.append(patterns.dim_end - patterns.dim_begin, 0)[extents.pattern]
    # One run: whole locations and `lo:hi` in linear storage.
    flat = np.flatnonzero(used & ~extents.unknown & ~grid & (dims == 0))
    base = storage.base[extents.location[flat]]
    low = base + np.append(patterns.offset, 0)[extents.pattern[flat]]
    length = np.where(
        extents.pattern[flat] == NONE,
        program.locations.size[extents.location[flat]],
        np.append(patterns.run, 0)[extents.pattern[flat]],
    )
    parts = [(flat.astype(np.int32), low, low + length)]
    parts += _strided_runs(extents, np.flatnonzero(used & ~extents.unknown & ~grid & (dims > 0)), budget)
    for row in np.flatnonzero(used & ~extents.unknown & grid).tolist():
        begin, end = extents.runs(row)
        parts.append((np.full(len(begin), row, np.int32), begin, end))
    extent, low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(extent, kind="stable")
    return extent[order], low[order], high[order]


def _strided_runs(extents: Extents, rows: Ints, budget: int) -> list[tuple[Ids, Ints, Ints]]:
    """Runs of strided extents in linear storage: the dims are expanded once for all extents that share them."""
    if len(rows) == 0:
        return []
    program, storage = extents.program, extents.storage
    shape_of, shapes = _shapes(program, extents.pattern[rows])
    counts = np.array([shape.max_runs for shape in shapes], np.int64)[shape_of]
    order = np.argsort(counts, kind="stable")
    expanded = order[(counts[order] <= MAX_RUNS) & (np.cumsum(counts[order]) <= budget)]
    extents.atomless[rows] = True
    extents.atomless[rows[expanded]] = False
    parts = []
    by_shape = expanded[np.argsort(shape_of[expanded], kind="stable")]
    cuts = np.flatnonzero(np.append(True, np.diff(shape_of[by_shape]) != 0)[: len(by_shape)]).tolist()
    for begin, end in pairwise([*cuts, len(by_shape)]):
        chosen = rows[by_shape[begin:end]]
        low, high = bytesets.runs(shapes[int(shape_of[by_shape[begin]])])
        start = storage.base[extents.location[chosen]] + program.patterns.offset[extents.pattern[chosen]]
        extent = np.repeat(chosen, len(low)).astype(np.int32)
        parts.append((extent, (start[:, None] + low).ravel(), (start[:, None] + high).ravel()))
    return parts


def _shapes(program: Program, patterns: Ids) -> tuple[Ids, list[ByteSet]]:
    """Group strided patterns by run and dims, ignoring the offset; each group as a set at offset 0."""
    table, dims = program.patterns, program.dims
    used, inverse = np.unique(patterns, return_inverse=True)
    rank = table.dim_end[used] - table.dim_begin[used]
    shape_of = np.zeros(len(used), np.int32)
    shapes: list[ByteSet] = []
    for each in np.unique(rank).tolist():
        members = np.flatnonzero(rank == each)
        at = table.dim_begin[used[members]][:, None] + np.arange(each)
        key = np.column_stack([table.run[used[members]], dims.stride[at], dims.count[at]])
        keys, which = np.unique(key, axis=0, return_inverse=True)
        shape_of[members] = len(shapes) + which.ravel()
        for row in keys.tolist():
            shapes.append(bytesets.normal(0, row[0], zip(row[1 : 1 + each], row[1 + each :], strict=True)))
    return shape_of[inverse], shapes


def _runs_of(extents: Extents, extent: int) -> tuple[Ints, Ints]:
    """Maximal runs of one extent, as keys; in a grid, cut where a partition's share ends."""
    location, pattern = int(extents.location[extent]), int(extents.pattern[extent])
    storage = extents.storage
    if not storage.is_grid[location]:
        return bytesets.runs(extents.byte_set(extent))
    found = extents.program.pattern(pattern)
    if found is None or found.is_unknown:
        low, high = np.array([0], np.int64), extents.program.locations.size[[location]]
    else:
        low, high = bytesets.runs(bytesets.byte_set(found))
    base, row, pitch = (int(column[location]) for column in (storage.base, storage.row, storage.pitch))
    first, count = low // row, (high - 1) // row - low // row + 1
    part = join_ranges(first, count)
    begin = np.maximum(np.repeat(low, count), part * row) - part * row
    end = np.minimum(np.repeat(high, count), (part + 1) * row) - part * row
    return bytesets.merged(base + part * pitch + begin, base + part * pitch + end)


# -- atoms ----------------------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """Extents as ranges of atoms: `starts`, `low`, `high`, `first_key` and `end_key` are those of `Extents`."""

    starts: Ints
    low: Ids
    high: Ids
    first_key: Ints
    end_key: Ints


def cut_runs(extent: Ids, low: Ints, high: Ints, extents: int, limit: int | None) -> Cut | None:
    """Segments between all ends of runs, and ranges of atoms for every extent; runs are sorted by their extents.

    None: extents of several runs, and those on their bytes, cover more segments than the limit.
    """
    cuts = distinct(np.concatenate([low, high]))
    segment = np.arange(max(len(cuts) - 1, 0))  # of each atom: its first segment
    first, last = (np.searchsorted(cuts, ends).astype(np.int32) for ends in (low, high))
    count = np.bincount(extent, minlength=extents)
    if count.max(initial=0) > 1:
        strided = (count > 1)[extent]
        covered = _covering(first[strided], last[strided], len(segment)) > 0
        touched = np.zeros(extents, bool)
        inside = np.append(0, np.cumsum(covered))
        touched[extent[inside[last] > inside[first]]] = True
        if limit is not None and int((last - first)[touched[extent]].sum()) > limit:
            return None
        extent, first, last, segment = _merge(extent, first, last, covered, touched)
    starts = np.searchsorted(extent, np.arange(extents + 1)).astype(np.int64)
    return Cut(starts, first, last, cuts[segment], cuts[segment + 1])


def _cut(extents: Extents, extent: Ids, low: Ints, high: Ints) -> None:
    """Cut the runs of extents; where there are too many segments, some extents become atomless."""
    count = np.bincount(extent, minlength=len(extents.location))
    patterned = (count > 1) & (extents.pattern != NONE)
    limit = COVERED_SEGMENTS_LIMIT if patterned.any() else None
    found = cut_runs(extent, low, high, len(count), limit)
    if found is None:
        # Make the finer half of the strided extents atomless.
        extents.atomless |= patterned & (count >= int(np.median(count[patterned])))
        kept = ~extents.atomless[extent]
        _cut(extents, extent[kept], low[kept], high[kept])
        return
    extents.starts, extents.low, extents.high, extents.first_key, extents.end_key = found


def _covering(first: Ids, last: Ids, segments: int) -> Ints:
    """How many runs cover each segment."""
    edge = np.bincount(first, minlength=segments + 1) - np.bincount(last, minlength=segments + 1)
    return np.cumsum(edge)[:segments]


def _merge(extent: Ids, first: Ids, last: Ids, covered: Bools, touched: Bools) -> tuple[Ids, Ids, Ids, Ints]:
    """Make one atom of the segments under strided extents that the same extents cover.

    The set of extents over a segment is identified by the exclusive or of a random number for each. If two sets ever
    shared a number, atoms would be too coarse: a false alarm, never a missed conflict.
    """
    segments = len(covered)
    number = _mixed(extent)
    edge = np.zeros(segments + 1, np.uint64)
    np.bitwise_xor.at(edge, first, number)
    np.bitwise_xor.at(edge, last, number)
    cover = np.bitwise_xor.accumulate(edge)[:segments]
    inside = np.flatnonzero(covered | (cover == 0))  # gaps between all of them are one atom too
    _, representative, which = np.unique(cover[inside], return_index=True, return_inverse=True)
    atom = np.arange(segments)
    atom[inside] = inside[representative[which]]
    kept = np.flatnonzero(atom == np.arange(segments))
    dense = np.searchsorted(kept, atom)
    # Extents over merged segments: list the segments, then the distinct atoms, then the ranges of those.
    rows = np.flatnonzero(touched[extent])
    length = (last - first)[rows].astype(np.int64)
    segment = join_ranges(first[rows], length)
    pair = distinct(np.repeat(extent[rows], length).astype(np.int64) * (segments + 1) + dense[segment])
    begins = np.append(True, np.diff(pair) != 1)[: len(pair)]
    ends = np.append(begins[1:], True)[: len(pair)]
    others = np.flatnonzero(~touched[extent])
    merged = np.concatenate([extent[others], (pair[begins] // (segments + 1)).astype(np.int32)])
    low = np.concatenate([dense[first[others]], pair[begins] % (segments + 1)])
    high = np.concatenate([dense[last[others] - 1] + 1, pair[ends] % (segments + 1) + 1])
    order = np.argsort(merged, kind="stable")
    return merged[order], low[order].astype(np.int32), high[order].astype(np.int32), kept


def _mixed(values: Column) -> Column:
    """A 64-bit number for each value, as if at random (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


# -- atomless extents
# -------------------------------------------------------------------------------------------------


def _find_overlaps(extents: Extents, used: Bools, listed: Bools, limit: int | None) -> bool:
    """List the overlaps of the atomless extents with those of a mask, on both sides. Does nothing and returns False
    when more than `limit` pairs would have to be compared.
    """
    low, high = _hulls(extents)
    sets, at = _bounds(extents, low, high)
    rows = np.flatnonzero(used & (high > low))
    apart = extents.atomless[rows]
    pairs = candidates(at, rows[apart & listed[rows]], rows, limit)
    more = candidates(at, rows[apart & ~listed[rows]], rows[~apart & listed[rows]], limit)
    if pairs is None or more is None:
        return False
    left, right = np.append(pairs[0], more[0]), np.append(pairs[1], more[1])
    grid = extents.storage.is_grid[extents.location]
    rough = grid[left] | grid[right]
    wanted = np.zeros(len(left), bool)
    wanted[~rough] = overlapping(sets, left[~rough], right[~rough])
    wanted[rough] = [
        len(bytesets.common(extents.runs(first), extents.runs(second))[0]) > 0
        for first, second in zip(left[rough].tolist(), right[rough].tolist(), strict=True)
    ]
    left, right = left[wanted], right[wanted]
    size = len(extents.location)
    pair = distinct(np.concatenate([left * size + right, right * size + left]))
    members = np.unique(pair // size)
    extents.slot[members] = np.arange(len(members), dtype=np.int32)
    extents.overlap_starts = np.searchsorted(pair // size, np.arange(size + 1)).astype(np.int64)
    extents.overlaps = extents.slot[pair % size]
    return True


def _bounds(extents: Extents, low: Ints, high: Ints) -> tuple[Strided, Bounds]:
    """All extents as strided sets (those in a grid as their hulls), and their bounds."""
    program, storage = extents.program, extents.storage
    count = len(extents.location)
    begin, end = np.zeros(count, np.int32), np.zeros(count, np.int32)
    run = high - low
    pitch, width = np.zeros(count, np.int64), high - low
    origin = low.copy()
    grid = storage.is_grid[extents.location]
    # In a grid: the rectangle of the location.
    place = extents.location[grid]
    origin[grid], pitch[grid], width[grid] = storage.base[place], storage.pitch[place], storage.row[place]
    patterns = program.patterns
    strided = np.append((patterns.dim_end > patterns.dim_begin) & (patterns.run != NONE), False)[extents.pattern]
    rows = np.flatnonzero(strided & ~grid)
    shape_of, shapes = _shapes(program, extents.pattern[rows])
    combs = np.array([_comb(shape) for shape in shapes], np.int64).reshape(-1, 2)
    ends = np.cumsum([0] + [len(shape.dims) for shape in shapes])
    begin[rows], end[rows] = ends[shape_of], ends[shape_of + 1]
    run[rows] = np.array([shape.run for shape in shapes], np.int64)[shape_of]
    pitch[rows], width[rows] = combs[shape_of].T
    dims = np.array([dim for shape in shapes for dim in shape.dims], np.int64).reshape(-1, 2)
    sets = Strided(low, run, begin, end, dims[:, 0].copy(), dims[:, 1].copy())
    return sets, Bounds(low, high, origin, pitch, width)


def _comb(shape: ByteSet) -> tuple[int, int]:
    """(pitch, width): the greatest common divisor of the larger strides, and the span of what the others repeat,
    so chosen that the comb is as thin as possible; pitch 0 where it has no gaps."""
    pitch, span = 0, shape.span
    best = (0, span)
    for stride, count in shape.dims:
        pitch, span = gcd(pitch, stride), span - stride * (count - 1)
        if span < pitch and (best[0] == 0 or span * best[0] < best[1] * pitch):
            best = (pitch, span)
    return best


def _hulls(extents: Extents) -> tuple[Ints, Ints]:
    """The first key of every extent, and the key after its last."""
    program, storage = extents.program, extents.storage
    location = extents.location
    begin, end = pattern_hulls(program)
    whole = extents.unknown | (extents.pattern == NONE)
    low = np.where(whole, 0, np.append(begin, 0)[extents.pattern])
    high = np.where(whole, program.locations.size[location], np.append(end, 0)[extents.pattern])
    row, pitch = storage.row[location], storage.pitch[location]
    grid = pitch != 0
    # In a grid: the rectangle's first and last partition; a hull may be larger than needed.
    spread_low = np.where(grid, low // row * pitch, low)
    spread_high = np.where(grid, (np.maximum(high, 1) - 1) // row * pitch + row, high)
    return storage.base[location] + spread_low, storage.base[location] + spread_high
