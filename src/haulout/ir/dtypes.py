"""Element types: their names in `.bir`, their NumPy dtypes, their sizes in bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt

NUMPY: dict[str, np.dtype[np.generic]] = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Every element type of the format, in the order of its page."""

ALIASES = {f"i{bits}": f"s{bits}" for bits in (8, 16, 32, 64)}
"""Other accepted spellings."""


def canonical(name: str) -> str | None:
    """The format's spelling of an element type, or None for an unknown type."""
    name = ALIASES.get(name, name)
    return name if name in NUMPY else None


def itemsize(name: str) -> int:
    """Bytes an element."""
    return NUMPY[name].itemsize


def name_of(dtype: npt.DTypeLike) -> str | None:
    """The format's name of a NumPy dtype, or None."""
    wanted = np.dtype(dtype)
    return next((name for name, known in NUMPY.items() if known == wanted), None)
