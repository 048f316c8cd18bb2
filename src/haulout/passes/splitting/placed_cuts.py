"""Cuts along dimensions whose indices depend on each other, or on where they are.

windows     a part reads what its windows see, which may be what other parts see, too: nothing is copied, the
            boxes overlap. Its padding is that of its own windows, `low` and `high` of a `pad` among it. Windows of
            a `select_and_scatter` may not overlap, as two of them add to one element
groups      of a convolution: whole groups, or the same places in each of them
counting    along its dimension a part of an `iota` begins at an index of its own
sizes       of slices are those of the part
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from haulout.ir.attributes import AttrValue, int_list
from haulout.ir.axes import Shape, followed_axes, windows
from haulout.ir.opcodes import Axes, lookup
from haulout.passes.splitting.keys import Interval, Share

Attrs = dict[str, AttrValue]


class PlacedCut(NamedTuple):
    """A cut of `extent` units."""

    extent: int
    shares: tuple[Share | None, ...]
    """Of each operand."""
    counted: str = ""
    """The attribute that has the number of units, if one has."""


def placed_cuts(opcode: str, attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> Iterator[PlacedCut]:
    """Those of an instruction, in the order of the dimensions of its results."""
    rule = lookup(opcode).axes
    if rule is Axes.COUNTED:
        for dim, extent in enumerate(writes[0]):
            if dim == attrs.get("dim"):
                yield PlacedCut(extent, (Share(dim),))
    elif rule in (Axes.PADDED, Axes.WINDOW, Axes.CONVOLUTION):
        if rule is Axes.CONVOLUTION:
            yield from _groups(attrs, reads, writes)
        yield from _halos(opcode, attrs, reads, writes)
    elif rule is Axes.NO_WINDOW:
        yield from _tiles(opcode, attrs, reads)


def _halos(opcode: str, attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> Iterator[PlacedCut]:
    """Along dimensions in which a window slides."""
    followed = followed_axes(opcode, attrs, reads, writes) or []
    for dim, window in windows(opcode, attrs, reads).items():
        result = followed[0][dim]
        if window.is_trivial or result < 0 or not reads[0][dim]:
            continue
        block = window.stride if window.tiles(reads[0][dim], writes[0][result]) else 1
        # Of each operand that slides; those of the kernel and initial values are needed whole.
        arrays = [
            Share(dim, block, 0, window) if shape == reads[0] and follows == followed[0] else None
            for shape, follows in zip(reads, followed, strict=True)
        ]
        yield PlacedCut(writes[0][result], (*arrays, *[Share(result)] * len(writes)))


def _tiles(opcode: str, attrs: Attrs, reads: Sequence[Shape]) -> Iterator[PlacedCut]:
    """Along dimensions that windows cover without a rest and without overlap."""
    for dim, window in windows(opcode, attrs, reads).items():
        x, source = reads[0][dim], reads[1][dim]
        if not window.is_trivial and window.tiles(x, source) and not window.high:
            tile = Share(dim, window.stride)
            yield PlacedCut(source, (tile, Share(dim), None, tile))


def _groups(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> Iterator[PlacedCut]:
    """Of a convolution: a part of the groups; then the same places in each group."""
    image, _, rest = str(attrs["dim_labels"]).partition("_")
    kernel, _, result = rest.partition("->")
    b, f, o = image.index("b"), image.index("f"), kernel.index("o")
    of_result = {label: (result.index(label), writes[0][result.index(label)]) for label in "bf"}
    features, count = of_result["f"]
    for name, dim in (("feature_groups", f), ("batch_groups", b)):
        groups = attrs.get(name, 1)
        if not isinstance(groups, int) or groups <= 1 or count % groups or reads[0][dim] % groups:
            continue
        each = count // groups
        shares = Share(dim, reads[0][dim] // groups), Share(o, each), Share(features, each)
        yield PlacedCut(groups, shares, name)
        yield PlacedCut(each, (None, Share(o), Share(features)))
        if name == "batch_groups":
            images, extent = of_result["b"]
            yield PlacedCut(extent, (Share(b), None, Share(images)))
        else:
            yield PlacedCut(reads[0][b], (Share(b), None, Share(of_result["b"][0])))


def placed_attrs(
    opcode: str,
    attrs: Attrs,
    shares: Sequence[Share | None],
    interval: Interval,
    reads: Sequence[Shape],
    boxes: Sequence[Shape],
) -> Attrs:
    """The attributes of a part that depend on its place and size; `reads` are the shapes of the whole operands."""
    rule, share = lookup(opcode).axes, shares[0] if shares else None
    if share is None:
        return {}
    if rule is Axes.COUNTED and share.dim == attrs.get("dim"):
        start = attrs.get("start", 0)
        return {"start": (start if isinstance(start, int) else 0) + interval[0]}
    for name, sliced in (("sizes", "dynamic_slice"), ("slice_sizes", "gather")):
        if opcode == sliced:
            sizes = int_list(attrs.get(name, [])) or []
            if sizes[share.dim] == reads[0][share.dim]:  # else a batching dimension
                return {name: _replaced(sizes, share.dim, boxes[0][share.dim])}
    if share.window is None:
        return {}
    window, rank = share.window, len(reads[0]) - (2 if rule is Axes.CONVOLUTION else 0)
    _, _, low, high = window.seen(*interval, reads[0][share.dim])
    found: Attrs = {}
    for name, value in zip(
        ("low", "high") if rule is Axes.PADDED else ("pad_low", "pad_high"), (low, high), strict=True
    ):
        values = int_list(attrs.get(name, [])) or [0] * rank
        found[name] = _replaced(values, window.place, value)
    return found


def _replaced(values: Sequence[int], at: int, value: int) -> list[AttrValue]:
    return [*values[:at], value, *values[at + 1 :]]
