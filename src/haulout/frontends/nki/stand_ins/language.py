"""`nki.language`: allocation, loops, the launch grid, element types, operators, and the older load and store."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.dtypes import ELEMENT_TYPES, nki_name
from haulout.frontends.nki.findings import allocation_place, kernel_place, reject
from haulout.frontends.nki.layout import DynamicSlice
from haulout.frontends.nki.registers import dynamic_range, fori_loop, while_loop
from haulout.frontends.nki.stand_ins.objects import NKIObject, Operator
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine
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


def _element_type(dtype: Any) -> str:
    name = nki_name(dtype)
    if name is None:
        reject(f"unknown element type {dtype!r}", place=kernel_place(3))
    return name


def ndarray(
    shape: Any,
    dtype: Any,
    buffer: Any = Buffer.sbuf,
    name: str | None = None,
    address: tuple[int, int] | None = None,
    **_: Any,
) -> Tensor:
    """A new tensor; nothing is in it yet."""
    extents = (shape,) if isinstance(shape, int) else tuple(int(count) for count in shape)
    where = buffer if isinstance(buffer, Buffer) else Buffer[str(getattr(buffer, "name", buffer))]
    place = allocation_place(2)
    if any(count < 1 for count in extents):
        reject(f"dimensions of a tensor must be positive, found {list(extents)}", place=place)
    return session.recorder().allocate(
        extents, _element_type(dtype), where, name=name or None, address=address, place=place
    )


def zeros(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str | None = None, **_: Any) -> Tensor:
    """A new tensor that is filled with zeros."""
    return _filled(ndarray(shape, dtype, buffer, name), 0)


def _filled(found: Tensor, value: Any) -> Tensor:
    recorder, given = session.recorder(), {"dst": found, "value": value}
    recorder.add("nki.fill", recorder.queue_of([found]) or _VECTOR, [], [found], kernel_place(3), None, given)
    return found


def full(
    shape: Any, fill_value: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str | None = None, **_: Any
) -> Tensor:
    """A new tensor that is filled with a value."""
    return _filled(ndarray(shape, dtype, buffer, name), fill_value)


def load(src: Tensor, dtype: Any = None, **_: Any) -> Tensor:
    """A new tensor in SBUF with the contents of one in HBM."""
    recorder, place = session.recorder(), kernel_place(2)
    result = recorder.allocate(src.shape, dtype or src.dtype, Buffer.sbuf, place=place)
    given = {"dst": result, "src": src}
    recorder.add("nki.load", recorder.queue_of([src]) or _VECTOR, [src], [result], place, None, given)
    return result


def store(dst: Tensor, value: Tensor, **_: Any) -> None:
    """Copies a tensor to HBM."""
    recorder = session.recorder()
    given = {"dst": dst, "src": value}
    recorder.add("nki.store", recorder.queue_of([dst]) or _VECTOR, [value], [dst], kernel_place(2), None, given)


def shared_constant(constant: Any, dtype: Any = None) -> Tensor:
    """A tensor in shared HBM that is filled before the kernel starts."""
    array = read_npy(Path(constant)) if isinstance(constant, str | Path) else np.asarray(constant)
    found = session.recorder().allocate(
        array.shape, _element_type(dtype or array.dtype), Buffer.shared_hbm, constant=True, place=kernel_place(2)
    )
    found.storage.give(array)
    return found


def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: Tensor | None = None) -> Tensor:
    """An identity matrix in SBUF; one of each size and type."""
    return session.recorder().identity(int(n), _element_type(dtype))


def static_range(start: Any, stop: Any = None, step: Any = 1) -> Iterable[int]:
    """An unrolled loop; all loops over constants are."""
    first, last = (0, start) if stop is None else (start, stop)
    return range(int(first), int(last), int(step))


def ds(start: Any, size: int) -> DynamicSlice:
    """`size` elements from `start`."""
    return DynamicSlice(start, int(size))


def program_id(axis: int = 0) -> int:
    """Which program this is."""
    return session.recorder().core


def num_programs(axes: Any = 0) -> int:
    """How many programs there are."""
    return session.recorder().cores


def program_ndim() -> int:
    """Dimensions of the launch grid."""
    return 1 if session.recorder().cores > 1 else 0


def broadcast_to(x: Tensor, shape: Sequence[int], dtype: Any = None) -> Tensor:
    """A view with dimensions of size 1 repeated."""
    return x.broadcast_to(shape)


def device_print(*_: Any, **__: Any) -> None:
    """Nothing happens while tracing."""


_VECTOR = Engine.VECTOR


def make_module(name: str) -> types.ModuleType:
    """The module under one of its import names."""
    module = types.ModuleType(name, __doc__)
    for function in (
        ndarray,
        zeros,
        full,
        load,
        store,
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
        broadcast_to,
        device_print,
    ):
        setattr(module, function.__name__, function)
    for alias in ("affine_range", "sequential_range", "range"):
        setattr(module, alias, static_range)
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
        "par_dim": int,
        "is_hbm": lambda buffer: buffer.is_hbm,
        "is_sbuf": lambda buffer: buffer is Buffer.sbuf,
        "is_psum": lambda buffer: buffer is Buffer.psum,
        "is_on_chip": lambda buffer: buffer.on_chip,
    }
    for key, value in values.items():
        setattr(module, key, value)
    return module
