"""Custom-calls of Neuron's front ends by their public definitions; narrow floats are computed in f32.

    Gelu, GeluApprxTanh        x/2 (1 + erf(x / sqrt 2)); x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    GeluBackward               the derivative of Gelu at its one operand; or times the first of two operands
    Silu, SiluBackward         x logistic(x), and likewise
    Erf                        erf
    Softmax, SoftmaxBackward   along dimension `backend_config`; y (g - sum(g y)) of (g, y)
    RmsNorm                    x / sqrt(mean(x^2) + epsilon) weight, along dimension `backend_config`
    TopK                       `backend_config` largest along the last dimension, with their indices

Names begin with `AwsNeuron`. A form that is not one of these stays a custom-call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import Shape, TupleShape

_NUMBER = re.compile(r"[\"']?\s*(-?[0-9]{1,9})\s*[\"']?")


def _wide(writer: Writer, value: Value) -> Value:
    return writer.convert(value, "f32" if value.dtype in ("bf16", "f16") else value.dtype)


def _floats(writer: Writer, *counts: int) -> bool:
    """Whether it has so many operands, all of them arrays of floats, and one array as its result."""
    shapes = [each.shape for each in writer.parameters] + [writer.instruction.shape]
    floats = all(isinstance(shape, Shape) and shape.dtype.startswith(("f", "bf")) for shape in shapes)
    return floats and len(writer.parameters) in counts


def _result(writer: Writer, value: Value) -> Value:
    shape = writer.instruction.shape
    assert isinstance(shape, Shape)
    return writer.convert(value, shape.dtype)


def _number(writer: Writer) -> int | None:
    """The number in `backend_config`."""
    config = writer.instruction.attributes.get("backend_config")
    match = _NUMBER.fullmatch(config.text.strip()) if config is not None else None
    return int(match[1]) if match else None


def _dim(writer: Writer) -> int | None:
    """The dimension in `backend_config`."""
    number, rank = _number(writer), len(writer.parameters[0].dims)
    return number % rank if number is not None and -rank <= number < rank else None


def _unary(compute: Callable[[Writer, Value], Value]) -> Callable[[Writer], Value | None]:
    def expand(writer: Writer) -> Value | None:
        if not _floats(writer, 1):
            return None
        return _result(writer, compute(writer, _wide(writer, writer.parameters[0])))

    return expand


def _backward(derivative: Callable[[Writer, Value], Value]) -> Callable[[Writer], Value | None]:
    def expand(writer: Writer) -> Value | None:
        if not _floats(writer, 1, 2):
            return None
        *grads, x = (_wide(writer, each) for each in writer.parameters)
        found = derivative(writer, x)
        return _result(writer, writer.same("multiply", grads[0], found) if grads else found)

    return expand


def _times(writer: Writer, value: Value, factor: float) -> Value:
    return writer.same("multiply", value, writer.full(value, factor))


def _plus_one(writer: Writer, value: Value) -> Value:
    return writer.same("add", value, writer.full(value, 1.0))


def _cumulative(writer: Writer, x: Value) -> Value:
    """Of the normal distribution."""
    return _times(writer, _plus_one(writer, writer.same("erf", _times(writer, x, math.sqrt(0.5)))), 0.5)


def _gelu(writer: Writer, x: Value) -> Value:
    return writer.same("multiply", x, _cumulative(writer, x))


def _gelu_derivative(writer: Writer, x: Value) -> Value:
    square = _times(writer, writer.same("multiply", x, x), -0.5)
    density = _times(writer, writer.same("exponential", square), 1 / math.sqrt(2 * math.pi))
    return writer.same("add", _cumulative(writer, x), writer.same("multiply", x, density))


def _gelu_tanh(writer: Writer, x: Value) -> Value:
    cube = writer.same("multiply", writer.same("multiply", x, x), x)
    inner = writer.same("add", x, _times(writer, cube, 0.044715))
    wave = writer.same("tanh", _times(writer, inner, math.sqrt(2 / math.pi)))
    return writer.same("multiply", _times(writer, x, 0.5), _plus_one(writer, wave))


def _silu(writer: Writer, x: Value) -> Value:
    return writer.same("multiply", x, writer.same("logistic", x))


def _silu_derivative(writer: Writer, x: Value) -> Value:
    gate = writer.same("logistic", x)
    rest = writer.same("subtract", writer.full(gate, 1.0), gate)
    return writer.same("multiply", gate, _plus_one(writer, writer.same("multiply", x, rest)))


def _erf(writer: Writer, x: Value) -> Value:
    return writer.same("erf", x)


def _along(writer: Writer, value: Value, dim: int, opcode: str) -> Value:
    """Elements combined along a dimension, for each place along it."""
    others = [each for each in range(len(value.dims)) if each != dim]
    return writer.spread(writer.reduce(value, [dim], opcode), value.dims, others)


def _softmax(writer: Writer) -> Value | None:
    if not _floats(writer, 1) or (dim := _dim(writer)) is None:
        return None
    x = _wide(writer, writer.parameters[0])
    powers = writer.same("exponential", writer.same("subtract", x, _along(writer, x, dim, "maximum")))
    return _result(writer, writer.same("divide", powers, _along(writer, powers, dim, "add")))


def _softmax_backward(writer: Writer) -> Value | None:
    if not _floats(writer, 2) or (dim := _dim(writer)) is None:
        return None
    grad, y = (_wide(writer, each) for each in writer.parameters)
    total = _along(writer, writer.same("multiply", grad, y), dim, "add")
    return _result(writer, writer.same("multiply", y, writer.same("subtract", grad, total)))


def _rms_norm(writer: Writer) -> Value | None:
    if not _floats(writer, 3) or (dim := _dim(writer)) is None:
        return None
    x, weight, epsilon = (_wide(writer, each) for each in writer.parameters)
    x = writer.convert(x, "f32") if x.dtype != "f64" else x
    if weight.dims != (x.dims[dim],) or math.prod(epsilon.dims) != 1:
        return None
    weight, epsilon = writer.convert(weight, x.dtype), writer.convert(writer.reshape(epsilon, ()), x.dtype)
    others = [each for each in range(len(x.dims)) if each != dim]
    total = writer.reduce(writer.same("multiply", x, x), [dim], "add")
    mean = writer.same("divide", total, writer.full(total, x.dims[dim]))
    shifted = writer.same("add", mean, writer.spread(epsilon, mean.dims, ()))
    unit = writer.same("multiply", x, writer.spread(writer.same("rsqrt", shifted), x.dims, others))
    return _result(writer, writer.same("multiply", unit, writer.spread(weight, x.dims, [dim])))


def _topk(writer: Writer) -> Value | None:
    return top_of(writer, _number(writer))


def top_of(writer: Writer, count: int | None) -> Value | None:
    """The largest along the last dimension, as the result's shape says, `count` of them if that is given."""
    shape = writer.instruction.shape
    if len(writer.parameters) != 1 or not isinstance(shape, TupleShape) or len(shape.elements) != 2:
        return None
    x, (values, indices) = writer.parameters[0], shape.elements
    if not isinstance(x.shape, Shape) or not isinstance(values, Shape) or not isinstance(indices, Shape):
        return None
    same = values.dims == indices.dims and values.dims[:-1] == x.dims[:-1] and values.dtype == x.dtype
    if not x.dims or not same or values.dims[-1] > x.dims[-1] or count not in (None, values.dims[-1]):
        return None
    found = TupleShape((values, Shape("s32", indices.dims)))
    made = writer.write(found, "topk", x, k=str(values.dims[-1]), largest="true")
    if indices.dtype == "s32":
        return made
    return writer.tuple(writer.element(made, 0), writer.convert(writer.element(made, 1), indices.dtype))


EXPANSIONS = {
    "AwsNeuronGelu": _unary(_gelu),
    "AwsNeuronGeluApprxTanh": _unary(_gelu_tanh),
    "AwsNeuronGeluBackward": _backward(_gelu_derivative),
    "AwsNeuronSilu": _unary(_silu),
    "AwsNeuronSiluBackward": _backward(_silu_derivative),
    "AwsNeuronErf": _unary(_erf),
    "AwsNeuronSoftmax": _softmax,
    "AwsNeuronSoftmaxBackward": _softmax_backward,
    "AwsNeuronRmsNorm": _rms_norm,
    "AwsNeuronTopK": _topk,
}
