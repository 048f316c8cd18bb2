"""Bad pairs to findings: grouped by the fix that orders them, each told with two sides, its cause and the fix.

The first pair in time is taken, and the first fix that holds for it; all pairs of its kind that the fix orders go
with it. Pairs of the same two source lines are one finding too, and then the fix must order all of them. What is
shown is the first pair that says most: a read against a write rather than two writes.

Which of the two should come first is the source's `seq`, inside a core the list, in a loop the iteration. Where none
of them says it, the report says "in either order"; which is named first is for the fix, else for list positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from haulout.checker import bytesets
from haulout.checker.explain.advice import Adviser, Group
from haulout.checker.explain.candidates import Candidates
from haulout.checker.explain.causes import Lines, find_cause
from haulout.checker.explain.dedup import pair_keys
from haulout.checker.explain.evidence import Evidence
from haulout.checker.explain.fix_coverage import leads, orders
from haulout.checker.explain.fixes import Fix
from haulout.checker.model import Model
from haulout.checker.order.graph import Graph
from haulout.checker.order.happens_before import Order
from haulout.checker.proofs import sweep
from haulout.checker.proofs.conflicts import HAZARDS, Conflicts
from haulout.checker.proofs.extents import Regions
from haulout.ir.enums import NONE, Space
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MOST = 20
"""Findings of one kind that are listed."""
_MANY_RUNS = 1 << 20
"""Sets of more runs are not listed to count their common bytes."""

_INSIDE = (sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE)
_UNORDERED = (sweep.RACE, sweep.POSSIBLE_RACE, *_INSIDE)
_TAKEN_BY = {sweep.DEPENDENCE: sweep.RACE, sweep.POSSIBLE_DEPENDENCE: sweep.POSSIBLE_RACE}
"""Pairs of a core that the fix of a race orders too belong to the race."""
_CODES = {
    sweep.RACE: ("cross-core-race", Severity.ERROR),
    sweep.POSSIBLE_RACE: ("possible-race", Severity.WARNING),
    sweep.DEPENDENCE: ("missing-dependence", Severity.ERROR),
    sweep.POSSIBLE_DEPENDENCE: ("missing-dependence", Severity.WARNING),
    sweep.DUPLICATE: ("benign-duplicate-write", Severity.NOTE),
    sweep.UNFAITHFUL: ("unfaithful-order", Severity.ERROR),
    sweep.FETCHED: ("order-dependent-result", Severity.NOTE),
}


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The bad pairs of one kind as columns; `first` should run before `second`."""

    kind: int
    first: Ids
    second: Ids
    timed: Bools
    """The source says so."""
    keys: Ints
    lines: tuple[Ids, Ids]
    owners: tuple[Ids, Ids]


def bare(model: Model, conflicts: Conflicts) -> Diagnostic:
    """That there are bad pairs of one kind, without a word about them."""
    code, severity = _CODES[conflicts.kind]
    first, second = int(conflicts.first[0]), int(conflicts.second[0])
    entities = model.access_entity(first), model.access_entity(second)
    distance = model.distance(int(model.instruction[first]), int(model.instruction[second]))
    return Diagnostic(code, severity, "", subject=Subject(HAZARDS[0], model.function, entities, distance=distance))


class Reporter:
    """Tells about the conflicts of one function."""

    def __init__(
        self, model: Model, graph: Graph, order: Order, regions: Regions, lines: Lines, adviser: Adviser
    ) -> None:
        self.model, self.order, self.regions, self.lines = model, order, regions, lines
        self.graph, self.adviser = graph, adviser
        self.evidence = Evidence(model, graph, order, regions)
        self.candidates = Candidates(model, graph, order)

    def tell(self, conflicts: Conflicts) -> list[Diagnostic]:
        """The findings for the bad pairs of one kind; the adviser completes them in the end."""
        pairs = self._pairs(conflicts)
        left = np.ones(len(pairs.keys), bool)
        for group in self.adviser.groups:
            if group.fix is not None and group.kind in (pairs.kind, _TAKEN_BY.get(pairs.kind)):
                self._take(group, pairs, left, self._ordered(group.fix, group.verified, pairs))
        found: list[Diagnostic] = []
        while left.any():
            at = int(np.argmax(left))
            lines = (int(pairs.lines[0][at]), int(pairs.lines[1][at]))
            if known := self.adviser.known(pairs.kind, lines):
                self._extend(known, pairs, left, at)
                continue
            if len(found) == _MOST:
                break
            group, orders = self._group(pairs, left, at)
            shown = self._shown(pairs, left & orders)
            first, second = self._turned(pairs, shown, group.fix)
            group.lines = int(self._line(first)), int(self._line(second))
            if twin := self.adviser.known(pairs.kind, group.lines):
                self._extend(twin, pairs, left, at)
                continue
            self._take(group, pairs, left, orders)
            group.hazard = self._hazard_note(first, second)
            group.shown = self._finding(pairs.kind, first, second)
            self.adviser.add(group)
            found.append(group.shown)
        missed = int(left.sum()) + conflicts.total - len(left)
        if missed > 0 and found:
            last = found[-1]
            notes = (*last.notes, f"{missed} more pairs of this kind are not listed")
            found[-1] = self.adviser.groups[-1].shown = replace(last, notes=notes)
        return found

    # -- groups -----------------------------------------------------------------------------------------------------

    def _pairs(self, conflicts: Conflicts) -> _Pairs:
        model, (first, second) = self.model, (conflicts.first, conflicts.second)
        timed = np.ones(len(first), bool)
        if conflicts.kind != sweep.UNFAITHFUL:
            first, second, timed = self._directed(first, second)
        owners = model.owners()
        return _Pairs(
            conflicts.kind,
            first,
            second,
            timed,
            pair_keys(model, first, second),
            (self._line(first), self._line(second)),
            (owners[model.location[first]], owners[model.location[second]]),
        )

    def _directed(self, first: Ids, second: Ids) -> tuple[Ids, Ids, Bools]:
        """Pairs in the order in which they should run, and whether the source says so."""
        model = self.model
        i, j = model.instruction[first], model.instruction[second]
        inside = model.core[i] == model.core[j]
        one, other = model.time[i], model.time[j]
        timed = ~inside & (one != NONE) & (other != NONE) & (one != other)
        place, twin = (each - model.core_starts[model.core[each]] for each in (i, j))
        guess = np.where(place != twin, place > twin, model.write[first] < model.write[second])
        turned = np.where(inside, i > j, np.where(timed, one > other, guess))
        return np.where(turned, second, first), np.where(turned, first, second), timed | inside

    def _line(self, accesses: Ids | int) -> Ids:
        """The source line of each access as a number; negative: it has none, and each its own."""
        model = self.model
        table, rows = model.program.instructions, model.rows[model.instruction[accesses]]
        line = np.where(table.loc[rows] != NONE, 2 * table.loc[rows], 2 * table.text_line[rows] + 1)
        found: Ids = np.where(line < 0, NONE, line)
        return found

    def _group(self, pairs: _Pairs, left: Bools, at: int) -> tuple[Group, Bools]:
        """The group of a pair, and which pairs are in it."""
        kind, advised = pairs.kind, pairs.kind in _UNORDERED
        fix, verified = None, False
        if advised:
            fix, verified = self.adviser.choose(kind, int(pairs.keys[at]), self._candidates(pairs, left, at))
        group = Group(kind, (NONE, NONE), fix, verified, advised)
        if fix is None:
            same = (pairs.owners[0] == pairs.owners[0][at]) & (pairs.owners[1] == pairs.owners[1][at])
            if advised:
                same &= self._places(pairs) == self._places(pairs)[at]
            return group, same
        within = self._ordered(fix, verified, pairs)
        within[at] = True
        return group, within

    def _is_directed(self, first: int, second: int) -> bool:
        """Whether anything says which of two accesses should come first."""
        model = self.model
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        times = [int(model.time[row]) for row in (i, j)]
        return (
            bool(model.core[i] == model.core[j])
            or (NONE not in times and times[0] != times[1])
            or bool(model.later(i, j))
        )

    def _ordered(self, fix: Fix, verified: bool, pairs: _Pairs) -> Bools:
        """Which pairs a fix orders."""
        if verified:
            return self.adviser.orders(fix, pairs.kind, pairs.keys)
        return orders(self.model, self.order, self.graph, pairs.first, pairs.second, fix)

    def _candidates(self, pairs: _Pairs, left: Bools, at: int) -> Iterator[Fix]:
        self.candidates.aim(pairs.first[left], pairs.second[left], pairs.timed[left])
        return self.candidates.find(int(pairs.first[at]), int(pairs.second[at]), 1 if pairs.timed[at] else 2)

    def _places(self, pairs: _Pairs) -> Ints:
        """The blocks of both accesses of each pair, whatever their core, as one number."""
        model = self.model
        source, blocks = model.program, model.program.instructions.block
        if model.unrolled is not None:
            source, blocks = model.unrolled.source, model.unrolled.block
        number = np.arange(len(source.blocks)) - np.searchsorted(source.blocks.function, source.blocks.function)
        one, other = (number[blocks[model.rows[model.instruction[side]]]] for side in (pairs.first, pairs.second))
        found: Ints = one << 32 | other
        return found

    def _extend(self, group: Group, pairs: _Pairs, left: Bools, at: int) -> None:
        """Put pairs of the same lines into a group that is there already."""
        self.adviser.extend(group, pairs.kind, int(pairs.keys[at]), self._candidates(pairs, left, at))
        same = (pairs.lines[0] == group.lines[0]) & (pairs.lines[1] == group.lines[1])
        if group.fix is not None and group.verified and group.complete:
            same = self.adviser.orders(group.fix, pairs.kind, pairs.keys)
        same[at] = True
        self._take(group, pairs, left, same)

    def _take(self, group: Group, pairs: _Pairs, left: Bools, chosen: Bools) -> None:
        """Move pairs that are left into a group."""
        chosen = chosen & left
        left &= ~chosen
        group.keys.append(pairs.keys[chosen])
        owners = np.stack([side[chosen] for side in pairs.owners], axis=1).ravel()
        for location in dict.fromkeys(owners.tolist()):
            group.locations[self.model.location_entity(location)] = None

    def _shown(self, pairs: _Pairs, chosen: Bools) -> int:
        """Of some pairs, the first of those that say most."""
        rows = np.flatnonzero(chosen)
        both = self.model.write[pairs.first[rows]] & self.model.write[pairs.second[rows]]
        # Two writes say less than a read of the wrong bytes.
        return int(rows[np.argmin(both)])

    def _turned(self, pairs: _Pairs, at: int, fix: Fix | None) -> tuple[int, int]:
        """A pair in the order that a fix gives it, where the source has none."""
        first, second = pairs.first[at : at + 1], pairs.second[at : at + 1]
        if fix is not None and not pairs.timed[at]:
            one, other = (
                leads(self.model, self.order, self.graph, *sides, fix).any()
                for sides in ((first, second), (second, first))
            )
            if other and not one:
                first, second = second, first
        return int(first[0]), int(second[0])

    # -- findings ---------------------------------------------------------------------------------------------------

    def _finding(self, kind: int, first: int, second: int) -> Diagnostic:
        code, severity = _CODES[kind]
        labels = (self._side(second), self._side(first))
        notes = [self._bytes(first, second), self._hazard_note(first, second)]
        notes += self._bands(first, second)
        if kind in (sweep.RACE, sweep.POSSIBLE_RACE):
            cause = find_cause(self.lines, first, second, self._is_directed(first, second))
            notes.append(f"cause: {cause}")
        if kind in (sweep.POSSIBLE_RACE, sweep.POSSIBLE_DEPENDENCE):
            notes.append(
                "one of the two touches some bytes of its pattern, not known which (`?` or `maybe`): it is taken to "
                "touch all of them"
            )
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        if kind == sweep.RACE and self.model.time[i] == self.model.time[j] != NONE:
            notes.append(
                f"both have seq={self._time(first)}: the source gives them no order, so no fence can be derived"
            )
        if kind in _UNORDERED:
            if self.model.atomic[first] or self.model.atomic[second]:
                notes.append("atomic accesses need no order only among those of one operation and one element type")
            notes += self.evidence.tell(first, second, self._is_directed(first, second))
        if kind in _UNORDERED and self.graph.counting is not None and self.graph.counting.weak:
            notes.append(
                "semaphores that several queues signal were too many to follow together: an order that only several "
                "signals give is not seen, and this may be a false alarm"
            )
        subject = Subject(
            kind=self._hazard(first, second),
            function=self.model.function,
            instructions=(self.model.access_entity(first), self.model.access_entity(second)),
            locations=tuple(self.model.location_entity(row) for row in self._owners(first, second)),
            cores=tuple(sorted({int(self.model.core[each]) for each in (i, j)})),
            distance=self.model.distance(i, j),
            provisos=self.model.provisos(i, j),
        )
        return Diagnostic(code, severity, self._sentence(kind, first, second), labels, tuple(notes), subject=subject)

    def _owners(self, first: int, second: int) -> list[int]:
        """The owners of the locations of two accesses, without repetition."""
        owners = self.model.owners()[self.model.location[[first, second]]]
        return list(dict.fromkeys(owners.tolist()))

    def _sentence(self, kind: int, first: int, second: int) -> str:
        one, other = self._who(first), self._who(second) + self._later(first, second)
        target = self._target(second)
        does = "writes" if self.model.write[second] else "reads"
        did = "writes" if self.model.write[first] else "reads"
        if kind == sweep.UNFAITHFUL:
            here, there = self._time(first), self._time(second)
            if here == there != NONE:
                return f"{other} {does} {target} after {one} {did} it, but both have seq={here}, which is no order"
            when = f"seq {here} and {there}" if NONE not in (here, there) else "list order"
            return f"{other} {does} {target} after {one} {did} it; the source has them the other way round ({when})"
        if kind == sweep.FETCHED:
            return f"{one} and {other} change {target} in either order, and what is fetched depends on it"
        if kind == sweep.DUPLICATE:
            return f"{one} and {other} write {target} in no order; every order leaves the same bytes"
        possibly = "may touch" if kind in (sweep.POSSIBLE_RACE, sweep.POSSIBLE_DEPENDENCE) else does
        if kind in _INSIDE:
            return f"{other} {possibly} {target} without waiting for {one}, which {did} it"
        if not self._is_directed(first, second):
            touches = "may touch" if possibly == "may touch" else did
            return f"{other} {possibly} {target} and {one} {touches} it, in either order"
        may = "write" if self.model.write[first] else "read"
        return f"{other} {possibly} {target} while {one} may still {may} it"

    def _bytes(self, first: int, second: int) -> str:
        """Which tensor, which bytes, how many."""
        regions, model = self.regions, self.model
        one, other = int(regions.of_access[first]), int(regions.of_access[second])
        location = int(model.owners()[model.location[second]])
        twin = int(model.owners()[model.location[first]])
        program = model.program
        space = Space(int(program.locations.space[location])).text
        what = f"{model.location_name(location)} of core {program.location_core[location]} ({space}"
        what += f", {program.locations.size[location]} bytes)"
        if twin != location:
            what += f" shares storage with {model.location_name(twin)} of core {program.location_core[twin]}"
        many = any(self._most_runs(region) > _MANY_RUNS for region in (one, other))
        if many or regions.unknown[one] or regions.unknown[other]:
            return what
        low, high = bytesets.common(regions.runs(one), regions.runs(other))
        base = int(regions.storage.base[model.location[second]])
        total = int((high - low).sum())
        if len(low) == 0 or regions.storage.is_grid[model.location[second]]:
            return f"{what}: {total} bytes in common"
        runs = "" if len(low) == 1 else f", and {len(low) - 1} more runs"
        return f"{what}: {total} bytes in common, {low[0] - base}:{high[0] - base}{runs}"

    def _most_runs(self, region: int) -> int:
        if self.regions.storage.is_grid[self.regions.location[region]]:
            return 1
        return self.regions.byte_set(region).most_runs

    def _hazard(self, first: int, second: int) -> str:
        both = self.model.write[first] and self.model.write[second]
        return HAZARDS[0 if both else 1 if self.model.write[first] else 2]

    def _hazard_note(self, first: int, second: int) -> str:
        if self._is_directed(first, second):
            return self._hazard(first, second)
        both = self.model.write[first] and self.model.write[second]
        return "two writes" if both else "a read and a write"

    def _bands(self, first: int, second: int) -> list[str]:
        """Where both stand among the barriers, when they are on different cores."""
        cores = [int(self.model.core[self.order.instruction[access]]) for access in (first, second)]
        if cores[0] == cores[1]:
            return []
        common = self.lines.common(*cores)
        if not common:
            return [f"cores {cores[0]} and {cores[1]} have no barrier in common"]
        return [f"{self._name(access)} runs {self.lines.band(access, common[0])}" for access in (first, second)]

    # -- words ------------------------------------------------------------------------------------------------------

    def _time(self, access: int) -> int:
        instruction = int(self.order.instruction[access])
        return int(self.model.program.instructions.seq[self.model.rows[instruction]])

    def _name(self, access: int) -> str:
        return self.model.name(int(self.order.instruction[access]))

    def _engine(self, access: int) -> str:
        return self.model.engine_name(int(self.order.instruction[access]))

    def _later(self, first: int, second: int) -> str:
        """When the second access happens, as seen from the first; empty without loops."""
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        return self.model.later(i, j)

    def _who(self, access: int) -> str:
        return f"{self._name(access)} on core {self.model.core[self.order.instruction[access]]}"

    def _target(self, access: int) -> str:
        pattern = self.model.program.pattern(int(self.model.pattern[access]))
        name = self.model.location_name(int(self.model.location[access]))
        return name if pattern is None else f"{name}[{pattern}]"

    def _side(self, access: int) -> Label:
        does = "writes" if self.model.write[access] else "reads"
        text = f"{self._who(access)} @{self._engine(access)} {does} {self._target(access)}"
        return self.model.label(int(self.order.instruction[access]), text)
