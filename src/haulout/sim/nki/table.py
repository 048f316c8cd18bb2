"""Every instruction by its name. One that is not here is refused, by name and line."""

from __future__ import annotations

from collections.abc import Callable

from haulout.sim.nki import elementwise, matmul, movement, quantisation, reductions, scalars, selection
from haulout.sim.nki.call import Call

KERNELS: dict[str, Callable[[Call], None]] = {
    # tensor engine
    "nc_matmul": matmul.nc_matmul,
    "nc_matmul_mx": quantisation.nc_matmul_mx,
    "nc_transpose": matmul.nc_transpose,
    # moves
    **dict.fromkeys(("dma_copy", "tensor_copy", "load", "store", "assign"), movement.copy),
    **dict.fromkeys(("memset", "fill"), movement.fill),
    "dma_transpose": movement.dma_transpose,
    "dma_compute": movement.dma_compute,
    "nc_stream_shuffle": movement.nc_stream_shuffle,
    "tensor_copy_predicated": movement.tensor_copy_predicated,
    "iota": movement.iota,
    "affine_select": movement.affine_select,
    "local_gather": movement.local_gather,
    "nc_n_gather": movement.nc_n_gather,
    # elementwise
    "tensor_tensor": elementwise.tensor_tensor,
    "tensor_scalar": elementwise.tensor_scalar,
    "scalar_tensor_tensor": elementwise.scalar_tensor_tensor,
    "reciprocal": elementwise.reciprocal,
    "activation": reductions.activation,
    "activation_reduce": reductions.activation_reduce,
    "activate2": reductions.activate2,
    "exponential": reductions.exponential,
    # reductions
    "tensor_reduce": reductions.tensor_reduce,
    "tensor_partition_reduce": reductions.tensor_partition_reduce,
    "tensor_scalar_reduce": reductions.tensor_scalar_reduce,
    "tensor_scalar_cumulative": reductions.tensor_scalar_cumulative,
    "tensor_tensor_scan": reductions.tensor_tensor_scan,
    "range_select": reductions.range_select,
    "select_reduce": reductions.select_reduce,
    "bn_stats": reductions.bn_stats,
    "bn_aggr": reductions.bn_aggr,
    # search
    "max8": selection.max8,
    "nc_find_index8": selection.nc_find_index8,
    "nc_match_replace8": selection.nc_match_replace8,
    "nonzero_with_count": selection.nonzero_with_count,
    "sequence_bounds": selection.sequence_bounds,
    # MX
    "quantize_mx": quantisation.quantize_mx,
    # registers and loops
    "register_load": scalars.register_load,
    "register_store": scalars.register_store,
    "loop": scalars.loop,
    **dict.fromkeys(("uses", "gate", "nothing"), scalars.nothing),
    # collectives, of one device
    **dict.fromkeys(
        ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"), movement.exchange
    ),
}
LANGUAGE = elementwise.language_operator
"""Of operators of `nl` that were called on tensors."""
