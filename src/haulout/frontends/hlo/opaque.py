"""Which instructions that are not understood may be kept as opaque ones.

An opaque instruction reads its operands and writes its results on its own core (`ir/opaque.py`). What involves other
cores does more than that, so a collective that is not known is refused, whatever it is called: the attributes that
name groups or channels show it, too. Transfers to and from the host involve no other core.
"""

from __future__ import annotations

from typing import NoReturn

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Instruction

_OF_CORES = ("replica_groups", "source_target_pairs", "use_global_device_ids", "channel_id", "channel_handle")
"""Attributes of instructions that several cores take part in."""
_NAMES = ("all-", "reduce-scatter", "collective-", "ragged-all-", "send", "recv", "async-")


def may_be_opaque(instruction: Instruction) -> bool:
    """Whether an instruction whose opcode is not known concerns its own core only."""
    host = instruction.attributes.get("is_host_transfer")
    if host is not None and attributes.boolean(host):
        return True
    if instruction.opcode.startswith(_NAMES):
        return False
    return not any(key in instruction.attributes for key in _OF_CORES)


def target_of(instruction: Instruction) -> str | None:
    """The target of a custom-call."""
    target = instruction.attributes.get("custom_call_target")
    return None if target is None else target.text.strip("\"'")


def unsupported(instruction: Instruction) -> NoReturn:
    """Raise `HauloutError`: it is neither known nor may it be opaque."""
    target = instruction.attributes.get("custom_call_target")
    of = f" of {target.text}" if target is not None else ""
    instruction.fail(
        f"`{instruction.opcode}`{of} is not supported",
        help=["write it with all-reduce, all-gather, reduce-scatter, all-to-all and collective-permute"]
        if not may_be_opaque(instruction)
        else (),
    )
