"""`dot` and `convolution`, on the engine pe. Attributes that have their default are left out."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.attributes import Window
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.ops.windows import extents, padding_attrs
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.values import Operation, View
from haulout.frontends.hlo.views import dense_order, dot_dims, seen, strides_of
from haulout.ir.attributes import AttrValue


def _emit_dot(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    sides = list(zip(("lhs", "rhs"), operation.operands, dot_dims(operation), strict=True))
    for side, view, named in sides:
        dims = named["batch"] + named["contracting"]
        fits = len(set(dims)) == len(dims) and all(dim < len(view.shape.dims) for dim in dims)
        operation.expect(fits, f"the dimensions of the {side} must be distinct and below {len(view.shape.dims)}")
    extents = [
        [[view.shape.dims[dim] for dim in named[kind]] for _, view, named in sides]
        for kind in ("batch", "contracting")
    ]
    operation.expect(all(lhs == rhs for lhs, rhs in extents), "batch and contracting dimensions must agree")
    lhs, rhs = operation.operands
    operation.expect(lhs.shape.dtype == rhs.shape.dtype, "the operands differ in type")
    free = [extent for _, view, named in sides for extent in _free(view, named["batch"] + named["contracting"])]
    operation.expect_result((*extents[0][0], *free), operation.results[0].shape.dtype)
    attrs: dict[str, AttrValue] = {}
    operands: list[View] = []
    for side, view, named in sides:
        order = dense_order(view, named)
        if order is not None:
            view = seen(view, [view.shape.dims[dim] for dim in order], [strides_of(view)[dim] for dim in order])
        for kind, dims in named.items():
            if dims:
                attrs[f"{side}_{kind}"] = [dim if order is None else order.index(dim) for dim in dims]
        operands.append(view)
    out.compute(operation, attrs, operands)


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
    "dot": Rule(
        _emit_dot, tuple(f"{side}_{kind}_dims" for side in ("lhs", "rhs") for kind in ("batch", "contracting"))
    ),
    "convolution": Rule(_emit_convolution, ("window", "dim_labels", "feature_group_count", "batch_group_count")),
}
