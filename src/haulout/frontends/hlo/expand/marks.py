"""Instructions that give their operand: marks for other compilers, and what only orders.

Neuron's `AwsNeuronTransferWithStaticRing` says how a tensor is to be brought to the device, its module markers where
a part of a model begins. `domain` separates shardings.
"""

from __future__ import annotations

from dataclasses import replace

from haulout.frontends.hlo.model import Instruction

_TARGETS = (
    "AwsNeuronTransferWithStaticRing",
    "AwsNeuronLNCShardingConstraint",
    "AwsNeuronModuleMarker",
    "NeuronBoundaryMarker",
    "TorchNeuronInlineMark",
    "TorchNeuronOutputMark",
    "TorchNeuronStartBackward",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "LayoutConstraint",
)
"""How the names of custom-calls begin that give their only operand."""
_OPCODES = ("domain", "optimization-barrier")


def is_mark(instruction: Instruction, target: str | None) -> bool:
    """Whether the value of an instruction is its operand."""
    if instruction.opcode == "custom-call":
        return target is not None and target.startswith(_TARGETS) and len(instruction.operands) >= 1
    return instruction.opcode in _OPCODES


def passed_on(instruction: Instruction) -> Instruction:
    """An instruction that gives the operand, or the tuple of several."""
    kept = {key: value for key, value in instruction.attributes.items() if key == "metadata"}
    opcode = "opt-barrier" if len(instruction.operands) == 1 else "tuple"
    return replace(instruction, opcode=opcode, attributes=kept)
