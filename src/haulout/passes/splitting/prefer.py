"""Cuts that a user asks for: `axis=DIM` for all results where that is possible, `NAME=DIM` for one operation.

Both become keys that locations may have, for `choose.py`. A location that cannot have one of them in the end is
chosen as if nothing had been asked, unless an operation was named: then it is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from haulout.ir.attributes import format_name
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.passes.splitting.candidates import Candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.keys import Key
from haulout.passes.splitting.operations import Operation
from haulout.passes.splitting.record import cuts_of, result_dim, results_of, undivided_reason
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for."""

    dim: int | None
    """Of all results."""
    named: Mapping[str, int]
    """Of the results of single operations."""


def parse_split(items: Collection[str]) -> Asked:
    """From `axis=DIM` and `NAME=DIM`, where NAME may begin with %; `bad-input` for another form, or two for one."""
    named: dict[str, int] = {}
    for item in items:
        name, _, dim = item.rpartition("=")
        if not name or not (dim.isascii() and dim.isdecimal()) or len(dim) > 3:
            bad_input(
                f"split must be axis=DIM or NAME=DIM, found {item!r}",
                help=["axis=0 cuts results along their first dimension where possible; %axis=0 is of one operation"],
            )
        name = name if name == "axis" or name[0] == "%" else f"%{name}"
        if named.setdefault(name, int(dim)) != int(dim):
            bad_input(f"split asks for two dimensions of {name}: {named[name]} and {int(dim)}")
    dim_of_all = named.pop("axis", None)
    return Asked(dim_of_all, {name[1:]: dim for name, dim in named.items()})


def named_rows(program: Program, asked: Asked) -> dict[int, int]:
    """Operations of the first core that are named, and the dimension; `bad-input` where none has the name."""
    rows: dict[str, list[int]] = {}
    if asked.named:
        for row in range(len(program.instructions) // program.lnc):
            rows.setdefault(program.instruction_name(row), []).append(row)
    for name in asked.named:
        if name not in rows:
            near = [f"%{format_name(each)}" for each in get_close_matches(name, rows)]
            bad_input(
                f"split: no operation is named %{format_name(name)}",
                help=[*([f"did you mean {' or '.join(near)}?"] if near else []), _LIST],
            )
    return {row: dim for name, dim in asked.named.items() for row in rows[name]}


_LIST = "`haulout explain-split` lists all operations"


def preferred_keys(program: Program, found: Candidates, asked: Asked) -> dict[int, frozenset[Key]]:
    """Of each location for which something is asked the keys that it may have.

    Raises `bad-input` for an operation that is named and cannot be cut so.
    """
    made: dict[int, frozenset[Key]] = {}
    if asked.dim is not None:
        writers: defaultdict[int, list[tuple[Operation, int]]] = defaultdict(list)
        for operation in found.operations.values():
            for at, operand in enumerate(operation.operands):
                if operand.write:
                    writers[operand.location].append((operation, at))
        for location, touches in writers.items():
            wanted = {key for touch in touches for key in _keys(program, *touch, asked.dim)}
            for operation, at in touches:
                wanted &= {axis.keys[at] for axis in operation.axes}
            if wanted:
                made[location] = frozenset(wanted)
    for row, dim in named_rows(program, asked).items():
        named = found.operations.get(row)
        if named is None:
            results = results_of(program, row)
            alike = bool(results) and all(at in found.classes for at in results)
            why = undivided_reason(program, found, Cuts(), row) if alike else "its result differs between cores"
            _refuse(program, row, f"cannot be cut: {why}")
        for at, operand in enumerate(named.operands):
            if operand.write:
                keys = _keys(program, named, at, dim)
                if not keys:
                    _refuse(program, row, f"cannot be cut along dimension {dim}", named)
                made[operand.location] = frozenset(keys)
    return made


def check_named(program: Program, found: Candidates, asked: Asked, chosen: Cuts) -> Collection[int]:
    """The operations that are named; `bad-input` where one has not the cut that was asked for."""
    rows = named_rows(program, asked)
    for row, dim in rows.items():
        operation, axis = found.operations[row], chosen.axes.get(row)
        if axis is None or result_dim(program, operation, axis)[0] != dim:
            _refuse(program, row, f"cannot be cut along dimension {dim} as others write the same bytes", operation)
    return rows


def _keys(program: Program, operation: Operation, at: int, dim: int) -> set[Key]:
    """Keys of a result for cuts along a dimension of it."""
    keys = (axis.keys[at] for axis in operation.axes if result_dim(program, operation, axis)[0] == dim)
    return {key for key in keys if key is not None}


def _refuse(program: Program, row: int, message: str, operation: Operation | None = None) -> NoReturn:
    cuts = [] if operation is None else sorted(set(cuts_of(program, operation)))
    listed = ", ".join(f"dimension {dim} of {extent}" for dim, extent in cuts)
    bad_input(
        f"split: %{format_name(program.instruction_name(row))} {message}",
        instruction_label(program, row),
        help=[f"its cuts: {listed}" if listed else _LIST],
    )
