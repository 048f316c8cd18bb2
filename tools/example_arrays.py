"""The arrays of an example: how they are named in an `.npz` file, stored, and drawn from a seed.

One file holds what every core gets and what every core must produce:

    in/nc<core>/<parameter name as in the HLO entry>        out/nc<core>/<index in the output tuple>

NumPy's file format knows no bf16 and no 8-bit floats.  Such an array is stored as unsigned integers of the same
width, under its key with `:<dtype>` appended (`in/nc0/param.1:bf16`).

A drawn array depends on the seed and on its own key, on nothing else (Philox, keyed by both), so an example does
not change when a parameter is added to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "draw", "dtype_named", "generator", "load", "save"]

Array = NDArray[Any]

_NUMPY_LACKS: dict[str, tuple[np.dtype[Any], np.dtype[Any]]] = {  # name -> (dtype, bits it is stored as)
    "bf16": (np.dtype(ml_dtypes.bfloat16), np.dtype(np.uint16)),
    "f8e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(np.uint8)),
    "f8e5m2": (np.dtype(ml_dtypes.float8_e5m2), np.dtype(np.uint8)),
}
_NUMPY_HAS = {
    "pred": np.bool_,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an HLO element type (`f32`, `bf16`, `pred` ...)."""
    return _NUMPY_LACKS[name][0] if name in _NUMPY_LACKS else np.dtype(_NUMPY_HAS[name])


def save(path: Path, arrays: Mapping[str, Array], *, compress: bool = True) -> None:
    """Write `arrays`; the same arrays give the same bytes."""
    stored: dict[str, Array] = {}
    for key, array in arrays.items():
        name = next((n for n, (dtype, _) in _NUMPY_LACKS.items() if dtype == array.dtype), None)
        if name is None:
            stored[key] = array
        else:
            stored[f"{key}:{name}"] = array.view(_NUMPY_LACKS[name][1])
    write = np.savez_compressed if compress else np.savez
    with path.open("wb") as file:
        write(file, allow_pickle=False, **stored)


def load(path: Path) -> dict[str, Array]:
    """Read what `save` wrote, with the dtypes that `save` was given."""
    arrays: dict[str, Array] = {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            name, _, dtype = key.partition(":")
            arrays[name] = stored[key].view(_NUMPY_LACKS[dtype][0]) if dtype else stored[key]
    return arrays


def generator(seed: int, key: str) -> np.random.Generator:
    """The source of random numbers of one array."""
    return np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(key.encode())]))


def draw(seed: int, key: str, shape: tuple[int, ...], dtype: np.dtype[Any], below: int = 8) -> Array:
    """An input nobody described: normal floats, small enough for sums of products; integers in [0, `below`)."""
    random = generator(seed, key)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, below, shape).astype(dtype)
    scale = float(max(shape, default=1)) ** -0.5
    return np.asarray(random.standard_normal(shape) * scale).astype(dtype)
