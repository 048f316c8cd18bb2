"""Whether what a text orders agrees with the source's order: `seq`, or the times of another program.

Blocks share a time axis, a *stretch*, when they are in the same iteration of the same loop and a path leads from one
to the other without running a loop in between: time is (iterations, `seq`), and what a loop separates is apart. In
every run the first of two ordered accesses of an iteration comes first in the schedule of the text. So order agrees
with the source when

    lists    times do not fall along the list of a core, on no path within a stretch
    pairs    of two conflicting accesses of a stretch the one that the schedule has first has the smaller time

Equal times of two instructions that conflict are an order of nothing. Accesses of two locations on the same bytes are
not compared: whose bytes a read finds is for `held.py`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.flow.graph import Open, Queries
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text, ever_runs
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids, Ints
from haulout.ir.structure import Arm, Fork, Loop, Structure

_MAX_PAIRS = 1 << 14
_MAX_WORK = 1 << 24
"""Earlier accesses that are looked at for pairs in the wrong order."""


def seq_of(text: Text) -> Ints:
    """The `seq` of each event; NONE: it has none, or never runs."""
    seq = text.model.program.instructions.seq[text.model.rows][text.events.instruction]
    live = ever_runs(text.runs.flow.structure)[text.events.block]
    return np.where(live, seq, NONE).astype(np.int64)


def falling_list(text: Text, time: Ints) -> Refusal | None:
    """Where times fall along the list of a core on some path within a stretch."""
    structure, events = text.runs.flow.structure, text.events
    cores, blocks = text.model.cores, len(structure.region_of)
    timed = np.flatnonzero(time != NONE)
    at, when = events.core[timed].astype(np.int64) * blocks + events.block[timed], time[timed]
    falls = np.flatnonzero((at[1:] == at[:-1]) & (when[1:] < when[:-1]))
    if len(falls):
        return _falls(text, int(timed[falls[0] + 1]))
    first, last = np.full(cores * blocks, NONE, np.int64), np.full(cores * blocks, NONE, np.int64)
    begins = np.flatnonzero(np.append(True, at[1:] != at[:-1])[: len(at)])
    first[at[begins]], last[at[begins]] = when[begins], when[np.append(begins[1:], len(at))[: len(begins)] - 1]
    walk = _Lists(structure, first.reshape(cores, blocks), last.reshape(cores, blocks))
    walk.sequence(range(blocks), np.full(cores, NONE, np.int64))
    if walk.wrong is None:
        return None
    wrong = timed[(events.block[timed] == walk.wrong[1]) & (events.core[timed] == walk.wrong[0])]
    return _falls(text, int(wrong[0]))


def _falls(text: Text, event: int) -> Refusal:
    assert text.model.unrolled is not None
    instruction = int(text.events.instruction[event])
    row = int(text.model.unrolled.origin[text.model.rows[instruction]])
    message = f"seq falls at {text.model.name(instruction)} on core {text.model.core[instruction]}"
    return Refusal(message, int(text.events.block[event]), row)


class _Lists:
    """The latest time of each core on any path of a stretch, block by block."""

    def __init__(self, structure: Structure, first: Column, last: Column) -> None:
        self.structure, self.first, self.last = structure, first, last
        self.wrong: tuple[int, int] | None = None
        """The core and the block where a time falls."""

    def sequence(self, blocks: range, state: Ints) -> Ints:
        """The state behind some blocks of one region."""
        nothing = np.full(len(state), NONE, np.int64)
        for item in self.structure.items(blocks.start, blocks.stop):
            if isinstance(item, Loop):
                self.sequence(item.body, self._block(item.header, nothing))
                state = nothing
            elif isinstance(item, Fork):
                state = np.maximum(*(self.sequence(side, state) for side in item.sides))
            else:
                state = self._block(item, state)
        return state

    def _block(self, block: int, state: Ints) -> Ints:
        first, last = self.first[:, block], self.last[:, block]
        falls = np.flatnonzero((first != NONE) & (first < state))
        if len(falls) and self.wrong is None:
            self.wrong = int(falls[0]), block
        return np.where(last != NONE, last, state)


class Stretches:
    """Which blocks may be in one stretch."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._before = [0] * len(structure.region_of)
        """Of each block: how many loops, and forks with a loop on either way, come before it in its region."""
        self._inside = [0] * len(structure.regions)
        """The same number of each arm as a whole."""
        self._known: dict[tuple[int, int, bool], bool] = {}
        self._sequence(range(len(structure.region_of)))

    def _sequence(self, blocks: range) -> int:
        count = 0
        for item in self.structure.items(blocks.start, blocks.stop):
            if isinstance(item, Loop):
                self._before[item.header] = 0
                self._sequence(item.body)
                count += 1
            elif isinstance(item, Fork):
                sides = [self._sequence(side) for side in item.sides]
                for arm, inside in zip(item.arms, sides, strict=False):
                    self._inside[arm] = inside
                count += min(sides) > 0
            else:
                self._before[item] = count
        return count

    def apart(self, first: int, second: int, same_core: bool) -> bool:
        """Whether two blocks are never in one stretch, as they run on one core or on two."""
        key = min(first, second), max(first, second), same_core
        if key not in self._known:
            fork = self.structure.separating_fork(*key[:2])
            if fork != NONE:
                self._known[key] = same_core or not self.structure.forks[fork].divergent
            else:
                self._known[key] = not self._shared(*key[:2])
        return self._known[key]

    def _shared(self, first: int, second: int) -> bool:
        """Whether a path leads from one block to a later one, or it is the same, without running a loop."""
        structure = self.structure
        if structure.loops_around(first) != structure.loops_around(second):
            return False
        common = structure.common_region(first, second)
        at, to = first, second
        while (number := structure.region_of[at]) != common:  # leave the arms of the first
            arm = structure.regions[number]
            assert isinstance(arm, Arm)
            if self._inside[number] > self._before[at]:
                return False
            at = structure.forks[arm.fork].join
        while (number := structure.region_of[to]) != common:  # enter those of the second
            arm = structure.regions[number]
            assert isinstance(arm, Arm)
            if self._before[to]:
                return False
            to = structure.forks[arm.fork].block
        return self._before[at] == self._before[to]

    @cached_property
    def loop(self) -> Ids:
        """The innermost loop around each block, NONE: there is none."""
        around = [self.structure.loops_around(block) for block in range(len(self.structure.region_of))]
        return np.array([each[-1] if each else NONE for each in around], np.int32)


def misordered(text: Text, touches: Touches, queries: Queries, time: Ints) -> Open | Refusal:
    """Pairs of accesses of a stretch that may conflict and that the schedule has in another order than `time`, a
    time of each event.
    """
    structure, events, model, event = text.runs.flow.structure, text.events, touches.model, touches.event
    stretches = Stretches(structure)
    count = len(event)
    access = np.repeat(np.arange(count), np.diff(queries.key_starts[: count + 1]))
    key = queries.key[: len(access)].astype(np.int64)
    # Only what several events touch, one of them writing.
    keys = int(key.max(initial=0)) + 1
    write = model.write[access]
    timed = time[event[access]] != NONE
    several = np.bincount(key[timed], minlength=keys) > 1
    kept = np.flatnonzero(timed & (several & (np.bincount(key[timed & write], minlength=keys) > 0))[key])
    access, key = access[kept], key[kept]
    place = np.empty(len(events.line), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    owner, loop = model.owners()[model.location[access]], stretches.loop[events.block[event[access]]]
    packed = (key * len(model.program.locations) + owner) * (len(structure.regions) + 1) + loop + 1
    order = np.lexsort((place[event[access]], packed))
    access, packed = access[order], packed[order]
    new = np.append(True, packed[1:] != packed[:-1])[: len(packed)]
    group = np.cumsum(new) - 1
    instruction, write = model.instruction[access], model.write[access]
    _, rank = np.unique(time[event[access]], return_inverse=True)
    rank = rank.ravel()
    # The latest time of a write, and of any access, before this instruction among those of its group.
    begin = np.flatnonzero(new)[group]
    another = new | np.append(True, instruction[1:] != instruction[:-1])[: len(group)]
    until = np.flatnonzero(another)[np.cumsum(another) - 1]
    span = int(rank.max(initial=0)) + 2

    def latest(some: Column) -> Column:
        found = np.maximum.accumulate(group * span + np.where(some, rank + 1, 0))
        return np.where(until > begin, np.append(0, found)[until] - group * span - 1, -1)

    before = np.where(write, latest(np.ones(len(rank), bool)), latest(write))
    wrong = np.flatnonzero(before >= rank)
    if int((until - begin)[wrong].sum()) > _MAX_WORK:
        return Refusal("too many accesses have a seq against the order of the text")
    one = join_ranges(begin[wrong], (until - begin)[wrong])
    other = np.repeat(wrong, (until - begin)[wrong])
    bad = (rank[one] >= rank[other]) & (write[one] | write[other]) & (instruction[one] != instruction[other])
    pairs = np.unique(np.stack([access[one[bad]], access[other[bad]]]), axis=1)
    blocks = events.block[event[pairs]]
    same = events.core[event[pairs[0]]] == events.core[event[pairs[1]]]
    apart = [stretches.apart(*each) for each in zip(*blocks.tolist(), same.tolist(), strict=True)]
    pairs = pairs[:, ~np.array(apart, bool)].astype(np.int32)
    if pairs.shape[1] > _MAX_PAIRS:
        return Refusal("too many accesses have a seq against the order of the text")
    depth = np.array([len(structure.loops_around(block)) for block in range(len(structure.region_of))], np.int32)
    level = depth[events.block[event[pairs[0]]]]
    return Open(pairs.shape[1], pairs[0], pairs[1], level, np.zeros(pairs.shape[1], np.int32), 0)
