"""The data of constants, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo.parser import parse_hlo
from haulout.ir.dtypes import NUMPY
from haulout.support.diagnostics import HauloutError


def literal(shape: str, text: str) -> np.ndarray:
    found = parse_hlo(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({text})\n}}\n").entry.root.literal
    assert found is not None
    return found


def braces(value: object) -> str:
    """Nested lists as HLO writes them, with the comments that a long dump has."""
    if isinstance(value, list):
        return "{ /*i0=0*/ " + ", ".join(braces(item) for item in value) + " }"
    return str(value)


@given(st.data())
def test_arrays_read_back(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["s8", "s32", "s64", "u8", "u64", "pred", "f32", "f64"]))
    dims = data.draw(st.lists(st.integers(0, 3), max_size=3))
    if dtype[0] in "su":
        limits = np.iinfo(NUMPY[dtype])  # type: ignore[type-var]
        element = st.integers(int(limits.min), int(limits.max))
    elif dtype == "pred":
        element = st.booleans()
    else:
        element = st.floats(allow_nan=False, width=32)
    count = int(np.prod(dims))
    array = np.array(data.draw(st.lists(element, min_size=count, max_size=count)), NUMPY[dtype]).reshape(dims)
    text = braces(array.tolist()).replace("True", "true").replace("False", "false")
    found = literal(f"{dtype}[{','.join(map(str, dims))}]", text)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_special_values() -> None:
    found = literal("f32[5]{0}", "{nan, -nan, inf, -inf, -0}")
    assert found.view(np.uint32).tolist() == [0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000]
    assert literal("f32[]", "nan(0x400001)").view(np.uint32) == 0x7FC00001
    assert literal("bf16[]", "-nan").view(np.uint16) == 0xFFC0
    assert literal("bf16[]", "1.5") == 1.5
    assert np.isnan(literal("f8e4m3fn[]", "nan").astype(np.float32))
    assert literal("pred[2]", "{1, 0}").tolist() == [True, False]
    assert literal("f64[]", "1e300") == 1e300
    assert literal("f32[]", "1e300") == np.inf


@pytest.mark.parametrize(
    ("shape", "text", "message"),
    [
        ("f32[2,2]", "{ {1,2}, ... }", "does not contain the data"),
        ("f32[4]", "{1,2,3}", "dimension 0 of this constant is not 4 long"),
        ("f32[2,2]", "{ {1,2}, {3} }", "dimension 1 of this constant is not 2 long"),
        ("f32[2]", "{1 2}", "expected `,` or `}`"),
        ("f32[2]", "{1,,2}", "unexpected `,`"),
        ("f32[2]", "{1,2,}", "unexpected `}`"),
        ("f32[2]", "{1,2}}", "expected `)`, found `}`"),
        ("f32[2]", "{1,2", "`)`"),
        ("f32[2]", "1, 2", "expected `{` for dimension 0"),
        ("f32[2]", "{ {1}, {2} }", "expected a number"),
        ("f32[]", "{1}", "expected a number"),
        ("f32[]", "1 2", "unexpected `2`"),
        ("f32[]", "", "ends too early"),
        ("f32[]", "x", "unexpected `x`"),
        ("s8[]", "128", "not a value of type s8"),
        ("u8[]", "-1", "not a value of type u8"),
        ("s32[]", "1.5", "not a value of type s32"),
        ("s32[]", "nan", "not a value of type s32"),
        ("pred[]", "2", "not a value of type pred"),
        ("s64[]", "9" * 5000, "not a value of type s64"),
        ("(s32[], s32[])", "(1, 2)", "are not supported"),
    ],
)
def test_what_is_wrong_is_said(shape: str, text: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        literal(shape, text)
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].labels[0].span is not None
