"""The element-wise opcodes of HLO, a row each: engine, number of operands, element types; and the collectives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from haulout.ir.enums import Engine

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

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A row: `kinds` are letters of p (pred), s (signed), u (unsigned), f (floating point)."""

    engine: Engine
    operands: int
    kinds: str


ELEMENTWISE: dict[str, Elementwise] = {
    **{name: Elementwise(Engine.VECTOR, 2, "psuf") for name in ("add", "multiply", "maximum", "minimum")},
    **{name: Elementwise(Engine.VECTOR, 2, "suf") for name in ("subtract", "divide", "remainder")},
    **{name: Elementwise(Engine.VECTOR, 2, "psu") for name in ("and", "or", "xor")},
    **{
        name: Elementwise(Engine.VECTOR, 2, "su")
        for name in ("shift-left", "shift-right-logical", "shift-right-arithmetic")
    },
    "not": Elementwise(Engine.VECTOR, 1, "psu"),
    **{name: Elementwise(Engine.VECTOR, 1, "suf") for name in ("negate", "abs", "sign")},
    **{name: Elementwise(Engine.VECTOR, 1, "su") for name in ("popcnt", "count-leading-zeros")},
    **{
        name: Elementwise(Engine.VECTOR, 1, "f")
        for name in ("floor", "ceil", "round-nearest-even", "round-nearest-afz", "is-finite")
    },
    **{
        name: Elementwise(Engine.ACT, 1, "f")
        for name in (
            "exponential",
            "exponential-minus-one",
            "log",
            "log-plus-one",
            "logistic",
            "tanh",
            "sqrt",
            "rsqrt",
            "cbrt",
            "sine",
            "cosine",
            "tan",
            "erf",
        )
    },
    "power": Elementwise(Engine.ACT, 2, "suf"),
    "atan2": Elementwise(Engine.ACT, 2, "f"),
    "select": Elementwise(Engine.VECTOR, 3, "psuf"),
    "clamp": Elementwise(Engine.VECTOR, 3, "psuf"),
    "compare": Elementwise(Engine.VECTOR, 2, "psuf"),
    "convert": Elementwise(Engine.VECTOR, 1, "psuf"),
    "bitcast-convert": Elementwise(Engine.VECTOR, 1, "psuf"),
    "reduce-precision": Elementwise(Engine.VECTOR, 1, "f"),
}


def opcode_of(name: str) -> str:
    """The program's spelling of an HLO opcode."""
    return name.replace("-", "_")
