"""Which movements of elements store their result, and whose readers read the operand with strides instead.

A movement is a step of its own (`views.py`); what reads a view decides for itself, so one reader may take the strided
operand and another one the stored result. A movement that nothing takes is dead (`live_steps.py`).

    what takes arrays as they are (collectives, state, results)      the stored result
    `dot`, where a permutation of dense dimensions is all there is   the operand, its dimensions numbered anew
    what a `dynamic-update-slice` stores where a loop's count says   the cheaper one; of a product the stored result
    anything else                                                    the cheaper one

Reading n times with strides costs n strided reads; storing costs one strided read, a write and n plain reads. Steps
of stride 0 cost nothing. What a loop reads from outside is state, so it is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.values import Array, MovingUpdate, Operation, Step, View
from haulout.frontends.hlo.views import MOVEMENTS, dense_order, dot_dims, plain

_STRIDED = {*ELEMENTWISE, *MOVEMENTS, "concatenate", "convolution", "dot", "reduce"}
"""Opcodes that read their operands with strides."""
_LEAST_RUN = 64
"""Bytes that a read of fewer bytes in a row costs, unless it is all that is read."""


def choose_movements(steps: Sequence[Step]) -> None:
    """Replace the operands of steps that read stored results; the steps must be live but for movements."""
    readers = _readers(steps)
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
    if not pattern.dims:
        return pattern.run
    pieces = 1
    for stride, count in pattern.dims:
        pieces *= count if stride else 1
    return pieces * max(pattern.run, _LEAST_RUN)


def _readers(steps: Sequence[Step]) -> Counter[Array]:
    """Of each stored result how often it is read."""
    return Counter(
        view.stored
        for step in steps
        if isinstance(step, Operation)
        for view in step.operands
        if view.stored is not None and view.layout is not None
    )
