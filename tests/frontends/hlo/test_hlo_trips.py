"""How often a loop runs: known for counted loops, and then what counting by hand gives; otherwise absent."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import NONE

HOLDS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def counted(
    start: str = "0",
    update: str = "add(i, step)",
    step: str = "1",
    compare: str = "compare(i, limit), direction=LT",
    limit: str = "7",
    dtype: str = "s32",
) -> str:
    """A loop that counts; `i` is the counter, `n` a state that the body only hands on, `p` a parameter."""
    state = f"({dtype}[], {dtype}[])"
    return f"""HloModule m
body {{
  s = {state} parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  n = {dtype}[] get-tuple-element(s), index=1
  step = {dtype}[] constant({step})
  next = {dtype}[] {update}
  ROOT t = {state} tuple(next, n)
}}
condition {{
  s = {state} parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  n = {dtype}[] get-tuple-element(s), index=1
  limit = {dtype}[] constant({limit})
  ROOT c = pred[] {compare}
}}
ENTRY e {{
  p = {dtype}[] parameter(0)
  nine = {dtype}[] constant(9)
  start = {dtype}[] {start if "(" in start else f"constant({start})"}
  t = {state} tuple(start, nine)
  w = {state} while(t), condition=condition, body=body
  ROOT r = {dtype}[] get-tuple-element(w), index=0
}}
"""


def trip(text: str) -> int | None:
    blocks = lower(parse_hlo(text)).blocks
    (found,) = set(blocks.trip[blocks.cond != NONE].tolist())
    return None if found == NONE else found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 7),
        ({"step": "3"}, 3),
        ({"start": "7"}, 0),
        ({"update": "add(step, i)"}, 7),
        ({"compare": "compare(limit, i), direction=GE"}, 8),
        ({"compare": "compare(i, n), direction=LT"}, 9),
        ({"start": "9", "update": "subtract(i, step)", "compare": "compare(i, limit), direction=GT"}, 2),
        ({"start": "9", "step": "-2", "compare": "compare(i, limit), direction=NE"}, 1),
        ({"start": "7", "compare": "compare(i, limit), direction=EQ"}, 1),
        ({"start": "120", "limit": "127", "dtype": "s8"}, 7),
        ({"start": "3", "limit": "0", "dtype": "u8", "step": "3", "update": "subtract(i, step)",
          "compare": "compare(i, limit), direction=GT"}, 1),
    ],
)  # fmt: skip
def test_known(changes: dict[str, str], expected: int) -> None:
    assert trip(counted(**changes)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"start": "negate(p)"},
        {"update": "multiply(i, step)"},
        {"update": "subtract(step, i)"},
        {"update": "add(i, n)", "compare": "compare(n, limit), direction=LT"},
        {"step": "0"},
        {"step": "-1"},
        {"step": "2", "compare": "compare(i, limit), direction=NE"},
        {"limit": "127", "compare": "compare(i, limit), direction=LE", "dtype": "s8"},
        {"limit": "1", "step": "3", "update": "subtract(i, step)", "start": "250",
         "compare": "compare(i, limit), direction=GE", "dtype": "u8"},
        {"dtype": "f32"},
    ],
)  # fmt: skip
def test_not_known(changes: dict[str, str]) -> None:
    """Data, other updates, a counter that stands still, or one that would wrap around."""
    assert trip(counted(**changes)) is None


@given(
    st.integers(-20, 20),
    st.integers(-5, 5),
    st.integers(-20, 20),
    st.sampled_from(sorted(HOLDS)),
    st.booleans(),
)
def test_counting(start: int, step: int, limit: int, direction: str, mirrored: bool) -> None:
    """The executor checks that a loop of a known number runs so often."""
    compare = f"compare({'limit, i' if mirrored else 'i, limit'}), direction={direction}"
    text = counted(str(start), "add(i, step)", str(step), compare, str(limit))
    expected, value = 0, start
    while HOLDS[direction](*((limit, value) if mirrored else (value, limit))) and expected < 100:
        value += step
        expected += 1
    if expected == 100:
        assert trip(text) is None
        return
    assert trip(text) == expected
    assert Executor(lower(parse_hlo(text))).run([[np.array(0, np.int32)]])[0][0] == value
