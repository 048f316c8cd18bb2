"""What no core can do: `hardware-rule` at the instruction, by the table of `hardware_table.py`.

This module has the rules that hold for all instructions:

    targets     the generation has the instruction
    memory      the tensor engine reads SBUF and writes PSUM; GpSimd reaches SBUF only; no compute engine reaches HBM;
                some instructions take one operand from PSUM, not two
    partitions  an operand of a compute engine starts at partition 0, 32, 64 or 96; at 0 or 64 when it spans more than
                32, at 0 when it spans more than 64; it takes neighbouring partitions, and few free dimensions

`hardware_limits.py`, `hardware_sizes.py`, `hardware_matmul.py` and `hardware_dma.py` have those of single
instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from haulout.frontends.nki.engines import chosen_engine, runs_on
from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.hardware_checks import Breach
from haulout.frontends.nki.hardware_dma import DMA_LIMITS, most_sent
from haulout.frontends.nki.hardware_limits import LIMITS
from haulout.frontends.nki.hardware_matmul import MATMUL_LIMITS, Accumulation
from haulout.frontends.nki.hardware_sizes import SIZE_LIMITS
from haulout.frontends.nki.hardware_table import (
    BANK_BYTES,
    MAX_PARTITIONS,
    PSUM_BYTES,
    RULES,
    SBUF_BYTES,
    TARGETS,
)
from haulout.frontends.nki.instructions import DMA, Instruction
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_CHECKS = {**LIMITS, **SIZE_LIMITS, **MATMUL_LIMITS, **DMA_LIMITS}
_TENSOR_ENGINE = frozenset({"nc_matmul", "nc_matmul_mx"})
_NOT_BOTH_PSUM = {
    "tensor_tensor": ("data1", "data2"),
    "scalar_tensor_tensor": ("data", "operand1"),
    "tensor_tensor_scan": ("data0", "data1"),
    "tensor_copy_predicated": ("src", "predicate"),
    "select_reduce": ("on_true", "predicate"),
}
_QUADRANT = 32
_SHUFFLE = "nc_stream_shuffle"
_MAX_STRIDE = (1 << 15) - 1
_MAX_FREE = (1 << 16) - 1
_USUAL_DIMS, _MAX_DIMS = 3, 4

_SINCE = {
    **dict.fromkeys(
        ("core_barrier", "sendrecv", "range_select", "nonzero_with_count", "rand_set_state", "rand_get_state"), "gen3"
    ),
    **dict.fromkeys(("nc_matmul_mx", "quantize_mx", "exponential", "activate2", "rand2"), "gen4"),
}
"""The first target that has an instruction, where it is not gen2."""
_ENGINE_SINCE = {
    ("rng", "gpsimd"): "gen3",
    ("rand_set_state", "vector"): "gen4",
    ("rand_get_state", "vector"): "gen4",
    ("activation", "gpsimd"): "gen4",
}
_OPERATORS = frozenset({"op", "op0", "op1", "reduce_op"})
_OPERATOR_SINCE = frozenset({"abs_max", "abs_min"})
"""Operators that gen4 brings."""
_UNARY_SINCE = frozenset({"square", "relu"})
"""The same in `tensor_scalar`."""


def check_hardware(
    row: Instruction, given: Mapping[str, Any], target: str, findings: Findings, place: tuple[str, int]
) -> None:
    """Check one instruction of the table."""
    for breach in _breaches(row, given, target):
        _report(row.name, breach, target, findings, place)


def check_meeting(name: str, target: str, findings: Findings, place: tuple[str, int]) -> None:
    """Check that the target has `core_barrier` and `sendrecv`."""
    for breach in _generation(name, {}, target):
        _report(name, breach, target, findings, place)


def check_accumulation(
    name: str, written: Accumulation, dst: Tensor, target: str, findings: Findings, place: tuple[str, int]
) -> None:
    """Check that a matrix multiplication with `accumulate=True` adds to what another has written."""
    breach = written.check(dst)
    if breach is not None:
        _report(name, breach, target, findings, place)


def check_exchange(src: Tensor, target: str, findings: Findings, place: tuple[str, int]) -> None:
    """Check the bytes of a `sendrecv` through GpSimd's DMA."""
    size, most = src.size // max(src.shape[0], 1) * src.itemsize, most_sent(src)
    if size > most:
        message = f"{size} bytes of each partition; gpsimd_dma takes at most {most} of {src.dtype}"
        _report("sendrecv", Breach("sendrecv-bytes", "sendrecv", message), target, findings, place)


def check_storage(storage: Storage, target: str, findings: Findings) -> None:
    """Check one allocation in SBUF or PSUM; `lint_memory.py` checks sizes."""
    for breach in _storage(storage):
        _report("", breach, target, findings, storage.place)


def _report(name: str, breach: Breach, target: str, findings: Findings, place: tuple[str, int]) -> None:
    rule = RULES[breach.rule]
    if target not in rule.targets:
        return
    findings.add(
        "hardware-rule",
        f"nisa.{name}: {breach.message}" if name else breach.message,
        severity=rule.severity,
        place=place,
        subject=f"{name}.{breach.subject}.{rule.name}",
        notes=[rule.note],
        help=[breach.help] if breach.help else (),
    )


def _breaches(row: Instruction, given: Mapping[str, Any], target: str) -> Iterator[Breach]:
    operands = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    missing = [] if target == TARGETS[-1] else list(_generation(row.name, given, target))
    if missing:
        yield from missing
        return
    computes = row.engine is not DMA
    if computes:
        yield from _memory(row, given, operands)
    span = max((each.shape[0] for each in operands.values() if each.shape), default=1) if row.name == _SHUFFLE else 0
    for name, tensor in operands.items():
        storage = tensor.storage
        if storage.buffer.is_hbm:
            continue
        if computes and (tensor.offset or storage.partition) and tensor.indirect is None:
            yield from _start(name, tensor, span)
        # A whole tensor is contiguous.
        if tensor.shape is not storage.shape or storage.row_bytes > _MAX_FREE:
            yield from _layout(name, tensor, computes, target)
    check = _CHECKS.get(row.name)
    if check is not None:
        yield from check(given, operands, target)


# -- targets ---------------------------------------------------------------------------------------------------------


def _generation(name: str, given: Mapping[str, Any], target: str) -> Iterator[Breach]:
    """What the target does not have yet."""
    if target == TARGETS[-1]:
        return
    for subject, what, since in _newer(name, given):
        if TARGETS.index(target) < TARGETS.index(since):
            yield Breach("gen", subject, f"{what} needs {since}; the target is {target}")


def _newer(name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What an instruction has that gen2 does not: (argument, words, first target)."""
    if name in _SINCE:
        yield "instruction", "it", _SINCE[name]
    for key, value in given.items():
        if key == "engine":
            asked = chosen_engine(given)
            if (name, asked) in _ENGINE_SINCE:
                yield key, f"its use of the {asked} engine", _ENGINE_SINCE[name, asked]
        elif key == "priority":
            if value is not None:
                yield key, key, "gen4"
        elif key == "dge_mode":
            if getattr(value, "name", "") == "hwdge":
                yield key, "dge_mode.hwdge", "gen3"
        elif key == "src":
            if name == "dma_transpose" and getattr(getattr(value, "indirect", None), "vector", False):
                yield key, "a transposition by index", "gen3"
        elif key in _OPERATORS:
            operator = getattr(value, "__name__", "")
            if operator in _OPERATOR_SINCE or (operator in _UNARY_SINCE and name == "tensor_scalar"):
                yield key, f"nl.{operator}", "gen4"


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(row: Instruction, given: Mapping[str, Any], operands: Mapping[str, Tensor]) -> Iterator[Breach]:
    choice = None
    for name, tensor in operands.items():
        buffer = tensor.storage.buffer
        if buffer.is_hbm:
            yield Breach(
                "hbm-operand",
                name,
                f"{name} is {tensor!r}; compute engines reach SBUF and PSUM only",
                "move it with nisa.dma_copy",
            )
        elif row.name in _TENSOR_ENGINE and name == "dst":
            if buffer is not Buffer.psum:
                yield Breach(
                    "mm-dst-psum",
                    name,
                    f"dst is {tensor!r}; the tensor engine writes PSUM only",
                    "write a tile in nl.psum, and copy it with nisa.tensor_copy",
                )
        elif buffer is Buffer.psum and row.name in _TENSOR_ENGINE:
            yield Breach(
                "mm-src-sbuf",
                name,
                f"{name} is {tensor!r}; the tensor engine reads SBUF only",
                "copy it to SBUF with nisa.tensor_copy first",
            )
        elif buffer is Buffer.psum:
            choice = choice or runs_on(row, given)
            if choice.engine is Engine.POOL:
                yield Breach(
                    "pool-psum",
                    name,
                    f"{name} is {tensor!r}; {choice.reason} runs on GpSimd, which does not reach PSUM",
                    "use another engine, or copy it to SBUF with nisa.tensor_copy first",
                )
    pair = [operands.get(name) for name in _NOT_BOTH_PSUM.get(row.name, ())]
    if pair and all(each is not None and each.storage.buffer is Buffer.psum for each in pair):
        names = " and ".join(_NOT_BOTH_PSUM[row.name])
        yield Breach("both-psum", names, f"{names} are both in PSUM; at most one may be", "copy one to SBUF first")


def _storage(storage: Storage) -> Iterator[Breach]:
    usual = storage.buffer is not Buffer.psum and len(storage.shape) >= 2 and "64" not in storage.dtype
    if usual or storage.buffer.is_hbm:
        return
    described = storage.describe()
    if len(storage.shape) < 2:
        yield Breach("dims-2", "shape", f"{described} has {len(storage.shape)} dimension; it needs at least 2")
    if "64" in storage.dtype:
        yield Breach("no-64-bit", "dtype", f"{described}: no element in SBUF or PSUM has 64 bits", "use 32 bits")
    if storage.buffer is Buffer.psum:
        if BANK_BYTES < storage.row_bytes <= PSUM_BYTES and not _in_banks(storage):  # else `over-capacity` says so
            message = f"{described} takes {storage.row_bytes} bytes of each partition; a bank has {BANK_BYTES}"
            yield Breach("psum-tile", "size", message, "allocate a tile for each bank, or a dimension for the banks")
        if storage.address is not None and storage.address % BANK_BYTES:
            message = f"{described} is at byte {storage.address}; banks start at multiples of {BANK_BYTES}"
            yield Breach("psum-address", "address", message)


def _in_banks(storage: Storage) -> bool:
    """Whether the inner dimensions are tiles of which no bank has a part, such as [128, 8, 512] of float32."""
    tile = storage.row_bytes // max(math.prod(storage.shape[1:]), 1)
    dims = 0
    for count in reversed(storage.shape[1:]):
        if tile * count > BANK_BYTES:
            break
        tile, dims = tile * count, dims + 1
    return dims > 0 and BANK_BYTES % tile == 0


# -- partitions ------------------------------------------------------------------------------------------------------


def _start(name: str, tensor: Tensor, span: int) -> Iterator[Breach]:
    """The first partition of an operand. The base of a tensor that the compiler places obeys the same rule, so its
    views must start at a multiple inside it. `span`: how many partitions count, if more than those of the operand."""
    storage = tensor.storage
    count = tensor.shape[0] if tensor.shape else 1
    if storage.row_bytes == 0 or storage.partition + storage.partitions > MAX_PARTITIONS:
        return  # `partition-limit` says so
    first = storage.partition + tensor.offset * tensor.itemsize // storage.row_bytes
    counted = max(count, span)
    step = _QUADRANT if counted <= _QUADRANT else 2 * _QUADRANT if counted <= 2 * _QUADRANT else 4 * _QUADRANT
    if first % step:
        places = {32: "0, 32, 64 or 96", 64: "0 or 64", 128: "0"}[step]
        together = f", together with {span}," if span > count else ""
        yield Breach(
            "start-part",
            name,
            f"{name} spans {count} partitions{together} from partition {first} of {storage.name}; "
            f"an operand of that size must start at {places}",
            "move the rows with nisa.dma_copy, which may start at any partition",
        )


def _layout(name: str, tensor: Tensor, computes: bool, target: str) -> Iterator[Breach]:
    """The partitions and the free dimensions of an operand in SBUF or PSUM."""
    storage, shape, strides = tensor.storage, tensor.shape, tensor.strides
    if not shape or storage.partitions > MAX_PARTITIONS:
        return
    if shape[0] > MAX_PARTITIONS:
        yield Breach("part-128", name, f"{name} is {tensor!r}, {shape[0]} partitions; it takes at most 128")
    elif shape[0] > 1 and strides[0] * tensor.itemsize != storage.row_bytes:
        row = storage.row_bytes // tensor.itemsize
        yield Breach(
            "ap-partition",
            name,
            f"{name} steps {strides[0]} elements from one partition to the next; each partition of {storage.name} "
            f"has {row}",
            "take neighbouring partitions, or move the rows with nisa.dma_copy or nisa.nc_stream_shuffle",
        )
    if not computes:
        return
    dims = [each for each in zip(strides[1:], shape[1:], strict=True) if each[1] != 1]
    count = 1
    for _, size in dims:
        count *= size
    if count > _MAX_FREE and storage.row_bytes <= SBUF_BYTES[target]:  # else `over-capacity` says so
        yield Breach(
            "stride-16", name, f"{name} has {count} elements in each partition; an instruction counts to 65535"
        )
    if len(dims) > 1 or (dims and abs(dims[0][0]) > _MAX_STRIDE):
        joined = [dims[-1]]
        for stride, size in reversed(dims[:-1]):
            inner, length = joined[-1]
            joined[-1:] = [(inner, length * size)] if stride == inner * length else [(inner, length), (stride, size)]
        far = max((stride for stride, _ in joined), key=abs)
        if abs(far) > _MAX_STRIDE:
            yield Breach(
                "stride-16", name, f"{name} has a stride of {far} elements; an instruction has 16 bits for it"
            )
        if len(joined) > _USUAL_DIMS:
            rule = "rank-3" if len(joined) <= _MAX_DIMS else "rank-4"
            yield Breach(
                rule,
                name,
                f"{name} has {len(joined)} free dimensions that are not contiguous {tensor.get_pattern()[1:]}; an "
                f"engine takes {_MAX_DIMS if rule == 'rank-4' else _USUAL_DIMS}",
                "split the instruction",
            )
