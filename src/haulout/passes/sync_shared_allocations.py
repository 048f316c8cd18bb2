"""sync_shared_allocations (order 83): every view gets the placement of its owner.

Order 82 places only owners. This pass follows the RemoteLocalTarget of each view, by name in the function of the same
name on the owner's core, and copies (address, bank, base partition). The view keeps its own memory type and address
space. The pass inserts no barrier and moves no location.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import location_label
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.support.diagnostics import fail


@dataclass(frozen=True)
class SyncSharedAllocations(Pass):
    """Copies placements from owners to views.

    Before: every owner of a view is allocated (order 82). After: a view and its owner agree in address, bank and
    partition. Errors: `unresolved-remote` when a view has no target, or its target has no address.
    """

    name: ClassVar[str] = "sync_shared_allocations"
    order: ClassVar[int | None] = 83
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """Join views with owners on (core, function name, name); copy three columns."""
        locations, owner = program.locations, program.owner
        views = np.flatnonzero(locations.remote_name != NONE)
        for row in views[owner[views] == NONE].tolist():
            fail("unresolved-remote", "the target of a view does not exist", location_label(program, row))
        target = owner[views]
        for at in np.flatnonzero(locations.address[target] == NONE).tolist():
            fail(
                "unresolved-remote",
                "the target of a view is not allocated",
                location_label(program, int(views[at])),
                location_label(program, int(target[at])),
                help=["run coloring_allocator_dram_shared before sync_shared_allocations"],
            )
        placed = {name: getattr(locations, name).copy() for name in ("address", "bank", "partition")}
        for column in placed.values():
            column[views] = column[target]
        context.count(self.name, views=len(views))
        return program.replace(locations=locations.replace(**placed))
