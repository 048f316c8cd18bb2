"""The geometry of a window that slides along the dimensions of an array.

Along one dimension: the array is spread out (`base_dilation - 1` holes between neighbours), padded (or cut,
when the padding is negative), and a window of `size` taps, `dilation` apart, moves over it in steps of
`stride`.

    array      a b c        base_dilation 2:  a . b . c        pad 1, 0:  . a . b . c
    window     size 2, dilation 2: taps 0 and 2     stride 3:   positions 0 and 3

Convolutions, reduce_window and select_and_scatter share it.
"""

from __future__ import annotations

from dataclasses import dataclass

from haulout.sim.numerics import attributes
from haulout.sim.numerics.types import Attrs
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class WindowDim:
    """A window along one dimension of an array of `extent` elements."""

    extent: int
    size: int
    stride: int
    pad_low: int
    pad_high: int
    base_dilation: int
    dilation: int

    @property
    def padded(self) -> int:
        """Elements after spreading and padding."""
        spread = (self.extent - 1) * self.base_dilation + 1 if self.extent else 0
        return max(0, spread + self.pad_low + self.pad_high)

    @property
    def is_identity(self) -> bool:
        """Whether each position sees one element, its own."""
        return self.size == self.stride == self.base_dilation == 1 and self.pad_low == self.pad_high == 0

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last, both included."""
        return (self.size - 1) * self.dilation + 1

    @property
    def positions(self) -> int:
        """How many places the window stops at."""
        return 0 if self.reach > self.padded else (self.padded - self.reach) // self.stride + 1

    def positions_of_tap(self, tap: int) -> slice:
        """What one tap covers, over all positions, in padded coordinates."""
        first, count = tap * self.dilation, self.positions
        return slice(first, first + self.stride * (count - 1) + 1 if count else first, self.stride)

    @property
    def taps(self) -> range:
        """The taps that see an element of the array at some position, not only padding."""
        last_seen = (self.extent - 1) * self.base_dilation + self.pad_low
        first_seen = self.pad_low - (self.positions - 1) * self.stride
        first = max(0, -(-first_seen // self.dilation))
        return range(first, min(self.size, last_seen // self.dilation + 1))

    def taps_at(self, position: int) -> slice:
        """What all taps see at one position, in padded coordinates."""
        first = position * self.stride
        return slice(first, first + self.reach, self.dilation)


def parse(
    attrs: Attrs, extents: tuple[int, ...], base_dilation: str, dilation: str, sizes: tuple[int, ...] | None = None
) -> tuple[WindowDim, ...]:
    """The window over dimensions of these extents; a convolution has other names for the two dilations.

    `sizes` replaces the attribute `size` where the operands already tell it.
    """
    rank = len(extents)
    ones, zeros = (1,) * rank, (0,) * rank
    size = attributes.integers(attrs, "size", sizes)
    columns = [
        size,
        attributes.integers(attrs, "stride", ones),
        attributes.integers(attrs, "pad_low", zeros),
        attributes.integers(attrs, "pad_high", zeros),
        attributes.integers(attrs, base_dilation, ones),
        attributes.integers(attrs, dilation, ones),
    ]
    if any(len(column) != rank for column in columns):
        bad_input(f"the window needs {rank} numbers in each of its attributes, one a dimension")
    dims = tuple(WindowDim(*row) for row in zip(extents, *columns, strict=True))
    for dim in dims:
        if min(dim.size, dim.stride, dim.base_dilation, dim.dilation) < 1:
            bad_input("the sizes, strides and dilations of a window are at least 1")
    return dims


def check_positions(dims: tuple[WindowDim, ...], expected: tuple[int, ...]) -> None:
    """`bad-input` unless the window stops at as many places as the result has elements."""
    found = tuple(dim.positions for dim in dims)
    if found != expected:
        bad_input(f"the window stops at {list(found)} places, the result has {list(expected)}")
