"""Bad pairs to findings: grouped by what they have in common, each told with both sides, its cause and its fixes.

Pairs of one kind on the same two tensors with the same cause are one finding; it shows the first of them and says how
many there are. Which of the two should come first is the source's `seq`, inside a core the list, in a loop the
iteration. Where none of them says it, the report says "in either order"; list positions decide which is named first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from haulout.check import bytesets, sweep
from haulout.check.causes import Cause, Fix, Lines, find_cause
from haulout.check.conflicts import HAZARDS, Conflicts
from haulout.check.cuts import Edge, count_cut
from haulout.check.evidence import Evidence
from haulout.check.graph import Graph
from haulout.check.model import Model
from haulout.check.order import Order
from haulout.check.regions import Regions
from haulout.ir.enums import NONE, Space
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MOST = 20
"""Findings of one kind that are listed."""
_TRIED = 24
"""Pairs of one group whose cause is looked up."""
_MANY_RUNS = 1 << 20
"""Sets of more runs are not listed to count their common bytes."""

_INSIDE = (sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE)
_UNORDERED = (sweep.RACE, sweep.POSSIBLE_RACE, *_INSIDE)
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
class _Group:
    """Pairs told as one finding; `first` should run before `second`."""

    first: int
    second: int
    pairs: int
    cause: Cause | None


class Reporter:
    """Tells about the conflicts of one function."""

    def __init__(self, model: Model, graph: Graph, order: Order, regions: Regions, lines: Lines) -> None:
        self.model, self.order, self.regions, self.lines = model, order, regions, lines
        self.graph = graph
        self.evidence = Evidence(model, graph, order, regions)

    def tell(self, conflicts: Conflicts) -> list[Diagnostic]:
        """The findings for the bad pairs of one kind."""
        groups = list(self._groups(conflicts))
        found = [self._finding(conflicts, group) for group in groups[:_MOST]]
        missed = conflicts.total - sum(group.pairs for group in groups[:_MOST])
        if missed > 0 and found:
            last = found[-1]
            notes = (*last.notes, f"{missed} more pairs of this kind are not listed")
            found[-1] = replace(last, notes=notes)
        return found

    # -- groups -------------------------------------------------------------------------------------------------

    def _groups(self, conflicts: Conflicts) -> Iterator[_Group]:
        """Group by the two locations, then by cause; in the order of the first pair of each."""
        model = self.model
        one, other = model.location[conflicts.first], model.location[conflicts.second]
        key = np.minimum(one, other).astype(np.int64) * len(model.program.locations) + np.maximum(one, other)
        _, begin, which, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        rows = np.argsort(which, kind="stable")
        cuts = np.cumsum(count) - count
        for group in np.argsort(begin, kind="stable")[: 4 * _MOST].tolist():
            pairs = rows[cuts[group] : cuts[group] + count[group]]
            yield from self._by_cause(conflicts, pairs.tolist())

    def _by_cause(self, conflicts: Conflicts, pairs: list[int]) -> list[_Group]:
        groups: dict[str, _Group] = {}
        for at in pairs[:_TRIED]:
            first, second = int(conflicts.first[at]), int(conflicts.second[at])
            if conflicts.kind != sweep.UNFAITHFUL:
                first, second = self._directed(first, second)
            cause = None
            if conflicts.kind in (sweep.RACE, sweep.POSSIBLE_RACE):
                cause = find_cause(self.lines, first, second, self._is_directed(first, second))
            # In loops the same operands may meet in one iteration and from one to the next: two faults, two mends.
            i, j = (int(self.order.instruction[access]) for access in (first, second))
            key = " later" if self.model.later(i, j) else ""
            if cause:
                key += cause.key
            elif conflicts.kind in _INSIDE:
                key += self.model.wait(i, j)
            known = groups.get(key, _Group(first, second, 0, cause))
            groups[key] = _Group(known.first, known.second, known.pairs + 1, known.cause)
        rest = len(pairs) - len(pairs[:_TRIED])
        if rest:  # their cause was not looked up: they count with the first
            key, known = next(iter(groups.items()))
            groups[key] = _Group(known.first, known.second, known.pairs + rest, known.cause)
        return list(groups.values())

    def _directed(self, first: int, second: int) -> tuple[int, int]:
        """The pair in the order in which it should run."""
        model, order = self.model, self.order
        i, j = int(order.instruction[first]), int(order.instruction[second])
        if model.core[i] == model.core[j]:
            return (first, second) if i < j else (second, first)
        times = [int(model.time[row]) for row in (i, j)]
        if NONE not in times and times[0] != times[1]:
            return (first, second) if times[0] < times[1] else (second, first)
        places = [int(row - model.core_starts[model.core[row]]) for row in (i, j)]
        if places[0] != places[1]:
            return (first, second) if places[0] < places[1] else (second, first)
        return (first, second) if model.write[first] >= model.write[second] else (second, first)

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

    # -- findings -----------------------------------------------------------------------------------------------

    def _finding(self, conflicts: Conflicts, group: _Group) -> Diagnostic:
        kind, first, second = conflicts.kind, group.first, group.second
        code, severity = _CODES[kind]
        labels = (self._side(second), self._side(first))
        stands_for = "" if group.pairs == 1 else f"; stands for {group.pairs} pairs of accesses"
        notes = [self._bytes(first, second), self._hazard_note(first, second) + stands_for]
        notes += self._bands(first, second)
        helps: tuple[str, ...] = ()
        if group.cause:
            notes.append(f"cause: {group.cause.text}")
            helps = tuple(self._fix(conflicts, fix) for fix in group.cause.fixes)
        if kind in _INSIDE:
            producer, consumer = self._name(first), self._name(second)
            helps = (
                self._fix(conflicts, self._wait(first, second)),
                f"or put both on one engine: {consumer} runs on @{self._engine(second)}, "
                f"{producer} on @{self._engine(first)}",
            )
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
            pairs=group.pairs,
            provisos=self.model.provisos(i, j),
        )
        return Diagnostic(code, severity, self._sentence(kind, first, second), labels, tuple(notes), helps, subject)

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

    # -- words --------------------------------------------------------------------------------------------------

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

    def _fix(self, conflicts: Conflicts, fix: Fix) -> str:
        """A fix, and how many other pairs it orders."""
        if fix.cut is None or self.model.unrolled is not None:
            return fix.text
        others = count_cut(self.model, self.order, conflicts, fix.cut) - 1
        return fix.text if others < 1 else f"{fix.text}; it orders {others} more of the pairs found"

    def _wait(self, first: int, second: int) -> Fix:
        """What makes the second access wait for the first, on the same core."""
        producer, consumer = self._name(first), self._name(second)
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        where = self.model.wait(i, j)
        if where in ("deps", "carried"):
            text = f"add {producer[1:]} to the {where} of {consumer} (or of anything before it on its engine)"
            return Fix(text, Edge(i, j))
        if where.startswith("join "):
            return Fix(
                f"put a nop @sync with deps=[{producer[1:]}] at the end of its arm, a nop @sync at the start of "
                f"{where.removeprefix('join ')}, and the name of the latter into the deps of {consumer}"
            )
        text = f"put a nop with carried=[{producer[1:]}] at the start of {where}, and its name into the deps of "
        return Fix(text + consumer)

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
