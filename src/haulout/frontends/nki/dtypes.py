"""Element types by NKI's names: their sizes, and the type of the program that stores as many bytes.

NKI's types are names (`nl.float32 == "float32"`). Only addresses matter here, so packed and exotic types are stored
as integers of their size. `float8_e4m3` has an infinity and ends at 240, `float8_e4m3fn` has none and ends at 448.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir import dtypes as ir_dtypes


class ElementType(NamedTuple):
    """What is known of an element type."""

    bytes: int
    stored: str
    """Name in the program (`haulout.ir.dtypes`)."""


ELEMENT_TYPES: dict[str, ElementType] = {
    "bool": ElementType(1, "pred"),
    "int8": ElementType(1, "s8"),
    "int16": ElementType(2, "s16"),
    "int32": ElementType(4, "s32"),
    "int64": ElementType(8, "s64"),
    "uint8": ElementType(1, "u8"),
    "uint16": ElementType(2, "u16"),
    "uint32": ElementType(4, "u32"),
    "uint64": ElementType(8, "u64"),
    "float16": ElementType(2, "f16"),
    "bfloat16": ElementType(2, "bf16"),
    "float32": ElementType(4, "f32"),
    "tfloat32": ElementType(4, "f32"),
    "float64": ElementType(8, "f64"),
    "float8_e4m3": ElementType(1, "f8e4m3"),
    "float8_e4m3fn": ElementType(1, "f8e4m3fn"),
    "float8_e5m2": ElementType(1, "f8e5m2"),
    "float8_e8m0fnu": ElementType(1, "u8"),
    "float8_e4m3fn_x4": ElementType(4, "u32"),
    "float8_e5m2_x4": ElementType(4, "u32"),
    "float4_e2m1fn_x4": ElementType(2, "u16"),
}
"""Every element type by its NKI name."""

_ALIASES = {
    "bool_": "bool",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
    **{
        short: full
        for full, (_, short) in reversed(ELEMENT_TYPES.items())
        if "_x4" not in full and "e8m0" not in full
    },
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "pred": "bool",
}


def nki_name(dtype: object) -> str | None:
    """NKI's name of an element type given by name (NKI's or the program's), NumPy dtype or scalar type; else None."""
    if isinstance(dtype, str):
        text = str(dtype)
        return text if text in ELEMENT_TYPES else _ALIASES.get(text)
    if dtype is None:  # to NumPy it is float64
        return None
    try:
        wanted = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        return None
    stored = ir_dtypes.name_of(wanted)
    if stored is None and wanted.name in ELEMENT_TYPES:
        return str(wanted.name)  # a type of ml_dtypes that programs do not have
    return None if stored is None else _ALIASES.get(stored, stored)
