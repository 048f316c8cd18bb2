"""share_replicated: inputs and constants that are equal on several cores are stored once.

1. Candidates: local inputs that nothing writes, with `same=`, and local constants; not placed yet.
2. Classes: cores whose input is equal, as `same=` says; cores whose constants hold the same data.
3. The largest class first: its owner is the member that owns the fewest bytes so far, so that the partitions of the
   DRAM stay alike. The owner keeps the location as a shared one, the other members get views of it.

Nothing writes such a location, so it needs no fence. `same=` is a contract of the caller: `simulate` refuses inputs
that break it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.core_classes import parse_classes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext

LEAST_BYTES = 64
"""Smaller locations stay: the alignment of a location takes as much."""


@dataclass(frozen=True)
class ShareReplicated(Pass):
    """Stores inputs and constants once for each class of cores that hold equal bytes.

    Before: sound; no core has an address. After: the same values under the same names; what is shared is read only.
    """

    name: ClassVar[str] = "share_replicated"
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """Classes of equal locations, owners in turn, one replacement of the columns."""
        locations = program.locations
        classes = sorted(_classes(program), key=lambda rows: (-int(locations.size[rows[0]]) * len(rows), rows))
        owned = np.zeros(program.lnc, np.int64)
        space, name, core = (
            column.copy() for column in (locations.space, locations.remote_name, locations.remote_core)
        )
        saved = 0
        for rows in classes:
            cores = program.location_core[rows]
            at = int(np.argmin(owned[cores]))
            size = int(locations.size[rows[at]])
            owned[cores[at]] += size
            space[rows] = Space.DRAM_SHARED
            views = np.delete(rows, at)
            name[views], core[views] = locations.name[views], cores[at]
            saved += size * len(views)
        context.count(self.name, shared=len(classes), saved_bytes=saved)
        return program.replace(locations=locations.replace(space=space, remote_name=name, remote_core=core))


def _classes(program: Program) -> list[list[int]]:
    """Rows of locations that hold equal bytes, two or more, on different cores."""
    locations, accesses = program.locations, program.accesses
    written = np.zeros(len(locations), bool)
    written[program.owner[accesses.location[accesses.write]]] = True
    viewed = np.zeros(len(locations), bool)
    viewed[program.owner[locations.remote_name != NONE]] = True
    fits = (locations.space == Space.DRAM_LOCAL) & (locations.address == NONE) & ~written & ~viewed
    fits &= (locations.size >= LEAST_BYTES) & (locations.remote_name == NONE)
    inputs = fits & (locations.kind == Kind.INPUT) & (locations.same != NONE)
    constants = fits & (locations.kind == Kind.CONST) & (locations.data != NONE)
    function_name = program.functions.name[locations.function]
    # group by function, name and what makes two of them equal
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in np.flatnonzero(inputs | constants).tolist():
        columns = (locations.name, locations.size, locations.align, locations.data, locations.same)
        groups[int(function_name[row]), *(int(column[row]) for column in columns)].append(row)
    found: list[list[int]] = []
    for key, rows in groups.items():
        if key[-1] == NONE:
            found.append(rows)
            continue
        by_core = {int(program.location_core[row]): row for row in rows}
        for members in parse_classes(program.strings[key[-1]]):
            found.append([by_core[each] for each in members if each in by_core])
    return [rows for rows in found if len(rows) > 1]
