"""Which location each array gets: parameters, results, constants, and everything between.

1. Every parameter is a location, `kind=input`; `inout` when the header aliases an output to it.
2. Every output is a location, `kind=output`, or the one of the parameter that it is aliased to. The operation that
   makes the value writes it there at once where that is safe, else a copy at the end does: the value is a parameter,
   a constant or already another output, or the parameter is still read when the value is made.
3. Constants and core ids are `kind=const`, all other arrays `internal`.

An operation may write the storage of a parameter when all reads of the parameter come before it, or when it reads
the parameter itself, once, element by element. Copies at the end read parameters, too; where one would read what
another has overwritten (two parameters exchanged), the value is saved first.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from haulout.frontends.hlo.flatten import Flat
from haulout.frontends.hlo.model import Alias, HloModule, Instruction, Literal
from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Operation, View, leaves
from haulout.ir.enums import Kind

_UPDATES_IN_PLACE = "dynamic-update-slice"


@dataclass(eq=False, slots=True)
class Slot:
    """A location to be."""

    name: str
    kind: Kind
    shape: Shape
    source: Instruction = field(repr=False)
    data: tuple[str, ...] = ()
    """Of a constant: base64, one text for all cores or one a core."""


@dataclass(slots=True)
class Storage:
    """The locations of a program, in order, and where each array lives."""

    slots: list[Slot] = field(default_factory=list)
    homes: dict[Array, Slot] = field(default_factory=dict)
    copies: list[tuple[Slot, Slot]] = field(default_factory=list)
    """At the end, in order: (source, target)."""
    outputs: list[Slot] = field(default_factory=list)
    """In the order of the result."""
    _names: set[str] = field(default_factory=set)

    def add(self, name: str, kind: Kind, shape: Shape, source: Instruction, data: Sequence[str] = ()) -> Slot:
        """A new location; a name that is taken gets a number."""
        slot = Slot(unique(name, self._names), kind, shape, source, tuple(data))
        self.slots.append(slot)
        return slot


def unique(name: str, taken: set[str]) -> str:
    """`name`, or `name_2`, `name_3`, ... if taken; marks it as taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def assign_storage(module: HloModule, flat: Flat, operations: Sequence[Operation]) -> Storage:
    """The storage of a flat entry computation of which `operations` are executed."""
    storage = Storage()
    targets = _alias_targets(module, flat)
    aliased = set(targets.values())
    for parameter in flat.parameters:
        for _, view in leaves(parameter):
            kind = Kind.INOUT if view.array in aliased else Kind.INPUT
            storage.homes[view.array] = storage.add(view.array.name, kind, view.shape, view.array.source)
    _place_outputs(module, flat, operations, targets, storage)
    used = [operand.array for operation in operations for operand in operation.operands]
    for array in [*used, *(view.array for _, view in leaves(flat.result))]:
        if array.producer is None and array not in storage.homes:
            data = _contents(array, module)
            storage.homes[array] = storage.add(array.name, Kind.CONST, array.shape, array.source, data)
    for operation in operations:
        for array in operation.results:
            if array not in storage.homes:
                storage.homes[array] = storage.add(array.name, Kind.INTERNAL, array.shape, array.source)
    _finish_copies(flat, storage)
    return storage


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
            alias.where.fail(f"there is no parameter {alias.parameter}; there are {len(parameters)}")
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


def _place_outputs(
    module: HloModule,
    flat: Flat,
    operations: Sequence[Operation],
    targets: dict[tuple[int, ...], Array],
    storage: Storage,
) -> None:
    """Give every output its slot; its producer gets the slot as home where it may write it at once."""
    root = module.entry.root
    results = list(leaves(flat.result))
    names = root.operands if root.opcode == "tuple" else ()
    last_read = {operand.array: operation.seq for operation in operations for operand in operation.operands}
    for path, view in results:
        target = targets.get(path)
        if target is None:
            stem, rest = (names[path[0]], path[1:]) if names else (root.name, path)
            name = ".".join([stem, *map(str, rest)])
            if view.array.producer is None or view.array in storage.homes:
                name = ".".join([root.name, *map(str, path)])
            slot = storage.add(name, Kind.OUTPUT, view.shape, view.array.source)
        else:
            slot = storage.homes[target]
        storage.outputs.append(slot)
        if view.array is target or view.array.producer is None or view.array in storage.homes:
            continue
        kept_until_end = any(other.array is target for _, other in results)
        if target is None or (not kept_until_end and _may_overwrite(view, target, last_read.get(target, -1))):
            storage.homes[view.array] = slot


def _may_overwrite(view: View, target: Array, last_read: int) -> bool:
    """Whether the producer of `view` may write the storage of a parameter whose last reader is known."""
    producer = view.array.producer
    if producer is None or last_read > producer.seq:
        return False
    if last_read < producer.seq:
        return True
    reads = [operand for operand in producer.operands if operand.array is target]
    if producer.opcode == _UPDATES_IN_PLACE:
        return len(reads) == 1 and producer.operands[0] is reads[0]
    same = all(read.nbytes == view.nbytes and read.itemsize == view.itemsize for read in reads)
    return producer.opcode in ELEMENTWISE and same


def _finish_copies(flat: Flat, storage: Storage) -> None:
    """What is not where it has to be in the end is copied; sources that a copy overwrites are saved first."""
    wanted = [
        (storage.homes[view.array], slot)
        for (_, view), slot in zip(leaves(flat.result), storage.outputs, strict=True)
        if storage.homes[view.array] is not slot
    ]
    overwritten = {target for _, target in wanted}
    saved: dict[Slot, Slot] = {}
    for source, _ in wanted:
        if source in overwritten and source not in saved:
            saved[source] = storage.add(f"{source.name}.saved", Kind.INTERNAL, source.shape, source.source)
            storage.copies.append((source, saved[source]))
    storage.copies += [(saved.get(source, source), target) for source, target in wanted]


def _contents(array: Array, module: HloModule) -> list[str]:
    """The data of an array without a producer, as base64."""
    source = array.source
    if source.literal is not None:
        return [_encode(source.literal)]
    if array.shape != Shape("u32", ()):
        source.fail(f"{source.opcode} is u32[], declared as {array.shape}")
    if source.opcode == "partition-id":
        return [_encode(np.uint32(core)) for core in range(module.num_partitions)]
    if module.replica_count != 1:
        source.fail(f"replicas are not supported: the module has replica_count={module.replica_count}")
    return [_encode(np.uint32(0))]


def _encode(values: Literal | np.uint32) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
