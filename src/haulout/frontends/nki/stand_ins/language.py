"""`nki.language`: allocation, loops, the launch grid, element types, operators, and the older load and store."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.findings import kernel_place, reject
from haulout.frontends.nki.index_arrays import Mesh
from haulout.frontends.nki.layout import DynamicSlice
from haulout.frontends.nki.operators import Operator
from haulout.frontends.nki.registers import dynamic_range, fori_loop, while_loop
from haulout.frontends.nki.stand_ins.loops import counted_range, loop_reduce
from haulout.frontends.nki.stand_ins.objects import NKIObject
from haulout.frontends.nki.stand_ins.removed import REMOVED_FUNCTIONS
from haulout.frontends.nki.stand_ins.tiles import FUNCTIONS, ParDim, element_type
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.dtypes import NUMPY
from haulout.support.readers import read_npy

OPERATORS = (
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "arctan",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bypass",
    "ceil",
    "copy",
    "cos",
    "divide",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "floor",
    "fmod",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "identity",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "prelu",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "average",
    "var",
    "prod",
    "all",
    "any",
    "logical_shift_left",
    "logical_shift_right",
)


class tile_size:  # noqa: N801 - NKI's name
    """Sizes of the hardware of generations 3 and 4."""

    pmax = 128
    psum_fmax = 512
    psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    psum_num_banks = 8
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1
    total_available_sbuf_size = 208 * 1024
    sbuf_fmax_bytes = total_available_sbuf_size
    sbuf_fmax = total_available_sbuf_size // 4
    sbuf_size_bytes = 128 * total_available_sbuf_size


def shared_constant(constant: Any, dtype: Any = None) -> Tensor:
    """A tensor in shared HBM that is filled before the kernel starts."""
    array = read_npy(Path(constant)) if isinstance(constant, str | Path) else np.asarray(constant)
    found = session.recorder().allocate(
        array.shape, element_type(dtype or array.dtype), Buffer.shared_hbm, constant=True, place=kernel_place(2)
    )
    found.storage.give(array)
    return found


def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: Tensor | None = None) -> Tensor:
    """An identity matrix in SBUF; one of each size and type."""
    return session.recorder().identity(int(n), element_type(dtype))


def static_range(start: Any, stop: Any = None, step: Any = 1, **_: Any) -> Iterable[int]:
    """An unrolled loop; all loops over constants are."""
    first, last = (0, start) if stop is None else (start, stop)
    return range(int(first), int(last), int(step))


def ds(start: Any, size: int) -> DynamicSlice:
    """`size` elements from `start`."""
    return DynamicSlice(start, int(size))


def program_id(axis: int = 0) -> int:
    """Which program this is."""
    recorder = session.recorder()
    if recorder.grid:
        return int(np.unravel_index(recorder.core, recorder.grid)[_axis(axis, len(recorder.grid))])
    _axis(axis, 1)
    return recorder.core


def num_programs(axes: Any = 0) -> int:
    """How many programs there are along an axis, or along several."""
    recorder = session.recorder()
    if not recorder.grid or axes is None:
        return recorder.cores
    chosen = axes if isinstance(axes, list | tuple) else [axes]
    return math.prod(recorder.grid[_axis(each, len(recorder.grid))] for each in chosen)


def program_ndim() -> int:
    """Dimensions of the launch grid."""
    recorder = session.recorder()
    return len(recorder.grid) or (1 if recorder.cores > 1 else 0)


def _axis(axis: Any, count: int) -> int:
    if not 0 <= int(axis) < count:
        reject(
            f"axis {axis} of a launch grid with {count} axis" if count == 1 else f"axis {axis} of {count}",
            "give the launch grid behind the name of the kernel: FILE.py::FUNCTION[1,2]",
        )
    return int(axis)


def size_in_bytes(dtype: Any) -> int:
    """Bytes of an element."""
    return ELEMENT_TYPES[element_type(dtype)].bytes


def finfo(dtype: Any) -> Any:
    """Limits of a float type, as NumPy gives them."""
    return ml_dtypes.finfo(NUMPY[ELEMENT_TYPES[element_type(dtype)].stored])  # type: ignore[no-untyped-call]


def device_print(*_: Any, **__: Any) -> None:
    """Nothing happens while tracing."""


def make_module(name: str) -> types.ModuleType:
    """The module under one of its import names."""
    module = types.ModuleType(name, __doc__)
    for function in (
        *FUNCTIONS,
        shared_constant,
        shared_identity_matrix,
        static_range,
        dynamic_range,
        fori_loop,
        while_loop,
        ds,
        program_id,
        num_programs,
        program_ndim,
        device_print,
    ):
        setattr(module, function.__name__, function)
    old = name.startswith("neuronxcc")
    for alias in ("affine_range", "sequential_range", "range"):
        setattr(module, alias, counted_range if old else static_range)
    if old:
        module.loop_reduce = loop_reduce  # type: ignore[attr-defined]
    for dtype in ELEMENT_TYPES:
        setattr(module, dtype, dtype)
    for operator in OPERATORS:
        setattr(module, operator, Operator(operator))
    for buffer in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm"):
        setattr(module, buffer, Buffer[buffer])
    values: dict[str, Any] = {
        "bool_": "bool",
        "dtype": str,
        "tensor": Tensor,
        "NkiTensor": Tensor,
        "MemoryRegion": Buffer,
        "NKIObject": NKIObject,
        "tile_size": tile_size,
        "par_dim": ParDim,
        "arange": np.arange,
        "mgrid": Mesh(),
        "fp32": types.SimpleNamespace(min=float(np.finfo(np.float32).min), max=float(np.finfo(np.float32).max)),
        "finfo": finfo,
        "Tensor": Tensor,
        "is_hbm": lambda buffer: buffer.is_hbm,
        "is_sbuf": lambda buffer: buffer is Buffer.sbuf,
        "is_psum": lambda buffer: buffer is Buffer.psum,
        "is_on_chip": lambda buffer: buffer.on_chip,
    }
    for key, value in values.items():
        setattr(module, key, value)
    module.__getattr__ = partial(_unknown_name, sorted(vars(module)))  # type: ignore[method-assign]
    return module


def _unknown_name(known: list[str], name: str) -> Any:
    """Raise for a name that `nki.language` does not have, with what was probably meant."""
    removed = REMOVED_FUNCTIONS.get(name)
    if removed is not None:
        raise AttributeError(f"nl.{name} was removed in NKI {removed.since}: {removed.instead}")
    close = get_close_matches(name, known, 1)
    raise AttributeError(f"nki.language has no {name!r}" + (f"; did you mean nl.{close[0]}?" if close else ""))
