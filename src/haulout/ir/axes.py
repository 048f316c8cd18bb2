"""Which dimension of the result each dimension of an operand follows: what splitting an operation has to know.

A part of an operation computes an interval of one dimension of its results. Of an operand it needs, along a dimension
that follows this one, the same interval (in proportion, where a convolution has groups; and what windows or padding
reach beyond it); of every other operand, and along every other dimension, all.

    d >= 0       it follows dimension d of the results
    CONTRACTED   it may be cut as well, and each part gives a partial result
    WHOLE        it is always needed whole

Where windows slide, `windows` tells what a part needs beyond its interval. The rules are those of `Axes`. They are
for instructions that are well formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from haulout.ir.attributes import AttrValue, int_list
from haulout.ir.opcodes import Axes, lookup

CONTRACTED = -2
WHOLE = -1

Attrs = Mapping[str, AttrValue]
Shape = tuple[int, ...]
Followed = tuple[int, ...]
"""For each dimension of an operand what it follows."""


def followed_axes(
    opcode: str, attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]
) -> list[Followed] | None:
    """For each operand that is read; None: the opcode has no rule."""
    rule = _RULES.get(lookup(opcode).axes)
    return None if rule is None else rule(attrs, reads, writes)


@dataclass(frozen=True, slots=True)
class Window:
    """How a window slides along a dimension of an array; lengths in elements.

    Its elements are spread, `base` apart, and padded; negative padding cuts. The taps of the window are `dilation`
    apart. `pad` is a window of one tap.
    """

    place: int
    """In the lists of the attributes."""
    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    dilation: int = 1

    @property
    def is_trivial(self) -> bool:
        """Whether each element of the result sees the same index alone."""
        return self == Window(self.place, dilation=self.dilation)

    def tiles(self, extent: int, positions: int) -> bool:
        """Whether each of `positions` windows sees nothing but its own `stride` of `extent` elements."""
        apart = (self.size - 1) * self.dilation < self.stride and not self.low and self.base == 1
        return apart and extent == positions * self.stride

    def seen(self, begin: int, end: int, extent: int) -> tuple[int, int, int, int]:
        """What the windows `begin:end` need of `extent` elements: begin, end, and the padding on both sides.

        It is one element at least, which negative padding cuts off if the windows see padding only.
        """
        first = begin * self.stride - self.low
        stop = (end - 1) * self.stride + (self.size - 1) * self.dilation + 1 - self.low
        low = min(max(-(-first // self.base), 0), extent - 1)
        high = max(min(-(-stop // self.base), extent), low + 1)
        return low, high, low * self.base - first, stop - ((high - 1) * self.base + 1)


def windows(opcode: str, attrs: Attrs, reads: Sequence[Shape]) -> dict[int, Window]:
    """Those that slide along dimensions of the first operand, by dimension."""
    rule = lookup(opcode).axes
    if rule is Axes.PADDED:
        return {
            dim: Window(dim, low=_entry(attrs, "low", dim, 0), high=_entry(attrs, "high", dim, 0), base=gap + 1)
            for dim in range(len(reads[0]))
            if (gap := _entry(attrs, "interior", dim, 0)) >= 0
        }
    if rule in (Axes.WINDOW, Axes.NO_WINDOW):
        return {dim: _slides(attrs, dim, None, "base_dilate", "window_dilate") for dim in range(len(reads[0]))}
    if rule is Axes.CONVOLUTION:
        image, _, rest = str(attrs["dim_labels"]).partition("_")
        return {
            image.index(label): _slides(attrs, int(label), reads[1][dim], "lhs_dilate", "rhs_dilate")
            for dim, label in enumerate(rest.partition("->")[0])
            if label.isdecimal()
        }
    return {}


def _slides(attrs: Attrs, place: int, size: int | None, base: str, dilation: str) -> Window:
    names = (("size", 1), ("stride", 1), ("pad_low", 0), ("pad_high", 0), (base, 1), (dilation, 1))
    found = [_entry(attrs, name, place, default) for name, default in names]
    found[0] = found[0] if size is None else size
    taps, stride, low, high, spread, apart = found
    return Window(place, taps, max(stride, 1), low, high, max(spread, 1), max(apart, 1))


def _entry(attrs: Attrs, name: str, place: int, default: int) -> int:
    values = _list(attrs, name)
    return values[place] if place < len(values) else default


def _list(attrs: Attrs, key: str) -> list[int]:
    return int_list(attrs.get(key, [])) or []


def _same(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    return [_all(shape) if shape == writes[0] or prod(shape) != 1 else _whole(shape) for shape in reads]


def _all(shape: Shape) -> Followed:
    return tuple(range(len(shape)))


def _whole(shape: Shape) -> Followed:
    return (WHOLE,) * len(shape)


def _result(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    return [_whole(shape) for shape in reads]


def _placed(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    return [tuple(_list(attrs, "dims"))]


def _first(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    return [_all(reads[0]), *map(_whole, reads[1:])]


def _dot(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    free = len(_list(attrs, "lhs_batch"))
    found = []
    for side, shape in zip(("lhs", "rhs"), reads, strict=True):
        batch, contracted = _list(attrs, f"{side}_batch"), _list(attrs, f"{side}_contracting")
        follows = []
        for dim in range(len(shape)):
            if dim in contracted:
                follows.append(CONTRACTED)
            elif dim in batch:
                follows.append(batch.index(dim))
            else:
                follows.append(free)
                free += 1
        found.append(tuple(follows))
    return found


def _convolution(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    image, _, rest = str(attrs["dim_labels"]).partition("_")
    kernel, _, result = rest.partition("->")
    grouped = attrs.get("feature_groups", 1) != 1
    of_image = {label: result.index(label) for label in image}
    if attrs.get("batch_groups", 1) != 1:
        # Outputs of one group need the images of one group only: neither dimension follows by itself.
        of_image |= {"b": WHOLE}
        return [tuple((of_image | {"f": WHOLE})[each] for each in image), _whole(reads[1])]
    of_image["f"] = result.index("f") if grouped else CONTRACTED
    of_kernel = {"o": result.index("f"), "i": WHOLE if grouped else CONTRACTED}
    return [tuple(of_image[each] for each in image), tuple(of_kernel.get(each, WHOLE) for each in kernel)]


def _kept(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    dims = _list(attrs, "dims")
    count = len(reads) - len(writes)  # one initial value a result
    rank = len(writes[0]) + len(dims)
    kept = [dim for dim in range(rank) if dim not in dims]
    follows = tuple(CONTRACTED if dim in dims else kept.index(dim) for dim in range(rank))
    return [follows if shape else () for shape in reads[:count]] + [_whole(shape) for shape in reads[count:]]


def _window(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    count = len(reads) // 2
    return [*map(_all, reads[:count]), *map(_whole, reads[count:])]


def _no_window(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    slides = windows("select_and_scatter", attrs, reads)
    whole = tuple(dim if slides[dim].is_trivial else WHOLE for dim in range(len(reads[0])))
    return [whole, whole, _whole(reads[2])]


def _reinterpreted(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    rank = min(len(reads[0]), len(writes[0]))
    return [tuple(dim if dim < rank else WHOLE for dim in range(len(reads[0])))]


def _lines(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    line = attrs.get("dim", len(reads[0]) - 1)
    return [tuple(WHOLE if dim == line else dim for dim in range(len(shape))) for shape in reads]


def _taken_whole(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    piece = writes[0] if "sizes" in attrs else reads[1]
    follows = tuple(
        dim if size == extent else WHOLE for dim, (size, extent) in enumerate(zip(piece, reads[0], strict=True))
    )
    return [follows if shape else () for shape in reads]


def _gathered(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    x, indices = reads
    offset, sizes = _list(attrs, "offset_dims"), _list(attrs, "slice_sizes")
    batching, theirs = _list(attrs, "operand_batching_dims"), _list(attrs, "start_indices_batching_dims")
    vector = attrs.get("index_vector_dim", len(indices))
    places = iter(dim for dim in range(len(writes[0])) if dim not in offset)
    of_indices = [WHOLE if dim == vector else next(places) for dim in range(len(indices))]
    window = iter(sorted(offset))
    dropped = [*_list(attrs, "collapsed_slice_dims"), *batching]
    of_x = []
    for dim, extent in enumerate(x):
        place = WHOLE if dim in dropped else next(window)
        if dim in batching:
            of_x.append(of_indices[theirs[batching.index(dim)]])
        else:
            of_x.append(place if sizes[dim] == extent else WHOLE)
    return [tuple(of_x), tuple(of_indices)]


def _scattered(attrs: Attrs, reads: Sequence[Shape], writes: Sequence[Shape]) -> list[Followed]:
    count = len(reads) // 2
    x, indices, update = reads[0], reads[count], reads[count + 1]
    batching, theirs = _list(attrs, "input_batching_dims"), _list(attrs, "scatter_indices_batching_dims")
    window = _list(attrs, "update_window_dims")
    vector = attrs.get("index_vector_dim", len(indices))
    of_x, of_indices, of_update = [WHOLE] * len(x), [WHOLE] * len(indices), [WHOLE] * len(update)
    dropped = [*_list(attrs, "inserted_window_dims"), *batching]
    kept = [dim for dim in range(len(x)) if dim not in dropped]
    for dim, place in zip(kept, sorted(window), strict=True):
        if update[place] == x[dim]:
            of_x[dim] = of_update[place] = dim
    places = [dim for dim in range(len(update)) if dim not in window]
    batch = [dim for dim in range(len(indices)) if dim != vector]
    for dim, other in zip(batching, theirs, strict=True):
        of_x[dim] = of_indices[other] = of_update[places[batch.index(other)]] = dim
    return [tuple(of_x)] * count + [tuple(of_indices)] + [tuple(of_update)] * count


_RULES: dict[Axes, Callable[[Attrs, Sequence[Shape], Sequence[Shape]], list[Followed]]] = {
    Axes.SAME: _same,
    Axes.RESULT: _result,
    Axes.PLACED: _placed,
    Axes.PADDED: _first,
    Axes.DOT: _dot,
    Axes.CONVOLUTION: _convolution,
    Axes.KEPT: _kept,
    Axes.WINDOW: _window,
    Axes.NO_WINDOW: _no_window,
    Axes.REINTERPRETED: _reinterpreted,
    Axes.LINES: _lines,
    Axes.TAKEN_WHOLE: _taken_whole,
    Axes.GATHERED: _gathered,
    Axes.SCATTERED: _scattered,
}
