"""localize_shared_memory: a shared location that one core alone touches becomes that core's local one."""

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
    """Moves internal shared locations to the one core that touches them and drops their views.

    Before: sound. After: an internal shared location that is left is touched by two cores, or has an address already,
    or has two names on the one core that touches it; operands name the same bytes as before. A location that nobody
    touches stays with its owner, as local.
    """

    name: ClassVar[str] = "localize_shared_memory"
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """Group accesses by owner location, find those of one core, move them there."""
        locations, owner = program.locations, program.owner
        # A branch touches what it reads to decide.
        deciding = np.flatnonzero(program.blocks.cond != NONE)
        core = np.append(program.instruction_core[program.accesses.instruction], program.block_core[deciding])
        touched_owner = owner[np.append(program.accesses.location, program.blocks.cond[deciding])]
        least = np.full(len(locations), program.lnc, np.int64)
        most = np.full(len(locations), NONE, np.int64)
        # group by owner location: least and greatest core that touches it
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
        # The home core may name it twice (two views): the first name stays local, so such a family is left alone.
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
