"""Programs whose cores run one list: what is found for a row of one core holds for the rows of the others.

A front end that clones the program of one core over N cores (`replicate.py`) makes such a program. Rows of core k are
those of core 0 shifted by `k * size`, where the size is a table's rows a core. Cores may differ in what constants
contain, in which core owns a location, in the bytes that an operand names (`alike_operands`), and in no more.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Table

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
    return all(_is_repeated(program, name) for name in _TABLES)


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


def alike_operands(program: Program) -> Bools:
    """Of each access of core 0: whether all cores name the same bytes; the cores must run in lockstep."""
    size = len(program.accesses) // program.lnc
    rows = program.accesses.pattern.reshape(program.lnc, size)
    alike: Bools = (rows == rows[0]).all(axis=0)
    # rows of patterns may differ and say the same
    for access in np.flatnonzero(~alike).tolist():
        alike[access] = len({program.pattern(row) for row in rows[:, access].tolist()}) == 1
    return alike
