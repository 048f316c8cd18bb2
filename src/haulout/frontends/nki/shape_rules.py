"""What shapes of an instruction's operands must agree; a breach is a `kernel-error` at the kernel's line.

same-size          as many elements in the source as in the destination
same-partitions    the destination and every full operand span as many partitions
matmul             stationary [K, M], moving [K, N] -> dst of M partitions and N elements in each
transpose          partitions of one are elements of the other
every-16th-partition  only partitions 0, 16, 32, ... are touched
shuffle            within each 32 partitions, those that the mask names are read, those whose entry is 255 stay
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.hardware_table import MAX_PARTITIONS
from haulout.frontends.nki.instructions import Instruction
from haulout.frontends.nki.tensor import Tensor


def check_rule(row: Instruction, given: dict[str, Any], findings: Findings, place: tuple[str, int]) -> None:
    """Check one instruction."""
    wrong = _breach(row, given)
    if wrong:
        findings.add("kernel-error", f"nisa.{row.name}: {wrong}", place=place, subject=row.name)


def _breach(row: Instruction, given: dict[str, Any]) -> str | None:
    dst = given.get("dst")
    if not isinstance(dst, Tensor):
        return None
    match row.rule:
        case "same-size":
            src = given.get("src")
            if isinstance(src, Tensor) and src.size != dst.size and src.itemsize == dst.itemsize:
                return f"src has {src.size} elements {list(src.shape)}, dst has {dst.size} {list(dst.shape)}"
        case "same-partitions":
            for parameter in ("data", "data1", "data2", "src"):
                data = given.get(parameter)
                if isinstance(data, Tensor) and data.shape[0] != dst.shape[0]:
                    return f"{parameter} spans {data.shape[0]} partitions, dst {dst.shape[0]}"
        case "matmul":
            return _matmul(given)
        case "transpose":
            data = given.get("data")
            if isinstance(data, Tensor) and data.size != dst.size:
                return f"data has {data.size} elements {list(data.shape)}, dst has {dst.size} {list(dst.shape)}"
    return None


def _matmul(given: dict[str, Any]) -> str | None:
    dst, stationary, moving = (given.get(name) for name in ("dst", "stationary", "moving"))
    if not (isinstance(dst, Tensor) and isinstance(stationary, Tensor) and isinstance(moving, Tensor)):
        return None
    if stationary.shape[0] != moving.shape[0]:
        return f"stationary spans {stationary.shape[0]} partitions, moving {moving.shape[0]}"
    if max(stationary.shape[0], dst.shape[0]) > MAX_PARTITIONS:
        return f"more than {MAX_PARTITIONS} partitions"
    mode = getattr(given.get("perf_mode"), "name", "none")
    if mode == "none":
        rows, columns = math.prod(stationary.shape[1:]), math.prod(moving.shape[1:])
        if dst.shape[0] != rows or math.prod(dst.shape[1:]) != columns:
            sizes = f"stationary {list(stationary.shape)} and moving {list(moving.shape)} give [{rows}, {columns}]"
            return f"{sizes}, dst is {list(dst.shape)}"
    return None


UNCHANGED = 255
"""Entry of a shuffle mask: the partition is not written."""
_QUADRANT = 32


def shuffled(tensor: Tensor, lanes: set[int]) -> list[Tensor]:
    """The given partitions of every 32 of a view."""
    inside = sorted(lane for lane in lanes if 0 <= lane < min(_QUADRANT, tensor.shape[0]))
    if inside == list(range(min(_QUADRANT, tensor.shape[0]))):
        return [tensor]
    found = []
    for lane in inside:
        count = -(-(tensor.shape[0] - lane) // _QUADRANT)
        offset = tensor.offset + lane * tensor.strides[0]
        strides = (_QUADRANT * tensor.strides[0], *tensor.strides[1:])
        found.append(replace(tensor, offset=offset, shape=(count, *tensor.shape[1:]), strides=strides))
    return found


def every_16th(tensor: Tensor) -> Tensor:
    """Partitions 0, 16, 32, ... of a view."""
    count = -(-tensor.shape[0] // 16)
    return replace(tensor, shape=(count, *tensor.shape[1:]), strides=(16 * tensor.strides[0], *tensor.strides[1:]))
