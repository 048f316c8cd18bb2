"""A program to compare, with what its text says: inputs, results, shardings, and where operations come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo import HloModule, lower
from haulout.frontends.hlo.metadata import op_name
from haulout.frontends.hlo.model import Computation
from haulout.frontends.hlo.partitioned import is_partitioned
from haulout.frontends.hlo.types import Shape
from haulout.ir.enums import Kind
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lower_local_collectives import LowerLocalCollectives
from haulout.sim.inputs import element_type, is_filled

_RUNS = ("to_apply", "body", "condition", "branch_computations", "true_computation", "false_computation", "calls")
_CALLEE = re.compile(r"[\w.-]+")
_FUNCTION = re.compile(r"jit\([^()]*\)/")
Type = tuple[np.dtype[Any], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Operation:
    """What the text of HLO says about one instruction."""

    opcode: str
    dims: tuple[int, ...] | None
    operands: tuple[str, ...]
    origin: str
    """Its `op_name` without the name of the function, or nothing."""


@dataclass(frozen=True)
class Source:
    """One of the two programs."""

    program: Program
    title: str
    operations: dict[str, Operation] = field(default_factory=dict)
    """By name; empty without text of HLO."""
    shardings: dict[str, str] = field(default_factory=dict)
    """The text of the sharding of inputs and results that have one."""

    def rows(self, *kinds: Kind) -> dict[tuple[int, str], int]:
        """The locations of the entry functions, by core and name, views included."""
        program = self.program
        entries = program.starts("functions", "modules")[:-1]
        rows = program.locations
        chosen = np.flatnonzero(np.isin(rows.function, entries) & np.isin(rows.kind, kinds)).tolist()
        return {(int(program.location_core[row]), program.strings[int(rows.name[row])]): row for row in chosen}

    def inputs(self) -> dict[str, Type]:
        """The inputs in their order, with their types; those that the program fills are none."""
        found = self.rows(Kind.INPUT, Kind.INOUT).items()
        return {name: element_type(self.program, row) for (_, name), row in found if not is_filled(self.program, row)}

    def results(self) -> dict[str, Type]:
        """The results in their order, with their types."""
        found = {
            name: element_type(self.program, row) for (_, name), row in self.rows(Kind.OUTPUT, Kind.INOUT).items()
        }
        names = [name for name in dict.fromkeys(self.program.output_names) if name in found]
        return {name: found[name] for name in names or found}

    def module(self, core: int) -> str:
        """The name of a core's module."""
        return self.program.strings[int(self.program.modules.name[core])]


def from_program(program: Program, title: str) -> Source:
    """A program whose collectives, if there are any, become copies, as the simulator needs them."""
    return Source(_without_collectives(program), title)


def from_hlo(module: HloModule, title: str) -> Source:
    """A module of HLO, whose operations stay apart; one that is not partitioned runs on one core."""
    program = lower(module, fuse="none", whole=not is_partitioned(module))
    operations: dict[str, Operation] = {}
    shardings = {}
    _read_operations(module, module.entry, "", operations, set())
    for each in (*module.entry.parameters, module.entry.root):
        if "sharding" in each.attributes:
            shardings[each.name] = each.attributes["sharding"].text
    return Source(_without_collectives(program), title, operations, shardings)


def _read_operations(
    module: HloModule, computation: Computation, scope: str, found: dict[str, Operation], seen: set[str]
) -> None:
    """The operations of a computation and of those that it runs; names in a function that is called are in the scope
    of the call, as XLA names them when it inlines the call."""
    seen.add(computation.name)
    for each in computation.instructions:
        dims = each.shape.dims if isinstance(each.shape, Shape) else None
        metadata = each.attributes.get("metadata")
        name = op_name(metadata) if metadata is not None else ""
        if name:
            name = f"{scope}/{name}" if scope else _FUNCTION.sub("", name, count=1)
        found[each.name] = Operation(each.opcode, dims, each.operands, name)
        for key in _RUNS:
            text = each.attributes[key].text if key in each.attributes else ""
            for callee in _CALLEE.findall(text):
                if callee in module.computations and callee not in seen:
                    inner = name if each.opcode == "call" else scope
                    _read_operations(module, module.computations[callee], inner, found, seen)


def _without_collectives(program: Program) -> Program:
    opcodes: Iterable[int] = np.unique(program.instructions.opcode).tolist()
    if program.lnc == 1 or not any(lookup(program.strings[each]).collective for each in opcodes):
        return program
    return LowerLocalCollectives().run(program, PassContext())


def pairs(ours: Source, theirs: Source, what: str, a: dict[str, Type], b: dict[str, Type]) -> list[tuple[str, str]]:
    """Which input or result of one is which of the other: by name if the names are the same, else by position.

    Raises `bad-input` where they do not correspond.
    """
    from haulout.support.diagnostics import bad_input

    if set(a) == set(b):
        return [(name, name) for name in a]
    if len(a) != len(b):
        bad_input(
            f"{ours.title} has {len(a)} {what}, {theirs.title} has {len(b)}",
            help=[f"{each.title}: {', '.join(names) or 'none'}" for each, names in ((ours, a), (theirs, b))],
        )
    for one, other in zip(a, b, strict=True):
        if (one in b or other in a) and one != other and not (ours.operations and theirs.operations):
            bad_input(
                f"{what} %{one} of {ours.title} and %{other} of {theirs.title} are at the same position, but one of "
                "these names is elsewhere in the other program",
                help=["give both the same names, or the same order"],
            )
    return list(zip(a, b, strict=True))


Array = npt.NDArray[Any]
