"""Edges that nothing else implies: the transitive reduction of the order inside each core.

Forward edges. `clock[I][e]` is the last row of engine e that is known to be complete when I starts, in its latest
run. Rows are looked at along the tree of dominators: a block starts with what was known at the end of the block that
it is entered from. Of an instruction's edges the one to the largest row goes first; its clock is joined, and an edge
that the clock covers goes away. In a straight list that is *the* transitive reduction (an acyclic order has one).

Carried edges, loop by loop. An edge to row P of the turn before goes away when an instruction of this turn on P's
engine is known to be complete, or when a row of the turn before at or behind P is. What is known of the turn before:
an engine's first instruction of a turn knows what its last one of the turn before knew; forward edges pass it on.
Only rows that run in every turn carry such knowledge; an inner loop's body, which may not, is wholly before the
next of them. In the first turn there is nothing to wait for.

Nothing that is kept relies on what is dropped, so the order stays what it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.dependences import engine_lines, local_fences
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Column, Dependences, Ids, Ints
from haulout.support.diagnostics import bad_input
from haulout.support.jit import njit, plain_if_small


class Reduced(NamedTuple):
    """Edges that are left, sorted by (waiting row, producer from the last); and what is known at each row."""

    edges: Dependences
    clock: Ids
    """(rows, lines): see the module's text."""
    line: Ids
    """Dense engine number of each instruction."""


def reduce_order(program: Program, edges: Dependences) -> Reduced:
    """The transitive reduction of `edges` inside each core; `bad-input` where an edge has no meaning."""
    order = np.lexsort((-edges.producer, edges.instruction))
    edges = edges.take(order)
    _check_meaning(program, edges)
    forward, carried = edges.take(~edges.carried), edges.take(edges.carried)
    lines, line = engine_lines(program)
    fence = np.zeros(len(program.instructions), bool)
    fence[local_fences(program, True)] = True
    waits = np.searchsorted(forward.instruction, np.arange(len(line) + 1)).astype(np.int64)
    starts, dominator = program.starts("instructions", "blocks"), np.array(program.structure.dominator, np.int32)
    with plain_if_small(_scan_forward, len(line)):
        keep, clock, last, floor = _scan_forward(starts, dominator, line, fence, waits, forward.producer, len(lines))
    kept = [forward.take(keep)]
    if len(carried):
        kept.append(_reduce_carried(program, kept[0], carried, (line, fence, clock, last, floor)))
    left = kept[0] if len(kept) == 1 else kept[0].append(kept[1])
    return Reduced(left.take(np.lexsort((left.carried, -left.producer, left.instruction))), clock, line)


def _check_meaning(program: Program, edges: Dependences) -> None:
    structure, block = program.structure, program.instructions.block
    waiting, producer = block[edges.instruction], block[edges.producer]
    straight = (waiting == producer) & ~edges.carried
    if not structure:
        straight |= ~edges.carried & (waiting > producer)
    # Few are left to look at one by one: a block pair decides.
    seen: dict[tuple[int, int, bool], bool] = {}
    for at in np.flatnonzero(~straight).tolist():
        here, there, carried = int(waiting[at]), int(producer[at]), bool(edges.carried[at])
        key = (here, there, carried)
        if key not in seen:
            if carried:
                seen[key] = structure.common_loop(here, there) != NONE
            else:
                seen[key] = structure.dominates(there, here)
        if not seen[key]:
            bad_input(
                "it waits for the turn before of a loop that is not around both"
                if carried
                else "it waits for an instruction that does not run whenever it does",
                instruction_label(program, int(edges.instruction[at])),
                instruction_label(program, int(edges.producer[at])),
            )


@njit
def _scan_forward(
    starts: Ints, dominator: Ids, line: Ids, fence: Bools, waits: Ints, producer: Ids, lines: int
) -> tuple[Bools, Ids, Ids, Ids]:
    """(which edges stay, clock, last row of each line at the end of each block, last fence there)."""
    blocks = len(dominator)
    clock = np.full((len(line), lines), -1, np.int32)
    last = np.full((blocks, lines), -1, np.int32)
    floor = np.full(blocks, -1, np.int32)
    keep = np.zeros(len(producer), np.bool_)
    latest = np.full(lines, -1, np.int32)
    newest = np.int64(-1)
    for block in range(blocks):
        source = dominator[block]
        newest = np.int64(-1)
        latest[:] = -1
        if source >= 0:
            newest = np.int64(floor[source])
            latest[:] = last[source]
        for row in range(starts[block], starts[block + 1]):
            here = line[row]
            now = clock[row]
            if latest[here] >= 0:
                now[:] = clock[latest[here]]
            if newest >= 0:
                now[:] = np.maximum(now, newest)
            if fence[row]:
                # It starts when everything before it is complete: it needs no edge.
                now[:] = row
                newest = np.int64(row)
            else:
                for wait in range(waits[row], waits[row + 1]):
                    other = producer[wait]
                    if now[line[other]] < other:
                        keep[wait] = True
                        now[:] = np.maximum(now, clock[other])
                now[here] = row
            latest[here] = row
        last[block] = latest
        floor[block] = newest
    return keep, clock, last, floor


# -- carried ---------------------------------------------------------------------------------------------------------


def _reduce_carried(
    program: Program, forward: Dependences, carried: Dependences, known: tuple[Column, ...]
) -> Dependences:
    line, fence, clock, last, floor = known
    structure, block = program.structure, program.instructions.block
    starts, dominator = program.starts("instructions", "blocks"), np.array(structure.dominator, np.int32)
    loop_of = np.array(
        [
            structure.common_loop(int(here), int(there))
            for here, there in zip(block[carried.instruction], block[carried.producer], strict=True)
        ]
    )
    keep = np.zeros(len(carried), bool)
    for loop in np.unique(loop_of).tolist():
        mine = np.flatnonzero(loop_of == loop)
        each = structure.loops[loop]
        begin, end = int(starts[each.begin]), int(starts[each.end])
        # Blocks that run in every iteration dominate the latch.
        every_turn = np.array([structure.dominates(at, each.latch) for at in range(each.begin, each.end)])
        producers = carried.producer[mine]
        steady = every_turn[block[producers] - each.header]
        rows = np.arange(begin, end + 1)
        waits = np.searchsorted(carried.instruction[mine], rows)
        inside = (forward.instruction >= begin) & (forward.instruction < end) & (forward.producer >= begin)
        local = forward.take(inside)
        ahead = np.searchsorted(local.instruction, rows)
        base = _turn_before(clock, last[each.latch], int(floor[each.latch]), begin)
        with plain_if_small(_scan_carried, end - begin):
            keep[mine] = _scan_carried(
                starts[each.begin : each.end + 1],
                dominator[each.begin : each.end] - each.begin,
                line[begin:end],
                fence[begin:end],
                clock[begin:end],
                base,
                ahead,
                local.producer,
                waits,
                producers,
                steady,
            )
    return carried.take(keep)


def _turn_before(clock: Ids, last: Ids, floor: int, begin: int) -> Ids:
    """(lines, lines): what an engine's first instruction of a turn knows of the turn before, from `begin` on."""
    base = np.full((len(last), len(last)), NONE, np.int32)
    if floor >= begin:
        base[:] = floor
    for own, row in enumerate(last.tolist()):
        if row >= begin:
            base[own] = np.maximum(base[own], clock[row])
    return base


@njit
def _scan_carried(
    starts: Ints,
    dominator: Ids,
    line: Ids,
    fence: Bools,
    clock: Ids,
    base: Ids,
    ahead: Ints,
    ahead_producer: Ids,
    waits: Ints,
    producer: Ids,
    steady: Bools,
) -> Bools:
    """Which carried edges of one loop stay; rows and blocks count from the loop's first, producers do not."""
    begin = starts[0]
    lines = base.shape[0]
    blocks = len(dominator)
    known = np.full((len(line), lines), -1, np.int32)
    last = np.full((blocks, lines), -1, np.int32)
    latest = np.full(lines, -1, np.int32)
    keep = np.zeros(len(producer), np.bool_)
    for block in range(blocks):
        latest[:] = -1
        if block > 0:
            latest[:] = last[dominator[block]]
        for row in range(starts[block] - begin, starts[block + 1] - begin):
            here = line[row]
            now = known[row]
            now[:] = base[here] if latest[here] < 0 else known[latest[here]]
            for wait in range(ahead[row], ahead[row + 1]):
                now[:] = np.maximum(now, known[ahead_producer[wait] - begin])
            for wait in range(waits[row], waits[row + 1]):
                other = producer[wait] - begin
                there = line[other]
                if fence[row] or there == here or clock[row, there] >= begin or now[there] >= producer[wait]:
                    continue
                keep[wait] = True
                if steady[wait]:
                    now[:] = np.maximum(now, clock[other])
            latest[here] = row
        last[block] = latest
    return keep
