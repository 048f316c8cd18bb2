"""Shapes of HLO values, and their text form.

    shape   := tuple | array
    tuple   := "(" [shape ("," shape)*] ")"
    array   := TYPE "[" [INT ("," INT)*] "]" [layout]
    layout  := "{" [INT ("," INT)*] [":" suffix] "}"   # suffix: tiles, memory space; kept as text

A layout is a physical hint. Programs store every array row-major in its logical dimensions, so only `bitcast`, which
depends on layouts, reads it. A token orders what has effects; it is kept as one `pred`, so that its readers come
after what writes it. Opaque values have the type `opaque`. A size that is not known (`<=8`, `?`) counts as its bound.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache

from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.source import Source
from haulout.support.diagnostics import HauloutError

_SIZED = {
    "s": (1, 2, 4, 8, 16, 32, 64),
    "u": (1, 2, 4, 8, 16, 32, 64),
    "f": (16, 32, 64),
    "bf": (16,),
    "c": (64, 128),
    "f8": ("e3m4", "e4m3", "e4m3fn", "e4m3b11fnuz", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"),
    "f4": ("e2m1fn",),
}
TYPES = frozenset(f"{kind}{size}" for kind, sizes in _SIZED.items() for size in sizes) | {
    "pred",
    "token",
    "opaque",
}
"""Element types that HLO knows; the ones a program can hold are those of `haulout.ir.dtypes`."""

MAX_DEPTH = 64
"""Of nested tuples."""
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[")
_DYNAMIC = re.compile(r"<=|\?")
_LAYOUT = re.compile(r"\{(?=\s*[0-9:}])")  # a computation's body may follow a shape, too
_SUFFIX = re.compile(r":[^{}\n]*")
ARRAY = r"[a-z][a-z0-9]*+\[[0-9,]{0,200}+\](?:\{[0-9,]{0,200}+(?::[^{}\n]{0,200}+)?\})?"
"""An array without blanks. A comma, a parenthesis or a word has to follow, so that no layout does.

Short, as its shape is cached by the text.
"""
_ALONE = re.compile(ARRAY + r"(?=[,)]| [a-z%])")


@dataclass(frozen=True, slots=True)
class Shape:
    """An array: element type and extents. Equality ignores the layout."""

    dtype: str
    dims: tuple[int, ...]
    layout: tuple[int, ...] | None = field(default=None, compare=False)
    """Minor-to-major order of the dimensions, or None when not written."""
    suffix: str = field(default="", compare=False)
    is_dynamic: bool = field(default=False, compare=False)
    """Whether a size is only bounded."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def is_row_major(self) -> bool:
        """Whether the layout, if written, is the descending one."""
        return self.layout is None or self.layout == tuple(range(len(self.dims) - 1, -1, -1))

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class TupleShape:
    """A tuple of shapes."""

    elements: tuple[AnyShape, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


AnyShape = Shape | TupleShape


def parse_shape(cursor: Cursor, depth: int = 0) -> AnyShape:
    """Read a shape."""
    match = _ALONE.match(cursor.source.text, cursor.skip(), cursor.end)
    known = plain_array(match[0]) if match is not None else None
    if match is not None and known is not None:
        cursor.position = match.end()
        return known
    if not cursor.take_mark("("):
        return _parse_array(cursor)
    if depth == MAX_DEPTH:
        cursor.source.fail(cursor.position - 1, f"tuples are nested more than {MAX_DEPTH} deep")
    elements: list[AnyShape] = []
    while not cursor.take_mark(")"):
        if elements:
            cursor.expect_mark(",", "`,` or `)` in a tuple shape")
        elements.append(parse_shape(cursor, depth + 1))
    return TupleShape(tuple(elements))


@lru_cache(maxsize=4096)
def plain_array(text: str) -> Shape | None:
    """The shape of a text that is `ARRAY`; None if it is not valid: read it where it stands, for the message."""
    cursor = Cursor(Source("", text))
    try:
        shape = _parse_array(cursor)
    except HauloutError:
        return None
    return shape if cursor.at_end() else None


def sees_shape(cursor: Cursor) -> bool:
    """Whether a shape comes next."""
    return cursor.sees_mark("(") or cursor.sees(_ARRAY)


def _parse_array(cursor: Cursor) -> Shape:
    match = cursor.expect(_ARRAY, "a shape such as `f32[2,3]{1,0}` or a tuple of shapes")
    dtype = match[1]
    if dtype not in TYPES:
        cursor.source.fail(match.start(), f"unknown element type `{dtype}`", "here", match.end(1))
    dims: list[int] = []
    is_dynamic = False
    while not cursor.take_mark("]"):
        if dims:
            cursor.expect_mark(",", "`,` or `]`")
        bound = cursor.take(_DYNAMIC)
        is_dynamic |= bound is not None
        dims.append(0 if bound is not None and bound[0] == "?" else cursor.integer("a dimension"))
    layout, suffix = _parse_layout(cursor) if cursor.sees(_LAYOUT) else (None, "")
    if layout is not None and sorted(layout) != list(range(len(dims))):
        cursor.source.fail(
            match.start(),
            f"the layout of {dtype}[{','.join(map(str, dims))}] is not a permutation of its dimensions",
            f"layout {{{','.join(map(str, layout))}}}",
            cursor.position,
        )
    if dtype == "token":
        return Shape("pred", (), None, "token")
    return Shape(dtype, tuple(dims), layout, suffix, is_dynamic)


def _parse_layout(cursor: Cursor) -> tuple[tuple[int, ...] | None, str]:
    """The order of the dimensions, None when only a suffix is written, and the suffix."""
    cursor.expect_mark("{")
    order: list[int] = []
    while not (cursor.sees_mark(":") or cursor.sees_mark("}")):
        if order:
            cursor.expect_mark(",", "`,`, `:` or `}` in a layout")
        order.append(cursor.integer("a dimension number"))
    match = cursor.take(_SUFFIX)
    cursor.expect_mark("}", "`}` after a layout")
    suffix = match[0][1:].strip() if match else ""
    return (tuple(order) if order or not suffix else None), suffix
