"""The results of the split program against those of the first, core by core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.report.comparison.inputs import Input, text_of
from haulout.report.comparison.layout import Layout, by_shapes, by_sharding, by_user
from haulout.report.comparison.numbers import Difference, Tolerance
from haulout.report.comparison.source import Source, pairs
from haulout.support.diagnostics import bad_input

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class OutputResult:
    """One result of both programs."""

    a: str
    b: str
    layout: str
    """How the cores hold it."""
    cores: tuple[Difference, ...]
    """Of each core of the split program; indices are those of its part."""
    values: tuple[tuple[float, float], ...]
    """Of each core: the elements of both programs that are the farthest apart."""
    not_finite: int
    """Elements of the first program, on all cores, that are infinite or NaN."""
    size: int
    moved: tuple[int, ...] = ()
    """Cores that hold the tile of another core."""

    @property
    def equal(self) -> bool:
        """Whether it agrees on all cores."""
        return not any(each.count for each in self.cores)


def compare_outputs(
    a: Source,
    b: Source,
    inputs: Sequence[Input],
    outputs_a: Mapping[str, Array],
    outputs_b: Mapping[str, Array],
    asked: Mapping[str, int],
    tolerance: Tolerance,
) -> list[OutputResult]:
    """Each result. Raises `bad-input` if results do not correspond."""
    found = []
    for one, other in pairs(a, b, "results", a.results(), b.results()):
        ours, theirs = a.results()[one], b.results()[other]
        by_core = a.program.lnc == b.program.lnc
        if ours[0] != theirs[0] or (by_core and ours[1] != theirs[1]):
            bad_input(f"result %{one} of {a.title} is {text_of(ours)}, %{other} of {b.title} is {text_of(theirs)}")
        got = [outputs_b[f"{b.module(core)}/{other}"] for core in range(b.program.lnc)]
        if by_core:
            want = [outputs_a[f"{a.module(core)}/{one}"] for core in range(a.program.lnc)]
            found.append(_result(one, other, "core by core", want, got, tolerance))
            continue
        whole = outputs_a[f"{a.module(0)}/{one}"]
        tried = []
        for layout in _layouts(a, b, one, other, inputs, asked):
            parts = [layout.part(whole, theirs[1], core) for core in range(b.program.lnc)]
            # Beyond the end of the array the last tile holds anything.
            kept = [
                value[tuple(slice(0, n) for n in whole[layout.slices(theirs[1], core)].shape)]
                for core, value in enumerate(got)
            ]
            cut = [part[tuple(slice(0, n) for n in value.shape)] for part, value in zip(parts, kept, strict=True)]
            tried.append(_result(one, other, layout.text, cut, kept, tolerance))
        found.append(min(tried, key=lambda each: sum(core.count for core in each.cores)))
    return found


def _layouts(
    a: Source, b: Source, one: str, other: str, inputs: Sequence[Input], asked: Mapping[str, int]
) -> list[Layout]:
    """How the cores may hold a result: what the user or the text says, else all orders that the inputs have."""
    whole, part, cores = a.results()[one][1], b.results()[other][1], b.program.lnc
    name = next((name for name in (one, other) if name in asked), None)
    if name is not None:
        return [by_user(name, asked[name], whole, part, cores)]
    for text in (b.shardings.get(other), a.shardings.get(one)):
        layout = by_sharding(text, whole, part, cores) if text is not None else None
        if layout is not None:
            return [layout]
    found = by_shapes(whole, part, cores)
    if not found:
        bad_input(
            f"result %{one} of {a.title} is {text_of(a.results()[one])}, and cores of {b.title} have "
            f"{text_of(b.results()[other])}, which is neither all of it nor a tile of it",
            help=["results correspond by name if all names are the same, else by position"],
        )
    known = {layout.tiles for layout in found}
    for each in inputs:
        if each.layout is None or each.layout.tiles in known:
            continue
        if each.layout.tiles.counts == found[0].tiles.counts:
            known.add(each.layout.tiles)
            found.append(Layout(each.layout.tiles, f"as input %{each.b}"))
    return found


def _result(
    one: str, other: str, layout: str, want: Sequence[Array], got: Sequence[Array], tolerance: Tolerance
) -> OutputResult:
    cores = tuple(tolerance.compare(ours, theirs) for ours, theirs in zip(want, got, strict=True))
    values = tuple(
        (float(ours[each.index]), float(theirs[each.index])) if each.count else (0.0, 0.0)
        for each, ours, theirs in zip(cores, want, got, strict=True)
    )
    moved = tuple(
        core
        for core, each in enumerate(cores)
        if each.count and any(w.shape == got[core].shape and not tolerance.compare(w, got[core]).count for w in want)
    )
    broken = sum(int(np.count_nonzero(~np.isfinite(each.astype(np.float64)))) for each in want)
    return OutputResult(one, other, layout, cores, values, broken, sum(each.size for each in want), moved)
