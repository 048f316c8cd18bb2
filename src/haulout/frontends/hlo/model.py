"""The parsed form of an HLO file: a module of computations of instructions.

Names have no `%`. Attribute values are text (`Excerpt`) and are parsed where they are used (`attributes.py`).
Constants are decoded at once, so that a file without their data (`{...}`) is refused when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo.source import Excerpt, Source
from haulout.frontends.hlo.types import AnyShape
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.render import encodable

Literal = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One HLO instruction."""

    name: str
    shape: AnyShape
    opcode: str
    operands: tuple[str, ...]
    """Names of instructions of the same computation."""
    attributes: Mapping[str, Excerpt]
    where: Excerpt = field(repr=False, compare=False)
    """From its name to its opcode."""
    number: int = -1
    """Of a parameter."""
    literal: Literal | None = field(default=None, compare=False)
    """Of a constant; None if the dump leaves its data out."""
    place: str | None = None
    """`FILE:LINE` in the user's source, from the metadata."""

    @property
    def is_left_out(self) -> bool:
        """Whether it is a constant without its data, which the program gets as an input."""
        return self.opcode == "constant" and self.literal is None

    @property
    def line(self) -> int:
        """Its line in the HLO text."""
        return self.where.line

    @property
    def loc(self) -> str:
        """`FILE:LINE` in the user's source, or else in the HLO text."""
        return self.place or f"{encodable(self.where.source.file)}:{self.line}"

    def fail(self, message: str, label: str = "here", help: Iterable[str] = ()) -> NoReturn:
        """Raise `HauloutError` (`bad-input`) at the instruction, and name the user's line where it is known."""
        labels = [self.where.source.label(label, self.where.start, self.where.end)]
        if self.place is not None:
            file, _, line = self.place.rpartition(":")
            labels.append(Label("made by this line", Span(file, int(line) if line.isdecimal() else 0)))
        bad_input(message, *labels, help=help)


@dataclass(frozen=True, slots=True)
class Computation:
    """A list of instructions, each after its operands."""

    name: str
    instructions: tuple[Instruction, ...]
    root: Instruction
    parameters: tuple[Instruction, ...]
    """In the order of their numbers."""
    where: Excerpt = field(repr=False, compare=False)
    by_name: Mapping[str, Instruction] = field(repr=False, compare=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry of `input_output_alias`: an output that is to be stored where a parameter is."""

    output: tuple[int, ...]
    """Index into the (tuple) result."""
    parameter: int
    parameter_index: tuple[int, ...]
    must: bool
    where: Excerpt = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class HloModule:
    """A parsed file."""

    name: str
    source: Source = field(repr=False)
    attributes: Mapping[str, Excerpt]
    computations: Mapping[str, Computation]
    """In the order of the file: each before the computations that call it."""
    entry: Computation
    num_partitions: int
    replica_count: int
    aliases: tuple[Alias, ...]
    left_out: tuple[str, ...] = ()
    """What is cut away from the text, a sentence each (`fragments.py`)."""
    by_replica: bool = False
    """Each core is a replica of the one partition; `num_partitions` is the number of cores all the same."""

    @property
    def core_number(self) -> str:
        """The opcode that gives the number of the core."""
        return "replica-id" if self.by_replica else "partition-id"

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.source.file

    def count(self) -> int:
        """Number of instructions, of all computations."""
        return sum(len(computation.instructions) for computation in self.computations.values())
