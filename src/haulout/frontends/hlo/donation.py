"""Donated parameters: which results are stored where a parameter is.

`input_output_alias` of a module names pairs. After partitioning there often is `buffer_donor` alone: parameters that
may hold any result. XLA pairs them in a pass that comes after the text was written, so here each takes the first
result of equal type and shape that has no parameter yet, in the order of the parameters. The pairs decide copies, not
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.model import Alias, HloModule
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.ir.program import Program

_DONORS = "buffer_donor"


def with_donors(module: HloModule) -> HloModule:
    """The module with a result for each donor that fits one. Raises `bad-input` for a list that cannot be read."""
    free = {
        path: shape
        for path, shape in _results(module.entry.root.shape).items()
        if path not in {alias.output for alias in module.aliases}
    }
    taken = {alias.parameter for alias in module.aliases}
    made: list[Alias] = []
    for number, where in _donors(module):
        parameters = module.entry.parameters
        if number >= len(parameters):
            where.fail(f"invalid parameter {number}: the module has {len(parameters)}")
        shape = parameters[number].shape
        path = next((path for path, each in free.items() if each == shape), None)
        if number not in taken and path is not None:
            del free[path]
            taken.add(number)
            made.append(Alias(path, number, (), False, where))
    return replace(module, aliases=(*module.aliases, *made))


def donated_names(module: HloModule, program: Program, also: Sequence[bool] = ()) -> list[str]:
    """Locations of the parameters that a module or `also` says are donated, whether a result fits or not.

    `also` has an element for each parameter. `program` is lowered from the module, so its first locations are these.
    """
    parameters = module.entry.parameters
    if not all(isinstance(each.shape, Shape) for each in parameters):
        return []
    asked = {alias.parameter for alias in module.aliases} | {number for number, _ in _donors(module)}
    if len(also) == len(parameters):
        asked |= {number for number, is_donated in enumerate(also) if is_donated}
    names = program.locations.name[: len(parameters)].tolist()
    return [program.strings[names[number]] for number in sorted(asked)]


def _results(shape: AnyShape) -> dict[tuple[int, ...], Shape]:
    """The arrays of a result by index path; those inside of nested tuples are left out."""
    if isinstance(shape, Shape):
        return {(): shape}
    return {(at,): each for at, each in enumerate(shape.elements) if isinstance(each, Shape)}


def _donors(module: HloModule) -> list[tuple[int, Excerpt]]:
    """`{ (parameter, {index}), ... }`: those that are whole parameters, and their places."""
    if _DONORS not in module.attributes:
        return []
    value = module.attributes[_DONORS]
    cursor = Cursor.over(value)
    found: list[tuple[int, Excerpt]] = []
    cursor.expect_mark("{")
    first = True
    while not cursor.take_mark("}"):
        if not first:
            cursor.expect_mark(",", "`,` or `}`")
        first, start = False, cursor.skip()
        cursor.expect_mark("(", "`(parameter, {index})`")
        number = cursor.integer("a parameter number")
        cursor.expect_mark(",", "`,`")
        index = cursor.integers("{", "}", "an index of the parameter")
        cursor.expect_mark(")", "`)`")
        if not index:
            found.append((number, Excerpt(value.source, start, cursor.position)))
    cursor.finish("the donors")
    return found
