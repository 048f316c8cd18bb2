"""A text as columns for the kernel of `follow_kernel.py`: who knows of one access, a bit each.

Bits are for *rows*: the lines, the rows of semaphores (`counts.py`), and *registers*. What a producer knew is kept in
a register from there to its last reader; for a carried edge two are kept over the whole loop, of this iteration and
of the one before. Registers whose times do not meet share a bit. Times are places in the walk of the steps, where
each step has one more place at its end. A reader in a region that does not hold the producer may come once more, or
not at all, so its register is kept to the end of the outermost such region. After each step the bits of registers
that nobody reads any more are cleared: states that differ in those alone are one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped, join_ranges
from haulout.checker.flow.graph import Graph
from haulout.checker.flow.steps import ELSE, EVENTS, EXIT, FORK, JOIN, LATCH, LOOP, SPLIT
from haulout.checker.flow.text import Text
from haulout.checker.flow.waits import Edges, find_waits, scan_notes
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids, Ints

BITS = 62
"""Bits of a word."""
_MAX_WORDS = 256
_MAX_LIVE = 1 << 24
"""Words of all masks."""


class Walk(NamedTuple):
    """What the kernel needs of a text."""

    steps: Column
    schedule: Ids
    line: Ids
    kind: Ids
    """Of each event, as in `Graph`."""
    core_lines: Ids
    line_core: Ids
    meet_of: Ids
    meet_starts: Ints
    meet_lines: Ids
    part_starts: Ints
    part: Ids
    """Of each barrier: its events."""
    read_starts: Ints
    read: Ids
    """Event e waits for the bits `read[read_starts[e]:read_starts[e + 1]]`, ..."""
    write_starts: Ints
    write: Ids
    """... leaves what it knows in registers, ..."""
    unit_starts: Ints
    unit: Ids
    unit_from: Ids
    """... and in rows of semaphores; some take what another row knows."""
    edge_starts: Ints
    edge_this: Ids
    edge_last: Ids
    """Of each loop of the steps: the registers of its carried edges."""
    loops: Column
    other: Ids
    """FORK -> its ELSE; LOOP -> its LATCH; LATCH -> its LOOP."""
    close: Ids
    """FORK -> its JOIN; LOOP -> its EXIT."""
    parent: Ids
    """Of each step: the FORK or LOOP around it, NONE."""
    live: Column
    """int64 [step, word]: the bits that are read after the step."""
    full: Ints
    """int64 [word]: the lines."""
    first_step: Ids
    """Of each event: the first step that has it; NONE: it never runs."""
    last_step: Ids
    first_place: Ints
    """Of each event: its place in the schedule."""
    depth: int
    """How many forks and loops are around a step at most."""


def find_walk(text: Text, graph: Graph) -> Walk | None:
    """The columns; None: they would take too much memory, arms are walked in parts, or barriers use semaphores."""
    reads, writes = np.diff(graph.read_starts), np.diff(graph.write_starts)
    if (text.steps[:, 0] == SPLIT).any() or (reads + writes)[graph.kind == 1].any():
        return None
    frames = _Frames(text)
    steps, events = text.steps, text.events
    count, lines = len(events.line), len(graph.line_core)
    size = np.where(steps[:, 0] == EVENTS, steps[:, 2] - steps[:, 1], 0).astype(np.int64)
    end = np.cumsum(size + 1) - 1
    begin = end - size
    owner = np.repeat(np.arange(len(steps)), size)
    listed = join_ranges(np.where(steps[:, 0] == EVENTS, steps[:, 1], 0), size)
    walked = text.schedule[listed]
    place = begin[owner] + np.arange(len(walked)) - (np.cumsum(size) - size)[owner]
    first_step, last_step = np.full(count, NONE, np.int32), np.full(count, NONE, np.int32)
    first_time, last_time = np.zeros(count, np.int64), np.zeros(count, np.int64)
    last_step[walked], last_time[walked] = owner, place
    first_step[walked[::-1]], first_time[walked[::-1]] = owner[::-1], place[::-1]
    # Plain waits: a register for each producer.
    producer, consumer = find_waits(text)
    runs = (first_step[producer] != NONE) & (first_step[consumer] != NONE)
    producer, consumer = producer[runs], consumer[runs]
    until = last_time[consumer]
    region = frames.region
    stride = np.int64(frames.regions + 1)
    keys, which = np.unique(
        (region[first_step[producer]] + 1) * stride + region[last_step[consumer]] + 1, return_inverse=True
    )
    sides = zip((keys // stride - 1).tolist(), (keys % stride - 1).tolist(), strict=True)
    closed = np.array([frames.close_between(*side) for side in sides], np.int64)[which]
    until = np.where(closed != NONE, end[closed], until)
    names, of = np.unique(producer, return_inverse=True)
    needed = np.zeros(len(names), np.int64)
    np.maximum.at(needed, of, until)
    # Carried edges: two registers each, for the whole loop.
    edges = Edges(text)
    loop_step = np.zeros(len(text.loops) + 1, np.int64)
    at = np.flatnonzero(steps[:, 0] == LOOP)
    loop_step[steps[at, 1]] = at
    opened, shut = begin[loop_step[edges.loop]], end[frames.close[loop_step[edges.loop]]]
    from_time = np.concatenate([first_time[names], opened, opened])
    to_time = np.concatenate([needed, shut, shut])
    held = np.concatenate([np.maximum(needed, last_time[names]), shut, shut])
    number, registers = scan_notes(from_time, held)
    base = len(graph.row_core)
    bit = (base + number).astype(np.int32)
    words = (base + registers + BITS - 1) // BITS
    if words > _MAX_WORDS or words * len(steps) > _MAX_LIVE:
        return None
    note = bit[: len(names)]
    this, last = bit[len(names) : len(names) + len(edges.loop)], bit[len(names) + len(edges.loop) :]
    live = np.zeros((len(steps), words), np.int64)
    for row in range(lines):
        live[:, row // BITS] |= np.int64(1 << row % BITS)
    full = live[0].copy()
    _keep_units(graph, frames, region, last_step, live, lines)
    low, high = np.searchsorted(end, from_time), np.searchsorted(end, to_time)
    crossing = np.flatnonzero(low < high)
    for row, one, other in zip(*(each[crossing].tolist() for each in (bit, low, high)), strict=True):
        live[one:other, row // BITS] |= np.int64(1 << row % BITS)
    reader = np.repeat(np.arange(count), np.diff(graph.read_starts))
    read_starts, order = grouped(np.concatenate([consumer, edges.consumer, reader]), count)
    read = np.concatenate([note[of], last[edges.number], graph.read])[order].astype(np.int32)
    write_starts, order = grouped(np.concatenate([names, edges.producer]), count)
    edge_starts, by_loop = grouped(edges.loop, len(text.loops))
    part_starts, part = _parts(text, graph)
    return Walk(
        steps=steps,
        schedule=text.schedule,
        line=events.line,
        kind=graph.kind,
        core_lines=graph.core_lines,
        line_core=graph.line_core,
        meet_of=graph.meet_of,
        meet_starts=graph.meet_starts,
        meet_lines=graph.meet_lines,
        part_starts=part_starts,
        part=part,
        read_starts=read_starts,
        read=read,
        write_starts=write_starts,
        write=np.concatenate([note, this])[order].astype(np.int32),
        unit_starts=graph.write_starts,
        unit=graph.write,
        unit_from=graph.write_from,
        edge_starts=edge_starts,
        edge_this=this[by_loop],
        edge_last=last[by_loop],
        loops=text.loops,
        other=frames.other,
        close=frames.close,
        parent=frames.parent,
        live=live,
        full=full,
        first_step=first_step,
        last_step=last_step,
        first_place=np.argsort(text.schedule, kind="stable"),
        depth=frames.depth,
    )


def _parts(text: Text, graph: Graph) -> tuple[Ints, Ids]:
    """The events of each barrier, as `graph` numbers them."""
    barriers = text.barriers
    key = barriers.chain.astype(np.int64) * (len(barriers.index) + 1) + barriers.index
    _, number = np.unique(key, return_inverse=True)
    starts, order = grouped(number, len(graph.meet_starts) - 1)
    return starts, text.events.first[barriers.instruction][order].astype(np.int32)


def _keep_units(graph: Graph, frames: _Frames, region: Ids, last_step: Ids, live: Column, lines: int) -> None:
    """Rows of semaphores are kept to the end of the outermost region with a reader, those that hand over together."""
    rows = len(graph.row_core)
    group = np.arange(rows)
    handed = np.flatnonzero(graph.write_from >= lines)
    while True:  # a group has the smallest number of its rows
        before = group.copy()
        np.minimum.at(group, graph.write[handed], before[graph.write_from[handed]])
        np.minimum.at(group, graph.write_from[handed], before[graph.write[handed]])
        if np.array_equal(group, before):
            break
    reader = np.repeat(np.arange(len(graph.line)), np.diff(graph.read_starts))
    kept = np.full(rows, NONE, np.int64)
    step = last_step[reader].astype(np.int64)
    outer = np.array([frames.close_between(NONE, each) for each in range(frames.regions)] + [NONE], np.int64)
    np.maximum.at(kept, group[graph.read], np.maximum(step, outer[region[step]]))
    for row in range(lines, rows):
        live[: kept[group[row]] + 1, row // BITS] |= np.int64(1 << row % BITS)


class _Frames:
    """Forks and loops of the steps, as they nest; the regions are arms, and loops with their headers."""

    def __init__(self, text: Text) -> None:
        count = len(text.steps)
        self.other, self.close = np.full(count, NONE, np.int32), np.full(count, NONE, np.int32)
        self.parent = np.full(count, NONE, np.int32)
        self.region = np.full(count, NONE, np.int32)
        self.above: list[int] = []
        """Of each region: the one around it, NONE."""
        self.shut: list[int] = []
        """Of each region: the step that ends its fork or loop."""
        self.last: list[int] = []
        """Of each region: the last one inside, or itself; they are numbered from outer to inner."""
        self.depth = 0
        stack: list[int] = []
        inside = [NONE]
        of_frame: dict[int, list[int]] = {}
        for at, (kind, *_) in enumerate(text.steps.tolist()):
            if kind in (JOIN, EXIT):
                frame = stack.pop()
                self.close[frame] = at
                for number in of_frame[frame]:
                    self.shut[number] = at
                self._leave(inside)
            elif kind == ELSE:
                self._leave(inside)
                self._enter(of_frame[stack[-1]], inside)
                self.other[stack[-1]] = at
            self.parent[at] = stack[-1] if stack else NONE
            self.region[at] = inside[-1]
            if kind == LATCH:
                self.other[stack[-1]], self.other[at] = at, stack[-1]
            if kind in (FORK, LOOP):
                stack.append(at)
                of_frame[at] = []
                self._enter(of_frame[at], inside)
                self.depth = max(self.depth, len(stack))
        self.regions = len(self.above)

    def _enter(self, mine: list[int], inside: list[int]) -> None:
        mine.append(len(self.above))
        self.above.append(inside[-1])
        self.shut.append(NONE)
        self.last.append(NONE)
        inside.append(mine[-1])

    def _leave(self, inside: list[int]) -> None:
        self.last[inside.pop()] = len(self.above) - 1

    def close_between(self, first: int, second: int) -> int:
        """The end of the outermost region that has a step of one region and none of another; NONE: there is none."""
        found = NONE
        while second != NONE and not second <= first <= self.last[second]:
            found, second = self.shut[second], self.above[second]
        return found
