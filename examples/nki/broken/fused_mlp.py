"""A gated MLP for a few tokens with the residual added first. BROKEN: the cores meet before they store."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128


@nki.jit
def fused_mlp(x, residual, gate_w, up_w, down_w):
    """out = down(silu(gate(h)) * up(h)) with h = x + residual; x [T, H], gate_w and up_w [H, I], down_w [I, H].

    Each core adds one half of H, both need all of it; each core projects to one half of I, so the down projection
    gives partial sums, which the cores exchange; each stores one half of the output's columns.
    """
    tokens, hidden = x.shape
    inner = gate_w.shape[1]
    cores, core = nl.num_programs(0), nl.program_id(0)
    columns = nl.ds(core * (hidden // cores), hidden // cores)
    half = inner // cores
    added = nl.ndarray((tokens, hidden), dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((tokens, hidden), dtype=x.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((tokens, hidden // cores), dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray((tokens, hidden // cores), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x[:, columns])
    nisa.dma_copy(dst=right, src=residual[:, columns])
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.core_barrier(added, (0, 1))

    nisa.dma_copy(dst=added[:, columns], src=left)

    steps = hidden // P
    transposed = nl.ndarray((P, steps, tokens), dtype=x.dtype, buffer=nl.sbuf)
    for step in nl.affine_range(steps):
        nisa.dma_transpose(dst=transposed[:, step, :], src=added[:, nl.ds(step * P, P)])

    product = nl.ndarray((P, half // P, tokens), dtype=x.dtype, buffer=nl.sbuf)
    for tile in nl.affine_range(half // P):
        gated = _project(transposed, gate_w, core * half + tile * P, x.dtype)
        raised = _project(transposed, up_w, core * half + tile * P, x.dtype)
        nisa.activation(dst=gated, op=nl.silu, data=gated)
        nisa.tensor_tensor(dst=product[:, tile, :], data1=gated, data2=raised, op=nl.multiply)

    partial = nl.ndarray((tokens, hidden), dtype=nl.float32, buffer=nl.sbuf)
    width = nl.tile_size.gemm_moving_fmax
    for block in nl.affine_range(hidden // width):
        sums = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.psum)
        for tile in nl.affine_range(half // P):
            weights = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf)
            rows = nl.ds(core * half + tile * P, P)
            nisa.dma_copy(dst=weights, src=down_w[rows, nl.ds(block * width, width)])
            nisa.nc_matmul(dst=sums, stationary=product[:, tile, :], moving=weights)
        nisa.tensor_copy(dst=partial[:, nl.ds(block * width, width)], src=sums)

    received = nl.ndarray((tokens, hidden), dtype=nl.float32, buffer=nl.sbuf)
    nisa.sendrecv(src=partial, dst=received, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    total = nl.ndarray((tokens, hidden // cores), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=partial[:, columns], data2=received[:, columns], op=nl.add)
    nisa.dma_copy(dst=out[:, columns], src=total)
    return out


def _project(transposed, weights_hbm, column, dtype):
    """One tile of 128 columns of h @ weights, transposed: [128, T]."""
    _, steps, tokens = transposed.shape
    sums = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.psum)
    for step in nl.affine_range(steps):
        weights = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=weights_hbm[nl.ds(step * P, P), nl.ds(column, P)])
        nisa.nc_matmul(dst=sums, stationary=weights, moving=transposed[:, step, :])
    result = nl.ndarray((P, tokens), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    return result
