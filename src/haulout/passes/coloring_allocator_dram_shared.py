"""coloring_allocator_dram_shared (order 82): DRAM addresses, each core in a partition of its own.

For each core: the locations that it owns, local and shared together, with their lifetimes on its list
(`analysis/lifetimes.py`), go to the planner (`passes/allocator`). Partitions stand one behind the other in the one
DRAM of the program, each as large as its core's peak. Views are not placed here; order 83 copies their owner's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.analysis.lifetimes import Lifetimes, lifetimes
from haulout.analysis.loops import find_loops
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.ir.text.values import SIZE_MAX
from haulout.passes.allocator import Solution, plan
from haulout.passes.base import Pass, PassContext
from haulout.support.diagnostics import fail


@dataclass(frozen=True)
class ColoringAllocatorDramShared(Pass):
    """Gives every DRAM location that is no view an absolute address.

    Before: fences are final (order 81). After: locations of one core with meeting lifetimes share no byte; every
    address is aligned and inside its core's partition; partitions do not overlap. Placements that the program came
    with are kept. Error: `over-capacity` when the partitions together need more than `capacity` bytes.
    """

    name: ClassVar[str] = "coloring_allocator_dram_shared"
    order: ClassVar[int | None] = 82

    capacity: int | None = None
    """Bytes of DRAM for all cores together; None: as much as needed."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Plan each core by itself, then stack the partitions."""
        find_loops(program)
        locations = program.locations
        life = lifetimes(program)
        owned = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE)
        address = locations.address.copy()
        base = 0
        # Cores with placements of their own come first: theirs are fixed, the others stack behind them.
        mine = [np.flatnonzero(owned & (program.location_core == core)) for core in range(program.lnc)]
        pinned = [bool(np.any(address[rows] != NONE)) for rows in mine]
        peaks = [0] * program.lnc
        bounds = [0] * program.lnc
        for core in sorted(range(program.lnc), key=lambda core: (not pinned[core], core)):
            rows = mine[core]
            step = int(locations.align[rows].max(initial=64))
            origin = (
                int(address[rows][address[rows] != NONE].min()) // step * step
                if pinned[core]
                else -(-base // step) * step
            )
            solution = self._plan_core(program, rows, life, origin, address)
            address[rows] = origin + solution.offset
            peaks[core], bounds[core] = int(solution.peak), int(solution.lower_bound)
            base = max(base, origin + peaks[core])
            if base > SIZE_MAX:
                fail("over-capacity", f"the partitions reach further than 2**62 bytes: core {core} ends at {base}")
        total = sum(peaks)
        if self.capacity is not None and total > self.capacity:
            self._over_capacity(peaks, bounds, total)
        for core in range(program.lnc):
            context.count(f"{self.name}.core{core}", peak_bytes=peaks[core], lower_bound_bytes=bounds[core])
        context.count(self.name, total_peak_bytes=total, total_lower_bound_bytes=sum(bounds))
        zero = np.where(owned, np.maximum(locations.bank, 0), locations.bank)
        part = np.where(owned, np.maximum(locations.partition, 0), locations.partition)
        placed = locations.replace(address=address, bank=zero, partition=part)
        attrs = program.attrs if self.capacity is None else {**program.attrs, "capacity": self.capacity}
        return program.replace(locations=placed, attrs=attrs)

    def _plan_core(self, program: Program, rows: Ints, life: Lifetimes, origin: int, address: Ints) -> Solution:
        """The placement of one core's locations, as offsets from its partition's start."""
        fixed = address[rows]
        return plan(
            life.begin[rows],
            life.end[rows],
            program.locations.size[rows],
            program.locations.align[rows],
            pinned=np.where(fixed == NONE, NONE, fixed - origin),
        )

    def _over_capacity(self, peaks: list[int], bounds: list[int], total: int) -> None:
        capacity = self.capacity or 0
        listed = [
            f"core {core}: {peak} bytes placed, {bound} live at one time"
            for core, (peak, bound) in enumerate(zip(peaks, bounds, strict=True))
        ]
        certain = sum(bounds) > capacity
        fail(
            "over-capacity",
            f"the program needs {total} bytes of DRAM, the capacity is {capacity}",
            notes=[*listed, f"{sum(bounds)} bytes are live at one time on all cores together"],
            help=[
                "no placement can fit: shorten lifetimes or raise the capacity"
                if certain
                else "a better placement may exist: raise the capacity, or try --fences bracket"
            ],
        )
