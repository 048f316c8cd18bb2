"""coloring_allocator_dram_shared (order 82): DRAM addresses, each core in a partition of its own.

The planner (`haulout.packing`) places the locations of each core, local and shared together, by their lifetimes on
the core's list (`analysis/lifetimes.py`). The option `partitions` says how the cores share the one DRAM:

    proportional   one after the other, each as large as its core's peak
    equal          all as large as the largest, core k at k times that size
    joint          one space: another core may reuse bytes after a fence (`joint_space.py`), if that takes less than
                   proportional partitions
    smallest       joint where it takes less, else proportional, and nothing is said

Places below the peak are then chosen by the estimated times of the instructions, so that tensors wait less for the
storage of others (`storage_waits.py`).

Views are not placed here; order 83 copies their owner's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from haulout.analysis.lifetimes import Lifetimes, lifetimes
from haulout.ir.core_classes import without_claims
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import SIZE_MAX, Bools, Ints
from haulout.packing import Solution, plan
from haulout.passes.base import Pass, PassContext
from haulout.passes.joint_space import MAX_LOCATIONS, JointPlan, plan_joint
from haulout.passes.options import Between, Bytes
from haulout.passes.over_capacity import explain
from haulout.passes.storage_waits import fewer_waits
from haulout.support.diagnostics import fail
from haulout.target import DEFAULT, load_target

Partitions = Literal["smallest", "proportional", "equal", "joint"]

EFFORT = 0.1
"""Of the planner: a compile trades the last tenth of a percent for time."""


class _Layout(NamedTuple):
    """Addresses of all locations and the bytes they need."""

    address: Ints
    peaks: list[int]
    bounds: list[int]
    total: int
    origins: list[int]
    """The start of each core's partition."""


@dataclass(frozen=True)
class ColoringAllocatorDramShared(Pass):
    """Gives every DRAM location except views an absolute address.

    Before: fences are final (order 81). After: locations of one core with overlapping lifetimes share no byte; every
    address is aligned and inside its core's partition; partitions do not overlap. With joint partitions, which the
    attribute `partitions` of the program records, locations of different cores share bytes across a fence only.
    Existing placements are kept; partitions are proportional then. Error: `over-capacity` when all cores together
    need more than `capacity` bytes; it names the fewest buffers that cannot fit together.
    """

    name: ClassVar[str] = "coloring_allocator_dram_shared"
    order: ClassVar[int | None] = 82

    capacity: Bytes | None = None
    """Bytes of DRAM for all cores together; None: unlimited."""
    partitions: Partitions = "smallest"
    """A partition of DRAM for each core, proportional to its need or equal, or one space for all cores; or what is
    smallest."""
    effort: Annotated[float, Between(0, 1)] = EFFORT
    """Of the search for places: 0 is construction alone, 1 the most."""
    target: str = DEFAULT
    """The machine whose times decide between places below the peak: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Plan each core, then choose the partitions."""
        program = without_claims(program)  # soon other values are in the same place
        locations = program.locations
        life = lifetimes(program)
        owned = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE)
        layout = self._stack(program, owned, life, self.effort)
        if self.capacity is not None and layout.total > self.capacity >= sum(layout.bounds):
            layout = min(layout, self._stack(program, owned, life, effort=1.0), key=lambda each: each.total)
        step = int(locations.align[owned].max(initial=64))  # so that equal offsets stay aligned
        share = -(-max(layout.peaks, default=0) // step) * step
        totals = {"proportional": layout.total, "equal": share * program.lnc}
        pinned = bool((locations.address[owned] != NONE).any())
        joint = None if pinned else self._plan_joint(program, owned, life)
        if joint is not None:
            totals["joint"] = min(joint.peak, layout.total)
        obstacle = "some locations already have addresses" if pinned else ""
        layout, kind = self._choose(program, context, owned, layout, joint, share, obstacle)
        bound = joint.lower_bound if joint is not None and kind == "joint" else sum(layout.bounds)
        if self.capacity is not None and layout.total > self.capacity:
            self._over_capacity(program, context, life, layout, kind, bound)
        if self.effort and not pinned:
            spaces = [
                (owned & (program.location_core == core), layout.origins[core], layout.peaks[core])
                for core in range(program.lnc)
            ]
            if kind == "joint":
                spaces = [(owned, 0, layout.total)]
            address = fewer_waits(program, life, layout.address, spaces, load_target(self.target))
            layout = layout._replace(address=address)
        for core in range(program.lnc):
            context.count(
                f"{self.name}.core{core}", peak_bytes=layout.peaks[core], lower_bound_bytes=layout.bounds[core]
            )
        context.count(self.name, total_peak_bytes=layout.total, total_lower_bound_bytes=bound)
        context.count(f"{self.name}.totals", **totals)
        zero = np.where(owned, np.maximum(locations.bank, 0), locations.bank)
        part = np.where(owned, np.maximum(locations.partition, 0), locations.partition)
        placed = locations.replace(address=layout.address, bank=zero, partition=part)
        attrs = {key: value for key, value in program.attrs.items() if key != "partitions"}
        if self.capacity is not None:
            attrs["capacity"] = self.capacity
        if kind == "joint":
            attrs["partitions"] = "joint"
        return program.replace(locations=placed, attrs=attrs)

    def _stack(self, program: Program, owned: Bools, life: Lifetimes, effort: float) -> _Layout:
        """Proportional partitions: the placement of each core, one after the other."""
        locations = program.locations
        address = locations.address.copy()
        base = 0
        # Cores with existing placements come first: theirs are fixed, the others follow.
        mine = [np.flatnonzero(owned & (program.location_core == core)) for core in range(program.lnc)]
        pinned = [bool(np.any(address[rows] != NONE)) for rows in mine]
        peaks = [0] * program.lnc
        bounds = [0] * program.lnc
        origins = [0] * program.lnc
        for core in sorted(range(program.lnc), key=lambda core: (not pinned[core], core)):
            rows = mine[core]
            step = int(locations.align[rows].max(initial=64))
            origin = (
                int(address[rows][address[rows] != NONE].min()) // step * step
                if pinned[core]
                else -(-base // step) * step
            )
            solution = self._plan_core(program, rows, life, origin, address, effort)
            address[rows] = origin + solution.offset
            origins[core] = origin
            # What nothing accesses shares any bytes, but of its core's partition.
            size = locations.size[rows]
            peaks[core] = max(int(solution.peak), int((solution.offset + size).max(initial=0)))
            bounds[core] = max(int(solution.lower_bound), int(size.max(initial=0)))
            base = max(base, origin + peaks[core])
            if base > SIZE_MAX:
                fail("over-capacity", f"core {core} ends at {base}; addresses end at 2**62")
        return _Layout(address, peaks, bounds, sum(peaks), origins)

    def _plan_joint(self, program: Program, owned: Bools, life: Lifetimes) -> JointPlan | None:
        """The joint space, if the option asks for it or it is cheap to compute."""
        rows = np.flatnonzero(owned)
        asked = self.partitions in ("joint", "smallest")
        if program.lnc < 2 or len(rows) > (MAX_LOCATIONS if asked else MAX_LOCATIONS // 8):
            return None
        return plan_joint(program, rows, life)

    def _choose(
        self,
        program: Program,
        context: PassContext,
        owned: Bools,
        stacked: _Layout,
        joint: JointPlan | None,
        share: int,
        reason: str,
    ) -> tuple[_Layout, Partitions]:
        """The layout that the option asks for, or proportional partitions and a note with the reason."""
        if self.partitions == "proportional" or program.lnc < 2:
            return stacked, "proportional"
        if not reason and self.partitions == "equal":
            if share * program.lnc > SIZE_MAX:
                fail("over-capacity", f"{program.lnc} partitions of {share} bytes exceed 2**62 bytes")
            address = stacked.address.copy()
            for core in range(program.lnc):
                rows = np.flatnonzero(owned & (program.location_core == core))
                address[rows] += core * share - stacked.origins[core]
            return stacked._replace(
                address=address, total=share * program.lnc, origins=[core * share for core in range(program.lnc)]
            ), "equal"
        if not reason and joint is None:
            reason = f"the program has more than {MAX_LOCATIONS} locations"
        elif joint is not None and joint.peak >= stacked.total:
            reason = f"a joint space needs {joint.peak} bytes, they need {stacked.total}"
        if reason or joint is None:
            if self.partitions != "smallest":
                context.note("kept-partitions", f"partitions stay proportional: {reason}")
            return stacked, "proportional"
        address = stacked.address.copy()
        address[owned] = joint.offset
        # The report keeps the bytes that each core needs by itself.
        return stacked._replace(address=address, total=joint.peak, origins=[0] * program.lnc), "joint"

    def _plan_core(
        self, program: Program, rows: Ints, life: Lifetimes, origin: int, address: Ints, effort: float
    ) -> Solution:
        """The placement of one core's locations, as offsets from its partition's start."""
        fixed = address[rows]
        return plan(
            life.begin[rows],
            life.end[rows],
            program.locations.size[rows],
            program.locations.align[rows],
            pinned=np.where(fixed == NONE, NONE, fixed - origin),
            effort=effort,
        )

    def _over_capacity(
        self, program: Program, context: PassContext, life: Lifetimes, layout: _Layout, kind: Partitions, bound: int
    ) -> None:
        assert self.capacity is not None
        listed = [
            f"core {core}: {peak} bytes placed, {least} live at one time"
            for core, (peak, least) in enumerate(zip(layout.peaks, layout.bounds, strict=True))
        ]
        found = explain(program, life, self.capacity, kind)
        fences = context.counters.get("extend_shared_lifetimes", {}).get("capacity_fences")
        if fences:
            listed.append(f"{fences} fences were added to free storage earlier")
        elif fences is not None and bound > self.capacity:
            listed.append("no fence was added: freeing storage earlier is not enough")
        other = "" if self.partitions == "smallest" else ", or try --partitions smallest"
        fail(
            "over-capacity",
            f"the program needs {layout.total} bytes of DRAM, the capacity is {self.capacity}",
            *found.labels,
            notes=[*listed, f"{bound} bytes are live at one time on all cores together", *found.notes],
            help=[
                "no placement fits: shorten lifetimes or raise the capacity"
                if found.certain or bound > self.capacity
                else f"a better placement may exist: raise the capacity{other}"
            ],
        )
