"""Two cores add up the halves of x: each writes its part, both read both. BROKEN: they do not meet."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def two_core_sum(x):
    """The sum over the rows of x [256, F]; both rows of out [2, F] hold it."""
    rows, width = x.shape
    cores, core = nl.num_programs(0), nl.program_id(0)
    half = rows // cores
    parts = nl.ndarray((cores, width), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((cores, width), dtype=nl.float32, buffer=nl.shared_hbm)

    tile = nl.ndarray((half, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(core * half, half), :])
    ones = nl.ndarray((half, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    partial = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=partial, stationary=ones, moving=tile)
    mine = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=mine, src=partial)
    nisa.dma_copy(dst=parts[core : core + 1, :], src=mine)

    first = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
    second = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=parts[0:1, :])
    nisa.dma_copy(dst=second, src=parts[1:2, :])
    total = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=first, data2=second, op=nl.add)
    nisa.dma_copy(dst=out[core : core + 1, :], src=total)
    return out
