"""What an access through a view touches: its bytes as patterns, and the elements that known indices choose.

An index that is not known yet reaches the base pattern plus `k` strides, for each `k` of its range.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.byte_sets import inside, operand_bytes, shifted_bytes, touched
from haulout.frontends.nki.index_arrays import check_grid
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.values import Array, decode, flat_index
from haulout.ir.patterns import Pattern

MAX_ROWS = 128
"""Rows of a gather whose indices are known that are listed one by one."""


class Bytes(NamedTuple):
    """What an operand touches."""

    patterns: tuple[Pattern | None, ...]
    """None: the whole storage."""
    maybe: bool
    """Not all of these bytes, and it is not known which."""


def accessed(tensor: Tensor) -> Bytes:
    """The bytes that an access through a view touches."""
    size, item = tensor.storage.size, tensor.itemsize
    if tensor.grid is not None and session.is_tracing():
        check_grid(tensor, tensor.extents, repr(tensor.storage.name))
    if tensor.indirect is None:
        return Bytes((operand_bytes(tensor.offset, tensor.strides, tensor.shape, item, size),), False)
    index, vector = tensor.indirect.index, tensor.indirect.vector
    stride, extent = tensor.indirect.stride, tensor.indirect.extent
    base = tensor.base()
    known = known_indices(index, tensor.shape[0] if vector else 1)
    if known is None:
        within = index.storage.within if isinstance(index, Tensor) else None
        if within is not None and 0 <= within[0] < within[1]:
            base = base._replace(offset=base.offset + within[0] * stride * item)
            extent = within[1] - within[0]
        reached = shifted_bytes(base, stride * item, extent, size)
        return Bytes((inside(reached, size),), reached != base)
    moves = sorted({at * stride * item for at in known})
    places = [base.offset + move for move in moves]
    low, high = base.hull
    fitting = [place for place in places if place - base.offset + low >= 0 and place - base.offset + high <= size]
    if not fitting:
        return Bytes((), False)
    steps = {second - first for first, second in pairwise(fitting)}
    if len(steps) <= 1:
        dims = (*base.dims, (next(iter(steps), 1), len(fitting)))
        return Bytes((inside(touched(fitting[0], base.run, dims), size),), False)
    if len(fitting) > MAX_ROWS:
        return Bytes((reach(tensor),), True)
    return Bytes(tuple(inside(Pattern(place, base.run, base.dims), size) for place in fitting), False)


def reach(tensor: Tensor) -> Pattern | None:
    """The bytes that some index reaches; None: the whole storage."""
    if tensor.indirect is None:
        return accessed(tensor).patterns[0]
    size, step = tensor.storage.size, tensor.indirect.stride * tensor.itemsize
    return inside(shifted_bytes(tensor.base(), step, tensor.indirect.extent, size), size)


def known_indices(index: Tensor | VirtualRegister, count: int) -> list[int] | None:
    """The first `count` values of an index when all of them are known while tracing."""
    if isinstance(index, VirtualRegister):
        return None if index.value is None else [index.value]
    if index.storage.values is None or index.indirect is not None or index.size < count:
        return None
    where = positions(index)
    if where is None:
        return None
    numbers = decode(index.storage.values.read(where, index.itemsize), index.dtype).ravel()[:count]
    if not (numbers % 1 == 0).all():
        return None
    return [int(number) for number in numbers.tolist()]


def positions(tensor: Tensor) -> Array | None:
    """Flat positions of the elements of a view, in elements of its type; None when an index is not known, or when
    the view leaves its storage."""
    if tensor.indirect is None:
        found = flat_index(tensor.offset, tensor.strides, tensor.shape)
    else:
        vector, stride = tensor.indirect.vector, tensor.indirect.stride
        known = known_indices(tensor.indirect.index, tensor.shape[0] if vector else 1)
        if known is None:
            return None
        strides = (0, *tensor.strides[1:]) if vector else tensor.strides
        moves = np.asarray(known, float).reshape(-1, *[1] * (len(tensor.shape) - 1)) * stride
        if np.abs(moves).max() > tensor.storage.size:
            return None
        found = flat_index(tensor.offset, strides, tensor.shape) + moves.astype(np.int64)
    inside = found.size > 0 and found.min() >= 0 and (int(found.max()) + 1) * tensor.itemsize <= tensor.storage.size
    return found if inside else None


def leaving(tensor: Tensor) -> list[tuple[int, int, int, int]]:
    """Known indices that move an access out of its storage: (position, index, first byte, end byte)."""
    if tensor.indirect is None:
        return []
    known = known_indices(tensor.indirect.index, tensor.shape[0] if tensor.indirect.vector else 1)
    if known is None:
        return []
    low, high = tensor.base().hull
    step = tensor.indirect.stride * tensor.itemsize
    moved = ((at, each, low + each * step, high + each * step) for at, each in enumerate(known))
    return [each for each in moved if each[2] < 0 or each[3] > tensor.storage.size]
