"""Unordered writes that do no harm: every schedule leaves the same bytes, and no read comes between.

Look at one atom of storage and all accesses that touch it. Writes that nothing orders, directly or through others,
form a *cluster*. A cluster is harmless when

- all its writes leave equal bytes (`equal_values.py`), or
- its last writes, those before no other of the cluster, leave equal bytes, and every read of the atom happens before
  all of the cluster or after all of it.

A read that a write of the cluster is not ordered with is a race, which nothing excuses. The sweep does not list it
when a later access of its queue stands for it; where the writes are excused it is listed here.

All that is decided on the values of one schedule. It holds for all: take any other, and in it the first read of other
bytes than in the one that was numbered. All instructions before it compute the same. Reads are ordered against all
writes, so the read has the same writes before it in both schedules, and in each sees one that is before no other of
these. If the two differ they are not ordered, so in one cluster, and they leave equal bytes in either case.

Only writes of one location, through whichever view, are looked at: of two locations in one place at one time neither
is excused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from haulout.check import sweep
from haulout.check.columns import stretched
from haulout.check.conflicts import Conflicts
from haulout.check.equal_values import Values, number_values
from haulout.check.meetings import Meetings
from haulout.check.model import Model
from haulout.check.order import Order
from haulout.check.regions import Regions
from haulout.ir.schema import Bools, Ids, Ints

MAX_ACCESSES = 1 << 18
"""Accesses of a function whose values are numbered; in a larger one nothing is excused."""
MAX_QUERIES = 1 << 20
"""Pairs of accesses whose order is looked up."""


def excuse_writes(
    model: Model, order: Order, regions: Regions, meetings: Meetings, events: Ids, conflicts: list[Conflicts]
) -> list[Conflicts]:
    """The conflicts, with unordered writes that do no harm as `sweep.DUPLICATE`."""
    kinds = (sweep.RACE, sweep.DEPENDENCE)
    masks = {each.kind: _candidates(model, each) for each in conflicts if each.kind in kinds}
    if len(events) > MAX_ACCESSES or not any(mask.any() for mask in masks.values()):
        return conflicts
    values = number_values(model, regions, meetings, events)
    place = np.empty(len(events), np.int64)
    place[events] = np.arange(len(events))
    judge = _Judge(model, order, regions, values, place)
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
        if pairs := sorted(judge.reads.get(kind, ())):
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


@dataclass(slots=True)
class _Judge:
    """Judges pairs of unordered writes, atom by atom; atoms with the same accesses have one answer."""

    model: Model
    order: Order
    regions: Regions
    values: Values
    place: Ints
    """Of each access: where the schedule has it."""
    reads: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Kind -> reads that are not ordered with a write of a harmless cluster, as pairs in the schedule's order."""
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
        return all(self._cluster(covering).get(first, False) for covering in self._groups(one, other))

    def _groups(self, one: int, other: int) -> list[tuple[int, ...]]:
        """The different sets of regions that cover a common atom of two regions, and all that may."""
        key = min(one, other), max(one, other)
        if key not in self._known:
            mine, theirs = self._atoms(one), self._atoms(other)
            common = np.intersect1d(mine, theirs, assume_unique=True)
            apart = {each for region in key for each in self.regions.met_apart(region)}
            self._known[key] = [tuple(sorted({*each, *apart})) for each in self._covering(common)]
        return self._known[key]

    def _atoms(self, region: int) -> Ints:
        begin, end = int(self.regions.starts[region]), int(self.regions.starts[region + 1])
        low, high = self.regions.low[begin:end], self.regions.high[begin:end]
        return stretched(low.astype(np.int64), (high - low).astype(np.int64))

    def _covering(self, atoms: Ints) -> list[tuple[int, ...]]:
        """Sets of regions in use, one for each way in which the atoms are covered."""
        regions = self.regions
        first, last = (np.searchsorted(atoms, ends) for ends in (regions.low, regions.high))
        rows = np.flatnonzero(last > first)
        region = np.repeat(np.arange(len(regions.starts) - 1), np.diff(regions.starts))[rows]
        used = np.zeros(len(regions.location), bool)
        used[regions.of_access] = True
        rows, region = rows[used[region]], region[used[region]]
        count = (last - first)[rows]
        at, which = stretched(first[rows], count), np.repeat(region, count)
        by = np.lexsort((which, at))
        cuts = np.flatnonzero(np.append(True, np.diff(at[by]) != 0)[: len(by)])
        sets = {tuple(each.tolist()) for each in np.split(which[by], cuts[1:])}
        return sorted(sets)

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
            harmless = len(cluster) > 1 and self._is_harmless(cluster, reads)
            found |= dict.fromkeys(cluster, harmless)
            if harmless:
                self._list_reads(cluster, reads)
        return found

    def _list_reads(self, cluster: Sequence[int], reads: Sequence[int]) -> None:
        model = self.model
        unsure = model.maybe | self.regions.unknown[self.regions.of_access]
        for read, write in product(reads, cluster):
            if not self._before(read, write) and not self._before(write, read):
                inside = model.core[model.instruction[read]] == model.core[model.instruction[write]]
                kinds = (sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE) if inside else (sweep.RACE, sweep.POSSIBLE_RACE)
                pair = (read, write) if self.place[read] < self.place[write] else (write, read)
                self.reads.setdefault(kinds[int(unsure[read])], set()).add(pair)

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
        model = self.model
        if len(set(model.owners()[model.location[cluster]].tolist())) > 1:
            return False
        if self._equal(cluster):
            return True
        last = [each for each in cluster if not any(self._before(each, other) for other in cluster)]
        return self._equal(last) and all(
            all(self._before(read, each) for each in cluster) or all(self._before(each, read) for each in cluster)
            for read in reads
        )

    def _equal(self, writes: Sequence[int]) -> bool:
        return all(self.values.equal(writes[0], other) for other in writes)

    def _before(self, first: int, second: int) -> bool:
        """Whether one access happens before another; of one instruction the reads come first."""
        model = self.model
        if model.instruction[first] == model.instruction[second]:
            return bool(not model.write[first] and model.write[second])
        return self.order.before(first, second)
