"""Loops of the first NKI, whose indices know their loop: `nl.loop_reduce` accumulates over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from haulout.frontends.nki.findings import kernel_place, reject
from haulout.frontends.nki.operators import Operator
from haulout.frontends.nki.stand_ins.old_style import operator
from haulout.frontends.nki.tensor import Tensor


@dataclass(slots=True)
class Loop:
    """One run of a loop."""

    number: int
    """Loops are numbered as they begin, so an outer one comes before an inner one."""
    sums: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Accumulators of `loop_reduce`, by its line."""


_numbers = count()


class LoopIndex(int):
    """The number of an iteration."""

    loop: Loop


def counted_range(start: Any, stop: Any = None, step: Any = 1, **_: Any) -> Iterator[LoopIndex]:
    """An unrolled loop."""
    first, last = (0, start) if stop is None else (start, stop)
    loop = Loop(next(_numbers))
    for number in range(int(first), int(last), int(step)):
        index = LoopIndex(number)
        index.loop = loop
        yield index


def loop_reduce(
    x: Tensor, op: Any, loop_indices: Sequence[Any], dtype: Any = None, mask: Any = None, **_: Any
) -> Tensor:
    """A tile with the reduction of `x` over all iterations of loops; complete behind the outermost of them."""
    indices = [each for each in loop_indices if isinstance(each, LoopIndex)]
    if not indices or len(indices) < len(loop_indices):
        reject("nl.loop_reduce takes the indices of loops, as nl.affine_range gives them")
    # A loop that runs inside another one is another `Loop` in each of its iterations.
    outermost = min((each.loop for each in indices), key=lambda loop: loop.number)
    place = kernel_place(1)
    found = outermost.sums.get(place)
    if mask is not None and mask is not True:
        reject("nl.loop_reduce with a mask has no counterpart", "accumulate into a tile in the loop")
    if found is None:
        first: Tensor = Operator("copy")(x, dtype=dtype)
        outermost.sums[place] = first
        return first
    name = str(getattr(operator(op), "__name__", op))
    return Operator(_PAIRWISE.get(name, name)).into(found, found, x)


_PAIRWISE = {"sum": "add", "max": "maximum", "min": "minimum"}
"""Operators of two tiles that reduce as those of one do."""
