"""Lists as attribute values: short, flat ones are formatted in another way than others, to the same text."""

from __future__ import annotations

import pytest

from haulout.ir.attributes import AttrValue, format_attrs, parse_attrs


def _nested(depth: int) -> AttrValue:
    found: AttrValue = 1
    for _ in range(depth):
        found = [found, "x y", "name", True, 2.5, []]
    return found


@pytest.mark.parametrize("value", [[], [list(range(63))], [list(range(200))], *map(_nested, (1, 8, 9, 10, 500))])
def test_a_list_comes_back(value: AttrValue) -> None:
    text = format_attrs({"key": value})
    assert " ]" not in text and ", " not in text
    again = parse_attrs(text)
    assert format_attrs(again) == text
    left, right = [again["key"]], [value]
    while left:  # lists compare by recursion, and these are deep
        one, other = left.pop(), right.pop()
        assert type(one) is type(other)
        if isinstance(one, list) and isinstance(other, list):
            assert len(one) == len(other)
            left += one
            right += other
        else:
            assert one == other
