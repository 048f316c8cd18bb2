"""Products of f32 matrices with one order of sums: a part of the rows or columns has the bits of the whole.

OpenBLAS sums the products of an element in chains of one product after the other, whose lengths depend on the
contracted extent alone, and adds the chains. That is the order here. But other kernels have other orders:

    one row or one column            a kernel for vectors; so there are two here
    up to a million multiplications  a kernel for small matrices. It does not cut chains, so they are cut here. It
                                     sums rows of the left side in several parts, so that side is given by columns

This is so on machines with AVX-512; on others OpenBLAS has other kernels, and parts may differ in the last bits.
"""

from __future__ import annotations

import numpy as np

from haulout.sim.numerics.dtypes import F32
from haulout.sim.numerics.scratch import Take, scratch
from haulout.sim.numerics.types import Array

_CHAIN = 448
"""The products that OpenBLAS sums in one chain at most."""
_STEP = 16
"""Where two chains remain, the first one's length is half of them, rounded up to a multiple of this."""
_SMALL = 1 << 20
"""From so many multiplications on, OpenBLAS uses no kernel for small matrices."""


def multiply(left: Array, right: Array, out: Array) -> None:
    """The product of stacks of matrices, written to `out`, which shares no bytes with them."""
    rows, inner = left.shape[-2:]
    columns = right.shape[-1]
    if out.dtype != F32 or inner < 2 or not out.size:
        np.matmul(left, right, out=out)
        return
    is_small = rows * inner * columns < _SMALL
    if not is_small and rows > 1 and columns > 1:
        np.matmul(left, right, out=out)
        return
    with scratch() as take:
        if rows == 1 or (is_small and left.strides[-2] != left.itemsize):
            left = _by_columns(left, take)
        if columns == 1:
            right = _twice(right, take)
        shape = (*out.shape[:-2], left.shape[-2], right.shape[-1])
        total = out if shape == out.shape else take(shape, out.dtype)
        chains = _chains(inner) if is_small else [(0, inner)]
        for begin, end in chains:
            part = total if begin == 0 else take(shape, out.dtype)
            np.matmul(left[..., begin:end], right[..., begin:end, :], out=part)
            if begin:
                total += part
        if total is not out:
            np.copyto(out, total[..., :rows, :columns])


def _chains(extent: int) -> list[tuple[int, int]]:
    """Where OpenBLAS begins and ends the chains of an element."""
    found, begin = [], 0
    while begin < extent:
        length = extent - begin
        if length >= 2 * _CHAIN:
            length = _CHAIN
        elif length > _CHAIN:
            length = -(-(length // 2) // _STEP) * _STEP
        found.append((begin, begin + length))
        begin += length
    return found


def _by_columns(left: Array, take: Take) -> Array:
    """The matrices column by column; a single row twice."""
    rows, inner = left.shape[-2:]
    turned = take((*left.shape[:-2], inner, max(rows, 2)), left.dtype)
    np.copyto(turned, left.swapaxes(-1, -2))
    return turned.swapaxes(-1, -2)


def _twice(right: Array, take: Take) -> Array:
    """Matrices of one column, with a second one."""
    wide = take((*right.shape[:-1], 2), right.dtype)
    np.copyto(wide, right)
    return wide
