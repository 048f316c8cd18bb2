"""Uniformity analysis: which cores hold equal bytes of each array, and which branches and loops may diverge.

Every array gets a partition of the cores (`ir/partitions.py`). It *varies* if that is more than one class. Parameters
have the classes that their shardings say (`shardings.py`), with `partition-id` each core is alone, a constant is one
class. The results of an operation are equal where all operands are, those of an opaque one on no two cores;
collectives transfer classes by their groups. The state of a loop meets the initial value, the new one and the
condition, the result of a branch both arms and the predicate. All arrays start as one class, and are refined until
nothing changes.

Scalars that are computed from constants and the core's number alone are evaluated for every core, so it is known
whether they differ.

HLO requires that all cores take the same branch of a conditional with a collective inside, and run a loop with one
inside equally often. The analysis relies on that, unless the selector is known to differ: that is an error. Code in
an arm that only some cores take may contain only branches that some cores take.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import COLLECTIVES, HOLDS
from haulout.frontends.hlo.replica_groups import core_groups, core_pairs
from haulout.frontends.hlo.shardings import Classes
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Opaque, Operation, Stage, Step, View
from haulout.ir.dtypes import NUMPY
from haulout.ir.partitions import (
    Groups,
    Partition,
    alone,
    by_key,
    from_classes,
    gathered,
    meet,
    one_class,
    permuted,
    scattered,
)

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

    partitions: Mapping[Array, Partition]
    """Which cores hold equal bytes, of arrays that are not equal on all of them."""
    known: Mapping[Array, Values]
    """Scalars whose values are known, on every core."""
    inside: Mapping[Loop | Branch, Sequence[Operation]]
    """Of each loop and branch a collective in it, if there is one."""

    def is_divergent(self, loop: Loop) -> bool:
        """Whether cores may run it differently often."""
        return loop.condition.array in self.partitions and not self.inside[loop]

    def may_overwrite(self, result: Array, operand: Array) -> bool:
        """Whether a result that takes over the location of an operand leaves that equal on as many cores.

        Values that are made of nothing are not worth a location of their own, which one core would fill for others.
        """
        made = operand.producer.opcode if isinstance(operand.producer, Operation) else ""
        return made in _FILLS or self.partitions.get(result) == self.partitions.get(operand)


_FILLS = ("broadcast", "iota")


def find_uniformity(module: HloModule, promised: Mapping[Array, Classes], steps: Sequence[Step]) -> Uniformity:
    """What may differ between cores that run these steps; `promised` are the classes of parameters."""
    inside = dict(_collectives_inside(steps))
    known = _known_values(module, steps)
    return Uniformity(_partitions(module, promised, steps, known, inside), known, inside)


def divergent_branches(steps: Sequence[Step], uniformity: Uniformity) -> set[Branch]:
    """The branches of `steps` at which cores may part.

    Raises `HauloutError` (`bad-input`) where they do although one of the arms holds a collective, or a divergent
    loop.
    """
    inside, known, varying = uniformity.inside, uniformity.known, uniformity.partitions
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


def _partitions(
    module: HloModule,
    promised: Mapping[Array, Classes],
    steps: Sequence[Step],
    known: Mapping[Array, Values],
    inside: Mapping[Loop | Branch, Sequence[Operation]],
) -> dict[Array, Partition]:
    """Which cores hold equal bytes, of every array that is not equal on all of them."""
    cores = module.num_partitions
    if cores == 1:
        return {}
    everyone, apart = one_class(cores), alone(cores)
    found: dict[Array, Partition] = {}
    for array, each in promised.items():
        found[array] = from_classes(each, cores)
    transfers = list(_transfers(module, steps, inside))
    readers: defaultdict[Array, list[int]] = defaultdict(list)
    for number, (sources, _, _) in enumerate(transfers):
        for source in sources:
            readers[source].append(number)
            if source.source.opcode == module.core_number and source.producer is None:
                found[source] = apart
    found |= {array: by_key(values.tolist()) for array, values in known.items()}
    waiting = deque(range(len(transfers)))
    queued = [True] * len(transfers)
    while waiting:
        number = waiting.popleft()
        queued[number] = False
        sources, targets, transfer = transfers[number]
        partition = everyone
        for source in sources:
            partition = meet(partition, found.get(source, everyone))
        if transfer is not None:
            partition = transfer(partition)
        for target in targets:
            before = found.get(target, everyone)
            if target in known or (after := meet(before, partition)) == before:
                continue
            found[target] = after
            for reader in readers[target]:
                if not queued[reader]:
                    queued[reader] = True
                    waiting.append(reader)
    return {array: partition for array, partition in found.items() if any(partition)}


_Transfer = tuple[Sequence[Array], Sequence[Array], Callable[[Partition], Partition] | None]
"""Sources, what is made of them, and how, if not by a function of them all."""


def _transfers(
    module: HloModule, steps: Sequence[Step], inside: Mapping[Loop | Branch, Sequence[Operation]]
) -> Iterator[_Transfer]:
    for step in steps:
        if isinstance(step, Operation):
            arrays, transfer = [operand.array for operand in step.operands], _collective(module, step)
            if isinstance(step, Opaque):
                yield arrays, step.results, partial(_apart, cores=module.num_partitions)
            elif transfer is None or len(arrays) != len(step.results) or _exchanges_a_tuple(step):
                yield arrays, step.results, transfer
            else:
                yield from (([one], [result], transfer) for one, result in zip(arrays, step.results, strict=True))
        elif not step.decides:
            region = step.region
            decider = region.condition if isinstance(region, Loop) else region.selector
            decides = [] if inside[region] else [decider.array]
            yield from (
                ([source, *decides], [target], None)
                for source, target in zip(step.reads(), step.targets(), strict=True)
            )


def _apart(_: Partition, cores: int) -> Partition:
    """Whatever the operands are."""
    return alone(cores)


def _exchanges_a_tuple(operation: Operation) -> bool:
    """Whether operand i of an exchange goes to member i."""
    return operation.opcode == "all-to-all" and len(operation.results) > 1


def _collective(module: HloModule, operation: Operation) -> Callable[[Partition], Partition] | None:
    """How the results of a collective follow from its operands; None for any other operation."""
    instruction = operation.instruction
    match operation.opcode:
        case "all-reduce" | "all-gather":
            return partial(gathered, groups=_tuples(core_groups(instruction, module)))
        case "reduce-scatter" | "all-to-all":
            return partial(scattered, groups=_tuples(core_groups(instruction, module)))
        case "collective-permute":
            return partial(permuted, pairs=_tuples(core_pairs(instruction, module)))
    return None


def _tuples(lists: Iterable[Sequence[int]]) -> Groups:
    return tuple(map(tuple, lists))


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
    if array.source.opcode == module.core_number:
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
