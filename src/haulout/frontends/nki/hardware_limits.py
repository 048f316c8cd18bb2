"""Sizes, types and operators that an instruction can have, by instruction; see `hardware_rules.py`.

The tensor engine is in `hardware_matmul.py`, DMA in `hardware_dma.py`, instructions that search, gather and count in
`hardware_sizes.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from haulout.frontends.nki.engines import chosen_engine
from haulout.frontends.nki.hardware_checks import Breach, Check, Found, Given, Operands, all_of, free_size
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.value_rules import activation_input
from haulout.target.activation_ranges import VALID, outside_range

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
_MISSING = frozenset({"divide", "mod", "fmod"})
_NOT_REDUCED = frozenset(
    {
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "logical_not", "power", "rsqrt"),
        *("reciprocal", "abs", "square", "relu", "abs_max", "abs_min", "invert", "left_shift", "right_shift"),
    }
)
_FOLDS = frozenset({"add", "multiply", "max", "min", "maximum", "minimum"})
_MAXIMUM = frozenset({"max", "maximum"})
_COMPARED = frozenset({"equal", "less", "less_equal", "greater", "greater_equal"})
_OVER_PARTITIONS = frozenset({"add", "average", "max", "maximum", "bitwise_or", "bitwise_and"})
_PAIRS = frozenset(
    {
        *(("multiply", second) for second in ("add", "subtract", "bypass")),
        *((first, "bypass") for first in ("add", "subtract", "bypass")),
    }
)
_ENGINES = {
    **dict.fromkeys(("tensor_copy", "tensor_scalar"), ("vector", "scalar", "gpsimd")),
    **dict.fromkeys(("tensor_tensor", "memset", "rng", "rand_set_state", "rand_get_state"), ("vector", "gpsimd")),
    "nc_transpose": ("tensor", "vector"),
    "activation": ("scalar", "gpsimd"),
}
_LEAST_FLOAT32 = float(np.finfo(np.float32).min)


def _name(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def _is_float(dtype: str) -> bool:
    return "float" in dtype


def _listed(names: list[str]) -> str:
    return ", ".join(f"nl.{name}" for name in names)


# -- shapes ----------------------------------------------------------------------------------------------------------


def alike(*names: str) -> Check:
    """Operands with as many elements in each partition as the destination."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        dst = operands.get("dst")
        for name in names:
            tensor = operands.get(name)
            if dst is not None and tensor is not None and free_size(tensor) != free_size(dst):
                message = f"{name} has {free_size(tensor)} elements in each partition, dst {free_size(dst)}"
                yield Breach("free-size", name, message, "broadcast it with a view, such as .broadcast or .ap")

    return check


def columns(*names: str, single: bool = False) -> Check:
    """Operands with one value for each partition; `single`: as float32."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        dst = operands.get("dst")
        for name in names:
            tensor = operands.get(name)
            if tensor is None:
                continue
            if free_size(tensor) != 1:
                message = f"{name} has {free_size(tensor)} elements in each partition; it takes one"
                yield Breach("vector-shape", name, message)
            elif dst is not None and tensor.shape[0] != dst.shape[0]:
                message = f"{name} spans {tensor.shape[0]} partitions, dst {dst.shape[0]}"
                yield Breach("vector-shape", name, message)
            elif single and tensor.dtype != "float32":
                yield Breach("ts-f32", name, f"{name} is {tensor.dtype}; it takes float32", "convert it first")

    return check


# -- operators and engines -------------------------------------------------------------------------------------------


def has_engine(name: str) -> Check:
    """The engine that a kernel asks for."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        asked = chosen_engine(given)
        if asked != "unknown" and asked not in _ENGINES[name]:
            yield Breach(
                "eng-choice", "engine", f"the {asked} engine does not have it; {', '.join(_ENGINES[name])} do"
            )

    return check


def _operators(*keys: str, bitwise: bool = True) -> Check:
    """Operators on bits take integers and are the vector engine's; they do not mix with arithmetic."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        names = [_name(given[key]) for key in keys if given.get(key) is not None]
        for name in names:
            if name in _MISSING:
                help = "multiply by nisa.reciprocal" if name == "divide" else ""
                yield Breach("op-missing", name, f"nl.{name} is no operator of the hardware", help)
        bits = [name for name in names if name in _BITWISE]
        if not bits:
            return
        if not bitwise:
            yield Breach("op-class", "op", f"nl.{bits[0]}: the instruction has arithmetic operators only")
            return
        if len(bits) < len(names) and "bypass" not in names:
            message = f"nl.{names[0]} and nl.{names[1]}: bitwise and arithmetic operators do not combine"
            yield Breach("op-class", "op", message)
        if chosen_engine(given) in ("scalar", "gpsimd"):
            yield Breach("op-class", "engine", f"nl.{bits[0]} runs on the vector engine only")
        for name in ("dst", "data", "data1", "data2"):
            tensor = operands.get(name)
            if tensor is not None and _is_float(tensor.dtype):
                yield Breach("op-class", name, f"{name} is {tensor.dtype}; nl.{bits[0]} takes integers")

    return check


def _one_of(key: str, allowed: frozenset[str]) -> Check:
    """An operator from a few."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        if given.get(key) is not None and _name(given[key]) not in allowed:
            message = f"{key} is nl.{_name(given[key])}; it takes {_listed(sorted(allowed))}"
            yield Breach("op-reduce", key, message)

    return check


def _activate2(given: Given, operands: Operands, target: str) -> Found:
    names = (_name(given.get("op0")), _name(given.get("op1")))
    if names not in _PAIRS:
        yield Breach("op-pair", "op0", f"{_listed(list(names))}: not a pair of operators that it has")


def _tensor_scalar(given: Given, operands: Operands, target: str) -> Found:
    names = [_name(given[key]) for key in ("op0", "op1") if given.get(key) is not None]
    arithmetic = not any(name in _BITWISE for name in names)
    yield from columns("operand0", "operand1", single=arithmetic)(given, operands, target)
    asked = chosen_engine(given)
    if asked == "scalar" and names not in (["multiply", "add"], ["multiply"], ["add"]):
        message = f"{_listed(names)} on the scalar engine, which supports multiply, add, and multiply then add"
        yield Breach("scalar-ops", "engine", message, "leave engine out")
    if asked == "gpsimd" and arithmetic and names != ["rsqrt"]:
        message = f"{_listed(names)} on GpSimd, where the documentation allows nl.rsqrt only"
        yield Breach("pool-ops", "engine", message, "leave engine out")


def _tensor_reduce(given: Given, operands: Operands, target: str) -> Found:
    op, dst, data = _name(given.get("op")), operands.get("dst"), operands.get("data")
    if op in _NOT_REDUCED:
        yield Breach("op-reduce", "op", f"nl.{op} is no reduction")
    axis = given.get("axis")
    axes = [axis] if isinstance(axis, int | np.integer) else list(axis) if isinstance(axis, list | tuple) else None
    if data is None or not axes or not all(isinstance(each, int | np.integer) for each in axes):
        return
    rank = len(data.shape)
    reduced = sorted({int(each) + (rank if each < 0 else 0) for each in axes})
    kept = [at for at in range(1, rank) if at not in reduced and data.shape[at] != 1]
    if reduced[0] < 1 or reduced[-1] >= rank or (kept and kept[-1] > reduced[0]):
        message = f"axis {axis} of data {list(data.shape)} is not the last free dimensions"
        yield Breach("reduce-axis", "axis", message, "turn the data with nisa.nc_transpose first")
    elif dst is not None and free_size(dst) != math.prod(data.shape[at] for at in kept):
        wanted = math.prod(data.shape[at] for at in kept)
        message = f"dst has {free_size(dst)} elements in each partition; {wanted} of data {list(data.shape)} remain"
        yield Breach("reduce-axis", "dst", message)


# -- single instructions ---------------------------------------------------------------------------------------------


def _tensor_copy(given: Given, operands: Operands, target: str) -> Found:
    if chosen_engine(given) == "scalar":
        yield Breach("eng-copy", "engine", "the scalar engine does not copy", "use nisa.activation with op=nl.copy")


def _activation(given: Given, operands: Operands, target: str) -> Found:
    bias, op = given.get("bias"), _name(given.get("op"))
    if isinstance(bias, int | float) and bias != 0:
        yield Breach("act-bias", "bias", f"bias is {bias}", "put it into a tensor of one element in each partition")
    elif op == "reciprocal" and isinstance(bias, Tensor):
        yield Breach("act-bias", "bias", "nl.reciprocal with a bias", "add it in an instruction before")
    numbers = activation_input(given) if op in VALID else None
    if numbers is None:
        return
    wrong = numbers[outside_range(op, numbers)]
    if wrong.size:
        low, high = VALID[op]
        message = f"nl.{op} of {wrong.flat[0]:g}; it is valid from {low:.6g} to {high:.6g}"
        yield Breach("act-range", "data", message)


def _memset(given: Given, operands: Operands, target: str) -> Found:
    dst, value = operands.get("dst"), given.get("value")
    if dst is None:
        return
    if "_x4" in dst.dtype and isinstance(value, int | float) and value != 0:
        yield Breach("memset-kind", "value", f"value must be 0 for dst of type {dst.dtype}, found {value}")
    elif "int" in dst.dtype and isinstance(value, float):
        whole = value.is_integer()
        message = f"value must be an integer for dst of type {dst.dtype}, found {value}"
        help = f"write {int(value)}" if whole else ""
        yield Breach("memset-float" if whole else "memset-kind", "value", message, help)


def _types(**allowed: str) -> Check:
    """Operands that have few types."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        for name, types in allowed.items():
            tensor = operands.get(name)
            if tensor is not None and tensor.dtype not in types.split():
                yield Breach("select-dtype", name, f"{name} is {tensor.dtype}; it takes {', '.join(types.split())}")

    return check


def same_type(rule: str, first: str, second: str) -> Check:
    """Two operands without conversion between them."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        left, right = operands.get(first), operands.get(second)
        if left is not None and right is not None and left.dtype != right.dtype:
            yield Breach(
                rule, first, f"{first} is {left.dtype}, {second} {right.dtype}; the instruction converts nothing"
            )

    return check


def _range_select(given: Given, operands: Operands, target: str) -> Found:
    tensor, value = operands.get("on_true_tile"), given.get("on_false_value")
    if tensor is not None and not _is_float(tensor.dtype):
        yield Breach("select-dtype", "on_true_tile", f"on_true_tile is {tensor.dtype}; it takes a float")
    for key in ("comp_op0", "comp_op1"):
        if given.get(key) is not None and _name(given[key]) not in _COMPARED:
            yield Breach(
                "select-dtype", key, f"{key} is nl.{_name(given[key])}; it takes {_listed(sorted(_COMPARED))}"
            )
    if isinstance(value, int | float) and np.float32(value) != np.float32(_LEAST_FLOAT32):
        yield Breach("select-dtype", "on_false_value", f"on_false_value is {value}; it must be {_LEAST_FLOAT32:g}")


def _select_reduce(given: Given, operands: Operands, target: str) -> Found:
    tensor = operands.get("on_true")
    if tensor is not None and tensor.dtype in ("tfloat32", "int32", "uint32"):
        yield Breach("select-dtype", "on_true", f"on_true is {tensor.dtype}, which it does not take")


def _cumulative(given: Given, operands: Operands, target: str) -> Found:
    for name in ("dst", "src"):
        tensor = operands.get(name)
        if tensor is not None and tensor.dtype in ("int32", "uint32"):
            yield Breach(
                "select-dtype", name, f"{name} is {tensor.dtype}; it takes floats and integers of 8 or 16 bits"
            )


# -- all of them -----------------------------------------------------------------------------------------------------


_ACTIVATION = (
    alike("data"),
    columns("scale", single=True),
    columns("bias", "reduce_res"),
    _one_of("reduce_op", frozenset({"add"})),
    _activation,
)

LIMITS: dict[str, Check] = {
    "tensor_copy": all_of(has_engine("tensor_copy"), _tensor_copy),
    "tensor_tensor": all_of(has_engine("tensor_tensor"), alike("data1", "data2"), _operators("op")),
    "tensor_scalar": all_of(has_engine("tensor_scalar"), alike("data"), _operators("op0", "op1"), _tensor_scalar),
    "scalar_tensor_tensor": all_of(
        alike("data", "operand1"), columns("operand0", "reduce_res"), _operators("op0", "op1", bitwise=False)
    ),
    "tensor_copy_predicated": all_of(
        alike("src", "predicate"), _types(predicate="uint8 uint16 uint32"), same_type("select-dtype", "dst", "src")
    ),
    "activation": all_of(has_engine("activation"), *_ACTIVATION),
    "activation_reduce": all_of(*_ACTIVATION),
    "activate2": all_of(alike("data"), columns("imm0", "imm1", "relu_param", "reduce_res"), _activate2),
    "tensor_reduce": all_of(_operators("op"), _tensor_reduce),
    "tensor_scalar_reduce": all_of(
        alike("data"),
        columns("operand0", "reduce_res"),
        _operators("op0", bitwise=False),
        _one_of("reduce_op", _FOLDS),
    ),
    "tensor_scalar_cumulative": all_of(
        alike("src"),
        columns("imm0", "imm1", single=True),
        _operators("op0", bitwise=False),
        _one_of("op1", _FOLDS | {"subtract"}),
        _cumulative,
    ),
    "tensor_tensor_scan": all_of(
        alike("data0", "data1"), columns("initial"), _operators("op0", "op1", bitwise=False)
    ),
    "tensor_partition_reduce": _one_of("op", _OVER_PARTITIONS),
    "reciprocal": alike("data"),
    "exponential": all_of(alike("src"), columns("max_value", single=True), columns("reduce_res")),
    "dropout": all_of(alike("data"), columns("prob"), same_type("select-dtype", "dst", "data")),
    "range_select": all_of(
        alike("on_true_tile"),
        columns("bound0", "bound1", single=True),
        columns("reduce_res"),
        _one_of("reduce_op", _MAXIMUM),
        _range_select,
    ),
    "select_reduce": all_of(
        alike("on_true", "predicate"),
        columns("on_false", "reduce_res"),
        _types(predicate="int8 uint8 int16 uint16"),
        _one_of("reduce_op", _MAXIMUM),
        _select_reduce,
    ),
    "memset": all_of(has_engine("memset"), _memset),
}
"""What is checked of each instruction."""
