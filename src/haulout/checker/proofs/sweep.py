"""Two sweeps over the storage of a program in the order of one schedule: conflicting accesses, and overlapping
locations.

Both keep an *interval map* of the atoms: an interval begins at an atom whose bit is set, and all its atoms have the
same history. An access cuts the map at its ends and examines the intervals between them; a write that comes after
everything there merges them into one. So each interval is made by one access and ends with one: the work is near
linear in the number of accesses, and does not depend on how many tensors used the bytes before.

The history for conflicts is that of FastTrack (Flanagan, Freund, 2009), with in-order queues in place of threads: for
each queue the latest write and the latest read. Earlier accesses of that queue come before the latest; so when any of
them is not ordered before the current access, the latest is not either. A schedule never runs an access before one
that happens before it, so each pair is examined once, in the only direction that it can have. A write that comes
after all of the history replaces it: what comes after the write comes after them all. Atomics replace only atomics of
their kind: those may come in any order with each other, but not with what was there before.

A queue orders its own accesses, but two that conflict and have one `seq` may be in the wrong order. Times do not fall
along a queue, so its latest accesses tell whether any of them has the time of the current one.

All kernels that call each other are in this file, because the cache of compiled code checks one file only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.order.happens_before import Order
from haulout.checker.proofs.lifetimes import Lifetimes
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

RACE, POSSIBLE_RACE, DEPENDENCE, POSSIBLE_DEPENDENCE, DUPLICATE, UNFAITHFUL, FETCHED, COMMUTING = range(8)
"""The kinds of conflicting pairs. DUPLICATE: writes that leave equal bytes, found later
(`benign_writes.py`). COMMUTING: unordered atomics, which are correct."""
KINDS = 8
HARMLESS = (DUPLICATE, FETCHED)
"""Kinds that get a note and need no fix."""


class Touched(NamedTuple):
    """What accesses touch: columns over accesses, streams, extents."""

    extent: Ids
    write: Bools
    owner: Ids
    """Of each access: the owner of its location."""
    stream: Ids
    """Of each access: its queue, split by the kind of atomic and by whether its bytes are certain."""
    stream_queue: Ids
    stream_atomic: Ids
    """0, or the kind of its atomics; those of equal kinds commute."""
    stream_fetches: Bools
    """Its atomics return the previous value."""
    unsure: Bools
    """Of each access: it touches some bytes of its extent, not known which."""
    starts: Ints
    low: Ids
    high: Ids
    """Extent r covers the atom ranges `low[k]:high[k]`, k in `starts[r]:starts[r + 1]`."""
    slot: Ids
    overlap_starts: Ints
    overlaps: Ids
    """Extent r overlaps, as or with an atomless one, these slots."""


class Pairs(NamedTuple):
    """Pairs found: the `total` of each kind, the first of them in columns [kind, number]."""

    total: Ints
    first: Column
    second: Column


# -- the interval map ------------------------------------------------------------------------------------------------


def bitmap_levels(atoms: int) -> Ints:
    """The offset of each level of a bitmap of 32-bit words, and the end; a level has one bit a word of the lower
    one.
    """
    words = max(-(-atoms // 32), 1)
    levels = [0, words]
    while words > 1:
        words = -(-words // 32)
        levels.append(levels[-1] + words)
    return np.array(levels, np.int64)


@njit
def _all_set(levels: Ints) -> Ints:
    return np.full(levels[-1], 0xFFFFFFFF, np.int64)


@njit
def _start_of(bits: Ints, levels: Ints, atom: int) -> int:
    """The nearest set bit at or before `atom`; bit 0 is always set."""
    level, at = 0, int(atom)
    word = bits[at >> 5] & ((2 << (at & 31)) - 1)
    while word == 0:
        level += 1
        at = (at >> 5) - 1
        word = bits[levels[level] + (at >> 5)] & ((2 << (at & 31)) - 1)
    while True:
        high = 0
        if word >> 16:
            high, word = 16, word >> 16
        if word >> 8:
            high, word = high + 8, word >> 8
        if word >> 4:
            high, word = high + 4, word >> 4
        if word >> 2:
            high, word = high + 2, word >> 2
        if word >> 1:
            high += 1
        at = (at >> 5 << 5) + high
        if level == 0:
            return at
        level -= 1
        word = bits[levels[level] + at]
        at <<= 5


@njit
def _set_bit(bits: Ints, levels: Ints, atom: int) -> None:
    at = int(atom)
    for level in range(len(levels) - 1):
        word = levels[level] + (at >> 5)
        old = bits[word]
        bits[word] = old | (1 << (at & 31))
        if old != 0:
            return
        at >>= 5


@njit
def _clear_bit(bits: Ints, levels: Ints, atom: int) -> None:
    at = int(atom)
    for level in range(len(levels) - 1):
        word = levels[level] + (at >> 5)
        bits[word] &= ~(1 << (at & 31))
        if bits[word] != 0:
            return
        at >>= 5


# -- order -----------------------------------------------------------------------------------------------------------


@njit
def _ordered(order: Order, first: int, second: int) -> bool:
    """True if one access happens before another one of a different instruction (`happens_before.py`)."""
    i, j = order.instruction[first], order.instruction[second]
    if order.core[i] == order.core[j] and order.clock[j, order.column[i]] >= i:
        return True
    m, n = order.node[first], order.node[second]
    for chain in range(order.up.shape[1]):  # noqa: SIM110 (a kernel)
        if order.down[m, chain] <= order.up[n, chain]:
            return True
    return False


@njit
def _judge(order: Order, touched: Touched, first: int, second: int) -> int:
    """The kind of a bad pair, `first` earlier in the schedule; -1: it is not bad."""
    i, j = order.instruction[first], order.instruction[second]
    one, other = touched.stream[first], touched.stream[second]
    # Only bytes of one location are cut into the same elements.
    commute = touched.stream_atomic[one] > 0 and touched.stream_atomic[one] == touched.stream_atomic[other]
    commute = commute and touched.owner[first] == touched.owner[second]
    fetches = touched.stream_fetches[one] or touched.stream_fetches[other]
    if _ordered(order, first, second):
        if touched.owner[first] != touched.owner[second] or (commute and not fetches):
            return -1
        if order.time[j] >= 0 and order.time[i] >= order.time[j]:
            return UNFAITHFUL
        return UNFAITHFUL if order.core[i] == order.core[j] and i > j else -1
    possible = touched.unsure[first] or touched.unsure[second]
    if commute:
        return FETCHED if fetches else COMMUTING
    if order.core[i] == order.core[j]:
        return POSSIBLE_DEPENDENCE if possible else DEPENDENCE
    return POSSIBLE_RACE if possible else RACE


@njit
def _tied(order: Order, wrote: int, read: int, read_before: int, access: int, writes: bool) -> int:
    """The latest access of a queue that conflicts with another one on it at the same time; -1: none."""
    j = order.instruction[access]
    time = order.time[j]
    if time < 0:
        return -1
    for a in (wrote, read, read_before):
        if a >= 0 and order.instruction[a] != j and order.time[order.instruction[a]] == time:
            return a
        if not writes:
            break
    return -1


@njit
def _same_part(touched: Touched, one: int, other: int) -> bool:
    """True if two streams are of one sort: ordinary, or the same kind of atomics."""
    if touched.stream_fetches[one] != touched.stream_fetches[other]:
        return False
    return bool(touched.stream_atomic[one] == touched.stream_atomic[other])


# -- conflicts -------------------------------------------------------------------------------------------------------


@njit
def scan_conflicts(
    order: Order, touched: Touched, schedule: Ids, levels: Ints, atoms: int, slots: int, forget: bool, limit: int
) -> Pairs:
    """How many bad pairs of each kind there are, and up to `limit` pairs of each kind.

    `forget` lets a write replace the history that it comes after. Without it more of the bad pairs of a program that
    has some are found, and the work is no longer near linear.
    """
    streams = len(touched.stream_queue)
    count = np.zeros(KINDS, np.int64)
    found_first = np.empty((KINDS, limit), np.int32)
    found_second = np.empty((KINDS, limit), np.int32)
    seen_first = np.full(streams, -1, np.int32)  # the pair judged last, by the stream of its first access
    seen_second = np.full(streams, -1, np.int32)
    seen_kind = np.zeros(streams, np.int32)

    bits = _all_set(levels)
    end = np.arange(1, atoms + 1).astype(np.int32)
    head = np.full(atoms, -1, np.int32)
    # History: lists of (stream, latest write, latest read, next, latest read of an instruction before that one).
    # free[0]: the first free one; free[1]: how many.
    cells = np.empty((atoms + 2 * streams + 64, 5), np.int32)
    free = np.zeros(2, np.int64)
    _free_cells(cells, 0, free)
    # The same cells for atomless extents: of each slot a list by rising stream. Few of all streams use one slot.
    users = np.full(slots, -1, np.int32)
    last = np.full((slots, 3), -1, np.int64)  # the bounds of these lists
    first_row = _first_rows(order.core)

    for at in range(len(schedule)):
        b = schedule[at]
        r = touched.extent[b]
        s = touched.stream[b]
        queue = touched.stream_queue[s]
        writes = touched.write[b]
        # An atomic of the same kind may stay unordered with this write, so it need not come after what the write
        # replaces.
        is_atomic = touched.stream_atomic[s] > 0
        for k in range(touched.starts[r], touched.starts[r + 1]):
            lo, hi = touched.low[k], touched.high[k]
            if free[1] <= 2 * streams:
                cells = _more_cells(cells, free)
            _split(bits, levels, end, head, cells, free, lo)
            if hi < atoms:
                _split(bits, levels, end, head, cells, free, hi)
            clean = not touched.unsure[b]  # it may not write, and hides nothing
            cur = lo
            while cur < hi:
                cell = head[cur]
                mine = -1
                while cell >= 0:
                    other = cells[cell, 0]
                    if other == s:
                        mine = cell
                    elif is_atomic and not _same_part(touched, s, other):
                        clean = False
                    wrote, read = cells[cell, 1], cells[cell, 2]
                    if touched.stream_queue[other] == queue:
                        a = _tied(order, wrote, read, cells[cell, 4], b, writes)
                    else:
                        a = max(read, wrote) if writes else wrote
                    if a >= 0:
                        if seen_first[other] != a or seen_second[other] != b:
                            seen_first[other], seen_second[other] = a, b
                            seen_kind[other] = _judge(order, touched, a, b)
                            kind = seen_kind[other]
                            if kind >= 0:
                                if count[kind] < limit:
                                    found_first[kind, count[kind]] = a
                                    found_second[kind, count[kind]] = b
                                count[kind] += 1
                        if seen_kind[other] >= 0 and seen_kind[other] != UNFAITHFUL:
                            clean = False
                    cell = cells[cell, 3]
                if not writes or not forget:
                    if mine < 0:
                        if free[1] == 0:
                            cells = _more_cells(cells, free)
                        mine = _take_cell(cells, free, s, head[cur])
                        head[cur] = mine
                    if writes:
                        cells[mine, 1] = b
                    else:
                        if cells[mine, 2] >= 0 and order.instruction[cells[mine, 2]] != order.instruction[b]:
                            cells[mine, 4] = cells[mine, 2]
                        cells[mine, 2] = b
                cur = end[cur]
            if not (writes and forget):
                continue
            if clean:
                _replace(bits, levels, end, head, cells, free, lo, hi, s, b)
                continue
            cur = lo
            while cur < hi:
                cell = head[cur]
                while cell >= 0 and cells[cell, 0] != s:
                    cell = cells[cell, 3]
                if cell < 0:
                    if free[1] == 0:
                        cells = _more_cells(cells, free)
                    cell = _take_cell(cells, free, s, head[cur])
                    head[cur] = cell
                cells[cell, 1] = b
                cur = end[cur]
        # Atomless extents: overlapping pairs are listed.
        for k in range(touched.overlap_starts[r], touched.overlap_starts[r + 1]):
            slot = touched.overlaps[k]
            cell = -1 if _all_before(order, first_row, last[slot], b) else users[slot]
            while cell >= 0:
                other, wrote, read = cells[cell, 0], cells[cell, 1], cells[cell, 2]
                if touched.stream_queue[other] == queue:
                    a = _tied(order, wrote, read, cells[cell, 4], b, writes)
                else:
                    a = max(read, wrote) if writes else wrote
                cell = cells[cell, 3]
                if a >= 0:
                    kind = _judge(order, touched, a, b)
                    if kind >= 0:
                        if count[kind] < limit:
                            found_first[kind, count[kind]] = a
                            found_second[kind, count[kind]] = b
                        count[kind] += 1
        if touched.slot[r] >= 0:
            if free[1] == 0:
                cells = _more_cells(cells, free)
            mine = _user(users, cells, free, touched.slot[r], s)
            _extend(order, first_row, last[touched.slot[r]], b)
            if writes:
                cells[mine, 1] = b
            else:
                if cells[mine, 2] >= 0 and order.instruction[cells[mine, 2]] != order.instruction[b]:
                    cells[mine, 4] = cells[mine, 2]
                cells[mine, 2] = b
    return Pairs(count, found_first, found_second)


@njit
def _free_cells(cells: Column, begin: int, free: Ints) -> None:
    """Put the cells from `begin` on before the free ones."""
    rows = len(cells)
    cells[begin:rows, 3] = np.arange(begin + 1, rows + 1)
    cells[rows - 1, 3] = free[0] if free[1] > 0 else -1
    free[0] = begin
    free[1] += rows - begin


@njit
def _more_cells(cells: Column, free: Ints) -> Column:
    rows = len(cells)
    more = np.empty((2 * rows, 5), np.int32)
    more[:rows] = cells
    _free_cells(more, rows, free)
    return more


@njit
def _take_cell(cells: Column, free: Ints, stream: int, following: int) -> int:
    cell: int = free[0]
    free[0] = cells[cell, 3]
    free[1] -= 1
    cells[cell, 0] = stream
    cells[cell, 1] = -1
    cells[cell, 2] = -1
    cells[cell, 3] = following
    cells[cell, 4] = -1
    return cell


@njit
def _first_rows(core: Ids) -> Ids:
    """The first instruction of each core."""
    found = np.full(core.max() + 1 if len(core) else 0, -1, np.int32)
    for i in range(len(core)):
        if found[core[i]] < 0:
            found[core[i]] = i
    return found


@njit
def _extend(order: Order, first_row: Ids, last: Ints, access: int) -> None:
    """Bounds of a list of accesses with one more: the latest that any of them is complete on the first chain, the
    latest time, and the latest place in the list of a core.
    """
    i = order.instruction[access]
    if order.down.shape[1] > 0:
        last[0] = max(last[0], order.down[order.node[access], 0])
    last[1] = max(last[1], order.time[i])
    last[2] = max(last[2], i - first_row[order.core[i]])


@njit
def _all_before(order: Order, first_row: Ids, last: Ints, access: int) -> bool:
    """True if the bounds show that no access of a list makes a bad pair with a later one, as behind a fence."""
    j = order.instruction[access]
    if order.up.shape[1] == 0 or last[0] > order.up[order.node[access], 0]:
        return False
    return bool((order.time[j] < 0 or last[1] < order.time[j]) and last[2] < j - first_row[order.core[j]])


@njit
def _user(users: Ids, cells: Column, free: Ints, slot: int, stream: int) -> int:
    """The cell of a stream in the list of a slot; a new one if there is none. One cell must be free."""
    before, cell = -1, users[slot]
    while cell >= 0 and cells[cell, 0] < stream:
        before, cell = cell, cells[cell, 3]
    if cell >= 0 and cells[cell, 0] == stream:
        return int(cell)
    made = _take_cell(cells, free, stream, cell)
    if before < 0:
        users[slot] = made
    else:
        cells[before, 3] = made
    return made


@njit
def _split(bits: Ints, levels: Ints, end: Ids, head: Ids, cells: Column, free: Ints, atom: int) -> None:
    """Make an interval begin at `atom`, with the history of the one that it is cut from."""
    start = _start_of(bits, levels, atom)
    if start == atom:
        return
    end[atom] = end[start]
    end[start] = atom
    _set_bit(bits, levels, atom)
    head[atom] = -1
    cell = head[start]
    while cell >= 0:
        copy = _take_cell(cells, free, cells[cell, 0], head[atom])
        cells[copy, 1] = cells[cell, 1]
        cells[copy, 2] = cells[cell, 2]
        cells[copy, 4] = cells[cell, 4]
        head[atom] = copy
        cell = cells[cell, 3]


@njit
def _replace(
    bits: Ints,
    levels: Ints,
    end: Ids,
    head: Ids,
    cells: Column,
    free: Ints,
    low: int,
    high: int,
    stream: int,
    access: int,
) -> None:
    """Make one interval of `low:high` whose history is one write."""
    cur = low
    while cur < high:
        cell = head[cur]
        while cell >= 0:
            following = cells[cell, 3]
            cells[cell, 3] = free[0] if free[1] > 0 else -1
            free[0] = cell
            free[1] += 1
            cell = following
        head[cur] = -1
        if cur != low:
            _clear_bit(bits, levels, cur)
        cur = end[cur]
    end[low] = high
    # At least the cell of the history replaced, or one of those kept for splits, is free.
    head[low] = _take_cell(cells, free, stream, -1)
    cells[head[low], 1] = access


# -- overlapping locations -------------------------------------------------------------------------------------------


@njit
def _wholly_before(order: Order, lifetimes: Lifetimes, one: int, other: int) -> bool:
    """True if every access of one location happens before every access of another."""
    for k in range(lifetimes.starts[one], lifetimes.starts[one + 1]):
        for m in range(lifetimes.starts[other], lifetimes.starts[other + 1]):
            a, b = lifetimes.last[k], lifetimes.first[m]
            if order.instruction[a] == order.instruction[b] or not _ordered(order, a, b):
                return False
    return True


@njit
def scan_storage(
    order: Order,
    lifetimes: Lifetimes,
    sequence: Ids,
    permanent: Bools,
    lasting: Bools,
    starts: Ints,
    low: Ids,
    high: Ids,
    levels: Ints,
    atoms: int,
    limit: int,
) -> Pairs:
    """Pairs of locations where the second takes bytes of the first, which is still live.

    `sequence` lists the locations by their first access.
    Each location must come wholly after those that held its bytes before; earlier holders come before those, so only
    the last holder of each byte is examined. `lasting` ones are live to the end of the function, `permanent` ones
    from its start, too.
    """
    count = np.zeros(1, np.int64)
    found_first, found_second = np.empty((1, limit), np.int32), np.empty((1, limit), np.int32)
    bits = _all_set(levels)
    end = np.arange(1, atoms + 1).astype(np.int32)
    holder = np.full(atoms, -1, np.int32)
    checked = np.full(len(permanent), -1, np.int32)
    for at in range(len(sequence)):
        taker = sequence[at]
        for k in range(starts[taker], starts[taker + 1]):
            lo, hi = low[k], high[k]
            for edge in (lo, hi):
                if edge < atoms:
                    start = _start_of(bits, levels, edge)
                    if start != edge:
                        end[edge] = end[start]
                        end[start] = edge
                        _set_bit(bits, levels, edge)
                        holder[edge] = holder[start]
            cur = lo
            while cur < hi:
                held = holder[cur]
                if held >= 0 and held != taker and checked[held] != taker:
                    checked[held] = taker
                    if lasting[held] or permanent[taker] or not _wholly_before(order, lifetimes, held, taker):
                        if count[0] < limit:
                            found_first[0, count[0]] = held
                            found_second[0, count[0]] = taker
                        count[0] += 1
                if cur != lo:
                    _clear_bit(bits, levels, cur)
                cur = end[cur]
            end[lo] = hi
            holder[lo] = taker
    return Pairs(count, found_first, found_second)
