"""Warn of a collective whose groups have one member each: it exchanges nothing.

The order is correct, but it is rarely intended. Often the program was written for more cores than it has, or its
groups count replicas instead of partitions.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.attributes import AttrValue, format_name, format_value
from haulout.ir.labels import instruction_label
from haulout.ir.opcodes import COLLECTIVES, lookup
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity


def idle_collectives(program: Program) -> list[Diagnostic]:
    """`one-member-collective`, once for each name. A compiled program has no collectives."""
    opcodes = [program.strings.find(name) for name in COLLECTIVES]
    reported: set[str] = set()
    found = []
    for row in np.flatnonzero(np.isin(program.instructions.opcode, [each for each in opcodes if each >= 0])).tolist():
        name, opcode = program.instruction_name(row), program.strings[int(program.instructions.opcode[row])]
        key = "groups" if "groups=" in lookup(opcode).attributes else "pairs"
        value = program.instruction_attrs(row).get(key)
        if name in reported or not _is_idle(value, key == "pairs"):
            continue
        reported.add(name)
        what = "every core sends to itself" if key == "pairs" else "each of its groups has one member"
        shown = f"{key}={format_value(value)}" if value is not None else ""
        message = f"%{format_name(name)} exchanges nothing: {what} ({shown})"
        help_text = (
            "to exchange data between cores, partition the program for all of them; in HLO, groups count partitions "
            "only with `channel_id` and `use_global_device_ids`; where HLO does not say for how many cores it is, "
            "--cores N does",
        )
        label = instruction_label(program, row)
        found.append(Diagnostic("one-member-collective", Severity.WARNING, message, (label,), (), help_text))
    return found


def _is_idle(value: AttrValue | None, pairs: bool) -> bool:
    """Whether the groups have one member each, or the pairs have one core on both sides."""
    if not isinstance(value, list) or not value or not all(isinstance(each, list) for each in value):
        return False
    lists = [each for each in value if isinstance(each, list)]
    return all(len(each) == 2 and each[0] == each[1] if pairs else len(each) == 1 for each in lists)
