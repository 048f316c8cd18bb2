"""The softmax of each row for the first NKI: index arrays, a mask for the rest of the rows, returned tiles."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def softmax_rows(x):
    """The softmax over the columns of x [R, F], for any number of rows."""
    rows, width = x.shape
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(nl.tile_size.pmax)[:, None], nl.arange(width)[None, :]
    tiles = -(-rows // nl.tile_size.pmax)
    for tile in nl.affine_range(tiles):
        if tile % nl.num_programs(0) == nl.program_id(0):
            row = tile * nl.tile_size.pmax + i_p
            data = nl.load(x[row, i_f], mask=(row < rows))
            largest = nisa.tensor_reduce(np.max, data, axis=[1], negate=True, mask=(row < rows))
            exponent = nisa.activation(np.exp, data, bias=largest, scale=1.0, mask=(row < rows))
            total = nl.sum(exponent, axis=[1], mask=(row < rows))
            result = nl.divide(exponent, total, mask=(row < rows))
            nl.store(out[row, i_f], value=result, mask=(row < rows))
    return out
