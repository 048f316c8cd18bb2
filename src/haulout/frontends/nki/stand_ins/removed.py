"""Names and parameters that NKI had once: since which version they are gone, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Removed(NamedTuple):
    """The version without it, and what does the same today."""

    since: str
    instead: str


REMOVED_EVERYWHERE: Mapping[str, Removed] = MappingProxyType(
    {
        "mask": Removed("0.1", "give slices of the operands"),
        "dtype": Removed("0.1", "the element type of `dst` decides"),
    }
)
"""Parameters that all instructions had."""

_PARAMETERS: Mapping[tuple[str, str], Removed] = MappingProxyType(
    {
        ("tensor_copy", "dtype"): Removed("0.3", "the element type of `dst` decides"),
        ("dma_copy", "dst_rmw_op"): Removed("0.3", "use nisa.dma_compute"),
        ("dma_copy", "unique_indices"): Removed("0.3", "use nisa.dma_compute"),
        ("register_move", "imm"): Removed("0.3", "give the integer or the register as `src`"),
        ("affine_select", "pred"): Removed("0.1", "give `pattern`, `offset` and `channel_multiplier`"),
        ("iota", "expr"): Removed("0.1", "give `pattern`, `offset` and `channel_multiplier`"),
    }
)

REMOVED_INSTRUCTIONS: Mapping[str, Removed] = MappingProxyType(
    {
        "tensor_copy_dynamic_src": Removed("0.4", "use nisa.tensor_copy with src.ap(..., scalar_offset=register)"),
        "tensor_copy_dynamic_dst": Removed("0.4", "use nisa.tensor_copy with dst.ap(..., scalar_offset=register)"),
    }
)
"""Instructions of `nki.isa`."""

REMOVED_FUNCTIONS: Mapping[str, Removed] = MappingProxyType(
    {
        "loop_reduce": Removed("0.1", "accumulate into a tile in the loop"),
        "all_reduce": Removed("0.1", "use nki.collectives, or nisa.sendrecv between two cores"),
        "spmd_dim": Removed("0.1", "launch one program for each core: kernel[2]"),
        "nc": Removed("0.1", "launch one program for each core: kernel[2]"),
    }
)
"""Functions of `nki.language`."""


def removed_parameter(instruction: str, name: str) -> Removed | None:
    """What is known of a parameter that an instruction had once."""
    return _PARAMETERS.get((instruction, name)) or REMOVED_EVERYWHERE.get(name)
