"""Values without tuples: a computation after calls, tuples and reshapes are resolved.

An `Array` has one definition: a parameter, a constant (or partition-id), an `Operation`, a `Loop` that carries it
from iteration to iteration, or a `Branch` that merges it. A `View` is an array with another shape, or part of it in
another order: `reshape`, `transpose` and similar instructions make views and move no data. A `Tree` is a view or a
tuple of trees.

The steps of a computation are its operations in order, with three boundaries for each loop (its start, the branch to
the body or the exit, the end of the body) and three for each branch (the fork, the start of the second arm, the
join).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NoReturn, TypeAlias, TypeVar

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.opcodes import opcode_of
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape
from haulout.ir.dtypes import NUMPY
from haulout.ir.patterns import Pattern, strided

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Array:
    """An array that is produced in one place. `index` is its position in the (tuple) value of `source`."""

    source: Instruction = field(repr=False)
    shape: Shape
    index: tuple[int, ...] = ()
    producer: Operation | Loop | Branch | None = field(default=None, repr=False)
    split: int | None = field(default=None, init=False)
    """The dimension along which the source asks for a cut of it, where no operation makes it (`annotations.py`)."""

    @property
    def name(self) -> str:
        """Of its instruction, with its position in the tuple; `while.3.c0` when a loop carries it."""
        path = ".".join(map(str, self.index))
        if isinstance(self.producer, Loop):
            path = f"c{path}"
        return f"{self.source.name}.{path}" if path else self.source.name


class Motion(NamedTuple):
    """How far a view moves with the iterations of a loop."""

    loop: Loop
    """The reader is in its body."""
    stride: int
    """Bytes an iteration, counted from 0; not 0."""


class Layout(NamedTuple):
    """Where the elements of a view are in its array, in bytes."""

    offset: int
    strides: tuple[int, ...]
    """Of each dimension; 0 where one element stands for all."""
    motion: Motion | None = None
    """None: it stays there."""


@dataclass(frozen=True, slots=True)
class View:
    """An array, seen with another shape, or part of it in another order (`views.py`)."""

    array: Array
    shape: Shape
    layout: Layout | None = None
    """None: all bytes of the array, row-major."""
    stored: Array | None = None
    """Where the movement that makes this view of its operand would store the same elements, row-major."""

    @property
    def pattern(self) -> Pattern | None:
        """Its bytes in order, in the first iteration if it moves; None: all bytes of the array."""
        if self.layout is None:
            return None
        return strided(self.layout.offset, self.layout.strides, self.shape.dims, self.itemsize)

    @property
    def motion(self) -> Motion | None:
        """How it moves; None: it does not."""
        return self.layout.motion if self.layout else None

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
    split: int | None = field(default=None, init=False)
    """The dimension of the results along which the source asks for a cut (`annotations.py`)."""

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

    def expect_arity(self, n: int = 1) -> None:
        """Fail unless it has the operands and results of its opcode; one that may be repeated `n` times."""
        expected = opcode_of(self.opcode).operands
        assert expected is not None  # HLO's opcodes list them
        self.expect_counts(*expected.counts(n))

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


@dataclass(eq=False, slots=True)
class Opaque(Operation):
    """An instruction that is not understood: it reads its operands, writes its results, and may have effects."""

    @property
    def opcode(self) -> str:
        """Not one of HLO."""
        return "opaque"


@dataclass(eq=False, slots=True)
class Moving(Operation):
    """An operation on a part of an array that begins at `starts + k * steps` in iteration k of a loop, inside it."""

    loop: Loop
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    """Of each dimension, in elements."""


@dataclass(eq=False, slots=True)
class MovingSlice(Moving):
    """A `dynamic-slice` of its one operand."""

    @property
    def opcode(self) -> str:
        """Not one of HLO."""
        return "moving-slice"


@dataclass(eq=False, slots=True)
class MovingUpdate(Moving):
    """A `dynamic-update-slice`. It reads the numbers where it starts, in case its result has a place of its own."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One array of a loop's state that the body changes."""

    state: Array
    """What the header, the body and the steps after the loop read."""
    init: View
    """Its value before the first iteration."""
    new: View
    """Its value after an iteration."""


@dataclass(eq=False, slots=True)
class Loop:
    """A `while`. State that the body returns unchanged is not carried."""

    instruction: Instruction
    seq: int
    carried: tuple[Carried, ...] = ()
    condition: View = field(init=False)
    """pred[], computed between the start and the branch."""
    divergent: bool = False
    """Cores may need different trip counts: the loop runs until all of them are done (`divergent_loops.py`)."""


@dataclass(frozen=True, slots=True)
class Merged:
    """One array that a branch results in."""

    result: Array
    """What the steps after the branch read."""
    then: View
    """Its value when the first arm was taken."""
    other: View
    """Its value when the second one was."""


@dataclass(eq=False, slots=True)
class Branch:
    """A choice of two arms: a `conditional`, or a part of one that has more than two branches.

    An array that both arms return is not merged.
    """

    instruction: Instruction
    seq: int
    selector: View
    """pred[], or s32[] where `below` is given."""
    below: int | None
    """The first arm is taken when the selector, as an unsigned number, is below this; None: when it is true."""
    names: tuple[str, str]
    """Of the arms, by the branches that they hold: `true`, `false`, or `b0`, `b1_3`."""
    part: str = ""
    """The arm that this is a part of, where it is one; else it is the whole `conditional`."""
    merged: tuple[Merged, ...] = ()


class Stage(Enum):
    """The kind of a boundary: the first three are those of a loop, the others those of a branch."""

    ENTER = "enter"
    """Reads the initial values, sets the state; the operations after it compute the condition."""
    BRANCH = "branch"
    """Reads the condition; the operations after it are the body."""
    LEAVE = "leave"
    """Reads the new values, sets the state; the steps after it follow the loop."""
    FORK = "fork"
    """Reads the selector; the steps after it are the first arm."""
    ELSE = "else"
    """Reads the values of the first arm; the steps after it are the second arm."""
    JOIN = "join"
    """Reads the values of the second arm, sets the results; the steps after it follow the branch."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One of the three boundaries of a loop or a branch among the steps; its reads come before its writes.

    `seq` is the first number that its copies may take.
    """

    region: Loop | Branch
    stage: Stage
    seq: int

    @property
    def loop(self) -> Loop:
        """The loop whose boundary it is."""
        assert isinstance(self.region, Loop)
        return self.region

    @property
    def branch(self) -> Branch:
        """The branch whose boundary it is."""
        assert isinstance(self.region, Branch)
        return self.region

    @property
    def decides(self) -> bool:
        """Whether control flow branches here."""
        return self.stage in (Stage.BRANCH, Stage.FORK)

    def reads(self) -> list[Array]:
        """What it reads, in the order of the state or the results."""
        match self.stage:
            case Stage.ENTER:
                return [each.init.array for each in self.loop.carried]
            case Stage.BRANCH:
                return [self.loop.condition.array]
            case Stage.LEAVE:
                return [each.new.array for each in self.loop.carried]
            case Stage.FORK:
                return [self.branch.selector.array]
            case Stage.ELSE:
                return [each.then.array for each in self.branch.merged]
            case Stage.JOIN:
                return [each.other.array for each in self.branch.merged]

    def targets(self) -> list[Array]:
        """Where its reads are copied to, in the same order; empty if it decides."""
        if self.decides:
            return []
        if isinstance(self.region, Loop):
            return [each.state for each in self.region.carried]
        return [each.result for each in self.region.merged]


Step: TypeAlias = Operation | Boundary

_HINTS = frozenset(
    {
        "metadata",
        "sharding",
        "frontend_attributes",
        "backend_config",
        "operand_precision",
        "algorithm",
        "execution_thread",
        "async_execution_thread",
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
"""Attributes without effect on values."""


def check_attributes(instruction: Instruction, known: Container[str]) -> None:
    """Fail on an attribute that is neither `known` nor a hint: it may change what the instruction computes."""
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


MAX_BYTES = 1 << 62


def check_shape(source: Instruction, shape: Shape) -> None:
    """Fail unless a program can hold an array of this shape."""
    if shape.dtype not in NUMPY:
        known = f"convert to a type that a program can hold: {', '.join(NUMPY)}"
        source.fail(f"element type `{shape.dtype}` is not supported", help=[known])
    if shape.is_dynamic:
        source.fail(
            "dynamic dimensions are not supported",
            "a size that is not known at compile time",
            help=["pad the array to its bound, and compile the program for that size"],
        )
    if shape.count * NUMPY[shape.dtype].itemsize > MAX_BYTES:
        source.fail(f"the array {shape} is larger than 2**62 bytes")
