"""Attribute values with a type."""

from collections.abc import Callable
from typing import Any

import pytest

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.support.diagnostics import HauloutError


def excerpt(text: str) -> Excerpt:
    padded = f"x = {text} , y"
    return Excerpt(Source("a.hlo", padded), 4, 4 + len(text))


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (attributes.integer, "12", 12),
        (attributes.integers, "{1,0, 2}", (1, 0, 2)),
        (attributes.integers, "{}", ()),
        (attributes.boolean, "true", True),
        (attributes.name, "%a.b-c", "a.b-c"),
        (attributes.names, "{%a, b}", ("a", "b")),
        (attributes.names, "%a", ("a",)),
        (attributes.slices, "{[0:2], [1:7:3]}", ((0, 2, 1), (1, 7, 3))),
        (attributes.padding, "2_0x0_-1x1_1_3", ((2, 0, 0), (0, -1, 0), (1, 1, 3))),
        (attributes.pairs, "{{0,1},{1,0}}", ((0, 1), (1, 0))),
        (attributes.pairs, "{}", ()),
        (attributes.dim_labels, "b01f_01io->b01f", "b01f_01io->b01f"),
        (attributes.dim_labels, "bf_io->bf", "bf_io->bf"),
    ],
)
def test_values(read: Callable[[Excerpt], Any], text: str, value: Any) -> None:
    assert read(excerpt(text)) == value


def test_window() -> None:
    found = attributes.window(
        excerpt("{size=3x2 stride=1x2 pad=0_0x-1_1 lhs_dilate=2x1 rhs_dilate=1x3 rhs_reversal=1x0}")
    )
    assert found == attributes.Window((3, 2), (1, 2), (0, -1), (0, 1), (2, 1), (1, 3), (True, False))
    assert attributes.window(excerpt("{size=5}")) == attributes.Window((5,), (1,), (0,), (0,), (1,), (1,), (False,))
    assert attributes.window(None).size == ()


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (attributes.integer, "-1", "must be at least 0"),
        (attributes.integer, "1 2", "expected the end of the value, found `2`"),
        (attributes.integers, "{1 2}", "expected `,` or `}`"),
        (attributes.integers, "{1,2", "expected `,` or `}`, found nothing"),
        (attributes.boolean, "yes", "expected true or false, found `yes`"),
        (attributes.name, "3", "expected a name"),
        (attributes.slices, "{[0:2:0]}", "must be at least 1"),
        (attributes.slices, "{0:2}", "`[` of a slice"),
        (attributes.padding, "1x2", "expected `_`"),
        (attributes.padding, "1_1_-1", "must be at least 0"),
        (attributes.pairs, "{{0,1,2}}", "one of 3 ids"),
        (attributes.dim_labels, "b01f_01io", "expected dimension labels"),
        (attributes.dim_labels, "b01f_0io->b01f", "do not name the 2 spatial dimensions"),
        (attributes.dim_labels, "b00f_01io->b01f", "do not name the 2 spatial dimensions"),
        (attributes.dim_labels, "b01?_01io->b01f", "do not name"),
        (attributes.window, "{size=3 size=3}", "given twice"),
        (attributes.window, "{size=3x3 stride=1}", "`stride` of a window has 1 entries"),
        (attributes.window, "{colour=3}", "is not a field of a window"),
        (attributes.window, "{size=0}", "must be at least 1"),
        (attributes.window, "{stride=2}", "`size` has 0"),
        (attributes.aliases, "{ {0}: 1 }", "(parameter, {index}, kind)"),
        (attributes.aliases, "{ {0}: (1, {}, can-alias) }", "`may-alias` or `must-alias`"),
    ],
)
def test_what_is_wrong_is_said(read: Callable[[Excerpt], Any], text: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        read(excerpt(text))
    assert message in str(caught.value)
    span = caught.value.diagnostics[0].span
    assert span is not None and span.column >= 5
