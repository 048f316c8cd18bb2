"""Steps of both readers: integers that may be text, slices as runs of bytes, findings about many tasks."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.ir.task_graph import Shape
from haulout.support.diagnostics import Diagnostic, Label, Severity, Span, bad_input

Number = int | str
"""64-bit numbers are text in some files, because JavaScript loses their low bits."""
LIMIT = 1 << 61
"""Bytes and strides are less, so that sums of them fit into 64 bits."""


def number(value: Number, what: str, file: str) -> int:
    """The integer of a field. Raises `bad-input`."""
    if isinstance(value, int):
        return value
    try:
        return int(value)
    except ValueError:
        bad_input(f"{what} must be an integer, not {value[:40]!r}", Label("this file", Span(file)))


def slice_shape(dims: Sequence[int], strides: Sequence[int], size: int) -> Shape | None:
    """Elements of `size` bytes at multiples of strides as runs; None if no pattern fits. Counts must be positive."""
    if len(dims) != len(strides) or any(each <= 0 for each in dims):
        return None
    shape: Shape = (size, tuple((stride * size, count) for count, stride in zip(dims, strides, strict=True)))
    return shape if reach(shape) < LIMIT else None


def reach(shape: Shape) -> int:
    """A bound of the distance of a byte of a slice from its offset."""
    run, dims = shape
    return run + sum(abs(stride) * count for stride, count in dims)


def unproved(message: str, names: Sequence[str], file: str, help: str) -> Diagnostic:
    """A warning about something that tasks do and that the reader cannot read; names at most ten of them."""
    shown = ", ".join(names[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    notes = (f"{len(names)} in all: {shown}{more}",)
    return Diagnostic("unproved-task", Severity.WARNING, message, (Label("this file", Span(file)),), notes, (help,))
