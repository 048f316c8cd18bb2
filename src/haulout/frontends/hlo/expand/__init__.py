"""Instructions that are rewritten as others before anything else looks at the module.

    fusion, and pairs of `-start` and `-done`     calls, and what they stand for (`asynchronous.py`)
    what only marks, or orders                     its operand (`marks.py`)
    batch norm, random bits, activations, ...     a call of a computation that is written here (`EXPANSIONS`)

What has no expansion in the form at hand stays, and becomes an opaque instruction if its opcode is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from haulout.frontends.hlo.expand import collectives, lapack, marks, neuron, normalization, other, random
from haulout.frontends.hlo.expand.asynchronous import is_asynchronous, synchronous
from haulout.frontends.hlo.expand.writer import Value, Writer, excerpt
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.opaque import target_of
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.ir.dtypes import NUMPY

Expansion = Callable[[Writer], Value | None]
"""Writes what an instruction stands for, and gives its result; None: it cannot be written."""
EXPANSIONS: dict[str, Expansion] = {
    **normalization.EXPANSIONS,
    **random.EXPANSIONS,
    **collectives.EXPANSIONS,
    **other.EXPANSIONS,
}
"""By opcode."""
CUSTOM_CALLS: dict[str, Expansion] = {**neuron.EXPANSIONS, **lapack.EXPANSIONS, **other.CUSTOM_CALLS}
"""By target."""
_KEPT = ("metadata", "sharding", "frontend_attributes", "control-predecessors")
"""Attributes of the call."""


def expand(module: HloModule) -> HloModule:
    """The module with these instructions rewritten. Raises `HauloutError` (`bad-input`) on one that is not valid."""
    done: dict[str, Computation] = {}
    for computation in module.computations.values():
        done[computation.name] = _expanded(module, computation, done)
    return replace(module, computations=done, entry=done[module.entry.name])


def _expanded(module: HloModule, computation: Computation, done: dict[str, Computation]) -> Computation:
    made: list[Instruction] = []
    changed = False
    for instruction in computation.instructions:
        found = rewritten(module, instruction, computation.by_name, done)
        changed |= found is not None
        made += [instruction] if found is None else found
    if not changed:
        return computation
    by_name = {each.name: each for each in made}
    parameters = tuple(by_name[each.name] for each in computation.parameters)
    return replace(
        computation,
        instructions=tuple(made),
        root=by_name[computation.root.name],
        parameters=parameters,
        by_name=by_name,
    )


def _is_array(shape: AnyShape) -> bool:
    return isinstance(shape, Shape) and _is_held(shape)


def _is_held(shape: AnyShape) -> bool:
    """Whether a program can hold arrays of these types."""
    return shape.dtype in NUMPY if isinstance(shape, Shape) else all(map(_is_held, shape.elements))


def rewritten(
    module: HloModule, instruction: Instruction, by_name: Mapping[str, Instruction], done: dict[str, Computation]
) -> list[Instruction] | None:
    """What stands for an instruction, the last one by its name; new computations go into `done`. None: itself."""
    opcode, target = instruction.opcode, target_of(instruction)
    if opcode == "fusion" and "calls" in instruction.attributes:
        kept = {key: value for key, value in instruction.attributes.items() if key in _KEPT}
        return [replace(instruction, opcode="call", attributes={**kept, "to_apply": instruction.attributes["calls"]})]
    if is_asynchronous(instruction):
        return synchronous(instruction, by_name)
    if marks.is_mark(instruction, target):
        return [marks.passed_on(instruction)]
    expansion = CUSTOM_CALLS.get(target) if opcode == "custom-call" and target else EXPANSIONS.get(opcode)
    shapes: list[AnyShape] = [by_name[name].shape for name in instruction.operands]
    # Types that a program cannot hold are refused later.
    if expansion is None or not all(map(_is_array, shapes)) or not _is_held(instruction.shape):
        return None
    writer = Writer(instruction, shapes, done)
    result = expansion(writer)
    if result is None:
        return None
    if result.shape != instruction.shape:
        instruction.fail(f"{target or opcode}: the value is {result.shape}, declared as {instruction.shape}")
    for computation in writer.computations:
        done.setdefault(computation.name, computation)
    name = f"{instruction.name}.{len(done)}.expanded"
    while name in done or name in module.computations:
        name += "_"
    done[name] = writer.finish(name, writer.renamed(result))
    kept = {key: value for key, value in instruction.attributes.items() if key in _KEPT}
    return [replace(instruction, opcode="call", attributes={**kept, "to_apply": excerpt(name)})]
