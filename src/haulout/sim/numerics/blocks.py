"""Cutting an array into blocks that fit a cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import prod
from types import EllipsisType
from typing import TypeAlias

Index: TypeAlias = tuple[slice | EllipsisType, ...]


def blocks(shape: tuple[int, ...], limit: int, whole: int = 0) -> Iterator[Index]:
    """Indices that cut an array into blocks of less than two times `limit` elements, none of a single one.

    The last `whole` dimensions are not cut; where they have more elements than the limit, so has a block.
    """
    axis = len(shape) - whole
    inner = prod(shape[axis:])
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (...,)
        return
    extent = shape[axis - 1]
    pieces = min(extent, -(-extent * inner // limit))
    bounds = [extent * piece // pieces for piece in range(pieces + 1)]
    outer = [[slice(at, at + 1) for at in range(extent)] for extent in shape[: axis - 1]]
    yield from product(*outer, [slice(low, high) for low, high in pairwise(bounds)], [...])
