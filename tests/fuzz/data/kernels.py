"""Kernels that mutants are made from: loops, indices, transposes, classes, and what Python allows around them."""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 32


class Plan:
    def __init__(self, rows, width=16):
        self.rows, self.width = rows, width

    def tile(self, dtype, buffer=nl.sbuf):
        return nl.ndarray((min(self.rows, TILE), self.width), dtype=dtype, buffer=buffer)


@nki.jit
def exchange(x):
    core = nl.program_id(0)
    rows, width = x.shape
    plan = Plan(rows // nl.num_programs(0), width)
    shared = nl.ndarray((2, plan.rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = plan.tile(x.dtype)
    nisa.dma_copy(dst=tile, src=x[nl.ds(core * plan.rows, plan.rows), :])
    nisa.dma_copy(dst=shared[core], src=tile)
    nisa.core_barrier(shared, (0, 1))
    other = plan.tile(x.dtype)
    nisa.dma_copy(dst=other, src=shared[1 - core])
    nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    nisa.dma_copy(dst=out[nl.ds(core * plan.rows, plan.rows), :], src=tile)
    return out


@nki.jit
def loops(x, steps=2, scale=0.5):
    core = nl.program_id(0)
    acc = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
    left = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray((2, 16, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    for step in nl.affine_range(steps):
        nisa.dma_copy(dst=left, src=x[step * 32 : (step + 1) * 32, 0:16])
        nisa.nc_matmul(dst=acc, stationary=left, moving=left)
    total = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=acc)
    nisa.activation(dst=total, op=nl.exp, data=total, scale=scale)
    nisa.dma_copy(dst=out[core], src=total)
    return out


@nki.jit
def gathered(x, idx):
    _rows, width = x.shape
    places = nl.ndarray(idx.shape, dtype=idx.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=places, src=idx)
    tile = nl.ndarray((idx.shape[0], width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[width, idx.shape[0]], [1, width]], vector_offset=places))
    out = nl.ndarray((idx.shape[0], width), dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=tile)
    return out
