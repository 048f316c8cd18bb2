"""Small programs for the simulator's tests, without the frame that every `.bir` file has."""

import base64
from typing import Any

import numpy as np
import pytest

from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.sim import simulate
from haulout.support.diagnostics import Diagnostic, HauloutError


def program(*cores: str) -> Program:
    """A program of one function from the statements of each core: `mloc` lines, then instructions."""
    return parse_bir(source(*cores), "test.bir")


def source(*cores: str) -> str:
    """The text of that program."""
    lines = ["bir 1", f'program "test" lnc={len(cores)}']
    for core, statements in enumerate(cores):
        rows = [row.strip() for row in statements.strip().splitlines()]
        lines += [f"module @nc{core} core={core} {{", "func @main {"]
        lines += [row for row in rows if row.startswith("mloc")]
        if not any(row.startswith("block") for row in rows):
            lines.append("block ^entry:")
        lines += [row for row in rows if not row.startswith("mloc")]
        lines += ["}", "}"]
    return "\n".join(lines) + "\n"


def vector(name: str, space: str = "dram.local", attrs: str = "") -> str:
    """The statement of a location of four f32."""
    return f"mloc %{name} {space} size=16 dtype=f32 shape=[4] {attrs}"


def constant(name: str, value: int) -> str:
    """The statement of a constant s32."""
    data = base64.b64encode(value.to_bytes(4, "little", signed=True)).decode()
    return f'mloc %{name} dram.local size=4 kind=const dtype=s32 shape=[] data="{data}"'


INT = "dtype=s32 shape=[]"
COUNTER = f"""
    {constant("zero", 0)}
    {constant("one", 1)}
    mloc %n dram.local size=4 kind=input {INT}
    mloc %i dram.local size=4 {INT}
    mloc %go dram.local size=1 dtype=pred shape=[]
"""
"""Locations of a loop from 0 to n."""


def counting(header: str = "", body: str = "", behind: str = "", trip: str = "", locations: str = "") -> str:
    """One core that counts %i up to %n in a loop on engine vector; `header` stands behind the comparison."""
    return f"""
        {COUNTER}
        {locations}
        block ^entry -> ^loop:
        %start = dma_copy @vector (%zero) -> (%i)
        block ^loop -> ^body, ^end cond=go {trip}:
        %test = compare @vector (%i, %n) -> (%go) direction=LT
        {header}
        block ^body -> ^loop:
        %step = add @vector (%i, %one) -> (%i)
        {body}
        block ^end:
        {behind}
    """


def count(value: int) -> dict[str, Any]:
    return {"n": np.int32(value)}


NESTED = f"""
    {COUNTER}
    mloc %m dram.local size=4 kind=input {INT}
    mloc %j dram.local size=4 {INT}
    mloc %in dram.local size=1 dtype=pred shape=[]
    mloc %t dram.local size=4 {INT}
    mloc %s dram.local size=4 kind=inout {INT}
    block ^entry -> ^outer:
    %start = dma_copy @vector (%zero) -> (%i)
    block ^outer -> ^setup, ^end cond=go:
    %test = compare @vector (%i, %n) -> (%go) direction=LT
    block ^setup -> ^inner:
    %restart = dma_copy @vector (%zero) -> (%j)
    block ^inner -> ^deep, ^latch cond=in:
    %again = compare @vector (%j, %m) -> (%in) direction=LT
    block ^deep -> ^inner:
    %product = multiply @vector (%i, %j) -> (%t)
    %acc = add @vector (%s, %t) -> (%s)
    %down = add @vector (%j, %one) -> (%j)
    block ^latch -> ^outer:
    %step = add @vector (%i, %one) -> (%i)
    block ^end:
"""


def refusal(text: Program, code: str = "bad-input", inputs: Any = None, **options: Any) -> Diagnostic:
    """What a simulation that is refused says."""
    with pytest.raises(HauloutError) as caught:
        simulate(text, inputs, **options)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    return diagnostic
