"""A program whose lists were reordered must keep the order of every conflict of the program that it was made from.

The compiled program is proved against its `seq`. When a pass gives new ones, that proof needs another: the new `seq`
order every conflicting pair as the old ones do. Both programs must have the same instructions, up to their places in
a block and `seq`; then a sweep in the new order keeps for every atom (`extents.py`) the latest old time of a read and
of a write of it. An access that finds a time later than its own there has changed its order with that one.

Time is (block, `seq`, core, place in the list). In a second sweep the cores count downward, so that two cores with
equal `seq` on one side must have equal `seq` on the other side too: such a pair has no order, and may get none. No
path through loops is followed: blocks stay where they are, so pairs of different blocks keep their order.

Atomic accesses count as ordinary ones, and bytes are those of the owners: a program with addresses, where locations
may share bytes, is not for this proof.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from haulout.checker.model import Function, Model, functions
from haulout.checker.proofs.extents import find_extents
from haulout.checker.proofs.storage_map import logical_map
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Accesses, Bools, Dependences, Edges, Ids, Ints, Steps, Table
from haulout.support.diagnostics import Diagnostic, Severity, Subject
from haulout.support.jit import njit, plain_if_small


def check_reordered(before: Program, after: Program, origin: Ids) -> list[Diagnostic]:
    """Findings where `after`, before it is placed, is not `before` with some instructions moved inside their blocks,
    or orders a conflict in another way; an empty list is the proof.

    `origin` is the row in `before` of each instruction of `after`. Both need a `seq` everywhere.
    """
    if changed := _changed(before, after, origin):
        message = f"more than the order and seq of instructions has changed: {changed}"
        return [Diagnostic("unfaithful-order", Severity.ERROR, message, subject=Subject("changed program"))]
    found = []
    for function in functions(_in_layout_order(after)):
        if isinstance(function, Function):
            found += _check(function.straight(), before.instructions.seq[origin], origin)
        else:
            found += function
    return found


def _changed(before: Program, after: Program, origin: Ids) -> str | None:
    """The first column that differs where only order and `seq` may."""
    rows = len(before.instructions)
    if len(origin) != rows or len(after.instructions) != rows or np.any(np.bincount(origin, minlength=rows) != 1):
        return "the number of instructions"
    if np.any(before.locations.address[before.accesses.location] != NONE):
        return "locations have addresses"
    position = np.empty(rows, np.int32)
    position[origin] = np.arange(rows, dtype=np.int32)
    for name in ("modules", "functions", "blocks", "edges", "locations", "patterns", "dims"):
        if not _equal(before.table(name), after.table(name)):
            return name
    if not _equal(replace(before.instructions.take(origin), seq=after.instructions.seq), after.instructions):
        return "instructions"
    access = np.argsort(position[before.accesses.instruction], kind="stable")
    place = np.empty(len(access), np.int32)
    place[access] = np.arange(len(access), dtype=np.int32)
    maps = {"instructions": position, "accesses": place}
    for name in ("accesses", "steps", "dependences", "barriers", "meetings", "semaphores"):
        if not _equal(_ordered(before.table(name).remap(maps)), _ordered(after.table(name))):
            return name
    return None


def _ordered(table: Table) -> Table:
    """The rows by instruction; in all tables but that of accesses their order has no further meaning."""
    columns = list(table.columns().values())
    if isinstance(table, Accesses):
        return table.take(np.argsort(columns[0], kind="stable"))
    return table.take(np.lexsort(columns[::-1])) if len(table) else table


def _equal(one: Table, other: Table) -> bool:
    mine, theirs = one.columns(), other.columns()
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def _in_layout_order(program: Program) -> Program:
    """Every function as straight code: its blocks in layout order, once each."""
    function = program.blocks.function
    source = np.flatnonzero(function[1:] == function[:-1]).astype(np.int32)
    blocks = program.blocks
    straight = blocks.replace(
        cond=np.full(len(blocks), NONE, np.int32),
        trip=np.full(len(blocks), NONE, np.int64),
        divergent=np.zeros(len(blocks), bool),
    )
    pattern = program.accesses.pattern.copy()
    pattern[program.steps.access] = NONE  # it moves with an iteration
    return program.replace(
        blocks=straight,
        edges=Edges.make(len(source), source=source, target=source + 1),
        accesses=program.accesses.replace(pattern=pattern),
        steps=Steps.empty(),
        dependences=Dependences.empty(),
    )


def _check(model: Model, old_seq: Ints, origin: Ids) -> list[Diagnostic]:
    """Findings for one function, its blocks one list."""
    extents = find_extents(model, logical_map(model))
    atoms, slots = max(len(extents.first_key), 1), int(extents.slot.max(initial=NONE)) + 1
    block = model.program.instructions.block[model.rows] % max(len(model.program.blocks) // model.cores, 1)
    new, old, place = model.program.instructions.seq[model.rows], old_seq[model.rows], origin[model.rows]
    each = extents.of_access
    work = int((np.diff(extents.starts) + np.diff(extents.overlap_starts))[each].sum())
    for core in (model.core, -model.core):
        rank = np.empty(len(model.rows), np.int32)
        rank[np.lexsort((place, core, old, block))] = np.arange(len(rank), dtype=np.int32)
        turn = np.empty(len(model.rows), np.int32)
        turn[np.lexsort((model.rows, core, new, block))] = np.arange(len(rank), dtype=np.int32)
        schedule = np.argsort(turn[model.instruction], kind="stable").astype(np.int32)
        with plain_if_small(scan_order, 2 * work):
            first, second = scan_order(
                schedule,
                rank[model.instruction],
                each,
                model.write,
                extents.starts,
                extents.low,
                extents.high,
                extents.slot,
                extents.overlap_starts,
                extents.overlaps,
                atoms,
                slots,
            )
        if second != NONE:
            return [_moved(model, int(np.flatnonzero(rank == first)[0]), int(model.instruction[second]))]
    return []


def _moved(model: Model, first: int, second: int) -> Diagnostic:
    message = (
        f"{model.name(first)} on core {model.core[first]} and {model.name(second)} on core {model.core[second]} "
        f"conflict, and their order is not that of the source"
    )
    entities = (model.instruction_entity(first), model.instruction_entity(second))
    subject = Subject(
        "moved conflict", model.function, entities, cores=tuple(sorted({each.core for each in entities}))
    )
    return Diagnostic(
        "unfaithful-order", Severity.ERROR, message, (model.label(second), model.label(first)), subject=subject
    )


@njit
def scan_order(
    schedule: Ids,
    rank: Ids,
    extent: Ids,
    write: Bools,
    starts: Ints,
    low: Ids,
    high: Ids,
    slot: Ids,
    overlap_starts: Ints,
    overlaps: Ids,
    atoms: int,
    slots: int,
) -> tuple[int, int]:
    """(rank of an instruction, access): a conflicting pair that the new order `schedule` turns; (-1, -1): none.

    `rank` is the place of the access's instruction in the old order.
    """
    latest = np.full((2, atoms), -1, np.int32)
    """Row 0: the latest read of each atom in the old order; row 1: the latest write."""
    apart = np.full((2, slots), -1, np.int32)
    """The same for extents with a slot."""
    for at in range(len(schedule)):
        b = schedule[at]
        r, mine = extent[b], rank[b]
        for k in range(starts[r], starts[r + 1]):
            for atom in range(low[k], high[k]):
                if latest[1, atom] > mine:
                    return latest[1, atom], b
                if write[b]:
                    if latest[0, atom] > mine:
                        return latest[0, atom], b
                    latest[1, atom] = max(latest[1, atom], mine)
                else:
                    latest[0, atom] = max(latest[0, atom], mine)
        for k in range(overlap_starts[r], overlap_starts[r + 1]):
            if apart[1, overlaps[k]] > mine:
                return apart[1, overlaps[k]], b
            if write[b] and apart[0, overlaps[k]] > mine:
                return apart[0, overlaps[k]], b
        if slot[r] >= 0:
            kind = 1 if write[b] else 0
            apart[kind, slot[r]] = max(apart[kind, slot[r]], mine)
    return -1, -1
