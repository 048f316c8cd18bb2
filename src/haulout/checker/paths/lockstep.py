"""Divergent branches without every combination: where cores cannot learn what others chose, all may choose alike.

Take a segment (`ways.py`: what runs between two fences of all cores) in which no rendezvous stands in an arm of a
divergent fork, every other rendezvous is a barrier on `all`, of whichever cores, and no core signals a semaphore of
another. Fix what is chosen for all cores alike, loops and forks that do not diverge. Then:

1. The barriers of the segment are the same whatever the cores choose for themselves.
2. An instruction comes before a barrier on `all` exactly if it stands before it in its core's list, and behind it
   likewise: no path from or to a barrier, or from one to the next, leans on an instruction of an arm.
   Semaphores add nothing to that: with one that its own core alone signals, a wait leads from the list to the same
   list. If it were behind a signal with a barrier between the two, in the list, the core would wait for itself, and
   that hang shows in its own way.
3. So what is ordered inside a core depends on its own choices alone: a path that leaves the core leaves at a barrier
   and comes back at a barrier, and the part between is there in any case. What semaphores have counted, too, is a
   matter of its own choices, and so is whether a wait ever ends. A run in which all cores choose alike, for
   each way of one core, shows all of it: 2^k runs, not 2^(k * cores).
4. And two accesses of different cores are ordered or not whatever was chosen, provided that they run. So it is
   enough that each two that may conflict both run, once. If one core could run both, all cores do so in one of the
   runs above. There remain regions that exclude each other, then-arm here and else-arm there: if they touch common
   storage, and one of them writes, a run is asked for in which one core is in the first, the other in the second.
   Front ends put no shared access into divergent arms, so usually there is none.

A fence of all cores in the body of a loop, or in an arm that all cores take, cuts too, once it is fixed that it runs:
each iteration is a segment of its own. That takes for granted that nothing chosen before a fence tells behind it,
counts of semaphores neither (`carryover.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from haulout.checker.paths.choices import Node, Place, all_ways, bits, find_places, spread
from haulout.checker.paths.footprints import Footprints, cores_of, joined
from haulout.checker.paths.loops import Nest
from haulout.checker.paths.runs import Choice, Execution, walk
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE

_Way = dict[Choice, int]


@dataclass(slots=True)
class Segment:
    """What runs between two fences of all cores that are met whatever is chosen."""

    nodes: list[Node] = field(default_factory=list)
    """What is chosen there, in order."""
    blocks: set[int] = field(default_factory=set)
    """Whatever may run there, and in the block with the fence at its end."""


class Lockstep:
    """The ways through segments that are asked for when all cores may choose alike."""

    def __init__(self, nest: Nest, copies: Sequence[Copies], footprints: Footprints, cores: int) -> None:
        self.nest, self.copies, self.footprints, self.cores = nest, copies, footprints, cores
        self.everyone = (1 << cores) - 1
        self.cuts: set[Execution] = set()
        """Fences inside of loops and arms that cut."""

    def suits(self, segment: Segment) -> bool:
        """Whether what a core chooses in a segment leads to no order on others."""
        footprints = self.footprints
        apart = [block for node in segment.nodes for block in _divergent(self.nest, node)]
        return all(footprints.fenced_only[block] for block in segment.blocks) and not any(
            footprints.meets_others[block] for block in apart
        )

    def ways(self, segment: Segment, most: int) -> tuple[list[_Way], bool] | None:
        """What is asked for in a segment that suits, and whether that is every way of each core; None: it is more
        than `most`.
        """
        common = all_ways(segment.nodes, self.everyone, most, lambda node: 0 if node.is_divergent else self.everyone)
        if common is None:
            return None
        found: list[_Way] = []
        crossing: list[_Way] = []
        whole, total = True, 0
        for way in common:
            parts = self.parts(segment, way)
            whole = whole and len(parts) < 2
            longest = 1
            for part in parts:
                own = all_ways(part, 1, most, lambda node: 1)
                if own is None:
                    return None
                longest = max(longest, len(own))
                found += [{**way, **spread(each, range(self.cores))} for each in own]
                crossing += [{**way, **each} for each in self.crossing(find_places(self.nest, part, 1))]
            found += [] if parts else [way]
            total += longest
            if total > most or len(crossing) > most:
                return None
        return found + crossing, whole

    def parts(self, segment: Segment, way: Mapping[Choice, int]) -> list[list[Node]]:
        """Where cores choose for themselves, once common choices are made, cut at the fences that run then."""
        nodes = list(_met(segment.nodes, way))
        inside = {block for node in segment.nodes if not node.is_divergent for block in node.inside}
        if self.footprints.counts_carry or not any(all(self.footprints.fences[block]) for block in inside):
            return [nodes] if nodes else []
        run = walk(self.nest, self.copies, self.cores, way, everything=True)
        apart = {block for fork in self.nest.forks if fork.divergent for arm in fork.arms for block in arm}
        before = [0] * self.cores
        found: list[list[Node]] = [[]]
        at = iter(nodes)
        following = next(at, None)
        for execution, mask in zip(run.executions, run.cores, strict=True):
            block = execution[0]
            fences = self.footprints.fences[block]
            if block in inside and block not in apart and all(fences) and len(set(before)) == 1:
                self.cuts.add(execution)
                found.append([])
            if following is not None and execution == (following.block, following.around):
                found[-1].append(following)
                following = next(at, None)
            for core in range(self.cores):
                before[core] += fences[core] if mask >> core & 1 else 0
        assert following is None
        return [part for part in found if part]

    def crossing(self, places: Sequence[Place]) -> list[_Way]:
        """Two regions that exclude each other on one core and whose accesses may conflict on two; `places` are those
        of core 0.
        """
        footprints = self.footprints
        writes = [_by_core(joined(footprints.writes[block] for block in place.blocks)) for place in places]
        reads = [_by_core(joined(footprints.reads[block] for block in place.blocks)) for place in places]
        by_group: dict[int, list[int]] = {}
        written: dict[int, int] = {}
        touched: dict[int, int] = {}
        for number in range(len(places)):
            for group in writes[number].keys() | reads[number].keys():
                by_group.setdefault(group, []).append(number)
            for total, sides in ((written, (writes,)), (touched, (writes, reads))):
                for side in sides:
                    for group, cores in side[number].items():
                        total[group] = total.get(group, 0) | cores
        found: dict[tuple[tuple[Choice, int], ...], _Way] = {}
        for group in sorted(by_group):
            if not written.get(group) or touched[group].bit_count() < 2:
                continue
            for one, other in combinations(by_group[group], 2):
                if not _exclude(places[one].way, places[other].way):
                    continue
                here, there = ((writes[at].get(group, 0), reads[at].get(group, 0)) for at in (one, other))
                for i, j in _meetings(here, there):
                    way = {**spread(places[one].way, [i]), **spread(places[other].way, [j])}
                    found[tuple(sorted(way.items()))] = way
        return list(found.values())


def _meetings(one: tuple[int, int], other: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Two cores on which two regions touch a group, one of them writing, given by (writes, reads)."""
    for i in bits(one[0] | one[1]):
        for j in bits(other[0] | other[1]):
            if i != j and (one[0] >> i & 1 or other[0] >> j & 1):
                yield i, j


def _exclude(one: Mapping[Choice, int], other: Mapping[Choice, int]) -> bool:
    """Whether two regions differ in what a core chooses for itself, and in nothing that all choose alike."""
    differ = [choice for choice, value in one.items() if other.get(choice, value) != value]
    return bool(differ) and all(core != NONE for _, _, core in differ)


def _by_core(lines: Mapping[int, int]) -> dict[int, int]:
    return {group: cores_of(each) for group, each in lines.items()}


def _met(nodes: Sequence[Node], way: Mapping[Choice, int]) -> Iterator[Node]:
    """The divergent nodes that are met, in order, not those inside of others."""
    for node in nodes:
        if node.is_divergent:
            yield node
            continue
        chosen = way[node.block, node.around, NONE]
        yield from _met(next(inside for value, inside in node.options if value == chosen), way)


def _divergent(nest: Nest, node: Node) -> Iterator[int]:
    """The blocks in a node that stand in arms of divergent forks."""
    if node.is_divergent:
        yield from node.inside
        return
    for fork in nest.forks:
        if fork.divergent and fork.block in node.inside:
            yield from range(fork.block + 1, fork.join)
