"""What a check of the rules of the hardware is.

A check gets the arguments of an instruction, those of them that are tensors, and the target; it gives the breaches.
Severity, code and text of a breach are those of its row in `hardware_table.py`, as is on which targets it is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from haulout.frontends.nki.tensor import Tensor


class Breach(NamedTuple):
    """A rule that an instruction breaks: its name, the operand or option, what was seen, and what to do."""

    rule: str
    subject: str
    message: str
    help: str = ""


Given = Mapping[str, Any]
Operands = Mapping[str, Tensor]
Found = Iterator[Breach]
Check = Callable[[Given, Operands, str], Found]


def all_of(*checks: Check) -> Check:
    """Several checks of one instruction."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        for each in checks:
            yield from each(given, operands, target)

    return check


def free_size(tensor: Tensor) -> int:
    """Elements of a view in each partition."""
    return math.prod(tensor.shape[1:])
