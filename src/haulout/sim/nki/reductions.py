"""Reductions, scans, and what the accumulator registers of the engines take part in."""

from __future__ import annotations

from math import prod

import numpy as np

from haulout.sim.nki.activations import activation as function_of
from haulout.sim.nki.call import Call
from haulout.sim.nki.operators import ARITHMETIC, BITS, arithmetic, reducer
from haulout.sim.nki.places import Place
from haulout.sim.nki.registers import IDENTITY
from haulout.sim.nki.remarks import look_at_input
from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

_FP32_MIN = np.float32(np.finfo(np.float32).min)


def tensor_reduce(call: Call) -> None:
    """The last axes reduced by an operator."""
    dst, data, op = call.place("dst"), call.place("data"), call.word("op")
    axes = sorted(axis % len(data.shape) for axis in call.numbers("axis"))
    if axes != list(range(len(data.shape) - len(axes), len(data.shape))) or not axes:
        bad_input(f"`axis` {axes} are not the last axes of {len(data.shape)}")
    kept = prod(data.shape[: len(data.shape) - len(axes)])
    bits = op in BITS
    values = (data.get() if bits else data.f32()).reshape(kept, -1)
    found = reducer(op)(values)
    if call.flag("negate"):
        found = -found
    if bits:
        dst.put(found.astype(dst.dtype))
    else:
        dst.store(found)


def tensor_partition_reduce(call: Call) -> None:
    """One row: an operator over all partitions."""
    dst, data, op = call.place("dst"), call.place("data"), call.word("op")
    if op in BITS:
        dst.put(reducer(op)(data.rows().T).astype(dst.dtype))
    else:
        dst.store(reducer(op)(data.f32().T))


# -- accumulators ----------------------------------------------------------------------------------------------------


def _lanes(place: Place) -> slice:
    return slice(place.first_partition, place.first_partition + place.partitions)


def accumulate(
    call: Call, engine: str, values: Array, op: str, command: str, start: Array | float | None = None
) -> None:
    """What a `reduce_cmd` does to the registers of one engine, and `reduce_res`, which takes their new values."""
    registers = call.state.scalar if engine == "scalar" else call.state.vector
    dst = call.place("dst")
    lanes = _lanes(dst)
    old, known = registers[lanes], call.state.known[engine]
    if (command == "reduce" or (command == "idle" and call.has("reduce_res"))) and not known[lanes].all():
        text = f"it takes accumulators of the {engine} engine that have no known value"
        call.state.remarks.add(call.row, "accumulator", text)
    if command not in ("reduce", "idle"):
        known[lanes] = True
    match command:
        case "reset":
            registers[lanes] = IDENTITY.get(op, 0.0)
        case "reset_reduce":
            registers[lanes] = reducer(op)(values)
        case "reduce":
            registers[lanes] = ARITHMETIC[op](old, reducer(op)(values))
        case "load_reduce":
            registers[lanes] = ARITHMETIC[op](np.broadcast_to(np.asarray(start), old.shape), reducer(op)(values))
        case "idle":
            pass
        case _:
            bad_input(f"`reduce_cmd` {command} is not one that the simulator has")
    if call.has("reduce_res"):
        found = registers[lanes]
        call.place("reduce_res").store(-found if call.flag("reduce_res_negate") else found)


def _on_vector(call: Call, values: Array, op: str, command: str, start: Array | float | None = None) -> None:
    if command == "idle":
        # They may be changed all the same, so they are not known.
        call.state.vector[_lanes(call.place("dst"))] = np.nan
        call.state.known["vector"][_lanes(call.place("dst"))] = False
    accumulate(call, "vector", values, op, command, start)


def activation(call: Call) -> None:
    """function(scale * data + bias); sums go to the scalar engine's registers."""
    found = _activated(call)
    call.place("dst").store(found)
    command = call.word("reduce_cmd", "idle")
    if command != "idle" or call.has("reduce_res"):
        accumulate(call, "scalar", found, call.word("reduce_op", "add"), command)


def activation_reduce(call: Call) -> None:
    """The same, and `reduce_res` takes the sum of this instruction."""
    found = _activated(call)
    call.place("dst").store(found)
    accumulate(call, "scalar", found, call.word("reduce_op", "add"), "reset_reduce")


def _activated(call: Call) -> Array:
    found = call.place("data").f32()
    scale = call.operand("scale", 1.0)
    if isinstance(scale, np.ndarray) or scale != 1:
        found = found * scale
    if call.has("bias"):
        found = found + call.operand("bias")
    look_at_input(call, call.word("op"), found)
    return np.asarray(function_of(call.word("op"))(found))


def activate2(call: Call) -> None:
    """function((data op0 imm0) op1 imm1)."""
    found = call.place("data").f32()
    for at in (0, 1):
        op = call.word(f"op{at}", "bypass")
        other = call.operand(f"imm{at}")
        function = arithmetic(op)
        found = function(other, found) if call.flag(f"reverse{at}") and op != "bypass" else function(found, other)
    op = call.word("op")
    if op == "prelu":
        found = np.where(found >= 0, found, call.operand("relu_param") * found)
    else:
        look_at_input(call, op, found)
        found = function_of(op)(found)
    call.place("dst").store(found)
    command = call.word("reduce_cmd", "idle")
    if command != "idle" or call.has("reduce_res"):
        accumulate(call, "scalar", found, call.word("reduce_op", "add"), command)


def exponential(call: Call) -> None:
    """exp(src - max_value); sums go to the vector engine's registers."""
    found = np.exp(call.place("src").f32() - call.operand("max_value"))
    call.place("dst").store(found)
    _on_vector(call, found, "add", call.word("reduce_cmd", "idle"), call.operand("reduce_init"))


def tensor_scalar_reduce(call: Call) -> None:
    """data op0 operand0, and its reduction in the vector engine's registers."""
    function = arithmetic(call.word("op0"))
    data, other = call.place("data").f32(), call.operand("operand0")
    found = function(other, data) if call.flag("reverse0") else function(data, other)
    call.place("dst").store(found)
    start = call.operand("reduce_init") if call.has("reduce_init") else None
    _on_vector(call, found, call.word("reduce_op"), call.word("reduce_cmd", "reset_reduce"), start)


def range_select(call: Call) -> None:
    """on_true_tile where a count along each partition is in bounds, else the least float32; reduced by max."""
    tile = call.place("on_true_tile").f32()
    count = (np.float32(call.number("range_start")) + np.arange(tile.shape[1], dtype=np.float32))[None, :]
    holds = ARITHMETIC[call.word("comp_op0")](count, call.operand("bound0")) != 0
    holds &= ARITHMETIC[call.word("comp_op1")](count, call.operand("bound1")) != 0
    found = np.where(holds, tile, _FP32_MIN)
    call.place("dst").store(found)
    _on_vector(call, found, call.word("reduce_op", "maximum"), call.word("reduce_cmd", "reset_reduce"))


def select_reduce(call: Call) -> None:
    """on_true where the predicate holds, else on_false; reduced by max."""
    holds = (call.place("predicate").rows() != 0) ^ call.flag("reverse_pred")
    found = np.where(holds, call.operand("on_true"), call.operand("on_false"))
    call.place("dst").store(np.broadcast_to(found, holds.shape))
    _on_vector(call, found, call.word("reduce_op", "maximum"), call.word("reduce_cmd", "idle"))


# -- scans -----------------------------------------------------------------------------------------------------------


def tensor_tensor_scan(call: Call) -> None:
    """r = (data0[i] op0 r) op1 data1[i], from left to right in each partition, with r in float32."""
    one, other = call.place("data0").f32(), call.place("data1").f32()
    first, second = arithmetic(call.word("op0")), arithmetic(call.word("op1"))
    turned = call.flag("reverse0"), call.flag("reverse1")
    r = np.broadcast_to(call.operand("initial"), (one.shape[0], 1))[:, 0].astype(np.float32)
    found = np.empty_like(one)
    for at in range(one.shape[1]):
        r = first(r, one[:, at]) if turned[0] else first(one[:, at], r)
        r = second(other[:, at], r) if turned[1] else second(r, other[:, at])
        found[:, at] = r
    call.place("dst").store(found)


def tensor_scalar_cumulative(call: Call) -> None:
    """r = (src[i] op0 imm0) op1 r, from left to right in each partition, with r in float32."""
    source, op1 = call.place("src").f32(), call.word("op1")
    values = arithmetic(call.word("op0"))(source, call.operand("imm0"))
    combine, lanes = arithmetic(op1), _lanes(call.place("dst"))
    match call.word("reduce_cmd", "reset_reduce"):
        case "reset_reduce":
            r = np.full(len(source), IDENTITY.get(op1, 0.0), np.float32)
        case "reduce":
            r = call.state.vector[lanes, 0]
            if not call.state.known["vector"][lanes].all():
                text = "it takes accumulators of the vector engine that have no known value"
                call.state.remarks.add(call.row, "accumulator", text)
        case "load_reduce":
            r = np.broadcast_to(call.operand("imm1"), (len(source), 1))[:, 0].astype(np.float32)
        case command:
            bad_input(f"`reduce_cmd` {command} is not one that the simulator has")
    found = np.empty_like(values)
    for at in range(values.shape[1]):
        r = combine(values[:, at], r)
        found[:, at] = r
    call.state.vector[lanes, 0] = r
    call.state.known["vector"][lanes] |= call.word("reduce_cmd", "reset_reduce") != "reduce"
    call.place("dst").store(found)


# -- statistics ------------------------------------------------------------------------------------------------------


def bn_stats(call: Call) -> None:
    """Count, mean, and count times variance of the even elements of each partition, then of the odd ones."""
    data = call.place("data").f32()
    found = np.zeros((data.shape[0], 6), np.float32)
    for at, half in enumerate((data[:, 0::2], data[:, 1::2])):
        if half.shape[1]:
            found[:, 3 * at] = half.shape[1]
            found[:, 3 * at + 1] = half.mean(axis=1)
            found[:, 3 * at + 2] = half.var(axis=1) * np.float32(half.shape[1])
    call.place("dst").store(found)


def bn_aggr(call: Call) -> None:
    """Mean and variance of everything that triples (count, mean, count times variance) describe."""
    triples = call.place("data").f32()
    triples = triples.reshape(len(triples), -1, 3)
    count, mean, spread = (triples[:, :, at] for at in range(3))
    total = count.sum(axis=1)
    centre = (count * mean).sum(axis=1) / total
    variance = (spread + count * np.square(mean - centre[:, None])).sum(axis=1) / total
    call.place("dst").store(np.stack([centre, variance], axis=1))
