"""Problems and placements as CSV, in the columns of MiniMalloc (idealloc's traces use the same).

    header  = name {"," name}                    in any order; names are not case-sensitive
    name    = "id" | "buffer" | "buffer_id"      any text
            | "lower" | "begin" | "start"        first moment of the live range
            | "upper"                            first moment after it
            | "end"                              last moment of it; the ends of gaps are inclusive too, then
            | "size"                             bytes
            | "alignment"                        bytes; 1 when absent or empty
            | "gaps"                             moments within the range at which the storage is free
            | "offset" | "hint"                  bytes; empty or -1: none
            | "pool"                             a name, for the reader of a placement; it is no constraint
    gaps    = {gap " "} gap
    gap     = moment "-" moment ["@" byte ":" byte]

A gap with "@" frees all bytes of the buffer but a window, half-open. Gaps with windows must not overlap each other;
where one overlaps a gap without a window, the storage is free. `id`, lower, upper and size are required. Blank lines
are skipped. Errors name line and column.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from haulout.packing.problem import I64, LIMIT, Problem
from haulout.support.diagnostics import HauloutError, Label, Span, bad_input
from haulout.support.files import read_start, read_text, write_text

_NAMES = {
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    "end": "upper",
}
_KNOWN = ("id", "lower", "upper", "size", "alignment", "gaps", "offset", "hint", "pool")
_REQUIRED = _KNOWN[:4]
XLA_HEADER = "BufferAssignment:"
"""A line at the start of XLA's buffer assignment, by which a file is known not to be CSV."""
TFLITE_IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a TensorFlow Lite model."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The contents of a file. `offset` and `hint` are -1 in empty fields, None when the column is missing.

    `own`: so many rows are buffers of the file; those after them stand for reserved ranges (`structured.py`).
    `costs`: reuse penalties (buffer, buffer, cost), lowered as a second objective. `own_planner`: the planner that a
    model's runtime has, its name and its peak in bytes.
    """

    problem: Problem
    ids: tuple[str, ...]
    offset: I64 | None = None
    hint: I64 | None = None
    own: int | None = None
    costs: tuple[tuple[int, int, int], ...] = ()
    own_planner: tuple[str, int] | None = None

    def with_pins(self, segment: int = 0) -> Problem:
        """The problem with `offset` as pins, and with `segment`, if it is not 0, for all. Raises `HauloutError`."""
        rows = self.problem
        return Problem.of(
            rows.lower,
            rows.upper,
            rows.size,
            rows.alignment,
            pinned=rows.pinned if self.offset is None else self.offset,
            owner=rows.owner,
            segment=segment or rows.segment,
            rules=rows.rules,
            window=None if rows.window_low is None else rows.windows,
        )


@dataclass(frozen=True, slots=True)
class _Row:
    """One line and its fields; reads numbers and reports errors at their fields."""

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
            self.wrong(name, f"expected an integer, found `{text}`")
        value = int(text)
        if not least <= value <= most:
            self.wrong(name, f"expected a number between {least} and {most}, found {value}")
        return value

    def wrong(self, name: str, message: str) -> NoReturn:
        at = self.index[name]
        column = len(",".join(self.fields[:at])) + (2 if at else 1)
        span = Span(self.file, self.line, column, column + max(1, len(self.fields[at])))
        bad_input(f"line {self.line}, column `{name}`: {message}", Label("here", span, ",".join(self.fields)))


def read_csv(path: str | Path) -> Table:
    """Read a file. Raises `HauloutError` (`bad-input`)."""
    return parse_csv(read_text(Path(path)), str(path))


def is_table(path: str | Path) -> bool:
    """Whether a file is a problem as CSV: by its suffix, or by a first line that names the columns."""
    if Path(path).suffix == ".csv":
        return True
    try:
        start = read_start(Path(path), 4096).decode("utf-8-sig", "replace").lstrip()
    except HauloutError:
        return False  # its reader says why
    names = {each.strip().lower() for each in start.partition("\n")[0].split(",")}
    return {_NAMES.get(name, name) for name in names} >= {"id", "lower", "upper", "size"}


def parse_csv(text: str, file: str = "<csv>") -> Table:
    """Read the text of a file; `file` is the name for messages. Raises `HauloutError` (`bad-input`)."""
    reader = csv.reader(io.StringIO(text, newline=""))
    index: dict[str, int] = {}
    inclusive = 0
    ids: list[str] = []
    columns: dict[str, list[int]] = {name: [] for name in ("size", "alignment", "offset", "hint")}
    ranges: list[tuple[int, int, int, int, int]] = []  # lower, upper, buffer, window
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
            ranges.extend(
                (lo, hi, buffer, *window) for lo, hi, window in _ranges(row, inclusive, columns["size"][-1])
            )
    except csv.Error as error:
        bad_input(f"line {reader.line_num}: {error}", Label("here", Span(file, reader.line_num)))
    if not index:
        bad_input(f"{file} has no header", Label("here", Span(file, 1)))
    lower, upper, owner, low, high = np.array(ranges, np.int64).reshape(-1, 5).T
    gaps = len(owner) > len(ids)
    whole = bool((high - low == np.array(columns["size"], np.int64)[owner]).all())
    return Table(
        Problem.of(
            lower,
            upper,
            columns["size"],
            columns["alignment"],
            owner=owner if gaps else None,
            window=None if whole else (low, high),
        ),
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
            bad_input(f"line {line}: unknown column `{name}`", label, help=("columns: " + ", ".join(_KNOWN),))
        if canonical in index:
            bad_input(f"line {line}: column `{canonical}` is given twice", label)
        index[canonical] = k
    for name in _REQUIRED:
        if name not in index:
            bad_input(f"line {line}: column `{name}` is missing", label)
    return index, int("end" in names)


def _ranges(row: _Row, inclusive: int, size: int) -> list[tuple[int, int, tuple[int, int]]]:
    """Ranges and windows: the live range without its gaps, at least one range, perhaps empty."""
    lower = row.number("lower", -LIMIT, LIMIT)
    upper = row.number("upper", -LIMIT, LIMIT - inclusive) + inclusive
    if upper < lower:
        row.wrong("upper", f"the range ends at {upper}, before its start {lower}")
    free: list[tuple[int, int]] = []
    windows: list[tuple[int, int, tuple[int, int]]] = []
    for gap in row.text("gaps").split():
        moments, at, window = gap.partition("@")
        begin, dash, end = moments.partition("-")
        if not dash or (at and len(window.split(":")) != 2):
            row.wrong("gaps", f"expected MOMENT-MOMENT or MOMENT-MOMENT@BYTE:BYTE, found `{gap}`")
        lo = row.parse("gaps", begin, -LIMIT, LIMIT)
        hi = row.parse("gaps", end, -LIMIT, LIMIT - inclusive) + inclusive
        if hi < lo:
            row.wrong("gaps", f"the gap ends at {hi}, before its start {lo}")
        if at:
            low, high = (row.parse("gaps", byte, 0, size) for byte in window.split(":"))
            if high < low:
                row.wrong("gaps", f"the window ends at {high}, before its start {low}")
            windows.append((lo, hi, (low, high)))
        else:
            free.append((lo, hi))
    windows = sorted(each for each in windows if each[0] < each[1])
    for one, two in itertools.pairwise(windows):
        if two[0] < one[1]:
            row.wrong("gaps", f"two gaps with windows overlap at {two[0]}")
    live = _without([(lower, upper, (0, size))], [(lo, hi) for lo, hi, _ in windows] + free)
    live += _without([(max(lo, lower), min(hi, upper), held) for lo, hi, held in windows], free)
    return sorted(live) or [(upper, upper, (0, size))]


def _without(
    ranges: list[tuple[int, int, tuple[int, int]]], gaps: list[tuple[int, int]]
) -> list[tuple[int, int, tuple[int, int]]]:
    """Ranges without the gaps; empty ranges are left out."""
    left = []
    for lower, upper, window in ranges:
        at = lower
        for lo, hi in sorted(gap for gap in gaps if gap[0] < gap[1]):
            if at < min(lo, upper):
                left.append((at, min(lo, upper), window))
            at = max(at, hi)
        if at < upper:
            left.append((at, upper, window))
    return left


def to_csv(
    problem: Problem,
    offset: I64 | None = None,
    ids: Sequence[str] | None = None,
    pool: Sequence[str] | None = None,
) -> str:
    """The text of a file: id, lower, upper, size; alignment, gaps, offset and pool if there are any."""
    names = [str(k) for k in range(len(problem))] if ids is None else list(ids)
    head = np.searchsorted(problem.owner, np.arange(len(problem) + 1))
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    header = ["id", "lower", "upper", "size"]
    aligned = bool((problem.alignment != 1).any())
    gaps = problem.has_holes or problem.window_low is not None
    header += ["alignment"] * aligned + ["gaps"] * gaps + ["offset"] * (offset is not None)
    header += ["pool"] * (pool is not None)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for k, name in enumerate(names):
        first, last = int(head[k]), int(head[k + 1]) - 1
        row: list[object] = [name, lower[first], upper[last], int(problem.size[k])]
        if aligned:
            row.append(int(problem.alignment[k]))
        if gaps:
            row.append(" ".join(_gaps(problem, first, last + 1)))
        if offset is not None:
            row.append(int(offset[k]))
        if pool is not None:
            row.append(pool[k])
        writer.writerow(row)
    return out.getvalue()


def _gaps(problem: Problem, first: int, end: int) -> Iterator[str]:
    """The holes between ranges first..end of a buffer, and the ranges with windows."""
    low, high = problem.window_low, problem.window_high
    for r in range(first, end):
        if r > first and problem.upper[r - 1] < problem.lower[r]:
            yield f"{problem.upper[r - 1]}-{problem.lower[r]}"
        if low is not None and high is not None and high[r] - low[r] < problem.size[problem.owner[r]]:
            yield f"{problem.lower[r]}-{problem.upper[r]}@{low[r]}:{high[r]}"


def write_csv(
    path: str | Path, problem: Problem, offset: I64 | None = None, ids: Sequence[str] | None = None
) -> None:
    """Write a file; `read_csv` gives the same problem back. Raises `HauloutError` when it cannot be written."""
    write_text(path, to_csv(problem, offset, ids))
