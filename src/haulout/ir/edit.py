"""Changing a program as whole columns: insert many instructions in one merge, delete many in one compaction.

`insert` takes the new rows with the row *before* which each is to stand; ties keep the order given. `compact` keeps a
mask. Both return the program and the map from old instruction ids to new ones (NONE: deleted).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from haulout.ir.builder import reorder_instructions
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import (
    Accesses,
    Barriers,
    Column,
    Dependences,
    Ids,
    Instructions,
    Meetings,
    Semaphores,
)


@dataclass(slots=True)
class NewInstructions:
    """Rows to insert. Row k goes before the old row `before[k]`; the number of old rows: at the end.

    The `instruction` columns of the other tables count these new rows from 0; ids in `dependences.producer` are old
    ids, or `old_rows + k` for new row k.
    """

    before: Ids
    instructions: Instructions
    accesses: Accesses = field(default_factory=Accesses.empty)
    dependences: Dependences = field(default_factory=Dependences.empty)
    barriers: Barriers = field(default_factory=Barriers.empty)
    meetings: Meetings = field(default_factory=Meetings.empty)
    semaphores: Semaphores = field(default_factory=Semaphores.empty)


_CHILDREN = ("accesses", "dependences", "barriers", "meetings", "semaphores")


def insert(program: Program, new: NewInstructions) -> tuple[Program, Ids]:
    """Insert instructions; returns the program and old id -> new id (new row k: entry `old_rows + k`)."""
    old = len(program.instructions)
    count = len(new.instructions)
    # Merge: sort by (old row that follows, new rows first), which puts a new row before the old one that it names.
    key = np.concatenate([np.arange(old, dtype=np.int64) * 2 + 1, np.asarray(new.before, np.int64) * 2])
    order = np.argsort(key, kind="stable").astype(np.int32)
    position: Ids = np.empty(old + count, np.int32)
    position[order] = np.arange(old + count, dtype=np.int32)
    changed: dict[str, Any] = {"instructions": program.instructions.append(new.instructions).take(order)}
    for name in _CHILDREN:
        rows = getattr(new, name)
        changed[name] = program.table(name).append(rows.replace(instruction=rows.instruction + old))
    return reorder_instructions(program.replace(**changed), position), position


def compact(program: Program, keep: Column) -> tuple[Program, Ids]:
    """Delete the instructions outside the mask `keep`, with their operands and every dependence on them."""
    remap = np.where(keep, np.cumsum(keep) - 1, NONE).astype(np.int32)
    changed: dict[str, Any] = {"instructions": program.instructions.take(keep)}
    for name in _CHILDREN:
        rows = program.table(name)
        kept = keep[rows.instruction]  # type: ignore[attr-defined]
        if name == "dependences":
            kept &= keep[rows.producer]  # type: ignore[attr-defined]
        if name == "accesses":
            access_map = np.where(kept, np.cumsum(kept) - 1, NONE).astype(np.int32)
            steps = program.steps.take(kept[program.steps.access])
            changed["steps"] = steps.remap({"accesses": access_map})
        changed[name] = rows.take(kept).remap({"instructions": remap})
    return program.replace(**changed), remap


def add_dependences(program: Program, rows: Dependences) -> Program:
    """Append dependences and sort them by the instruction that waits, stably."""
    merged = program.dependences.append(rows)
    return program.replace(dependences=merged.take(np.argsort(merged.instruction, kind="stable")))


def drop_locations(program: Program, keep: Column) -> Program:
    """Delete the locations outside the mask `keep`; no access may name one of them."""
    remap = np.where(keep, np.cumsum(keep) - 1, NONE).astype(np.int32)
    maps = {"locations": remap}
    return program.replace(
        locations=program.locations.take(keep),
        accesses=program.accesses.remap(maps),
        blocks=program.blocks.remap(maps),
    )
