"""Which movements of elements store their result, and whose readers read the operand with strides instead.

A movement is a step of its own (`views.py`); what reads a view decides for itself, so one reader may take the strided
operand and another one the stored result. A movement that nothing takes is dead (`live_steps.py`).

    what takes arrays as they are (collectives, state, results)      the stored result
    `dot`, where a permutation of dense dimensions is all there is   the operand, its dimensions numbered anew
    what a `dynamic-update-slice` stores where a loop's count says   the cheaper one; of a product the stored result
    anything else                                                    the cheaper one

Reading n times with strides costs n strided reads; storing costs one strided read, a write and n plain reads. Steps
of stride 0 cost nothing. A loop reads what comes from outside of it often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.values import Array, Boundary, Loop, MovingUpdate, Operation, Stage, Step, View
from haulout.frontends.hlo.views import MOVEMENTS, dense_order, dot_dims, plain

_STRIDED = {*ELEMENTWISE, *MOVEMENTS, "concatenate", "convolution", "dot", "reduce"}
"""Opcodes that read their operands with strides."""
_LEAST_RUN = 64
"""Bytes that a read of fewer bytes in a row costs."""
_OFTEN = 1000
"""How often a loop reads what comes from outside."""


def choose_movements(steps: Sequence[Step]) -> None:
    """Replace the operands of steps that read stored results; the steps must be live but for movements."""
    readers = _readers(steps, _depths(steps))
    for step in steps:
        if isinstance(step, Operation):
            step.operands = tuple(
                view if view.layout is None or _takes_strides(step, at, readers) else plain(view)
                for at, view in enumerate(step.operands)
            )


def _takes_strides(step: Operation, at: int, readers: Counter[Array]) -> bool:
    view = step.operands[at]
    if isinstance(step, MovingUpdate) and at == 1:
        # A product may be stored as the movement arranges it (`swapped_products.py`).
        producer = view.array.producer
        if isinstance(producer, Operation) and producer.opcode == "dot":
            return False
    elif step.opcode not in _STRIDED:
        return False
    if step.opcode == "dot" and dense_order(view, dot_dims(step)[at]) is not None:
        return True
    assert view.stored is not None
    count = readers[view.stored]
    return (count - 1) * strided_cost(view) <= (count + 1) * view.nbytes


def strided_cost(view: View) -> int:
    """Bytes that a read with strides costs."""
    pattern = view.pattern
    assert pattern is not None
    pieces = 1
    for stride, count in pattern.dims:
        pieces *= count if stride else 1
    return pieces * max(pattern.run, _LEAST_RUN)


def _depths(steps: Sequence[Step]) -> dict[Array, int]:
    """Of each array that an operation produces, how many loops are around it."""
    depth, found = 0, {}
    for step in steps:
        if isinstance(step, Operation):
            found.update(dict.fromkeys(step.results, depth))
        else:
            depth += _deeper(step)
    return found


def _deeper(boundary: Boundary) -> int:
    if not isinstance(boundary.region, Loop):
        return 0
    return {Stage.ENTER: 1, Stage.LEAVE: -1}.get(boundary.stage, 0)


def _readers(steps: Sequence[Step], depths: dict[Array, int]) -> Counter[Array]:
    """Of each stored result how often it is read."""
    readers: Counter[Array] = Counter()
    depth = 0
    for step in steps:
        if isinstance(step, Boundary):
            depth += _deeper(step)
            continue
        for view in step.operands:
            if view.stored is not None and view.layout is not None:
                readers[view.stored] += _OFTEN if depth > depths.get(view.stored, depth) else 1
    return readers
