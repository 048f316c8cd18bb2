"""Arguments of a kernel from the command line or a TOML file.

    x=bf16[4,1,1024]        a tensor in HBM that the caller writes
    out=sbuf:f32[128,64]    a tensor in SBUF
    idx=@idx.npy            an array: a tensor whose contents are known
    idx=i32[64,1]{0:16}     a tensor of integers from 0 to 15
    k=4  eps=1e-5  causal=true  bias=none  mode=NormType.RMS_NORM  name="text"
    parts=[bf16[2,3], 4]  size=(5,5)    a list and a tuple of such values

Element types have the names of NKI or of `.bir`. A dotted name is looked up in the module of the kernel; if it is not
there, it is a string. In TOML, numbers, booleans and lists have their TOML form, all other values are strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki.dtypes import nki_name
from haulout.frontends.nki.storage import Buffer, Interval
from haulout.support.diagnostics import bad_input
from haulout.support.files import read_text
from haulout.support.readers import parse_toml, read_npy

_TENSOR = re.compile(
    r"(?:(sbuf|psum|hbm|shared_hbm|private_hbm):)?([A-Za-z_]\w*)\[([\d\s,]*)\](?:\{(-?\d+):(-?\d+)\})?\Z"
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_INTEGER = re.compile(r"[+-]?\d+")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_NO_TEXT = re.compile(r"[\[\](){}@]|^[\s\d.,+-]+$")
"""What an unquoted text does not have: it looks like a value that is misspelt."""
MAX_DIGITS = 1000
"""Python refuses to read much longer integers."""
_WORDS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor argument: NKI's element type, shape, memory, and its contents if they are known."""

    dtype: str
    shape: tuple[int, ...]
    buffer: Buffer = Buffer.shared_hbm
    values: npt.NDArray[Any] | None = None
    within: Interval | None = None
    """Declared half-open range of its integers."""
    array: npt.NDArray[Any] | None = None
    """Its contents for a simulation, of any element type."""


@dataclass(frozen=True, slots=True)
class DottedName:
    """A name to look up in the kernel's module."""

    text: str


def tensor_spec(array: Any) -> TensorSpec | None:
    """The spec of anything with a shape and a dtype (NumPy, JAX, torch); integers of NumPy keep their contents."""
    if isinstance(array, TensorSpec):
        return array
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return None
    dtype = nki_name(array.dtype) or nki_name(str(array.dtype).rpartition(".")[2])
    if dtype is None:
        bad_input(f"NKI has no element type {array.dtype}")
    known = array if isinstance(array, np.ndarray) and array.dtype.kind in "iub" else None
    given = np.asarray(array) if hasattr(array, "__array__") else None
    return TensorSpec(dtype, tuple(int(count) for count in array.shape), values=known, array=given)


def parse_arguments(items: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` items in order; `bad-input` for what is neither."""
    found: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip().isidentifier():
            bad_input(f"argument {item!r}: expected NAME=VALUE", help=["x=bf16[4,1,1024] or k=4 or idx=@idx.npy"])
        found[name.strip()] = parse_value(text.strip(), f"argument {name.strip()}")
    return found


def parse_value(text: str, what: str = "value", folder: Path | None = None) -> Any:
    """One value; `folder` is where relative `@` paths start."""
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    if text[:1] in ("[", "(") and text[-1:] == _CLOSING[text[0]]:
        parts = [parse_value(part, f"{what}, element {at}", folder) for at, part in enumerate(_parts(text, what))]
        return parts if text[0] == "[" else tuple(parts)
    if text.startswith("@"):
        return _array((folder or Path()) / text[1:], what)
    if found := _TENSOR.match(text):
        dtype = nki_name(found.group(2))
        if dtype is None:
            bad_input(f"{what}: unknown element type {found.group(2)!r}", help=["f32, bf16, s32, float8_e4m3, ..."])
        if any(len(digits) > MAX_DIGITS for digits in _INTEGER.findall(text)):
            bad_input(f"{what}: an integer has more than {MAX_DIGITS} digits")
        shape = tuple(int(part) for part in found.group(3).split(",") if part.strip())
        if 0 in shape:
            bad_input(f"{what}: {text} has no elements")
        within = (int(found.group(4)), int(found.group(5))) if found.group(4) else None
        if within is not None and within[0] >= within[1]:
            bad_input(f"{what}: invalid range {within[0]}:{within[1]}: the end must be greater than the start")
        return TensorSpec(dtype, shape, Buffer[found.group(1) or "shared_hbm"], within=within)
    if _INTEGER.fullmatch(text) and len(text) > MAX_DIGITS:
        bad_input(f"{what}: an integer has more than {MAX_DIGITS} digits")
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if _DOTTED.match(text):
        return DottedName(text)
    if not text or _NO_TEXT.search(text):
        bad_input(
            f"{what}: {text!r} is not a value",
            help=["bf16[4,1,1024], @idx.npy, 4, 1e-6, true, none, [1, 2], (1, 2), or a text in quotes: '\"a[0]\"'"],
        )
    return text


def _parts(text: str, what: str) -> list[str]:
    """The elements of a list or a tuple: the text between commas that stand in no brackets and no quotes."""
    found, begin, closing, quote = [], 1, [], ""
    for at, char in enumerate(text[1:-1], 1):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif char in _CLOSING.values():
            if not closing or closing.pop() != char:
                bad_input(f"{what}: {text!r} has brackets that do not match")
        elif char == "," and not closing:
            found.append(text[begin:at].strip())
            begin = at + 1
    if closing or quote:
        bad_input(f"{what}: {text!r} has brackets or quotes that do not match")
    last = text[begin:-1].strip()
    return [*found, last] if last else found


def _array(path: Path, what: str) -> TensorSpec:
    array = read_npy(path)
    if nki_name(array.dtype) is None:
        bad_input(f"{what}: {path} has element type {array.dtype}, which NKI does not have")
    spec = tensor_spec(array)
    assert spec is not None
    return spec


def load_arguments(path: str | Path) -> dict[str, Any]:
    """Arguments from a TOML file."""
    path = Path(path)
    table = parse_toml(read_text(path), path)
    return {name: _toml_value(value, name, path.parent) for name, value in table.items()}


def _toml_value(value: Any, what: str, folder: Path) -> Any:
    match value:
        case str():
            return parse_value(value, f"argument {what}", folder)
        case list():
            return [_toml_value(each, what, folder) for each in value]
        case Mapping():
            return {key: _toml_value(each, f"{what}.{key}", folder) for key, each in value.items()}
    return value
