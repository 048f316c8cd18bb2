"""Values without tuples: what is left of a computation once calls, tuples and reshapes are resolved.

An `Array` is produced once: by a parameter, by a constant (or partition-id), or by an `Operation`. A `View` is an
array seen with another shape: `reshape` and its like make views, no data moves. A `Tree` is a view or a tuple of
trees.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, TypeVar

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape
from haulout.ir.dtypes import NUMPY

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Array:
    """An array that is produced once. `index` is its place in the (tuple) value of `source`."""

    source: Instruction = field(repr=False)
    shape: Shape
    index: tuple[int, ...] = ()
    producer: Operation | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Of its instruction, with its place in the tuple."""
        return ".".join([self.source.name, *map(str, self.index)])


@dataclass(frozen=True, slots=True)
class View:
    """An array, seen with a shape of equally many bytes."""

    array: Array
    shape: Shape

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return NUMPY[self.shape.dtype].itemsize

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return self.shape.count * self.itemsize


Tree: TypeAlias = "View | tuple[Tree, ...]"


@dataclass(eq=False, slots=True)
class Operation:
    """An instruction that computes: operands and results are arrays, `seq` its position in the source."""

    instruction: Instruction
    operands: tuple[View, ...]
    results: tuple[Array, ...]
    seq: int

    @property
    def opcode(self) -> str:
        """As HLO writes it."""
        return self.instruction.opcode

    @property
    def result(self) -> View:
        """Its first result."""
        return View(self.results[0], self.results[0].shape)

    def fail(self, message: str, label: str = "here") -> NoReturn:
        """Raise `HauloutError` at the instruction."""
        self.instruction.fail(message, label)

    def expect(self, condition: bool, message: str) -> None:
        """Fail unless the condition holds; the message gets the operands' shapes."""
        if not condition:
            operands = ", ".join(str(operand.shape) for operand in self.operands)
            self.fail(f"{self.opcode}: {message}", f"({operands}) -> {self.instruction.shape}")

    def expect_counts(self, operands: int, results: int = 1) -> None:
        """Fail unless it has that many operands and results."""
        self.expect(
            len(self.operands) == operands and len(self.results) == results,
            f"expected {operands} operands and {results} results, found {len(self.operands)} and {len(self.results)}",
        )

    def expect_result(self, dims: tuple[int, ...], dtype: str, index: int = 0) -> None:
        """Fail unless a result has this shape."""
        wanted = Shape(dtype, dims)
        self.expect(
            self.results[index].shape == wanted, f"the result is {wanted}, declared as {self.results[index].shape}"
        )

    def attribute(self, key: str, read: Callable[[Excerpt], T], default: T | None = None) -> T:
        """A typed attribute; fails when it is missing and has no default."""
        value = self.instruction.attributes.get(key)
        if value is not None:
            return read(value)
        if default is None:
            self.fail(f"{self.opcode} needs the attribute `{key}`")
        return default

    def integers(self, key: str, *, optional: bool = False) -> tuple[int, ...]:
        """A list of integers; empty when it is optional and missing."""
        if optional and key not in self.instruction.attributes:
            return ()
        return self.attribute(key, attributes.integers)


_HINTS = frozenset(
    {
        "metadata",
        "sharding",
        "frontend_attributes",
        "backend_config",
        "operand_precision",
        "result_accuracy",
        "control-predecessors",
        "indices_are_sorted",
        "unique_indices",
        "constrain_layout",
        "statistics",
        "origin",
        "original_value",
    }
)
"""Attributes that may be ignored: they change no value, or promise something that is not relied on."""


def check_attributes(instruction: Instruction, known: Container[str]) -> None:
    """Fail on an attribute that is neither `known` nor a mere hint: it could change what the instruction computes."""
    for key, value in instruction.attributes.items():
        if key not in known and key not in _HINTS:
            value.fail(f"the attribute `{key}` of {instruction.opcode} is not supported", "this value")


def leaves(tree: Tree) -> Iterator[tuple[tuple[int, ...], View]]:
    """The views of a tree with their index paths, in order. Trees are as shallow as the shapes that describe them."""
    if isinstance(tree, View):
        yield (), tree
    else:
        for position, element in enumerate(tree):
            for path, view in leaves(element):
                yield (position, *path), view


def shape_of(tree: Tree) -> AnyShape:
    """The shape of a tree."""
    return tree.shape if isinstance(tree, View) else TupleShape(tuple(map(shape_of, tree)))


def arrays_of(source: Instruction) -> Tree:
    """Fresh arrays for the value of an instruction, as its shape says. Fails on types that a program cannot hold."""

    def build(shape: AnyShape, index: tuple[int, ...]) -> Tree:
        if isinstance(shape, TupleShape):
            return tuple(build(element, (*index, position)) for position, element in enumerate(shape.elements))
        check_shape(source, shape)
        return View(Array(source, shape, index), shape)

    return build(source.shape, ())


_BYTES = 1 << 62


def check_shape(source: Instruction, shape: Shape) -> None:
    """Fail unless a program can hold an array of this shape."""
    if shape.dtype not in NUMPY:
        source.fail(f"element type `{shape.dtype}` is not supported")
    if not shape.count:
        source.fail(f"the empty array {shape} is not supported")
    if shape.count * NUMPY[shape.dtype].itemsize > _BYTES:
        source.fail(f"the array {shape} is larger than 2**62 bytes")
