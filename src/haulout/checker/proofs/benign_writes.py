"""Unordered writes that do no harm: every schedule leaves the same bytes, and no read comes between.

Look at one atom of storage and all accesses that touch it. Writes that nothing orders, directly or through others,
form a *cluster*. A cluster is harmless when its last writes, those before no other of it, leave equal bytes
(`equal_values.py`), and every read of the atom happens before all of the cluster or after all of it.

Of any other cluster the pairs of writes that leave equal bytes are harmless, and only these: a read that a write is
not ordered with is a race, which nothing excuses. The sweep lists no pair for which a later access of a queue stands.
So where a pair is excused all the others of its cluster are listed here.

All that is decided on the values of one schedule. It holds for all: take any other, and in it the first read of other
bytes than in the one that was numbered. All instructions before it compute the same. Reads are ordered against all
writes, so the read has the same writes before it in both schedules, and in each sees one that is before no other of
these. If the two differ they are not ordered, so in one cluster. It is harmless, or the two leave equal bytes, or one
of its pairs is a race, which is reported.

Of a location that a loop or an arm touches only pairs that leave equal bytes are excused: some run shows each pair,
and no run need show a whole cluster. Only writes of one location, through whichever view, are looked at: of two
locations in one place at one time neither is excused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product

import numpy as np

from haulout.checker.columns import stretched
from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.order.sendrecv import Meetings
from haulout.checker.proofs import sweep
from haulout.checker.proofs.conflicts import Conflicts
from haulout.checker.proofs.equal_values import Values, number_values
from haulout.checker.proofs.extents import Regions
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints

MAX_ACCESSES = 1 << 20
"""Accesses of a function whose values are numbered; in a larger one nothing is excused."""
MAX_COVERS = 1 << 23
"""Pairs of an atom and a region that covers it, for all atoms in question."""
MAX_QUERIES = 1 << 22
"""Pairs of accesses whose order is looked up."""


def excuse_writes(
    model: Model, order: Order, regions: Regions, meetings: Meetings, events: Ids, conflicts: list[Conflicts]
) -> list[Conflicts]:
    """The conflicts, with unordered writes that do no harm as `sweep.DUPLICATE`."""
    kinds = (sweep.RACE, sweep.DEPENDENCE)
    masks = {each.kind: _candidates(model, each) for each in conflicts if each.kind in kinds}
    if len(events) > MAX_ACCESSES or not any(mask.any() for mask in masks.values()):
        return conflicts
    covers = _find_covers(model, regions, [each for each in conflicts if each.kind in masks], masks)
    if covers is None:
        return conflicts
    values = number_values(model, regions, meetings, events)
    place = np.empty(len(events), np.int64)
    place[events] = np.arange(len(events))
    unsure = model.maybe | regions.unknown[regions.of_access]
    judge = _Judge(model, order, regions, values, place, covers, model.owners()[model.location], unsure)
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
    """Pairs of writes to one location, when all pairs of their kind are at hand."""
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


def _atoms(regions: Regions, region: int) -> Ints:
    begin, end = int(regions.starts[region]), int(regions.starts[region + 1])
    low, high = regions.low[begin:end], regions.high[begin:end]
    return stretched(low.astype(np.int64), (high - low).astype(np.int64))


@dataclass(slots=True)
class _Covers:
    """Which regions cover some atoms: each different set of them once."""

    atoms: Ints
    which: Ids
    """Of each atom: the number of its set."""
    sets: list[tuple[int, ...]]

    def of(self, atoms: Ints) -> list[tuple[int, ...]]:
        """The different sets of some of the atoms."""
        return [self.sets[each] for each in np.unique(self.which[np.searchsorted(self.atoms, atoms)]).tolist()]


def _find_covers(
    model: Model, regions: Regions, conflicts: Sequence[Conflicts], masks: dict[int, Bools]
) -> _Covers | None:
    """The covers of all atoms that candidates touch; None when they are too many."""
    touched = [side[masks[each.kind]] for each in conflicts for side in (each.first, each.second)]
    wanted = np.zeros(len(regions.location), bool)
    wanted[regions.of_access[np.concatenate(touched)]] = True
    region = np.repeat(np.arange(len(regions.starts) - 1), np.diff(regions.starts))
    edge = np.zeros(len(regions.first_key) + 1, np.int64)
    np.add.at(edge, regions.low[wanted[region]], 1)
    np.add.at(edge, regions.high[wanted[region]], -1)
    atoms = np.flatnonzero(np.cumsum(edge)[:-1] > 0)
    used = np.zeros(len(regions.location), bool)
    used[regions.of_access] = True
    rows = np.flatnonzero(used[region])
    first, last = (np.searchsorted(atoms, ends[rows]) for ends in (regions.low, regions.high))
    if int((last - first).sum()) > MAX_COVERS:
        return None
    at, covering = stretched(first, last - first), np.repeat(region[rows], last - first)
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
    regions: Regions
    values: Values
    place: Ints
    """Of each access: where the schedule has it."""
    covers: _Covers
    owner: Ids
    """Of each access: the owner of its location."""
    unsure: Bools
    """Of each access: which bytes it touches is not known."""
    listed: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Kind -> bad pairs of clusters that are not harmless, in the schedule's order."""
    queries: int = 0
    _known: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)
    _clusters: dict[tuple[int, ...], dict[int, bool]] = field(default_factory=dict)
    _starts: Ints | None = None
    _by_region: Ids | None = None

    def harmless(self, first: int, second: int) -> bool:
        """Whether two unordered writes leave the same bytes in every schedule, in all atoms that they share."""
        one, other = (int(self.regions.of_access[access]) for access in (first, second))
        if self.regions.apart[one] or self.regions.apart[other]:
            return False  # no atoms
        equal = self._commute(first, second)
        # All sets are judged, so that all bad pairs are listed.
        found = [self._cluster(covering) for covering in self._groups(one, other)]
        return all(first in each and (equal or each[first]) for each in found)

    def _groups(self, one: int, other: int) -> list[tuple[int, ...]]:
        """The different sets of regions that cover a common atom of two regions, and all that may."""
        key = min(one, other), max(one, other)
        if key not in self._known:
            common = np.intersect1d(_atoms(self.regions, one), _atoms(self.regions, other), assume_unique=True)
            apart = {each for region in key for each in self.regions.met_apart(region)}
            covers = self.covers.of(common)
            self._known[key] = [tuple(sorted({*each, *apart})) for each in covers] if apart else covers
        return self._known[key]

    def _cluster(self, covering: tuple[int, ...]) -> dict[int, bool]:
        """Write -> whether its cluster is harmless, for the atoms that these regions cover."""
        if covering not in self._clusters:
            accesses = np.concatenate([self._accesses(region) for region in covering])
            self._clusters[covering] = self._judged(np.sort(accesses).tolist())
        return self._clusters[covering]

    def _accesses(self, region: int) -> Ids:
        if self._starts is None or self._by_region is None:
            by = np.argsort(self.regions.of_access, kind="stable").astype(np.int32)
            ends = np.arange(len(self.regions.location) + 1)
            self._starts, self._by_region = np.searchsorted(self.regions.of_access[by], ends), by
        return self._by_region[self._starts[region] : self._starts[region + 1]]

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
        """Note the pairs that nothing orders, unless they are writes of equal bytes."""
        model, unsure = self.model, self.unsure
        for one, other in pairs:
            if model.instruction[one] == model.instruction[other] or not self._meet(one, other):
                continue
            if self._before(one, other) or self._before(other, one) or self._commute(one, other):
                continue
            inside = model.core[model.instruction[one]] == model.core[model.instruction[other]]
            kinds = (sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE) if inside else (sweep.RACE, sweep.POSSIBLE_RACE)
            pair = (one, other) if self.place[one] < self.place[other] else (other, one)
            self.listed.setdefault(kinds[int(unsure[one] or unsure[other])], set()).add(pair)

    def _meet(self, one: int, other: int) -> bool:
        """Whether two accesses of one group touch a common byte; those without atoms may not."""
        first, second = (int(self.regions.of_access[access]) for access in (one, other))
        if self.regions.apart[second]:
            first, second = second, first
        return not self.regions.apart[first] or second in self.regions.met(first)

    def _commute(self, one: int, other: int) -> bool:
        """Whether two accesses are writes of equal bytes, or atomics that commute, to one location."""
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
                joined = {other for other in left if not self._before(here, other) and not self._before(other, here)}
                front += [other for other in left if other in joined]
                left = [other for other in left if other not in joined]
            yield cluster

    def _is_harmless(self, cluster: Sequence[int], reads: Sequence[int]) -> bool:
        if self._is_touched_in_regions(cluster[0]):
            return False  # a run leaves iterations and arms out, and with them accesses
        if len(set(self.owner[cluster].tolist())) > 1:
            return False
        last = [each for each in cluster if not any(self._before(each, other) for other in cluster)]
        return self._equal(last) and all(
            all(self._before(read, each) for each in cluster) or all(self._before(each, read) for each in cluster)
            for read in reads
        )

    def _is_touched_in_regions(self, access: int) -> bool:
        """Whether some block of a loop or an arm touches the location of an access."""
        unrolled = self.model.unrolled
        if unrolled is None:
            return False
        blocks = [block for block, region in enumerate(unrolled.structure.region_of) if region != NONE]
        group = int(unrolled.footprints.group[self.model.location[access]])
        return unrolled.footprints.touch(blocks, group) != 0

    def _equal(self, writes: Sequence[int]) -> bool:
        return all(self.values.equal(writes[0], other) for other in writes)

    def _before(self, first: int, second: int) -> bool:
        """Whether one access happens before another; of one instruction the reads come first."""
        model = self.model
        if model.instruction[first] == model.instruction[second]:
            return bool(not model.write[first] and model.write[second])
        return self.order.before(first, second)
