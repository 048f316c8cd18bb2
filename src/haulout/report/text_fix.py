"""Verified fixes of findings as edits of the `.bir` file, for code hosts that can apply them.

The program and the fixed program are printed; the statements that differ are edits of the lines of the file that have
the same statements. The edited text is parsed and must be the fixed program again: else there is no edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.support.diagnostics import Diagnostic, HauloutError
from haulout.support.files import read_text
from haulout.support.render import TextEdit, TextFix

MAX_INSTRUCTIONS = 20_000
"""Of a program whose fixes become edits."""
MAX_FIXES = 50
"""Findings of a program that get edits."""


class TextFixes:
    """The edits of a program's file. Call it with a finding; None: no verified fix, or none that is an edit."""

    def __init__(self, program: Program | None) -> None:
        self._program = program
        self._made = 0

    def __call__(self, finding: Diagnostic) -> TextFix | None:
        """The edit that removes a finding."""
        program, advice = self._program, finding.advice
        if program is None or advice is None or not advice.verified or not self._places:
            return None
        self._made += 1
        if self._made > MAX_FIXES:
            return None
        fixed = print_bir(advice.fix.apply(program))
        edits = list(self._edits(fixed.splitlines()))
        try:
            same = print_bir(parse_bir(_edited(self._source, edits))) == fixed
        except HauloutError:
            return None
        text = advice.fix.text(program)
        return TextFix(program.file or "", text, tuple(edits)) if same and edits else None

    @cached_property
    def _source(self) -> list[str]:
        program = self._program
        if program is None or program.file is None or not program.file.endswith(".bir"):
            return []
        if len(program.instructions) > MAX_INSTRUCTIONS:
            return []
        try:
            return read_text(Path(program.file)).split("\n")
        except HauloutError:
            return []

    @cached_property
    def _printed(self) -> list[str]:
        assert self._program is not None
        return print_bir(self._program).splitlines()

    @cached_property
    def _places(self) -> list[int]:
        """The line of the file of each printed line, from 0; empty if the file has other statements."""
        if not self._source:
            return []
        lines = [at for at, line in enumerate(self._source) if line.strip() and not line.lstrip().startswith("#")]
        return lines if len(lines) == len(self._printed) else []

    def _edits(self, fixed: list[str]) -> Iterator[TextEdit]:
        matcher = SequenceMatcher(None, self._printed, fixed, autojunk=len(fixed) > 2000)
        for kind, begin, end, first, last in matcher.get_opcodes():
            if kind == "equal":
                continue
            common = min(end - begin, last - first)
            for at in range(common):
                yield self._edit(begin + at, begin + at + 1, fixed[first + at : first + at + 1])
            for at in range(begin + common, end):
                yield self._edit(at, at + 1, [])
            if first + common < last:
                yield self._edit(begin + common, begin + common, fixed[first + common : last])

    def _edit(self, begin: int, end: int, lines: list[str]) -> TextEdit:
        """Printed lines in place of some others, which are one line of the file or none."""
        beside = min(begin, len(self._places) - 1)
        place = self._places[beside] + (begin - beside)
        printed, written = self._printed[beside], self._source[self._places[beside]]
        indent = len(printed) - len(printed.lstrip())
        own = written[: len(written) - len(written.lstrip())]
        shifted = [own + line[indent:] if line[:indent].isspace() or not indent else line for line in lines]
        return TextEdit(place + 1, place + 1 + end - begin, tuple(shifted))


def _edited(source: list[str], edits: list[TextEdit]) -> str:
    lines = list(source)
    for edit in reversed(edits):
        lines[edit.begin - 1 : edit.end - 1] = edit.lines
    return "\n".join(lines)
