"""Elementwise instructions of the vector, scalar and GpSimd engines.

Each operand becomes float32, operators compute in float32, and the result becomes the type of `dst`. Operators on
bits take integers as they are. 32-bit integers in SBUF that `tensor_tensor` adds, subtracts, multiplies or compares
are exact, as on GpSimd, which computes them; so are integers that `tensor_scalar` adds, subtracts or multiplies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from haulout.sim.nki.activations import ACTIVATIONS
from haulout.sim.nki.call import Call
from haulout.sim.nki.operators import BITS, INTEGER_EXACT, UNARY, arithmetic
from haulout.sim.nki.places import Place
from haulout.sim.nki.types import to_f32
from haulout.sim.numerics.types import Array

_WORDS = (np.dtype(np.int32), np.dtype(np.uint32))


def tensor_tensor(call: Call) -> None:
    """data1 op data2."""
    dst, one, other, op = call.place("dst"), call.place("data1"), call.place("data2"), call.word("op")
    if op in BITS:
        left, right = one.rows(), other.rows()
        dst.store(BITS[op](left, right.astype(left.dtype)))
        return
    exact = all(each.dtype in _WORDS and not each.room.psum for each in (dst, one, other))
    if exact and op in INTEGER_EXACT and call.word("engine", "unknown") in ("unknown", "gpsimd"):
        found = arithmetic(op)(one.rows().astype(np.int64), other.rows().astype(np.int64))
        dst.store(found.astype(np.int64))  # wraps
        return
    dst.store(arithmetic(op)(one.f32(), other.f32()))


def tensor_scalar(call: Call) -> None:
    """data op0 operand0, then op1 operand1; a reversed operator takes its operand first."""
    dst, data = call.place("dst"), call.place("data")
    ops = [(call.word(f"op{at}"), f"operand{at}", call.flag(f"reverse{at}")) for at in (0, 1)]
    ops = [each for each in ops if each[0]]
    if all(op in BITS for op, _, _ in ops):
        found = data.rows()
        for op, operand, reverse in ops:
            found = _on_bits(op, found, call.args.get(operand), reverse)
        dst.store(found)
        return
    if _is_exact(dst, data, call, ops):
        found = data.rows().astype(np.int64)
        for op, operand, reverse in ops:
            found = _applied(op, found, np.int64(call.number(operand)), reverse)
        dst.store(found)
        return
    found = data.f32()
    for op, operand, reverse in ops:
        found = _applied(op, found, call.operand(operand), reverse)
    dst.store(found)


def _is_exact(dst: Place, data: Place, call: Call, ops: list[tuple[str, str, bool]]) -> bool:
    """Whether it is integer arithmetic: 32-bit integers and immediates that are integers."""
    if dst.dtype not in _WORDS or data.dtype not in _WORDS:
        return False
    immediates = [call.args.get(operand) for _, operand, _ in ops]
    whole = all(callable(each) or (isinstance(each, int | float) and float(each).is_integer()) for each in immediates)
    return whole and all(op in ("add", "subtract", "multiply") for op, _, _ in ops)


def _on_bits(op: str, data: Array, operand: Any, reverse: bool) -> Array:
    if isinstance(operand, Place):
        other: Any = operand.rows().astype(data.dtype)
    else:
        number = operand() if callable(operand) else operand or 0
        other = np.array(int(number) & ((1 << 8 * data.dtype.itemsize) - 1), f"u{data.dtype.itemsize}")
        other = other.view(data.dtype)
    left, right = (np.broadcast_to(other, data.shape).copy(), data) if reverse else (data, other)
    return np.asarray(BITS[op](left, right))


def _applied(op: str, data: Any, operand: Any, reverse: bool) -> Any:
    function = arithmetic(op)
    return function(operand, data) if reverse and op not in UNARY else function(data, operand)


def scalar_tensor_tensor(call: Call) -> None:
    """(data op0 operand0) op1 operand1, where operand1 is a tile."""
    found = _applied(call.word("op0"), call.place("data").f32(), call.operand("operand0"), call.flag("reverse0"))
    found = _applied(call.word("op1"), found, call.place("operand1").f32(), call.flag("reverse1"))
    call.place("dst").store(found)


def reciprocal(call: Call) -> None:
    """1 / data."""
    call.place("dst").store(np.float32(1) / call.place("data").f32())


def language_operator(call: Call) -> None:
    """An operator of `nl` on tensors, which broadcast."""
    dst, op = call.place("dst"), call.word("op")
    if "src" in call.args:
        source = to_f32(call.place("src").get())
        dst.store(np.broadcast_to((ACTIVATIONS.get(op) or UNARY[op])(source), dst.shape))
        return
    values = call.args.get("operands") or []
    numbers = [to_f32(each.get()) if isinstance(each, Place) else np.float32(each) for each in values]
    if op in BITS:
        whole = [each.get() if isinstance(each, Place) else each for each in values]
        dst.store(np.broadcast_to(BITS[op](*whole), dst.shape))
        return
    dst.store(np.broadcast_to(np.asarray(arithmetic(op)(*numbers), np.float32), dst.shape))
