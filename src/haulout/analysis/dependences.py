"""Order that is needed inside a core: for every conflict the edge that guarantees it, unless something does already.

One scan over each core's list with a vector clock: `clock[I][e]` is the last instruction of engine e known to be
complete when I is. Engines complete in order, so one number an engine says everything, and for each conflicting
engine only the *latest* conflicting access matters. An edge is added when the clock does not cover it, the largest
row first, so that what one edge implies costs no second one: the result is transitively reduced.

Two sorts of conflict:

- by location: operands of one owner location whose patterns meet. The accesses of a location are kept as one chain
  for each (engine, read or write); a chain is walked from its end to the first access that meets. After `WALK` misses
  the next access is taken without a look, which orders more than is needed and never less.
- by address, once locations are placed: a location whose storage was another's before it must wait for all that
  touched the other. An interval map (address -> last location there) yields the predecessors when a location is
  touched; what it has to wait for is one row an engine, `need[location]`.

Cost: O((accesses + dependences) * engines), plus the interval map.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.overlap import Extents, _scan_meets, extents
from haulout.analysis.straightline import last_fence
from haulout.ir.enums import NONE, DependenceKind, Engine, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Bytes, Dependences, Ids, Ints
from haulout.support.jit import njit, plain_if_small

WALK = 64
RAW, WAR, WAW = int(DependenceKind.RAW), int(DependenceKind.WAR), int(DependenceKind.WAW)


def missing_order(program: Program, kinds: set[DependenceKind], *, removable_fences: bool) -> Dependences:
    """Edges of the given kinds that the program lacks inside its cores; straight-line programs.

    `removable_fences`: whether barriers that passes made may be relied on. Before fences are final they may not,
    since the `minimal` policy takes them away again. Conflicts by address count as WAR.
    """
    fences = local_fences(program, removable_fences)
    is_fence = np.zeros(len(program.instructions), bool)
    is_fence[fences] = True
    forward = program.dependences.take(~program.dependences.carried)
    waits = np.searchsorted(forward.instruction, np.arange(len(program.instructions) + 1)).astype(np.int64)
    order = Order(
        program.access_starts,
        touched_owner(program),
        program.accesses.location,
        program.accesses.write,
        location_groups(program),
        program.instruction_function,
        engine_lines(program)[1],
        last_fence(program, fences),
        is_fence,
        waits,
        forward.producer,
    )
    waiting, producers, why = scan(program, order, extents(program), kinds)
    return Dependences.make(len(waiting), instruction=waiting, producer=producers, kind=why)


def scan(program: Program, order: Order, x: Extents, kinds: set[DependenceKind]) -> tuple[Ids, Ids, Ids]:
    """(row, producer, kind) of every missing edge of a list of rows, which may be the program's own or unrolled."""
    wanted = np.array([kind in kinds for kind in DependenceKind])
    lines = len(engine_lines(program)[0])
    with plain_if_small(_scan_order, len(order.owner)):
        return _scan_order(x, order, footprint(program), wanted, lines, len(program.locations))


def local_fences(program: Program, removable: bool) -> Ids:
    """Barriers that fence their own core: those on engine `all`, whoever takes part; the user's only, or all."""
    local = program.instructions.engine[program.barriers.instruction] == Engine.ALL
    if not removable:
        local &= program.barriers.made_by == NONE
    rows: Ids = program.barriers.instruction[local]
    return rows


def engine_lines(program: Program) -> tuple[Bytes, Ids]:
    """Engines in use, and the dense number of each instruction's."""
    used, line = np.unique(program.instructions.engine, return_inverse=True)
    dense: Ids = line.astype(np.int32)
    return used, dense


def touched_owner(program: Program) -> Ids:
    """Owner location of each access; NONE for a barrier's operands, which are handles, not accesses."""
    accesses = program.accesses
    barrier = np.zeros(len(program.instructions), bool)
    barrier[program.barriers.instruction] = True
    owner: Ids = np.where(barrier[accesses.instruction], NONE, program.owner[accesses.location]).astype(np.int32)
    return owner


class Order(NamedTuple):
    """A list of rows as the scan reads it: columns of rows and of their accesses."""

    operands: Ints
    owner: Ids
    """Owner location of each access; NONE: not an access."""
    location: Ids
    write: Bools
    group: Ids
    """Dense number of (function, owner location) for each location."""
    function: Ids
    line: Ids
    """Dense engine number of each instruction."""
    floor: Ids
    """Last fence before each instruction."""
    is_fence: Bools
    waits: Ints
    producer: Ids


def location_groups(program: Program) -> Ids:
    """Number of (function that looks, owner location) for each location: two views of one thing share it."""
    group: Ids = np.arange(len(program.locations), dtype=np.int32)
    views = np.flatnonzero(program.locations.remote_name != NONE)
    key = program.locations.function[views].astype(np.int64) * (len(group) + 1) + program.owner[views]
    _, first, same = np.unique(key, return_index=True, return_inverse=True)
    group[views] = views[first[same]]
    return group


class Footprint(NamedTuple):
    """Where locations lie, as ranks of compressed coordinates; `low == high` for those without an address."""

    low: Ids
    high: Ids


def footprint(program: Program) -> Footprint:
    """Physical bytes of all locations, spaces side by side; SBUF and PSUM by their offset inside a partition."""
    rows = program.locations
    placed = np.flatnonzero((rows.address != NONE) & (rows.size > 0))
    parts = np.where((rows.space >= Space.SBUF) & (rows.parts > 0), rows.parts, 1)[placed]
    begin = rows.address[placed]
    end = begin - (-rows.size[placed] // parts)
    # All DRAM is one axis; SBUF and PSUM have one each.
    axis = np.maximum(rows.space[placed], Space.DRAM_SHARED)
    low, high = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
    base = 0
    for space in np.unique(axis).tolist():
        mine = axis == space
        points = np.unique(np.concatenate([begin[mine], end[mine]]))
        low[placed[mine]] = base + np.searchsorted(points, begin[mine])
        high[placed[mine]] = base + np.searchsorted(points, end[mine])
        base += len(points)
    return Footprint(low, high)


@njit
def _scan_order(
    x: Extents, order: Order, print_: Footprint, wanted: Bools, lines: int, locations: int
) -> tuple[Ids, Ids, Ids]:
    """(instruction, producer, kind) of every missing edge; see the module's text."""
    rows = len(order.line)
    clock = np.full((rows, lines), -1, np.int32)
    previous = np.full(len(order.owner), -1, np.int32)
    """Of each access: the one before it in its chain."""
    groups = 0
    for location in range(locations):
        groups = max(groups, order.group[location] + 1)
    head = np.full((groups, lines, 2), -1, np.int32)
    instruction_of = np.empty(len(order.owner), np.int32)
    # Interval map of the function at hand: segments [start[i], start[i + 1]) hold location `holder[i]`.
    start = np.empty(16, np.int32)
    holder = np.empty(16, np.int32)
    segments = np.int64(0)
    whole = np.zeros(locations, np.bool_)
    touched = np.full((locations, lines), -1, np.int32)
    need = np.full((locations, lines), -1, np.int32)
    latest = np.full(lines, -1, np.int32)
    function = -1
    out_row = np.empty(1024, np.int32)
    out_producer = np.empty(1024, np.int32)
    out_kind = np.empty(1024, np.int32)
    found = 0
    best = np.empty(lines, np.int32)
    best_kind = np.empty(lines, np.int32)
    for row in range(rows):
        line = order.line[row]
        if order.function[row] != function:
            function = order.function[row]
            segments = np.int64(0)
            latest[:] = -1
        now = clock[row]
        if latest[line] >= 0:
            now[:] = clock[latest[line]]
        if order.floor[row] >= 0:
            now[:] = np.maximum(now, order.floor[row])
        for wait in range(order.waits[row], order.waits[row + 1]):
            producer = order.producer[wait]
            if producer < row:
                now[:] = np.maximum(now, clock[producer])
        first, last = order.operands[row], order.operands[row + 1]
        best[:] = -1
        for access in range(first, last):
            # Before any is judged: two operands of one instruction may lie on the same bytes.
            if order.owner[access] >= 0:
                touched[order.location[access], line] = row
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
                for chain in range(2 if order.write[access] else 1):
                    # Chain 0: what was written there, 1: what was read.
                    why = RAW if not order.write[access] else (WAW if chain == 0 else WAR)
                    if not wanted[why]:
                        continue
                    at = head[group, other, chain]
                    seen = 0
                    while at >= 0 and instruction_of[at] > max(now[other], best[other]):
                        if seen == WALK or _scan_meets(x, at, access):
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
                        best[other] = need[location, other]
                        best_kind[other] = WAR
        # The largest row first: its clock may cover the others.
        while True:
            pick = -1
            for other in range(lines):
                if best[other] > now[other] and (pick < 0 or best[other] > best[pick]):
                    pick = other
            if pick < 0:
                break
            if found == len(out_row):
                out_row = _scan_double(out_row)
                out_producer = _scan_double(out_producer)
                out_kind = _scan_double(out_kind)
            out_row[found], out_producer[found], out_kind[found] = row, best[pick], best_kind[pick]
            found += 1
            now[:] = np.maximum(now, clock[best[pick]])
        for access in range(first, last):
            if order.owner[access] >= 0:
                location = order.location[access]
                group = order.group[location]
                chain = 0 if order.write[access] else 1
                previous[access] = head[group, line, chain]
                head[group, line, chain] = access
        now[line] = row
        if order.is_fence[row]:
            now[:] = row
        latest[line] = row
    return out_row[:found], out_producer[:found], out_kind[:found]


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
