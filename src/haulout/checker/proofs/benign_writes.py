"""Unordered writes that do no harm: every schedule leaves the same bytes, and no read comes between.

Take one atom of storage and all accesses that touch it. Writes that are unordered, directly or through others, form a
*cluster*. A cluster is harmless when its last writes, those that come before no other write of it, leave equal bytes
(`equal_values.py`), and every read of the atom happens before all of the cluster or after all of it.

In any other cluster only the pairs of writes that leave equal bytes are harmless: an unordered read and write is a
race, which has no excuse. The sweep lists no pair that a later access of a queue implies, so where a pair is excused
all other bad pairs of its cluster are listed here.

All that is decided on the values of one schedule, and holds for all of them. Take any other schedule, and in it the
first read of other bytes than in the numbered one. All instructions before it compute the same. Reads are ordered
against all writes, so the read has the same writes before it in both schedules, and in each it sees one that comes
before no other of these. If the two differ they are unordered, so they are in one cluster. It is harmless, or the two
leave equal bytes, or one of its pairs is a race, which is reported.

For a location that a loop or an arm touches only pairs that leave equal bytes are excused: some run shows each pair,
but no run has to show a whole cluster. Only writes of one location, through any of its views, are examined: two
locations in one place at one time are never excused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, compress, islice, pairwise, product

import numpy as np

from haulout.checker.columns import grouped, join_ranges, positions
from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.order.sendrecv import SendRecvs
from haulout.checker.proofs import sweep
from haulout.checker.proofs.conflicts import Conflicts
from haulout.checker.proofs.equal_values import Values, number_values
from haulout.checker.proofs.extents import Extents
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints

MAX_ACCESSES = 1 << 20
"""Accesses of a function whose values are numbered; a larger function gets no excuse."""
MAX_COVERS = 1 << 23
"""Pairs of an atom and an extent that covers it, for all atoms of candidates."""
MAX_QUERIES = 1 << 22
"""Pairs of accesses whose order is queried."""
_PAIRS_AT_ONCE = 1 << 14


def excuse_writes(
    model: Model, order: Order, extents: Extents, sendrecvs: SendRecvs, schedule: Ids, conflicts: list[Conflicts]
) -> list[Conflicts]:
    """The conflicts, with unordered writes that do no harm as `sweep.DUPLICATE`."""
    kinds = (sweep.RACE, sweep.DEPENDENCE)
    masks = {each.kind: _candidates(model, each) for each in conflicts if each.kind in kinds}
    if len(schedule) > MAX_ACCESSES or not any(mask.any() for mask in masks.values()):
        return conflicts
    covers = _find_covers(model, extents, [each for each in conflicts if each.kind in masks], masks)
    if covers is None:
        return conflicts
    values = number_values(model, extents, sendrecvs, schedule)
    place = positions(schedule, len(schedule))
    unsure = model.maybe | extents.unknown[extents.of_access]
    judge = _Judge(model, order, extents, values, place, covers, model.owners()[model.location], unsure)
    kept: list[Conflicts] = []
    benign: list[Conflicts] = []
    for each in conflicts:
        mask = masks.get(each.kind, np.zeros(len(each.first), bool))
        for at in np.flatnonzero(mask).tolist():
            mask[at] = judge.harmless(int(each.first[at]), int(each.second[at]))
        benign.append(_chosen(each, mask, sweep.DUPLICATE))
        kept.append(_chosen(each, ~mask, each.kind, each.total - int(mask.sum())))
    joined = _joined(sweep.DUPLICATE, benign)
    for kind in (sweep.RACE, sweep.POSSIBLE_RACE, sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE):
        if pairs := sorted(judge.listed.get(kind, ())):
            known = [each for each in kept if each.kind == kind]
            listed = {pair for each in known for pair in zip(each.first.tolist(), each.second.tolist(), strict=True)}
            new = np.array([pair for pair in pairs if pair not in listed], np.int32).reshape(-1, 2)
            hidden = Conflicts(kind, new[:, 0], new[:, 1], len(new))
            kept = [each for each in kept if each.kind != kind] + [_joined(kind, [*known, hidden])]
    return sorted((each for each in (*kept, joined) if each.total), key=lambda each: each.kind)


def _joined(kind: int, parts: Sequence[Conflicts]) -> Conflicts:
    first, second = (
        np.concatenate(side) for side in zip(*((each.first, each.second) for each in parts), strict=True)
    )
    return Conflicts(kind, first.astype(np.int32), second.astype(np.int32), sum(each.total for each in parts))


def _candidates(model: Model, conflicts: Conflicts) -> Bools:
    """Pairs of writes to one location, when all pairs of their kind are listed."""
    first, second = conflicts.first, conflicts.second
    if conflicts.total > len(first):
        return np.zeros(len(first), bool)
    owners = model.owners()
    same = owners[model.location[first]] == owners[model.location[second]]
    both: Bools = model.write[first] & model.write[second] & same
    return both


def _chosen(conflicts: Conflicts, mask: Bools, kind: int, total: int | None = None) -> Conflicts:
    first, second = conflicts.first[mask], conflicts.second[mask]
    return replace(conflicts, kind=kind, first=first, second=second, total=len(first) if total is None else total)


def _atoms(extents: Extents, extent: int) -> Ints:
    begin, end = int(extents.starts[extent]), int(extents.starts[extent + 1])
    low, high = extents.low[begin:end], extents.high[begin:end]
    return join_ranges(low.astype(np.int64), (high - low).astype(np.int64))


@dataclass(slots=True)
class _Covers:
    """The extents that cover each of some atoms; each distinct set of extents is stored once."""

    atoms: Ints
    which: Ids
    """Of each atom: the number of its set."""
    sets: list[tuple[int, ...]]

    def of(self, atoms: Ints) -> list[tuple[int, ...]]:
        """The distinct sets of some of the atoms."""
        return [self.sets[each] for each in np.unique(self.which[np.searchsorted(self.atoms, atoms)]).tolist()]


def _find_covers(
    model: Model, extents: Extents, conflicts: Sequence[Conflicts], masks: dict[int, Bools]
) -> _Covers | None:
    """The covers of all atoms that candidates touch; None when they are too many."""
    touched = [side[masks[each.kind]] for each in conflicts for side in (each.first, each.second)]
    wanted = np.zeros(len(extents.location), bool)
    wanted[extents.of_access[np.concatenate(touched)]] = True
    extent = np.repeat(np.arange(len(extents.starts) - 1), np.diff(extents.starts))
    edge = np.zeros(len(extents.first_key) + 1, np.int64)
    np.add.at(edge, extents.low[wanted[extent]], 1)
    np.add.at(edge, extents.high[wanted[extent]], -1)
    atoms = np.flatnonzero(np.cumsum(edge)[:-1] > 0)
    used = np.zeros(len(extents.location), bool)
    used[extents.of_access] = True
    rows = np.flatnonzero(used[extent])
    first, last = (np.searchsorted(atoms, ends[rows]) for ends in (extents.low, extents.high))
    if int((last - first).sum()) > MAX_COVERS:
        return None
    at, covering = join_ranges(first, last - first), np.repeat(extent[rows], last - first)
    by = np.lexsort((covering, at))
    starts = np.searchsorted(at[by], np.arange(len(atoms) + 1)).tolist()
    listed = covering[by].tolist()
    numbers: dict[tuple[int, ...], int] = {}
    which = [numbers.setdefault(tuple(listed[begin:end]), len(numbers)) for begin, end in pairwise(starts)]
    return _Covers(atoms, np.array(which, np.int32), list(numbers))


@dataclass(slots=True)
class _Judge:
    """Judges pairs of unordered writes, atom by atom; atoms with the same accesses have one answer."""

    model: Model
    order: Order
    extents: Extents
    values: Values
    place: Ids
    """Of each access: its position in the schedule."""
    covers: _Covers
    owner: Ids
    """Of each access: the owner of its location."""
    unsure: Bools
    """Of each access: the bytes that it touches are not known."""
    listed: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Kind -> bad pairs of clusters that are not harmless, in the schedule's order."""
    queries: int = 0
    _known: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)
    _clusters: dict[tuple[int, ...], dict[int, bool]] = field(default_factory=dict)
    _starts: Ints | None = None
    _by_extent: Ints | None = None

    def harmless(self, first: int, second: int) -> bool:
        """True if two unordered writes leave the same bytes in every schedule, in all atoms that they share."""
        one, other = (int(self.extents.of_access[access]) for access in (first, second))
        if self.extents.atomless[one] or self.extents.atomless[other]:
            return False  # no atoms
        equal = self._commute(first, second)
        # Judge all sets, so that all bad pairs are listed.
        found = [self._cluster(covering) for covering in self._groups(one, other)]
        return all(first in each and (equal or each[first]) for each in found)

    def _groups(self, one: int, other: int) -> list[tuple[int, ...]]:
        """The distinct sets of extents that cover, or may cover, a common atom of two extents."""
        key = min(one, other), max(one, other)
        if key not in self._known:
            common = np.intersect1d(_atoms(self.extents, one), _atoms(self.extents, other), assume_unique=True)
            atomless = {each for extent in key for each in self.extents.atomless_overlaps(extent)}
            covers = self.covers.of(common)
            self._known[key] = [tuple(sorted({*each, *atomless})) for each in covers] if atomless else covers
        return self._known[key]

    def _cluster(self, covering: tuple[int, ...]) -> dict[int, bool]:
        """Write -> whether its cluster is harmless, for the atoms that these extents cover."""
        if covering not in self._clusters:
            accesses = np.concatenate([self._accesses(extent) for extent in covering])
            self._clusters[covering] = self._judged(np.sort(accesses).tolist())
        return self._clusters[covering]

    def _accesses(self, extent: int) -> Ints:
        if self._starts is None or self._by_extent is None:
            self._starts, self._by_extent = grouped(self.extents.of_access, len(self.extents.location))
        return self._by_extent[self._starts[extent] : self._starts[extent + 1]]

    def _judged(self, accesses: Sequence[int]) -> dict[int, bool]:
        model = self.model
        writes = [access for access in accesses if model.write[access]]
        reads = [access for access in accesses if not model.write[access]]
        self.queries += len(writes) * len(accesses)
        if self.queries > MAX_QUERIES:
            return {}
        found: dict[int, bool] = {}
        for cluster in self._unordered(writes):
            harmless = self._is_harmless(cluster, reads)
            found |= dict.fromkeys(cluster, harmless)
            if len(cluster) > 1 and not harmless:
                self._list(combinations(cluster, 2))
                self._list(product(reads, cluster))
        return found

    def _list(self, pairs: Iterable[tuple[int, int]]) -> None:
        """List the unordered pairs that are not writes of equal bytes."""
        model, unsure = self.model, self.unsure
        for one, other in self._open(pairs):
            if not self._overlap(one, other) or self._commute(one, other):
                continue
            inside = model.core[model.instruction[one]] == model.core[model.instruction[other]]
            kinds = (sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE) if inside else (sweep.RACE, sweep.POSSIBLE_RACE)
            pair = (one, other) if self.place[one] < self.place[other] else (other, one)
            self.listed.setdefault(kinds[int(unsure[one] or unsure[other])], set()).add(pair)

    def _open(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Those pairs that are of two instructions and unordered."""
        left = iter(pairs)
        while some := list(islice(left, _PAIRS_AT_ONCE)):
            one, other = np.array(some, np.int64).T
            is_open = self.model.instruction[one] != self.model.instruction[other]
            is_open &= ~self._ordered(one, other)
            yield from compress(some, is_open.tolist())

    def _overlap(self, one: int, other: int) -> bool:
        """True if two accesses of one group touch a common byte; extents without atoms may not."""
        first, second = (int(self.extents.of_access[access]) for access in (one, other))
        if self.extents.atomless[second]:
            first, second = second, first
        return not self.extents.atomless[first] or second in self.extents.overlapping(first)

    def _commute(self, one: int, other: int) -> bool:
        """True if two accesses are writes of equal bytes, or atomics that commute, to one location."""
        model = self.model
        if self.owner[one] != self.owner[other]:
            return False
        if model.atomic[one] > 0 and model.atomic[one] == model.atomic[other]:
            return True
        return bool(model.write[one] and model.write[other] and self.values.equal(one, other))

    def _unordered(self, writes: Sequence[int]) -> Iterable[list[int]]:
        """The connected components of writes under `not ordered`."""
        left = list(writes)
        while left:
            cluster, front = [], [left.pop(0)]
            while front:
                here = front.pop()
                cluster.append(here)
                rest = np.array(left, np.int64)
                ordered = self._ordered(np.full(len(rest), here), rest)
                front += rest[~ordered].tolist()
                left = rest[ordered].tolist()
            yield cluster

    def _is_harmless(self, cluster: Sequence[int], reads: Sequence[int]) -> bool:
        if self._is_touched_in_region(cluster[0]):
            return False  # a run skips iterations and arms, and with them accesses
        if len(set(self.owner[cluster].tolist())) > 1:
            return False
        last = [each for each in cluster if not any(self._before(each, other) for other in cluster)]
        return self._equal(last) and all(
            all(self._before(read, each) for each in cluster) or all(self._before(each, read) for each in cluster)
            for read in reads
        )

    def _is_touched_in_region(self, access: int) -> bool:
        """True if some block of a loop or an arm touches the location of an access."""
        unrolled = self.model.unrolled
        if unrolled is None:
            return False
        blocks = [block for block, region in enumerate(unrolled.structure.region_of) if region != NONE]
        group = int(unrolled.footprints.group[self.model.location[access]])
        return unrolled.footprints.touch(blocks, group)

    def _equal(self, writes: Sequence[int]) -> bool:
        return all(self.values.equal(writes[0], other) for other in writes)

    def _ordered(self, one: Ints, other: Ints) -> Bools:
        """Of each pair of accesses: whether one happens before the other; of an instruction, its reads do."""
        instruction, write = self.model.instruction, self.model.write
        found = self.order.before_each(one, other) | self.order.before_each(other, one)
        return np.where(instruction[one] == instruction[other], write[one] != write[other], found)

    def _before(self, first: int, second: int) -> bool:
        """True if one access happens before another; the reads of an instruction come first."""
        model = self.model
        if model.instruction[first] == model.instruction[second]:
            return bool(not model.write[first] and model.write[second])
        return self.order.before(first, second)
