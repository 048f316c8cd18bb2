"""Which paths through loops and forks are checked, so that every conflict shows in one of them.

A fence that all cores attend whatever is chosen cuts a run into *segments*: what comes before it is always ordered
before what comes after it (where the counts of semaphores carry choices over it, `counts_across_fences.py`, it does
not cut). So order needs every path through each segment, and paths through different segments share a run. Only
values cross a fence: for each location (with those that share its storage) every path through the choices that touch
it is selected, of the cores on which they do. What is selected is packed into as few runs as first fit finds. Where
cores choose for themselves and no order depends on it, all choose alike (`lockstep.py`).

A segment with too many paths is taken by pairs: for two accesses least is ordered when nothing else runs. Each two
regions that conflict, with nothing else, show all there is (and each alone, whether its barriers agree), provided
that every loop may have no iteration and every fork has an empty arm. Other forks take neither of their arms then
(`SKIP`): if nothing is found all is proved. Otherwise a covering set remains, every pair of choices at least once,
and what it leaves out is reported (`unproved-paths`). The same holds for a location that too many choices touch:
reads are tried with as few writes as possible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from haulout.checker.paths.choices import (
    GuardedBlocks,
    Node,
    Paths,
    all_paths,
    avoiding,
    count_paths,
    filled,
    find_guarded,
    find_nodes,
    first_path,
    on_cores,
)
from haulout.checker.paths.control_flow import ControlFlow
from haulout.checker.paths.footprints import Footprints, joined, may_conflict
from haulout.checker.paths.lockstep import Lockstep, Segment
from haulout.checker.paths.runs import SKIP, Choice, Execution, Path, Run, longest, walk
from haulout.checker.paths.step_trips import Copies

MAX_RUNS = 128
"""Runs for one segment or one location; with more paths, fewer are combined."""
MAX_WORK = 1 << 22
"""Instructions of all these runs together; 8 runs are allowed however long the program is."""
MAX_REGIONS = 512
"""Regions of a segment that are combined in pairs."""


@dataclass(slots=True)
class Plan:
    """The paths that are checked. Headers and forks are block numbers."""

    paths: Paths
    relaxed: Paths = field(default_factory=list)
    """Paths that no program takes. Where nothing is found on them, the paths through `unsure` are complete."""
    unsure: set[int] = field(default_factory=set)
    """Headers and forks of segments of which not every path is checked."""
    distant: set[int] = field(default_factory=set)
    """Headers whose iterations are too few, unless nothing is found without waits that may be left out."""
    missing: set[int] = field(default_factory=set)
    """Headers and forks of which some paths are missing for certain."""
    segments: list[Execution] = field(default_factory=list)
    total: int = 1
    """How many paths there are, with as many iterations as are checked."""


def find_plan(flow: ControlFlow, copies: Mapping[int, Copies], footprints: Footprints) -> Plan:
    """The paths to check."""
    size = max(longest(flow.structure, copies, flow.sizes), 1)
    return _Planner(flow, copies, footprints, min(MAX_RUNS, max(8, MAX_WORK // size))).plan()


def find_runs(
    flow: ControlFlow, copies: Mapping[int, Copies], plan: Plan, paths: Paths, forgets: bool = False
) -> Iterator[Run]:
    """The runs of some paths of a plan, equal ones once."""
    known = set()
    for path in paths:
        run = walk(flow.structure, copies, len(flow.functions), path, segments=plan.segments, forgets=forgets)
        key = run.executions, run.cores
        if key not in known:
            known.add(key)
            yield run


class _Planner:
    def __init__(self, flow: ControlFlow, copies: Mapping[int, Copies], footprints: Footprints, limit: int) -> None:
        self.flow, self.copies, self.footprints, self.limit = flow, copies, footprints, limit
        self.structure = flow.structure
        self.cores = len(flow.functions)
        self.mask = (1 << self.cores) - 1
        self.lockstep = Lockstep(self.structure, copies, footprints, self.cores)
        self.nodes = find_nodes(self.structure, copies)
        self.made = Plan([first_path(self.nodes, self.mask)], total=count_paths(self.nodes, self.mask))

    def plan(self) -> Plan:
        """The paths for every segment, then for every location."""
        self.made.distant = {header for header, each in self.copies.items() if each.distant}
        if not self.nodes:
            return self.made
        segments = self.segments()
        exact: set[int] = set()
        alike: set[int] = set()  # exact for each core alone
        for number, segment in segments.items():
            if self.lockstep.suits(segment):
                if (selected := self.lockstep.paths(segment, self.limit)) is None:
                    self.by_pairs(segment.nodes, alike=True)
                    continue
                paths, whole = selected
                alike |= {number} if whole else set()
                self.pack(self.made.paths, paths)
                continue
            every = all_paths(segment.nodes, self.mask, self.limit, lambda node: self.mask)
            if every is None:
                self.by_pairs(segment.nodes, alike=False)
            else:
                exact.add(number)
                self.pack(self.made.paths, every)
        self.made.segments += sorted(self.lockstep.cuts)
        of = {(node.block, node.around): number for number, segment in segments.items() for node in segment.nodes}
        touching: dict[int, list[Node]] = {}
        written: set[int] = set()
        for node in self.nodes:
            inside = slice(node.inside.start, node.inside.stop)
            writes = set().union(*self.footprints.writes[inside])
            written |= writes
            for group in writes.union(*self.footprints.reads[inside]):
                touching.setdefault(group, []).append(node)
        for group in sorted(written):
            nodes = touching[group]
            where = {of[node.block, node.around] for node in nodes}
            lone = all(self.touching(node, group).bit_count() < 2 for node in nodes if node.is_divergent)
            if len(where) > 1 or not where <= (exact | alike if lone else exact):
                self.values(group, nodes)
        return self.made

    def touching(self, node: Node, group: int) -> int:
        """The cores whose choices at a node matter for a group."""
        return self.footprints.touch(node.inside, group)

    def segments(self) -> dict[int, Segment]:
        """The segments in which something is chosen; where they begin is noted."""
        base = walk(self.structure, self.copies, self.cores, {}, everything=True)
        footprints, conditional = self.footprints, self.flow.is_conditional.tolist()
        cuts: list[int] = []
        before = [0] * self.cores
        for place, (block, _) in enumerate(base.executions):
            fences = footprints.fences[block]
            aligned = all(fences) and len(set(before)) == 1
            if aligned and not conditional[block] and not footprints.counts_carry:
                cuts.append(place)
            for core in range(self.cores):
                before[core] += fences[core] if base.cores[place] >> core & 1 else 0
        self.made.segments = [base.executions[place] for place in cuts]
        place_of = {execution: place for place, execution in enumerate(base.executions)}
        found: dict[int, Segment] = {}
        for node in self.nodes:
            first = (*node.around, 0) if node.is_loop else node.around
            segment = found.setdefault(bisect_right(cuts, place_of[node.block, first]), Segment())
            segment.nodes.append(node)
            segment.blocks |= set(node.inside)
        ends = [0, *cuts, len(base.executions) - 1]
        for number, segment in found.items():
            # Code before the fence in the block at the end belongs to it.
            segment.blocks |= {block for block, _ in base.executions[ends[number] : ends[number + 1] + 1]}
        return found

    # -- order ------------------------------------------------------------------------------------------------------

    def by_pairs(self, nodes: list[Node], alike: bool) -> None:
        """The paths through a segment on which two regions run alone, and where that is no proof, a covering set; in
        `alike` ones all cores may do the same.
        """
        crossing: Paths = []
        if alike:
            own = find_guarded(self.structure, nodes, 1)
            if len(own) <= MAX_REGIONS:
                crossing = self.lockstep.crossing(own)
            regions = [GuardedBlocks(on_cores(each.path, range(self.cores)), each.blocks) for each in own]
        else:
            regions = find_guarded(self.structure, nodes, self.mask)
        blocks = {node.block for node in nodes} | {choice[0] for region in regions for choice in region.path}
        # Each region runs at least once, for reads of what nothing writes.
        every = [region.path for region in regions]
        if not self.pack(self.made.paths, every, self.limit) or len(regions) > MAX_REGIONS:
            self.made.missing |= blocks
            return
        covering = [
            {**one.path, **other.path}
            for one, other in combinations_with_replacement(regions, 2)
            if _agree(one.path, other.path)
        ]
        alone = [] if self.footprints.counts_choices else self.alone(nodes, regions)
        if alone:
            alone += [filled(nodes, self.mask, path) for path in crossing]
        covering += crossing
        real = [path for path in alone if SKIP not in path.values()]
        relaxed = [path for path in alone if SKIP in path.values()]
        if not alone or len(alone) > 2 * self.limit or not self.pack(self.made.paths, real, 2 * self.limit):
            self.made.missing |= blocks
            self.pack(self.made.paths, covering, self.limit)
        elif relaxed:
            self.made.unsure |= blocks
            self.pack(self.made.paths, covering, self.limit)
            self.pack(self.made.relaxed, relaxed)

    def alone(self, nodes: list[Node], regions: list[GuardedBlocks]) -> Paths:
        """The paths on which only two regions that conflict run, or one that synchronizes with other cores."""
        footprints = self.footprints
        inside = {block for node in self.nodes for block in node.inside}
        always = GuardedBlocks({}, tuple(block for block in self.flow.blocks if block not in inside))
        some = [always, *regions]
        writes = [joined(footprints.writes[block] for block in region.blocks) for region in some]
        touches = [
            joined([written, *(footprints.reads[block] for block in region.blocks)])
            for region, written in zip(some, writes, strict=True)
        ]
        rendezvous = [any(footprints.has_rendezvous[block] for block in region.blocks) for region in some]
        found: dict[tuple[tuple[Choice, int], ...], dict[Choice, int]] = {}
        for (i, one), (j, other) in combinations_with_replacement(enumerate(some), 2):
            conflict = may_conflict(writes[i], touches[j]) or may_conflict(writes[j], touches[i])
            if (conflict or i == j == 0 or (i == j and rendezvous[i])) and _agree(one.path, other.path):
                path = filled(nodes, self.mask, {**one.path, **other.path})
                found[tuple(sorted(path.items()))] = path
                if len(found) > 2 * self.limit:
                    break
        return list(found.values())

    # -- values -----------------------------------------------------------------------------------------------------

    def values(self, group: int, nodes: list[Node]) -> None:
        """The paths through what touches a group."""
        footprints = self.footprints
        if footprints.seq_rises and group not in footprints.undefined and group not in footprints.shared:
            return  # it always has a value, and nothing runs against the source
        paths = all_paths(nodes, self.mask, self.limit, lambda node: self.touching(node, group))
        if paths is None:
            paths = self.few_writes(nodes, group)
        if paths is None or not self.pack(self.made.paths, paths, 2 * self.limit):
            self.made.missing |= {node.block for node in nodes}

    def few_writes(self, nodes: list[Node], group: int) -> Paths | None:
        """For each region that touches a group, the path there with as few writes of it as possible; for each two,
        where more than values matters.
        """
        footprints = self.footprints
        cores = 0
        for node in nodes:
            cores |= self.touching(node, group)
        regions = [GuardedBlocks({}, ()), *find_guarded(self.structure, nodes, cores)]
        if len(regions) > MAX_REGIONS:
            return None
        touching = [region for region in regions if not region.blocks or footprints.touch(region.blocks, group) > 0]
        alone = footprints.seq_rises and group not in footprints.shared
        found: Paths = []
        for one, other in combinations_with_replacement(touching, 2):
            if (alone and one is not other) or not _agree(one.path, other.path):
                continue
            both = {**one.path, **other.path}
            paths = avoiding(nodes, cores, both, lambda blocks: footprints.write(blocks, group), self.limit)
            if paths is None or len(found) + len(paths) > self.limit:
                return None
            found += paths
        return found

    # -- runs -------------------------------------------------------------------------------------------------------

    def pack(self, rows: Paths, paths: Paths, limit: int | None = None) -> bool:
        """Put each path into the first run that agrees with it, or a new one; whether all found room in `limit`."""
        fits = True
        for path in paths:
            for row in rows:
                if _agree(row, path):
                    row.update(path)
                    break
            else:
                if limit is None or len(rows) < limit:
                    rows.append(dict(path))
                else:
                    fits = False
        return fits


def _agree(one: Path, other: Path) -> bool:
    if len(other) > len(one):
        one, other = other, one
    return all(one.get(choice, value) == value for choice, value in other.items())
