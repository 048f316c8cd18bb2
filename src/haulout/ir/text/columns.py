"""Columns of findings: the operand of an instruction, or the name of a statement, in its line of `.bir` text.

The tables have the line of each row, not its columns: those are read again from the few lines that findings name. A
column is for readers; nothing is decided by it. Where the line is not what the program says, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from haulout.ir.attributes import format_name
from haulout.ir.program import Program
from haulout.ir.text.lexer import Line, Place
from haulout.support.diagnostics import Diagnostic, Entity, HauloutError, Label
from haulout.support.file_kind import Kind, kind_of_file
from haulout.support.files import read_bytes

MAX_LINE = 100_000
"""Characters of a line in which columns are searched; a longer one is a constant."""


def with_columns(diagnostics: Iterable[Diagnostic], program: Program) -> list[Diagnostic]:
    """The findings with columns where a place has a line of the program's file and no column.

    These labels get their source lines, too.
    """
    diagnostics = list(diagnostics)
    if program.file is None or not _is_bir(Path(program.file)):
        return diagnostics
    named = {label.span.line for each in diagnostics for label in each.labels if label.span and _open(label, program)}
    lines = _lines(program.file, named)
    places = {number: _Places(line) for number, line in lines.items() if len(line) <= MAX_LINE}
    return [replace(each, labels=_labels(each, program, places, lines)) for each in diagnostics]


def _open(label: Label, program: Program) -> bool:
    span = label.span
    return span is not None and span.file == program.file and span.line > 0 and not span.column


def _is_bir(file: Path) -> bool:
    try:
        return kind_of_file(file) is Kind.BIR
    except HauloutError:  # the file has changed, or there is none
        return False


def _lines(file: str, numbers: set[int]) -> dict[int, str]:
    """Those lines, counted as the parser counts them."""
    if not numbers:
        return {}
    try:
        lines = read_bytes(Path(file)).decode("utf-8", "replace").split("\n")
    except HauloutError:  # the file has changed
        return {}
    return {at: lines[at - 1] for at in numbers if at <= len(lines)}


class _Places:
    """The name that a statement defines, and the operands in its brackets, reads first."""

    def __init__(self, text: str) -> None:
        self.name: Place | None = None
        self.operands: list[tuple[str, Place]] = []
        try:
            self._read(Line("", 0, text))
        except HauloutError:  # the file has changed
            self.name, self.operands = None, []

    def _read(self, line: Line) -> None:
        inside = False
        while line.kind != "end":
            if line.kind == "mark" and line.value in "()":
                inside = line.value == "("
            elif line.kind == "sigil" and line.value[0] in "%^" and self.name is None:
                self.name = line.at
            elif line.kind == "sigil" and line.value[0] == "%" and inside:
                self.operands.append((line.value, line.at))
            elif line.kind == "pattern" and inside and self.operands:
                name, (begin, _) = self.operands[-1]
                self.operands[-1] = name, (begin, line.at[1] + 1)
            line.advance()


def _labels(
    each: Diagnostic, program: Program, places: dict[int, _Places], sources: dict[int, str]
) -> tuple[Label, ...]:
    entities = [] if each.subject is None else [(_line_of(one, program), one) for one in each.subject.instructions]
    labels = []
    # A finding about two accesses has the later one first in its labels, and last in its subject.
    entities.reverse()
    for label in each.labels:
        span = label.span
        if span is not None and _open(label, program) and (found := places.get(span.line)):
            at = next((at for at, (line, _) in enumerate(entities) if line == span.line), None)
            place = found.name if at is None else _operand(entities.pop(at)[1], program, found) or found.name
            if place is not None:
                span = replace(span, column=place[0] + 1, end_column=place[1] + 1)
            label = replace(label, span=span, source=sources.get(span.line, label.source))
        labels.append(label)
    return tuple(labels)


def _line_of(entity: Entity, program: Program) -> int:
    """The line of an instruction; 0: not known, or of another program."""
    row = entity.row
    if not 0 <= row < len(program.instructions) or program.instruction_name(row) != entity.name:
        return 0
    return int(program.instructions.text_line[row])


def _operand(entity: Entity, program: Program, found: _Places) -> Place | None:
    """The place of the operand, if the line has the location that the program has there."""
    row = int(program.access_starts[entity.row]) + entity.operand
    if not 0 <= entity.operand < len(found.operands) or row >= int(program.access_starts[entity.row + 1]):
        return None
    name, place = found.operands[entity.operand]
    location = program.accesses.location[row]
    return place if name == "%" + format_name(program.strings[int(program.locations.name[location])]) else None
