"""localize_shared_memory: a shared location that only one core accesses becomes that core's local location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.edit import drop_locations
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext


@dataclass(frozen=True)
class LocalizeSharedMemory(Pass):
    """Moves internal shared locations to the only core that accesses them and drops their views.

    Before: sound. After: the remaining internal shared locations are accessed by two cores, or have an address, or
    have two names on the only core that accesses them; operands name the same bytes as before. A location without
    accesses becomes local to its owner.
    """

    name: ClassVar[str] = "localize_shared_memory"
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """Group accesses by owner location; move the locations that one core accesses."""
        locations, owner = program.locations, program.owner
        # A branch reads its condition.
        deciding = np.flatnonzero(program.blocks.cond != NONE)
        core = np.append(program.instruction_core[program.accesses.instruction], program.block_core[deciding])
        touched_owner = owner[np.append(program.accesses.location, program.blocks.cond[deciding])]
        least = np.full(len(locations), program.lnc, np.int64)
        most = np.full(len(locations), NONE, np.int64)
        # group by owner location: least and greatest core that accesses it
        np.minimum.at(least, touched_owner, core)
        np.maximum.at(most, touched_owner, core)
        home = np.where(most == NONE, program.location_core, most)
        lonely = (
            (locations.space == Space.DRAM_SHARED)
            & (locations.kind == Kind.INTERNAL)
            & (locations.remote_name == NONE)
            & (locations.address == NONE)
            & ((least == most) | (most == NONE))
        )
        family = lonely[owner] & (owner != NONE)
        # The home core may have two names for it (two views). Such a family is not moved.
        at_home = family & (program.location_core == home[owner])
        names = np.bincount(owner[at_home], minlength=len(locations))
        family &= names[owner] == 1
        at_home &= family
        space = np.where(at_home, Space.DRAM_LOCAL, locations.space).astype(np.uint8)
        moved = locations.replace(
            space=space,
            remote_name=np.where(at_home, NONE, locations.remote_name),
            remote_core=np.where(at_home, NONE, locations.remote_core),
        )
        context.count(self.name, localized=int(at_home.sum()))
        return drop_locations(program.replace(locations=moved), ~family | at_home)
