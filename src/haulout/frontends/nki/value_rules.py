"""How known contents pass through instructions: copies, fills, `iota` and arithmetic on small tensors.

An instruction that is not listed here leaves its destination unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.values import MOST_ELEMENTS, Array, Values, compute, flat_index

_FILLED = 64
"""`memset` of so many elements of an integer tensor is followed; indices are small, activations are not."""


def follow(name: str, given: dict[str, Any], writes: Sequence[Tensor]) -> None:
    """Update what is known of the destination of an instruction; `writes` are all tensors that it writes."""
    dst = given.get("dst")
    for tensor in writes:
        # Another core may write a shared tensor too.
        if tensor is not dst or tensor.buffer is Buffer.shared_hbm:
            tensor.storage.values = None
    if not isinstance(dst, Tensor) or dst.buffer is Buffer.shared_hbm:
        return
    found = _result(name, given, dst)
    if found is None and dst.storage.values is None:
        return
    if dst.indirect is not None or dst.itemsize != ELEMENT_TYPES[dst.storage.dtype].bytes:
        dst.storage.values = None
        return
    if dst.storage.values is None:
        elements = dst.storage.size // ELEMENT_TYPES[dst.storage.dtype].bytes
        if elements > MOST_ELEMENTS or found is None or np.isnan(found).all():
            return
        dst.storage.values = Values(elements)
    index = flat_index(dst.offset, dst.strides, dst.shape)
    if found is None or (np.ndim(found) and np.size(found) != index.size):
        dst.storage.values.write(index, np.nan)
    else:
        dst.storage.values.write(index, np.reshape(found, index.shape) if np.ndim(found) else found)


def _result(name: str, given: dict[str, Any], dst: Tensor) -> Array | float | None:
    match name:
        case "memset":
            if ("int" in dst.dtype and dst.size <= _FILLED) or dst.storage.values is not None:
                return float(given["value"])
        case "dma_copy" | "tensor_copy":
            return None if given.get("dst_rmw_op") is not None else _known(given.get("src"))
        case "nc_stream_shuffle":
            source = _known(given.get("src"))
            return (
                None
                if source is None or set(given["shuffle_mask"]) != {0}
                else np.broadcast_to(source[:1], dst.shape)
            )
        case "tensor_tensor":
            left, right = _known(given.get("data1")), _known(given.get("data2"))
            return None if left is None or right is None else compute(_op(given["op"]), left, right)
        case "tensor_scalar":
            return _tensor_scalar(given)
        case "tensor_reduce":
            data = _known(given.get("data"))
            if data is not None and _op(given["op"]) == "add" and not given.get("negate"):
                return np.asarray(np.sum(data, axis=tuple(range(1, data.ndim)), keepdims=True))
    return None


def _tensor_scalar(given: dict[str, Any]) -> Array | None:
    result = _known(given.get("data"))
    for at in ("0", "1"):
        if result is None or given.get(f"op{at}") is None:
            break
        operand = given[f"operand{at}"]
        other: Array | float | None
        if isinstance(operand, Tensor):
            other = _known(operand)
        elif isinstance(operand, VirtualRegister):
            other = None if operand.value is None else float(operand.value)
        else:
            other = float(operand)
        if other is None:
            return None
        pair = (other, result) if given.get(f"reverse{at}") else (result, other)
        result = compute(_op(given[f"op{at}"]), *pair)
    return result


def _op(op: Any) -> str:
    return str(getattr(op, "__name__", op))


def _known(tensor: Any) -> Array | None:
    """The contents of a view; None when nothing of its storage is known."""
    if not isinstance(tensor, Tensor) or tensor.storage.values is None or tensor.indirect is not None:
        return None
    if tensor.itemsize != ELEMENT_TYPES[tensor.storage.dtype].bytes:
        return None
    return tensor.storage.values.read(flat_index(tensor.offset, tensor.strides, tensor.shape))
