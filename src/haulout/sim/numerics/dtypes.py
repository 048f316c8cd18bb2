"""The type that each element type computes in.

bf16, f16 and the 8-bit floats are storage types: arithmetic on them happens in f32 and is rounded once, to
nearest even, when an operation's result is stored. Every other type computes in itself. Names are those of
`ir.dtypes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from haulout.ir.dtypes import NUMPY, canonical
from haulout.support.diagnostics import bad_input

PRED: np.dtype[Any] = NUMPY["pred"]
S32: np.dtype[Any] = NUMPY["s32"]
F32: np.dtype[Any] = NUMPY["f32"]
F64: np.dtype[Any] = NUMPY["f64"]

MANTISSA_BITS: dict[np.dtype[Any], int] = {NUMPY["f16"]: 10, NUMPY["bf16"]: 7, F32: 23, F64: 52}
"""Of the floats in which an exponent of all ones means infinity: those of IEEE 754, and bf16."""

_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in NUMPY.items()}
_NARROW_FLOATS = tuple(NUMPY[name] for name in ("f16", "bf16", "f8e4m3", "f8e4m3fn", "f8e5m2"))


def named(name: str) -> np.dtype[Any]:
    """The dtype called `name`; a name that the format does not have is a `bad-input`."""
    known = canonical(name)
    if known is None:
        bad_input(f"unknown element type '{name}'", help=[f"one of: {', '.join(NUMPY)}"])
    return NUMPY[known]


def name_of(dtype: np.dtype[Any]) -> str:
    """The format's name of a dtype, or NumPy's own for one that the format does not have."""
    return _NAMES.get(dtype, str(dtype))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether it is a floating-point type, those of ml_dtypes included (NumPy gives them kind 'V')."""
    return dtype.kind == "f" or dtype in _NARROW_FLOATS


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type of complex numbers."""
    return dtype.kind == "c"


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the parts of complex numbers; any other type itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if is_complex(dtype) else dtype


def computes_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which arithmetic on `dtype` is carried out: f32 for the narrow floats, else itself."""
    return F32 if dtype in _NARROW_FLOATS else dtype
