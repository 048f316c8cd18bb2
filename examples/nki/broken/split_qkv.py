"""QKV projection split over the sequence, and the scores, which need every key: BROKEN: the barrier names q."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128


@nki.jit
def split_qkv(x, weights):
    """Scores q @ k.T of x [S, H] with weights [H, 3 * D], D = 128: each core has one half of the rows of q, k and v.

    Returns q, k and v [S, D] and the scores [S, S].
    """
    length, hidden = x.shape
    depth = weights.shape[1] // 3
    cores, core = nl.num_programs(0), nl.program_id(0)
    half = length // cores
    parts = [nl.ndarray((length, depth), dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in ("q", "k", "v")]
    scores = nl.ndarray((length, length), dtype=x.dtype, buffer=nl.shared_hbm)
    q, k, v = parts

    for tile in nl.affine_range(half // P):
        rows = nl.ds(core * half + tile * P, P)
        sums = nl.ndarray((P, 3 * depth), dtype=nl.float32, buffer=nl.psum)
        for step in nl.affine_range(hidden // P):
            columns = nl.ds(step * P, P)
            moving = nl.ndarray((P, 3 * depth), dtype=x.dtype, buffer=nl.sbuf)
            stationary = nl.ndarray((P, P), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=moving, src=weights[columns, :])
            nisa.dma_transpose(dst=stationary, src=x[rows, columns])
            nisa.nc_matmul(dst=sums, stationary=stationary, moving=moving)
        projected = nl.ndarray((P, 3 * depth), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=projected, src=sums)
        for place, part in enumerate(parts):
            nisa.dma_copy(dst=part[rows, :], src=projected[:, nl.ds(place * depth, depth)])

    nisa.core_barrier(q, (0, 1))

    keys = nl.ndarray((depth, length), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=keys, src=k)
    for tile in nl.affine_range(half // P):
        rows = nl.ds(core * half + tile * P, P)
        queries = nl.ndarray((depth, P), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=queries, src=q[rows, :])
        products = nl.ndarray((P, length), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=products, stationary=queries, moving=keys)
        row = nl.ndarray((P, length), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=row, src=products)
        nisa.dma_copy(dst=scores[rows, :], src=row)
    return q, k, v, scores
