"""Entries of which a part was cut away: people keep the lines of a dump that lead to one value.

Such a text shows it: operands with a shape that nothing defines, a signature with more parameters than the body has,
computations that are named and not there. What is missing becomes an input, or an opaque instruction, and
`incomplete-text` says all of it. Text that contradicts itself is refused as ever, and so is a collective or a loop
without its computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.opaque import may_be_opaque
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape

_CONTROL = ("call", "while", "conditional", "fusion", "custom-call")
"""What runs its computations as part of the program; without them nothing is known of it."""
MAX_NAMED = 8


@dataclass(slots=True)
class Missing:
    """What the text of an entry names and does not have."""

    operands: dict[str, Instruction] = field(default_factory=dict)
    """By name; each is an input."""
    computations: list[str] = field(default_factory=list)
    """Of instructions that are opaque without them."""
    parameters: list[int] = field(default_factory=list)
    """Numbers that the signature has and the body has not."""
    is_root_cut: bool = False
    """The signature has another result."""

    def operand(self, name: str, shape: AnyShape, where: Excerpt) -> Instruction:
        """The input that stands for an operand that is not defined."""
        made = Instruction(name, shape, "parameter", (), {}, where)
        self.operands[name] = made
        return made

    def without(self, instruction: Instruction, names: list[str]) -> bool:
        """Note computations that are not there; whether the instruction can do without, as an opaque one."""
        if instruction.opcode in _CONTROL or not may_be_opaque(instruction):
            return False
        self.computations += [name for name in names if name not in self.computations]
        return True

    def sentences(self, root: Instruction) -> list[str]:
        """What `incomplete-text` says."""
        said: list[str] = []
        if self.operands:
            said.append(f"not defined, and inputs: {_listed(f'%{name}' for name in self.operands)}")
        if self.parameters:
            said.append(f"parameters that only the signature has: {_listed(map(str, self.parameters))}")
        if self.computations:
            said.append(f"opaque without its computation: {_listed(f'%{name}' for name in self.computations)}")
        if said and self.is_root_cut:
            said.append(f"the result is %{root.name}, another one than in the signature")
        return said


def opaque_without(instruction: Instruction) -> Instruction:
    """An instruction whose computation is not there, under an opcode that nothing knows."""
    kept = {name: value for name, value in instruction.attributes.items() if name == "metadata"}
    return replace(instruction, opcode=f"{instruction.opcode}-without-computation", attributes=kept)


def numbered(instructions: list[Instruction], missing: Missing) -> list[Instruction]:
    """The instructions with parameters numbered 0, 1, ...: those of the text in order, then missing operands."""
    own = sorted(
        (each for each in instructions if each.opcode == "parameter" and each.name not in missing.operands),
        key=lambda each: each.number,
    )
    numbers = {each.name: number for number, each in enumerate([*own, *missing.operands.values()])}
    return [replace(each, number=numbers[each.name]) if each.name in numbers else each for each in instructions]


def _listed(names: Iterable[str]) -> str:
    given = list(names)
    more = f", and {len(given) - MAX_NAMED} more" if len(given) > MAX_NAMED else ""
    return ", ".join(given[:MAX_NAMED]) + more
