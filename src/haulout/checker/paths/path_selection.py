"""Which ways through loops and branches are looked at, so that every conflict shows in one of them.

A fence that all cores meet whatever is chosen cuts a run into *segments*: what stands before it is ordered before
what stands behind it, always (where the counts of semaphores carry choices over it, `carryover.py`, it does not cut).
So order asks for every way through each segment, and ways through different segments
are taken in one run. What crosses a fence is values: for each location (with those that share its storage) every way
through the choices that touch it is asked for, of the cores on which they do. What is asked for is packed into as few
runs as first fit finds. Where cores choose for themselves and no order comes of it, all choose alike (`lockstep.py`).

A segment with too many ways is taken by pairs: for two accesses least is ordered when nothing else runs. Each two
regions that conflict, they alone, show all there is (and each alone, whether its barriers agree), provided that every
loop may stand still and every fork has an empty arm. Other forks take neither of their arms then (`SKIP`): if nothing
is found all is proved. Otherwise a covering set remains, every pair of choices at least once, and what it leaves out
is said (`unproved-paths`). So it is for a location that too many choices touch: reads are tried with as few writes as
can be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from haulout.checker.paths.choices import (
    Node,
    Place,
    all_ways,
    avoiding,
    count_ways,
    filled,
    find_nodes,
    find_places,
    first_way,
    spread,
)
from haulout.checker.paths.footprints import Footprints, joined, may_conflict
from haulout.checker.paths.lockstep import Lockstep, Segment
from haulout.checker.paths.loops import Nest
from haulout.checker.paths.runs import SKIP, Choice, Execution, Run, walk
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE

MOST_RUNS = 128
"""Runs for one segment or one location; with more ways, fewer are combined."""
MOST_WORK = 1 << 22
"""Instructions of all these runs together; of a program so long that this leaves less than 8 runs, 8 may be taken."""
_MOST_PLACES = 512
"""Regions of a segment that are combined in pairs."""

_Ways = list[dict[Choice, int]]


@dataclass(slots=True)
class Plan:
    """The ways that are looked at."""

    ways: _Ways
    doubtful: _Ways = field(default_factory=list)
    """Ways that no program takes; where nothing is found in them, the ways through `unsure` are complete."""
    unsure: set[int] = field(default_factory=set)
    """Headers and forks of segments of which not every way is looked at."""
    distant: set[int] = field(default_factory=set)
    """Headers whose iterations are too few, unless nothing is found without waits that may be left out."""
    missing: set[int] = field(default_factory=set)
    """Headers and forks of which some ways are missing for certain."""
    segments: list[Execution] = field(default_factory=list)
    total: int = 1
    """Ways that there are, with as many iterations as are looked at."""


def find_plan(nest: Nest, copies: Sequence[Copies], footprints: Footprints, cores: int, size: int) -> Plan:
    """The ways to look at; `size` are the instructions of the longest run."""
    return _Planner(nest, copies, footprints, cores, min(MOST_RUNS, max(8, MOST_WORK // max(size, 1)))).plan()


def find_runs(
    nest: Nest, copies: Sequence[Copies], cores: int, plan: Plan, ways: _Ways, forgets: bool = False
) -> Iterator[Run]:
    """The runs of ways, each when it is asked for, equal ones once."""
    seen = set()
    for way in ways:
        run = walk(nest, copies, cores, way, segments=plan.segments, forgets=forgets)
        key = run.executions, run.cores
        if key not in seen:
            seen.add(key)
            yield run


class _Planner:
    def __init__(self, nest: Nest, copies: Sequence[Copies], footprints: Footprints, cores: int, most: int) -> None:
        self.nest, self.copies, self.footprints = nest, copies, footprints
        self.cores, self.mask, self.most = cores, (1 << cores) - 1, most
        self.lockstep = Lockstep(nest, copies, footprints, cores)
        self.nodes = find_nodes(nest, copies)
        self.made = Plan([first_way(self.nodes, self.mask)], total=count_ways(self.nodes, self.mask))

    def plan(self) -> Plan:
        """The ways for every segment, then for every location."""
        self.made.distant = {
            loop.header for loop, each in zip(self.nest.loops, self.copies, strict=True) if each.distant
        }
        if not self.nodes:
            return self.made
        segments = self.segments()
        exact: set[int] = set()
        alike: set[int] = set()  # exact for each core alone
        for number, segment in segments.items():
            if self.lockstep.suits(segment):
                if (asked := self.lockstep.ways(segment, self.most)) is None:
                    self.by_pairs(segment.nodes, alike=True)
                    continue
                ways, whole = asked
                alike |= {number} if whole else set()
                self.pack(self.made.ways, ways)
                continue
            every = all_ways(segment.nodes, self.mask, self.most, lambda node: self.mask)
            if every is None:
                self.by_pairs(segment.nodes, alike=False)
            else:
                exact.add(number)
                self.pack(self.made.ways, every)
        self.made.segments += sorted(self.lockstep.cuts)
        of = {node: number for number, segment in segments.items() for node in segment.nodes}
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
            where = {of[node] for node in nodes}
            lone = all(self.touching(node, group).bit_count() < 2 for node in nodes if node.is_divergent)
            if len(where) > 1 or not where <= (exact | alike if lone else exact):
                self.values(group, nodes)
        return self.made

    def touching(self, node: Node, group: int) -> int:
        """The cores whose choices at a node matter for a group."""
        return self.footprints.touch(node.inside, group)

    def segments(self) -> dict[int, Segment]:
        """The segments in which something is chosen; where they begin is noted."""
        base = walk(self.nest, self.copies, self.cores, {}, everything=True)
        footprints = self.footprints
        conditional = [
            any(arm != NONE or self.nest.loops[number].trip == NONE for number, arm in around)
            for around in self.nest.around
        ]
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
            # What stands before the fence in the block at the end belongs to it.
            segment.blocks |= {block for block, _ in base.executions[ends[number] : ends[number + 1] + 1]}
        return found

    # -- order ------------------------------------------------------------------------------------------------------

    def by_pairs(self, nodes: list[Node], alike: bool) -> None:
        """The ways through a segment in which two regions run alone, and where that is no proof, a covering set; in
        `alike` ones all cores may do the same.
        """
        crossing: _Ways = []
        if alike:
            own = find_places(self.nest, nodes, 1)
            if len(own) <= _MOST_PLACES:
                crossing = self.lockstep.crossing(own)
            places = [Place(spread(place.way, range(self.cores)), place.blocks) for place in own]
        else:
            places = find_places(self.nest, nodes, self.mask)
        blocks = {node.block for node in nodes} | {choice[0] for place in places for choice in place.way}
        # Each region runs at least once, for reads of what nothing writes.
        if not self.pack(self.made.ways, [place.way for place in places], self.most) or len(places) > _MOST_PLACES:
            self.made.missing |= blocks
            return
        covering = [
            {**one.way, **other.way}
            for one, other in combinations_with_replacement(places, 2)
            if _agree(one.way, other.way)
        ]
        alone = [] if self.footprints.counts_choices else self.alone(nodes, places)
        if alone:
            alone += [filled(nodes, self.mask, way) for way in crossing]
        covering += crossing
        real = [way for way in alone if SKIP not in way.values()]
        doubtful = [way for way in alone if SKIP in way.values()]
        if not alone or len(alone) > 2 * self.most or not self.pack(self.made.ways, real, 2 * self.most):
            self.made.missing |= blocks
            self.pack(self.made.ways, covering, self.most)
        elif doubtful:
            self.made.unsure |= blocks
            self.pack(self.made.ways, covering, self.most)
            self.pack(self.made.doubtful, doubtful)

    def alone(self, nodes: list[Node], places: list[Place]) -> _Ways:
        """The ways in which no more runs than two regions that conflict, or one that meets other cores."""
        inside = {block for node in self.nodes for block in node.inside}
        always = Place({}, tuple(block for block in range(len(self.nest.paths)) if block not in inside))
        some = [always, *places]
        writes = [joined(self.footprints.writes[block] for block in place.blocks) for place in some]
        touches = [
            joined([written, *(self.footprints.reads[block] for block in place.blocks)])
            for place, written in zip(some, writes, strict=True)
        ]
        meets = [any(self.footprints.has_rendezvous[block] for block in place.blocks) for place in some]
        found: dict[tuple[tuple[Choice, int], ...], dict[Choice, int]] = {}
        for (i, one), (j, other) in combinations_with_replacement(enumerate(some), 2):
            conflict = may_conflict(writes[i], touches[j]) or may_conflict(writes[j], touches[i])
            if (conflict or i == j == 0 or (i == j and meets[i])) and _agree(one.way, other.way):
                way = filled(nodes, self.mask, {**one.way, **other.way})
                found[tuple(sorted(way.items()))] = way
                if len(found) > 2 * self.most:
                    break
        return list(found.values())

    # -- values -----------------------------------------------------------------------------------------------------

    def values(self, group: int, nodes: list[Node]) -> None:
        """The ways through what touches a group."""
        footprints = self.footprints
        if footprints.rises and group not in footprints.valued and group not in footprints.shared:
            return  # it always has a value, and nothing runs against the source
        ways = all_ways(
            nodes,
            self.mask,
            self.most,
            lambda node: self.touching(node, group),
        )
        if ways is None:
            ways = self.few_writes(nodes, group)
        if ways is None or not self.pack(self.made.ways, ways, 2 * self.most):
            self.made.missing |= {node.block for node in nodes}

    def few_writes(self, nodes: list[Node], group: int) -> _Ways | None:
        """For each region that touches a group, the way there with as few writes of it as can be; for each two, where
        it is not values alone that matter.
        """
        footprints = self.footprints
        cores = 0
        for node in nodes:
            cores |= self.touching(node, group)
        places = [Place({}, ()), *find_places(self.nest, nodes, cores)]
        if len(places) > _MOST_PLACES:
            return None
        touching = [place for place in places if not place.blocks or footprints.touch(place.blocks, group) > 0]
        alone = footprints.rises and group not in footprints.shared
        found: _Ways = []
        for one, other in combinations_with_replacement(touching, 2):
            if (alone and one is not other) or not _agree(one.way, other.way):
                continue
            ways = avoiding(
                nodes,
                cores,
                {**one.way, **other.way},
                lambda blocks: footprints.write(blocks, group),
                self.blocks_of,
                self.most,
            )
            if ways is None or len(found) + len(ways) > self.most:
                return None
            found += ways
        return found

    def blocks_of(self, node: Node, value: int) -> range:
        """The blocks that run when a value is chosen."""
        if node.is_loop:
            return node.inside if value else range(0)
        return self.nest.forks[self.nest.forking[node.block]].arms[value]

    # -- runs -------------------------------------------------------------------------------------------------------

    def pack(self, rows: _Ways, ways: _Ways, most: int | None = None) -> bool:
        """Put each way into the first run that agrees with it, or a new one; whether all found room in `most`."""
        fits = True
        for way in ways:
            for row in rows:
                if _agree(row, way):
                    row.update(way)
                    break
            else:
                if most is None or len(rows) < most:
                    rows.append(dict(way))
                else:
                    fits = False
        return fits


def _agree(one: Mapping[Choice, int], other: Mapping[Choice, int]) -> bool:
    if len(other) > len(one):
        one, other = other, one
    return all(one.get(choice, value) == value for choice, value in other.items())
