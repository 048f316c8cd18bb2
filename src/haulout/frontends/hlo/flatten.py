"""A computation as a straight list of steps on arrays: no calls, no tuples, reshapes as views, loops by their marks.

    parameter, constant, partition-id, replica-id     arrays without a producer
    what only rearranges names (`structure.py`)       trees and views
    call                                              the callee's instructions, with the operands for its parameters
    while                                             mark, condition, mark, body, mark (`values.Mark`)
    anything else                                     an `Operation`, `seq` counting all instructions on the way

Condition and body of a loop see the same fresh arrays, one for each array of the state. Those that the body returns
unchanged are no state at all: in the end they are replaced by their initial values wherever they are read, so what
a loop only hands on costs nothing, however deep loops are nested.

`live` then keeps the steps that the result depends on. Instructions of HLO have no side effects that a program of
this library could show, so nothing else matters; parameters are kept all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.structure import STRUCTURE, broadcast_view, checked
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.frontends.hlo.values import (
    Array,
    Carried,
    Loop,
    Mark,
    Operation,
    Phase,
    Step,
    Tree,
    View,
    arrays_of,
    check_attributes,
    leaves,
    shape_of,
)

_MOST = 1_000_000
"""Instructions after inlining: calls of calls can multiply without end."""

_SOURCES = ("constant", "partition-id", "replica-id")
_KNOWN = {
    "call": ("to_apply", "is_composite"),
    "get-tuple-element": ("index",),
    "parameter": ("parameter_replication",),
    "reshape": ("inferred_dimension",),
    "while": ("condition", "body"),
}
"""Attributes of the instructions that are resolved here."""

_RESOLVED = {"call", "parameter", "while", *_SOURCES, *STRUCTURE}


@dataclass(frozen=True, slots=True)
class Flat:
    """A computation without calls and tuples."""

    parameters: tuple[Tree, ...]
    steps: tuple[Step, ...]
    result: Tree
    length: int
    """The last `seq` that is taken; they count from 1."""


def flatten(module: HloModule, computation: Computation, known: Container[str], *, loops: bool = False) -> Flat:
    """Walk a computation and everything it calls; operations must be among the opcodes `known`, or `while`."""
    parameters = tuple(arrays_of(parameter) for parameter in computation.parameters)
    walk = _Walk(module, known, loops)
    result = walk.run(computation, parameters)
    final = walk.final_arrays()
    for step in walk.steps:
        if isinstance(step, Operation):
            step.operands = tuple(_moved(operand, final) for operand in step.operands)
        elif step.phase is Phase.ENTER:
            step.loop.condition = _moved(step.loop.condition, final)
            step.loop.carried = tuple(
                replace(each, init=_moved(each.init, final), new=_moved(each.new, final))
                for each in step.loop.carried
            )
    return Flat(parameters, tuple(walk.steps), _moved_tree(result, final), walk.seq)


def live(flat: Flat) -> list[Step]:
    """The steps that the result depends on, in order; loops carry no more than that (they are narrowed in place)."""
    needed = _needed(flat)
    kept: list[Step] = []
    for step in flat.steps:
        if isinstance(step, Operation):
            if any(result in needed for result in step.results):
                kept.append(step)
            continue
        step.loop.carried = tuple(each for each in step.loop.carried if each.state in needed)
        if step.loop.carried:
            kept.append(step)
    return kept


def live_operations(flat: Flat) -> list[Operation]:
    """The same for a computation without loops."""
    return [step for step in live(flat) if isinstance(step, Operation)]


def _needed(flat: Flat) -> set[Array]:
    """The arrays that the result depends on: whoever needs the state of a loop needs its condition, too."""
    loops = [step.loop for step in flat.steps if isinstance(step, Mark) and step.phase is Phase.ENTER]
    carried = {each.state: each for loop in loops for each in loop.carried}
    needed: set[Array] = set()
    waiting = [view.array for _, view in leaves(flat.result)]
    while waiting:
        array = waiting.pop()
        if array in needed:
            continue
        needed.add(array)
        if isinstance(array.producer, Loop):
            each = carried[array]
            waiting += [each.init.array, each.new.array, array.producer.condition.array]
        elif array.producer is not None:
            waiting += [operand.array for operand in array.producer.operands]
    return needed


@dataclass(slots=True)
class _Frame:
    """A computation that is being walked, what its names stand for, and who takes its result."""

    computation: Computation
    arguments: tuple[Tree, ...]
    leave: Callable[[Tree], None]
    in_condition: bool
    """Whether what is walked is part of a loop's condition."""
    rest: Iterator[Instruction]
    values: dict[str, Tree] = field(default_factory=dict)


class _Walk:
    """An explicit stack: calls and loops may be nested as deep as they like."""

    def __init__(self, module: HloModule, known: Container[str], loops: bool) -> None:
        self.module, self.known, self.loops = module, known, loops
        self.steps: list[Step] = []
        self.seq = 0
        self._frames: list[_Frame] = []
        self._unchanged: dict[Array, Array] = {}
        """State that its loop only hands on -> the initial value. Inner loops come before outer ones."""

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
        """What each unchanged state stands for in the end: outer loops first, their state may be unchanged, too."""
        final: dict[Array, Array] = {}
        for state, init in reversed(self._unchanged.items()):
            final[state] = final.get(init, init)
        return final

    def _push(
        self,
        computation: Computation,
        arguments: tuple[Tree, ...],
        leave: Callable[[Tree], None],
        in_condition: bool = False,
    ) -> None:
        self._frames.append(_Frame(computation, arguments, leave, in_condition, iter(computation.instructions)))

    def _visit(self, frame: _Frame, instruction: Instruction) -> None:
        self._count(instruction)
        opcode = instruction.opcode
        operands = tuple(frame.values[name] for name in instruction.operands)
        if opcode in _RESOLVED:
            check_attributes(instruction, _KNOWN.get(opcode, ()))
        if opcode == "call":
            self._call(frame, instruction, operands)
        elif opcode == "while" and self.loops:
            self._loop(frame, instruction, operands)
        elif opcode == "parameter":
            frame.values[instruction.name] = frame.arguments[instruction.number]
        elif opcode in STRUCTURE:
            frame.values[instruction.name] = checked(instruction, STRUCTURE[opcode](instruction, operands))
        elif opcode in _SOURCES:
            frame.values[instruction.name] = arrays_of(instruction)
        elif opcode == "broadcast" and (view := broadcast_view(instruction, operands)) is not None:
            frame.values[instruction.name] = view
        else:
            if opcode not in self.known:
                _unsupported(instruction)
            operation, value = _operation(instruction, operands, self.seq)
            self.steps.append(operation)
            frame.values[instruction.name] = value

    def _count(self, instruction: Instruction, numbers: int = 1) -> None:
        """Take the next numbers of `seq`."""
        self.seq += numbers
        if self.seq > _MOST:
            instruction.fail(f"more than {_MOST} instructions after inlining calls")

    def _call(self, frame: _Frame, call: Instruction, operands: tuple[Tree, ...]) -> None:
        callee = _callee(self.module, call, "to_apply", [shape_of(operand) for operand in operands])

        def leave(result: Tree) -> None:
            frame.values[call.name] = checked(call, result)

        self._push(callee, operands, leave, frame.in_condition)

    # -- loops ------------------------------------------------------------------------------------------------

    def _loop(self, frame: _Frame, instruction: Instruction, operands: tuple[Tree, ...]) -> None:
        """Mark the start, then walk the condition."""
        if frame.in_condition:
            instruction.fail("not supported yet: a loop in the condition of a loop")
        if len(operands) != 1:
            instruction.fail(f"while takes one operand, found {len(operands)}")
        init = checked(instruction, operands[0])
        condition = _callee(self.module, instruction, "condition", [instruction.shape])
        body = _callee(self.module, instruction, "body", [instruction.shape])
        for computation, wanted in ((condition, Shape("pred", ())), (body, instruction.shape)):
            if computation.root.shape != wanted:
                instruction.fail(f"%{computation.name} returns {computation.root.shape}, expected {wanted}")
        loop, state = Loop(instruction, self.seq), arrays_of(instruction)
        for _, view in leaves(state):
            view.array.producer = loop
        self._mark(loop, Phase.ENTER, state)

        def branch(result: Tree) -> None:
            assert isinstance(result, View)
            loop.condition = result
            self._mark(loop, Phase.BRANCH, state)
            self._push(body, (state,), leave, frame.in_condition)

        def leave(result: Tree) -> None:
            loop.carried = tuple(self._carried(init, state, result))
            self._mark(loop, Phase.LEAVE, state)
            frame.values[instruction.name] = state

        self._push(condition, (state,), branch, True)

    def _mark(self, loop: Loop, phase: Phase, state: Tree) -> None:
        """A mark, and numbers for the copies that it may need: an array is copied, and perhaps saved before."""
        self.steps.append(Mark(loop, phase, self.seq + 1))
        self._count(loop.instruction, 1 if phase is Phase.BRANCH else 2 * len(list(leaves(state))) + 1)

    def _carried(self, init: Tree, state: Tree, new: Tree) -> Iterator[Carried]:
        """The state that changes; notes what does not."""
        for (_, first), (_, held), (_, last) in zip(leaves(init), leaves(state), leaves(new), strict=True):
            if self._known_array(last.array) is held.array:
                self._unchanged[held.array] = self._known_array(first.array)
            else:
                yield Carried(held.array, first, last)

    def _known_array(self, array: Array) -> Array:
        """The array, or what it stands for by the loops that are over."""
        while array in self._unchanged:
            array = self._unchanged[array]
        return array


def _callee(module: HloModule, instruction: Instruction, key: str, wanted: list[AnyShape]) -> Computation:
    """The computation that an attribute names, which must take parameters of these shapes."""
    value = instruction.attributes.get(key)
    if value is None:
        instruction.fail(f"{instruction.opcode} needs the attribute `{key}`")
    computation = module.computations[attributes.name(value)]
    taken = [parameter.shape for parameter in computation.parameters]
    if taken != wanted:
        instruction.fail(f"%{computation.name} takes ({', '.join(map(str, taken))})", "these operands differ")
    return computation


def _operation(instruction: Instruction, operands: tuple[Tree, ...], seq: int) -> tuple[Operation, Tree]:
    views: list[View] = []
    for name, operand in zip(instruction.operands, operands, strict=True):
        if not isinstance(operand, View):
            instruction.fail(f"{instruction.opcode} takes arrays; %{name} is a tuple")
        views.append(operand)
    value = arrays_of(instruction)
    arrays: list[Array] = [view.array for _, view in leaves(value)]
    operation = Operation(instruction, tuple(views), tuple(arrays), seq)
    for array in arrays:
        array.producer = operation
    return operation, value


def _unsupported(instruction: Instruction) -> NoReturn:
    target = instruction.attributes.get("custom_call_target")
    of = f" of {target.text}" if target is not None else ""
    instruction.fail(f"`{instruction.opcode}`{of} is not supported yet")


def _moved(view: View, final: dict[Array, Array]) -> View:
    return View(final[view.array], view.shape) if view.array in final else view


def _moved_tree(tree: Tree, final: dict[Array, Array]) -> Tree:
    if isinstance(tree, View):
        return _moved(tree, final)
    return tuple(_moved_tree(element, final) for element in tree)
