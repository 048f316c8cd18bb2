"""Pairs of accesses that the claims leave open: follow one access, and see who knows of it.

Claims (`claims.py`) lose what holds in different ways in different arms, and what needs the very number of iterations
of a loop. Here the walk begins at the first access of a pair, and at each point there are *states*: the sets of rows
that may have it behind them, one a run. A row is a line, what a producer leaves for a reader, or what the signals of
a semaphore leave.

    an event    knows what its line does and what it waits for; then its line does, and what it leaves for others
    a barrier   its lines know what any of them does
    a fork      the states behind both arms
    a loop      around the access: one iteration on, after the header, until there is nothing new; its iterations are
                the distances of a pair. Inside: those of any number of iterations, or of all of a constant one

Of all states only the least matter, as whoever knows more never leaves others with less; and none in which all lines
know. A pair is ordered if each state that reaches the second access knows of the first; else the choices behind the
state are a run that leaves it unordered. There are at most `MOST` states at a point: what more of them have in common
is taken in their place, which is safe and names no run. Nor does a run that rests on a count of semaphores, which is
an interval (`counts.py`), so such a pair is not known to be unordered.

The work is linear in the text behind the access, times states. `follow_columns.py` has the columns,
`follow_kernel.py` the walk.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.flow.follow_columns import Walk, find_walk
from haulout.checker.flow.follow_kernel import (
    ALIAS,
    DONE,
    LEFT,
    MORE_NODES,
    STABLE,
    WORK,
    Asked,
    Room,
    scan_knowers,
)
from haulout.checker.flow.graph import Graph, Open
from haulout.checker.flow.steps import EXIT, FORK, LATCH, LOOP
from haulout.checker.flow.text import Text
from haulout.checker.paths.runs import Choice
from haulout.ir.enums import NONE
from haulout.ir.schema import Bytes, Column, Ids
from haulout.ir.structure import Arm
from haulout.support.jit import compiled_if_large

UNSEEN, ORDERED, UNORDERED, UNKNOWN = range(4)
"""What is known of a pair. `UNORDERED`: some run leaves it so."""
MOST = 64
"""States at a point."""
_MOST_NODES = 1 << 22
_MAX_BACK = 1 << 26
_WORK = 1 << 27
"""States of events, for all pairs together."""
_NO_NODE = -2

Loops = list[tuple[int, int]]
"""(LOOP step, iteration), the outermost first."""


class Followed:
    """Pairs that the claims leave open, decided when asked for; all pairs of one first access at once."""

    def __init__(self, text: Text, graph: Graph, event: Ids, pairs: Open, most: int = MOST) -> None:
        """`event` has the event of each access of the pairs."""
        self.text, self.pairs = text, pairs
        first = event[pairs.first[: pairs.total]]
        self.first, self.second = first, event[pairs.second[: pairs.total]]
        self.by_event = grouped(first, len(text.events.line))
        self.firsts = int(np.count_nonzero(np.diff(self.by_event[0])))
        self.status: Bytes = np.zeros(pairs.total, np.int8)
        self.node = np.full(pairs.total, _NO_NODE, np.int64)
        self.certain = np.zeros(pairs.total, bool)
        self.walked = NONE
        """The event whose nodes `room` has."""
        self.work = _WORK
        self.graph, self.most = graph, most
        self._walk: Walk | None = None
        self._room: Room | None = None
        self._refused = False
        self._exact = not len(text.operations.wait)

    def is_ordered(self, row: int) -> bool:
        """Whether each run orders a pair, in each of its instances."""
        return self.known(row) == ORDERED

    def known(self, row: int) -> int:
        """`ORDERED`, `UNORDERED` or `UNKNOWN`."""
        if self.status[row] == UNSEEN:
            self._follow(int(self.first[row]))
        return int(self.status[row])

    def path(self, row: int, trips: Mapping[int, int]) -> dict[Choice, int] | None:
        """The choices that leave a pair unordered, where it is `UNORDERED`; where it is `UNKNOWN`, perhaps. None:
        none were found. A pair becomes `UNKNOWN` here if cores choose apart in them where all take the same branch.

        `trips` has the iterations of loops of a constant trip count that the run has, by header.
        """
        if self.walked != self.first[row] or self.status[row] == UNSEEN:
            self._follow(int(self.first[row]))
        node = int(self.node[row])
        if self.status[row] == ORDERED or node == _NO_NODE or self._room is None:
            return None
        choices = _Choices(self, self._room.nodes, trips)
        path = choices.found(int(self.first[row]), int(self.second[row]), node)
        if not choices.agree:
            self.status[row] = UNKNOWN
        return path

    def _follow(self, event: int) -> None:
        starts, order = self.by_event
        rows = order[starts[event] : starts[event + 1]]
        self.walked = event
        self.status[rows] = UNKNOWN
        self.node[rows], self.certain[rows] = _NO_NODE, False
        if self._walk is None and not self._refused:
            self._prepare()
        walk = self._walk
        if walk is None or self.work <= 0:
            return
        if walk.first_step[event] == NONE:
            self.status[rows] = ORDERED
            return
        asked, lowest, stop = self._asked(walk, rows)
        outcome = self._scan(walk, asked, event, lowest, stop)
        self.node[rows], self.certain[rows] = asked.found, asked.certain
        seen = asked.found != _NO_NODE
        if outcome == DONE:
            self.status[rows[~seen]] = ORDERED
        if self._exact:
            self.status[rows[seen & asked.certain]] = UNORDERED

    def _prepare(self) -> None:
        self._walk = walk = find_walk(self.text, self.graph)
        loops = len(self.text.loops)
        width = walk.live.shape[1] + 2 if walk is not None else 0
        if walk is None or loops * self.most * width > _MAX_BACK:
            self._walk, self._refused = None, True
            return
        self._room = Room(
            pool=np.zeros(((2 * walk.depth + 10) * self.most, width), np.int64),
            out=np.zeros((2 * self.most, width), np.int64),
            seen=np.zeros((2 * self.most, width), np.int64),
            back=np.empty((max(loops, 1) * self.most, width), np.int64),
            back_count=np.zeros(loops, np.int64),
            back_stamp=np.zeros(loops, np.int64),
            frames=np.zeros((walk.depth + 1, 4), np.int64),
            nodes=np.empty((1 << 10, 3), np.int64),
            now=np.zeros(8, np.int64),
            most=self.most,
        )
        self._head = np.full(len(self.text.events.line), NONE, np.int32)

    def _asked(self, walk: Walk, rows: Column) -> tuple[Asked, int, int]:
        """The questions of some pairs, their lowest level, and where those of it end; NONE: not in one iteration."""
        level, lag, second = self.pairs.level[rows], self.pairs.lag[rows], self.second[rows]
        following = np.full(len(rows), NONE, np.int32)
        for at, event in enumerate(second.tolist()):
            following[at] = self._head[event]
            self._head[event] = at
        lowest = int(level.min())
        last = walk.last_step[second[level == lowest]]
        stop = int(last.max()) if not lag[level == lowest].any() else NONE
        found, certain = np.full(len(rows), _NO_NODE, np.int64), np.zeros(len(rows), bool)
        return Asked(self._head, following, level, lag, found, certain), lowest, stop

    def _scan(self, walk: Walk, asked: Asked, event: int, lowest: int, stop: int) -> int:
        room = self._room
        assert room is not None
        limit = 64 * len(walk.schedule) + (1 << 16)
        while True:
            room.now[LEFT], room.now[WORK] = len(asked.found), min(limit, self.work)
            begin = int(room.now[WORK])
            with compiled_if_large(len(walk.schedule) * self.firsts, limit=60_000):
                outcome = scan_knowers(walk, room, asked, event, lowest, stop)
            self.work -= begin - int(room.now[WORK])
            if outcome != MORE_NODES or len(room.nodes) >= _MOST_NODES:
                break
            room = self._room = room._replace(nodes=np.empty((4 * len(room.nodes), 3), np.int64))
            asked.found[:], asked.certain[:] = _NO_NODE, False
        self._head[self.second[self.by_event[1][self.by_event[0][event] : self.by_event[0][event + 1]]]] = NONE
        return outcome


class _Choices:
    """The choices of a run, from the nodes of a walk."""

    def __init__(self, followed: Followed, nodes: Column, trips: Mapping[int, int]) -> None:
        self.text, self.nodes, self.trips = followed.text, nodes, trips
        walk = followed._walk
        assert walk is not None
        self.walk = walk
        self.steps = followed.text.steps
        self.path: dict[Choice, int] = {}
        self.agree = True
        self.cores: tuple[int, ...] = ()
        """Whose choices count most."""

    def found(self, first: int, second: int, node: int) -> dict[Choice, int]:
        """The choices with which one event happens, and then another as a node says."""
        taken = self._taken(node)
        self.cores = tuple(self.text.events.core[[first, second]].tolist())
        loops: Loops = []
        frame = int(self.walk.parent[self.walk.first_step[first]])
        while frame != NONE:
            if self.steps[frame, 0] == LOOP:
                loops.insert(0, (frame, 0))
            frame = int(self.walk.parent[frame])
        # A constant loop that ends is left after its last iteration, so the first event is in one before.
        left = self._turns_to_end(loops, taken)
        loops = [(step, max(self._trip(step) - left[step], 0) if step in left else 0) for step, _ in loops]
        needed = self._lead_to(first, loops)
        for step, value in taken:
            kind = self.steps[step, 0]
            if kind == FORK:
                begin, _, _, core = self.text.forks[self.steps[step, 1]].tolist()
                self._put(begin - 1, loops, core, value)
            elif kind == LOOP:
                loops.append((step, 0))
            elif kind == LATCH:
                loops[-1] = loops[-1][0], loops[-1][1] + 1
            elif kind == EXIT:
                last, turns = loops.pop()
                if self._trip(last) == NONE:
                    self._put(self._header(last), loops, self._core(last), turns)
        block = int(self.text.events.block[second])
        for at, (step, turn) in enumerate(loops):
            if self._trip(step) == NONE:
                header, least = self._header(step), needed.get((step, *loops[:at]), 0)
                self._put(header, loops[:at], self._core(step), max(turn + (block != header), least))
        return self.path

    def _lead_to(self, event: int, loops: Loops) -> dict[tuple[int | tuple[int, int], ...], int]:
        """Choose what leads to an event; how often each loop around has to run for it, by step and loops around."""
        structure = self.text.runs.flow.structure
        block, core = int(self.text.events.block[event]), int(self.text.events.core[event])
        depth = 0
        needed: dict[tuple[int | tuple[int, int], ...], int] = {}
        for number in structure.around(block):
            region = structure.regions[number]
            if isinstance(region, Arm):
                self._put(structure.forks[region.fork].block, loops[:depth], core, region.side)
            else:
                step, turn = loops[depth]
                needed[(step, *loops[:depth])] = turn + (block != region.header)
                depth += 1
        return needed

    def _turns_to_end(self, loops: Loops, taken: list[tuple[int, int]]) -> dict[int, int]:
        """Constant loops around the start that end -> the iterations to there."""
        left: dict[int, int] = {}
        turns = [0] * len(loops)
        inside = 0
        for step, _ in taken:
            kind = self.steps[step, 0]
            if kind == LOOP:
                inside += 1
            elif kind == LATCH and not inside:
                turns[-1] += 1
            elif kind == EXIT and inside:
                inside -= 1
            elif kind == EXIT:
                last = loops[len(turns) - 1][0]
                if self._trip(last) != NONE:
                    left[last] = turns[-1]
                turns.pop()
        return left

    def _put(self, block: int, loops: Loops, core: int, value: int) -> None:
        structure = self.text.runs.flow.structure
        fork = structure.fork_at.get(block) if block not in structure.loop_at else None
        alone = fork is not None and structure.forks[fork].divergent
        key = block, tuple(turn for _, turn in loops), core if alone else NONE
        if self.path.setdefault(key, value) != value:
            self.agree = False
            if core in self.cores:
                self.path[key] = value

    def _header(self, step: int) -> int:
        return int(self.text.loops[self.steps[step, 1], 0])

    def _core(self, step: int) -> int:
        return int(self.text.loops[self.steps[step, 1], 3])

    def _trip(self, step: int) -> int:
        """The iterations of a loop in the run; NONE: they are chosen."""
        trip = int(self.text.loops[self.steps[step, 1], 2])
        return trip if trip == NONE else self.trips.get(self._header(step), trip)

    def _taken(self, node: int) -> list[tuple[int, int]]:
        """The (step, value) of nodes up to one; iterations that were left out are there."""
        found: list[tuple[int, int]] = []
        pending: list[tuple[int, dict[int, int]]] = []
        while node >= 0:
            if pending and node in pending[-1][1]:
                turns, alias = pending.pop()
                if turns > 0:
                    pending.append((turns - 1, alias))
                    node = alias[node]
            before, step, value = self.nodes[node].tolist()
            if value <= STABLE:
                loop = int(self.walk.other[step])
                whole = int(self.text.loops[self.steps[loop, 1], 2])
                pending.append((STABLE - value - whole + self._trip(loop), self._aliases(node)))
            else:
                found.append((step, value))
            node = before
        return found[::-1]

    def _aliases(self, node: int) -> dict[int, int]:
        while self.nodes[node, 2] <= STABLE:
            node -= 1
        alias: dict[int, int] = {}
        while node >= 0 and self.nodes[node, 2] == ALIAS:
            alias[int(self.nodes[node, 1])] = int(self.nodes[node, 0])
            node -= 1
        return alias
