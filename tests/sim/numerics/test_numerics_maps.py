"""`map` gives the bits that its statements give one by one on whole arrays; `map_reduce` those of the `reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import HauloutError

SHAPE = (5, 7)
UNARY = ["exponential", "tanh", "logistic", "sine", "erf", "negate", "sqrt", "log_plus_one"]
BINARY = ["add", "multiply", "subtract", "divide", "power", "maximum", "atan2"]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[Any], list[tuple[str, tuple[int, ...]]]]:
    """Statements on three operands, some of one element, and the operands."""
    operands = [(draw(st.sampled_from(["f32", "bf16"])), draw(st.sampled_from([SHAPE, SHAPE, ()]))) for _ in range(3)]
    operands[0] = operands[0][0], SHAPE
    types = [dtype for dtype, _ in operands]
    body: list[Any] = []
    for _ in range(draw(st.integers(1, 8))):
        first = draw(st.integers(0, len(types) - 1))
        dtype = types[first]
        alike = [at for at, each in enumerate(types) if each == dtype]
        match draw(st.sampled_from(["unary", "binary", "binary", "constant", "convert"])):
            case "unary":
                body.append([draw(st.sampled_from(UNARY)), dtype, [first]])
            case "binary":
                body.append([draw(st.sampled_from(BINARY)), dtype, [first, draw(st.sampled_from(alike))]])
            case "constant":
                body.append(["constant", dtype, [], draw(st.sampled_from([0.5, -2.0, 3]))])
            case "convert":
                dtype = draw(st.sampled_from(["f32", "f64", "bf16"]))
                body.append(["convert", dtype, [first]])
        types.append(dtype)
    return body, operands


def one_by_one(body: list[Any], values: list[Any]) -> Any:
    """Each statement as an instruction of its own."""
    arrays = [np.array(np.broadcast_to(value, SHAPE)) for value in values]
    for opcode, dtype, numbers, *extra in body:
        output = TensorType(NUMPY[dtype], SHAPE)
        if opcode == "constant":
            arrays.append(np.full(SHAPE, extra[0]).astype(NUMPY[dtype]))
        else:
            arrays += evaluate(opcode, {}, [arrays[number] for number in numbers], [output])
    return arrays[-1]


@given(bodies(), st.integers(0, 99))
def test_a_map_is_its_statements(case: Any, seed: int) -> None:
    body, operands = case
    rng = np.random.default_rng(seed)
    values = [np.asarray(rng.standard_normal(shape) * 3).astype(NUMPY[dtype]) for dtype, shape in operands]
    expected = one_by_one(body, values)
    attrs = {"body": body, "results": [len(body) + 2]}
    (found,) = evaluate("map", attrs, values, [TensorType(expected.dtype, SHAPE)])
    assert found.tobytes() == expected.tobytes()
    if expected.dtype != NUMPY["f32"]:
        return
    initial, output = np.array(0.25, np.float32), TensorType(NUMPY["f32"], SHAPE[:1])
    (summed,) = evaluate("map_reduce", {"dims": [1], "op": "add", **attrs}, [*values, initial], [output])
    (wanted,) = evaluate("reduce", {"dims": [1], "op": "add"}, [expected, initial], [output])
    assert summed.tobytes() == wanted.tobytes()


F = NUMPY["f32"]


@pytest.mark.parametrize(
    ("opcode", "attrs", "shapes", "said"),
    [
        ("map", {}, [SHAPE], "`body`"),
        ("map", {"body": [["negate", "f32", [0]]], "results": [1]}, [(7,)], "operand 0 has shape"),
        ("map", {"body": [["negate", "f32", [1]]], "results": [1]}, [SHAPE], "not all earlier numbers"),
        ("map", {"body": [["dot", "f32", [0, 0]]], "results": [1]}, [SHAPE], "not an element-wise operation"),
        ("map", {"body": [], "results": [0, 0]}, [SHAPE], "`results`"),
        ("map_reduce", {"dims": [1], "body": [], "results": [0]}, [SHAPE, ()], "`op`"),
        ("map_reduce", {"dims": [1], "op": "add", "body": [], "results": [0]}, [()], "expected operands"),
    ],
)
def test_what_is_not_well_formed_is_refused(opcode: str, attrs: Any, shapes: Any, said: str) -> None:
    output = TensorType(F, SHAPE if opcode == "map" else SHAPE[:1])
    with pytest.raises(HauloutError, match=said):
        evaluate(opcode, attrs, [np.ones(shape, F) for shape in shapes], [output])
