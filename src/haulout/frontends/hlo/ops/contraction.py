"""`dot` and `convolution`, on the engine pe. Attributes that have their default are left out."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.attributes import Window
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.ops.windows import extents, padding_attrs
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.values import Operation, View
from haulout.ir.attributes import AttrValue

_DOT = {
    "lhs_batch": "lhs_batch_dims",
    "lhs_contracting": "lhs_contracting_dims",
    "rhs_batch": "rhs_batch_dims",
    "rhs_contracting": "rhs_contracting_dims",
}


def _emit_dot(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    named = {name: operation.integers(key, optional=True) for name, key in _DOT.items()}
    lhs, rhs = operation.operands
    pairs = []
    for view, side in ((lhs, "lhs"), (rhs, "rhs")):
        dims = named[f"{side}_batch"] + named[f"{side}_contracting"]
        rank = len(view.shape.dims)
        fits = len(set(dims)) == len(dims) and all(dim < rank for dim in dims)
        operation.expect(fits, f"the dimensions of the {side} must be distinct and below {rank}")
        pairs.append(([view.shape.dims[dim] for dim in dims], _free(view, dims), named[f"{side}_batch"]))
    (left, left_free, batch), (right, right_free, rhs_batch) = pairs
    fits = left == right and len(batch) == len(rhs_batch)
    operation.expect(fits, "batch and contracting dimensions must agree")
    operation.expect(lhs.shape.dtype == rhs.shape.dtype, "the operands differ in type")
    result = (*(lhs.shape.dims[dim] for dim in batch), *left_free, *right_free)
    operation.expect_result(result, operation.results[0].shape.dtype)
    out.compute(operation, {name: list(dims) for name, dims in named.items() if dims})


def _free(view: View, taken: tuple[int, ...]) -> list[int]:
    return [extent for dim, extent in enumerate(view.shape.dims) if dim not in taken]


def _emit_convolution(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    labels = operation.attribute("dim_labels", attributes.dim_labels)
    window = operation.attribute("window", attributes.window, attributes.window(None))
    groups = operation.attribute("feature_group_count", _positive, 1)
    batch_groups = operation.attribute("batch_group_count", _positive, 1)
    lhs, rhs = operation.operands
    lhs_labels, _, rest = labels.partition("_")
    rhs_labels, _, out_labels = rest.partition("->")
    rank, spatial = len(lhs_labels), [str(dim) for dim in range(len(lhs_labels) - 2)]
    operation.expect(
        len(lhs.shape.dims) == len(rhs.shape.dims) == rank and len(window.size) == rank - 2,
        f"`dim_labels` and `window` must describe {rank} dimensions, {rank - 2} of them spatial",
    )
    operation.expect(lhs.shape.dtype == rhs.shape.dtype, "the operands differ in type")

    def extent(view: View, names: str, label: str) -> int:
        return view.shape.dims[names.index(label)]

    features, taken = extent(lhs, lhs_labels, "f"), extent(rhs, rhs_labels, "i")
    batch, outputs = extent(lhs, lhs_labels, "b"), extent(rhs, rhs_labels, "o")
    operation.expect(features == taken * groups, f"{features} features in {groups} groups need {taken} each")
    operation.expect(min(groups, batch_groups) == 1, "feature groups and batch groups exclude each other")
    operation.expect(outputs % (groups * batch_groups) == 0 and batch % batch_groups == 0, "the groups do not divide")
    kernel = tuple(extent(rhs, rhs_labels, label) for label in spatial)
    operation.expect(kernel == window.size, f"the window is {list(window.size)}, the kernel {list(kernel)}")
    places = extents(operation, tuple(extent(lhs, lhs_labels, label) for label in spatial), window)
    known = {"b": batch // batch_groups, "f": outputs, **dict(zip(spatial, places, strict=True))}
    result = tuple(known[label] for label in out_labels)
    operation.expect_result(result, operation.results[0].shape.dtype)
    attrs = _convolution_attrs(window)
    attrs["dim_labels"] = labels
    if groups > 1:
        attrs["feature_groups"] = groups
    if batch_groups > 1:
        attrs["batch_groups"] = batch_groups
    out.compute(operation, attrs)


def _convolution_attrs(window: Window) -> dict[str, AttrValue]:
    attrs = padding_attrs(window)
    if any(step != 1 for step in window.lhs_dilate):
        attrs["lhs_dilate"] = list(window.lhs_dilate)
    if any(step != 1 for step in window.rhs_dilate):
        attrs["rhs_dilate"] = list(window.rhs_dilate)
    if any(window.reversal):
        attrs["reverse"] = list(window.reversal)
    return attrs


def _positive(value: Excerpt) -> int:
    return attributes.integer(value, 1)


RULES = {
    "dot": Rule(_emit_dot, tuple(_DOT.values())),
    "convolution": Rule(_emit_convolution, ("window", "dim_labels", "feature_group_count", "batch_group_count")),
}
