"""HLO's opcodes that are opcodes of the program too, `_` for `-`: the element-wise ones and the collectives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from haulout.ir import opcodes
from haulout.ir.opcodes import OPCODES, Opcode

HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
"""By direction: whether a comparison holds, of two numbers or of each two of two arrays of integers."""

DIRECTIONS = tuple(HOLDS)
MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
"""The direction of a comparison when its operands change places."""


def opcode_of(name: str) -> Opcode:
    """The program's opcode for one of HLO."""
    return OPCODES[name.replace("-", "_")]


ELEMENTWISE: dict[str, Opcode] = {
    row.name.replace("_", "-"): row
    for row in OPCODES.values()
    if row.section == "element-wise" and row.name not in ("copy", opcodes.FETCH)
}
"""All but `copy`, which moves bytes in HLO."""
COLLECTIVES = frozenset(name.replace("_", "-") for name in opcodes.COLLECTIVES)
