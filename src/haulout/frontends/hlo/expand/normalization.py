"""Batch normalization by its closed forms, as XLA defines it; narrow floats are computed in f32.

training    (normalized, mean, variance), the biased variance E[x^2] - E[x]^2 over all but the feature dimension
inference   scale * (x - mean) / sqrt(variance + epsilon) + offset
grad        the gradients of x, scale and offset in training, where n elements belong to a feature:

    g_offset = sum g                  g_scale = sum g (x - mean) / sqrt(variance + epsilon)
    g_x = scale / sqrt(variance + epsilon) * (g - g_offset / n - (x - mean) / sqrt(variance + epsilon) * g_scale / n)
"""

from __future__ import annotations

from math import prod

from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import Shape

_NARROW = ("bf16", "f16")


class _Features:
    """The operands, and what is done for each feature."""

    def __init__(self, writer: Writer, operands: int) -> None:
        instruction = writer.instruction
        if len(writer.parameters) != operands:
            instruction.fail(f"{instruction.opcode} takes {operands} operands, found {len(writer.parameters)}")
        self.writer = writer
        epsilon, feature = (instruction.attributes.get(key) for key in ("epsilon", "feature_index"))
        if epsilon is None or feature is None:
            instruction.fail(f"{instruction.opcode} needs the attributes `epsilon` and `feature_index`")
        given = writer.parameters[0].shape
        if not isinstance(given, Shape):
            instruction.fail(f"{instruction.opcode} takes arrays, found {given}")
        self.given = given
        if not self.given.dtype.startswith(("f", "bf")) or not feature.text.strip().isdecimal():
            instruction.fail(f"{instruction.opcode} is not defined on {self.given} with feature_index={feature.text}")
        self.dims, self.dim = self.given.dims, int(feature.text)
        if self.dim >= len(self.dims):
            instruction.fail(f"{instruction.opcode}: `feature_index` must be below {len(self.dims)}")
        vectors = (1, 2) if operands == 3 else (1, 2, 3, 4) if instruction.opcode.endswith("inference") else (1, 2, 3)
        for number in vectors:
            if writer.parameters[number].shape != Shape(self.given.dtype, (self.dims[self.dim],)):
                instruction.fail(
                    f"{instruction.opcode}: operand {number} is {writer.parameters[number].shape}, "
                    f"expected {Shape(self.given.dtype, (self.dims[self.dim],))}"
                )
        self.dtype = "f32" if self.given.dtype in _NARROW else self.given.dtype
        self.values = [writer.convert(each, self.dtype) for each in writer.parameters]
        try:
            self.epsilon = float(epsilon.text)
        except ValueError:
            epsilon.fail("expected a number", "epsilon")
        self.count = prod(self.dims) // max(1, self.dims[self.dim])

    def spread(self, value: Value) -> Value:
        """A number of each feature, for all its elements."""
        return self.writer.spread(value, self.dims, [self.dim])

    def total(self, value: Value) -> Value:
        """The sum over the elements of each feature."""
        return self.writer.reduce(value, [dim for dim in range(len(self.dims)) if dim != self.dim], "add")

    def mean(self, value: Value) -> Value:
        """Their mean."""
        total = self.total(value)
        return self.writer.same("divide", total, self.writer.full(total, self.count))

    def scaled(self, variance: Value) -> Value:
        """1 / sqrt(variance + epsilon)."""
        shifted = self.writer.same("add", variance, self.writer.full(variance, self.epsilon))
        return self.writer.same("rsqrt", shifted)

    def back(self, *values: Value) -> Value:
        """A tuple of results in the type of the operands."""
        made = [self.writer.convert(each, self.given.dtype) for each in values]
        return made[0] if len(made) == 1 else self.writer.tuple(*made)

    def normalized(self, x: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        """scale * (x - mean) / sqrt(variance + epsilon) + offset."""
        write = self.writer.same
        centred = write("subtract", x, self.spread(mean))
        unit = write("multiply", centred, self.spread(self.scaled(variance)))
        return write("add", write("multiply", unit, self.spread(scale)), self.spread(offset))


def _training(writer: Writer) -> Value:
    all_ = _Features(writer, 3)
    x, scale, offset = all_.values
    mean = all_.mean(x)
    square = all_.mean(writer.same("multiply", x, x))
    variance = writer.same("subtract", square, writer.same("multiply", mean, mean))
    return all_.back(all_.normalized(x, scale, offset, mean, variance), mean, variance)


def _inference(writer: Writer) -> Value:
    all_ = _Features(writer, 5)
    x, scale, offset, mean, variance = all_.values
    return all_.back(all_.normalized(x, scale, offset, mean, variance))


def _grad(writer: Writer) -> Value:
    all_ = _Features(writer, 5)
    x, scale, mean, variance, grad = all_.values
    write = writer.same
    inverse = all_.scaled(variance)
    unit = write("multiply", write("subtract", x, all_.spread(mean)), all_.spread(inverse))
    grad_offset = all_.total(grad)
    grad_scale = all_.total(write("multiply", grad, unit))
    count = writer.full(scale, all_.count)
    shared = write("multiply", unit, all_.spread(write("divide", grad_scale, count)))
    rest = write("subtract", write("subtract", grad, all_.spread(write("divide", grad_offset, count))), shared)
    grad_x = write("multiply", all_.spread(write("multiply", scale, inverse)), rest)
    return all_.back(grad_x, grad_scale, grad_offset)


EXPANSIONS = {
    "batch-norm-training": _training,
    "batch-norm-inference": _inference,
    "batch-norm-grad": _grad,
}
