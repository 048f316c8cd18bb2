"""Values of locations in `.npz` files: inputs of a run, and what came out.

Element types that NumPy's files do not know (bf16, the f8 types) are stored as unsigned integers of the same bits,
under the name with `:TYPE` appended.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir import dtypes
from haulout.support.diagnostics import bad_input
from haulout.support.files import write_bytes
from haulout.support.readers import read_npz

Array = npt.NDArray[Any]
FOREIGN = {name: np.dtype(f"u{dtypes.itemsize(name)}") for name in ("bf16", "f8e4m3", "f8e4m3fn", "f8e5m2")}


def save_values(values: Mapping[str, Array], path: str | Path) -> None:
    """Write arrays by name, as `write_files` does (`-` is stdout); the same arrays give the same bytes."""
    stored = {}
    for name, value in values.items():
        dtype = dtypes.name_of(value.dtype)
        if dtype in FOREIGN:
            stored[f"{name}:{dtype}"] = value.view(FOREIGN[dtype])
        else:
            stored[name] = value
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **stored)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def load_values(path: Path) -> dict[str, Array]:
    """Read arrays by name; `bad-input` when the file holds anything else."""
    values: dict[str, Array] = {}
    for key, array in read_npz(path).items():
        name, _, dtype = key.partition(":")
        if dtype and dtype not in FOREIGN:
            bad_input(f"{path}: {key}: no element type is named {dtype!r}", help=[f"one of {list(FOREIGN)}"])
        if dtype and array.dtype != FOREIGN[dtype]:
            bad_input(f"{path}: {key} is {array.dtype}, expected {FOREIGN[dtype]}, the bits of {dtype}")
        values[name] = array.view(dtypes.NUMPY[dtype]) if dtype else array
    return values
