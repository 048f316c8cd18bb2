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
def _below(one: Column, i: int, other: Column, j: int, words: int) -> bool:
    """Whether all that know in one state do in another."""
    missing = 0
    for k in range(words):
        missing |= one[i, k] & ~other[j, k]
    return missing == 0


@njit
def _is_full(walk: Walk, table: Column, row: int) -> bool:
    missing = 0
    for k in range(len(walk.full)):
        missing |= walk.full[k] & ~table[row, k]
    return missing == 0


@njit
def _keep(walk: Walk, table: Column, low: int, high: int, step: int) -> None:
    """Clear what is not read after a step."""
    for row in range(low, high):
        for k in range(walk.live.shape[1]):
            table[row, k] &= walk.live[step, k]


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
def _note(room: Room, low: int, high: int, words: int, step: int, value: int) -> bool:
    """A node more for some states; False: there are too many."""
    count = room.now[NODES]
    if count + high - low > len(room.nodes):
        room.now[OUTCOME] = MORE_NODES
        return False
    for row in range(low, high):
        room.nodes[count, 0] = room.pool[row, words]
        room.nodes[count, 1] = step
        room.nodes[count, 2] = value
        room.pool[row, words] = count
        count += 1
    room.now[NODES] = count
    return True


@njit
def _learn(walk: Walk, pool: Column, row: int, event: int, know: bool) -> None:
    """An event is complete."""
    line = walk.line[event]
    if know:
        _assign(pool, row, line, True)
        if walk.kind[event] == 2:
            core = walk.line_core[line]
            for other in range(walk.core_lines[core], walk.core_lines[core + 1]):
                _assign(pool, row, other, True)
    for k in range(walk.unit_starts[event], walk.unit_starts[event + 1]):
        told = know
        if walk.unit_from[k] >= 0:
            told = _knows(pool, row, walk.unit_from[k])
        _assign(pool, row, walk.unit[k], told)
    for k in range(walk.write_starts[event], walk.write_starts[event + 1]):
        _assign(pool, row, walk.write[k], know)


@njit
def _events(walk: Walk, room: Room, asked: Asked, low: int, high: int, first: int, end: int) -> int:
    """Walk some places of the schedule. Returns the end of the states that are left."""
    pool, words, now = room.pool, walk.live.shape[1], room.now
    for place in range(first, end):
        event = walk.schedule[place]
        line, meet, pair = walk.line[event], walk.meet_of[event], asked.head[event]
        now[WORK] -= high - low
        row = low
        while row < high:
            before = know = _knows(pool, row, line)
            if not know:
                for k in range(walk.read_starts[event], walk.read_starts[event + 1]):
                    if _knows(pool, row, walk.read[k]):
                        know = True
                        break
            changed = know and not before
            if walk.kind[event] != 1:
                if pair >= 0 and not know:
                    at = pair
                    while at >= 0:
                        if asked.level[at] == now[LEVEL] and asked.lag[at] == now[LAG] and not asked.certain[at]:
                            if pool[row, words + 1]:
                                asked.found[at] = pool[row, words]
                                asked.certain[at] = True
                                now[LEFT] -= 1
                            elif asked.found[at] == -2:
                                asked.found[at] = pool[row, words]
                        at = asked.following[at]
                changed = changed or (know and walk.kind[event] == 2)
                _learn(walk, pool, row, event, know)
            else:
                if know:
                    _assign(pool, row, line, True)
                if meet >= 0:
                    told = False
                    for k in range(walk.meet_starts[meet], walk.meet_starts[meet + 1]):
                        told = told or _knows(pool, row, walk.meet_lines[k])
                    if told:
                        changed = True
                        for k in range(walk.meet_starts[meet], walk.meet_starts[meet + 1]):
                            _assign(pool, row, walk.meet_lines[k], True)
                    for k in range(walk.part_starts[meet], walk.part_starts[meet + 1]):
                        part = walk.part[k]
                        for m in range(walk.write_starts[part], walk.write_starts[part + 1]):
                            _assign(pool, row, walk.write[m], told)
            if changed and _is_full(walk, pool, row):
                high -= 1
                if row < high:
                    _copy(pool, row, pool, high)
            else:
                row += 1
        if low == high:
            break
    return high


@njit
def _turn(walk: Walk, room: Room, number: int, low: int, high: int) -> None:
    """An iteration follows: what ran in this one ran in the one before."""
    for row in range(low, high):
        for k in range(walk.edge_starts[number], walk.edge_starts[number + 1]):
            _assign(room.pool, row, walk.edge_last[k], _knows(room.pool, row, walk.edge_this[k]))
            _assign(room.pool, row, walk.edge_this[k], False)


@njit
def _run(walk: Walk, room: Room, asked: Asked, begin: int, end: int, low: int, high: int) -> int:
    """Walk whole steps with all that is inside. Returns the end of the states behind, -1: it failed."""
    pool, words, now, frames, most = room.pool, walk.live.shape[1], room.now, room.frames, room.most
    at, depth = begin, 0
    while True:
        if low == high:
            if depth == 0:
                return high
            top = frames[depth - 1, 0]
            at = walk.other[top] if at <= walk.other[top] else walk.close[top]
        elif depth == 0 and (at >= end or at > now[STOP]):
            return high if at >= end else low
        if now[LEFT] == 0:
            return low
        if now[WORK] < 0:
            now[OUTCOME] = TOO_LONG
            return -1
        what, number = walk.steps[at, 0], walk.steps[at, 1]
        if what == 0:
            high = _events(walk, room, asked, low, high, number, walk.steps[at, 2])
            _keep(walk, pool, low, high, at)
        elif what == 1:  # a fork begins
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = at, low, high
            depth += 1
            low = high
            for row in range(frames[depth - 1, 1], frames[depth - 1, 2]):
                _copy(pool, high, pool, row)
                high += 1
            if not _note(room, low, high, words, at, 0):
                return -1
        elif what == 2:  # its second arm begins
            _keep(walk, pool, low, high, at)
            low = high
            for row in range(frames[depth - 1, 1], frames[depth - 1, 2]):
                _copy(pool, high, pool, row)
                high += 1
            if not _note(room, low, high, words, frames[depth - 1, 0], 1):
                return -1
        elif what == 3:  # a fork ends
            depth -= 1
            _keep(walk, pool, frames[depth, 2], high, at)
            end_row = _least(pool, frames[depth, 2], high, words, most)
            low = high = frames[depth, 1]
            for row in range(frames[depth, 2], end_row):
                _copy(pool, high, pool, row)
                high += 1
        elif what == 4:  # a loop begins
            if not _note(room, low, high, words, at, 0):
                return -1
            for _time in range(2):
                _turn(walk, room, number, low, high)
            trip = walk.loops[number, 2]
            if trip == 0:
                at = walk.other[at] + 1
                continue
            frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = at, low, high, 0
            depth += 1
            low = high
            if room.back_stamp[number] != now[STAMP]:
                room.back_stamp[number], room.back_count[number] = now[STAMP], 0
            for row in range(frames[depth - 1, 1], frames[depth - 1, 2]):
                covered = False
                if trip < 0:
                    for k in range(number * most, number * most + room.back_count[number]):
                        covered = covered or _below(room.back, k, pool, row, words)
                if not covered:
                    _copy(pool, high, pool, row)
                    high += 1
        elif what == 5:  # a body ends
            first, behind = frames[depth - 1, 1], frames[depth - 1, 2]
            trip = walk.loops[number, 2]
            _keep(walk, pool, low, high, at)
            _turn(walk, room, number, low, high)
            if not _note(room, low, high, words, at, 0):
                return -1
            high = _least(pool, low, high, words, most)
            frames[depth - 1, 3] += 1
            turns = frames[depth - 1, 3]
            if trip < 0:
                count, high = _gain(room.back, number * most, room.back_count[number], pool, low, high, words, most)
                room.back_count[number] = count
                if low < high:
                    at = walk.other[at] + 1
                    continue
                low, high = first, behind
                for k in range(number * most, number * most + count):
                    _copy(pool, high, room.back, k)
                    high += 1
                high = _least(pool, low, high, words, most)
                depth -= 1
            else:
                same = high - low == behind - first
                for row in range(low, high):
                    some = False
                    for k in range(first, behind):
                        if _below(pool, k, pool, row, words) and _below(pool, row, pool, k, words):
                            some = True
                    same = same and some
                if same and turns < trip and not _settle(room, first, behind, low, high, words, at, trip - turns):
                    return -1
                size = high - low
                for row in range(size):
                    _copy(pool, first + row, pool, low + row)
                if same or turns == trip:
                    low, high = first, first + size
                    depth -= 1
                else:
                    frames[depth - 1, 2] = low = high = first + size
                    for row in range(first, first + size):
                        _copy(pool, high, pool, row)
                        high += 1
                    at = walk.other[at] + 1
                    continue
        else:  # a loop ends
            if not _note(room, low, high, words, at, 0):
                return -1
            _keep(walk, pool, low, high, at)
            high = _least(pool, low, high, words, most)
        at += 1


@njit
def _settle(room: Room, first: int, behind: int, low: int, high: int, words: int, step: int, turns: int) -> bool:
    """An iteration ends in the states in which it began: leave out the others."""
    count = room.now[NODES]
    if count + behind - first > len(room.nodes):
        room.now[OUTCOME] = MORE_NODES
        return False
    for row in range(first, behind):
        for k in range(low, high):
            if _below(room.pool, k, room.pool, row, words) and _below(room.pool, row, room.pool, k, words):
                room.nodes[count, 0] = room.pool[k, words]
                room.nodes[count, 1] = room.pool[row, words]
                room.nodes[count, 2] = ALIAS
                count += 1
    room.now[NODES] = count
    return _note(room, low, high, words, step, STABLE - turns)


@njit
def scan_knowers(walk: Walk, room: Room, asked: Asked, event: int, lowest: int, stop: int) -> int:
    """Find the pairs of one access, of an event, that some run leaves unordered. The lowest level of the pairs, and
    the last step where one of that level may be found, if these are all of one iteration; -1. Returns an outcome.
    """
    pool, words, now, most, steps = room.pool, walk.live.shape[1], room.now, room.most, walk.steps
    step, place = walk.first_step[event], walk.first_place[event]
    for k in range(words):
        pool[0, k] = 0
    pool[0, words], pool[0, words + 1] = -1, 1
    _learn(walk, pool, 0, event, True)
    low, high = 0, 1
    if _is_full(walk, pool, 0):
        return DONE
    level, frame = 0, walk.parent[step]
    while frame >= 0:
        level += steps[frame, 0] == 4
        frame = walk.parent[frame]
    now[LEVEL], now[LAG], now[NODES], now[OUTCOME] = level, 0, 0, DONE
    now[STAMP] += 1
    high = _events(walk, room, asked, low, high, place + 1, steps[step, 2])
    _keep(walk, pool, low, high, step)
    at, frame = step + 1, walk.parent[step]
    while low < high and now[LEFT] > 0:
        now[STOP] = stop if stop >= 0 and now[LEVEL] == lowest else len(steps)
        if frame < 0:
            high = _run(walk, room, asked, at, len(steps), low, high)
            break
        latch, exit_ = walk.other[frame], walk.close[frame]
        if steps[frame, 0] == 1:
            high = _run(walk, room, asked, at, latch if at <= latch else exit_, low, high)
            if high < 0:
                break
            _keep(walk, pool, low, high, exit_)
            high = _least(pool, low, high, words, most)
            at, frame = exit_ + 1, walk.parent[frame]
            continue
        if now[LEVEL] == lowest and stop >= 0:
            if at <= latch:
                high = _run(walk, room, asked, at, latch, low, high)
            break
        outs = seen = 0
        number = steps[frame, 1]
        trip = walk.loops[number, 2]
        if at > latch or at == frame + 2:  # it is in the header
            for row in range(low, high):
                _copy(pool, high - low + row, pool, row)
            _keep(walk, pool, high, 2 * high - low, exit_)
            outs, _ = _gain(room.out, 0, outs, pool, high, 2 * high - low, words, most)
        if at <= latch:
            high = _run(walk, room, asked, at, latch, low, high)
            lag = 1
            while low < high and now[LEFT] > 0 and (trip < 0 or lag <= trip):
                now[LAG] = min(lag, 2)
                if lag <= 2:
                    now[STAMP] += 1
                _keep(walk, pool, low, high, latch)
                _turn(walk, room, number, low, high)
                if not _note(room, low, high, words, latch, 0):
                    return MORE_NODES
                high = _least(pool, low, high, words, most)
                if lag > 1:
                    seen, high = _gain(room.seen, 0, seen, pool, low, high, words, most)
                high = _events(walk, room, asked, low, high, steps[frame + 1, 1], steps[frame + 1, 2])
                for row in range(low, high):
                    _copy(pool, high - low + row, pool, row)
                _keep(walk, pool, high, 2 * high - low, exit_)
                outs, _ = _gain(room.out, 0, outs, pool, high, 2 * high - low, words, most)
                _keep(walk, pool, low, high, frame + 1)
                if lag == trip:
                    break
                high = _run(walk, room, asked, frame + 2, latch, low, high)
                lag += 1
            if high < 0:
                break
        low, high = 0, outs
        for row in range(outs):
            _copy(pool, row, room.out, row)
        if not _note(room, low, high, words, exit_, 0):
            return MORE_NODES
        now[STAMP] += 1
        now[LAG] = 0
        now[LEVEL] -= 1
        at, frame = exit_ + 1, walk.parent[frame]
        if now[LEVEL] < lowest:
            break
    return int(now[OUTCOME])
