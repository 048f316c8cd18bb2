"""The scan of `makespan.py`: clocks of all engines, advanced instruction by instruction, core by core.

A core runs until it reaches a rendezvous that other cores have not reached. Its next step is (block, stage, row): the
start of the block, its instructions, its end. Branches and loops save the state of a core on its stack: clocks, busy
times and waited time, in one row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.durations import F64
from haulout.ir.enums import LINES, Engine
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.support.jit import njit

ALL = int(Engine.ALL)
BUSY = LINES
WAITED = 2 * LINES
STATE = 2 * LINES + 1
"""A core's state: clocks of its engines, their busy times, the time it waited."""


class Columns(NamedTuple):
    """A program for the scan: instructions, then blocks, then loops."""

    duration: F64
    engine: Bytes
    movable: Bools
    """Whether an instruction takes the first free one of the `queues` instead of its engine."""
    queues: Ids
    dep_start: Ints
    producer: Ids
    first_block: Ints
    """Of each core, and the end."""
    first_row: Ints
    """Of each block, and the end."""
    group: Ids
    """The barrier group of each instruction; fences have the smallest numbers."""
    group_size: Ids
    group_cost: F64
    meeting: Bools
    to: Ids
    source: Ids
    sendrecv_cost: float
    branch_cost: float
    decides: Bools
    """Whether an instruction writes the condition of its block."""
    branches: Bools
    """Whether a block ends in a branch."""
    joins: Bools
    swaps: Bools
    """Whether a block begins the second arm."""
    forks: Bools
    opens: Ids
    """The loop whose header a block is."""
    closes: Ids
    """The loop whose latch a block is."""
    trip: F64
    depth: int
    fences: int


class Results(NamedTuple):
    """The results of the scan, [core, ...]; given fences come after those of the program."""

    end: F64
    busy: F64
    waited: F64
    arrival: F64
    done: F64
    finish: F64
    """Of each instruction; inside a loop, in the first iteration."""
    engine: Bytes
    """Of each instruction the one that it took."""
    arrived: F64
    """Of each barrier and `sendrecv`: when its line comes to it; inside a loop, in the first iteration."""
    began: F64
    """Of each loop: when all cores enter it ..."""
    ended: F64
    """... and when the last one has left it, after all its iterations."""


@njit
def _first_free(clocks: F64, queues: Ids, ready: float) -> int:
    """The queue with the earliest start for what is ready at a time; of several, the one that is free last."""
    best = queues[0]
    for queue in queues[1:]:
        free, least = clocks[queue], clocks[best]
        if max(free, ready) < max(least, ready) or (least < free <= ready):
            best = queue
    return int(best)


@njit
def _scan_makespan(x: Columns, extra: Ids, extra_cost: float) -> Results:
    """Clocks from 0 to the end of every core; `extra`: rows before which fences are assumed, [fence, core]."""
    cores, rows, own = len(x.first_block) - 1, len(x.duration), len(x.group_size)
    loops = len(x.trip)
    # Meetings of all: barriers, then the fences given, then the entries and the ends of loops.
    meets = own + len(extra) + 2 * loops
    there, last = np.zeros(meets, np.int64), np.zeros(meets)
    arrival = np.zeros((x.fences + len(extra), cores))
    done = np.zeros(x.fences + len(extra))
    finish = np.full(rows, -1.0)
    line = x.engine.copy()
    arrived = np.full(rows, -1.0)
    state = np.zeros((cores, STATE))
    stack = np.zeros((cores, x.depth + 1, STATE))
    level = np.zeros(cores, np.int64)
    decided = np.zeros(cores)
    header = np.zeros((cores, loops))
    began, ended = np.zeros(loops), np.zeros(loops)
    block, row, stage = np.zeros(cores, np.int64), np.zeros(cores, np.int64), np.zeros(cores, np.int64)
    given = np.zeros(cores, np.int64)
    waits = np.zeros(cores, np.bool_)
    for core in range(cores):
        block[core] = x.first_block[core]
        row[core] = x.first_row[block[core]]
    forced = -1
    running = True
    while running:
        running = moved = False
        for core in range(cores):
            mine, saved = state[core], stack[core]
            while block[core] < x.first_block[core + 1]:
                b = block[core]
                if stage[core] == 0:  # what opens a block
                    if x.joins[b]:
                        level[core] -= 1
                        for k in range(STATE):
                            mine[k] = max(mine[k], saved[level[core], k])
                    if x.swaps[b]:
                        for k in range(STATE):
                            mine[k], saved[level[core] - 1, k] = saved[level[core] - 1, k], mine[k]
                    if x.opens[b] >= 0:
                        stage[core] = 1
                    else:
                        stage[core] = 2
                    decided[core] = 0.0
                    moved = True
                    continue
                if stage[core] == 1 or stage[core] == 4:  # all cores enter a loop, or end it
                    loop = x.opens[b] if stage[core] == 1 else x.closes[b]
                    meet = own + len(extra) + 2 * loop + (0 if stage[core] == 1 else 1)
                    now = mine[:LINES].max()
                    if not waits[core]:
                        waits[core] = moved = True
                        there[meet] += 1
                        last[meet] = max(last[meet], now)
                    if there[meet] < cores and forced != core:
                        break
                    waits[core] = False
                    moved = True
                    forced = -1
                    if stage[core] == 1:
                        began[loop] = last[meet]
                        mine[:LINES] = last[meet]
                        saved[level[core]] = mine
                        level[core] += 1
                        stage[core] = 2
                    else:
                        level[core] -= 1
                        trip = x.trip[loop]
                        length = last[meet] - began[loop]
                        for k in range(LINES, STATE):
                            start = saved[level[core], k]
                            mine[k] = start + trip * (mine[k] - start)
                        mine[:LINES] = began[loop] + trip * length + header[core, loop]
                        ended[loop] = max(ended[loop], mine[0])
                        stage[core] = 5
                    continue
                if stage[core] == 2:  # instructions
                    at = row[core]
                    fence = given[core] < len(extra) and extra[given[core], core] <= at
                    final = at >= x.first_row[b + 1]
                    # A fence behind the core's last row belongs to its last block.
                    if final and not (fence and b + 1 == x.first_block[core + 1]):
                        stage[core] = 3
                        continue
                    if fence:
                        meet, size, cost = own + given[core], cores, extra_cost
                        engine = ALL
                        start = 0.0
                    else:
                        meet = x.group[at]
                        engine = line[at]
                        size, cost = (x.group_size[meet], x.group_cost[meet]) if meet >= 0 else (0, 0.0)
                        start = 0.0
                        for d in range(x.dep_start[at], x.dep_start[at + 1]):
                            start = max(start, finish[x.producer[d]])
                        if x.movable[at]:
                            engine = line[at] = _first_free(mine, x.queues, start)
                        start = max(start, mine[engine])
                    if fence or engine == ALL:
                        start = max(start, mine[:LINES].max())
                    if meet >= 0:
                        if not waits[core]:
                            waits[core] = moved = True
                            there[meet] += 1
                            last[meet] = max(last[meet], start)
                            if not fence:
                                arrived[at] = start
                        if there[meet] < size and forced != core:
                            break
                        end = last[meet] + cost
                        number = meet if not fence else x.fences + given[core]
                        if fence or meet < x.fences:
                            arrival[number, core], done[number] = start, end
                        mine[WAITED] += end - start
                    elif x.meeting[at]:
                        if not waits[core]:
                            waits[core] = moved = True
                            arrived[at] = start
                        end = start
                        missing = False
                        for other in (x.to[at], x.source[at]):
                            if other >= 0:
                                missing |= arrived[other] < 0.0
                                end = max(end, arrived[other])
                        if missing and forced != core:
                            break
                        end += x.sendrecv_cost
                        mine[WAITED] += end - start
                    else:
                        end = start + x.duration[at]
                        mine[BUSY + engine] += x.duration[at]
                    if waits[core]:
                        waits[core] = False
                        forced = -1
                    moved = True
                    if fence or engine == ALL:
                        mine[:LINES] = end
                    else:
                        mine[engine] = end
                    if fence:
                        given[core] += 1
                        continue
                    finish[at] = end
                    if x.decides[at]:
                        decided[core] = max(decided[core], end)
                    row[core] += 1
                    continue
                if stage[core] == 3:  # what closes a block
                    if x.branches[b]:
                        for k in range(LINES):
                            mine[k] = max(mine[k], decided[core] + x.branch_cost)
                    if x.forks[b]:
                        saved[level[core]] = mine
                        level[core] += 1
                    if x.opens[b] >= 0:
                        header[core, x.opens[b]] = mine[:LINES].max() - began[x.opens[b]]
                    stage[core] = 4 if x.closes[b] >= 0 else 5
                    continue
                block[core] += 1
                stage[core] = 0
                moved = True
            if block[core] < x.first_block[core + 1]:
                running = True
        if running and not moved:
            # All cores wait: release the first one.
            for core in range(cores - 1, -1, -1):
                if waits[core]:
                    forced = core
    end_of = np.zeros(cores)
    for core in range(cores):
        end_of[core] = state[core, :LINES].max()
    busy, waited = state[:, BUSY:WAITED].copy(), state[:, WAITED].copy()
    return Results(end_of, busy, waited, arrival, done, finish, line, arrived, began, ended)
