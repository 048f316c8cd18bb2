"""The distinct sets of bytes that accesses touch, cut into atoms.

A *region* is a location with a pattern; accesses through equal patterns share one. All ends of all runs of all
regions cut the line of storage keys into segments; no region begins or ends inside one. Where strided regions lie,
segments that the same regions cover are one *atom*: the even rows of a tensor are one atom, not a thousand. So a
region is a few ranges of atoms, two regions meet exactly when they share an atom, and a walk over atoms never
looks at bytes again.

Two sorts of regions stand *apart* and have no atoms: `?`, whose bytes are not known, and strided ones of so many runs
that cutting them costs more than comparing them. For those, the regions that they meet are listed: `candidates.py`
says which may, without looking at all pairs, and `strides.py` decides each of these exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd

import numpy as np

from haulout.checker import bytesets
from haulout.checker.bytesets import ByteSet
from haulout.checker.columns import distinct, stretched
from haulout.checker.model import Model
from haulout.checker.proofs.extent_pairs import Extents, candidates
from haulout.checker.proofs.storage_map import StorageMap
from haulout.checker.proofs.strided_overlap import Strided, meeting
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Column, Ids, Ints

MOST_RUNS = 1 << 16
"""A region of more runs stands apart."""
RUN_BUDGET = 1 << 19
"""When the strided regions together have more runs, those with the most stand apart ..."""
MOST_PAIRS = 1 << 22
"""... unless so many pairs would have to be looked at; then, and where the alternative to atoms is a map of the bytes
(in loops, see `holders.py`; for what is written), the budget is the next one."""
LISTED_BUDGET = 1 << 22
COVER_BUDGET = 1 << 25
"""The same for the segments that they and the regions above them cover."""


@dataclass(slots=True)
class Regions:
    """Regions as columns. The first `len(model.locations)` are whole locations, in the order of `model.locations`."""

    program: Program
    storage: StorageMap
    of_access: Ids
    """Region of each access; NONE for accesses left out."""
    location: Ids
    pattern: Ids
    unknown: Bools
    apart: Bools
    starts: Ints
    """Region r covers the atom ranges `low[k]:high[k]` for k in `starts[r]:starts[r + 1]`."""
    low: Ids
    high: Ids
    first_key: Ints
    """The first key of each atom ..."""
    end_key: Ints
    """... and the key behind its first run; strided atoms have more runs."""
    slot: Ids
    """Regions that meet one which stands apart are numbered; NONE for the others."""
    meet_starts: Ints
    meets: Ids
    """Region r meets, by reason of one that stands apart, the slots `meets[meet_starts[r]:meet_starts[r + 1]]`."""
    _runs: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)
    _by_slot: Ints | None = None

    def runs(self, region: int) -> tuple[Ints, Ints]:
        """The maximal runs of a region as keys; `?` stands for its whole location."""
        if region not in self._runs:
            self._runs[region] = _runs_of(self, region)
        return self._runs[region]

    def met(self, region: int) -> list[int]:
        """The regions that meet one which stands apart; of another one those that stand apart and meet it."""
        slots = self.meets[self.meet_starts[region] : self.meet_starts[region + 1]]
        if not len(slots):
            return []
        if self._by_slot is None:
            self._by_slot = np.argsort(self.slot, kind="stable")[np.count_nonzero(self.slot == NONE) :]
        found: list[int] = self._by_slot[slots].tolist()
        return found

    def met_apart(self, region: int) -> list[int]:
        """Those of them that stand apart."""
        return [each for each in self.met(region) if self.apart[each]]

    def byte_set(self, region: int) -> ByteSet:
        """A region of linear storage as a set of keys; `?` stands for its whole location."""
        location, pattern = int(self.location[region]), int(self.pattern[region])
        found = self.program.pattern(pattern)
        whole = ByteSet(0, int(self.program.locations.size[location]))
        normal = whole if found is None or found.is_unknown else bytesets.byte_set(found)
        return normal.moved(int(self.storage.base[location]))


def find_regions(
    model: Model,
    storage: StorageMap,
    keep: Bools | None = None,
    wholes: Bools | None = None,
    *,
    meets: bool = True,
) -> Regions:
    """The regions of a model's accesses, and all its whole locations.

    `keep` masks the accesses, `wholes` the locations (of `model.locations`) that are of interest; others get no
    atoms. Without `meets` it is not looked up which regions those that stand apart meet.
    """
    program = model.program
    of_access, location, pattern = _distinct(model, keep)
    patterns = program.patterns
    unknown = np.append(patterns.run == NONE, False)[pattern]
    used = np.ones(len(location), bool)
    if wholes is not None:
        used[: len(wholes)] = wholes
        used[of_access[of_access != NONE]] = True
    used &= program.locations.size[location] > 0
    regions = Regions(
        program=program,
        storage=storage,
        of_access=of_access,
        location=location,
        pattern=pattern,
        unknown=unknown,
        apart=unknown & used,
        starts=np.zeros(0, np.int64),
        low=np.zeros(0, np.int32),
        high=np.zeros(0, np.int32),
        first_key=np.zeros(0, np.int64),
        end_key=np.zeros(0, np.int64),
        slot=np.full(len(location), NONE, np.int32),
        meet_starts=np.zeros(len(location) + 1, np.int64),
        meets=np.zeros(0, np.int32),
    )
    choices: list[tuple[int, int | None]] = [(LISTED_BUDGET, None)]
    if meets and model.unrolled is None:
        choices.insert(0, (RUN_BUDGET, MOST_PAIRS))
    for budget, most in choices:
        regions.apart = unknown & used
        _cut(regions, *_all_runs(regions, used, budget))
        if not meets or not regions.apart.any() or _find_meets(regions, used, most):
            break
    return regions


def _distinct(model: Model, keep: Bools | None) -> tuple[Ids, Ids, Ids]:
    """Region of each access, and location and pattern of each region: whole locations, then the rest by (both)."""
    program = model.program
    wholes = len(model.locations)
    number = np.full(len(program.locations), NONE, np.int32)
    number[model.locations] = np.arange(wholes, dtype=np.int32)
    of_access = number[model.location]
    # A pattern that says `0:size` is the whole location.
    patterns, sizes = program.patterns, program.locations.size
    partial = np.flatnonzero(model.pattern != NONE)
    each = model.pattern[partial]
    whole = (patterns.offset[each] == 0) & (patterns.dim_begin[each] == patterns.dim_end[each])
    whole &= patterns.run[each] == sizes[model.location[partial]]
    partial = partial[~whole]
    if keep is not None:
        partial = partial[keep[partial]]
    key = model.location[partial].astype(np.int64) * len(patterns) + model.pattern[partial]
    keys, inverse = np.unique(key, return_inverse=True)
    of_access[partial] = (wholes + inverse).astype(np.int32)
    if keep is not None:
        of_access[~keep] = NONE
    by = max(len(patterns), 1)
    location = np.concatenate([model.locations, (keys // by).astype(np.int32)])
    pattern = np.concatenate([np.full(wholes, NONE, np.int32), (keys % by).astype(np.int32)])
    return of_access, location, pattern


# -- runs -----------------------------------------------------------------------------------------------------------


def _all_runs(regions: Regions, used: Bools, budget: int) -> tuple[Ids, Ints, Ints]:
    """The runs of all regions that do not stand apart, as (region, low, high), sorted by region; marks more apart."""
    program, storage = regions.program, regions.storage
    patterns = program.patterns
    grid = storage.is_grid[regions.location]
    dims = np.append(patterns.dim_end - patterns.dim_begin, 0)[regions.pattern]
    # One run: whole locations and `lo:hi` in linear storage.
    flat = np.flatnonzero(used & ~regions.unknown & ~grid & (dims == 0))
    base = storage.base[regions.location[flat]]
    low = base + np.append(patterns.offset, 0)[regions.pattern[flat]]
    length = np.where(
        regions.pattern[flat] == NONE,
        program.locations.size[regions.location[flat]],
        np.append(patterns.run, 0)[regions.pattern[flat]],
    )
    parts = [(flat.astype(np.int32), low, low + length)]
    parts += _strided_runs(regions, np.flatnonzero(used & ~regions.unknown & ~grid & (dims > 0)), budget)
    for row in np.flatnonzero(used & ~regions.unknown & grid).tolist():
        begin, end = regions.runs(row)
        parts.append((np.full(len(begin), row, np.int32), begin, end))
    region, low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(region, kind="stable")
    return region[order], low[order], high[order]


def _strided_runs(regions: Regions, rows: Ints, budget: int) -> list[tuple[Ids, Ints, Ints]]:
    """Runs of strided regions in linear storage: the dims are expanded once for all regions that share them."""
    if len(rows) == 0:
        return []
    program, storage = regions.program, regions.storage
    shape_of, shapes = _shapes(program, regions.pattern[rows])
    counts = np.array([shape.most_runs for shape in shapes], np.int64)[shape_of]
    order = np.argsort(counts, kind="stable")
    expanded = order[(counts[order] <= MOST_RUNS) & (np.cumsum(counts[order]) <= budget)]
    regions.apart[rows] = True
    regions.apart[rows[expanded]] = False
    parts = []
    by_shape = expanded[np.argsort(shape_of[expanded], kind="stable")]
    cuts = np.flatnonzero(np.append(True, np.diff(shape_of[by_shape]) != 0)[: len(by_shape)]).tolist()
    for begin, end in pairwise([*cuts, len(by_shape)]):
        chosen = rows[by_shape[begin:end]]
        low, high = bytesets.runs(shapes[int(shape_of[by_shape[begin]])])
        start = storage.base[regions.location[chosen]] + program.patterns.offset[regions.pattern[chosen]]
        region = np.repeat(chosen, len(low)).astype(np.int32)
        parts.append((region, (start[:, None] + low).ravel(), (start[:, None] + high).ravel()))
    return parts


def _shapes(program: Program, patterns: Ids) -> tuple[Ids, list[ByteSet]]:
    """Group strided patterns by run and dims, whatever their offset; each group as a set for offset 0."""
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


def _runs_of(regions: Regions, region: int) -> tuple[Ints, Ints]:
    """Maximal runs of one region, as keys; in a grid, cut where a partition's share ends."""
    location, pattern = int(regions.location[region]), int(regions.pattern[region])
    storage = regions.storage
    if not storage.is_grid[location]:
        return bytesets.runs(regions.byte_set(region))
    found = regions.program.pattern(pattern)
    if found is None or found.is_unknown:
        low, high = np.array([0], np.int64), regions.program.locations.size[[location]]
    else:
        low, high = bytesets.runs(bytesets.byte_set(found))
    base, row, pitch = (int(column[location]) for column in (storage.base, storage.row, storage.pitch))
    first, count = low // row, (high - 1) // row - low // row + 1
    part = stretched(first, count)
    begin = np.maximum(np.repeat(low, count), part * row) - part * row
    end = np.minimum(np.repeat(high, count), (part + 1) * row) - part * row
    return bytesets.merged(base + part * pitch + begin, base + part * pitch + end)


# -- atoms ----------------------------------------------------------------------------------------------------------


def _cut(regions: Regions, region: Ids, low: Ints, high: Ints) -> None:
    """Segments between all ends of runs; ranges of atoms for every region."""
    cuts = distinct(np.concatenate([low, high]))
    segment = np.arange(max(len(cuts) - 1, 0))  # of each atom: its first segment
    first, last = (np.searchsorted(cuts, ends).astype(np.int32) for ends in (low, high))
    count = np.bincount(region, minlength=len(regions.location))
    if count.max(initial=0) > 1:
        strided = (count > 1)[region]
        covered = _covering(first[strided], last[strided], len(segment)) > 0
        touched = np.zeros(len(count), bool)
        inside = np.append(0, np.cumsum(covered))
        touched[region[inside[last] > inside[first]]] = True
        patterned = (count > 1) & (regions.pattern != NONE)
        if int((last - first)[touched[region]].sum()) > COVER_BUDGET and patterned.any():
            # Too fine a cut: let the finer half of the strided regions stand apart.
            regions.apart |= patterned & (count >= int(np.median(count[patterned])))
            kept = ~regions.apart[region]
            _cut(regions, region[kept], low[kept], high[kept])
            return
        region, first, last, segment = _merge(region, first, last, covered, touched)
    regions.starts = np.searchsorted(region, np.arange(len(count) + 1)).astype(np.int64)
    regions.low, regions.high = first, last
    regions.first_key, regions.end_key = cuts[segment], cuts[segment + 1]


def _covering(first: Ids, last: Ids, segments: int) -> Ints:
    """How many runs cover each segment."""
    edge = np.bincount(first, minlength=segments + 1) - np.bincount(last, minlength=segments + 1)
    return np.cumsum(edge)[:segments]


def _merge(region: Ids, first: Ids, last: Ids, covered: Bools, touched: Bools) -> tuple[Ids, Ids, Ids, Ints]:
    """Make one atom of the segments under strided regions that the same regions cover.

    The set of regions over a segment is known by the exclusive or of a random number for each. Were two sets ever to
    share a number, atoms would be too coarse: a false alarm, never a missed conflict.
    """
    segments = len(covered)
    number = _mixed(region)
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
    # Regions over merged segments: list the segments, then the distinct atoms, then the ranges of those.
    rows = np.flatnonzero(touched[region])
    length = (last - first)[rows].astype(np.int64)
    segment = stretched(first[rows], length)
    pair = distinct(np.repeat(region[rows], length).astype(np.int64) * (segments + 1) + dense[segment])
    begins = np.append(True, np.diff(pair) != 1)[: len(pair)]
    ends = np.append(begins[1:], True)[: len(pair)]
    others = np.flatnonzero(~touched[region])
    merged = np.concatenate([region[others], (pair[begins] // (segments + 1)).astype(np.int32)])
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


# -- regions that stand apart ----------------------------------------------------------------------------------------


def _find_meets(regions: Regions, used: Bools, most: int | None) -> bool:
    """List, for the regions that stand apart and for those that they meet, which regions they meet; nothing is done,
    and false returned, when more than `most` pairs would have to be looked at."""
    low, high = _hulls(regions)
    sets, at = _extents(regions, low, high)
    rows = np.flatnonzero(used & (high > low))
    pairs = candidates(at, rows[regions.apart[rows]], rows, most)
    if pairs is None:
        return False
    left, right = pairs
    grid = regions.storage.is_grid[regions.location]
    rough = grid[left] | grid[right]
    listed = np.flatnonzero(rough)
    wanted = np.zeros(len(left), bool)
    wanted[~rough] = meeting(sets, left[~rough], right[~rough])
    wanted[listed] = [
        len(bytesets.common(regions.runs(first), regions.runs(second))[0]) > 0
        for first, second in zip(left[listed].tolist(), right[listed].tolist(), strict=True)
    ]
    left, right = left[wanted], right[wanted]
    size = len(regions.location)
    pair = distinct(np.concatenate([left * size + right, right * size + left]))
    members = np.unique(pair // size)
    regions.slot[members] = np.arange(len(members), dtype=np.int32)
    regions.meet_starts = np.searchsorted(pair // size, np.arange(size + 1)).astype(np.int64)
    regions.meets = regions.slot[pair % size]
    return True


def _extents(regions: Regions, low: Ints, high: Ints) -> tuple[Strided, Extents]:
    """All regions as strided sets (those in a grid as their hulls), and where they lie."""
    program, storage = regions.program, regions.storage
    count = len(regions.location)
    begin, end = np.zeros(count, np.int32), np.zeros(count, np.int32)
    run = high - low
    pitch, width = np.zeros(count, np.int64), high - low
    origin = low.copy()
    grid = storage.is_grid[regions.location]
    # In a grid: the rectangle of the location.
    place = regions.location[grid]
    origin[grid], pitch[grid], width[grid] = storage.base[place], storage.pitch[place], storage.row[place]
    patterns = program.patterns
    strided = np.append((patterns.dim_end > patterns.dim_begin) & (patterns.run != NONE), False)[regions.pattern]
    rows = np.flatnonzero(strided & ~grid)
    shape_of, shapes = _shapes(program, regions.pattern[rows])
    combs = np.array([_comb(shape) for shape in shapes], np.int64).reshape(-1, 2)
    ends = np.cumsum([0] + [len(shape.dims) for shape in shapes])
    begin[rows], end[rows] = ends[shape_of], ends[shape_of + 1]
    run[rows] = np.array([shape.run for shape in shapes], np.int64)[shape_of]
    pitch[rows], width[rows] = combs[shape_of].T
    dims = np.array([dim for shape in shapes for dim in shape.dims], np.int64).reshape(-1, 2)
    sets = Strided(low, run, begin, end, dims[:, 0].copy(), dims[:, 1].copy())
    return sets, Extents(low, high, origin, pitch, width)


def _comb(shape: ByteSet) -> tuple[int, int]:
    """(pitch, width): the greatest common divisor of the larger strides, and the extent of what the others repeat,
    so chosen that the comb is as thin as possible; pitch 0 where it has no gaps."""
    pitch, extent = 0, shape.extent
    best = (0, extent)
    for stride, count in shape.dims:
        pitch, extent = gcd(pitch, stride), extent - stride * (count - 1)
        if extent < pitch and (best[0] == 0 or extent * best[0] < best[1] * pitch):
            best = (pitch, extent)
    return best


def _hulls(regions: Regions) -> tuple[Ints, Ints]:
    """First key and key behind the last of every region."""
    program, storage = regions.program, regions.storage
    location, patterns = regions.location, program.patterns
    reach = program.dims.stride * (program.dims.count - 1)
    below, above = (np.append(0, np.cumsum(part)) for part in (np.minimum(reach, 0), np.maximum(reach, 0)))
    begin = patterns.offset + below[patterns.dim_end] - below[patterns.dim_begin]
    end = patterns.offset + above[patterns.dim_end] - above[patterns.dim_begin] + patterns.run
    whole = regions.unknown | (regions.pattern == NONE)
    low = np.where(whole, 0, np.append(begin, 0)[regions.pattern])
    high = np.where(whole, program.locations.size[location], np.append(end, 0)[regions.pattern])
    row, pitch = storage.row[location], storage.pitch[location]
    grid = pitch != 0
    # In a grid: the rectangle's first and last partition; a hull may be larger than needed.
    spread_low = np.where(grid, low // row * pitch, low)
    spread_high = np.where(grid, (np.maximum(high, 1) - 1) // row * pitch + row, high)
    return storage.base[location] + spread_low, storage.base[location] + spread_high
