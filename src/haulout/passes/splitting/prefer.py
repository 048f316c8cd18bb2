"""Cuts that a user asks for: `axis=DIM` for all results where that is possible, `NAME=DIM` for one operation, and
annotations of the source, `split=DIM` of an instruction or a location (`ir/splits.py`).

All become keys that locations may have, for `choose.py`. A location that cannot have one of them in the end is
chosen as if nothing had been asked. Then it is an error if an operation was named, and a warning if it is annotated.
What is asked by name wins over an annotation, and `axis=DIM` over all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn

from haulout.ir.attributes import format_name
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.splits import NO_DIMENSION, asked_dims
from haulout.passes.splitting.candidates import Candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.keys import Key
from haulout.passes.splitting.operations import Operation
from haulout.passes.splitting.record import cuts_of, result_dim, results_of, undivided_reason
from haulout.support.diagnostics import Diagnostic, Label, Severity, bad_input

Refuse = Callable[[str, Label, str], object]
"""Takes a message, a place and what to do instead."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for."""

    dim: int | None
    """Of all results."""
    named: Mapping[str, int]
    """Of the results of single operations."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the source asks for, of the first core; `refused` collects what cannot be done."""

    rows: Mapping[int, int] = field(default_factory=dict)
    """Of an instruction the dimension of its result."""
    locations: Mapping[int, int] = field(default_factory=dict)
    """Of a location its dimension."""
    refused: list[Diagnostic] = field(default_factory=list)

    @classmethod
    def of(cls, program: Program, asked: Asked) -> Annotations:
        """Those of a program that what is asked leaves in force."""
        if asked.dim is not None:
            return cls()
        found = (
            {row: dim for row, dim in asked_dims(program, table.attrs).items() if row < len(table) // program.lnc}
            for table in (program.instructions, program.locations)
        )
        rows, locations = found
        return cls(
            {row: dim for row, dim in rows.items() if program.instruction_name(row) not in asked.named}, locations
        )

    def refuse(self, message: str, label: Label, advice: str) -> None:
        """Note what cannot be done."""
        text = f"an annotation cannot be followed: {message}"
        self.refused.append(Diagnostic("split-not-followed", Severity.WARNING, text, (label,), (), (advice,)))


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


def preferred_keys(
    program: Program, found: Candidates, asked: Asked, notes: Annotations
) -> dict[int, frozenset[Key]]:
    """Of each location for which something is asked the keys that it may have.

    Raises `bad-input` for an operation that is named and cannot be cut so.
    """
    made = dict(_of_all(program, found, asked.dim)) if asked.dim is not None else {}
    for location, dim in notes.locations.items():
        made = _of_location(program, found, location, dim, notes) | made
    for wanted, refuse in ((notes.rows, notes.refuse), (named_rows(program, asked), _fail)):
        for row, dim in wanted.items():
            operation = found.operations.get(row)
            if operation is None:
                results = results_of(program, row)
                alike = bool(results) and all(at in found.classes for at in results)
                why = undivided_reason(program, found, Cuts(), row) if alike else "its result differs between cores"
                _refuse(program, row, f"cannot be cut: {why}", None, refuse)
                continue
            for at, operand in enumerate(operation.operands):
                if operand.write:
                    keys = _keys(program, operation, at, dim)
                    if keys:
                        made[operand.location] = frozenset(keys)
                    else:
                        _refuse(program, row, f"cannot be cut along {_named(dim)}", operation, refuse)
    return made


def check_asked(
    program: Program, found: Candidates, asked: Asked, notes: Annotations, chosen: Cuts
) -> dict[int, int]:
    """The operations that are named or annotated and cut so, and the dimension.

    Raises `bad-input` where one that is named has not the cut that was asked for.
    """
    kept: dict[int, int] = {}
    for wanted, refuse in ((notes.rows, notes.refuse), (named_rows(program, asked), _fail)):
        for row, dim in wanted.items():
            operation, axis = found.operations.get(row), chosen.axes.get(row)
            if operation is None:
                continue  # refused before
            if axis is not None and result_dim(program, operation, axis)[0] == dim:
                kept[row] = dim
            elif any(_keys(program, operation, at, dim) for at, each in enumerate(operation.operands) if each.write):
                others = "as others write the same bytes, or another annotation contradicts it"
                _refuse(program, row, f"cannot be cut along {_named(dim)} {others}", operation, refuse)
    for location, dim in notes.locations.items():
        kept.update(dict.fromkeys(_following(program, found, location, dim, notes, chosen), dim))
    return kept


def _of_all(program: Program, found: Candidates, dim: int) -> Iterator[tuple[int, frozenset[Key]]]:
    """Keys of locations for cuts of all results along one dimension."""
    writers: defaultdict[int, list[tuple[Operation, int]]] = defaultdict(list)
    for operation in found.operations.values():
        for at, operand in enumerate(operation.operands):
            if operand.write:
                writers[operand.location].append((operation, at))
    for location, touches in writers.items():
        wanted = {key for touch in touches for key in _keys(program, *touch, dim)}
        for operation, at in touches:
            wanted &= {axis.keys[at] for axis in operation.axes}
        if wanted:
            yield location, frozenset(wanted)


def _of_location(
    program: Program, found: Candidates, location: int, dim: int, notes: Annotations
) -> dict[int, frozenset[Key]]:
    """Keys for the results of what reads an annotated location, or for itself where it is written."""
    made: defaultdict[int, set[Key]] = defaultdict(set)
    cuts: set[int] = set()
    shape = program.shape(location)
    for operation, touched in _touches(program, found, location):
        for at in touched:
            axes = [axis for axis in operation.axes if not axis.outer]
            cuts.update(each for axis in axes if (each := axis.dims[at]) is not None and each < len(shape))
            for axis in axes:
                for other, key in zip(operation.operands, axis.keys, strict=True):
                    if axis.dims[at] == dim and other.write and key is not None:
                        made[other.location].add(key)
    if not made:
        listed = ", ".join(f"dimension {each} of {shape[each]}" for each in sorted(cuts))
        message = f"nothing that touches {_name(program, location)} can be cut along {_named(dim)}"
        notes.refuse(message, location_label(program, location), f"its cuts: {listed}" if listed else _LIST)
    return {at: frozenset(keys) for at, keys in made.items()}


def _following(
    program: Program, found: Candidates, location: int, dim: int, notes: Annotations, chosen: Cuts
) -> list[int]:
    """The operations that are cut as an annotation of a location asks."""
    possible, following = False, []
    for operation, touched in _touches(program, found, location):
        possible |= any(axis.dims[at] == dim for axis in operation.axes for at in touched if not axis.outer)
        axis = chosen.axes.get(operation.row)
        if axis is not None and not axis.outer and any(axis.dims[at] == dim for at in touched):
            following.append(operation.row)
    if possible and not following:
        message = f"nothing that touches {_name(program, location)} is cut along {_named(dim)}"
        notes.refuse(f"{message}, as other cuts contradict it", location_label(program, location), _LIST)
    return following


def _touches(program: Program, found: Candidates, location: int) -> Iterator[tuple[Operation, list[int]]]:
    """Operations with operands that are a location in its own shape, and which they are."""
    shape = program.shape(location)
    for operation in found.operations.values():
        mine = [
            at
            for at, operand in enumerate(operation.operands)
            if operand.location == location and operand.shape[: len(shape)] == shape
        ]
        if mine:
            yield operation, mine


def _name(program: Program, location: int) -> str:
    return f"%{format_name(program.strings[int(program.locations.name[location])])}"


def _named(dim: int) -> str:
    return "what is no single dimension of it" if dim == NO_DIMENSION else f"dimension {dim}"


def _keys(program: Program, operation: Operation, at: int, dim: int) -> set[Key]:
    """Keys of a result for cuts along a dimension of it."""
    keys = (axis.keys[at] for axis in operation.axes if result_dim(program, operation, axis)[0] == dim)
    return {key for key in keys if key is not None}


def _refuse(program: Program, row: int, message: str, operation: Operation | None, refuse: Refuse) -> None:
    cuts = [] if operation is None else sorted(set(cuts_of(program, operation)))
    listed = ", ".join(f"dimension {dim} of {extent}" for dim, extent in cuts)
    refuse(
        f"%{format_name(program.instruction_name(row))} {message}",
        instruction_label(program, row),
        f"its cuts: {listed}" if listed else _LIST,
    )


def _fail(message: str, label: Label, advice: str) -> NoReturn:
    bad_input(f"split: {message}", label, help=[advice])
