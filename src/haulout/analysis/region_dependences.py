"""Order that is needed inside a core whose list has loops and branches: the scan over an unrolled list.

Each missing edge of the list (`unrolled.py`) becomes an edge of the program, by where its two ends stand:

    producer always runs before the consumer does     deps=[producer]
    the turn before of the innermost common loop      carried=[producer]
    the turn before of a loop further out             deps=[join of that loop]
    producer in a loop that the consumer is behind    deps=[join of that loop], or carried
    producer in an arm that the consumer is not in    deps=[join of that branch], or carried

Where several regions end between the two, the join is that of the outermost one. A loop's *join* is a `nop` in its
header. It waits, carried, for the last instruction of every engine of the turn before, and for the joins and the
headers of loops inside; so the header's last run is behind everything in the loop, and it dominates what stands
behind the loop, which the body does not. A branch's join is a `nop` at the start of the block where the arms meet; it
stands behind a `nop` at the end of each arm, which has gathered its engines. For engines that need not run in it, a
join waits for what they did before the region too: behind it, everything on them is complete on every way.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from haulout.analysis.dependences import (
    engine_lines,
    local_fences,
    location_groups,
    scan,
    touched_owner,
)
from haulout.analysis.order_scan import Order
from haulout.analysis.overlap import Extents, extents
from haulout.analysis.region_engines import region_engines
from haulout.analysis.regions import Regions
from haulout.analysis.unrolled import Joins, Unrolled, unroll
from haulout.ir.enums import LINES, DependenceKind
from haulout.ir.program import Program
from haulout.ir.schema import Dependences, Ids, Ints

Edge = tuple[int, int, bool]
"""(waiting row, producer row, carried)"""


def missing_region_order(
    program: Program, found: Regions, joins: Joins, kinds: set[DependenceKind], *, removable_fences: bool
) -> Dependences:
    """Edges that a program with loops or branches lacks inside its cores; its joins must be there."""
    lines, dense = engine_lines(program)
    line_of = np.zeros(LINES, np.int32)
    line_of[lines] = np.arange(len(lines))
    listing = unroll(program, found, joins, region_engines(program, found), line_of)
    order, x = _order(program, found, listing, dense, removable_fences)
    have = program.dependences
    known: set[Edge] = set(zip(have.instruction.tolist(), have.producer.tolist(), have.carried.tolist(), strict=True))
    edges: dict[Edge, int] = {}
    waiting, producers, why, carried = scan(program, order, listing.paths, x, kinds)
    columns = (listing.rows[waiting], listing.rows[producers], carried, why)
    for row, producer, back, kind in zip(*(column.tolist() for column in columns), strict=True):
        if (row, producer, back) not in known:
            edges.setdefault((row, producer, back), kind)
    ordered = sorted(edges)
    return Dependences.make(
        len(ordered),
        instruction=[edge[0] for edge in ordered],
        producer=[edge[1] for edge in ordered],
        carried=[edge[2] for edge in ordered],
        kind=[edges[edge] for edge in ordered],
    )


def _order(
    program: Program, found: Regions, listing: Unrolled, line: Ids, removable_fences: bool
) -> tuple[Order, Extents]:
    """The list as the scan reads it."""
    rows = listing.rows
    begin, end = program.access_starts[rows], program.access_starts[rows + 1]
    operands = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(end - begin, out=operands[1:])
    access = np.repeat(begin - operands[:-1], end - begin) + np.arange(operands[-1])
    is_fence = np.zeros(len(program.instructions), bool)
    is_fence[local_fences(program, removable_fences)] = True
    waits, producer = _waits(program, found, listing)
    x = extents(program)
    x = x._replace(low=x.low[access], high=x.high[access], exact=x.exact[access], pattern=x.pattern[access])
    order = Order(
        operands,
        touched_owner(program)[access],
        program.accesses.location[access],
        program.accesses.write[access],
        location_groups(program),
        program.instruction_function[rows],
        line[rows],
        is_fence[rows],
        waits,
        producer,
    )
    return order, x


def _waits(program: Program, found: Regions, listing: Unrolled) -> tuple[Ints, Ids]:
    """The program's own edges between positions of the list; without those that need not hold.

    An edge holds when its producer has run, in the turn that it names, on every way to the consumer.
    """
    have = program.dependences
    starts = np.searchsorted(have.instruction, np.arange(len(program.instructions) + 1)).tolist()
    producers, carried = have.producer.tolist(), have.carried.tolist()
    block = program.instructions.block
    holds = [
        (back or producers[edge] < row) and _always_ran(found, int(block[producers[edge]]), int(block[row]), back)
        for edge, (row, back) in enumerate(zip(have.instruction.tolist(), carried, strict=True))
    ]
    scope = listing.paths.scope.tolist()
    places: dict[int, list[int]] = defaultdict(list)
    waits, positions = [0], []
    for at, row in enumerate(listing.rows.tolist()):
        for edge in range(starts[row], starts[row + 1]):
            if not holds[edge]:
                continue
            wanted = [
                place
                for place in places[producers[edge]]
                if not carried[edge] or _is_turn_before(listing, scope[place], scope[at])
            ]
            if wanted:
                positions.append(wanted[-1])
        places[row].append(at)
        waits.append(len(positions))
    return np.array(waits, np.int64), np.array(positions, np.int32)


def _always_ran(found: Regions, producer: int, consumer: int, carried: bool) -> bool:
    """Whether block `producer` has run whenever `consumer` runs; carried: in each turn of the innermost loop around
    both."""
    around, mine = found.around(producer), found.around(consumer)
    common = 0
    while common < min(len(around), len(mine)) and around[common] == mine[common]:
        common += 1
    if carried:
        while common and not found.regions[around[common - 1]].is_loop:
            common -= 1
    inner = around[common:]
    if inner and found.regions[inner[-1]].is_loop and found.regions[inner[-1]].header == producer:
        inner.pop()
    return not inner


def _is_turn_before(listing: Unrolled, place: int, at: int) -> bool:
    """Whether scope `place` lies in the turn before of the innermost loop around both, seen from scope `at`."""
    theirs, mine = (listing.turns[scope] if scope >= 0 else () for scope in (place, at))
    common = 0
    while common < min(len(theirs), len(mine)) and theirs[common][0] == mine[common][0]:
        common += 1
    if not common or theirs[: common - 1] != mine[: common - 1]:
        return False
    return theirs[common - 1][1] == mine[common - 1][1] - 1
