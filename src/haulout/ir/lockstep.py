"""Programs whose cores run one list: what is found for a row of one core holds for the rows of the others.

A front end that clones the program of one core over N cores (`replicate.py`) makes such a program. Rows of core k are
those of core 0 shifted by `k * size`, where the size is a table's rows a core. Cores may differ in what constants
contain, in which core owns a location, in the bytes that an operand names (`operand_labels`), and in no more.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Table

_TABLES = ("functions", "blocks", "edges", "instructions", "accesses", "locations", "dependences", "steps")
_SHIFTED = frozenset(_TABLES) | {"modules"}
_MAY_DIFFER = {
    "locations": {"data", "space", "remote_name", "remote_core", "address", "bank", "partition", "text_line", "loc"},
    "instructions": {"text_line", "loc"},
    "blocks": {"text_line"},
    "functions": set[str](),
}
"""Columns that say nothing about what a core computes."""


def runs_in_lockstep(program: Program) -> bool:
    """Whether all cores have the same lists of instructions, with the same operands, and no order of their own."""
    if program.lnc < 2 or len(program.modules) != program.lnc:
        return False
    if any(len(program.table(name)) for name in ("meetings", "semaphores", "barriers")):
        return False
    return all(_is_repeated(program, name) for name in _TABLES) and _shapes_are_repeated(program)


def _is_repeated(program: Program, name: str) -> bool:
    table: Table = program.table(name)
    if len(table) % program.lnc:
        return False
    size = len(table) // program.lnc
    for column, spec in table.specs().items():
        if column in _MAY_DIFFER.get(name, ()) or column in ("shape_begin", "shape_end", "pattern"):
            continue
        values = getattr(table, column).reshape(program.lnc, size)
        if spec["to"] in _SHIFTED:
            step = len(program.table(spec["to"])) // program.lnc
            values = np.where(values == NONE, NONE, values - step * np.arange(program.lnc)[:, None])
        if not np.array_equal(values, np.broadcast_to(values[0], values.shape)):
            return False
    return True


def _shapes_are_repeated(program: Program) -> bool:
    """Whether a location has one shape on all cores; its extents may stand in rows of their own."""
    rows = program.locations
    begin, rank = (each.reshape(program.lnc, -1) for each in (rows.shape_begin, rows.shape_end - rows.shape_begin))
    if not np.array_equal(rank, np.broadcast_to(rank[0], rank.shape)):
        return False
    extents = np.append(program.shapes.extent, NONE)
    for axis in range(int(rank.max(initial=0))):
        found = extents[np.where(rank > axis, begin + axis, NONE)]
        if not np.array_equal(found, np.broadcast_to(found[0], found.shape)):
            return False
    return True


def alike_operands(program: Program) -> Bools:
    """Of each access of core 0: whether all cores name the same bytes; the cores must run in lockstep."""
    alike: Bools = operand_labels(program)[0] == NONE
    return alike


def operand_labels(program: Program) -> tuple[Ids, Ids]:
    """Which cores name the same bytes; the cores must run in lockstep.

    Of each access of core 0 a row of a table, NONE where all cores do, and the table: [row, core], the smallest core
    that names the same bytes.
    """
    size = len(program.accesses) // program.lnc
    patterns = program.accesses.pattern.reshape(program.lnc, size)
    row = np.full(size, NONE, np.int32)
    # rows of patterns may differ and say the same
    differ = np.flatnonzero((patterns != patterns[0]).any(axis=0))
    lines: dict[tuple[int, ...], int] = {}
    known: dict[int, Pattern | None] = {}
    for access in differ.tolist():
        numbers = patterns[:, access].tolist()
        for number in numbers:
            if number not in known:
                known[number] = program.pattern(number)
        first: dict[Pattern | None, int] = {}
        line = tuple(first.setdefault(known[number], core) for core, number in enumerate(numbers))
        if any(line):
            row[access] = lines.setdefault(line, len(lines))
    return row, np.array(list(lines) or np.zeros((0, program.lnc)), np.int32).reshape(-1, program.lnc)
