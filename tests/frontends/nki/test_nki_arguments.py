"""Arguments from the command line and from TOML."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from haulout.frontends.nki.arguments import DottedName, TensorSpec, load_arguments, parse_arguments, parse_value
from haulout.frontends.nki.dtypes import ELEMENT_TYPES, nki_name
from haulout.frontends.nki.storage import Buffer
from haulout.ir import dtypes
from haulout.support.diagnostics import HauloutError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bf16[4,1,1024]", TensorSpec("bfloat16", (4, 1, 1024))),
        ("float8_e4m3[8]", TensorSpec("float8_e4m3", (8,))),
        ("f8e4m3[8]", TensorSpec("float8_e4m3", (8,))),
        ("f8e4m3fn[8]", TensorSpec("float8_e4m3fn", (8,))),
        ("sbuf:f32[128, 64]", TensorSpec("float32", (128, 64), Buffer.sbuf)),
        ("i32[]", TensorSpec("int32", ())),
        ("i32[64,1]{0:16}", TensorSpec("int32", (64, 1), within=(0, 16))),
        ("4", 4),
        ("-3", -3),
        ("1e-6", 1e-6),
        ("true", True),
        ("none", None),
        ("'text with blanks'", "text with blanks"),
        ("Mode.FAST", DottedName("Mode.FAST")),
        ("a b", "a b"),
    ],
)
def test_values(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_arrays_keep_their_contents(tmp_path: Path) -> None:
    np.save(tmp_path / "idx.npy", np.array([[5, 7]], np.int32))
    spec = parse_arguments([f"idx=@{tmp_path / 'idx.npy'}"])["idx"]
    assert (spec.dtype, spec.shape) == ("int32", (1, 2))
    assert spec.values.tolist() == [[5, 7]]


@pytest.mark.parametrize("item", ["x", "x=f99[4]", "x=f32[0]", "x=i32[4]{3:3}", "x=@missing.npy", "1x=3", "=3"])
def test_what_is_no_argument_is_bad_input(item: str) -> None:
    with pytest.raises(HauloutError) as raised:
        parse_arguments([item])
    assert raised.value.diagnostics[0].code == "bad-input"


def test_toml(tmp_path: Path) -> None:
    np.save(tmp_path / "idx.npy", np.zeros(3, np.int32))
    (tmp_path / "args.toml").write_text(
        'x = "bf16[2,3]"\nidx = "@idx.npy"\nk = 4\neps = 0.5\nparts = ["f32[1]", 2]\n'
    )
    found = load_arguments(tmp_path / "args.toml")
    assert found["x"] == TensorSpec("bfloat16", (2, 3))
    assert found["idx"].shape == (3,)
    assert (found["k"], found["eps"]) == (4, 0.5)
    assert found["parts"] == [TensorSpec("float32", (1,)), 2]
    (tmp_path / "bad.toml").write_text("x = = 3")
    with pytest.raises(HauloutError):
        load_arguments(tmp_path / "bad.toml")


def test_element_types_have_the_size_of_what_stores_them() -> None:
    for name, (size, stored) in ELEMENT_TYPES.items():
        assert dtypes.itemsize(stored) == size, name
    for name in dtypes.NUMPY:
        if name in ("c64", "c128"):  # NKI has no complex numbers
            assert nki_name(name) is None
            continue
        assert nki_name(name) is not None, name
        assert ELEMENT_TYPES[str(nki_name(dtypes.NUMPY[name]))].bytes == dtypes.itemsize(name)


def test_the_two_kinds_of_float8_e4m3_differ() -> None:
    for name, greatest in (("float8_e4m3", 240.0), ("float8_e4m3fn", 448.0)):
        stored = dtypes.NUMPY[ELEMENT_TYPES[name].stored]
        assert nki_name(stored) == name
        assert float(ml_dtypes.finfo(stored).max) == greatest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2,3]", [1, 2, 3]),
        ("(5,5)", (5, 5)),
        ("(5,)", (5,)),
        ("()", ()),
        ("[]", []),
        ("[bf16[2,3], (1, [true]), 'a,]b']", [TensorSpec("bfloat16", (2, 3)), (1, [True]), "a,]b"]),
    ],
)
def test_lists_and_tuples(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_arrays_inside_lists(tmp_path: Path) -> None:
    np.save(tmp_path / "idx.npy", np.array([5, 7], np.int32))
    found = parse_arguments([f"parts=[@{tmp_path / 'idx.npy'}, 3]"])["parts"]
    assert found[0].values.tolist() == [5, 7]
    assert found[1] == 3


@pytest.mark.parametrize(
    "text",
    ["bf16[4", "bf16[4,a]", "bf16(4,4)", "4,4", "[1", "1]", "[1, (2]]", "[f32[0]]", "['a]", "{1: 2}", "", "3 4"],
)
def test_what_is_no_value_is_refused_by_the_name_of_its_argument(text: str) -> None:
    with pytest.raises(HauloutError) as raised:
        parse_arguments([f"weights={text}"])
    assert raised.value.diagnostics[0].code == "bad-input"
    assert "argument weights" in raised.value.diagnostics[0].message
