"""Writes the computation that an instruction stands for, instruction by instruction.

A `Value` is a name with its shape. Every instruction gets the place of the one that is replaced, so that messages and
programs name the line of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from haulout.frontends.hlo.model import Computation, Instruction, Literal
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape
from haulout.ir.dtypes import NUMPY


@dataclass(frozen=True, slots=True)
class Value:
    """A result of an instruction that was written."""

    name: str
    shape: AnyShape

    @property
    def dtype(self) -> str:
        """Its element type."""
        assert isinstance(self.shape, Shape)
        return self.shape.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """Its extents."""
        assert isinstance(self.shape, Shape)
        return self.shape.dims


def excerpt(text: str) -> Excerpt:
    """The value of an attribute."""
    return Excerpt(Source("<haulout>", text), 0, len(text))


class Writer:
    """A computation under construction, in the place of `instruction`."""

    def __init__(
        self, instruction: Instruction, shapes: Sequence[AnyShape], known: Mapping[str, Computation] | None = None
    ) -> None:
        self.instruction = instruction
        self.known = known or {}
        """The computations that it may call."""
        self.computations: list[Computation] = []
        """What the instructions call, before them."""
        self._written: list[Instruction] = []
        self.parameters = tuple(self._parameter(number, shape) for number, shape in enumerate(shapes))

    def _parameter(self, number: int, shape: AnyShape) -> Value:
        self._written.append(self._instruction(f"operand.{number}", shape, "parameter", (), {}, number))
        return Value(self._written[-1].name, shape)

    def _instruction(
        self,
        name: str,
        shape: AnyShape,
        opcode: str,
        operands: tuple[str, ...],
        attributes: dict[str, Excerpt],
        number: int = -1,
        literal: Literal | None = None,
    ) -> Instruction:
        given = self.instruction
        return Instruction(name, shape, opcode, operands, attributes, given.where, number, literal, given.place)

    def write(self, shape: AnyShape, opcode: str, *operands: Value, **attributes: str) -> Value:
        """An instruction; attributes are text as HLO writes it."""
        name = f"{self.instruction.name}.{len(self._written)}"
        found = {key: excerpt(text) for key, text in attributes.items()}
        made = self._instruction(name, shape, opcode, tuple(each.name for each in operands), found)
        self._written.append(made)
        return Value(name, shape)

    def same(self, opcode: str, *operands: Value, **attributes: str) -> Value:
        """An instruction with the shape of its first operand."""
        return self.write(operands[0].shape, opcode, *operands, **attributes)

    def constant(self, dtype: str, value: float | np.generic | Literal, dims: tuple[int, ...] = ()) -> Value:
        """A constant; a number is a scalar, or fills `dims`."""
        array = np.asarray(value).astype(NUMPY[dtype])
        name = f"{self.instruction.name}.{len(self._written)}"
        self._written.append(self._instruction(name, Shape(dtype, array.shape), "constant", (), {}, -1, array))
        made = Value(name, Shape(dtype, array.shape))
        return self.spread(made, dims, ()) if dims and not array.shape else made

    def full(self, like: Value, value: float) -> Value:
        """A number in each place of an array like another one."""
        return self.constant(like.dtype, value, like.dims)

    def spread(self, value: Value, dims: Sequence[int], at: Sequence[int]) -> Value:
        """A broadcast to `dims`, in which the dimensions of the value are `at`."""
        return self.write(Shape(value.dtype, tuple(dims)), "broadcast", value, dimensions=listed(at))

    def convert(self, value: Value, dtype: str) -> Value:
        """Its elements as another type."""
        return value if value.dtype == dtype else self.write(Shape(dtype, value.dims), "convert", value)

    def reshape(self, value: Value, dims: Sequence[int]) -> Value:
        """The same elements in another shape."""
        return self.write(Shape(value.dtype, tuple(dims)), "reshape", value)

    def slice(self, value: Value, *bounds: tuple[int, int]) -> Value:
        """A part: start and limit of each dimension."""
        dims = tuple(limit - start for start, limit in bounds)
        text = "{" + ", ".join(f"[{start}:{limit}]" for start, limit in bounds) + "}"
        return self.write(Shape(value.dtype, dims), "slice", value, slice=text)

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        """The values one after another along a dimension."""
        dims = list(values[0].dims)
        dims[dim] = sum(each.dims[dim] for each in values)
        return self.write(Shape(values[0].dtype, tuple(dims)), "concatenate", *values, dimensions=listed([dim]))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Its dimensions in another order."""
        dims = tuple(value.dims[dim] for dim in order)
        return self.write(Shape(value.dtype, dims), "transpose", value, dimensions=listed(order))

    def reduce(self, value: Value, dims: Sequence[int], opcode: str) -> Value:
        """Its elements combined along dimensions by `add`, `maximum` or `minimum`."""
        start = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}[opcode]
        kept = tuple(extent for dim, extent in enumerate(value.dims) if dim not in dims)
        return self.write(
            Shape(value.dtype, kept),
            "reduce",
            value,
            self.constant(value.dtype, start),
            dimensions=listed(dims),
            to_apply=self.combiner(opcode, value.dtype),
        )

    def combiner(self, opcode: str, dtype: str) -> str:
        """The name of a computation of two scalars."""
        name = f"haulout.{opcode}.{dtype}"
        if all(each.name != name for each in self.computations):
            inner = Writer(self.instruction, [Shape(dtype, ())] * 2)
            inner.same(opcode, *inner.parameters)
            self.computations.append(inner.finish(name))
        return name

    def compare(self, one: Value, other: Value, direction: str) -> Value:
        """Where a comparison holds."""
        return self.write(Shape("pred", one.dims), "compare", one, other, direction=direction)

    def tuple(self, *values: Value) -> Value:
        """A tuple of them."""
        return self.write(TupleShape(tuple(each.shape for each in values)), "tuple", *values)

    def element(self, value: Value, index: int) -> Value:
        """An element of a tuple."""
        assert isinstance(value.shape, TupleShape)
        return self.write(value.shape.elements[index], "get-tuple-element", value, index=str(index))

    def finish(self, name: str, root: Value | None = None) -> Computation:
        """The computation, whose result is `root`, or what was written last."""
        instructions = tuple(self._written)
        by_name = {each.name: each for each in instructions}
        last = instructions[-1] if root is None else by_name[root.name]
        parameters = tuple(by_name[each.name] for each in self.parameters)
        return Computation(name, instructions, last, parameters, self.instruction.where, by_name)

    def renamed(self, root: Value) -> Value:
        """The root, with the name of the instruction that is replaced: results are stored by that name."""
        at = next(at for at, each in enumerate(self._written) if each.name == root.name)
        if at < len(self.parameters) or any(root.name in each.operands for each in self._written):
            return root
        self._written[at] = replace(self._written[at], name=self.instruction.name)
        return Value(self.instruction.name, root.shape)


def listed(numbers: Sequence[int]) -> str:
    """`{0,1}`"""
    return "{" + ",".join(map(str, numbers)) + "}"
