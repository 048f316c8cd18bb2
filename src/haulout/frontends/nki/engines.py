"""The engine that an instruction runs on, from its row, its argument `engine`, its operators and its operands.

Where a kernel leaves the choice open, the documentation decides some cases: `power` and, in `tensor_scalar`, `rsqrt`
are GpSimd's, as is `tensor_tensor` of 32-bit integers in SBUF; `nc_transpose` is the tensor engine's if it writes
PSUM, else the vector engine's. The compiler chooses all others, and the row has the engine that is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from haulout.frontends.nki.instructions import ENGINE_NAMES, Instruction
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_GPSIMD_OPERATORS = {"tensor_tensor": ("power",), "tensor_scalar": ("power", "rsqrt")}
"""Operators that are left to GpSimd."""
_WORDS = frozenset({"int32", "uint32"})


class Choice(NamedTuple):
    """The engine, and what decides it."""

    engine: Engine
    reason: str


def chosen_engine(given: Mapping[str, Any]) -> str:
    """NKI's name of the engine that the kernel asks for; `unknown` if it leaves the choice open."""
    return str(getattr(given.get("engine"), "name", "unknown"))


def runs_on(row: Instruction, given: Mapping[str, Any]) -> Choice:
    """The engine of an instruction that is no DMA."""
    asked = given.get("engine")
    if asked is not None:
        engine = ENGINE_NAMES.get(getattr(asked, "name", ""))
        if engine is not None:
            return Choice(engine, "this instruction")
    for key in ("op", "op0", "op1") if row.name in _GPSIMD_OPERATORS else ():
        name = getattr(given.get(key), "__name__", None)
        if name in _GPSIMD_OPERATORS[row.name]:
            return Choice(Engine.POOL, f"nl.{name}")
    if row.name == "tensor_tensor" and all(_is_word(given.get(key)) for key in ("dst", "data1", "data2")):
        return Choice(Engine.POOL, "an operation on 32-bit integers in SBUF")
    if row.name == "nc_transpose":
        dst = given.get("dst")
        if isinstance(dst, Tensor) and dst.storage.buffer is not Buffer.psum:
            return Choice(Engine.VECTOR, "a transposition into SBUF")
    return Choice(row.engine, "it")


def _is_word(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in _WORDS and value.storage.buffer is Buffer.sbuf
