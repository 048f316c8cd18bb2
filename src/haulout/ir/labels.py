"""How messages name the rows of a program: labels with the place that a row came from."""

from __future__ import annotations

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.support.diagnostics import Label, Span


def place(program: Program, loc: int, text_line: int) -> Span | None:
    """Where a row came from: the user's source if it says so, else its line of the `.bir` text."""
    source = program.strings.get(loc)
    if source is not None:
        file, _, line = source.rpartition(":")
        return Span(file, int(line)) if file and line.isdecimal() else Span(source)
    return Span(program.file, text_line) if text_line != NONE and program.file is not None else None


def block_name(program: Program, row: int) -> str:
    """`^name`, as the text format writes it."""
    return "^" + format_name(program.strings[int(program.blocks.name[row])])


def block_label(program: Program, row: int) -> Label:
    """A block and its place, for a message."""
    span = place(program, NONE, int(program.blocks.text_line[row]))
    return Label(f"{block_name(program, row)} on core {program.block_core[row]}", span)


def instruction_label(program: Program, row: int, message: str = "") -> Label:
    """An instruction and its place, for a message."""
    name = format_name(program.instruction_name(row))
    span = place(program, int(program.instructions.loc[row]), int(program.instructions.text_line[row]))
    return Label(message or f"%{name} on core {program.instruction_core[row]}", span)


def location_label(program: Program, row: int, message: str = "") -> Label:
    """A location and its place, for a message."""
    span = place(program, int(program.locations.loc[row]), int(program.locations.text_line[row]))
    return Label(message or f"{named(program, row)} on core {program.location_core[row]}", span)
