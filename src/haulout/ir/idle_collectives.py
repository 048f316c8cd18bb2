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

MAX_NAMED = 10
"""Names in a warning."""
_HELP = (
    "to exchange data between cores, partition the program for all of them; in HLO, groups count partitions "
    "only with `channel_id` and `use_global_device_ids`; where HLO does not say for how many cores it is, "
    "--cores N does",
)


def idle_collectives(program: Program) -> list[Diagnostic]:
    """`one-member-collective`, once for those with the same groups. A compiled program has no collectives."""
    opcodes = [program.strings.find(name) for name in COLLECTIVES]
    alike: dict[tuple[str, str], dict[str, int]] = {}
    """What they have in common -> name -> the first row."""
    idle: dict[tuple[int, str], tuple[str, str] | None] = {}
    """(Attributes, key) -> what they have in common, if they exchange nothing: cores have the same attributes."""
    for row in np.flatnonzero(np.isin(program.instructions.opcode, [each for each in opcodes if each >= 0])).tolist():
        name, opcode = program.instruction_name(row), program.strings[int(program.instructions.opcode[row])]
        key = "groups" if "groups=" in lookup(opcode).attributes else "pairs"
        attrs = int(program.instructions.attrs[row])
        if (attrs, key) not in idle:
            value = program.instruction_attrs(row).get(key)
            shown = f"{key}={format_value(value)}" if value is not None else ""
            idle[attrs, key] = (key, shown) if _is_idle(value, key == "pairs") else None
        if (common := idle[attrs, key]) is not None:
            alike.setdefault(common, {}).setdefault(name, row)
    found = []
    for (key, shown), rows in alike.items():
        what = "every core sends to itself" if key == "pairs" else "each of its groups has one member"
        names = [f"%{format_name(name)}" for name in rows]
        message = f"{names[0]} exchanges nothing: {what} ({shown})"
        if len(names) > 1:
            more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            what = what.replace("its groups", "their groups")
            message = (
                f"{len(names)} collectives exchange nothing: {what} ({shown}): {', '.join(names[:MAX_NAMED])}{more}"
            )
        label = instruction_label(program, next(iter(rows.values())))
        found.append(Diagnostic("one-member-collective", Severity.WARNING, message, (label,), (), _HELP))
    return found


def _is_idle(value: AttrValue | None, pairs: bool) -> bool:
    """Whether the groups have one member each, or the pairs have one core on both sides."""
    if not isinstance(value, list) or not value or not all(isinstance(each, list) for each in value):
        return False
    lists = [each for each in value if isinstance(each, list)]
    return all(len(each) == 2 and each[0] == each[1] if pairs else len(each) == 1 for each in lists)
