"""Typed attribute values: one function for each form, with its grammar. Errors are at the place of the value.

A value is an `Excerpt`: the text between `key=` and the next comma outside of brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.model import Alias
from haulout.frontends.hlo.source import Excerpt

_WINDOW_KEYS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
_WINDOW_KEY = re.compile(r"([a-z_]+)=")
_CROSS = re.compile("x")
_UNDER = re.compile("_")
_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")
_ALIAS_KIND = re.compile(r"(may|must)-alias")


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves over the spatial dimensions; one entry a dimension in each field."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    pad_low: tuple[int, ...]
    pad_high: tuple[int, ...]
    lhs_dilate: tuple[int, ...]
    rhs_dilate: tuple[int, ...]
    reversal: tuple[bool, ...]


def integer(value: Excerpt, minimum: int | None = 0) -> int:
    """`INT`."""
    cursor = Cursor.over(value)
    number = cursor.integer("an integer", minimum)
    cursor.finish("the value")
    return number


def integers(value: Excerpt) -> tuple[int, ...]:
    """`{INT,INT,...}`, none negative."""
    cursor = Cursor.over(value)
    numbers = cursor.integers("{", "}", "an integer")
    cursor.finish("the list")
    return numbers


def name(value: Excerpt) -> str:
    """`%name` or `name`."""
    cursor = Cursor.over(value)
    text = cursor.name("a name")
    cursor.finish("the name")
    return text


def names(value: Excerpt) -> tuple[str, ...]:
    """`{%a, %b}`, or one name."""
    cursor = Cursor.over(value)
    if not cursor.take_mark("{"):
        return (name(value),)
    found: list[str] = []
    while not cursor.take_mark("}"):
        if found:
            cursor.expect_mark(",", "`,` or `}`")
        found.append(cursor.name("a name"))
    cursor.finish("the list")
    return tuple(found)


def choice(value: Excerpt, *options: str) -> str:
    """One of the words `options`."""
    text = value.text.strip()
    if text not in options:
        value.fail(f"expected {' or '.join(options)}, found `{text}`", f"expected {' or '.join(options)}")
    return text


def boolean(value: Excerpt) -> bool:
    """`true` or `false`."""
    return choice(value, "true", "false") == "true"


def slices(value: Excerpt) -> tuple[tuple[int, int, int], ...]:
    """`{[start:limit:stride], [start:limit], ...}` as (start, limit, stride)."""
    cursor = Cursor.over(value)
    found: list[tuple[int, int, int]] = []
    cursor.expect_mark("{")
    while not cursor.take_mark("}"):
        if found:
            cursor.expect_mark(",", "`,` or `}`")
        cursor.expect_mark("[", "`[` of a slice")
        start = cursor.integer("the start of a slice")
        cursor.expect_mark(":", "`:`")
        limit = cursor.integer("the limit of a slice")
        stride = cursor.integer("the stride of a slice", 1) if cursor.take_mark(":") else 1
        cursor.expect_mark("]", "`]`")
        found.append((start, limit, stride))
    cursor.finish("the slices")
    return tuple(found)


def padding(value: Excerpt) -> tuple[tuple[int, int, int], ...]:
    """`low_high[_interior]x...`, one entry a dimension; low and high may be negative."""
    cursor = Cursor.over(value)
    found: list[tuple[int, int, int]] = []
    while not cursor.at_end():
        if found:
            cursor.expect(_CROSS, "`x`")
        low = cursor.integer("the padding below", None)
        cursor.expect(_UNDER, "`_`")
        high = cursor.integer("the padding above", None)
        interior = cursor.integer("the padding between") if cursor.take(_UNDER) else 0
        found.append((low, high, interior))
    return tuple(found)


def pairs(value: Excerpt) -> tuple[tuple[int, int], ...]:
    """`{{source,target},...}`."""
    cursor = Cursor.over(value)
    found: list[tuple[int, int]] = []
    cursor.expect_mark("{")
    while not cursor.take_mark("}"):
        if found:
            cursor.expect_mark(",", "`,` or `}`")
        pair = cursor.integers("{", "}", "an id")
        if len(pair) != 2:
            value.fail(f"expected pairs {{source,target}}, found one of {len(pair)} ids")
        found.append((pair[0], pair[1]))
    cursor.finish("the pairs")
    return tuple(found)


def dim_labels(value: Excerpt) -> str:
    """`lhs_rhs->out`: each with its letters once, and the digits 0, 1, ... for the spatial dimensions once."""
    text = value.text.strip()
    match = _LABELS.fullmatch(text)
    if match is None:
        value.fail(f"expected dimension labels such as `b01f_01io->b01f`, found `{text}`")
    spatial = len(match[1]) - 2
    for labels, letters in zip(match.groups(), ("bf", "io", "bf"), strict=True):
        if sorted(labels) != sorted(letters + "".join(map(str, range(spatial)))) or spatial > 9:
            value.fail(f"the labels `{labels}` do not name the {spatial} spatial dimensions and {letters} once each")
    return text


def window(value: Excerpt | None) -> Window:
    """`{size=3x3 stride=2x2 pad=0_0x1_1 lhs_dilate=2x2 rhs_dilate=2x2 rhs_reversal=1x1}`, all but size optional."""
    if value is None:
        return Window((), (), (), (), (), (), ())
    cursor = Cursor.over(value)
    cursor.expect_mark("{")
    fields: dict[str, list[tuple[int, ...]]] = {}
    while not cursor.take_mark("}"):
        start = cursor.skip()
        key = cursor.expect(_WINDOW_KEY, "a field of a window")[1]
        if key not in _WINDOW_KEYS or key in fields:
            value.source.fail(start, f"`{key}` is not a field of a window, or given twice", end=cursor.position)
        fields[key] = [_window_entry(cursor, key)]
        while cursor.take(_CROSS):
            fields[key].append(_window_entry(cursor, key))
    cursor.finish("the window")
    rank = len(fields.get("size", ()))
    for key, entries in fields.items():
        if len(entries) != rank:
            value.fail(f"`{key}` of a window has {len(entries)} entries, `size` has {rank}")

    def column(key: str, index: int, default: int) -> tuple[int, ...]:
        entries = fields.get(key)
        return tuple(entry[index] for entry in entries) if entries else (default,) * rank

    return Window(
        column("size", 0, 1),
        column("stride", 0, 1),
        column("pad", 0, 0),
        column("pad", 1, 0),
        column("lhs_dilate", 0, 1),
        column("rhs_dilate", 0, 1),
        tuple(bool(entry) for entry in column("rhs_reversal", 0, 0)),
    )


def _window_entry(cursor: Cursor, key: str) -> tuple[int, ...]:
    if key == "rhs_reversal":
        return (cursor.integer("0 or 1"),)
    if key != "pad":
        return (cursor.integer(f"the {key} of a window", 1),)
    low = cursor.integer("the padding below", None)
    cursor.expect(_UNDER, "`_`")
    return low, cursor.integer("the padding above", None)


def aliases(value: Excerpt) -> tuple[Alias, ...]:
    """`{ {output}: (parameter, {index}[, may-alias|must-alias]), ... }`."""
    cursor = Cursor.over(value)
    found: list[Alias] = []
    cursor.expect_mark("{")
    while not cursor.take_mark("}"):
        if found:
            cursor.expect_mark(",", "`,` or `}`")
        start = cursor.skip()
        output = cursor.integers("{", "}", "an index of the output")
        cursor.expect_mark(":", "`:`")
        cursor.expect_mark("(", "`(parameter, {index}, kind)`")
        parameter, must = cursor.integer("a parameter number"), False
        index: tuple[int, ...] = ()
        if cursor.take_mark(","):
            index = cursor.integers("{", "}", "an index of the parameter")
        if cursor.take_mark(","):
            must = cursor.expect(_ALIAS_KIND, "`may-alias` or `must-alias`")[1] == "must"
        cursor.expect_mark(")", "`)`")
        found.append(Alias(output, parameter, index, must, Excerpt(value.source, start, cursor.position)))
    cursor.finish("the aliases")
    return tuple(found)
