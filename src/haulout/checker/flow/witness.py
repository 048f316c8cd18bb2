"""A short way through a walk on which one access finds one cell in a wrong state, as a path of the function.

Only what touches the cell counts, and the forks and loops around that. A place on the way is an operation, the state
of the cell, and how often the bodies of loops with a known trip count have run. All places that can be reached are
tried, so where none is right no run of the function shows the fault.

Loops that are not written out run no more than three times: what a body does to a cell in one iteration it may do in
each, a second one adds the change from MINE to LOST, and a third one sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from haulout.checker.flow.steps import ELSE, EVENTS, EXIT, FORK, JOIN, LATCH, LOOP
from haulout.checker.flow.text import Text
from haulout.checker.flow.walks import Walk
from haulout.checker.paths.runs import Choice
from haulout.checker.paths.step_trips import Copies
from haulout.checker.proofs.holders import FRESH, LOST, MINE, Layout
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids

_TURNS = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """A fault to show."""

    row: int
    """Of the walk; NONE: at the end."""
    atom: int
    place: int
    """The location of the cell."""
    states: int
    """The states that are wrong."""
    begin: int
    """The state at the start."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A path on which it shows."""

    path: dict[Choice, int]
    copies: dict[int, Copies]
    taker: int
    """The row that last wrote the bytes for another location; NONE: there is none."""


_Place = tuple[int, int, tuple[int, ...]]
"""Operation, state, iterations of the loops of known trip count around."""


class Ways:
    """The ways through a walk."""

    def __init__(self, text: Text, walk: Walk, layout: Layout, block: Ids) -> None:
        self.text, self.walk, self.layout, self.block = text, walk, layout, block
        kinds = walk.operations[:, 0]
        self.parts = np.flatnonzero(kinds == EVENTS)
        self.around = np.full(len(kinds), NONE, np.int32)
        """Of each operation: where the fork or loop around it begins."""
        self.middle: dict[int, int] = {}
        self.end: dict[int, int] = {}
        stack: list[int] = []
        for at, kind in enumerate(kinds.tolist()):
            if kind in (FORK, LOOP):
                self.around[at] = stack[-1] if stack else NONE
                stack.append(at)
                continue
            if kind in (ELSE, LATCH):
                self.middle[stack[-1]] = at
            elif kind in (JOIN, EXIT):
                self.end[stack.pop()] = at
            self.around[at] = stack[-1] if stack else NONE
        self.copies = text.runs.copies(deep=False)

    def find(self, goal: Goal) -> Witness | None:
        """The shortest one; None: there is none."""
        return _Search(self, goal).run()


class _Search:
    def __init__(self, ways: Ways, goal: Goal) -> None:
        self.ways, self.goal = ways, goal
        layout, walk = ways.layout, ways.walk
        hit = layout.touching(goal.atom)[layout.extent] & layout.write
        if layout.permanent[goal.place]:
            hit &= layout.place == goal.place
        else:
            hit &= (layout.place == goal.place) | ~layout.permanent[layout.place]
        rows = np.flatnonzero(hit)
        if goal.row != NONE:
            rows = np.union1d(rows, goal.row)
        self.hit = hit
        part = ways.parts[np.searchsorted(walk.operations[ways.parts, 1], rows, "right") - 1]
        self.rows: dict[int, list[int]] = {}
        for at, row in zip(part.tolist(), rows.tolist(), strict=True):
            self.rows.setdefault(at, []).append(row)
        kept = set(self.rows)
        for at in self.rows:
            outer = int(ways.around[at])
            while outer != NONE and outer not in kept:
                kept |= {outer, ways.middle[outer], ways.end[outer]}
                outer = int(ways.around[outer])
        self.kept = sorted(kept)
        self.number = {at: k for k, at in enumerate(self.kept)}
        self.operations = walk.operations[self.kept].tolist()
        self.turns = {row[1]: self.times(row[1], row[2]) for row in self.operations if row[0] == LOOP}
        self.came: dict[_Place, tuple[_Place, int]] = {}
        """How a place was reached: from which one, and the row that wrote the cell for another location, or NONE."""

    def times(self, loop: int, header: int) -> int:
        """How often a body runs here; NONE: as often as wanted."""
        walk = self.ways.walk
        trip = int(walk.trip[loop])
        if trip == NONE:
            return NONE
        if header in walk.headers:
            return min(trip, _TURNS)
        return min(trip, max(_TURNS, self.ways.copies[header].count))

    def run(self) -> Witness | None:
        """Search breadth first; where loops that may not run do run first, so that little is assumed."""
        begin: _Place = (0, self.goal.begin, ())
        later: dict[_Place, tuple[_Place, int]] = {begin: (begin, NONE)}
        while later:
            todo = [place for place in later if place not in self.came]
            self.came.update((place, later[place]) for place in todo)
            later = {}
            for place in todo:
                at, state, _ = place
                if at == len(self.kept):
                    if self.goal.row == NONE and state & self.goal.states:
                        return self.witness(place)
                    continue
                for following, taker, done in self.steps(place):
                    if following in self.came:
                        continue
                    if self.skips(place, following):
                        later.setdefault(following, (place, taker))
                        continue
                    self.came[following] = place, taker
                    if done:
                        return self.witness(following)
                    todo.append(following)
        return None

    def skips(self, place: _Place, following: _Place) -> bool:
        """True if a loop that may run does not."""
        kind, first, _, _, _ = self.operations[place[0]]
        return kind == LOOP and self.turns[first] == NONE and following[0] != place[0] + 1

    def steps(self, place: _Place) -> list[tuple[_Place, int, bool]]:
        """What may come next: the place, the row that took the cell, and whether it is the goal."""
        at, state, turns = place
        kind, first, _, _, _ = self.operations[at]
        behind = at + 1
        if kind == EVENTS:
            return self.accesses(place)
        if kind == FORK:
            second = self.number[self.ways.middle[self.kept[at]]] + 1
            return [((behind, state, turns), NONE, False), ((second, state, turns), NONE, False)]
        if kind == ELSE:
            return [((self.number[self.ways.end[self.opening(at)]], state, turns), NONE, False)]
        if kind == LOOP:
            times = self.turns[first]
            after = self.number[self.ways.middle[self.kept[at]]] + 1
            found = []
            if times:
                found.append(((behind, state, turns if times == NONE else (*turns, 0)), NONE, False))
            if times in (0, NONE):
                found.append(((after, state, turns), NONE, False))
            return found
        if kind == LATCH:
            times = self.turns[first]
            again = self.number[self.opening(at)] + 1
            if times == NONE:
                return [((behind, state, turns), NONE, False), ((again, state, turns), NONE, False)]
            if turns[-1] + 1 < times:
                return [((again, state, (*turns[:-1], turns[-1] + 1)), NONE, False)]
            return [((behind, state, turns[:-1]), NONE, False)]
        return [((behind, state, turns), NONE, False)]

    def opening(self, at: int) -> int:
        """Where the fork or loop begins whose middle is here."""
        return int(self.ways.around[self.kept[at]])

    def accesses(self, place: _Place) -> list[tuple[_Place, int, bool]]:
        """Past a stretch of accesses."""
        at, begin, turns = place
        layout, goal = self.ways.layout, self.goal
        states = {begin: NONE}
        for row in self.rows[self.kept[at]]:
            if row == goal.row:
                for state, taker in states.items():
                    if state & goal.states:
                        return [((at, 8 + state, turns), taker, True)]
            if not self.hit[row]:
                continue
            after: dict[int, int] = {}
            for state, taker in states.items():
                if layout.place[row] == goal.place:
                    after.setdefault(MINE, NONE)
                else:
                    after.setdefault(FRESH if state == FRESH else LOST, row)
                if not layout.sure[row]:
                    after.setdefault(state, taker)
            states = after
        return [((at + 1, state, turns), taker, False) for state, taker in states.items()]

    # -- what it found -----------------------------------------------------------------------------------------------

    def witness(self, last: _Place) -> Witness:
        """The choices that lead there."""
        places = [last]
        taker = self.came[last][1]
        while self.came[places[-1]][0] != places[-1]:
            places.append(self.came[places[-1]][0])
            if taker == NONE:
                taker = self.came[places[-1]][1]
        places.reverse()
        replay = _Replay(self)
        for place, following in pairwise(places):
            replay.step(place[0], following[0])
        if self.goal.row != NONE:
            replay.stop(self.goal.row)
        return Witness(replay.path, self.chosen(replay), taker)

    def chosen(self, replay: _Replay) -> dict[int, Copies]:
        """The iterations of each loop in the run."""
        found, structure = dict(self.ways.copies), self.ways.text.runs.flow.structure
        for header, count in replay.counts.items():
            base, moves = found[header], header in self.ways.walk.headers
            if not moves or structure.loops[structure.loop_at[header]].trip == NONE:
                count = max(count, base.count)  # how many of these run is in the path
            unknown, stepped = (False, True) if moves else (base.unknown, base.stepped)
            found[header] = replace(base, count=count, unknown=unknown, stepped=stepped)
        return found


class _Replay:
    """Follows a way once more, with the iterations of all loops."""

    def __init__(self, search: _Search) -> None:
        self.search, self.walk = search, search.ways.walk
        self.structure = search.ways.text.runs.flow.structure
        self.path: dict[Choice, int] = {}
        self.turn: dict[int, int] = {}
        """Header -> how often the body of the innermost such loop has run."""
        self.period: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        """Header of a loop of known trip count -> its iterations in the run."""
        self.column = {header: at for at, header in enumerate(self.walk.headers)}

    def iteration(self, header: int, row: int) -> int:
        """The iteration of a loop, at an operation with some row of `iterations`."""
        turn = self.turn.get(header, 0)
        if header in self.column:
            return self.period.get(header, 0) * turn + int(self.walk.iterations[row, self.column[header]])
        return turn

    def around(self, block: int, row: int) -> tuple[int, ...]:
        """The iterations of the loops around a block, without the one that it is the header of."""
        loops = [self.structure.loops[number].header for number in self.structure.loops_around(block)]
        return tuple(self.iteration(header, row) for header in loops if header != block)

    def step(self, at: int, following: int) -> None:
        """From one operation to the next."""
        search = self.search
        if at == len(search.kept):
            return
        kind, first, block, core, row = search.operations[at]
        if kind == FORK and first != NONE:
            fork = self.structure.forks[self.structure.fork_at[block]]
            key = block, self.around(block, row), core if fork.divergent else NONE
            self.path[key] = 0 if following == at + 1 else 1
        elif kind == FORK and following == at + 1:
            self.runs(block, self.iteration(block, row) + 1, row)
        elif kind == LOOP:
            self.turn[block], self.period[block] = 0, int(self.walk.period[first])
            self.runs(block, 0, row)
            self.count(first, block)
        elif kind == LATCH:
            self.turn[block] += int(self.walk.trip[first] != 0)
            if following == at + 1:
                turns = self.turn[block]
                self.runs(block, self.period[block] * turns if block in self.column else turns, row)

    def count(self, loop: int, header: int) -> None:
        """The iterations of a loop of known trip count."""
        known = self.structure.loops[self.structure.loop_at[header]].trip
        if known == NONE:
            return
        count = self.search.turns[loop]
        if header in self.column:
            period = self.period[header]
            count = period * count + known % period if period else known
        self.counts[header] = max(count, self.counts.get(header, 0))

    def runs(self, header: int, count: int, row: int) -> None:
        """A loop of unknown trip count runs at least so often."""
        if self.structure.loops[self.structure.loop_at[header]].trip != NONE:
            return
        key = header, self.around(header, row), NONE
        self.path[key] = max(count, self.path.get(key, 0))
        self.counts[header] = max(count, self.counts.get(header, 0))

    def stop(self, row: int) -> None:
        """The goal is here: the loops around it run as long."""
        access, place = int(self.walk.access[row]), int(self.walk.at[row])
        block = int(self.search.ways.block[access])
        for number in self.structure.loops_around(block):
            header = self.structure.loops[number].header
            self.runs(header, self.iteration(header, place) + (block != header), place)
