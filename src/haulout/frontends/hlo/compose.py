"""Views of an array that is not stored, as views of the arrays that it is made of.

Element i of an element-wise result is made of element i of each operand, where i is an index vector of the result's
dimensions. A reader sees the result through a view: other dimensions, an offset and strides. `through` gives the view
of an operand that has the same elements in the reader's order. Each of the reader's dimensions becomes steps along
the result's dimensions, with the digits of its stride in the mixed radix of their sizes.
"""

from __future__ import annotations

from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Layout, View
from haulout.frontends.hlo.views import seen, strides_of
from haulout.ir.patterns import row_major_strides

Dims = tuple[int, ...]


def repeats(view: View) -> bool:
    """Whether it names some element more than once, in steps of stride 0."""
    steps = strides_of(view)
    return any(not step and extent > 1 for step, extent in zip(steps, view.shape.dims, strict=True))


def single(view: View) -> View:
    """One element as a view without dimensions, where all elements of the view are the same one."""
    steps = strides_of(view)
    if any(step and extent > 1 for step, extent in zip(steps, view.shape.dims, strict=True)):
        return view
    shape = Shape(view.shape.dtype, ())
    offset = view.layout.offset if view.layout else 0
    whole = view.array.shape.count == 1
    return View(view.array, shape, None if whole else Layout(offset, (), view.motion))


def through(operand: View, dims: Dims, reader: View) -> View | None:
    """An operand of a result of extents `dims`, as a reader of the result sees it; None: strides cannot say it.

    The operand has these extents, or is one element for all. No element of the result is read twice (`repeats`), and
    the reader's view does not move.
    """
    if not operand.shape.dims:
        return operand
    if reader.layout is None and reader.shape.dims == dims:
        return operand
    if reader.motion is not None:
        return None
    item = reader.itemsize
    start = (reader.layout.offset if reader.layout else 0) // item
    steps = [step // item for step in strides_of(reader)]
    if operand.layout is None:
        offset = start * operand.itemsize
        return seen(operand, reader.shape.dims, [step * operand.itemsize for step in steps], offset)
    digits = _Digits(dims, strides_of(operand), start)
    found = [digits.step(*each) for each in zip(steps, reader.shape.dims, strict=True)]
    strides = [stride for stride in found if stride is not None]
    if len(strides) != len(found) or not digits.inside():
        return None
    return seen(operand, reader.shape.dims, strides, digits.offset)


class _Digits:
    """Places in a result of some extents, and where they are in an operand."""

    def __init__(self, dims: Dims, strides: tuple[int, ...], start: int) -> None:
        self.dims, self.strides = dims, strides
        self.unit = row_major_strides(dims, 1)
        self.low = [start // unit % extent for unit, extent in zip(self.unit, dims, strict=True)]
        self.high = list(self.low)
        """The lowest and the highest index along each dimension."""
        self.offset = sum(index * stride for index, stride in zip(self.low, strides, strict=True))

    def step(self, stride: int, extent: int) -> int | None:
        """The operand's stride for `extent` steps of `stride` elements of the result; None: there is none."""
        if extent == 1:
            return 0
        sign = 1 if stride > 0 else -1
        rest, first, before = abs(stride), None, 0
        while extent > 1:
            dim = next((at for at, unit in enumerate(self.unit) if unit <= rest < unit * self.dims[at]), None)
            if dim is None or rest % self.unit[dim]:
                return None
            digit = rest // self.unit[dim]
            count = extent
            if digit * (extent - 1) >= self.dims[dim]:  # it goes on along a slower dimension
                count = self.dims[dim] // digit
                if self.dims[dim] % digit or extent % count:
                    return None
            stride_here = sign * digit * self.strides[dim]
            if first is None:
                first = stride_here
            elif stride_here != before:
                return None
            before = stride_here * count
            reach = sign * digit * (count - 1)
            self.low[dim] += min(reach, 0)
            self.high[dim] += max(reach, 0)
            rest, extent = rest * count, extent // count
        return first

    def inside(self) -> bool:
        """Whether no step carries into another dimension."""
        bounds = zip(self.low, self.high, self.dims, strict=True)
        return all(low >= 0 and high < extent for low, high, extent in bounds)
