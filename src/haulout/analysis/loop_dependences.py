"""Order that is needed inside a core whose list has loops: the scan of `dependences.py` over an unrolled list.

Every loop runs twice in the list: the first copy shows what one iteration needs, the second what an iteration needs
of the one before; addresses do not move, so later ones need nothing else. Each missing edge of the list becomes an
edge of the program, by where its two ends stand:

    same iteration of all loops around both           deps=[producer]
    the next iteration of the innermost common loop   carried=[producer]
    producer in a loop that the consumer is behind    deps=[join of that loop]
    the next iteration of a loop further out          deps=[join of that loop]

The *join* of a loop is a `nop` in its header that waits, carried, for the last instruction of every engine of the
previous iteration, and for the joins and the headers of loops inside. The header runs once more than the body, so its
last run is behind everything in the loop; and it dominates what stands behind the loop, which the body does not.
A loop that may run zero times is also left out of the list once: what stands around it must not lean on it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from haulout.analysis.dependences import Order, engine_lines, local_fences, location_groups, scan, touched_owner
from haulout.analysis.loops import Copy, Loops, unrolled, variants
from haulout.analysis.overlap import Extents, extents
from haulout.ir.enums import NONE, DependenceKind
from haulout.ir.program import Program
from haulout.ir.schema import Dependences, Ids

Edge = tuple[int, int, bool]
"""(waiting row, producer row, carried)"""


def missing_loop_order(
    program: Program,
    found: Loops,
    joins: list[int],
    kinds: set[DependenceKind],
    *,
    removable_fences: bool,
) -> Dependences:
    """Edges that a program with loops lacks inside its cores. `joins[k]` is the row of the join of loop k."""
    have = program.dependences
    known: set[Edge] = set(zip(have.instruction.tolist(), have.producer.tolist(), have.carried.tolist(), strict=True))
    edges: dict[Edge, int] = {}
    for skipped in variants(program, found):
        listing = _Listing(program, found, skipped)
        order, x = listing.order(removable_fences)
        for row, producer, kind in zip(*(column.tolist() for column in scan(program, order, x, kinds)), strict=True):
            edge = listing.edge(row, producer, joins)
            if edge not in known:
                edges.setdefault(edge, kind)
    ordered = sorted(edges)
    return Dependences.make(
        len(ordered),
        instruction=[edge[0] for edge in ordered],
        producer=[edge[1] for edge in ordered],
        carried=[edge[2] for edge in ordered],
        kind=[edges[edge] for edge in ordered],
    )


class _Listing:
    """A program's rows in the order in which they run when loops run twice or, if skipped, not at all."""

    def __init__(self, program: Program, found: Loops, skipped: frozenset[int]) -> None:
        self.program, self.found = program, found
        self.copies: list[Copy] = unrolled(program, found, skipped)
        starts = program.starts("instructions", "blocks")
        blocks = np.array([copy.block for copy in self.copies], np.int64)
        count = starts[blocks + 1] - starts[blocks]
        first = np.cumsum(count) - count
        within = np.arange(int(count.sum())) - np.repeat(first, count)
        self.rows: Ids = (np.repeat(starts[blocks], count) + within).astype(np.int32)
        self.copy: Ids = np.repeat(np.arange(len(blocks)), count).astype(np.int32)

    def order(self, removable_fences: bool) -> tuple[Order, Extents]:
        """The list as the scan reads it."""
        program, rows = self.program, self.rows
        begin, end = program.access_starts[rows], program.access_starts[rows + 1]
        operands = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(end - begin, out=operands[1:])
        access = np.repeat(begin - operands[:-1], end - begin) + np.arange(operands[-1])
        is_fence = np.zeros(len(program.instructions), bool)
        is_fence[local_fences(program, removable_fences)] = True
        fence = is_fence[rows]
        function = program.instruction_function[rows]
        marks = np.full(len(rows) + 1, NONE, np.int64)
        marks[1:][fence] = np.flatnonzero(fence)
        floor = np.maximum.accumulate(marks[:-1]) if len(rows) else marks[:0]
        floor = np.where((floor == NONE) | (function[floor] != function), NONE, floor)
        waits, producer = self._waits()
        x = extents(program)
        x = x._replace(low=x.low[access], high=x.high[access], exact=x.exact[access], pattern=x.pattern[access])
        order = Order(
            operands,
            touched_owner(program)[access],
            program.accesses.location[access],
            program.accesses.write[access],
            location_groups(program),
            function,
            engine_lines(program)[1][rows],
            floor.astype(np.int32),
            fence,
            waits,
            producer,
        )
        return order, x

    def _waits(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Ids]:
        """The program's own edges between positions of the list."""
        have = self.program.dependences
        starts = np.searchsorted(have.instruction, np.arange(len(self.program.instructions) + 1)).tolist()
        producers, carried = have.producer.tolist(), have.carried.tolist()
        places: dict[int, list[int]] = defaultdict(list)
        waits, found = [0], []
        for at, row in enumerate(self.rows.tolist()):
            for edge in range(starts[row], starts[row + 1]):
                wanted = [
                    place
                    for place in places[producers[edge]]
                    if not carried[edge] or self._is_previous(place, at, producers[edge])
                ]
                if wanted:
                    found.append(wanted[-1])
            places[row].append(at)
            waits.append(len(found))
        return np.array(waits, np.int64), np.array(found, np.int32)

    def _is_previous(self, place: int, at: int, producer: int) -> bool:
        """Whether a position lies in the previous iteration of the innermost loop that contains both."""
        mine, theirs = self.copies[self.copy[at]], self.copies[self.copy[place]]
        depth = _common(mine, theirs)
        if depth == 0 or mine.copies[: depth - 1] != theirs.copies[: depth - 1]:
            return False
        return bool(theirs.copies[depth - 1] == mine.copies[depth - 1] - 1)

    def edge(self, at: int, place: int, joins: list[int]) -> Edge:
        """The program's edge that makes position `at` wait for position `place`; see the table above."""
        mine, theirs = self.copies[self.copy[at]], self.copies[self.copy[place]]
        row, producer = int(self.rows[at]), int(self.rows[place])
        depth = _common(mine, theirs)
        differ = next((level for level in range(depth) if mine.copies[level] != theirs.copies[level]), depth)
        if differ < depth - 1:
            return row, joins[mine.loops[differ]], False
        if len(theirs.loops) > depth:
            # The producer is in a loop that the consumer is not in: its header dominates, its body does not.
            inner = theirs.loops[depth]
            if len(theirs.loops) > depth + 1 or theirs.block != self.found.loops[inner].header:
                producer = joins[inner]
        return row, producer, differ == depth - 1


def _common(one: Copy, other: Copy) -> int:
    """How many loops, from the outermost, are around both."""
    depth = 0
    while depth < min(len(one.loops), len(other.loops)) and one.loops[depth] == other.loops[depth]:
        depth += 1
    return depth
