"""The scan that finds the missing order of a list of instructions, as one Numba kernel. `dependences.py` defines the
order, `region_dependences.py` makes the list of a program with loops and branches.

`clock[I][e]` is the last position of engine e such that everything which ran there up to it is complete when I
starts; `state[l]` is the clock of the next instruction of line l. In a straight list nothing else is needed.

At a fork of the list, `state` is kept. The second arm starts from it again, and at the join each number is the
smaller of the two. If all instructions of an engine are known to be complete at an arm's end, its number is first
raised to the last position of both arms. So one list represents all paths through it.

- Instructions of the two arms of one fork never both run, so those in the other arm are skipped.
- An instruction after a region must not wait for one inside it: it waits for the region's join, and takes over its
  clock. A join covers whole engines (`covers`): all their instructions before it are complete, on every path.
- The last run of a header whose loop may not run (`first`) may have no iteration before it, so its waits for that
  iteration add nothing to its clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.overlap import Extents, _scan_conflict, _scan_meets
from haulout.ir.enums import DependenceKind
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit

WALK_LIMIT = 64
"""Accesses of a chain that are compared; the next one counts without a test."""
RAW, WAR, WAW = int(DependenceKind.RAW), int(DependenceKind.WAR), int(DependenceKind.WAW)
ARM, LOOP, TURN = 0, 1, 2
"""Kinds of scopes: an arm, a loop with all its iterations, one iteration of it (or the header's last run)."""
FORK, ELSE, MEET = 0, 1, 2
"""Kinds of events: a choice begins, its second arm begins, it ends."""


class Order(NamedTuple):
    """A list of rows as the scan reads it: columns of rows and of their accesses."""

    operands: Ints
    owner: Ids
    """Owner location of each access; NONE: not an access."""
    location: Ids
    sort: Ids
    """Of each access: what it does (`ir/atomics.py`); each sort of an owner location has a chain of its own."""
    group: Ids
    """Dense number of (function, owner location) for each location."""
    function: Ids
    line: Ids
    """Dense engine number of each instruction."""
    is_fence: Bools
    waits: Ints
    producer: Ids


class Paths(NamedTuple):
    """The paths through a list: scopes, which are nested parts of it, and events."""

    scope: Ids
    """Innermost scope of each position, NONE when there is none; empty: a straight list."""
    covers: Ints
    """For each position, if it is a join: bit set of the lines that it covers."""
    kind: Ids
    """Of each scope: ARM, LOOP or TURN."""
    parent: Ids
    begin: Ids
    end: Ids
    join: Ids
    """The position to wait for after the scope: of an iteration in the header's next run, of a loop in its last."""
    tail: Ids
    """Of a loop: where the header's last run begins."""
    region: Ids
    """Of a loop: its number."""
    first: Bools
    """Of an iteration: it may be the first one although the list has others before it."""
    event: Ids
    event_at: Ids
    """Ascending; an event happens before the instruction at its position."""
    depth: int
    """The most choices that are open at once."""


class Footprint(NamedTuple):
    """Bytes of locations, as ranks of compressed coordinates; `low == high` for those without an address."""

    low: Ids
    high: Ids


@njit
def _scan_order(
    x: Extents, order: Order, print_: Footprint, paths: Paths, wanted: Bools, lines: int, locations: int
) -> tuple[Ids, Ids, Ids, Bools]:
    """(position, producer's position, kind, carried) of every missing edge; see the module's text."""
    rows = len(order.line)
    clock = np.empty((rows, lines), np.int32)
    state = np.full((lines, lines), -1, np.int32)
    latest = np.full(lines, -1, np.int32)
    """Last position of each line on any way to here."""
    previous = np.full(len(order.owner), -1, np.int32)
    """Of each access: the one before it in its chain."""
    groups = 0
    for location in range(locations):
        groups = max(groups, order.group[location] + 1)
    sorts = 2
    for access in range(len(order.sort)):
        sorts = max(sorts, order.sort[access] + 1)
    head = np.full((groups, lines, sorts), -1, np.int32)
    instruction_of = np.empty(len(order.owner), np.int32)
    # Interval map of the function at hand: segments [start[i], start[i + 1]) hold location `holder[i]`.
    start = np.empty(16, np.int32)
    holder = np.empty(16, np.int32)
    segments = np.int64(0)
    whole = np.zeros(locations, np.bool_)
    touched = np.full((locations, lines), -1, np.int32)
    need = np.full((locations, lines), -1, np.int32)
    # Choices that are open, the innermost last: what is known before them and at the end of their first arm.
    nested = len(paths.scope) > 0
    open_ = 0
    elses = 0
    kept_state = np.empty((paths.depth, lines, lines), np.int32)
    kept_latest = np.empty((paths.depth, lines), np.int32)
    arm_state = np.empty((paths.depth, lines, lines), np.int32)
    arm_latest = np.empty((paths.depth, lines), np.int32)
    arm_begin = np.empty(paths.depth, np.int32)
    arm_end = np.empty(paths.depth, np.int32)
    """Positions of the first arm, once the second is open; -1 before that."""
    event = 0
    before = np.full(len(order.owner) if nested else 0, -1, np.int32)
    """Of each access: the last one of its chain before the innermost choice that it stands in the first arm of."""
    function = -1
    out_row = np.empty(1024, np.int32)
    out_producer = np.empty(1024, np.int32)
    out_kind = np.empty(1024, np.int32)
    out_carried = np.empty(1024, np.bool_)
    found = 0
    best = np.empty(lines, np.int32)
    best_kind = np.empty(lines, np.int32)
    done = np.full(lines, -1, np.int32)
    """Of each line: the last position that this instruction is ordered behind without knowing what that knew."""
    for row in range(rows):
        if order.function[row] != function:
            function = order.function[row]
            segments = np.int64(0)
            state[:] = -1
            latest[:] = -1
        while event < len(paths.event) and paths.event_at[event] == row:
            if paths.event[event] == FORK:
                kept_state[open_], kept_latest[open_] = state, latest
                arm_begin[open_], arm_end[open_] = row, -1
                open_ += 1
            elif paths.event[event] == ELSE:
                at = open_ - 1
                arm_state[at], arm_latest[at], arm_end[at] = state, latest, row
                state[:], latest[:] = kept_state[at], kept_latest[at]
                elses += 1
            else:
                open_ -= 1
                if arm_end[open_] >= 0:
                    elses -= 1
                    _scan_meet(state, latest, arm_state[open_], arm_latest[open_])
                else:
                    _scan_meet(state, latest, kept_state[open_], kept_latest[open_])
            event += 1
        line = order.line[row]
        now = clock[row]
        for other in range(lines):
            now[other] = state[line, other]
        # Turns that this one may have run after, or not.
        doubt_begin, doubt_end = -1, -1
        if nested:
            scope = paths.scope[row]
            if scope >= 0 and paths.first[scope]:
                doubt_begin, doubt_end = paths.begin[paths.parent[scope]], paths.begin[scope]
            if paths.covers[row] != 0:
                for other in range(lines):
                    if paths.covers[row] >> other & 1:
                        now[other] = row
        for wait in range(order.waits[row], order.waits[row + 1]):
            producer = order.producer[wait]
            if producer < row and not doubt_begin <= producer < doubt_end:
                for other in range(lines):
                    now[other] = max(now[other], clock[producer, other])
        first, last = order.operands[row], order.operands[row + 1]
        for access in range(first, last):
            # Before any is judged: two operands of one instruction may lie on the same bytes.
            if order.owner[access] >= 0:
                touched[order.location[access], line] = row
        best[:] = -1
        for access in range(first, last):
            if order.owner[access] < 0:
                continue
            location = order.location[access]
            group = order.group[location]
            instruction_of[access] = row
            # Conflicts by location.
            for other in range(lines):
                if other == line:
                    continue
                for chain in range(sorts):
                    if not _scan_conflict(order.sort[access], chain):
                        continue
                    why = RAW if order.sort[access] & 1 else (WAR if chain & 1 else WAW)
                    if not wanted[why]:
                        continue
                    at = head[group, other, chain]
                    seen = 0
                    while at >= 0 and instruction_of[at] > max(now[other], best[other]):
                        if elses > 0 and _scan_apart(instruction_of[at], arm_begin, arm_end, open_) >= 0:
                            at = before[at]
                            continue
                        if seen == WALK_LIMIT or _scan_meets(x, at, access):
                            best[other] = instruction_of[at]
                            best_kind[other] = why
                            break
                        at = previous[at]
                        seen += 1
            # Conflicts by address.
            low, high = print_.low[location], print_.high[location]
            if low < high:
                if not whole[location]:
                    if segments + 3 > len(start):
                        more_start = np.empty(2 * len(start), np.int32)
                        more_holder = np.empty(2 * len(start), np.int32)
                        more_start[:segments] = start[:segments]
                        more_holder[:segments] = holder[:segments]
                        start, holder = more_start, more_holder
                    segments = _scan_occupy(start, holder, segments, low, high, location, whole, touched, need)
                for other in range(lines):
                    if other != line and wanted[WAR] and need[location, other] > max(now[other], best[other]):
                        wait_for = need[location, other]
                        if elses > 0:
                            # In the other arm: whatever it stands for is before the fork.
                            apart = _scan_apart(wait_for, arm_begin, arm_end, open_)
                            while apart >= 0:
                                wait_for = kept_latest[apart, other]
                                apart = _scan_apart(wait_for, arm_begin, arm_end, open_)
                        if wait_for > max(now[other], best[other]):
                            best[other] = wait_for
                            best_kind[other] = WAR
        # The largest row first: its clock may cover the others.
        while True:
            pick = -1
            for other in range(lines):
                if best[other] > max(now[other], done[other]) and (pick < 0 or best[other] > best[pick]):
                    pick = other
            if pick < 0:
                break
            if found == len(out_row):
                out_row = _scan_double(out_row)
                out_producer = _scan_double(out_producer)
                out_kind = _scan_double(out_kind)
                more_carried = np.empty(2 * found, np.bool_)
                more_carried[:found] = out_carried
                out_carried = more_carried
            target, carried = best[pick], False
            if nested:
                target, carried = _scan_target(paths, best[pick], row)
            out_row[found], out_producer[found], out_kind[found] = row, target, best_kind[pick]
            out_carried[found] = carried
            found += 1
            if nested:
                done[pick] = best[pick]
            if not doubt_begin <= target < doubt_end:
                for other in range(lines):
                    now[other] = max(now[other], clock[target, other])
        if nested:
            done[:] = -1
        for access in range(first, last):
            if order.owner[access] >= 0:
                location = order.location[access]
                group = order.group[location]
                at = head[group, line, order.sort[access]]
                previous[access] = at
                head[group, line, order.sort[access]] = access
                if open_ > 0:
                    arm = open_ - 1
                    while arm > 0 and arm_end[arm] >= 0:
                        arm -= 1
                    while at >= 0 and instruction_of[at] >= arm_begin[arm]:
                        at = before[at]
                    before[access] = at
        now[line] = row
        for other in range(lines):
            state[line, other] = now[other]
        latest[line] = row
        if order.is_fence[row]:
            now[:] = row
            state[:] = row
    return out_row[:found], out_producer[:found], out_kind[:found], out_carried[:found]


@njit
def _scan_meet(state: Ids, latest: Ids, other_state: Ids, other_latest: Ids) -> None:
    """Join the state of two paths: `state` and `latest` become what holds on both."""
    lines = len(latest)
    for engine in range(lines):
        last = max(latest[engine], other_latest[engine])
        for line in range(lines):
            one, other = state[line, engine], other_state[line, engine]
            if one >= latest[engine]:
                one = max(one, last)
            if other >= other_latest[engine]:
                other = max(other, last)
            state[line, engine] = min(one, other)
        latest[engine] = last


@njit
def _scan_apart(position: int, arm_begin: Ids, arm_end: Ids, open_: int) -> int:
    """The innermost open choice whose first arm has the position, while its second arm is scanned; -1: none."""
    for arm in range(open_ - 1, -1, -1):
        if arm_begin[arm] <= position < arm_end[arm]:
            return arm
    return -1


@njit
def _scan_target(paths: Paths, producer: int, row: int) -> tuple[int, bool]:
    """(position, carried): what an instruction that needs `producer` may wait for; see `region_dependences.py`."""
    target, carried = producer, False
    turn = -1
    scope = paths.scope[producer]
    while scope >= 0:
        parent = paths.parent[scope]
        is_over = not paths.begin[scope] <= row < paths.end[scope]
        if paths.kind[scope] == TURN:
            turn = scope
            if is_over and paths.begin[parent] <= row < paths.end[parent]:
                carried = True
                inner = _scan_child_loop(paths, target, parent)
                if inner >= 0 and inner == _scan_child_loop(paths, row, parent):
                    target, carried = paths.join[scope], False
        elif is_over and paths.kind[scope] == LOOP:
            # The header's last run dominates what follows the loop; the join in the header dominates the body.
            offset = target - paths.begin[turn]
            in_header = offset < paths.end[scope] - paths.tail[scope]
            target = paths.tail[scope] + offset if in_header else paths.join[scope]
        elif is_over:
            target = paths.join[scope]
        scope = parent
    return target, carried


@njit
def _scan_child_loop(paths: Paths, position: int, loop: int) -> int:
    """The outermost loop around a position inside of scope `loop`; -1: none."""
    found = -1
    scope = paths.scope[position]
    while scope != loop:
        if paths.kind[scope] == LOOP:
            found = paths.region[scope]
        scope = paths.parent[scope]
    return found


@njit
def _scan_double(values: Ids) -> Ids:
    """Twice the room."""
    larger = np.empty(2 * len(values), np.int32)
    larger[: len(values)] = values
    return larger


@njit
def _scan_occupy(
    start: Ids,
    holder: Ids,
    segments: np.int64,
    low: int,
    high: int,
    location: int,
    whole: Bools,
    touched: Ids,
    need: Ids,
) -> np.int64:
    """Give [low, high) to `location`; `need[location]` joins what touched the holders before. Returns segments.

    `start` is sorted; segment i ends where i + 1 starts, the last one nowhere: it must be free (holder -1).
    There is room for two more segments.
    """
    if segments == 0:
        start[0], holder[0], segments = -1, -1, np.int64(1)
    first = np.searchsorted(start[:segments], low, side="right") - 1
    last = np.searchsorted(start[:segments], high, side="left") - 1
    for segment in range(first, last + 1):
        other = holder[segment]
        if other >= 0 and other != location:
            whole[other] = False
            for line in range(need.shape[1]):
                need[location, line] = max(need[location, line], touched[other, line], need[other, line])
    tail = holder[last]
    keep_left = start[first] < low
    keep_right = last + 1 == segments or start[last + 1] > high
    at = first + (1 if keep_left else 0)
    new_end = at + 1 + (1 if keep_right else 0)
    shift = new_end - (last + 1)
    if shift > 0:
        for i in range(segments - 1, last, -1):
            start[i + shift], holder[i + shift] = start[i], holder[i]
    elif shift < 0:
        for i in range(last + 1, segments):
            start[i + shift], holder[i + shift] = start[i], holder[i]
    start[at], holder[at] = low, location
    if keep_right:
        start[at + 1], holder[at + 1] = high, tail
    whole[location] = True
    return segments + shift
