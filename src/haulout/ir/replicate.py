"""One core's module, cloned over N cores as whole columns: what makes every core share one keyspace of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from haulout.ir.attributes import format_value
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import TABLES, Table

_SHARED = ("patterns", "dims", "shapes")
"""Values, not entities: all cores use the same rows."""


def replicate(
    program: Program,
    lnc: int,
    *,
    module_names: Sequence[str] | None = None,
    data: Mapping[int, Sequence[str]] | None = None,
    same: Mapping[int, Sequence[Sequence[int]]] | None = None,
) -> Program:
    """The one-module `program` on `lnc` cores, modules `nc0`, `nc1`, ...

    `data` gives, for a location id, the base64 contents on each core (a partition id, a slice of a table), `same`
    the classes of cores that get equal bytes.
    """
    if len(program.modules) != 1:
        raise ValueError(f"one module is replicated, not {len(program.modules)}")
    names = module_names or [f"nc{core}" for core in range(lnc)]
    changed: dict[str, Any] = {}
    for name in TABLES:
        if name not in _SHARED:
            changed[name] = _tile(program, program.table(name), lnc)
    size = len(program.locations)
    contents = changed["locations"].data
    for location, values in (data or {}).items():
        for core, value in enumerate(values):
            contents[core * size + location] = program.strings.intern(value)
    for location, classes in (same or {}).items():
        text = format_value([list(each) for each in classes])
        changed["locations"].same[location::size] = program.strings.intern(text)
    changed["modules"] = changed["modules"].replace(
        core=np.arange(lnc, dtype=np.int32), name=[program.strings.intern(name) for name in names]
    )
    return program.replace(lnc=lnc, **changed)


def _tile(program: Program, table: Table, lnc: int) -> Table:
    """`lnc` copies of the rows, ids shifted by the size of the table they point into."""
    columns: dict[str, Any] = {}
    for name, spec in table.specs().items():
        values = np.tile(getattr(table, name), lnc)
        target = spec["to"]
        if target is not None and target != "strings" and target not in _SHARED and len(table):
            shift = np.repeat(np.arange(lnc) * len(program.table(target)), len(table)).astype(values.dtype)
            values = np.where(values == NONE, NONE, values + shift).astype(values.dtype)
        columns[name] = values
    return type(table)(**columns)
