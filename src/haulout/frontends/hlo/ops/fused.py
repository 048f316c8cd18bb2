"""`map` and `map-reduce`: what `fuse_elementwise.py` makes of several operations."""

from __future__ import annotations

from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.expressions import Fused
from haulout.frontends.hlo.ops.reduction import named_attributes
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Operation, View
from haulout.ir.enums import Engine


def _emit(out: Emitter, operation: Operation) -> None:
    assert isinstance(operation, Fused) and operation.expression is not None
    expression, result = operation.expression, operation.result
    attrs, mapped = expression.attributes(), View(result.array, Shape(result.shape.dtype, expression.dims))
    if operation.opcode == "map-reduce":
        attrs |= named_attributes(out.module, operation, mapped)
    else:
        result = mapped
    out.compute(operation, attrs, writes=[result], engine=Engine.ACT if expression.is_transcendental else None)


RULES = {"map": Rule(_emit), "map-reduce": Rule(_emit)}
"""Not opcodes that HLO text may have."""
