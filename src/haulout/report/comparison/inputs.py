"""Inputs of both programs: numbers that are drawn, or given for the first, and cut for the second.

Programs with equal numbers of cores get the same inputs, core by core. Floats differ from core to core, unless one of
the programs says that cores hold equal bytes (`same=`) or stores an input once; integers, which may be indices or
numbers of steps, are equal on all cores. Otherwise the first program runs on one core, and its arrays are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.ir.core_classes import core_classes
from haulout.ir.dtypes import name_of
from haulout.ir.enums import Kind
from haulout.report.comparison.layout import Layout, by_shapes, by_sharding, by_user
from haulout.report.comparison.numbers import is_float
from haulout.report.comparison.source import Source, Type, pairs
from haulout.sim.inputs import drawn
from haulout.support.diagnostics import bad_input

Array = npt.NDArray[Any]


class Input(NamedTuple):
    """One input of both programs."""

    a: str
    b: str
    layout: Layout | None
    """None: core by core."""


class Inputs(NamedTuple):
    """The inputs of both programs."""

    each: list[Input]
    a: dict[str, Array]
    """`MODULE/LOCATION` -> array."""
    b: dict[str, Array]


def make_inputs(
    a: Source, b: Source, given: Mapping[str, Array] | None, seed: int, asked: Mapping[str, int]
) -> Inputs:
    """Inputs for both; `given` are those of the first, all of them. Raises `bad-input` if they do not correspond."""
    cores = b.program.lnc
    if a.program.lnc not in (1, cores):
        bad_input(
            f"{a.title} is for {a.program.lnc} cores, {b.title} for {cores}",
            help=["the first program is the one before the split, for one core, or is for as many cores"],
        )
    theirs = b.inputs()
    each = [
        Input(one, other, None if a.program.lnc == cores else _layout(a, b, one, other, asked))
        for one, other in pairs(a, b, "inputs", a.inputs(), theirs)
    ]
    for one, other, layout in each:
        _check_types(a, b, one, other, by_core=layout is None)
    values = _drawn(a, b, each, seed) if given is None else _given(a, given)
    found = {}
    for one, other, layout in each:
        for core in range(cores):
            whole = values[0 if layout is not None else core, one]
            part = whole if layout is None else layout.part(whole, theirs[other][1], core)
            found[f"{b.module(core)}/{other}"] = np.array(part, order="C")
    return Inputs(each, {f"{a.module(core)}/{name}": value for (core, name), value in values.items()}, found)


def text_of(type_: Type) -> str:
    """`f32[8,16]`."""
    dtype, shape = type_
    return f"{name_of(dtype) or dtype}[{','.join(map(str, shape))}]"


def _check_types(a: Source, b: Source, one: str, other: str, *, by_core: bool) -> None:
    ours, theirs = a.inputs()[one], b.inputs()[other]
    if ours[0] == theirs[0] and (not by_core or ours[1] == theirs[1]):
        return
    bad_input(
        f"input %{one} of {a.title} is {text_of(ours)}, input %{other} of {b.title} is {text_of(theirs)}",
        help=["both are for as many cores, so inputs have equal types"] if by_core else (),
    )


def _layout(a: Source, b: Source, one: str, other: str, asked: Mapping[str, int]) -> Layout:
    whole, part, cores = a.inputs()[one][1], b.inputs()[other][1], b.program.lnc
    name = next((name for name in (one, other) if name in asked), None)
    if name is not None:
        return by_user(name, asked[name], whole, part, cores)
    for text in (b.shardings.get(other), a.shardings.get(one)):
        layout = by_sharding(text, whole, part, cores) if text is not None else None
        if layout is not None:
            return layout
    found = by_shapes(whole, part, cores)
    if not found:
        bad_input(
            f"input %{one} of {a.title} is {text_of(a.inputs()[one])}, and cores of {b.title} have "
            f"{text_of(b.inputs()[other])}, which is neither all of it nor a tile of it",
            help=["inputs correspond by name if all names are the same, else by position"],
        )
    classes = core_classes(b.program, b.rows(Kind.INPUT, Kind.INOUT)[0, other])
    if len(found) > 1 and classes:
        # Cores with equal bytes have the same tile.
        found.sort(key=lambda layout: any(len({layout.tiles.of_core[core] for core in each}) > 1 for each in classes))
    return found[0]


def _given(a: Source, given: Mapping[str, Array]) -> dict[tuple[int, str], Array]:
    values = {}
    names = [(core, name) for core, name in a.rows(Kind.INPUT, Kind.INOUT) if name in a.inputs()]
    known = {key for core, name in names for key in (name, f"{a.module(core)}/{name}")}
    if unknown := sorted(set(given) - known):
        bad_input(f"{a.title} has no input {unknown[0]!r}", help=[f"its inputs are {', '.join(a.inputs())}"])
    for core, name in names:
        value = given.get(f"{a.module(core)}/{name}", given.get(name))
        if value is None:
            bad_input(f"missing input {name!r} of {a.title}")
        dtype, shape = a.inputs()[name]
        unnamed = value.dtype.kind == "V" and value.dtype.itemsize == dtype.itemsize
        if value.shape != shape or (value.dtype != dtype and not unnamed):
            bad_input(f"input {name!r} is {text_of((value.dtype, value.shape))}, expected {text_of((dtype, shape))}")
        values[core, name] = value.view(dtype) if unnamed else value
    return values


def _drawn(a: Source, b: Source, each: Iterable[Input], seed: int) -> dict[tuple[int, str], Array]:
    types = a.inputs()
    values: dict[tuple[int, str], Array] = {}
    for one, other, _ in each:
        dtype, shape = types[one]
        first = _first_of_equal(a, b, one, other)
        for core in range(a.program.lnc):
            leader = first[core] if is_float(dtype) else 0
            if leader == core:
                name = one if leader == 0 else f"nc{leader}/{one}"
                values[core, one] = drawn(name, dtype, shape, seed).view(dtype).reshape(shape)
            else:
                values[core, one] = values[leader, one]
    return values


def _first_of_equal(a: Source, b: Source, one: str, other: str) -> list[int]:
    """Of each core of the first program the first that must get equal bytes."""
    cores = a.program.lnc
    first = list(range(cores))
    if cores == 1:
        return first
    groups: list[list[int]] = []
    for source, name in ((a, one), (b, other)):
        rows = source.rows(Kind.INPUT, Kind.INOUT)
        for core in range(cores):
            row = rows[core, name]
            groups += core_classes(source.program, row)
            groups.append([core, int(source.program.location_core[source.program.owner[row]])])
    for _ in range(cores):
        for group in groups:
            least = min(first[core] for core in group)
            for core in group:
                first[core] = least
    return first
