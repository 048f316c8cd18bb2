"""Known indices that leave the tensor that they are used on: `out-of-bounds` at the instruction.

What an instruction does with such an index is its `oob_mode`: `error`, the default, stops the kernel on the device;
`skip` leaves the row out, which is what padded indices are made for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from haulout.frontends.nki.accessed import leaving
from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.value_rules import known_numbers


def check_indices(name: str, given: Mapping[str, Any], findings: Findings, place: tuple[str, int]) -> None:
    """Check the indices of one instruction, as far as they are known."""
    if getattr(given.get("oob_mode"), "name", "") != "skip":
        for tensor in _indirect(given.values()):
            _check_moves(tensor, findings, place)
    if name == "nc_n_gather":
        _check_gather(given, findings, place)


def _indirect(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            if value.indirect is not None:
                yield value
        elif isinstance(value, list | tuple):
            yield from _indirect(value)


def _check_moves(tensor: Tensor, findings: Findings, place: tuple[str, int]) -> None:
    wrong = leaving(tensor)
    if not wrong or tensor.indirect is None:
        return
    at, index, low, high = wrong[0]
    source = tensor.indirect.index
    what = "the register" if isinstance(source, VirtualRegister) else f"element {at} of {source.name}"
    rows = f"; it has {tensor.indirect.extent} such rows" if tensor.indirect.extent > 1 else ""
    more = [f"{len(wrong)} of {tensor.shape[0]} indices leave it"] if len(wrong) > 1 else []
    findings.add(
        "out-of-bounds",
        f"index {index} ({what}) reaches bytes {low}:{high} of {tensor.storage.describe()}, "
        f"which has {tensor.storage.size}{rows}",
        subject=tensor.storage.name,
        place=place,
        notes=more,
        help=["correct the indices, or give oob_mode=nisa.oob_mode.skip to leave such rows out"],
    )


def _check_gather(given: Mapping[str, Any], findings: Findings, place: tuple[str, int]) -> None:
    """`nc_n_gather` picks elements of each partition, and has no mode that skips."""
    data, index = given.get("data"), given.get("indices")
    numbers = known_numbers(index)
    if not isinstance(data, Tensor) or not isinstance(index, Tensor) or numbers is None:
        return
    count = math.prod(data.shape[1:])
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        findings.add(
            "out-of-bounds",
            f"index {int(wrong[0])} in {index.name} picks none of the {count} elements that a partition of "
            f"{data!r} has",
            subject=data.name,
            place=place,
            help=["correct the indices"],
        )
