"""Dynamic slices and updates that start at an affine function of a loop's counter: which bytes they touch is known.

`lax.scan` takes a slice of each of its stacked arrays in iteration k, at k, or at n - 1 - k where it runs backwards.
The text computes the start from the counter, with a test for negative numbers and the like. So what the start is gets
evaluated, for all iterations at once, from the counter's known values (`trips.py`): if it is a + b * k in each
dimension, after HLO's clamping, the slice is a view of its operand that moves with the loop. An update in place is a
copy to such a part.

Loops with branches inside keep their dynamic slices, but for those that stay where they are: the checker, which takes
moving patterns iteration by iteration, would have too many ways to take.

The text is walked twice: the trip count of a loop is known when all of its body is. The first walk finds such
operations, by their `seq`; in the second one they are `Moving`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from haulout.frontends.hlo.flatten import Flat, Start, flatten
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.trips import counter_of
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.uniformity import Values, computed
from haulout.frontends.hlo.values import Array, Boundary, Loop, Operation, Stage, Step, View
from haulout.ir.dtypes import NUMPY

MAX_ITERATIONS = 1 << 12
"""Of loops that are looked at: each number that a start depends on is evaluated for all iterations."""
MAX_VALUES = 1 << 22
"""Numbers that are evaluated in one loop; starts that depend on more are unknown."""


def flatten_with_views(module: HloModule, known: Container[str]) -> Flat:
    """The entry computation, in which such slices are views."""
    flat = flatten(module, module.entry, known, control=True)
    starts = affine_starts(flat.steps)
    return flatten(module, module.entry, known, control=True, starts=starts) if starts else flat


def affine_starts(steps: Sequence[Step]) -> dict[int, Start]:
    """Where dynamic slices and updates start, by their `seq`, if that is affine in the counter of a loop around."""
    parts = {step: part for step in steps if isinstance(step, Operation) and (part := _part(step)) is not None}
    needed = _needed(view.array for part in parts.values() for view in part.starts)
    found: dict[int, Start] = {}
    branching = _branching(steps)
    around = [_Iterations()]
    for step in steps:
        if isinstance(step, Boundary):
            if step.stage is Stage.BRANCH:
                around.append(_Iterations(step.loop, around[-1]))
            elif step.stage is Stage.LEAVE:
                around.pop()
            continue
        if any(result in needed for result in step.results):
            for iterations in around:
                iterations.evaluate(step)
        start = _start(step, parts[step], around[1:]) if step in parts else None
        if start is not None and not (any(start.steps) and start.loop in branching):
            found[step.seq] = start
    return found


def _branching(steps: Sequence[Step]) -> set[int]:
    """Loops, by `seq`, in which control flow is not known: with a branch, or a loop that runs unknown times.

    The checker takes all iterations of a loop with moving patterns, each with all ways through its body.
    """
    found: set[int] = set()
    around: list[Loop] = []
    for step in steps:
        if not isinstance(step, Boundary):
            continue
        if step.stage is Stage.LEAVE:
            around.pop()
        if step.stage is Stage.FORK or (step.stage is Stage.ENTER and counter_of(step.loop) is None):
            found.update(loop.seq for loop in around)
        if step.stage is Stage.ENTER:
            around.append(step.loop)
    return found


class _Part(NamedTuple):
    """The part of an array that an operation reads or writes."""

    starts: tuple[View, ...]
    dims: tuple[int, ...]


def _part(step: Operation) -> _Part | None:
    """Of a well-formed dynamic slice or update; what is not well formed is refused when it is emitted."""
    if step.opcode not in _FIRST_START or len(step.operands) <= _FIRST_START[step.opcode] or len(step.results) != 1:
        return None
    first, operand = _FIRST_START[step.opcode], step.operands[0]
    starts, shape = step.operands[first:], step.results[0].shape
    if step.opcode == "dynamic-slice":
        part = Shape(operand.shape.dtype, step.integers("dynamic_slice_sizes", optional=True))
        fits = shape == part
    else:
        part = step.operands[1].shape
        fits = shape == operand.shape and part.dtype == shape.dtype
    fits = fits and len(part.dims) == len(starts) == len(operand.shape.dims)
    if not fits or any(size > extent for size, extent in zip(part.dims, operand.shape.dims, strict=True)):
        return None
    integer = all(start.shape.dims == () and start.shape.dtype[0] in "su" for start in starts)
    return _Part(starts, part.dims) if integer else None


_FIRST_START = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""The number of the first operand that says where."""


def _needed(arrays: Iterable[Array]) -> set[Array]:
    """Scalars that some arrays are computed from, with those arrays."""
    found: set[Array] = set()
    waiting = list(arrays)
    while waiting:
        array = waiting.pop()
        if array in found or array.shape.count != 1:
            continue
        found.add(array)
        if isinstance(array.producer, Operation):
            waiting += [view.array for view in array.producer.operands]
    return found


class _Iterations:
    """A loop, and the values of scalars in each of its iterations; without a loop the values that never change."""

    def __init__(self, loop: Loop | None = None, outer: _Iterations | None = None) -> None:
        self.loop, self._outer = loop, outer
        self._known: dict[Array, Values] = {}
        self._count = 0
        counter = counter_of(loop) if loop is not None else None
        self.is_counted = counter is not None and 1 <= counter.trips <= MAX_ITERATIONS
        if counter is not None and self.is_counted:
            places = counter.start + counter.step * np.arange(counter.trips)
            self._known[counter.state] = places.astype(NUMPY[counter.state.shape.dtype])

    def evaluate(self, operation: Operation) -> None:
        """The result of an operation, if all operands are known."""
        if len(operation.results) != 1 or operation.result.shape.count != 1:
            return
        operands = [values for view in operation.operands if (values := self.values(view)) is not None]
        if not operands or len(operands) != len(operation.operands) or self._count > MAX_VALUES:
            return
        found = computed(operation, operands)
        if found is not None:
            self._count += found.size
            self._known[operation.results[0]] = found.astype(NUMPY[operation.result.shape.dtype])

    def values(self, view: View) -> Values | None:
        """One element an iteration, or one for all; None: they are not known."""
        array = view.array
        if array.shape.count != 1 or array.shape.dtype != view.shape.dtype:
            return None
        if array.producer is not None:
            return self._value(array)
        literal = array.source.literal
        return literal.reshape(-1) if literal is not None and literal.dtype.kind in "biu" else None

    def _value(self, array: Array) -> Values | None:
        found = self._known.get(array)
        if found is None and self._outer is not None:
            outside = self._outer._value(array)
            return outside if outside is not None and outside.size == 1 else None
        return found

    def affine(self, view: View, last: int) -> tuple[int, int] | None:
        """(start, step) of a start that is clamped to 0 and `last`."""
        if not last:
            return 0, 0
        values = self.values(view)
        if values is None:
            return None
        # Compared as they are: a u64 may not fit an int64.
        clamped = np.minimum(np.maximum(values, 0), values.dtype.type(min(last, np.iinfo(values.dtype).max)))
        places = clamped.astype(np.int64)
        steps = np.diff(places)
        if len(steps) and (steps != steps[0]).any():
            return None
        return int(places[0]), int(steps[0]) if len(steps) else 0


def _start(step: Operation, part: _Part, around: Sequence[_Iterations]) -> Start | None:
    """The start of a part in the innermost loop that it is affine in."""
    operand = step.operands[0]
    lasts = [extent - size for size, extent in zip(part.dims, operand.shape.dims, strict=True)]
    for at, iterations in reversed(list(enumerate(around))):
        if iterations.loop is None or not iterations.is_counted:
            continue
        pairs = [iterations.affine(*each) for each in zip(part.starts, lasts, strict=True)]
        places = [pair for pair in pairs if pair is not None]
        if len(places) == len(pairs):
            # What the loop overwrites is stored before: a view would have to outlive it.
            overwritten = any(operand.array.producer is each.loop for each in around[at:])
            starts, steps = zip(*places, strict=True)
            return Start(iterations.loop.seq, starts, steps, not overwritten)
    return None
