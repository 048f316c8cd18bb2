"""Uniformity analysis: which branches and loops may diverge between cores.

A value *varies* if it may differ between cores. The sources are parameters that are not marked as replicated,
`partition-id`, and collectives with a different result on each core (a reduce-scatter, an all-to-all, a permutation
without some cores, groups of unequal size). Variation propagates through operations, loops and branches. It ends
where all cores get the same result: an all-reduce or an all-gather over one group of all cores. If the condition of a
loop varies, its state varies too.

Scalars that are computed from constants and the core's number alone are evaluated for every core, so it is known
whether they differ.

HLO requires that all cores take the same branch of a conditional with a collective inside, and run a loop with one
inside equally often. The analysis relies on that, unless the selector is known to differ: that is an error. Code in
an arm that only some cores take may contain only branches that some cores take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo.flatten import Flat
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import COLLECTIVES, HOLDS
from haulout.frontends.hlo.replica_groups import core_groups, core_pairs
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Operation, Stage, Step, View, leaves
from haulout.ir.dtypes import NUMPY

Values = npt.NDArray[Any]
"""A scalar, one element a core, or a case of another kind."""

_COMPUTED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "convert": lambda x: x,
    "copy": lambda x: x,
    "divide": np.floor_divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not": np.invert,
    "or": np.bitwise_or,
    "remainder": np.remainder,
    "select": np.where,
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class Uniformity:
    """What may differ between the cores of a program."""

    varying: frozenset[Array]
    """Arrays that may."""
    known: Mapping[Array, Values]
    """Scalars whose values are known, on every core."""
    inside: Mapping[Loop | Branch, Sequence[Operation]]
    """Of each loop and branch a collective in it, if there is one."""

    def is_divergent(self, loop: Loop) -> bool:
        """Whether cores may run it differently often."""
        return loop.condition.array in self.varying and not self.inside[loop]


def find_uniformity(module: HloModule, flat: Flat, steps: Sequence[Step]) -> Uniformity:
    """What may differ between cores that run these steps; nothing is said where there are no loops and branches."""
    inside = dict(_collectives_inside(steps))
    if not inside:
        return Uniformity(frozenset(), {}, {})
    known = _known_values(module, steps)
    return Uniformity(frozenset(_varying(module, flat, steps, known, inside)), known, inside)


def divergent_branches(steps: Sequence[Step], uniformity: Uniformity) -> set[Branch]:
    """The branches of `steps` at which cores may part.

    Raises `HauloutError` (`bad-input`) where they do although one of the arms holds a collective, or a divergent
    loop.
    """
    inside, known, varying = uniformity.inside, uniformity.known, uniformity.varying
    parting: set[Branch] = set()
    around: list[Branch] = []

    def is_for_some() -> bool:
        return bool(around) and around[-1] in parting

    for step in steps:
        if not isinstance(step, Boundary):
            continue
        if step.stage is Stage.ENTER and step.loop.divergent and is_for_some():
            _fail_divergent(step.loop)
        elif step.stage is Stage.JOIN:
            around.pop()
        elif step.stage is Stage.FORK:
            branch = step.branch
            sides = _sides(branch, known)
            if sides is not None and len(set(sides)) > 1 and inside[branch]:
                _fail(branch, inside[branch][0], sides)
            differs = branch.selector.array in varying if sides is None else len(set(sides)) > 1
            if not inside[branch] and (differs or is_for_some()):
                parting.add(branch)
            around.append(branch)
    return parting


def _collectives_inside(steps: Sequence[Step]) -> Iterator[tuple[Loop | Branch, list[Operation]]]:
    """Every loop and branch with the first collective in it, if there is one."""
    open_: list[tuple[Loop | Branch, list[Operation]]] = []
    for step in steps:
        if isinstance(step, Operation):
            if step.opcode in COLLECTIVES and open_ and not open_[-1][1]:
                open_[-1][1].append(step)
        elif step.stage in (Stage.ENTER, Stage.FORK):
            open_.append((step.region, []))
        elif step.stage in (Stage.LEAVE, Stage.JOIN):
            region, found = open_.pop()
            if open_ and not open_[-1][1]:
                open_[-1][1].extend(found)
            yield region, found


# -- values that may differ -----------------------------------------------------------------------------------


def _varying(
    module: HloModule,
    flat: Flat,
    steps: Sequence[Step],
    known: dict[Array, Values],
    inside: Mapping[Loop | Branch, Sequence[Operation]],
) -> set[Array]:
    """All arrays that may differ between cores."""
    if module.num_partitions == 1:
        return set()
    readers: defaultdict[Array, list[Array]] = defaultdict(list)
    sources = list(_varying_parameters(flat))

    def flows(source: Array, target: Array) -> None:
        readers[source].append(target)
        if source.source.opcode == "partition-id" and source.producer is None:
            sources.append(source)

    for step in steps:
        if isinstance(step, Operation):
            given, kept = _spread(module, step)
            if not kept:
                sources += step.results
            for operand in step.operands if given else ():
                for result in step.results:
                    flows(operand.array, result)
        elif not step.decides:
            region = step.region
            decider = region.condition if isinstance(region, Loop) else region.selector
            for source, target in zip(step.reads(), step.targets(), strict=True):
                flows(source, target)
                if not inside[region]:
                    flows(decider.array, target)
    found: set[Array] = set()
    while sources:
        array = sources.pop()
        if array not in found and not _is_same(known.get(array)):
            found.add(array)
            sources += readers[array]
    return found


def _varying_parameters(flat: Flat) -> Iterator[Array]:
    """Parameters are the same on all cores where the text says so: `sharding={replicated}`."""
    for parameter in flat.parameters:
        for _, view in leaves(parameter):
            sharding = view.array.source.attributes.get("sharding")
            if sharding is None or sharding.text.strip() != "{replicated}":
                yield view.array


def _spread(module: HloModule, operation: Operation) -> tuple[bool, bool]:
    """Whether results vary when operands do; and whether they are the same when operands are."""
    instruction = operation.instruction
    match operation.opcode:
        case "all-reduce" | "all-gather":
            sizes = {len(group) for group in core_groups(instruction, module)}
            return sizes != {module.num_partitions}, len(sizes) == 1
        case "reduce-scatter" | "all-to-all":
            return True, all(len(group) == 1 for group in core_groups(instruction, module))
        case "collective-permute":
            targets = {target for _, target in core_pairs(instruction, module)}
            return True, len(targets) in (0, module.num_partitions)
    return True, True


# -- values that are known ------------------------------------------------------------------------------------


def _known_values(module: HloModule, steps: Sequence[Step]) -> dict[Array, Values]:
    """Scalars that are computed from constants and the core's number, on every core."""
    known: dict[Array, Values] = {}
    for step in steps:
        if isinstance(step, Operation) and len(step.results) == 1:
            operands = [_given(module, operand, known) for operand in step.operands]
            given = [values for values in operands if values is not None]
            if given and len(given) == len(operands) and step.result.shape.count == 1:
                values = computed(step, given)
                if values is not None:
                    known[step.results[0]] = values.astype(NUMPY[step.result.shape.dtype])
    for step in steps:
        if isinstance(step, Boundary) and step.stage is Stage.FORK:
            values = _given(module, step.branch.selector, known)
            if values is not None:
                known[step.branch.selector.array] = values
    return known


def _given(module: HloModule, view: View, known: dict[Array, Values]) -> Values | None:
    array, cores = view.array, module.num_partitions
    if array.shape.count != 1 or array.shape.dtype != view.shape.dtype:
        return None
    if array.producer is not None:
        return known.get(array)
    if array.source.opcode == "partition-id":
        return np.arange(cores, dtype=np.uint32)
    literal = array.source.literal
    return np.repeat(literal.reshape(-1), cores) if literal is not None and literal.dtype.kind in "biu" else None


def computed(operation: Operation, operands: Sequence[Values]) -> Values | None:
    """An operation on scalars, before it takes the type of its result; None where it is not computed here."""
    opcode = operation.opcode
    if any(values.dtype.kind not in "biu" for values in operands) or operation.result.shape.dtype[0] not in "psu":
        return None
    if opcode == "compare":
        written = operation.instruction.attributes.get("direction")
        function = HOLDS.get(written.text) if written is not None else None
    else:
        function = _COMPUTED.get(opcode)
    if opcode in ("divide", "remainder") and not (np.all(operands[0] >= 0) and np.all(operands[-1] > 0)):
        return None
    if function is None:
        return None
    with np.errstate(over="ignore"):
        found: Values = function(*operands)
    return found


def _is_same(values: Values | None) -> bool:
    return values is not None and bool(np.all(values == values[0]))


def _sides(branch: Branch, known: Mapping[Array, Values]) -> list[bool] | None:
    """On each core whether the first arm is taken; None when it is not known."""
    values = known.get(branch.selector.array)
    if values is None:
        return None
    if branch.below is None:
        return [bool(value) for value in values.tolist()]
    return [0 <= value < branch.below for value in values.tolist()]


def _fail_divergent(loop: Loop) -> NoReturn:
    loop.instruction.fail(
        "a divergent loop that not all cores reach is not supported",
        "the loop is in a divergent branch or in a divergent loop",
    )


def _fail(branch: Branch, collective: Operation, sides: list[bool]) -> None:
    other = sides.index(not sides[0])
    branch.instruction.fail(
        f"conditional: %{collective.instruction.name} in one of its branches is a collective, "
        f"and not all cores take the same branch",
        f"core 0 and core {other} take different branches",
    )
