"""The walk of `follow.py`: from one access on, the sets of rows that know of it.

A *state* is a row of a table: words of bits, the *node* that says how it came about, and whether it is certain. Every
state becomes others on its own, so it is enough to go on with those that are new. The states of a point lie together
in the pool, those of forks and loops around below them:

    FORK    [states before][states of one arm ...
    ELSE    [states before][states behind one arm][states of the other arm ...
    LOOP    [states before][states of an iteration ...

A loop of unknown trip count keeps the states in which an iteration began (`back`), and a new one has to be new to all
of them. Of a constant one all iterations are walked, until one begins in just the states of the one before: then all
further ones do, and aliases say which state stands for which. Nodes form a tree: a choice of an arm, the start of a
loop, a next iteration, the end of a loop, each a row (node before, step, value).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.flow.follow_columns import Walk
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

LEVEL, LAG, NODES, WORK, STAMP, LEFT, STOP, OUTCOME = range(8)
"""Columns of `Room.now`."""
DONE, MORE_NODES, TOO_LONG = range(3)
"""Outcomes."""
ALIAS, STABLE = -2, -3
"""Values of nodes at a LATCH: the node before stands for this one, in the iteration before; and less than `STABLE`
by the number of iterations that are left out."""


class Room(NamedTuple):
    """What the walk writes."""

    pool: Column
    out: Column
    seen: Column
    back: Column
    """Of each loop: up to `most` states."""
    back_count: Ints
    back_stamp: Ints
    frames: Column
    """int64 [depth, 4]: the step, first state and end of those before, iterations."""
    nodes: Column
    """int64 [node, 3]."""
    now: Ints
    most: int


class Asked(NamedTuple):
    """The second accesses of the pairs of one first one, and what is found."""

    head: Ids
    """Of each event: its first pair, -1 ..."""
    following: Ids
    """... and of each pair the next one of its event, -1."""
    level: Ids
    lag: Ids
    found: Ints
    """Of each pair: a node at which it is not ordered, -2: none; the start has -1."""
    certain: Bools


@njit
def _knows(table: Column, row: int, bit: int) -> bool:
    return bool((table[row, bit // 62] >> (bit % 62)) & 1)


@njit
def _assign(table: Column, row: int, bit: int, value: bool) -> None:
    mask = np.int64(1) << np.int64(bit % 62)
    if value:
        table[row, bit // 62] |= mask
    else:
        table[row, bit // 62] &= ~mask


@njit
def _copy(target: Column, i: int, source: Column, j: int) -> None:
    for k in range(target.shape[1]):
        target[i, k] = source[j, k]


@njit
def _append(target: Column, end: int, source: Column, low: int, high: int) -> int:
    """Copy rows to the end of a table. Returns the new end."""
    for row in range(low, high):
        _copy(target, end + row - low, source, row)
    return end + high - low


@njit
def _below(one: Column, i: int, other: Column, j: int, words: int) -> bool:
    """Whether all that know in one state do in another."""
    missing = 0
    for k in range(words):
        missing |= one[i, k] & ~other[j, k]
    return missing == 0


@njit
def _is_full(full: Ints, table: Column, row: int) -> bool:
    missing = 0
    for k in range(len(full)):
        missing |= full[k] & ~table[row, k]
    return missing == 0


@njit
def _keep(live: Column, table: Column, low: int, high: int, step: int) -> None:
    """Clear what is not read after a step."""
    for row in range(low, high):
        for k in range(live.shape[1]):
            table[row, k] &= live[step, k]


@njit
def _least(table: Column, low: int, high: int, words: int, most: int) -> int:
    """Keep the least states; what they have in common when they are too many. Returns the new end."""
    kept = low
    for row in range(low, high):
        covered = False
        for k in range(low, kept):
            if _below(table, k, table, row, words):
                covered = True
                if table[row, words + 1] and not table[k, words + 1] and _below(table, row, table, k, words):
                    _copy(table, k, table, row)
                break
        if covered:
            continue
        end = low
        for k in range(low, kept):
            if not _below(table, row, table, k, words):
                _copy(table, end, table, k)
                end += 1
        _copy(table, end, table, row)
        kept = end + 1
    if kept - low > most:
        for row in range(low + 1, kept):
            for k in range(words):
                table[low, k] &= table[row, k]
        table[low, words + 1] = 0
        kept = low + 1
    return kept


@njit
def _gain(
    table: Column, base: int, count: int, pool: Column, low: int, high: int, words: int, most: int
) -> tuple[int, int]:
    """Add states of the pool to a table and keep the new ones in the pool. Returns the size of the table, and the
    end in the pool."""
    kept = low
    for row in range(low, high):
        covered = False
        for k in range(base, base + count):
            if _below(table, k, pool, row, words):
                covered = True
                break
        if covered:
            continue
        end = base
        for k in range(base, base + count):
            if not _below(pool, row, table, k, words):
                _copy(table, end, table, k)
                end += 1
        count = end - base
        if count < most:
            _copy(table, base + count, pool, row)
            count += 1
            _copy(pool, kept, pool, row)
            kept += 1
            continue
        for k in range(words):
            for other in range(base + 1, base + count):
                table[base, k] &= table[other, k]
            table[base, k] &= pool[row, k]
        table[base, words + 1] = 0
        count = 1
        _copy(pool, low, table, base)
        kept = low + 1
    return count, kept


@njit
def _note(nodes: Column, now: Ints, pool: Column, low: int, high: int, words: int, step: int, value: int) -> bool:
    """A node more for some states; False: there are too many."""
    count = now[NODES]
    if count + high - low > len(nodes):
        now[OUTCOME] = MORE_NODES
        return False
    for row in range(low, high):
        nodes[count, 0] = pool[row, words]
        nodes[count, 1] = step
        nodes[count, 2] = value
        pool[row, words] = count
        count += 1
    now[NODES] = count
    return True


@njit
def _turn(walk: Walk, loop: int, pool: Column, low: int, high: int) -> None:
    """An iteration follows: what ran in this one ran in the one before."""
    for row in range(low, high):
        for k in range(walk.edge_starts[loop], walk.edge_starts[loop + 1]):
            _assign(pool, row, int(walk.edge_last[k]), _knows(pool, row, int(walk.edge_this[k])))
            _assign(pool, row, int(walk.edge_this[k]), False)


@njit
def _run(walk: Walk, room: Room, asked: Asked, begin: int, end: int, place: int, low: int, high: int) -> int:
    """Walk some steps with all that is inside, the first of them from a place of the schedule on, -1: from its
    start. Returns the end of the states behind, -1: it failed.
    """
    pool, nodes, now, frames, most = room.pool, room.nodes, room.now, room.frames, room.most
    back, back_count, back_stamp = room.back, room.back_count, room.back_stamp
    steps, loops, closes, others = walk.steps, walk.loops, walk.close, walk.other
    live, full, words = walk.live, walk.full, walk.live.shape[1]
    schedule, lines, kinds, meets = walk.schedule, walk.line, walk.kind, walk.meet_of
    core_lines, line_core = walk.core_lines, walk.line_core
    read_starts, read, write_starts, write = walk.read_starts, walk.read, walk.write_starts, walk.write
    unit_starts, unit, unit_from = walk.unit_starts, walk.unit, walk.unit_from
    meet_starts, meet_lines, part_starts, part = walk.meet_starts, walk.meet_lines, walk.part_starts, walk.part
    head, following, found, certain = asked.head, asked.following, asked.found, asked.certain
    at, depth = begin, 0
    while True:
        if low == high:
            if depth == 0:
                return high
            top = frames[depth - 1, 0]
            at = int(others[top]) if at <= others[top] else int(closes[top])
        elif depth == 0 and (at >= end or at > now[STOP]):
            return high if at >= end else low
        if now[LEFT] == 0:
            return low
        if now[WORK] < 0:
            now[OUTCOME] = TOO_LONG
            return -1
        what, number = steps[at, 0], int(steps[at, 1])
        if what == 0:
            for spot in range(number if place < 0 else place, steps[at, 2]):
                event = schedule[spot]
                line, kind, meet, pair = int(lines[event]), kinds[event], meets[event], head[event]
                now[WORK] -= high - low
                row = low
                while row < high:
                    before = know = _knows(pool, row, line)
                    if not know:
                        for k in range(read_starts[event], read_starts[event + 1]):
                            if _knows(pool, row, int(read[k])):
                                know = True
                                break
                    changed = know and not before
                    if changed:
                        _assign(pool, row, line, True)
                    if pair >= 0 and not know:
                        look = pair
                        while look >= 0:
                            here = asked.level[look] == now[LEVEL] and asked.lag[look] == now[LAG]
                            if here and not certain[look]:
                                if pool[row, words + 1]:
                                    found[look] = pool[row, words]
                                    certain[look] = True
                                    now[LEFT] -= 1
                                elif found[look] == -2:
                                    found[look] = pool[row, words]
                            look = following[look]
                    if kind == 2 and know:
                        changed = True
                        core = line_core[line]
                        for other in range(core_lines[core], core_lines[core + 1]):
                            _assign(pool, row, int(other), True)
                    if kind != 1:
                        for k in range(unit_starts[event], unit_starts[event + 1]):
                            told = know
                            if unit_from[k] >= 0:
                                told = _knows(pool, row, int(unit_from[k]))
                            _assign(pool, row, int(unit[k]), told)
                        for k in range(write_starts[event], write_starts[event + 1]):
                            _assign(pool, row, int(write[k]), know)
                    elif meet >= 0:
                        told = False
                        for k in range(meet_starts[meet], meet_starts[meet + 1]):
                            told = told or _knows(pool, row, int(meet_lines[k]))
                        if told:
                            changed = True
                            for k in range(meet_starts[meet], meet_starts[meet + 1]):
                                _assign(pool, row, int(meet_lines[k]), True)
                        for k in range(part_starts[meet], part_starts[meet + 1]):
                            for m in range(write_starts[part[k]], write_starts[part[k] + 1]):
                                _assign(pool, row, int(write[m]), told)
                    if changed and _is_full(full, pool, row):
                        high -= 1
                        _copy(pool, row, pool, high)
                    else:
                        row += 1
                if low == high:
                    break
            place = -1
            _keep(live, pool, low, high, at)
        elif what <= 2:  # an arm of a fork begins
            if what == 1:
                frames[depth, 0], frames[depth, 1], frames[depth, 2] = at, low, high
                depth += 1
            else:
                _keep(live, pool, low, high, at)
            low, high = high, _append(pool, high, pool, int(frames[depth - 1, 1]), int(frames[depth - 1, 2]))
            if not _note(nodes, now, pool, low, high, words, int(frames[depth - 1, 0]), what - 1):
                return -1
        elif what == 3:  # a fork ends
            depth -= 1
            _keep(live, pool, frames[depth, 2], high, at)
            end_row = _least(pool, frames[depth, 2], high, words, most)
            low = int(frames[depth, 1])
            high = _append(pool, low, pool, int(frames[depth, 2]), end_row)
        elif what == 4:  # a loop begins
            if not _note(nodes, now, pool, low, high, words, at, 0):
                return -1
            for _time in range(2):
                _turn(walk, number, pool, low, high)
            trip = loops[number, 2]
            if trip == 0:
                at = int(others[at]) + 1
                continue
            frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = at, low, high, 0
            depth += 1
            low = high
            if back_stamp[number] != now[STAMP]:
                back_stamp[number], back_count[number] = now[STAMP], 0
            for row in range(frames[depth - 1, 1], frames[depth - 1, 2]):
                covered = False
                if trip < 0:
                    for k in range(number * most, number * most + back_count[number]):
                        covered = covered or _below(back, k, pool, row, words)
                if not covered:
                    _copy(pool, high, pool, row)
                    high += 1
        elif what == 5:  # a body ends
            first, behind = int(frames[depth - 1, 1]), int(frames[depth - 1, 2])
            trip = loops[number, 2]
            _keep(live, pool, low, high, at)
            _turn(walk, number, pool, low, high)
            if not _note(nodes, now, pool, low, high, words, at, 0):
                return -1
            high = _least(pool, low, high, words, most)
            frames[depth - 1, 3] += 1
            turns = frames[depth - 1, 3]
            if trip < 0:
                count, high = _gain(back, number * most, int(back_count[number]), pool, low, high, words, most)
                back_count[number] = count
                if low < high:
                    at = int(others[at]) + 1
                    continue
                low, high = first, _append(pool, behind, back, number * most, number * most + count)
                high = _least(pool, low, high, words, most)
                depth -= 1
            else:
                same = high - low == behind - first
                for row in range(low, high):
                    some = False
                    for k in range(first, behind):
                        some = some or (_below(pool, k, pool, row, words) and _below(pool, row, pool, k, words))
                    same = same and some
                left = int(trip - turns) if same else 0
                if left and not _settle(nodes, now, pool, first, behind, low, high, at, left):
                    return -1
                low, high = first, _append(pool, first, pool, low, high)
                if same or turns == trip:
                    depth -= 1
                else:
                    frames[depth - 1, 2] = high
                    low, high = high, _append(pool, high, pool, low, high)
                    at = int(others[at]) + 1
                    continue
        else:  # a loop ends
            if not _note(nodes, now, pool, low, high, words, at, 0):
                return -1
            _keep(live, pool, low, high, at)
            high = _least(pool, low, high, words, most)
        at += 1


@njit
def _settle(
    nodes: Column, now: Ints, pool: Column, first: int, behind: int, low: int, high: int, step: int, turns: int
) -> bool:
    """An iteration ends in the states in which it began: leave out the others."""
    count, words = now[NODES], pool.shape[1] - 2
    if count + behind - first > len(nodes):
        now[OUTCOME] = MORE_NODES
        return False
    for row in range(first, behind):
        for k in range(low, high):
            if _below(pool, k, pool, row, words) and _below(pool, row, pool, k, words):
                nodes[count, 0] = pool[k, words]
                nodes[count, 1] = pool[row, words]
                nodes[count, 2] = ALIAS
                count += 1
    now[NODES] = count
    return _note(nodes, now, pool, low, high, words, step, STABLE - turns)


@njit
def scan_knowers(walk: Walk, room: Room, asked: Asked, event: int, lowest: int, stop: int) -> int:
    """Find the pairs of one access, of an event, that some run leaves unordered. The lowest level of the pairs, and
    the last step where one of that level may be found, if these are all of one iteration; -1. Returns an outcome.
    """
    pool, nodes, now, most, steps, live = room.pool, room.nodes, room.now, room.most, walk.steps, walk.live
    words, step, place = live.shape[1], int(walk.first_step[event]), int(walk.first_place[event])
    for k in range(words):
        pool[0, k] = 0
    pool[0, words], pool[0, words + 1] = -1, 1
    _assign(pool, 0, int(walk.line[event]), True)
    if walk.kind[event] == 2:
        core = walk.line_core[walk.line[event]]
        for other in range(walk.core_lines[core], walk.core_lines[core + 1]):
            _assign(pool, 0, int(other), True)
    for k in range(walk.unit_starts[event], walk.unit_starts[event + 1]):
        told = walk.unit_from[k] < 0 or _knows(pool, 0, int(walk.unit_from[k]))
        _assign(pool, 0, int(walk.unit[k]), told)
    for k in range(walk.write_starts[event], walk.write_starts[event + 1]):
        _assign(pool, 0, int(walk.write[k]), True)
    low, high = 0, 1
    if _is_full(walk.full, pool, 0):
        return DONE
    level, frame = 0, int(walk.parent[step])
    while frame >= 0:
        level += steps[frame, 0] == 4
        frame = int(walk.parent[frame])
    now[LEVEL], now[LAG], now[NODES], now[OUTCOME] = level, 0, 0, DONE
    now[STAMP] += 1
    now[STOP] = len(steps)
    high = _run(walk, room, asked, step, step + 1, place + 1, low, high)
    at, frame = step + 1, int(walk.parent[step])
    while low < high and now[LEFT] > 0:
        now[STOP] = stop if stop >= 0 and now[LEVEL] == lowest else len(steps)
        if frame < 0:
            high = _run(walk, room, asked, at, len(steps), -1, low, high)
            break
        latch, exit_ = int(walk.other[frame]), int(walk.close[frame])
        if steps[frame, 0] == 1:
            high = _run(walk, room, asked, at, latch if at <= latch else exit_, -1, low, high)
            if high < 0:
                break
            _keep(live, pool, low, high, exit_)
            high = _least(pool, low, high, words, most)
            at, frame = exit_ + 1, int(walk.parent[frame])
            continue
        if now[LEVEL] == lowest and stop >= 0:
            if at <= latch:
                high = _run(walk, room, asked, at, latch, -1, low, high)
            break
        outs = seen = 0
        number = int(steps[frame, 1])
        trip = walk.loops[number, 2]
        if at > latch or at == frame + 2:  # it is in the header
            _append(pool, high, pool, low, high)
            _keep(live, pool, high, 2 * high - low, exit_)
            outs, _ = _gain(room.out, 0, outs, pool, high, 2 * high - low, words, most)
        if at <= latch:
            high = _run(walk, room, asked, at, latch, -1, low, high)
            lag = 1
            while low < high and now[LEFT] > 0 and (trip < 0 or lag <= trip):
                now[LAG] = min(lag, 2)
                if lag <= 2:
                    now[STAMP] += 1
                _keep(live, pool, low, high, latch)
                _turn(walk, number, pool, low, high)
                if not _note(nodes, now, pool, low, high, words, latch, 0):
                    return MORE_NODES
                high = _least(pool, low, high, words, most)
                if lag > 1:
                    seen, high = _gain(room.seen, 0, seen, pool, low, high, words, most)
                high = _run(walk, room, asked, frame + 1, frame + 2, -1, low, high)
                _append(pool, high, pool, low, high)
                _keep(live, pool, high, 2 * high - low, exit_)
                outs, _ = _gain(room.out, 0, outs, pool, high, 2 * high - low, words, most)
                if lag == trip:
                    break
                high = _run(walk, room, asked, frame + 2, latch, -1, low, high)
                lag += 1
            if high < 0:
                break
        low, high = 0, _append(pool, 0, room.out, 0, outs)
        if not _note(nodes, now, pool, low, high, words, exit_, 0):
            return MORE_NODES
        now[STAMP] += 1
        now[LAG] = 0
        now[LEVEL] -= 1
        at, frame = exit_ + 1, int(walk.parent[frame])
        if now[LEVEL] < lowest:
            break
    return int(now[OUTCOME])
