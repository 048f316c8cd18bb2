"""Matrix products that are only read transposed: the operands change places, and no transpose is left.

A `dot` has its dimensions in the order batch, free ones of the left operand, free ones of the right one. The product
of the operands in the other order, each as before, is the same numbers with the free dimensions of the right operand
first: z^T = (x y)^T = y^T x^T. So where a movement is the only reader of a `dot`, and stores just that order, the
`dot` with its operands swapped stores it at once. Gradients of weights come like that from JAX.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from haulout.frontends.hlo.values import Array, Operation, Step, View
from haulout.frontends.hlo.views import MOVEMENTS, dot_dims, seen, strides_of

_SIDES = {"lhs": "rhs", "rhs": "lhs"}


def swap_products(steps: Sequence[Step], results: Sequence[Array]) -> list[Step]:
    """The steps, with such products swapped and without the movements that read them.

    The steps must be live, and what reads which stored result must be decided (`movements.py`). `results` are read at
    the end.
    """
    readers = Counter(array for step in steps for array in _reads(step))
    readers.update(results)
    kept: list[Step] = []
    for step in steps:
        product = _swappable(step) if isinstance(step, Operation) else None
        if product is None or readers[product.results[0]] != 1:
            kept.append(step)
            continue
        assert isinstance(step, Operation)
        _swap(product, step)
    return kept


def _reads(step: Step) -> list[Array]:
    return [view.array for view in step.operands] if isinstance(step, Operation) else step.reads()


def _swappable(movement: Operation) -> Operation | None:
    """The `dot` that may store what a movement stores."""
    if movement.opcode not in MOVEMENTS or len(movement.operands) != 1:
        return None
    product = movement.operands[0].array.producer
    if not isinstance(product, Operation) or product.opcode != "dot" or len(product.operands) != 2:
        return None
    if product.split is not None:
        return None  # a cut is asked for along a dimension of this very result
    swapped = _swapped(product)
    if swapped is None or movement.results[0].shape != swapped.shape:
        return None
    moved = MOVEMENTS[movement.opcode].view(movement)
    if moved.motion is not None:
        return None
    return product if _order(moved) == _order(swapped) else None


def _swapped(product: Operation) -> View | None:
    """The result of a `dot`, with the free dimensions of the right operand before those of the left one."""
    lhs, rhs = dot_dims(product)
    batch = len(lhs["batch"])
    left = len(product.operands[0].shape.dims) - batch - len(lhs["contracting"])
    result = product.result
    rank = len(result.shape.dims)
    if rank != batch + left + len(product.operands[1].shape.dims) - batch - len(rhs["contracting"]):
        return None  # refused when it is emitted
    order = [*range(batch), *range(batch + left, rank), *range(batch, batch + left)]
    steps = strides_of(result)
    return seen(result, [result.shape.dims[dim] for dim in order], [steps[dim] for dim in order])


def _order(view: View) -> list[tuple[int, int]]:
    """(extent, stride) of a view, dimensions that follow each other without a gap as one."""
    found: list[tuple[int, int]] = []
    for extent, step in zip(view.shape.dims, strides_of(view), strict=True):
        if extent == 1:
            continue
        if found and found[-1][1] == extent * step:
            found[-1] = (found[-1][0] * extent, step)
        else:
            found.append((extent, step))
    return [*found, (view.layout.offset if view.layout else 0, 0)]


def _swap(product: Operation, movement: Operation) -> None:
    """Let a `dot` produce what a movement produces."""
    given = product.instruction
    attributes = {_other_side(key): value for key, value in given.attributes.items()}
    product.instruction = replace(
        given, attributes=attributes, operands=given.operands[::-1], shape=movement.results[0].shape
    )
    product.operands = product.operands[::-1]
    product.results = movement.results
    movement.results[0].producer = product


def _other_side(key: str) -> str:
    side = key[:3]
    return _SIDES[side] + key[3:] if side in _SIDES else key
