"""Operations that move elements without looking at them.

slice, transpose, reverse, copy    one `dma_copy` with the exact bytes, where the result is stored (`movements.py`)
broadcast                          an instruction of its own, likewise
concatenate                        one `dma_copy` an operand
pad, dynamic-slice, dynamic-update-slice     instructions of their own, on the DMA queues; iota on pool
"""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import MovingUpdate, Operation, View
from haulout.frontends.hlo.views import MOVEMENTS, moving_part, seen, strides_of


def _emit_movement(out: Emitter, operation: Operation) -> None:
    out.copy(operation, MOVEMENTS[operation.opcode].view(operation))


def _emit_concatenate(out: Emitter, operation: Operation) -> None:
    operation.expect_counts(max(1, len(operation.operands)))
    chosen = operation.integers("dimensions")
    first = operation.operands[0].shape
    operation.expect(len(chosen) == 1 and chosen[0] < len(first.dims), "`dimensions` must be one dimension")
    (dim,) = chosen
    fits = all(
        operand.shape.dtype == first.dtype and _without(operand, dim) == _without(operation.operands[0], dim)
        for operand in operation.operands
    )
    operation.expect(fits, "the operands differ in type, or in another dimension")
    total = sum(operand.shape.dims[dim] for operand in operation.operands)
    dims = (*first.dims[:dim], total, *first.dims[dim + 1 :])
    operation.expect_result(dims, first.dtype)
    result, start = operation.result, 0
    steps = strides_of(result)
    for operand in operation.operands:
        if not operand.shape.count:
            continue
        out.copy(operation, operand, seen(result, operand.shape.dims, steps, steps[dim] * start))
        start += operand.shape.dims[dim]


def _without(view: View, dim: int) -> tuple[int, ...]:
    return (*view.shape.dims[:dim], *view.shape.dims[dim + 1 :])


def _emit_broadcast(out: Emitter, operation: Operation) -> None:
    view = MOVEMENTS["broadcast"].view(operation)
    if operation.operands[0].layout is not None:
        out.copy(operation, view)
    else:
        out.compute(operation, {"dims": [*operation.integers("dimensions", optional=True)]})


def _emit_iota(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    shape, dim = operation.instruction.shape, operation.attribute("iota_dimension", attributes.integer)
    assert isinstance(shape, Shape)
    operation.expect(dim < len(shape.dims) and shape.dtype != "pred", f"{shape} has no numbers along dimension {dim}")
    is_line = operation.results[0].shape.dims != shape.dims  # views.py
    out.compute(operation, {"dim": 0 if is_line else dim})


def _emit_pad(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    operand, value = operation.operands
    padding = operation.attribute("padding", attributes.padding)
    dims = operand.shape.dims
    operation.expect(len(padding) == len(dims), "`padding` must have one entry a dimension")
    operation.expect(
        value.shape.dims == () and value.shape.dtype == operand.shape.dtype, "the value must be a scalar"
    )
    padded = tuple(
        extent + low + high + (extent - 1) * interior
        for extent, (low, high, interior) in zip(dims, padding, strict=True)
    )
    operation.expect_result(padded, operand.shape.dtype)
    low, high, interior = (list(column) for column in zip(*padding, strict=True)) if padding else ([], [], [])
    out.compute(operation, {"low": [*low], "high": [*high], "interior": [*interior]})


def _emit_dynamic_slice(out: Emitter, operation: Operation) -> None:
    operation.expect(bool(operation.operands), "expected an operand and its starts")
    operand = operation.operands[0]
    operation.expect_arity(len(operand.shape.dims))
    sizes = operation.integers("dynamic_slice_sizes", optional=True)
    _expect_slice(operation, operation.operands[1:], sizes, operand.shape.dims)
    operation.expect_result(sizes, operand.shape.dtype)
    out.compute(operation, {"sizes": list(sizes)})


def _emit_dynamic_update_slice(out: Emitter, operation: Operation) -> None:
    operation.expect(len(operation.operands) >= 2, "expected an operand, an update, and its starts")
    operand, update = operation.operands[:2]
    operation.expect_arity(len(operand.shape.dims))
    _expect_slice(operation, operation.operands[2:], update.shape.dims, operand.shape.dims)
    operation.expect(update.shape.dtype == operand.shape.dtype, "the update has another type")
    operation.expect_result(operand.shape.dims, operand.shape.dtype)
    if isinstance(operation, MovingUpdate) and out.is_in_place(operation):
        out.copy(operation, update, moving_part(operation, operation.result, update.shape.dims))
    else:
        out.compute(operation)


def _expect_slice(
    operation: Operation, starts: tuple[View, ...], sizes: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    integer = all(start.shape.dims == () and start.shape.dtype[0] in "su" for start in starts)
    operation.expect(integer, "the starts must be integer scalars")
    inside = len(sizes) == len(dims) and all(size <= extent for size, extent in zip(sizes, dims, strict=True))
    operation.expect(inside, "the slice must be inside the operand")


MADE = {"moving-slice": Rule(_emit_movement, MOVEMENTS["moving-slice"].attributes)}
"""Not an opcode that HLO text may have."""
RULES = {
    **{opcode: Rule(_emit_movement, each.attributes) for opcode, each in MOVEMENTS.items() if opcode not in MADE},
    "broadcast": Rule(_emit_broadcast, MOVEMENTS["broadcast"].attributes),
    "concatenate": Rule(_emit_concatenate, ("dimensions",)),
    "iota": Rule(_emit_iota, ("iota_dimension",)),
    "pad": Rule(_emit_pad, ("padding",)),
    "dynamic-slice": Rule(_emit_dynamic_slice, ("dynamic_slice_sizes",)),
    "dynamic-update-slice": Rule(_emit_dynamic_update_slice),
}
