"""The cheapest fences of a program with loops: P4 of the design's theory, as an exact covering problem.

Time is the source's: a slot (block, t) is a fence that stands, on every core, before the first instruction of the
block with `seq >= t`; t = END is behind its last. A fence costs as often as it runs: the product of the trip counts
around it (`ASSUMED_TRIP` for those not known). Every conflict between two cores asks for a fence in a set of slots:

    u before v in one run of the loops around both      a slot behind u and not behind v
    u, and v in a later iteration of a loop around both  a slot of that loop behind u, or one of it not behind v

where a slot inside a loop that may run zero times does not count for what stands outside that loop. The least total
cost that meets all is an integer programme. Its rows are intervals, or complements of intervals, so that the linear
relaxation is nearly always integral; SciPy's solver (HiGHS) does the rest. Identical and dominated rows are dropped
first, and only slots before some conflicting access, or at the end of a block, can matter.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from haulout.analysis.loops import Loops
from haulout.analysis.overlap import _scan_meets, extents
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.program import Program
from haulout.passes.fences.slots import Slots
from haulout.support.jit import plain_if_small

END = np.iinfo(np.int64).max
ASSUMED_TRIP = 4
MOST_PAIRS = 200_000
"""Pairs of accesses looked at; a program with more keeps the fences of the phases."""

Place = tuple[int, int]
"""(block number, seq)"""


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Slots to fence, and what they cost together."""

    places: list[Place]
    cost: float


def plan_nests(program: Program, found: Loops) -> NestPlan | None:
    """The cheapest slots; None when the program is too large for this, or cannot be ordered this way."""
    problem = _Problem(program, found)
    rows = problem.rows()
    if rows is None:
        return None
    return problem.solve(rows)


def block_weight(found: Loops, block: int) -> float:
    """How often a block runs; a header runs once more than its loop's body."""
    weight = 1.0
    for loop in found.around(block):
        trip = found.loops[loop].trip
        weight *= (ASSUMED_TRIP if trip < 0 else trip) + (block == found.loops[loop].header)
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
    mine = [fences[program.instruction_core[fences] == core] for core in range(program.lnc)]
    before, joined, names = [], [], []
    for number, (block, time) in enumerate(plan.places):
        wanted, gaps = [], []
        for core in range(program.lnc):
            begin, end = starts[core * blocks + block], starts[core * blocks + block + 1]
            late = np.flatnonzero(seq[begin:end] >= time)
            row = begin + int(late[0]) if len(late) and time != END else end
            wanted.append(row)
            gaps.append(int(passed[row] - passed[starts[core * blocks]]))
        gap = min(gaps)
        for core, row in enumerate(wanted):
            closing = mine[core][gap : gap + 1].tolist()
            before.append(min([row, *closing]))
            joined.append(core * blocks + block)
            names.append(f"{stem}{number}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


class _Problem:
    """Blocks and loops by their number on core 0."""

    def __init__(self, program: Program, found: Loops) -> None:
        self.program, self.found = program, found
        self.blocks = len(program.blocks) // program.lnc
        self.around = [found.around(block) for block in range(self.blocks)]
        access = np.flatnonzero(shared_accesses(program))
        self.row = program.accesses.instruction[access].tolist()
        self.access = access.tolist()
        self.core = program.instruction_core[self.row].tolist()
        self.block = (program.instructions.block[self.row] % self.blocks).tolist()
        self.seq = program.instructions.seq[self.row].tolist()
        self.write = program.accesses.write[access].tolist()
        self.owner = program.owner[program.accesses.location[access]].tolist()
        self.slots = sorted(
            {(block, time) for block, time in zip(self.block, self.seq, strict=True)}
            | {(block, END) for block in set(self.block)}
        )
        fences = fence_rows(program)
        each = [fences[program.instruction_core[fences] == core].tolist() for core in range(program.lnc)]
        self.fences = list(zip(*each, strict=True)) if len({len(rows) for rows in each}) == 1 else []
        self.fence_block = (program.instructions.block[fences] % self.blocks)[: len(self.fences)].tolist()

    def rows(self) -> set[frozenset[int]] | None:
        """For every conflict the slots that order it; None when there are too many pairs to look at."""
        groups: dict[int, list[int]] = defaultdict(list)
        for at, owner in enumerate(self.owner):
            groups[owner].append(at)
        if sum(len(group) ** 2 for group in groups.values()) > 2 * MOST_PAIRS:
            return None
        x = extents(self.program)
        asked: set[tuple[int, int, int | None]] = set()
        with plain_if_small(_scan_meets, sum(len(group) ** 2 for group in groups.values()), 20_000):
            for group in groups.values():
                for a, b in combinations(group, 2):
                    if self.core[a] == self.core[b] or not (self.write[a] or self.write[b]):
                        continue
                    if self._never_runs(self.block[a]) or self._never_runs(self.block[b]):
                        continue
                    if _scan_meets(x, self.access[a], self.access[b]):
                        asked |= self._demands(a, b)
        return {row for demand in sorted(asked, key=str) if (row := self._eligible(*demand)) is not None}

    def _demands(self, a: int, b: int) -> set[tuple[int, int, int | None]]:
        """(earlier, later, loop that carries it) for each way in which two accesses may meet."""
        place = {at: (self.block[at], self.seq[at]) for at in (a, b)}
        demands: set[tuple[int, int, int | None]] = set()
        if place[a] != place[b]:
            demands.add((a, b, None) if place[a] < place[b] else (b, a, None))
        for loop in set(self.around[self.block[a]]) & set(self.around[self.block[b]]):
            # A body that runs once meets no later one; the header that runs behind it is met all the same.
            trip, header = self.found.loops[loop].trip, self.found.loops[loop].header
            for first, second in ((a, b), (b, a)):
                if trip not in (0, 1) or (trip == 1 and self.block[second] == header):
                    demands.add((first, second, loop))
        return demands

    def _never_runs(self, block: int) -> bool:
        """Whether it is in the body of a loop of zero trips."""
        loops = [self.found.loops[loop] for loop in self.around[block]]
        return any(loop.trip == 0 and loop.header != block for loop in loops)

    def _eligible(self, first: int, second: int, loop: int | None) -> frozenset[int] | None:
        """Slots that order `second` behind `first`; None when a fence that is there does."""
        for fence, block in zip(self.fences, self.fence_block, strict=True):
            behind = fence[self.core[first]] > self.row[first]
            ahead = fence[self.core[second]] < self.row[second]
            if self._counts(block, behind, ahead, first, second, loop):
                return None
        start = (self.block[first], self.seq[first])
        stop = (self.block[second], self.seq[second])
        return frozenset(
            at
            for at, slot in enumerate(self.slots)
            if self._counts(slot[0], slot > start, slot <= stop, first, second, loop)
        )

    def _counts(self, block: int, behind: bool, ahead: bool, first: int, second: int, loop: int | None) -> bool:
        """Whether a fence in a block, behind the first access and ahead of the second or not, orders the two."""
        ends = (self.block[first], self.block[second])
        if loop is None:
            return behind and ahead and self._runs(block, ends, None)
        if loop not in self.around[block]:
            return False
        return (behind and self._runs(block, ends[:1], loop)) or (ahead and self._runs(block, ends[1:], loop))

    def _runs(self, block: int, ends: tuple[int, ...], carrier: int | None) -> bool:
        """Whether a block surely runs between the ends.

        A loop around it must be around an end too, or be known to run. An end in a loop's header says nothing of the
        body, which the header's last run is not followed by, unless that loop goes on to carry the conflict.
        """
        for loop in self.around[block]:
            header = self.found.loops[loop].header
            inside = [end for end in ends if loop in self.around[end]]
            followed = any(end != header or block == header or loop == carrier for end in inside)
            if not followed and (inside or self.found.loops[loop].trip <= 0):
                return False
        return True

    def solve(self, rows: set[frozenset[int]]) -> NestPlan | None:
        """The cheapest set of slots that meets every row."""
        if frozenset() in rows:
            return None
        least = [row for row in rows if not any(other < row for other in rows)]
        if not least:
            return NestPlan([], 0.0)
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        least.sort(key=sorted)
        used = sorted(set().union(*least))
        number = {slot: at for at, slot in enumerate(used)}
        entries = [(at, number[slot]) for at, row in enumerate(least) for slot in sorted(row)]
        matrix = csr_array((np.ones(len(entries)), tuple(np.array(entries).T)), shape=(len(least), len(used)))
        weights = np.array([block_weight(self.found, self.slots[slot][0]) for slot in used])
        # Of equally cheap sets the one with fewer fences: a fence in a loop of zero trips is not for nothing.
        result = milp(
            weights + 1e-3,
            constraints=LinearConstraint(matrix, lb=1),
            integrality=np.ones(len(used), np.int64),
            bounds=Bounds(0, 1),
        )
        if result.x is None:
            return None
        chosen = [slot for slot, value in zip(used, result.x, strict=True) if value > 0.5]
        return NestPlan([self.slots[slot] for slot in chosen], float(sum(weights[number[slot]] for slot in chosen)))
