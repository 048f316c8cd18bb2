"""Windows that slide over an array: `reduce-window`, `select-and-scatter`, and what a convolution shares with them.

Along one dimension: elements are spread `lhs_dilate` apart, padded, and a window of `size` taps, `rhs_dilate`
apart, stops at every `stride`-th place where it fits.
"""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.attributes import Window
from haulout.frontends.hlo.emit import Emitter, Rule, same_shape
from haulout.frontends.hlo.ops.scalar_body import combiner, comparison, named_combiner
from haulout.frontends.hlo.values import Operation
from haulout.ir.attributes import AttrValue


def extents(operation: Operation, dims: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """How many places the window stops at along each dimension; at least one."""
    operation.expect(len(window.size) == len(dims), f"the window must have {len(dims)} dimensions")
    found = []
    for at, extent in enumerate(dims):
        padded = (extent - 1) * window.lhs_dilate[at] + 1 + window.pad_low[at] + window.pad_high[at]
        reach = (window.size[at] - 1) * window.rhs_dilate[at] + 1
        operation.expect(reach <= padded, f"the window does not fit along dimension {at}")
        found.append((padded - reach) // window.stride[at] + 1)
    return tuple(found)


def padding_attrs(window: Window) -> dict[str, AttrValue]:
    """Size, stride and padding; those that are default left out."""
    attrs: dict[str, AttrValue] = {}
    if window.size:
        attrs["size"] = list(window.size)
    if any(step != 1 for step in window.stride):
        attrs["stride"] = list(window.stride)
    if any(window.pad_low):
        attrs["pad_low"] = list(window.pad_low)
    if any(window.pad_high):
        attrs["pad_high"] = list(window.pad_high)
    return attrs


def _emit_reduce_window(out: Emitter, operation: Operation) -> None:
    count = len(operation.results)
    operation.expect_arity(count)
    arrays, initial = operation.operands[:count], operation.operands[count:]
    dims, window = arrays[0].shape.dims, operation.attribute("window", attributes.window)
    operation.expect(all(array.shape.dims == dims for array in arrays), "the arrays differ in shape")
    places = extents(operation, dims, window)
    operation.expect(not any(window.reversal), "a reversed window is not supported")
    for index, (array, value) in enumerate(zip(arrays, initial, strict=True)):
        operation.expect(value.shape.dims == () and value.shape.dtype == array.shape.dtype, "bad initial value")
        operation.expect_result(places, array.shape.dtype, index)
    attrs = padding_attrs(window)
    if any(step != 1 for step in window.lhs_dilate):
        attrs["base_dilate"] = list(window.lhs_dilate)
    if any(step != 1 for step in window.rhs_dilate):
        attrs["window_dilate"] = list(window.rhs_dilate)
    attrs |= combiner(out.module, operation, [array.shape.dtype for array in arrays])
    out.compute(operation, attrs)


def _emit_select_and_scatter(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    operand, source, initial = operation.operands
    window = operation.attribute("window", attributes.window)
    dtype = same_shape(operation, [operand]).dtype
    operation.expect(initial.shape.dims == () and initial.shape.dtype == source.shape.dtype == dtype, "types differ")
    plain = not any(window.reversal) and all(step == 1 for step in (*window.lhs_dilate, *window.rhs_dilate))
    operation.expect(plain, "a dilated or reversed window is not supported")
    operation.expect(source.shape.dims == extents(operation, operand.shape.dims, window), "the source does not fit")
    operation.expect_result(operand.shape.dims, dtype)
    attrs = padding_attrs(window)
    attrs["select"] = comparison(out.module, operation, dtype, "select")
    attrs["op"] = named_combiner(out.module, operation, dtype, "scatter")
    if attrs["select"] not in ("GE", "GT", "LE", "LT"):
        operation.fail(f"select-and-scatter: a selection by {attrs['select']} is not supported")
    out.compute(operation, attrs)


RULES = {
    "reduce-window": Rule(_emit_reduce_window, ("window", "to_apply")),
    "select-and-scatter": Rule(_emit_select_and_scatter, ("window", "select", "scatter")),
}
