"""Sums over windows as products of matrices: the windows at some positions are gathered, then multiplied at once.

The gathered matrix has a row a position and a column for each tap and input feature. It is made piece by piece, each
of a size that stays in the cache of one core: a pass over memory costs more than the product. A piece is two calls of
NumPy, both without Python's lock, so cores that convolve at the same time do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulout.sim.numerics.types import Array
from haulout.sim.numerics.window import WindowDim

PIECE = 1 << 20
"""Bytes of gathered windows, if one line of positions is not more. Twice the kernel if that is more, since each piece
reads all of it.
"""


def windows_product(base: Array, weights: Array, dims: tuple[WindowDim, ...]) -> Array:
    """[group, batch, padded space, input] and [group, output, input, taps] to [group, batch, positions, output]."""
    groups, batch, features = *base.shape[:2], base.shape[-1]
    outputs, taps = weights.shape[1], tuple(dim.size for dim in dims)
    positions = tuple(dim.positions for dim in dims)
    shape, width = (groups, batch, *positions, outputs), prod(taps) * features
    if not prod(shape) or not width:
        return np.zeros(shape, base.dtype)
    result = np.empty(shape, base.dtype)
    right = np.moveaxis(weights, (1, 2), (-1, -2)).reshape(groups, width, outputs)
    space = base.strides[2:-1]
    windows = as_strided(
        base,
        (groups, batch, *positions, *taps, features),
        (
            *base.strides[:2],
            *(dim.stride * step for dim, step in zip(dims, space, strict=True)),
            *(dim.dilation * step for dim, step in zip(dims, space, strict=True)),
            base.strides[-1],
        ),
        writeable=False,
    )
    most = max(PIECE, 2 * right.nbytes) // (groups * width * base.itemsize)
    room = np.zeros(0, base.dtype)
    for index in _pieces((batch, *positions), most):
        seen, out = windows[:, *index], result[:, *index]
        if room.size < seen.size:
            room = np.empty(seen.size, base.dtype)
        gathered = room[: seen.size].reshape(seen.shape)
        np.copyto(gathered, seen)
        rows = prod(out.shape[1:-1])
        np.matmul(gathered.reshape(groups, rows, width), right, out=out.reshape(groups, rows, outputs))
    return result


def _pieces(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the first two axes that cut an array into neighbouring pieces of at most so many elements.

    More where that is needed for one element of the second axis.
    """
    batch, *rest = shape
    first, inner = (rest[0], prod(rest[1:])) if rest else (1, 1)
    if first * inner <= most or not rest:
        for low, high in _cuts(batch, max(1, most // (first * inner))):
            yield slice(low, high), slice(None)
        return
    for at in range(batch):
        for low, high in _cuts(first, max(1, most // inner)):
            yield slice(at, at + 1), slice(low, high)


def _cuts(extent: int, most: int) -> Iterator[tuple[int, int]]:
    """The bounds of parts of at most so many, as equal as they can be."""
    count = -(-extent // most)
    return pairwise(extent * part // count for part in range(count + 1))
