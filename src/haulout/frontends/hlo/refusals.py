"""All that cannot be compiled in a module, in one report: each construct once, where it is first, how often, and what
to write instead.

Lowering stops at the first such place. Only then every instruction of the computations that are reached from the
entry is looked at by itself: is its type one that a program can hold, does it have a rule, and does the rule take it
with operands of these shapes? Faults of a different kind, such as a collective in a branch that not all cores take,
need the whole program; lowering reports those alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.callees import check_control
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.expand import rewritten
from haulout.frontends.hlo.flatten import KNOWN, resolves
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.opaque import may_be_opaque, unsupported
from haulout.frontends.hlo.tuples_and_views import TUPLES_AND_VIEWS, checked
from haulout.frontends.hlo.values import (
    Array,
    Operation,
    Tree,
    View,
    arrays_of,
    check_attributes,
    leaves,
)
from haulout.frontends.hlo.views import MOVEMENTS
from haulout.support.diagnostics import Diagnostic, HauloutError

MAX_LISTED = 50
"""Constructs in a report."""
MAX_LINES = 8
"""Further lines of one construct that are named."""
_CALLEES = ("to_apply", "calls", "condition", "body", "branch_computations", "true_computation", "false_computation")
_CONTROL = ("call", "while", "conditional", "fusion", "async-start")


@dataclass(slots=True)
class _Construct:
    """What is refused alike, at several places."""

    first: Diagnostic
    lines: list[int]


def all_refusals(module: HloModule, rules: Mapping[str, Rule], error: HauloutError) -> HauloutError:
    """The error with everything else that would be refused, too; itself if there is nothing else."""
    found: dict[tuple[str, str], _Construct] = {}
    for instruction, diagnostic in _faults(module, rules):
        key = instruction.opcode, diagnostic.message
        if key in found:
            found[key].lines.append(instruction.line)
        else:
            found[key] = _Construct(diagnostic, [instruction.line])
    known = {each.first.message for each in found.values()}
    others = [each for each in error.diagnostics if each.message not in known]
    if not found:
        return error
    listed = [*others, *(_report(each) for each in found.values())]
    if len(listed) > MAX_LISTED:
        rest = len(listed) - MAX_LISTED
        last = listed[MAX_LISTED - 1]
        listed = [*listed[: MAX_LISTED - 1], replace(last, notes=(*last.notes, f"and {rest} more constructs"))]
    return HauloutError(*listed)


def _report(construct: _Construct) -> Diagnostic:
    count, lines = len(construct.lines), construct.lines[1:]
    if count == 1:
        return construct.first
    shown = ", ".join(map(str, lines[:MAX_LINES])) + (", ..." if len(lines) > MAX_LINES else "")
    note = f"{count} times in this module; also at line{'s' if len(lines) > 1 else ''} {shown}"
    return replace(construct.first, notes=(*construct.first.notes, note))


def _faults(module: HloModule, rules: Mapping[str, Rule]) -> Iterator[tuple[Instruction, Diagnostic]]:
    """What is refused, in the order of the file."""
    out = _Dry(module)
    done = dict(module.computations)
    for computation in _reached(module):
        by_name = dict(computation.by_name)
        for instruction in computation.instructions:
            try:
                made = rewritten(module, instruction, by_name, done)
            except HauloutError as error:
                yield from ((instruction, each) for each in error.diagnostics)
                continue
            for each in [instruction] if made is None else made:
                by_name[each.name] = each
                out.module = replace(module, computations=done)
                yield from ((instruction, fault) for fault in _faults_of(out.module, each, by_name, rules, out))


def _reached(module: HloModule) -> list[Computation]:
    """The computations that are inlined or are parts of control flow, in the order of the file."""
    reached = {module.entry.name}
    for computation in reversed(list(module.computations.values())):
        if computation.name not in reached:
            continue
        for instruction in computation.instructions:
            if instruction.opcode in _CONTROL:
                for key in _CALLEES:
                    if key in instruction.attributes:
                        reached.update(attributes.names(instruction.attributes[key]))
    return [each for each in module.computations.values() if each.name in reached]


def _faults_of(
    module: HloModule,
    instruction: Instruction,
    by_name: Mapping[str, Instruction],
    rules: Mapping[str, Rule],
    out: _Dry,
) -> list[Diagnostic]:
    try:
        operands = tuple(_fresh(by_name[name]) for name in instruction.operands)
    except HauloutError:
        return []  # the operand is refused itself
    try:
        _check(module, instruction, operands, rules, out)
    except HauloutError as error:
        return list(error.diagnostics)
    return []


def _fresh(instruction: Instruction) -> Tree:
    """A value of an instruction that nothing is known of but its shape."""
    tree = arrays_of(instruction)
    return _viewed(tree)


def _viewed(tree: Tree) -> Tree:
    if isinstance(tree, View):
        return View(tree.array, tree.shape, stored=Array(tree.array.source, tree.shape))
    return tuple(map(_viewed, tree))


def _check(
    module: HloModule, instruction: Instruction, operands: tuple[Tree, ...], rules: Mapping[str, Rule], out: _Dry
) -> None:
    """Raise what lowering would raise at this instruction."""
    opcode = instruction.opcode
    arrays = arrays_of(instruction)
    if resolves(instruction):
        check_attributes(instruction, KNOWN.get(opcode, ()))
        check_control(module, instruction, operands)
        if opcode in TUPLES_AND_VIEWS:
            checked(instruction, TUPLES_AND_VIEWS[opcode](instruction, operands))
        return
    if opcode not in rules:
        if not may_be_opaque(instruction):
            unsupported(instruction)
        return
    views: list[View] = []
    for name, operand in zip(instruction.operands, operands, strict=True):
        if not isinstance(operand, View):
            instruction.fail(f"{opcode} takes arrays; %{name} is a tuple")
        views.append(operand)
    operation = Operation(instruction, tuple(views), tuple(view.array for _, view in leaves(arrays)), 0)
    check_attributes(instruction, rules[opcode].attributes)
    if opcode in MOVEMENTS:
        MOVEMENTS[opcode].view(operation)
    rules[opcode].emit(out, operation)


class _Dry(Emitter):
    """An emitter that emits nothing."""

    def __init__(self, module: HloModule) -> None:
        self.module = module

    def compute(self, *_: object, **__: object) -> None:
        """Nothing."""

    def copy(self, *_: object) -> None:
        """Nothing."""

    def is_in_place(self, operation: Operation) -> bool:
        """It does not matter."""
        return False
