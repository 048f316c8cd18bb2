"""Order that is needed inside a core whose list has loops and forks: the scan over an unrolled list.

Each missing edge of the list (`unrolled.py`) becomes an edge of the program, by where its two ends are:

    producer always runs before the consumer does          deps=[producer]
    the previous iteration of the innermost common loop    carried=[producer]
    the previous iteration of a loop further out           deps=[join of that loop]
    producer in a loop that the consumer comes after       deps=[join of that loop], or carried
    producer in an arm that the consumer is not in         deps=[join of that fork], or carried

Where several regions end between the two, the join is that of the outermost one. The join of a loop is a `nop` in its
header. It waits, carried, for the last instruction of every engine of the previous iteration, and for the joins and
the headers of loops inside; so the last run of the header comes after everything in the loop, and it dominates what
follows the loop, which the body does not. The join of a fork is a `nop` at the start of the block where the arms end;
it comes after a `nop` at the end of each arm, which has gathered its engines. For engines that need not run in it, a
join waits for what they did before the region too: after it, everything on them is complete on every path.
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
from haulout.analysis.unrolled import Joins, Turns, Unrolled, unroll
from haulout.ir.atomics import access_sorts
from haulout.ir.enums import LINES, NONE, DependenceKind
from haulout.ir.program import Program
from haulout.ir.schema import Dependences, Ids, Ints
from haulout.ir.structure import Structure

Edge = tuple[int, int, bool]
"""(waiting row, producer row, carried)"""


def missing_region_order(
    program: Program, joins: Joins, kinds: set[DependenceKind], *, removable_fences: bool
) -> Dependences:
    """Edges that a program with loops or forks lacks inside its cores; it must have its joins."""
    lines, dense = engine_lines(program)
    line_of = np.zeros(LINES, np.int32)
    line_of[lines] = np.arange(len(lines))
    listing = unroll(program, joins, region_engines(program), line_of)
    order, x = _order(program, listing, dense, removable_fences)
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


def _order(program: Program, listing: Unrolled, line: Ids, removable_fences: bool) -> tuple[Order, Extents]:
    """The list as the scan reads it."""
    rows = listing.rows
    begin, end = program.access_starts[rows], program.access_starts[rows + 1]
    operands = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(end - begin, out=operands[1:])
    access = np.repeat(begin - operands[:-1], end - begin) + np.arange(operands[-1])
    is_fence = np.zeros(len(program.instructions), bool)
    is_fence[local_fences(program, removable_fences)] = True
    waits, producer = _waits(program, listing)
    x = extents(program)
    x = x._replace(low=x.low[access], high=x.high[access], exact=x.exact[access], pattern=x.pattern[access])
    order = Order(
        operands,
        touched_owner(program)[access],
        program.accesses.location[access],
        access_sorts(program)[access],
        location_groups(program),
        program.instruction_function[rows],
        line[rows],
        is_fence[rows],
        waits,
        producer,
    )
    return order, x


def _waits(program: Program, listing: Unrolled) -> tuple[Ints, Ids]:
    """The program's own edges between positions of the list; without those that need not hold.

    An edge holds when its producer has run, in the iteration that it names, on every path to the consumer.
    """
    have = program.dependences
    starts = np.searchsorted(have.instruction, np.arange(len(program.instructions) + 1)).tolist()
    producers, carried = have.producer.tolist(), have.carried.tolist()
    structure, block = program.structure, program.instructions.block.tolist()
    holds = [
        (back or producers[edge] < row) and _always_ran(structure, block[producers[edge]], block[row], back)
        for edge, (row, back) in enumerate(zip(have.instruction.tolist(), carried, strict=True))
    ]
    common = {
        edge: loops
        for edge, row in enumerate(have.instruction.tolist())
        if carried[edge] and holds[edge] and (loops := _common_loops(structure, block[producers[edge]], block[row]))
    }
    """Of each carried edge: how many loops are around both its ends, the innermost of which carries it."""
    behind: dict[int, list[int]] = defaultdict(list)
    for edge in common:
        behind[producers[edge]].append(edge)
    turns_of = [listing.turns[scope] if scope >= 0 else () for scope in listing.paths.scope.tolist()]
    latest: dict[int, int] = {}
    """Row -> its last position so far."""
    ran: dict[tuple[int, Turns], int] = {}
    """(carried edge, iteration of the loops that carry it) -> the last position of its producer."""
    waits, positions = [0], []
    for at, (row, turns) in enumerate(zip(listing.rows.tolist(), turns_of, strict=True)):
        for edge in range(starts[row], starts[row + 1]):
            if edge in common:
                *outer, (loop, turn) = turns[: common[edge]]
                place = ran.get((edge, (*outer, (loop, turn - 1))))
            else:
                place = latest.get(producers[edge]) if holds[edge] and not carried[edge] else None
            if place is not None:
                positions.append(place)
        latest[row] = at
        for edge in behind.get(row, ()):
            ran[edge, turns[: common[edge]]] = at
        waits.append(len(positions))
    return np.array(waits, np.int64), np.array(positions, np.int32)


def _common_loops(structure: Structure, one: int, other: int) -> int:
    """How many loops are around both of two blocks."""
    loop = structure.common_loop(one, other)
    return len(structure.loops_around(structure.loops[loop].header)) if loop != NONE else 0


def _always_ran(structure: Structure, producer: int, consumer: int, carried: bool) -> bool:
    """Whether block `producer` has run whenever `consumer` runs; carried: in each iteration of the innermost loop
    around both.
    """
    if carried:
        within = structure.common_loop(producer, consumer)
    else:
        within = structure.common_region(producer, consumer)
    region = structure.region_of[producer]
    if region != within and producer in structure.loop_at:
        region = structure.regions[region].parent
    return region == within
