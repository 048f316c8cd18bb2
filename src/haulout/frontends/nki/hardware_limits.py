"""Sizes and types that an instruction can have, by instruction; see `hardware_rules.py`.

A check gets the arguments, those of them that are tensors, and the generation; it gives what is wrong as (operand,
sentence).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor

Given = Mapping[str, Any]
Operands = Mapping[str, Tensor]
Found = Iterator[tuple[str, str]]
Check = Callable[[Given, Operands, str], Found]

_BANK = 2048
"""Bytes of a PSUM bank in each partition."""
_BITWISE = frozenset(
    {
        "invert",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "logical_shift_left",
        "logical_shift_right",
    }
)
_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
MAX_SENT = {4: 1024, 2: 512, 1: 256}
"""Bytes a partition of an exchange through GpSimd's DMA, by the size of an element."""


def _free(tensor: Tensor) -> int:
    return math.prod(tensor.shape[1:])


def _name(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def _is_float(dtype: str) -> bool:
    return "float" in dtype


# -- tensor engine ---------------------------------------------------------------------------------------------------


def _matmul(given: Given, operands: Operands, target: str) -> Found:
    dst, stationary, moving = (operands.get(each) for each in ("dst", "stationary", "moving"))
    if dst is None or stationary is None or moving is None:
        return
    wide = getattr(given.get("perf_mode"), "name", "none") != "none"
    most = 512 if target in ("gen2", "gen3") else 8192 if dst.dtype == "bfloat16" else 4096
    # In the double modes the first free dimension is part of the contraction.
    columns = _free(moving) // (2 if wide else 1)
    if columns > most:
        yield "moving", f"moving has {columns} elements in each partition; {target} takes at most {most}"
    if _free(stationary) // (2 if wide else 1) > 128:
        yield "stationary", f"stationary has {_free(stationary)} elements in each partition; it takes at most 128"
    kinds = {"stationary": stationary.dtype, "moving": moving.dtype}
    if not given.get("is_transpose"):
        for name, dtype in kinds.items():
            if "int" in dtype or dtype == "bool":
                yield name, f"{name} is {dtype}; the tensor engine does not multiply integers"
        if dst.dtype != "float32" and not (target == "gen4" and dst.dtype == "bfloat16"):
            yield "dst", f"dst is {dst.dtype}; {target} accumulates in float32"
    single = [dtype in ("float32", "tfloat32") for dtype in kinds.values()]
    if any(single) and not all(single):
        yield "types", f"stationary is {stationary.dtype}, moving {moving.dtype}; float32 needs float32 on both sides"
    yield from _bank(dst, target)


def _bank(dst: Tensor, target: str) -> Found:
    """One result is in one bank; known where the kernel chose the address."""
    storage = dst.storage
    if storage.buffer is not Buffer.psum or storage.address is None or target == "gen4" or not storage.row_bytes:
        return
    last = sum((count - 1) * max(stride, 0) for stride, count in zip(dst.strides[1:], dst.shape[1:], strict=True))
    begin = storage.address + dst.offset * dst.itemsize % storage.row_bytes
    end = begin + (last + 1) * dst.itemsize
    if begin // _BANK != (end - 1) // _BANK:
        yield "dst", f"dst takes bytes {begin}:{end} of each partition; a result must fit one bank of {_BANK} bytes"


def _transpose(given: Given, operands: Operands, target: str) -> Found:
    dst, data = operands.get("dst"), operands.get("data")
    if dst is None or data is None:
        return
    if dst.dtype != data.dtype:
        yield "dst", f"dst is {dst.dtype}, data {data.dtype}; a transposition must keep the type"
    chosen = getattr(given.get("engine"), "name", "unknown")
    rows, columns = data.shape[0], _free(data)
    if chosen == "unknown":
        chosen = "tensor" if dst.storage.buffer is Buffer.psum else "vector"
    if chosen == "vector" and max(rows, columns) > 32:
        yield "data", f"data is {rows} by {columns}; the vector engine transposes 32 by 32"
    if chosen == "tensor" and max(rows, columns) > 128:
        yield "data", f"data is {rows} by {columns}; the tensor engine transposes 128 by 128"
    if chosen == "tensor" and (dst.storage.buffer is not Buffer.psum or data.storage.buffer is Buffer.psum):
        yield (
            "memory",
            f"data is in {data.buffer.value}, dst in {dst.buffer.value}; the tensor engine reads SBUF, writes PSUM",
        )


# -- elementwise -----------------------------------------------------------------------------------------------------


def _alike(*names: str) -> Check:
    """Operands with as many elements in each partition as the destination."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        dst = operands.get("dst")
        for name in names:
            tensor = operands.get(name)
            if dst is not None and tensor is not None and _free(tensor) != _free(dst):
                yield name, f"{name} has {_free(tensor)} elements in each partition, dst {_free(dst)}"

    return check


def _columns(*names: str, single: bool = False) -> Check:
    """Operands with one value for each partition; `single`: as float32."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        for name in names:
            tensor = operands.get(name)
            if tensor is None:
                continue
            if _free(tensor) != 1:
                yield name, f"{name} has {_free(tensor)} elements in each partition; it takes one"
            elif single and tensor.dtype != "float32":
                yield name, f"{name} is {tensor.dtype}; it takes float32"

    return check


def _operators(*keys: str) -> Check:
    """Operators on bits take integers and are the vector engine's; they do not mix with arithmetic."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        names = [_name(given[key]) for key in keys if given.get(key) is not None]
        bits = [name for name in names if name in _BITWISE]
        if not bits:
            return
        if len(bits) < len(names) and "bypass" not in names:
            yield "op", f"nl.{names[0]} and nl.{names[1]}: bitwise and arithmetic operators do not combine"
        chosen = getattr(given.get("engine"), "name", "unknown")
        if chosen in ("scalar", "gpsimd"):
            yield "engine", f"nl.{bits[0]} runs on the vector engine only"
        for name in ("dst", "data", "data1", "data2"):
            tensor = operands.get(name)
            if tensor is not None and _is_float(tensor.dtype):
                yield name, f"{name} is {tensor.dtype}; nl.{bits[0]} takes integers"

    return check


def _tensor_scalar(given: Given, operands: Operands, target: str) -> Found:
    names = [_name(given[key]) for key in ("op0", "op1") if given.get(key) is not None]
    arithmetic = not any(name in _BITWISE for name in names)
    yield from _columns("operand0", "operand1", single=arithmetic)(given, operands, target)
    chosen = getattr(given.get("engine"), "name", "unknown")
    if chosen == "scalar" and names not in (["multiply", "add"], ["multiply"], ["add"]):
        words = ", ".join(f"nl.{name}" for name in names)
        yield "engine", f"{words} on the scalar engine, which supports multiply, add, and multiply then add"


def _tensor_copy(given: Given, operands: Operands, target: str) -> Found:
    if target == "gen2" and getattr(given.get("engine"), "name", "") == "scalar":
        yield "engine", "the scalar engine of gen2 does not copy; nisa.activation with op=nl.copy does"


def _memset(given: Given, operands: Operands, target: str) -> Found:
    dst, value = operands.get("dst"), given.get("value")
    if dst is not None and ("int" in dst.dtype) and isinstance(value, float) and not value.is_integer():
        yield "value", f"value must be an integer for dst of type {dst.dtype}, found {value}"


# -- sizes -----------------------------------------------------------------------------------------------------------


def _free_size(name: str, least: int, most: int) -> Check:
    def check(given: Given, operands: Operands, target: str) -> Found:
        tensor = operands.get(name)
        if tensor is not None and not least <= _free(tensor) <= most:
            yield name, f"{name} has {_free(tensor)} elements in each partition; it takes {least} to {most}"

    return check


def _sixteens(given: Given, operands: Operands, target: str) -> Found:
    for name in ("src_buffer", "index"):
        tensor = operands.get(name)
        if tensor is not None and tensor.shape[0] % 16:
            yield name, f"{name} spans {tensor.shape[0]} partitions; it takes a multiple of 16"


# -- DMA -------------------------------------------------------------------------------------------------------------


def _by_hardware(given: Given, operands: Operands, target: str) -> Found:
    """Descriptors that hardware makes move bytes as they are, from addresses of one index."""
    if getattr(given.get("dge_mode"), "name", "") != "hwdge":
        return
    dst, src = operands.get("dst"), operands.get("src")
    if dst is not None and src is not None and dst.dtype != src.dtype:
        yield "dtype", f"src is {src.dtype}, dst {dst.dtype}; dge_mode.hwdge does not convert types"
    for name, tensor in operands.items():
        if tensor.indirect is not None and tensor.indirect.vector:
            yield name, f"{name} has an index for each partition, which dge_mode.hwdge does not take"


def _dma_transpose(given: Given, operands: Operands, target: str) -> Found:
    dst, src, axes = operands.get("dst"), operands.get("src"), given.get("axes")
    if dst is None or src is None or src.indirect is not None or dst.indirect is not None:
        return
    order = _AXES.get(len(src.shape))
    if axes is not None and tuple(axes) not in _AXES.values():
        yield "axes", f"axes must be (1, 0), (2, 1, 0) or (3, 1, 2, 0), found {tuple(axes)}"
    elif order is None or (axes is not None and len(tuple(axes)) != len(src.shape)):
        yield "axes", f"src must have 2, 3 or 4 dimensions, and as many axes, found {len(src.shape)} dimensions"
    elif tuple(src.shape[axis] for axis in order) != dst.shape:
        wanted = [src.shape[axis] for axis in order]
        yield "dst", f"dst must have shape {wanted}, found {list(dst.shape)}"


def most_sent(tensor: Tensor) -> int:
    """Bytes of each partition that GpSimd's DMA exchanges at once."""
    return MAX_SENT.get(tensor.itemsize, MAX_SENT[4])


# -- all of them -----------------------------------------------------------------------------------------------------


def _all(*checks: Check) -> Check:
    def check(given: Given, operands: Operands, target: str) -> Found:
        for each in checks:
            yield from each(given, operands, target)

    return check


LIMITS: dict[str, Check] = {
    "nc_matmul": _matmul,
    "nc_transpose": _transpose,
    "tensor_copy": _tensor_copy,
    "tensor_tensor": _all(_alike("data1", "data2"), _operators("op")),
    "tensor_scalar": _all(_alike("data"), _operators("op0", "op1"), _tensor_scalar),
    "scalar_tensor_tensor": _all(_alike("data", "operand1"), _columns("operand0")),
    "tensor_copy_predicated": _alike("src", "predicate"),
    "activation": _all(_alike("data"), _columns("scale", single=True), _columns("bias", "reduce_res")),
    "activation_reduce": _all(_alike("data"), _columns("scale", single=True), _columns("bias", "reduce_res")),
    "tensor_scalar_reduce": _all(_alike("data"), _columns("operand0", "reduce_res")),
    "range_select": _columns("bound0", "bound1", single=True),
    "tensor_tensor_scan": _columns("initial"),
    "reciprocal": _alike("data"),
    "memset": _memset,
    "bn_stats": _free_size("data", 1, 512),
    "max8": _free_size("src", 8, 16384),
    "nc_find_index8": _free_size("data", 8, 16384),
    "nc_match_replace8": _free_size("data", 8, 16384),
    "local_gather": _sixteens,
    "dma_copy": _by_hardware,
    "dma_transpose": _all(_by_hardware, _dma_transpose),
}
"""What is checked of each instruction."""
