"""Propagation of known contents through instructions: moves, fills, `iota` and arithmetic on small tensors.

Moves between tensors of one type keep the bits, also of elements that are not numbers (an index that is viewed as
float32 for the tensor engine). All other moves convert through float32, as on the device. An instruction without a
rule makes its destination unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from haulout.frontends.nki.accessed import positions
from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.values import MAX_ELEMENTS, Array, Bits, Values, compute, converted, decode, encode

_FILLED = 64
"""`memset` of so many elements of an integer tensor is followed; indices are small, activations are not."""
_COUNTED = 1 << 12
"""The same for `iota`."""
_EXACT = 1 << 24
"""Integers up to here are exact in every engine."""
_QUADRANT = 32
_UNCHANGED = 255
_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The axes of `dma_transpose` by rank; others do not exist."""


def follow(name: str, given: Mapping[str, Any], writes: Sequence[Tensor]) -> None:
    """Update what is known of the destination of an instruction; `writes` are all tensors that it writes."""
    dst = given.get("dst")
    own = dst.storage if isinstance(dst, Tensor) else None
    for tensor in writes:
        # Another core may write a shared tensor too.
        if tensor.storage is not own or tensor.buffer is Buffer.shared_hbm:
            tensor.storage.values = None
    if not isinstance(dst, Tensor) or dst.buffer is Buffer.shared_hbm or not writes:
        return
    found = _result(name, given, dst)
    if found is None and dst.storage.values is None:
        return
    where = positions(dst)
    if where is None:
        dst.storage.values = None
        return
    if found is not None and found.bits.size != where.size:
        found = None
    if dst.storage.values is None:
        if found is None or not found.known.any() or not _small(dst.storage):
            return
        dst.storage.values = Values(dst.storage.size)
    shaped = None if found is None else found.arranged(lambda each: each.reshape(where.shape))
    dst.storage.values.write(where, dst.itemsize, shaped)


def _small(storage: Storage) -> bool:
    return storage.size // ELEMENT_TYPES[storage.dtype].bytes <= MAX_ELEMENTS


def _result(name: str, given: Mapping[str, Any], dst: Tensor) -> Bits | None:
    """What an instruction puts into its destination, in any shape of as many elements; None: not known."""
    move = _MOVES.get(name)
    if move is not None:
        source = next((given[each] for each in ("src", "data", "stationary") if each in given), None)
        if not isinstance(source, Tensor) or source.storage.values is None or given.get("dst_rmw_op") is not None:
            return None
        if source.dtype != dst.dtype and getattr(given.get("dge_mode"), "name", "") == "hwdge":
            return None
        found = _read(source)
        moved = None if found is None else move(found, given, dst)
        return None if moved is None else converted(moved, source.dtype, dst.dtype)
    rule = _by_operator if "operands" in given else _NUMBERS.get(name)
    numbers = None if rule is None else rule(given, dst)
    return None if numbers is None else encode(np.broadcast_to(numbers, _as_wide(numbers, dst)), dst.dtype)


def _as_wide(numbers: Array, dst: Tensor) -> tuple[int, ...]:
    return numbers.shape if numbers.size == dst.size else dst.shape


def _read(tensor: Any) -> Bits | None:
    """The elements of a view; None when nothing of its storage is known, or not which elements they are."""
    if not isinstance(tensor, Tensor) or tensor.storage.values is None:
        return None
    where = positions(tensor)
    return None if where is None else tensor.storage.values.read(where, tensor.itemsize)


def known_numbers(tensor: Any) -> Array | None:
    """The elements of a view as numbers, NaN for those that are not known; None when none is."""
    found = _read(tensor)
    return None if found is None else decode(found, tensor.dtype)


def _number(value: Any) -> Array | None:
    """An operand: the elements of a tensor, a register's value, or a constant."""
    if isinstance(value, Tensor):
        return known_numbers(value)
    if isinstance(value, VirtualRegister):
        return None if value.value is None else np.asarray(float(value.value))
    return np.asarray(float(value)) if isinstance(value, bool | int | float | np.integer | np.floating) else None


def _op(op: Any) -> str:
    return str(getattr(op, "__name__", op))


# -- moves -----------------------------------------------------------------------------------------------------------


def _as_it_is(found: Bits, given: Mapping[str, Any], dst: Tensor) -> Bits:
    return found


def _dma_transposed(found: Bits, given: Mapping[str, Any], dst: Tensor) -> Bits | None:
    axes = given.get("axes")
    order = _AXES.get(found.bits.ndim) if axes is None else tuple(axes)
    if order is None or sorted(order) != list(range(found.bits.ndim)):
        return None
    turned = found.arranged(lambda each: each.transpose(order))
    return turned if turned.bits.shape == dst.shape else None


def _transposed(found: Bits, given: Mapping[str, Any], dst: Tensor) -> Bits | None:
    turned = found.arranged(lambda each: each.reshape(each.shape[0], -1).T)
    return turned if turned.bits.shape == (dst.shape[0], math.prod(dst.shape[1:])) else None


def _multiplied(found: Bits, given: Mapping[str, Any], dst: Tensor) -> Bits | None:
    """A matrix multiplication that transposes, with the identity as the moving operand."""
    moving = given.get("moving")
    identity = isinstance(moving, Tensor) and moving.storage.identity and moving.shape == moving.storage.shape
    return _transposed(found, given, dst) if given.get("is_transpose") and identity else None


def _shuffled(found: Bits, given: Mapping[str, Any], dst: Tensor) -> Bits | None:
    mask = given.get("shuffle_mask")
    lanes = range(_QUADRANT)
    if not isinstance(mask, list | tuple) or len(mask) != _QUADRANT or not {*mask} <= {*lanes, _UNCHANGED}:
        return None
    kept = _read(dst)
    rows = found.arranged(lambda each: each.reshape(each.shape[0], -1))
    bits = np.zeros((dst.shape[0], math.prod(dst.shape[1:])), rows.bits.dtype)
    known = np.zeros(bits.shape, bool)
    if kept is not None and kept.bits.dtype == bits.dtype:
        bits[:], known[:] = kept.bits.reshape(bits.shape), kept.known.reshape(bits.shape)
    for row in range(dst.shape[0]):
        lane = mask[row % _QUADRANT]
        source = row - row % _QUADRANT + lane
        if lane == _UNCHANGED:
            continue
        known[row] = False
        if source < rows.bits.shape[0] and rows.bits.shape[1] == bits.shape[1]:
            bits[row], known[row] = rows.bits[source], rows.known[source]
    return Bits(bits, known)


_MOVES: dict[str, Callable[[Bits, Mapping[str, Any], Tensor], Bits | None]] = {
    "dma_copy": _as_it_is,
    "tensor_copy": _as_it_is,
    "load": _as_it_is,
    "store": _as_it_is,
    "assign": _as_it_is,
    "copy": _as_it_is,
    "dma_transpose": _dma_transposed,
    "nc_transpose": _transposed,
    "nc_matmul": _multiplied,
    "nc_stream_shuffle": _shuffled,
}
"""What a move does to the elements, by instruction."""


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _filled(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    small = "int" in dst.dtype and dst.size <= _FILLED
    return _number(given.get("value")) if small or dst.storage.values is not None else None


def _counted(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    """`iota`: offset + partition * channel_multiplier + what the pattern gives."""
    pattern, offset, step = given.get("pattern"), given.get("offset") or 0, given.get("channel_multiplier") or 0
    numbers = (offset, step, *(part for each in pattern or () for part in each))
    if dst.size > _COUNTED or not pattern or not all(isinstance(each, int) for each in numbers):
        return None
    found = np.asarray(offset + step * np.arange(dst.shape[0], dtype=float))
    for stride, count in pattern:
        found = found[..., None] + stride * np.arange(count, dtype=float)
    return found if found.size == dst.size else None


def _tensor_tensor(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    left, right = known_numbers(given.get("data1")), known_numbers(given.get("data2"))
    if left is None or right is None or left.size != right.size:
        return None
    return compute(_op(given.get("op")), left, right.reshape(left.shape))


def _chained(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    """`tensor_scalar` and `scalar_tensor_tensor`: one operand after the other."""
    result = known_numbers(given.get("data"))
    for at in ("0", "1"):
        if result is None or given.get(f"op{at}") is None:
            break
        other = _number(given.get(f"operand{at}"))
        if other is None:
            return None
        other = _beside(other, result)
        if other is None:
            return None
        pair = (other, result) if given.get(f"reverse{at}") else (result, other)
        result = compute(_op(given[f"op{at}"]), *pair)
    return result


def _beside(other: Array, result: Array) -> Array | None:
    """An operand in the shape of the data: a scalar, one value a partition, or as many elements."""
    if other.ndim == 0:
        return other
    if other.size == result.size:
        return other.reshape(result.shape)
    if other.size == result.shape[0]:
        return other.reshape(-1, *[1] * (result.ndim - 1))
    return None


def _activated(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    """`activation` with a function that changes nothing."""
    if _op(given.get("op")) not in ("copy", "identity") or given.get("reduce_op") is not None:
        return None
    return activation_input(given)


def activation_input(given: Mapping[str, Any]) -> Array | None:
    """What the function of an `activation` gets, scale * data + bias, NaN where not known; None: nothing is known."""
    data = known_numbers(given.get("data"))
    for op, key in (("multiply", "scale"), ("add", "bias")):
        value = given.get(key)
        if value is None or data is None:
            continue
        other = _number(value)
        other = None if other is None else _beside(other, data)
        data = None if other is None else compute(op, data, other)
    return data


_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.sum,
    "maximum": np.max,
    "max": np.max,
    "minimum": np.min,
    "min": np.min,
}


def _reduced(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    data, op = known_numbers(given.get("data")), _op(given.get("op"))
    function = _REDUCTIONS.get(op)
    if data is None or function is None or given.get("negate") or dst.size != data.shape[0]:
        return None
    rows = data.reshape(data.shape[0], -1)
    # The order of a sum is not known: it does not matter to integers whose sums are all exact.
    inexact = (rows % 1 != 0).any(axis=1) | (np.abs(rows).sum(axis=1) > _EXACT)
    found: Array = function(rows, axis=1)
    return np.where(inexact, np.nan, found) if op == "add" else found


def _selected(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    """`tensor_copy_predicated`: the source where the predicate holds, what was there elsewhere."""
    predicate, held, source = (
        known_numbers(given.get("predicate")),
        known_numbers(dst),
        _number(given.get("src")),
    )
    if predicate is None or held is None or source is None or predicate.size != held.size:
        return None
    source = source.reshape(held.shape) if source.size == held.size else np.broadcast_to(source, held.shape)
    chosen = (predicate.reshape(held.shape) != 0) != bool(given.get("reverse_pred"))
    return np.where(np.isnan(predicate.reshape(held.shape)), np.nan, np.where(chosen, source, held))


def _by_operator(given: Mapping[str, Any], dst: Tensor) -> Array | None:
    """`nl.add(x, y)` and the like."""
    operands = [_number(each) for each in given.get("operands", ())]
    if len(operands) != 2 or operands[0] is None or operands[1] is None:
        return None
    return compute(_op(given.get("op")), operands[0], operands[1])


_NUMBERS: dict[str, Callable[[Mapping[str, Any], Tensor], Array | None]] = {
    "memset": _filled,
    "fill": _filled,
    "register_store": lambda given, dst: _number(given.get("value")),
    "iota": _counted,
    "tensor_tensor": _tensor_tensor,
    "tensor_scalar": _chained,
    "scalar_tensor_tensor": _chained,
    "activation": _activated,
    "tensor_reduce": _reduced,
    "tensor_copy_predicated": _selected,
}
"""What an instruction computes, by its name."""
