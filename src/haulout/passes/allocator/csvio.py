"""Problems and placements as CSV, in the columns of MiniMalloc (idealloc's traces use the same).

    header  = name {"," name}                    in any order; names are not case-sensitive
    name    = "id" | "buffer" | "buffer_id"      any text
            | "lower" | "begin" | "start"        first moment of the live range
            | "upper"                            first moment after it
            | "end"                              last moment of it (so is the end of a gap, then)
            | "size"                             bytes
            | "alignment"                        bytes; 1 when absent or empty
            | "gaps"                             moments within the range at which the storage is free
            | "offset" | "hint"                  bytes; empty or -1: none
    gaps    = {gap " "} gap
    gap     = moment "-" moment ["@" byte ":" byte]

A gap with "@" frees all but a window of the buffer; here the buffer stays whole in such a gap, which is safe.
`id`, lower, upper and size are required. Blank lines are skipped. What is wrong is told with line and column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from haulout.passes.allocator.problem import I64, LIMIT, Problem
from haulout.support.diagnostics import Label, Span, bad_input

_NAMES = {
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    "end": "upper",
}
_KNOWN = ("id", "lower", "upper", "size", "alignment", "gaps", "offset", "hint")
_REQUIRED = _KNOWN[:4]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a file holds. `offset` and `hint` are -1 where there is none, None where there is no such column."""

    problem: Problem
    ids: tuple[str, ...]
    offset: I64 | None = None
    hint: I64 | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """One line and its fields, to read numbers from and to point at."""

    file: str
    line: int
    fields: list[str]
    index: dict[str, int]

    def text(self, name: str) -> str:
        return self.fields[self.index[name]].strip() if name in self.index else ""

    def number(self, name: str, least: int, most: int, default: int | None = None) -> int:
        text = self.text(name)
        if not text and default is not None:
            return default
        return self.parse(name, text, least, most)

    def parse(self, name: str, text: str, least: int, most: int) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 100):
            self.wrong(name, f"`{text}` is not an integer")
        value = int(text)
        if not least <= value <= most:
            self.wrong(name, f"{value} is not between {least} and {most}")
        return value

    def wrong(self, name: str, message: str) -> NoReturn:
        at = self.index[name]
        column = len(",".join(self.fields[:at])) + (2 if at else 1)
        span = Span(self.file, self.line, column, column + max(1, len(self.fields[at])))
        bad_input(f"line {self.line}, column `{name}`: {message}", Label("here", span, ",".join(self.fields)))


def read_csv(path: str | Path) -> Table:
    """Read a file. Raises `HauloutError` (`bad-input`)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        bad_input(f"cannot read {path}: {error}")
    return parse_csv(text, str(path))


def parse_csv(text: str, file: str = "<csv>") -> Table:
    """Read the text of a file; `file` is the name for messages. Raises `HauloutError` (`bad-input`)."""
    reader = csv.reader(io.StringIO(text, newline=""))
    index: dict[str, int] = {}
    inclusive = 0
    ids: list[str] = []
    columns: dict[str, list[int]] = {name: [] for name in ("size", "alignment", "offset", "hint")}
    ranges: list[tuple[int, int, int]] = []  # lower, upper, buffer
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if not index:
                index, inclusive = _header(fields, file, reader.line_num)
                continue
            row = _Row(file, reader.line_num, fields, index)
            if len(fields) != len(index):
                span = Span(file, row.line)
                bad_input(
                    f"line {row.line} has {len(fields)} fields, the header has {len(index)}",
                    Label("here", span, ",".join(fields)),
                )
            buffer = len(ids)
            ids.append(row.text("id"))
            columns["size"].append(row.number("size", 0, LIMIT))
            columns["alignment"].append(row.number("alignment", 1, LIMIT, 1))
            columns["offset"].append(row.number("offset", -1, LIMIT, -1))
            columns["hint"].append(row.number("hint", -1, LIMIT, -1))
            ranges.extend((lo, hi, buffer) for lo, hi in _ranges(row, inclusive))
    except csv.Error as error:
        bad_input(f"line {reader.line_num}: {error}", Label("here", Span(file, reader.line_num)))
    if not index:
        bad_input(f"{file} has no header", Label("here", Span(file, 1)))
    lower, upper, owner = np.array(ranges, np.int64).reshape(-1, 3).T
    gaps = len(owner) > len(ids)
    return Table(
        Problem.of(lower, upper, columns["size"], columns["alignment"], owner=owner if gaps else None),
        tuple(ids),
        np.array(columns["offset"], np.int64) if "offset" in index else None,
        np.array(columns["hint"], np.int64) if "hint" in index else None,
    )


def _header(fields: list[str], file: str, line: int) -> tuple[dict[str, int], int]:
    """Column numbers by name, and 1 when the ends of ranges are inclusive."""
    names = [field.strip().removeprefix("\ufeff").lower() for field in fields]
    index: dict[str, int] = {}
    label = Label("here", Span(file, line), ",".join(fields))
    for k, name in enumerate(names):
        canonical = _NAMES.get(name, name)
        if canonical not in _KNOWN:
            bad_input(f"line {line}: unknown column `{name}`", label, help=("known: " + ", ".join(_KNOWN),))
        if canonical in index:
            bad_input(f"line {line}: column `{canonical}` is given twice", label)
        index[canonical] = k
    for name in _REQUIRED:
        if name not in index:
            bad_input(f"line {line}: column `{name}` is missing", label)
    return index, int("end" in names)


def _ranges(row: _Row, inclusive: int) -> list[tuple[int, int]]:
    """The live range without its gaps: at least one range, perhaps empty."""
    lower = row.number("lower", -LIMIT, LIMIT)
    upper = row.number("upper", -LIMIT, LIMIT - inclusive) + inclusive
    if upper < lower:
        row.wrong("upper", f"the range ends at {upper}, before its start {lower}")
    gaps = []
    for gap in row.text("gaps").split():
        moments, at, window = gap.partition("@")
        begin, dash, end = moments.partition("-")
        if not dash or (at and len(window.split(":")) != 2):
            row.wrong("gaps", f"`{gap}` is not a gap")
        lo = row.parse("gaps", begin, -LIMIT, LIMIT)
        hi = row.parse("gaps", end, -LIMIT, LIMIT - inclusive) + inclusive
        if hi < lo:
            row.wrong("gaps", f"the gap ends at {hi}, before its start {lo}")
        if at:
            for byte in window.split(":"):
                row.parse("gaps", byte, 0, LIMIT)
        elif lo < hi:
            gaps.append((lo, hi))
    live = []
    at_moment = lower
    for lo, hi in sorted(gaps):
        if at_moment < min(lo, upper):
            live.append((at_moment, min(lo, upper)))
        at_moment = max(at_moment, hi)
    if at_moment < upper or not live:
        live.append((min(at_moment, upper), upper))
    return live


def to_csv(problem: Problem, offset: I64 | None = None, ids: Sequence[str] | None = None) -> str:
    """The text of a file: id, lower, upper, size, and alignment, gaps, offset where there are any."""
    names = [str(k) for k in range(len(problem))] if ids is None else list(ids)
    head = np.searchsorted(problem.owner, np.arange(len(problem) + 1))
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    header = ["id", "lower", "upper", "size"]
    aligned = bool((problem.alignment != 1).any())
    header += ["alignment"] * aligned + ["gaps"] * problem.has_holes + ["offset"] * (offset is not None)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for k, name in enumerate(names):
        first, last = int(head[k]), int(head[k + 1]) - 1
        row: list[object] = [name, lower[first], upper[last], int(problem.size[k])]
        if aligned:
            row.append(int(problem.alignment[k]))
        if problem.has_holes:
            row.append(" ".join(f"{upper[r]}-{lower[r + 1]}" for r in range(first, last)))
        if offset is not None:
            row.append(int(offset[k]))
        writer.writerow(row)
    return out.getvalue()


def write_csv(
    path: str | Path, problem: Problem, offset: I64 | None = None, ids: Sequence[str] | None = None
) -> None:
    """Write a file; `read_csv` gives the same problem back. Raises `HauloutError` when it cannot be written."""
    try:
        Path(path).write_text(to_csv(problem, offset, ids), encoding="utf-8")
    except OSError as error:
        bad_input(f"cannot write {path}: {error}")
