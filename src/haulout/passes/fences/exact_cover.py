"""The cheapest fences of a program with loops and forks: P4 of the design's theory, as an exact covering problem.

Time is the source's: a slot (block, t) is a fence, on every core, before the first instruction of the block with
`seq >= t`; t = END is after its last. A fence costs as often as it runs: the product of the trip counts around it
(`ASSUMED_TRIP` for those not known), halved by every arm around it. Every conflict between two cores asks for a fence
on each path from the one access to the other:

    u before v in one run of the loops around both      a slot after u and not after v
    u, and v in a later iteration of a loop around both  a slot of that loop after u, or one of it not after v

A slot that every such path passes counts by itself; a path that leaves a loop runs its header once more. One inside a
loop that may run zero times does not count for accesses outside that loop. One inside an arm that has neither end
counts only together with one in the other arm: the fork as a whole is *cut* (`covering.py`). Two accesses in
different arms never both run, but in two iterations. A divergent fork is an atom without slots inside; no fence can
order what its own arms have among each other, which is left to the checker.

Of conflicts between the same two blocks the one that starts later and stops earlier asks for more, so few rows are
left of many pairs. Only slots before some conflicting access, or at the end of a block, can matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np

from haulout.analysis.overlap import _scan_conflict, _scan_meets, extents
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.atomics import access_sorts
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.structure import Loop, Structure
from haulout.passes.fences.covering import Covering, Term
from haulout.passes.fences.slots import Slots
from haulout.support.jit import plain_if_small

END = np.iinfo(np.int64).max
ASSUMED_TRIP = 4
MAX_PAIRS = 200_000
"""Pairs of accesses looked at; a program with more keeps the fences of the phases."""
MAX_TERMS = 1_000_000
"""Of all rows together; likewise."""

Place = tuple[int, int]
"""(block number, seq)"""


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Slots to fence, and what they cost together."""

    places: list[Place]
    cost: float


def plan_nests(program: Program) -> NestPlan | None:
    """The cheapest slots; None when the program is too large for this, or cannot be ordered this way."""
    problem = _Problem(program)
    rows = problem.rows()
    if rows is None:
        return None
    chosen = problem.covering(rows).solve()
    if chosen is None:
        return None
    places = [problem.slots[slot] for slot in chosen]
    return NestPlan(places, float(sum(block_weight(program.structure, block) for block, _ in places)))


def block_weight(structure: Structure, block: int) -> float:
    """How often a block runs: a header once more than its loop's body, an arm every other time."""
    weight = 1.0
    for number in structure.around(block):
        region = structure.regions[number]
        if isinstance(region, Loop):
            weight *= (ASSUMED_TRIP if region.trip == NONE else region.trip) + (block == region.header)
        else:
            weight /= 2
    return weight


def nest_slots(program: Program, plan: NestPlan, stem: str) -> Slots:
    """The plan's fences on every core, `<stem>0`, `<stem>1`, ...

    Fences that are there already have times of their own on every core: a new one goes into the same gap between
    them everywhere, the earliest that any core asks for.
    """
    blocks = len(program.blocks) // program.lnc
    starts = program.starts("instructions", "blocks").tolist()
    fences = fence_rows(program)
    is_fence = np.zeros(len(program.instructions) + 1, np.int64)
    is_fence[fences + 1] = 1
    passed = np.cumsum(is_fence)
    seq = np.where(is_fence[1:] == 1, -1, program.instructions.seq)
    before, joined, names = [], [], []
    for number, (block, time) in enumerate(plan.places):
        wanted, gaps = [], []
        for core in range(program.lnc):
            begin, end = starts[core * blocks + block], starts[core * blocks + block + 1]
            late = np.flatnonzero(seq[begin:end] >= time)
            row = begin + int(late[0]) if len(late) and time != END else end
            wanted.append(row)
            gaps.append(int(passed[row] - passed[begin]))
        gap = min(gaps)
        for core, row in enumerate(wanted):
            begin, end = starts[core * blocks + block], starts[core * blocks + block + 1]
            closing = fences[np.searchsorted(fences, begin) : np.searchsorted(fences, end)][gap : gap + 1].tolist()
            before.append(min([row, *closing]))
            joined.append(core * blocks + block)
            names.append(f"{stem}{number}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


class _End(NamedTuple):
    """Where an access of a conflict stands."""

    block: int
    time: int
    passed: int
    """Fences before it on its core."""


class _Demand(NamedTuple):
    """A fence is wanted on the way from one access to another; `loop`: to its next iteration."""

    first: _End
    second: _End
    loop: int | None


class _Tightest:
    """Of demands in one region: for each start the one from there on that stops first."""

    def __init__(self, demands: list[_Demand]) -> None:
        ordered = sorted(demands, key=lambda each: (each.first, each.second), reverse=True)
        self.best = [ordered[0]]
        for each in ordered[1:]:
            self.best.append(min(self.best[-1], each, key=lambda one: one.second))
        self.best.reverse()
        self.start = [each.first[:2] for each in reversed(ordered)]

    def implies(self, demand: _Demand) -> bool:
        """Whether one starts no earlier and stops no later than another demand, on the same side of all fences."""
        at = bisect_left(self.start, demand.first[:2])
        if at == len(self.start) or self.best[at] == demand:
            return False
        first, second, _ = self.best[at]
        return (
            second[:2] <= demand.second[:2]
            and first.passed >= demand.first.passed
            and second.passed <= demand.second.passed
        )


class _Problem:
    """Blocks and regions by their number on core 0."""

    def __init__(self, program: Program) -> None:
        self.program, self.structure = program, program.structure
        self.blocks = len(program.blocks) // program.lnc
        self.around = [self.structure.around(block) for block in range(self.blocks)]
        self.atom = [self.structure.divergent_fork(block) for block in range(self.blocks)]
        access = np.flatnonzero(shared_accesses(program))
        self.row = program.accesses.instruction[access].tolist()
        self.access = access.tolist()
        self.core = program.instruction_core[self.row].tolist()
        self.block = (program.instructions.block[self.row] % self.blocks).tolist()
        self.seq = program.instructions.seq[self.row].tolist()
        self.sort = access_sorts(program)[access].tolist()
        self.owner = program.owner[program.accesses.location[access]].tolist()
        self.times: list[list[int]] = [[] for _ in range(self.blocks)]
        """Of each block the times of its slots, ascending."""
        for block, time in sorted(set(zip(self.block, self.seq, strict=True))):
            self.times[block].append(time)
        self.times = [[*each, END] if self.atom[at] == NONE else [] for at, each in enumerate(self.times)]
        self.slots: list[Place] = [(block, time) for block, times in enumerate(self.times) for time in times]
        self.first_slot = [0, *accumulate(len(times) for times in self.times)]
        fences = fence_rows(program)
        each = [fences[program.instruction_core[fences] == core].tolist() for core in range(program.lnc)]
        if len({len(rows) for rows in each}) != 1:
            each = [[] for _ in range(program.lnc)]
        met = [at for at, row in enumerate(each[0]) if self.atom[int(program.instructions.block[row])] == NONE]
        self.fences = [[rows[at] for at in met] for rows in each]
        """Fences that are there, outside of atoms: their rows, by core."""
        self.fence_block = program.instructions.block[self.fences[0]].tolist()
        self.shared_parts: dict[tuple[int, int, int | None], frozenset[Term]] = {}

    def rows(self) -> set[frozenset[Term]] | None:
        """For every conflict what orders it; None when there are too many pairs to look at."""
        groups: dict[int, list[int]] = defaultdict(list)
        for at, owner in enumerate(self.owner):
            groups[owner].append(at)
        if sum(len(group) ** 2 for group in groups.values()) > 2 * MAX_PAIRS:
            return None
        x = extents(self.program)
        asked: set[_Demand] = set()
        with plain_if_small(_scan_meets, sum(len(group) ** 2 for group in groups.values()), 20_000):
            for group in groups.values():
                for a, b in combinations(group, 2):
                    if self.core[a] == self.core[b] or not _scan_conflict(self.sort[a], self.sort[b]):
                        continue
                    if self._never_runs(self.block[a]) or self._never_runs(self.block[b]):
                        continue
                    if _scan_meets(x, self.access[a], self.access[b]):
                        for first, second, loop in self._demands(a, b):
                            asked.add(_Demand(self._end(first), self._end(second), loop))
        return self._rows(sorted(self._least(asked), key=str))

    def _rows(self, demands: list[_Demand]) -> set[frozenset[Term]] | None:
        """What orders each demand; None when that is too much to write down."""
        rows: set[frozenset[Term]] = set()
        terms = 0
        for demand in demands:
            rows.add(row := self._eligible(demand))
            terms += len(row)
            if terms > MAX_TERMS:
                return None
        return rows

    def _end(self, at: int) -> _End:
        """Where an access stands."""
        return _End(self.block[at], self.seq[at], bisect_left(self.fences[self.core[at]], self.row[at]))

    def _least(self, asked: set[_Demand]) -> list[_Demand]:
        """Demands without most of those that another one implies, which then holds all the terms of.

        That one's ends stand in one region directly, around both ends of the other; in no region of their own, so all
        that counts between them counts for the other, too.
        """
        direct: dict[tuple[int, int | None], list[_Demand]] = defaultdict(list)
        by_blocks: dict[tuple[int, int, int | None, int, int], list[_Demand]] = defaultdict(list)
        for demand in asked:
            first, second, loop = demand
            by_blocks[first.block, second.block, loop, first.passed, second.passed].append(demand)
            around = self.around[first.block]
            region = around[-1] if around else NONE
            headers = self.structure.loop_at.keys() & {first.block, second.block}
            if around == self.around[second.block] and not headers and loop in (None, region):
                direct[region, loop].append(demand)
        tightest = {key: _Tightest(demands) for key, demands in direct.items()}
        least = []
        for demands in by_blocks.values():
            latest = END
            for demand in sorted(demands, key=lambda each: (-each.first.time, each.second.time)):
                # What starts later and stops earlier asks for more.
                if demand.second.time < latest:
                    latest = demand.second.time
                    least.append(demand)
        return [demand for demand in least if not self._is_implied(demand, tightest)]

    def _is_implied(self, demand: _Demand, tightest: dict[tuple[int, int | None], _Tightest]) -> bool:
        """Whether another demand with the ends in one region asks for more."""
        first, second, loop = demand
        if loop is not None:
            return (loop, loop) in tightest and tightest[loop, loop].implies(demand)
        common = self.structure.nesting[self.structure.common_region(first.block, second.block)]
        return any((at, None) in tightest and tightest[at, None].implies(demand) for at in (NONE, *common))

    def covering(self, rows: set[frozenset[Term]]) -> Covering:
        """The problem of choosing slots, with what cuts each branch."""
        arms: dict[int, list[set[Term]]] = {}
        for number, fork in enumerate(self.structure.forks):
            if fork.block < self.blocks and len(fork.arms) == 2 and not fork.divergent:
                arms[number] = [self._inside(arm) for arm in fork.arms]
        weights = [block_weight(self.structure, block) for block, _ in self.slots]
        return Covering(weights, len(self.fence_block), arms, rows)

    def _inside(self, arm: int) -> set[Term]:
        """What cuts an arm from its start to its end."""
        blocks, depth = self.structure.regions[arm].body, len(self.structure.nesting[arm])
        terms: set[Term] = set()
        for block in blocks:
            terms |= self._counted(range(*self.first_slot[block : block + 2]), block, (), None, depth)
        for fence, block in enumerate(self.fence_block):
            if block in blocks:
                terms |= self._counted([len(self.slots) + fence], block, (), None, depth)
        return terms

    def _demands(self, a: int, b: int) -> set[tuple[int, int, int | None]]:
        """(earlier, later, loop that carries it) for each way in which two accesses may meet and a fence may help."""
        place = {at: (self.block[at], self.seq[at]) for at in (a, b)}
        blocks = self.block[a], self.block[b]
        atom = self.atom[self.block[a]] if self.atom[self.block[a]] == self.atom[self.block[b]] else NONE
        demands: set[tuple[int, int, int | None]] = set()
        if place[a] != place[b] and atom == NONE and self.structure.separating_fork(*blocks) == NONE:
            demands.add((a, b, None) if place[a] < place[b] else (b, a, None))
        for loop in self.structure.loop_nesting[self.structure.common_region(*blocks)]:
            header, trip = self.structure.loops[loop].header, self.structure.loops[loop].trip
            if self.atom[header] != NONE:
                continue
            # A body that runs once has no later iteration, but the header runs again after it.
            for first, second in ((a, b), (b, a)):
                if trip not in (0, 1) or (trip == 1 and self.block[second] == header):
                    demands.add((first, second, loop))
        return demands

    def _never_runs(self, block: int) -> bool:
        """Whether it is in the body of a loop of zero trips."""
        loops = [self.structure.loops[loop] for loop in self.structure.loops_around(block)]
        return any(loop.trip == 0 and loop.header != block for loop in loops)

    def _eligible(self, demand: _Demand) -> frozenset[Term]:
        """What orders the second access behind the first."""
        (first, _, behind), (second, _, ahead), loop = demand
        headers = self._left_headers(first, second, loop)
        if (first, second, loop) not in self.shared_parts:
            if loop is None:
                others = {*range(first, second + 1), *headers}
            else:
                others = set(range(self.structure.loops[loop].begin, self.structure.loops[loop].end))
            parts = [self._in_block(block, demand, headers) for block in sorted(others - {first, second})]
            self.shared_parts[first, second, loop] = frozenset().union(*parts)
        terms = set(self.shared_parts[first, second, loop])
        for block in {first, second}:
            terms |= self._in_block(block, demand, headers)
        for fence, block in enumerate(self.fence_block):
            sides = (fence >= behind or block in headers, fence < ahead)
            terms |= self._between([len(self.slots) + fence], block, (first, second), loop, sides)
        return frozenset(terms)

    def _in_block(self, block: int, demand: _Demand, headers: set[int]) -> set[Term]:
        """What the slots of a block count as between two accesses; `headers`: of the loops that are left."""
        (first, start, _), (second, stop, _), loop = demand
        times, number = self.times[block], self.first_slot[block]
        after = 0 if block > first or block in headers else len(times)
        after = bisect_right(times, start) if block == first else after
        before = len(times) if block < second else bisect_right(times, stop) if block == second else 0
        ends, terms = (first, second), set[Term]()
        if loop is None:
            return self._between(range(number + after, number + before), block, ends, None, (True, True))
        terms |= self._between(range(number + after, number + len(times)), block, ends, loop, (True, False))
        terms |= self._between(range(number, number + before), block, ends, loop, (False, True))
        return terms

    def _between(
        self, slots: Sequence[int], block: int, ends: tuple[int, int], loop: int | None, sides: tuple[bool, bool]
    ) -> set[Term]:
        """What slots of a block count as; `sides`: whether they are behind the first end, and ahead of the second."""
        if loop is None:
            return self._counted(slots, block, ends, None, 0) if all(sides) else set()
        if loop not in self.around[block]:
            return set()
        terms: set[Term] = set()
        for end, side in zip(ends, sides, strict=True):
            terms |= self._counted(slots, block, (end,), loop, 0) if side else set()
        return terms

    def _left_headers(self, first: int, second: int, loop: int | None) -> set[int]:
        """Headers of the loops that are left on the way, but for the block that the first access is in."""
        around = self.structure.loops_around(first)
        common = self.structure.common_loop(first, second) if loop is None else loop
        left = [self.structure.loops[at] for at in around[len(self.structure.loop_nesting[common]) :]]
        return {each.header for each in left if each.header != first}

    def _counted(
        self, slots: Sequence[int], block: int, ends: tuple[int, ...], carrier: int | None, depth: int
    ) -> set[Term]:
        """What slots in a block count as between the ends, seen from inside the first `depth` regions around it.

        A loop around it must be around an end too, or be known to run. An end in a loop's header says nothing of the
        body, which the header's last run is not followed by, unless that loop goes on to carry the conflict. An arm
        around it must be around an end; else its branch counts, if no end is in it.
        """
        for at in self.around[block][depth:] if slots else ():
            region = self.structure.regions[at]
            inside = [end for end in ends if at in self.around[end]]
            if isinstance(region, Loop):
                followed = any(end != region.header or block == region.header or at == carrier for end in inside)
                if not followed and (inside or region.trip <= 0):
                    return set()
            elif not inside:
                arms = self.structure.forks[region.fork].arms
                if any(arm in self.around[end] for arm in arms for end in ends):
                    return set()
                return {("fork", region.fork)}
        return {("slot", slot) for slot in slots}
