"""Divergent forks without every combination: where cores cannot observe what others chose, all may choose alike.

Take a segment (`path_selection.py`: what runs between two fences of all cores) in which no arm of a divergent fork
has a rendezvous, every other rendezvous is a barrier on `all`, of any cores, and no core signals a semaphore of
another. Fix what is chosen for all cores alike: loops, and forks that do not diverge. Then:

1. The barriers of the segment are the same whatever the cores choose for themselves.
2. An instruction is ordered before a barrier on `all` exactly if it comes before it in its core's list, and after it
   likewise: no chain of order from or to a barrier, or from one to the next, needs an instruction of an arm.
   Semaphores add nothing to that: with one that only its own core signals, a wait leads from the list to the same
   list. If it came after a signal with a barrier between the two, in the list, the core would wait for itself, and
   that deadlock is found separately.
3. So what is ordered inside a core depends on its own choices alone: a chain that leaves the core leaves at a barrier
   and comes back at a barrier, and the part between exists in any case. What semaphores have counted, too, depends on
   its own choices alone, and so does whether a wait ever ends. Runs in which all cores choose alike, one for each
   path of one core, show all of it: 2^k runs, not 2^(k * cores).
4. And two accesses of different cores are ordered or not whatever was chosen, provided that they run. So it is
   enough that each two that may conflict both run, once. If one core could run both, all cores do so in one of the
   runs above. There remain regions that exclude each other, then-arm here and else-arm there: if they touch common
   storage, and one of them writes, a run is selected in which one core is in the first, the other in the second.
   Front ends put no shared access into divergent arms, so usually there is none.

A fence of all cores in the body of a loop, or in an arm that all cores take, cuts too, once it is fixed that it runs:
each iteration is a segment of its own. That requires that nothing chosen before a fence matters after it, counts of
semaphores included (`counts_across_fences.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from haulout.checker.paths.choices import GuardedBlocks, Node, Paths, all_paths, bits, find_guarded, on_cores
from haulout.checker.paths.footprints import Footprints, cores_of, joined
from haulout.checker.paths.runs import Choice, Execution, Path, walk
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE
from haulout.ir.structure import Structure


@dataclass(slots=True)
class Segment:
    """What runs between two fences of all cores that run whatever is chosen."""

    nodes: list[Node] = field(default_factory=list)
    """What is chosen there, in order."""
    blocks: set[int] = field(default_factory=set)
    """All that may run there, and the block with the fence at its end."""


class Lockstep:
    """The paths through segments that are selected when all cores may choose alike."""

    def __init__(
        self, structure: Structure, copies: Mapping[int, Copies], footprints: Footprints, cores: int
    ) -> None:
        self.structure, self.copies, self.footprints, self.cores = structure, copies, footprints, cores
        self.everyone = (1 << cores) - 1
        self.cuts: set[Execution] = set()
        """Fences inside of loops and arms that cut."""

    def suits(self, segment: Segment) -> bool:
        """Whether what a core chooses in a segment leads to no order on others."""
        footprints, divergent = self.footprints, self.structure.divergent_fork
        inside = (block for node in segment.nodes for block in node.inside)
        return all(footprints.only_on_all[block] for block in segment.blocks) and not any(
            footprints.synchronizes[block] for block in inside if divergent(block) != NONE
        )

    def paths(self, segment: Segment, limit: int) -> tuple[Paths, bool] | None:
        """What is selected in a segment that suits, and whether that is every path of each core; None: it is more
        than `limit`.
        """
        common = all_paths(
            segment.nodes, self.everyone, limit, lambda node: 0 if node.is_divergent else self.everyone
        )
        if common is None:
            return None
        found: Paths = []
        crossing: Paths = []
        whole, total = True, 0
        for path in common:
            parts = self.parts(segment, path)
            whole = whole and len(parts) < 2
            longest = 1
            for part in parts:
                own = all_paths(part, 1, limit, lambda node: 1)
                if own is None:
                    return None
                longest = max(longest, len(own))
                found += [{**path, **on_cores(each, range(self.cores))} for each in own]
                crossing += [{**path, **each} for each in self.crossing(find_guarded(self.structure, part, 1))]
            found += [] if parts else [path]
            total += longest
            if total > limit or len(crossing) > limit:
                return None
        return found + crossing, whole

    def parts(self, segment: Segment, path: Path) -> list[list[Node]]:
        """Where cores choose for themselves, once common choices are made, cut at the fences that run then."""
        nodes = list(_divergent(segment.nodes, path))
        inside = {block for node in segment.nodes if not node.is_divergent for block in node.inside}
        if self.footprints.counts_carry or not any(all(self.footprints.fences[block]) for block in inside):
            return [nodes] if nodes else []
        run = walk(self.structure, self.copies, self.cores, path, everything=True)
        before = [0] * self.cores
        found: list[list[Node]] = [[]]
        at = iter(nodes)
        following = next(at, None)
        for execution, mask in zip(run.executions, run.cores, strict=True):
            block = execution[0]
            fences = self.footprints.fences[block]
            common = block in inside and self.structure.divergent_fork(block) == NONE
            if common and all(fences) and len(set(before)) == 1:
                self.cuts.add(execution)
                found.append([])
            if following is not None and execution == (following.block, following.around):
                found[-1].append(following)
                following = next(at, None)
            for core in range(self.cores):
                before[core] += fences[core] if mask >> core & 1 else 0
        assert following is None
        return [part for part in found if part]

    def crossing(self, regions: Sequence[GuardedBlocks]) -> Paths:
        """Paths through two regions that exclude each other on one core and whose accesses may conflict on two;
        `regions` are those of core 0.
        """
        footprints = self.footprints
        writes = [_by_core(joined(footprints.writes[block] for block in region.blocks)) for region in regions]
        reads = [_by_core(joined(footprints.reads[block] for block in region.blocks)) for region in regions]
        by_group: dict[int, list[int]] = {}
        written: dict[int, int] = {}
        touched: dict[int, int] = {}
        for number in range(len(regions)):
            for group in writes[number].keys() | reads[number].keys():
                by_group.setdefault(group, []).append(number)
            for total, sides in ((written, (writes,)), (touched, (writes, reads))):
                for side in sides:
                    for group, cores in side[number].items():
                        total[group] = total.get(group, 0) | cores
        found: dict[tuple[tuple[Choice, int], ...], dict[Choice, int]] = {}
        for group in sorted(by_group):
            if not written.get(group) or touched[group].bit_count() < 2:
                continue
            for one, other in combinations(by_group[group], 2):
                if not _exclude(regions[one].path, regions[other].path):
                    continue
                here, there = ((writes[at].get(group, 0), reads[at].get(group, 0)) for at in (one, other))
                for i, j in _conflicting_cores(here, there):
                    path = {**on_cores(regions[one].path, [i]), **on_cores(regions[other].path, [j])}
                    found[tuple(sorted(path.items()))] = path
        return list(found.values())


def _conflicting_cores(one: tuple[int, int], other: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Two cores on which two regions touch a group, one of them writing, given by (writes, reads)."""
    for i in bits(one[0] | one[1]):
        for j in bits(other[0] | other[1]):
            if i != j and (one[0] >> i & 1 or other[0] >> j & 1):
                yield i, j


def _exclude(one: Path, other: Path) -> bool:
    """Whether two regions differ in what a core chooses for itself, and in nothing that all choose alike."""
    differ = [choice for choice, value in one.items() if other.get(choice, value) != value]
    return bool(differ) and all(core != NONE for _, _, core in differ)


def _by_core(lines: Mapping[int, int]) -> dict[int, int]:
    return {group: cores_of(each) for group, each in lines.items()}


def _divergent(nodes: Sequence[Node], path: Path) -> Iterator[Node]:
    """The divergent nodes that a path reaches, in order, not those inside of others."""
    for node in nodes:
        if node.is_divergent:
            yield node
            continue
        chosen = path[node.block, node.around, NONE]
        yield from _divergent(next(option.nodes for option in node.options if option.value == chosen), path)
