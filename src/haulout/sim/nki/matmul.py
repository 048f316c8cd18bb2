"""The tensor engine: `nc_matmul`, `nc_transpose`.

    dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n]

in float32; the products of narrower floats are exact in it. With `accumulate=None` the first matrix multiplication
that writes an element of PSUM after its allocation overwrites it, and later ones add to it.
"""

from __future__ import annotations

import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.places import Place
from haulout.sim.nki.types import to_f32
from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input


def nc_matmul(call: Call) -> None:
    """`nc_matmul`, and its mode `double_row`: the sum is over two rows of each partition, too."""
    dst, stationary, moving = call.place("dst"), call.place("stationary"), call.place("moving")
    accumulate = call.args.get("accumulate")
    if call.flag("is_transpose"):
        found = stationary.rows().T
        if found.dtype != dst.dtype:
            found = to_f32(found)
        (dst.put if found.dtype == dst.dtype else dst.store)(found)
        _mark(dst, call)
        return
    mode = call.word("perf_mode", "none")
    if mode.startswith("double_row"):
        rows = [each.f32().reshape(each.partitions, 2, -1) for each in (stationary, moving)]
        product = rows[0][:, 0].T @ rows[1][:, 0] + rows[0][:, 1].T @ rows[1][:, 1]
    elif mode == "none":
        product = stationary.f32().T @ moving.f32()
    else:
        bad_input(f"`perf_mode` {mode} is not one that the simulator has")
    add(dst, product, accumulate, call)


def add(dst: Place, product: Array, accumulate: bool | None, call: Call) -> None:
    """Put a product into PSUM or add it to what is there."""
    if accumulate is None:
        before = dst.mask_of(call.state.flags(dst.room, call.row)).reshape(product.shape) != 0
        if before.any():
            product = np.where(before, to_f32(dst.get()).reshape(product.shape) + product, product)
        _mark(dst, call)
    elif accumulate:
        product = to_f32(dst.get()).reshape(product.shape) + product
        _mark(dst, call)
    else:
        _mark(dst, call)
    dst.store(product)


def _mark(dst: Place, call: Call) -> None:
    dst.mask_of(call.state.flags(dst.room, call.row))[...] = 1


def nc_transpose(call: Call) -> None:
    """Elements of each partition become partitions; the bits stay."""
    dst, data = call.place("dst"), call.place("data")
    found = data.rows().T
    if found.dtype == dst.dtype:
        dst.put(np.ascontiguousarray(found))
    else:
        dst.store(to_f32(found))
