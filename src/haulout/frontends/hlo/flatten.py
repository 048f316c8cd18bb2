"""A computation as a list of steps on arrays, without calls and tuples.

    parameter, constant, partition-id, replica-id     arrays without a producer
    tuples and reshapes (`tuples_and_views.py`)       trees and views
    what results in an array without elements         a constant
    call                                              the instructions of the callee, with its parameters bound
    while                                             boundary, condition, boundary, body, boundary
    iota of several dimensions                        one of a line, too, which readers may see in all of them
    conditional                                       boundary, first arm, boundary, second arm, boundary
    any other opcode that is known                    an `Operation`; `seq` counts all instructions in order
    any other opcode                                  an `Opaque` operation, unless other cores take part in it

Condition and body of a loop read the same new arrays, one for each array of the state. An array that the body returns
unchanged is not state: readers get its initial value, so invariant arrays cost nothing at any nesting depth.
Likewise, an array that both arms of a branch return is the result itself. A `conditional` with more than two branches
becomes nested branches, each of which halves the rest. An index out of range selects the last branch; as an unsigned
number it is above all others. If an index is a converted predicate, as JAX makes it for two branches, the predicate
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from haulout.frontends.hlo.annotations import Scope, dim_of_array, is_mark, scope_of, sharding_dim
from haulout.frontends.hlo.callees import Case, callee, cases_of, loop_callees
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.opaque import may_be_opaque, unsupported
from haulout.frontends.hlo.tuples_and_views import TUPLES_AND_VIEWS, checked
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.frontends.hlo.values import (
    Array,
    Boundary,
    Branch,
    Carried,
    Loop,
    Merged,
    MovingSlice,
    MovingUpdate,
    Opaque,
    Operation,
    Stage,
    Step,
    Tree,
    View,
    arrays_of,
    check_attributes,
    check_shape,
    leaves,
    shape_of,
)
from haulout.frontends.hlo.views import MOVEMENTS, iota_line, plain
from haulout.ir.dtypes import NUMPY

MAX_INSTRUCTIONS = 1_000_000
"""After inlining: nested calls can grow exponentially."""

_SOURCES = ("constant", "partition-id", "replica-id")
KNOWN = {
    "call": ("to_apply", "is_composite"),
    "conditional": ("branch_computations", "true_computation", "false_computation"),
    "get-tuple-element": ("index",),
    "parameter": ("parameter_replication",),
    "reshape": ("inferred_dimension",),
    "while": ("condition", "body"),
}
"""Attributes of the instructions that are resolved here."""

_RESOLVED = {"call", "conditional", "parameter", "while", *_SOURCES, *TUPLES_AND_VIEWS}


def resolves(instruction: Instruction) -> bool:
    """Whether an instruction becomes no operation."""
    return instruction.opcode in _RESOLVED


_Leave = Callable[[Tree], None]
"""Takes a result."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A computation without calls and tuples."""

    parameters: tuple[Tree, ...]
    steps: tuple[Step, ...]
    result: Tree
    length: int
    """The last `seq` that is taken; they count from 1."""


class Start(NamedTuple):
    """Where a `dynamic-slice` or a `dynamic-update-slice` starts (`affine_starts.py`)."""

    loop: int
    """`seq` of the loop whose iterations are meant."""
    starts: tuple[int, ...]
    """In the first iteration, of each dimension."""
    steps: tuple[int, ...]
    """Added in each iteration."""
    is_view: bool
    """Whether readers may read the operand instead of the result."""


def flatten(
    module: HloModule,
    computation: Computation,
    known: Container[str],
    *,
    control: bool = False,
    starts: Mapping[int, Start] | None = None,
) -> Flat:
    """Walk a computation and everything it calls.

    Operations must be among the opcodes `known`; where `control` is set also `while` and `conditional`, and others
    are opaque. `starts` are those of dynamic slices and updates that are known, by `seq`.
    """
    parameters = tuple(arrays_of(parameter) for parameter in computation.parameters)
    if module.num_partitions == 1:
        for parameter, value in zip(computation.parameters, parameters, strict=True):
            if isinstance(value, View):
                value.array.split = sharding_dim(parameter)
    walk = _Walk(module, known, control, starts or {})
    result = walk.run(computation, parameters)
    final = walk.final_arrays()
    for step in walk.steps:
        if isinstance(step, Operation):
            step.operands = tuple(_moved(operand, final) for operand in step.operands)
        elif isinstance(step.region, Branch):
            if step.stage is Stage.FORK:
                step.branch.selector = _moved(step.branch.selector, final)
                step.branch.merged = tuple(
                    replace(each, then=_moved(each.then, final), other=_moved(each.other, final))
                    for each in step.branch.merged
                )
        elif step.stage is Stage.ENTER:
            step.loop.condition = _moved(step.loop.condition, final)
            step.loop.carried = tuple(
                replace(each, init=_moved(each.init, final), new=_moved(each.new, final))
                for each in step.loop.carried
            )
    return Flat(parameters, tuple(walk.steps), _plain_tree(_moved_tree(result, final)), walk.seq)


@dataclass(slots=True)
class _Frame:
    """A computation during the walk, the values of its names, and the receiver of its result."""

    computation: Computation
    arguments: tuple[Tree, ...]
    leave: _Leave
    in_condition: bool
    """Whether what is walked is part of a loop's condition."""
    rest: Iterator[Instruction]
    scope: Scope | None
    """Of a cut that is asked for."""
    values: dict[str, Tree] = field(default_factory=dict)


class _Walk:
    """A walk with an explicit stack: calls, loops and branches may be nested to any depth."""

    def __init__(self, module: HloModule, known: Container[str], control: bool, starts: Mapping[int, Start]) -> None:
        self.module, self.known, self.control, self.starts = module, known, control, starts
        self.steps: list[Step] = []
        self.seq = 0
        self._frames: list[_Frame] = []
        self._unchanged: dict[Array, Array] = {}
        """State that its loop does not change -> the initial value. Inner loops come before outer ones."""
        self._loops: dict[int, Loop] = {}
        """By `seq`."""

    def run(self, computation: Computation, arguments: tuple[Tree, ...]) -> Tree:
        """The result of a computation."""
        found: list[Tree] = []
        self._push(computation, arguments, found.append)
        while self._frames:
            frame = self._frames[-1]
            instruction = next(frame.rest, None)
            if instruction is None:
                self._frames.pop()
                frame.leave(frame.values[frame.computation.root.name])
            else:
                self._visit(frame, instruction)
        return found[0]

    def final_arrays(self) -> dict[Array, Array]:
        """The final value of each unchanged state: outer loops first, because their state may be unchanged too."""
        final: dict[Array, Array] = {}
        for state, init in reversed(self._unchanged.items()):
            final[state] = final.get(init, init)
        return final

    def _push(
        self,
        computation: Computation,
        arguments: tuple[Tree, ...],
        leave: _Leave,
        in_condition: bool = False,
        caller: Instruction | None = None,
    ) -> None:
        around = self._frames[-1].scope if self._frames else None
        scope = around if caller is None else scope_of(caller, around)
        self._frames.append(
            _Frame(computation, arguments, leave, in_condition, iter(computation.instructions), scope)
        )

    def _visit(self, frame: _Frame, instruction: Instruction) -> None:
        self._count(instruction)
        opcode = instruction.opcode
        operands = tuple(frame.values[name] for name in instruction.operands)
        if resolves(instruction):
            check_attributes(instruction, KNOWN.get(opcode, ()))
        if opcode == "call":
            self._call(frame, instruction, operands)
        elif opcode == "while" and self.control:
            self._loop(frame, instruction, operands)
        elif opcode == "conditional" and self.control:
            self._conditional(frame, instruction, operands)
        elif opcode == "parameter":
            frame.values[instruction.name] = frame.arguments[instruction.number]
        elif opcode in ("reshape", "bitcast") and _is_empty(instruction):
            frame.values[instruction.name] = _empty(instruction)
        elif opcode in TUPLES_AND_VIEWS:
            frame.values[instruction.name] = checked(instruction, TUPLES_AND_VIEWS[opcode](instruction, operands))
        elif opcode in _SOURCES:
            frame.values[instruction.name] = arrays_of(instruction)
        elif opcode in self.known and _is_empty(instruction):
            frame.values[instruction.name] = _empty(instruction)
        elif self.module.num_partitions == 1 and is_mark(instruction):
            frame.values[instruction.name] = _marked(instruction, operands)
        else:
            if opcode not in self.known:
                if not (self.control and may_be_opaque(instruction)):
                    unsupported(instruction)
                operation, frame.values[instruction.name] = _opaque(instruction, operands, self.seq)
                self.steps.append(operation)
                return
            operation, value = _operation(instruction, operands, self.seq)
            if (scope := scope_of(instruction, frame.scope)) is not None:
                operation.split = scope.dim(instruction)
            if (start := self.starts.get(self.seq)) is not None:
                operation, value = self._moving(operation, start)
            self.steps.append(operation)
            if (movement := MOVEMENTS.get(opcode)) is not None:
                check_attributes(instruction, movement.attributes)
                value = replace(movement.view(operation), stored=operation.results[0])
            elif opcode == "iota" and (line := iota_line(operation)) is not None:
                self.steps.append(line[0])
                value = line[1]
            frame.values[instruction.name] = value

    def _moving(self, given: Operation, start: Start) -> tuple[Operation, Tree]:
        """An operation that is known to start at `start`, and its value."""
        loop, (result,), place = self._loops[start.loop], given.results, (start.starts, start.steps)
        if given.opcode == "dynamic-update-slice":
            result.producer = update = MovingUpdate(
                given.instruction, given.operands, given.results, given.seq, loop, *place
            )
            update.split = given.split
            return update, update.result
        operand = given.operands[0]
        if operand.motion is not None and operand.motion.loop is not loop:
            operand = plain(operand)
        result.producer = moving = MovingSlice(given.instruction, (operand,), given.results, given.seq, loop, *place)
        if not start.is_view:
            return moving, moving.result
        return moving, replace(MOVEMENTS[moving.opcode].view(moving), stored=result)

    def _count(self, instruction: Instruction, numbers: int = 1) -> None:
        """Take the next numbers of `seq`."""
        self.seq += numbers
        if self.seq > MAX_INSTRUCTIONS:
            instruction.fail(f"more than {MAX_INSTRUCTIONS} instructions after inlining calls")

    def _call(self, frame: _Frame, call: Instruction, operands: tuple[Tree, ...]) -> None:
        found = callee(self.module, call, "to_apply", [shape_of(operand) for operand in operands])

        def leave(result: Tree) -> None:
            frame.values[call.name] = checked(call, result)

        self._push(found, operands, leave, frame.in_condition, call)

    # -- loops ------------------------------------------------------------------------------------------------

    def _loop(self, frame: _Frame, instruction: Instruction, operands: tuple[Tree, ...]) -> None:
        """Boundary the start, then walk the condition."""
        if frame.in_condition:
            instruction.fail("a loop in the condition of a loop is not supported")
        condition, body = loop_callees(self.module, instruction, operands)
        init = checked(instruction, operands[0])
        loop, state = Loop(instruction, self.seq), arrays_of(instruction)
        self._loops[loop.seq] = loop
        for _, view in leaves(state):
            view.array.producer = loop
        self._add_boundary(loop, Stage.ENTER, state)

        def branch(result: Tree) -> None:
            assert isinstance(result, View)
            loop.condition = plain(result)
            self._add_boundary(loop, Stage.BRANCH, state)
            self._push(body, (state,), leave, frame.in_condition, instruction)

        def leave(result: Tree) -> None:
            loop.carried = tuple(self._carried(init, state, result))
            self._add_boundary(loop, Stage.LEAVE, state)
            frame.values[instruction.name] = state

        self._push(condition, (state,), branch, True, instruction)

    def _add_boundary(self, loop: Loop, stage: Stage, state: Tree) -> None:
        """A boundary, and numbers for its copies: each array is copied, and may be saved before."""
        self.steps.append(Boundary(loop, stage, self.seq + 1))
        self._count(loop.instruction, 1 if stage is Stage.BRANCH else 2 * len(list(leaves(state))) + 1)

    def _carried(self, init: Tree, state: Tree, new: Tree) -> Iterator[Carried]:
        """The state that the body changes; records the rest as unchanged."""
        for (_, first), (_, held), (_, last) in zip(leaves(init), leaves(state), leaves(new), strict=True):
            first, last = plain(first), plain(last)
            if self._known_array(last.array) is held.array:
                self._unchanged[held.array] = self._known_array(first.array)
            else:
                yield Carried(held.array, first, last)

    # -- branches ---------------------------------------------------------------------------------------------

    def _conditional(self, frame: _Frame, instruction: Instruction, operands: tuple[Tree, ...]) -> None:
        """The branches with their operands; then choose among them."""
        if frame.in_condition:
            instruction.fail("a conditional in the condition of a loop is not supported")
        cases = cases_of(self.module, instruction, operands)
        selector = operands[0]
        assert isinstance(selector, View)
        selector = plain(selector)
        predicate = _predicate(selector) if len(cases) == 2 else None
        if predicate is not None:
            selector, cases = predicate, cases[::-1]

        def leave(result: Tree) -> None:
            frame.values[instruction.name] = checked(instruction, result)

        self._choose(instruction, selector, cases, range(len(cases)), leave)

    def _choose(
        self, instruction: Instruction, selector: View, cases: Sequence[Case], numbers: range, leave: _Leave
    ) -> None:
        """Walk the branches with these numbers: one alone, or as two arms with half of them each."""
        if len(numbers) == 1:
            computation, operand = cases[numbers[0]]
            self._push(computation, (operand,), leave, caller=instruction)
            return
        low, high = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
        if selector.shape.dtype == "pred":
            branch = Branch(instruction, self.seq, selector, None, ("true", "false"))
        else:
            part = _arm_name(numbers) if len(numbers) < len(cases) else ""
            branch = Branch(instruction, self.seq, selector, high[0], (_arm_name(low), _arm_name(high)), part)
        self._branch_boundary(branch, Stage.FORK)

        def turn(then: Tree) -> None:
            self._branch_boundary(branch, Stage.ELSE)
            self._choose(instruction, selector, cases, high, lambda other: meet(then, other))

        def meet(then: Tree, other: Tree) -> None:
            result, branch.merged = self._merged(branch, then, other)
            self._branch_boundary(branch, Stage.JOIN)
            leave(result)

        self._choose(instruction, selector, cases, low, turn)

    def _branch_boundary(self, branch: Branch, stage: Stage) -> None:
        """A boundary, and numbers for its comparison or its copies."""
        self.steps.append(Boundary(branch, stage, self.seq + 1))
        count = _count_arrays(branch.instruction.shape)
        self._count(branch.instruction, 1 if stage is Stage.FORK else 2 * count + 1)

    def _merged(self, branch: Branch, then: Tree, other: Tree) -> tuple[Tree, tuple[Merged, ...]]:
        """The result of a branch, and those of its arrays that depend on the arm."""
        fresh = arrays_of(branch.instruction)
        merged: list[Merged] = []
        same: dict[Array, View] = {}
        for (_, mine), (_, first), (_, second) in zip(leaves(fresh), leaves(then), leaves(other), strict=True):
            first, second = plain(first), plain(second)
            known = self._known_array(first.array)
            if known is self._known_array(second.array):
                same[mine.array] = View(known, mine.shape)
            else:
                mine.array.producer = branch
                merged.append(Merged(mine.array, first, second))
        return _replaced(fresh, same), tuple(merged)

    def _known_array(self, array: Array) -> Array:
        """The array, or the initial value if its loop does not change it."""
        while array in self._unchanged:
            array = self._unchanged[array]
        return array


def _predicate(index: View) -> View | None:
    """The pred[] that an index is made from: 1 where it is true, 0 where it is not; None when there is none."""
    convert = index.array.producer
    if not isinstance(convert, Operation) or convert.opcode != "convert" or index.shape != convert.result.shape:
        return None
    given = [plain(operand) for operand in convert.operands if operand.shape == Shape("pred", ())]
    return given[0] if len(given) == len(convert.operands) == 1 else None


def _arm_name(numbers: range) -> str:
    """Of an arm that holds the branches with these numbers."""
    return f"b{numbers[0]}" if len(numbers) == 1 else f"b{numbers[0]}_{numbers[-1]}"


def _count_arrays(shape: AnyShape) -> int:
    return 1 if isinstance(shape, Shape) else sum(map(_count_arrays, shape.elements))


def _replaced(tree: Tree, views: dict[Array, View]) -> Tree:
    if isinstance(tree, View):
        return views.get(tree.array, tree)
    return tuple(_replaced(element, views) for element in tree)


def _operation(instruction: Instruction, operands: tuple[Tree, ...], seq: int) -> tuple[Operation, Tree]:
    views: list[View] = []
    for name, operand in zip(instruction.operands, operands, strict=True):
        if not isinstance(operand, View):
            instruction.fail(f"{instruction.opcode} takes arrays; %{name} is a tuple")
        views.append(operand)
    return _made(Operation, instruction, views, seq)


def _opaque(instruction: Instruction, operands: tuple[Tree, ...], seq: int) -> tuple[Operation, Tree]:
    """It takes tuples array by array. The end of a pair also reads what its start reads, which may be in use."""
    views = [view for operand in operands for _, view in leaves(operand)]
    if instruction.opcode.endswith(("-done", "-update")):
        starts = dict.fromkeys(view.array.producer for view in views)
        views += [view for start in starts if isinstance(start, Opaque) for view in start.operands]
    return _made(Opaque, instruction, views, seq)


def _made(kind: type[Operation], instruction: Instruction, views: Sequence[View], seq: int) -> tuple[Operation, Tree]:
    value = arrays_of(instruction)
    arrays: list[Array] = [view.array for _, view in leaves(value)]
    operation = kind(instruction, tuple(views), tuple(arrays), seq)
    for array in arrays:
        array.producer = operation
    return operation, value


def _is_empty(instruction: Instruction) -> bool:
    return isinstance(instruction.shape, Shape) and not instruction.shape.count and not instruction.shape.is_dynamic


def _empty(instruction: Instruction) -> Tree:
    """An array without elements is a constant, whatever makes it."""
    shape = instruction.shape
    assert isinstance(shape, Shape)
    check_shape(instruction, shape)
    literal = np.zeros(shape.dims, NUMPY[shape.dtype])
    return arrays_of(replace(instruction, opcode="constant", operands=(), attributes={}, literal=literal))


def _marked(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    """The operand of a custom-call that only carries a sharding; what makes it is asked to be cut so."""
    if len(operands) != 1:
        instruction.fail(f"a custom-call of a sharding takes one operand, found {len(operands)}")
    dim = sharding_dim(instruction)
    value = checked(instruction, operands[0])
    if dim is not None and isinstance(value, View):
        producer = value.array.producer
        made = producer if isinstance(producer, Operation) else value.array
        made.split = dim_of_array(value, dim)
    return value


def _moved(view: View, final: dict[Array, Array]) -> View:
    return replace(view, array=final[view.array]) if view.array in final else view


def _moved_tree(tree: Tree, final: dict[Array, Array]) -> Tree:
    if isinstance(tree, View):
        return _moved(tree, final)
    return tuple(_moved_tree(element, final) for element in tree)


def _plain_tree(tree: Tree) -> Tree:
    return plain(tree) if isinstance(tree, View) else tuple(map(_plain_tree, tree))
