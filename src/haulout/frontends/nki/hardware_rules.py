"""What no core can do: `hardware-rule`, an error at the instruction.

The rules are those that the NKI documentation and the Neuron architecture guides state outright; what they leave open
is not checked. This module has those of memory and partitions, `hardware_limits.py` those of sizes and types.

    memory      the tensor engine reads SBUF and writes PSUM; GpSimd reaches SBUF only; DMA does not read PSUM; no
                compute engine reaches HBM; some instructions take one operand from PSUM, not two
    partitions  an operand of a compute engine starts at partition 0, 32, 64 or 96; at 0 or 64 when it spans more than
                32, at 0 when it spans more than 64; DMA starts anywhere
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.hardware_limits import LIMITS
from haulout.frontends.nki.instructions import DMA, Instruction
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_TENSOR_ENGINE = frozenset({"nc_matmul", "nc_matmul_mx"})
_GPSIMD = frozenset(
    {
        "iota",
        "affine_select",
        "local_gather",
        "nc_n_gather",
        "tensor_partition_reduce",
        "nonzero_with_count",
        "topk",
        "sequence_bounds",
    }
)
"""Instructions that no other engine has."""
_NOT_BOTH_PSUM = {
    "tensor_tensor": ("data1", "data2"),
    "scalar_tensor_tensor": ("data", "operand1"),
    "tensor_tensor_scan": ("data0", "data1"),
    "tensor_copy_predicated": ("src", "predicate"),
    "select_reduce": ("on_true", "predicate"),
}
_GPSIMD_OPERATORS = {"tensor_tensor": ("power",), "tensor_scalar": ("power", "rsqrt")}
"""Operators that are left to GpSimd."""
_QUADRANT = 32


class _Wrong(NamedTuple):
    """A breach: what is wrong, of which operand, and what to do."""

    message: str
    subject: str
    help: str = ""


def check_hardware(
    row: Instruction, given: Mapping[str, Any], target: str, findings: Findings, place: tuple[str, int]
) -> None:
    """Check one instruction of the table."""
    operands = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    for wrong in _breaches(row, given, operands, target):
        findings.add(
            "hardware-rule",
            f"nisa.{row.name}: {wrong.message}",
            place=place,
            subject=f"{row.name}.{wrong.subject}",
            help=[wrong.help] if wrong.help else (),
        )


def _breaches(
    row: Instruction, given: Mapping[str, Any], operands: Mapping[str, Tensor], target: str
) -> Iterator[_Wrong]:
    if row.engine is DMA:
        yield from _dma(row, given, operands)
    else:
        yield from _memory(row, given, operands)
        for name, tensor in operands.items():
            if (tensor.offset or tensor.storage.partition) and row.name != "nc_stream_shuffle":
                yield from _start(name, tensor)
    check = LIMITS.get(row.name)
    if check is not None:
        for subject, message in check(given, operands, target):
            yield _Wrong(message, subject)


def _dma(row: Instruction, given: Mapping[str, Any], operands: Mapping[str, Tensor]) -> Iterator[_Wrong]:
    sources = {name: each for name, each in operands.items() if name not in row.writes}
    sources |= {f"srcs[{at}]": each for at, each in enumerate(given.get("srcs") or ()) if isinstance(each, Tensor)}
    for name, tensor in sources.items():
        if tensor.storage.buffer is Buffer.psum:
            yield _Wrong(
                f"{name} is {tensor!r}; DMA does not read PSUM",
                name,
                "copy it to SBUF with nisa.tensor_copy first",
            )


def _memory(row: Instruction, given: Mapping[str, Any], operands: Mapping[str, Tensor]) -> Iterator[_Wrong]:
    gpsimd = _on_gpsimd(row, given)
    for name, tensor in operands.items():
        buffer = tensor.storage.buffer
        if buffer.is_hbm:
            yield _Wrong(
                f"{name} is {tensor!r}; compute engines reach SBUF and PSUM only",
                name,
                "move it with nisa.dma_copy",
            )
        elif row.name in _TENSOR_ENGINE and name == "dst":
            if buffer is not Buffer.psum:
                yield _Wrong(
                    f"dst is {tensor!r}; the tensor engine writes PSUM only",
                    name,
                    "write a tile in nl.psum, and copy it with nisa.tensor_copy",
                )
        elif buffer is Buffer.psum and row.name in _TENSOR_ENGINE:
            yield _Wrong(
                f"{name} is {tensor!r}; the tensor engine reads SBUF only",
                name,
                "copy it to SBUF with nisa.tensor_copy first",
            )
        elif buffer is Buffer.psum and gpsimd:
            yield _Wrong(
                f"{name} is {tensor!r}; {gpsimd} runs on GpSimd, which does not reach PSUM",
                name,
                "use another engine, or copy it to SBUF with nisa.tensor_copy first",
            )
    pair = [operands.get(name) for name in _NOT_BOTH_PSUM.get(row.name, ())]
    if pair and all(each is not None and each.storage.buffer is Buffer.psum for each in pair):
        names = " and ".join(_NOT_BOTH_PSUM[row.name])
        yield _Wrong(f"{names} are both in PSUM; at most one of them may be", names, "copy one to SBUF first")


def _on_gpsimd(row: Instruction, given: Mapping[str, Any]) -> str | None:
    """What makes an instruction run on GpSimd, if anything does."""
    if row.name in _GPSIMD:
        return "it"
    chosen = getattr(given.get("engine"), "name", "unknown")
    if chosen == "gpsimd" and row.engine is not Engine.PE:
        return "this instruction"
    if chosen == "unknown":
        for key in ("op", "op0", "op1"):
            name = getattr(given.get(key), "__name__", None)
            if name in _GPSIMD_OPERATORS.get(row.name, ()):
                return f"nl.{name}"
    return None


def _start(name: str, tensor: Tensor) -> Iterator[_Wrong]:
    """The first partition of an operand. The base of a tensor that the compiler places obeys the same rule, so its
    views must start at a multiple inside it."""
    storage = tensor.storage
    count = tensor.shape[0] if tensor.shape else 1
    if tensor.indirect is not None or storage.row_bytes == 0 or not storage.buffer.on_chip:
        return
    if storage.partition + storage.partitions > 4 * _QUADRANT:
        return  # `partition-limit` says so
    first = storage.partition + tensor.offset * tensor.itemsize // storage.row_bytes
    step = _QUADRANT if count <= _QUADRANT else 2 * _QUADRANT if count <= 2 * _QUADRANT else 4 * _QUADRANT
    if first % step:
        places = {32: "0, 32, 64 or 96", 64: "0 or 64", 128: "0"}[step]
        yield _Wrong(
            f"{name} spans {count} partitions from partition {first} of {storage.name}; "
            f"an operand of that size must start at {places}",
            name,
            "move the rows with nisa.dma_copy, which may start at any partition",
        )
