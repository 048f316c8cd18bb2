"""What is not understood, as one instruction with its attributes as text."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.opaque import target_of
from haulout.frontends.hlo.values import Operation
from haulout.ir.attributes import AttrValue
from haulout.ir.opcodes import OPAQUE

_NOT_TEXT = ("metadata", "custom_call_target")


def _emit(out: Emitter, operation: Operation) -> None:
    instruction = operation.instruction
    attrs: dict[str, AttrValue] = {}
    if (target := target_of(instruction)) is not None:
        attrs["target"] = target
    text = ", ".join(f"{key}={value.text}" for key, value in instruction.attributes.items() if key not in _NOT_TEXT)
    if text:
        attrs["text"] = text
    effect = instruction.attributes.get("custom_call_has_side_effect")
    if effect is not None and attributes.boolean(effect):
        attrs["effect"] = True
    out.compute(operation, attrs, opcode=OPAQUE + instruction.opcode.replace("-", "_"))


RULES = {"opaque": Rule(_emit)}
"""Not an opcode that HLO text may have."""
