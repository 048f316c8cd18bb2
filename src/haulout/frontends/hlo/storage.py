"""Locations of arrays: parameters, results, constants, loop state and temporaries.

1. Every parameter is a location, `kind=input`; `inout` if the header aliases an output to it.
2. Arrays share a location where that saves a copy and loses no value (`coalescing.py`): first the state of a loop
   with its new value, and the result of a branch with the values of its arms, inner ones first, because those copies
   run most often; then the state of a loop with its initial value; then every output with its required location, one
   of its own, `kind=output`, or the parameter that it is aliased to.
3. The result of an operation takes the location of an operand that it reads last, if it may overwrite it.
4. Constants and core ids are `kind=const`, all other arrays `internal`. A constant without its data is an input.
5. The remaining copies are at the boundaries of loops and branches (`boundary_copies.py`) and at the end of the
   program. They are parallel copies (`parallel_copies.py`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from haulout.frontends.hlo.coalescing import Classes, live_ranges, may_share
from haulout.frontends.hlo.flatten import Flat
from haulout.frontends.hlo.model import Alias, HloModule, Instruction, Literal
from haulout.frontends.hlo.parallel_copies import sequentialize
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Operation, Stage, Step, View, leaves
from haulout.ir.enums import Kind


@dataclass(eq=False, slots=True)
class Slot:
    """A location of the program."""

    name: str
    kind: Kind
    shape: Shape
    source: Instruction = field(repr=False)
    data: tuple[str, ...] = ()
    """Of a constant: base64, one text for all cores or one a core."""


MayOverwrite = Callable[[Array, Array], bool]
"""Whether a result is worth the location of an operand, in which cores would not hold equal bytes any more."""
Copies = list[tuple[Slot, Slot]]
"""In order: (source, target)."""


@dataclass(slots=True)
class Storage:
    """The locations of a program, in order, and where each array lives."""

    slots: list[Slot] = field(default_factory=list)
    homes: dict[Array, Slot] = field(default_factory=dict)
    outputs: list[Slot] = field(default_factory=list)
    """In the order of the result."""
    conditions: dict[Loop | Branch, Slot] = field(default_factory=dict)
    """What each loop or fork branches on."""
    limits: dict[Branch, tuple[Slot, Slot]] = field(default_factory=dict)
    """Of a branch by number: its selector, and what that is compared with."""
    copies: dict[Boundary, Copies] = field(default_factory=dict)
    """At each boundary."""
    one_armed: set[Branch] = field(default_factory=set)
    """Branches with an empty second arm."""
    final_copies: Copies = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, kind: Kind, shape: Shape, source: Instruction, data: Sequence[str] = ()) -> Slot:
        """A new location; a name that is taken gets a number."""
        slot = Slot(unique(name, self._names), kind, shape, source, tuple(data))
        self.slots.append(slot)
        return slot

    def place(self, arrays: Iterable[Array], slot: Slot) -> None:
        """They live there."""
        for array in arrays:
            self.homes[array] = slot

    def save(self, slot: Slot) -> Slot:
        """A new location for the value of another one."""
        return self.add(f"{slot.name}.saved", Kind.INTERNAL, slot.shape, slot.source)


def unique(name: str, taken: dict[str, int]) -> str:
    """`name`, or `name_2`, `name_3`, ... if taken; marks it as taken, with the last number that was tried for it."""
    if name not in taken:
        taken[name] = 1
        return name
    number = taken[name] + 1
    while (found := f"{name}_{number}") in taken:
        number += 1
    taken[name] = number
    taken[found] = 1
    return found


def assign_storage(module: HloModule, flat: Flat, steps: Sequence[Step], may_overwrite: MayOverwrite) -> Storage:
    """The storage of a flat entry computation of which `steps` are executed."""
    storage = Storage()
    targets = _alias_targets(module, flat)
    aliased = set(targets.values())
    parameters = [view.array for parameter in flat.parameters for _, view in leaves(parameter)]
    for array in parameters:
        kind = Kind.INOUT if array in aliased else Kind.INPUT
        storage.homes[array] = storage.add(array.name, kind, array.shape, array.source)
    results = [view.array for _, view in leaves(flat.result)]
    writable = [array for array in parameters if array in aliased]
    classes = Classes(live_ranges(steps, writable, results))
    _join_carried(steps, classes)
    for array in writable:
        storage.place(classes.members(array), storage.homes[array])
    _place_outputs(module, flat, targets, classes, storage)
    _join_in_place(steps, classes, storage, may_overwrite)
    _place_rest(module, steps, results, classes, storage)
    wanted = zip((storage.homes[array] for array in results), storage.outputs, strict=True)
    storage.final_copies = sequentialize(wanted, storage.save)
    return storage


def donated(module: HloModule, flat: Flat) -> dict[Array, Array]:
    """Results that are to overwrite a parameter -> that parameter."""
    outputs = dict(leaves(flat.result))
    return {outputs[path].array: parameter for path, parameter in _alias_targets(module, flat).items()}


def _alias_targets(module: HloModule, flat: Flat) -> dict[tuple[int, ...], Array]:
    """Index path of an output -> the parameter's array that it is to overwrite."""
    outputs = dict(leaves(flat.result))
    parameters = [dict(leaves(parameter)) for parameter in flat.parameters]
    targets: dict[tuple[int, ...], Array] = {}
    for alias in module.aliases:
        output = outputs.get(alias.output)
        if output is None:
            alias.where.fail(f"the result has no array at {_path(alias.output)}")
        if alias.parameter >= len(parameters):
            alias.where.fail(f"invalid parameter {alias.parameter}: the module has {len(parameters)}")
        parameter = parameters[alias.parameter].get(alias.parameter_index)
        if parameter is None:
            alias.where.fail(f"parameter {alias.parameter} has no array at {_path(alias.parameter_index)}")
        _check_alias(alias, output, parameter, targets)
        targets[alias.output] = parameter.array
    return targets


def _check_alias(alias: Alias, output: View, parameter: View, targets: dict[tuple[int, ...], Array]) -> None:
    if alias.output in targets or parameter.array in targets.values():
        alias.where.fail("an output or a parameter is aliased twice")
    if output.shape != parameter.shape:
        alias.where.fail(f"an output {output.shape} cannot be stored in a parameter {parameter.shape}")


def _path(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _join_carried(steps: Sequence[Step], classes: Classes) -> None:
    """State with new values and results with those of both arms, in the order of their ends: inner ones first.

    Then state with initial values.
    """
    for step in steps:
        if isinstance(step, Boundary) and step.stage is Stage.JOIN:
            for merged in step.branch.merged:
                classes.join(merged.result, merged.then.array)
                classes.join(merged.result, merged.other.array)
        elif isinstance(step, Boundary) and step.stage is Stage.LEAVE:
            for carried in step.loop.carried:
                classes.join(carried.state, carried.new.array)
    for step in steps:
        if isinstance(step, Boundary) and step.stage is Stage.LEAVE:
            for carried in step.loop.carried:
                classes.join(carried.state, carried.init.array)


def _place_outputs(
    module: HloModule, flat: Flat, targets: dict[tuple[int, ...], Array], classes: Classes, storage: Storage
) -> None:
    """Give every output its slot; its producer gets the slot as home where it may write it at once."""
    root = module.entry.root
    names = root.operands if root.opcode == "tuple" else ()
    for path, view in leaves(flat.result):
        array, target = view.array, targets.get(path)
        if target is None:
            stem, rest = (names[path[0]], path[1:]) if names else (root.name, path)
            name = ".".join([stem.replace("#", "."), *map(str, rest)])
            if array.producer is None or array in storage.homes:
                name = ".".join([root.name, *map(str, path)])
            slot = storage.add(name, Kind.OUTPUT, view.shape, array.source)
        else:
            slot = storage.homes[target]
        storage.outputs.append(slot)
        if array.producer is None or array in storage.homes:
            continue
        if target is None or classes.join(array, target):
            storage.place(classes.members(array), slot)


def _join_in_place(steps: Sequence[Step], classes: Classes, storage: Storage, may_overwrite: MayOverwrite) -> None:
    """Results with an operand that dies there, where the operation may write over it."""
    for step in steps:
        if not isinstance(step, Operation) or len(step.results) != 1:
            continue
        (result,) = step.results
        for position, operand in enumerate(step.operands):
            homes = {storage.homes[array] for array in (result, operand.array) if array in storage.homes}
            may_join = may_share(step, position) and may_overwrite(result, operand.array)
            if may_join and len(homes) < 2 and classes.join(result, operand.array):
                for home in homes:
                    storage.place(classes.members(result), home)
                break


def _place_rest(
    module: HloModule, steps: Sequence[Step], results: Sequence[Array], classes: Classes, storage: Storage
) -> None:
    """Constants, then what the steps produce; a place that loops and branches share has the name of the first."""
    for array in [*(array for step in steps for array in _reads(step)), *results]:
        if array.producer is None and array not in storage.homes:
            kind, data = Kind.INPUT, list[str]()
            if not array.source.is_left_out:
                kind, data = Kind.CONST, _contents(array, module)
            storage.homes[array] = storage.add(array.name, kind, array.shape, array.source, data)
    for step in steps:
        for array in _writes(step):
            if array not in storage.homes:
                members = classes.members(array)
                first = min(members, key=_region_seq)
                leader = first if isinstance(first.producer, Loop | Branch) else array
                slot = storage.add(leader.name, Kind.INTERNAL, leader.shape, leader.source)
                storage.place(members, slot)


def _reads(step: Step) -> Iterable[Array]:
    return step.reads() if isinstance(step, Boundary) else (operand.array for operand in step.operands)


def _writes(step: Step) -> Iterable[Array]:
    if isinstance(step, Operation):
        return step.results
    return step.targets() if step.stage in (Stage.ENTER, Stage.JOIN) else ()


def _region_seq(array: Array) -> float:
    """The position of the loop that carries the array, or of the branch that results in it."""
    return array.producer.seq if isinstance(array.producer, Loop | Branch) else float("inf")


def _contents(array: Array, module: HloModule) -> list[str]:
    """The data of an array without a producer, as base64."""
    source = array.source
    if source.literal is not None:
        return [encode(source.literal)]
    if array.shape != Shape("u32", ()):
        source.fail(f"{source.opcode} must be u32[], found {array.shape}")
    if source.opcode == module.core_number:
        return [encode(np.uint32(core)) for core in range(module.num_partitions)]
    if module.replica_count != 1:
        source.fail(f"replicas are not supported: the module has replica_count={module.replica_count}")
    return [encode(np.uint32(0))]


def encode(values: Literal | np.uint32) -> str:
    """The bytes of a constant as base64."""
    return base64.b64encode(values.tobytes()).decode("ascii")
