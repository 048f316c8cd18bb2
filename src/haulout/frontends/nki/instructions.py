"""The instructions of `nki.isa`, one row each: parameters, engine, what is written, what shapes must agree.

    name                 engine   parameters (defaults are None)              written        accumulated   rule

A tensor given for any parameter that is not listed as written is read. *Accumulated* operands keep part of what they
held: they are read and written. The engine is where NKI's documentation puts the instruction; a parameter `engine`,
operators and operands may move it (`engines.py`). Rules are checked in `shape_rules.py`.

To learn a new instruction, add a row. An instruction that has none is recorded as touching all its tensor operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from haulout.ir.enums import Engine

DMA = Engine.DMA0
"""Stands for "a DMA queue"; the recorder chooses which."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """The semantics of one instruction, as far as bytes and order go."""

    name: str
    engine: Engine
    parameters: tuple[str, ...]
    writes: frozenset[str]
    accumulates: frozenset[str]
    rule: str
    needed: int
    """How many of the first parameters must be given."""


def _row(
    name: str, engine: Engine, parameters: str, writes: str = "dst", accumulates: str = "", rule: str = ""
) -> Instruction:
    """Parameters behind `/` may be left out."""
    needed, _, optional = parameters.partition("/")
    names = (*needed.split(), *optional.split(), "name")
    return Instruction(
        name, engine, names, frozenset(writes.split()), frozenset(accumulates.split()), rule, len(needed.split())
    )


_PE, _ACT, _VECTOR, _POOL = Engine.PE, Engine.ACT, Engine.VECTOR, Engine.POOL

_SAME = "same-partitions"

# fmt: off
_ROWS = (
    # moving data
    _row("dma_copy", DMA, "dst src / priority oob_mode dge_mode engine dst_rmw_op unique_indices", rule="same-size"),
    _row("dma_transpose", DMA, "dst src / axes priority dge_mode oob_mode", rule="same-size"),
    _row("dma_compute", DMA, "dst srcs reduce_op / scales unique_indices oob_mode"),
    _row("tensor_copy", _VECTOR, "dst src / engine", rule="same-size"),
    _row("tensor_copy_predicated", _VECTOR, "dst src predicate / reverse_pred", "", "dst"),
    _row("memset", _VECTOR, "dst value / engine"),
    _row("iota", _POOL, "dst pattern / offset channel_multiplier"),
    _row("nc_stream_shuffle", _VECTOR, "dst src shuffle_mask", rule="shuffle"),
    _row("local_gather", _POOL, "dst src_buffer index / num_elem_per_idx num_valid_indices"),
    _row("nc_n_gather", _POOL, "dst data indices"),
    # tensor engine
    _row("nc_matmul", _PE, "dst stationary moving / is_stationary_onezero is_moving_onezero is_transpose accumulate "
                           "tile_position tile_size perf_mode", rule="matmul"),
    _row("nc_matmul_mx", _PE, "dst stationary moving stationary_scale moving_scale / tile_position tile_size "
                              "accumulate"),
    _row("nc_transpose", _PE, "dst data / engine", rule="transpose"),
    # scalar engine
    _row("activation", _ACT, "dst op data / bias scale reduce_op reduce_res reduce_cmd engine", "dst reduce_res",
         rule=_SAME),
    _row("activation_reduce", _ACT, "dst op data reduce_op reduce_res / bias scale", "dst reduce_res", rule=_SAME),
    _row("activate2", _ACT, "dst op data imm0 imm1 op0 op1 / relu_param reverse0 reverse1 reduce_op reduce_res "
                            "reduce_cmd engine", "dst reduce_res"),
    # vector engine
    _row("tensor_tensor", _VECTOR, "dst data1 data2 op / engine", rule=_SAME),
    _row("tensor_scalar", _VECTOR, "dst data op0 operand0 / reverse0 op1 operand1 reverse1 engine", rule=_SAME),
    _row("scalar_tensor_tensor", _VECTOR, "dst data op0 operand0 op1 operand1 / reverse0 reverse1 reduce_cmd "
                                          "reduce_op reduce_res", "dst reduce_res", rule=_SAME),
    _row("tensor_reduce", _VECTOR, "dst op data axis / negate keepdims", rule=_SAME),
    _row("tensor_scalar_reduce", _VECTOR, "dst data op0 operand0 reduce_op / reduce_res reverse0 reduce_cmd "
                                          "reduce_init reduce_res_negate", "dst reduce_res"),
    _row("tensor_scalar_cumulative", _VECTOR, "dst src op0 op1 imm0 / imm1 reduce_cmd"),
    _row("tensor_tensor_scan", _VECTOR, "dst data0 data1 initial op0 op1 / reverse0 reverse1"),
    _row("reciprocal", _VECTOR, "dst data", rule=_SAME),
    _row("exponential", _VECTOR, "dst src / max_value reduce_res reduce_cmd reduce_init", "dst reduce_res"),
    _row("bn_stats", _VECTOR, "dst data", rule=_SAME),
    _row("bn_aggr", _VECTOR, "dst data", rule=_SAME),
    _row("max8", _VECTOR, "dst src", rule=_SAME),
    _row("nc_find_index8", _VECTOR, "dst data vals", rule=_SAME),
    _row("nc_match_replace8", _VECTOR, "dst data vals imm / dst_idx", "dst dst_idx"),
    _row("range_select", _VECTOR, "dst on_true_tile comp_op0 comp_op1 bound0 bound1 / reduce_cmd reduce_res "
                                  "reduce_op range_start on_false_value", "dst reduce_res"),
    _row("select_reduce", _VECTOR, "dst predicate on_true on_false / reduce_res reduce_cmd reduce_op reverse_pred",
         "dst reduce_res"),
    _row("quantize_mx", _VECTOR, "dst src dst_scale", "dst dst_scale"),
    _row("dropout", _VECTOR, "dst data prob"),
    _row("sequence_bounds", _POOL, "dst segment_ids"),
    # gpsimd engine
    _row("affine_select", _POOL, "dst pattern channel_multiplier on_true_tile on_false_value / cmp_op offset"),
    _row("tensor_partition_reduce", _POOL, "dst op data"),
    _row("nonzero_with_count", _POOL, "dst src / index_offset padding_val", rule="every-16th-partition"),
    _row("topk", _POOL, "val_dst idx_dst src n", "val_dst idx_dst"),
    # random numbers
    _row("rng", _VECTOR, "dst / engine"),
    _row("rand2", _VECTOR, "dst min max"),
    _row("rand_get_state", _POOL, "dst / engine"),
    _row("rand_set_state", _POOL, "src_seeds / engine", ""),
    _row("set_rng_seed", _VECTOR, "src_seeds", ""),
)
# fmt: on

INSTRUCTIONS = MappingProxyType({row.name: row for row in _ROWS})
"""Every row by its name."""

ENGINE_NAMES = MappingProxyType(
    {
        "tensor": Engine.PE,
        "vector": Engine.VECTOR,
        "scalar": Engine.ACT,
        "gpsimd": Engine.POOL,
        "sync": Engine.SYNC,
    }
)
"""NKI's names of engines that a parameter `engine` may choose; any other leaves the choice to the table."""
