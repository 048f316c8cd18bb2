"""Fences of loops and branches against brute force: no cheaper set of slots orders every conflict between cores.

The truth: every way through the program is walked. Two conflicting accesses of two cores on it ask for one of the
slots that are passed between them; the cheapest set of slots that answers all is found by search.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from random import Random

import pytest
from tests.brute import barrier_rows, touched
from tests.property.ways import Visit, Way, ways

from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes, fence_runs
from haulout.passes.fences.exact_cover import END, Place, block_weight, nest_slots, plan_nests
from haulout.passes.fences.slots import insert_fences
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.programs import random_loop_program

MOST_WAYS = 400


def conflicts(program: Program) -> list[tuple[int, int]]:
    """Pairs of instructions of two cores that touch a common byte of a shared location, one writing."""
    bytes_of: dict[int, tuple[set[tuple[object, int]], set[tuple[object, int]]]] = defaultdict(lambda: (set(), set()))
    barriers = barrier_rows(program)
    for access, row in enumerate(program.accesses.instruction.tolist()):
        if row not in barriers:
            bytes_of[row][bool(program.accesses.write[access])].update(touched(program, access))
    core = program.instruction_core.tolist()
    return [
        (a, b)
        for a, b in combinations(sorted(bytes_of), 2)
        if core[a] != core[b]
        and (bytes_of[a][1] & (bytes_of[b][0] | bytes_of[b][1]) or bytes_of[a][0] & bytes_of[b][1])
    ]


def pairs(program: Program, way: Way) -> list[tuple[int, Visit, int, Visit]]:
    """(earlier, its visit, later, its visit) of the conflicts on a way that a fence can order."""
    blocks, seq = len(program.blocks) // program.lnc, program.instructions.seq.tolist()
    block, core = program.instructions.block.tolist(), program.instruction_core.tolist()
    found = []
    for a, b in conflicts(program):
        for one in way[core[a]]:
            for other in way[core[b]]:
                if one.block != block[a] % blocks or other.block != block[b] % blocks:
                    continue
                early, late = (one.key, seq[a]), (other.key, seq[b])
                if early == late or one.atom == other.atom is not None:
                    continue
                found.append((a, one, b, other) if early < late else (b, other, a, one))
    return found


def slots_of(program: Program) -> list[Place]:
    """Before every instruction, and behind every block, that no divergent arm contains."""
    blocks = len(program.blocks) // program.lnc
    loose = {
        visit.block for way in ways(program, MOST_WAYS, Random(0)) for core in way for visit in core if visit.atom
    }
    places = set(zip((program.instructions.block % blocks).tolist(), program.instructions.seq.tolist(), strict=True))
    return sorted(slot for slot in places | {(at, END) for at in range(blocks)} if slot[0] not in loose)


def demands(program: Program, every: list[Way]) -> set[frozenset[Place]]:
    """For each conflict on each way: the slots that are passed between its two accesses."""
    slots = defaultdict(list)
    for slot in slots_of(program):
        slots[slot[0]].append(slot)
    seq = program.instructions.seq.tolist()
    asked = set()
    for way in every:
        for early, one, late, other in pairs(program, way):
            # What is not in an arm of its own is the same on all cores.
            walked = [visit for visit in way[0] if visit.atom is None and one.key <= visit.key <= other.key]
            asked.add(
                frozenset(
                    slot
                    for visit in walked
                    for slot in slots[visit.block]
                    if (visit.key, slot[1]) > (one.key, seq[early]) and (visit.key, slot[1]) <= (other.key, seq[late])
                )
            )
    return asked


def cheapest(asked: set[frozenset[Place]], cost: dict[Place, float]) -> float:
    """The least cost of a set that meets every demand, by trying all."""
    least = sorted((each for each in asked if not any(other < each for other in asked)), key=len)
    best = [sum(cost.values()) + 1]

    def extend(spent: float, barred: frozenset[Place], open_demands: list[frozenset[Place]]) -> None:
        if spent >= best[0] - 1e-9:
            return
        if not open_demands:
            best[0] = spent
            return
        tried: set[Place] = set()
        for slot in sorted(open_demands[0] - barred, key=lambda each: cost[each]):
            left = [each for each in open_demands if slot not in each]
            if all(each - barred - tried for each in left):
                extend(spent + cost[slot], barred | tried, left)
            tried.add(slot)

    extend(0.0, frozenset(), least)
    return best[0]


def unordered(program: Program, every: list[Way]) -> list[tuple[str, str]]:
    """Conflicts that no fence stands between, on some way."""
    blocks = len(program.blocks) // program.lnc
    starts = program.starts("instructions", "blocks").tolist()
    fences = sorted(barrier_rows(program))
    found = []
    for way in every:
        passed: list[dict[tuple[int, ...], int]] = []
        """Fences before each visit."""
        for core, visits in enumerate(way):
            count, before = 0, {}
            for visit in visits:
                before[visit.key] = count
                begin, end = starts[core * blocks + visit.block], starts[core * blocks + visit.block + 1]
                count += bisect_left(fences, end) - bisect_left(fences, begin)
            before[()] = count
            passed.append(before)
        assert len({before[()] for before in passed}) == 1, "cores meet equally often"

        def epoch(row: int, visit: Visit, passed: list[dict[tuple[int, ...], int]] = passed) -> int:
            core = int(program.instruction_core[row])
            begin = starts[core * blocks + visit.block]
            return passed[core][visit.key] + bisect_left(fences, row) - bisect_left(fences, begin)

        found += [
            (program.instruction_name(early), program.instruction_name(late))
            for early, one, late, other in pairs(program, way)
            if epoch(early, one) >= epoch(late, other)
        ]
    return found


def loops(seed: int) -> Program:
    return random_loop_program(Random(seed), cores=2, steps=2, depth=1)


def branches(seed: int) -> Program:
    rng = Random(seed)
    divergent = rng.choice((0.0, 0.0, 0.5))
    return random_branch_program(
        rng,
        cores=2,
        steps=rng.choice((1, 2)),
        depth=rng.choice((1, 2, 2)),
        items=rng.choice((1, 2)),
        divergent=divergent,
    )


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("make", [loops, branches])
def test_no_cheaper_set_of_slots_orders_everything(make: Callable[[int], Program], seed: int) -> None:
    program = make(seed)
    every = ways(program, MOST_WAYS, Random(seed))
    plan = plan_nests(program)
    if not program.structure or len(every) == MOST_WAYS:
        pytest.skip("nothing but straight blocks, or too many ways")
    assert plan is not None
    assert unordered(insert_fences(program, nest_slots(program, plan, "f"), "me"), every) == []
    cost = {slot: block_weight(program.structure, slot[0]) for slot in slots_of(program)}
    assert plan.cost == pytest.approx(cheapest(demands(program, every), cost))


@pytest.mark.thin(7, "20 s")
@pytest.mark.parametrize("policy", ["minimal", "bracket"])
@pytest.mark.parametrize("seed", range(100, 160))
def test_the_policies_order_everything(seed: int, policy: str) -> None:
    rng = Random(seed)
    program = random_branch_program(rng, steps=3, depth=2, divergent=rng.choice((0.0, 0.4)))
    result = ExtendSharedLifetimes(fences=policy).run(program, PassContext())  # type: ignore[arg-type]
    assert unordered(result, ways(result, 60, rng)) == []
    plan = plan_nests(program)
    if policy == "minimal" and plan is not None:
        assert fence_runs(result) <= plan.cost
