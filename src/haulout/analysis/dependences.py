"""Missing order inside a core: for every conflict an edge that orders it, unless it is ordered already.

One scan over each core's list with a vector clock: `clock[I][e]` is the last instruction of engine e known to be
complete when I is. Engines complete in order, so one number for each engine is enough, and for each conflicting
engine only the *latest* conflicting access matters. An edge is added when the clock does not cover it, the largest
row first, so an edge that another implies is not added: the result is transitively reduced.

Two kinds of conflict:

- by location: operands of one owner location whose patterns overlap. The accesses of a location are kept as one chain
  for each (engine, sort of access: read, write, atomic). A chain is walked from its end to the first access that
  overlaps. After `WALK_LIMIT` misses the next access counts without a test, which may add order, never lose it.
- by address, once locations are placed: a location that reuses the storage of another must wait for all accesses to
  it. An interval map (address -> last location there) gives the predecessors when a location is accessed; `need` has
  the row of each engine that it must wait for.

The scan itself is in `order_scan.py`; programs with loops and branches take `region_dependences.py`.
Cost: O((accesses + dependences) * engines), plus the interval map.
"""

from __future__ import annotations

import numpy as np

from haulout.analysis.order_scan import WALK_LIMIT, Footprint, Order, Paths, _scan_order
from haulout.analysis.overlap import Extents, extents
from haulout.ir.atomics import access_sorts
from haulout.ir.enums import NONE, DependenceKind, Engine, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Bytes, Dependences, Ids
from haulout.support.jit import plain_if_small


def missing_order(program: Program, kinds: set[DependenceKind], *, removable_fences: bool) -> Dependences:
    """Edges of the given kinds that the program lacks inside its cores; straight-line programs.

    `removable_fences`: whether barriers made by passes count. Before fences are final they must not, since the
    `minimal` policy removes them again. Conflicts by address count as WAR.
    """
    is_fence = np.zeros(len(program.instructions), bool)
    is_fence[local_fences(program, removable_fences)] = True
    forward = program.dependences.take(~program.dependences.carried)
    waits = np.searchsorted(forward.instruction, np.arange(len(program.instructions) + 1)).astype(np.int64)
    order = Order(
        program.access_starts,
        touched_owner(program),
        program.accesses.location,
        access_sorts(program),
        location_groups(program),
        program.instruction_function,
        engine_lines(program)[1],
        is_fence,
        waits,
        forward.producer,
    )
    waiting, producers, why, _ = scan(program, order, STRAIGHT, extents(program), kinds)
    return Dependences.make(len(waiting), instruction=waiting, producer=producers, kind=why)


_NO_IDS = np.zeros(0, np.int32)
STRAIGHT = Paths(
    scope=_NO_IDS,
    covers=np.zeros(0, np.int64),
    kind=_NO_IDS,
    parent=_NO_IDS,
    begin=_NO_IDS,
    end=_NO_IDS,
    join=_NO_IDS,
    tail=_NO_IDS,
    region=_NO_IDS,
    first=np.zeros(0, bool),
    event=_NO_IDS,
    event_at=_NO_IDS,
    depth=0,
)
"""The only path through a list without choices."""


def scan(
    program: Program, order: Order, paths: Paths, x: Extents, kinds: set[DependenceKind]
) -> tuple[Ids, Ids, Ids, Bools]:
    """(row, producer, kind, carried) of every edge that a list of rows lacks: the program's own list or an unrolled
    one; rows and producers are places in that list.
    """
    wanted = np.array([kind in kinds for kind in DependenceKind])
    lines = len(engine_lines(program)[0])
    # An access through a pattern may be compared with many others of its location; a plain read only with writes.
    owner, reads = order.owner + 1, order.sort == 1  # NONE first
    others = np.bincount(owner)[owner] - np.where(reads, np.bincount(owner, reads)[owner], 0)
    work = len(owner) + int(np.minimum(others[~x.exact], WALK_LIMIT // 2).sum())
    with plain_if_small(_scan_order, work):
        return _scan_order(x, order, footprint(program), paths, wanted, lines, len(program.locations))


def local_fences(program: Program, removable: bool) -> Ids:
    """Barriers that order their own core: those on engine `all`, of any participants; without `removable` only the
    user's.
    """
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


def location_groups(program: Program) -> Ids:
    """A number for (function, owner location) of each location: two views of one location have the same."""
    group: Ids = np.arange(len(program.locations), dtype=np.int32)
    views = np.flatnonzero(program.locations.remote_name != NONE)
    key = program.locations.function[views].astype(np.int64) * (len(group) + 1) + program.owner[views]
    _, first, same = np.unique(key, return_index=True, return_inverse=True)
    group[views] = views[first[same]]
    return group


def footprint(program: Program) -> Footprint:
    """Physical bytes of all locations, one space after the other; SBUF and PSUM by their offset in a partition."""
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
