"""Arrays into a kernel's locations, and out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki import Trace
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.sim.inputs import drawn, element_type, is_filled, locations_of_kind, qualified_name
from haulout.sim.nki.types import TYPES

Array = npt.NDArray[Any]


def given_arrays(traced: Trace, program: Program, seed: int) -> dict[str, Array]:
    """The contents of every argument by `MODULE/LOCATION`: the array that was given, or numbers drawn from a seed."""
    functions = program.starts("functions", "modules")[:-1].astype(np.int32)
    given = {
        f"nc{recorder.core}/{storage.name}": storage.array
        for recorder in traced.recorders
        for storage in recorder.storages
        if storage.array is not None and storage.argument
    }
    found = {}
    for row in locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT):
        name = qualified_name(program, row)
        dtype, shape = element_type(program, row)
        array = given.get(name)
        if array is not None:
            found[name] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(dtype).reshape(shape)
        elif not is_filled(program, row):
            bare = name.partition("/")[2]
            found[name] = drawn(bare, dtype, shape, seed).view(dtype).reshape(shape)
    return found


def tensor_array(stored: Bytes, tensor: Tensor) -> Array:
    """A view of a storage as an array of its own, from the storage's bytes."""
    dtype = TYPES[tensor.dtype]
    strides = tuple(step * dtype.itemsize for step in tensor.strides)
    found = np.ndarray(tensor.shape, dtype, stored.data, tensor.offset * dtype.itemsize, strides).copy()
    return found.view(np.bool_) if tensor.dtype == "bool" else found
