"""Lifetimes in programs with loops and branches against all ways through them.

Two locations of one core whose lifetimes do not meet may share storage. So on no way may a value of each be still to
be read at one time; and where one of two accesses is another core's, a fence must stand between them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from random import Random

import numpy as np
import pytest
from tests.brute import barrier_rows, touched
from tests.property.ways import Way, ways

from haulout.analysis.lifetimes import lifetimes
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.exact_cover import nest_slots, plan_nests
from haulout.passes.fences.slots import insert_fences
from haulout_generators.branch_programs import random_branch_program

LATE = np.iinfo(np.int64).max


def scattered(rng: Random) -> Program:
    """A random program, every location touched in a stretch of blocks of its own; fenced, and by the user too."""
    program = random_branch_program(
        rng,
        cores=2,
        steps=4,
        depth=rng.choice((1, 2, 2)),
        fences=rng.choice((0.0, 0.5)),
        divergent=rng.choice((0.0, 0.3)),
    )
    blocks = len(program.blocks) // program.lnc
    owner = program.owner[program.accesses.location]
    block = program.instructions.block[program.accesses.instruction] % blocks
    low = np.array([rng.randrange(-1, blocks) for _ in range(len(program.locations))])
    high = low + np.array([rng.choice((0, 1, 2, 4)) for _ in low])
    keep = (low[owner] <= block) & (block <= high[owner])
    # Some are written in whole where they are written, so that values end.
    whole = np.array([rng.random() < 0.5 for _ in low])[owner] & program.accesses.write
    pattern = np.where(whole, NONE, program.accesses.pattern)
    program = program.replace(accesses=program.accesses.replace(pattern=pattern).take(keep))
    plan = plan_nests(program)
    assert plan is not None
    return insert_fences(program, nest_slots(program, plan, "f"), "me")


Event = tuple[tuple[int, ...], int, int, int]
"""(visit, seq, core, instruction; at the end of a block, NONE)"""


def events(program: Program, way: Way) -> list[tuple[Event, list[tuple[int, int, bool]], int]]:
    """What runs, in source order: (when, [(location, byte, written)] reads first, fences before it on its core)."""
    blocks = len(program.blocks) // program.lnc
    starts = program.starts("instructions", "blocks").tolist()
    fences = barrier_rows(program)
    found = []
    for core, visits in enumerate(way):
        passed = 0
        for visit in visits:
            block = core * blocks + visit.block
            for row in range(starts[block], starts[block + 1]):
                if row in fences:
                    passed += 1
                    continue
                operands = [
                    (location, byte, bool(program.accesses.write[access]))
                    for access in range(*program.access_starts[row : row + 2].tolist())
                    for location, byte in sorted(touched(program, access))
                ]
                found.append(((visit.key, int(program.instructions.seq[row]), core, row), operands, passed))
            cond = int(program.blocks.cond[block])
            if cond != NONE:
                reads = [(int(program.owner[cond]), byte, False) for byte in range(int(program.locations.size[cond]))]
                found.append(((visit.key, LATE, core, NONE), reads, passed))
    return sorted(found)


def live(program: Program, way: Way) -> dict[int, set[tuple[int, int]]]:
    """Location -> stretches of time, (a write, a read of what it wrote), in which a byte is still to be read."""
    written: dict[tuple[int, int], int] = {}
    found: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for place, (_, operands, _) in enumerate(events(program, way)):
        for location, byte, write in operands:
            if write:
                written[location, byte] = place
            elif (location, byte) in written:
                found[location].add((written[location, byte], place))
    return found


@pytest.mark.parametrize("seed", range(120))
def test_locations_with_disjoint_lifetimes_may_share_storage(seed: int) -> None:
    rng = Random(seed)
    program = scattered(rng)
    life = lifetimes(program)
    used = np.flatnonzero((life.begin < life.end) & (program.locations.remote_name == NONE)).tolist()
    apart = [
        (a, b)
        for a, b in combinations(used, 2)
        if program.location_core[a] == program.location_core[b]
        and (life.end[a] <= life.begin[b] or life.end[b] <= life.begin[a])
    ]
    for way in ways(program, 60, rng):
        stretches = live(program, way)
        by_location = defaultdict(list)
        for (_, _, core, _), operands, passed in events(program, way):
            for location in {each[0] for each in operands}:
                by_location[location].append((core, passed))
        for a, b in apart:
            for begin, end in stretches.get(a, ()):
                for other, last in stretches.get(b, ()):
                    assert end <= other or last <= begin, (names(program, a, b), way)
            owner = int(program.location_core[a])
            for core, passed in by_location[a]:
                for by, at in by_location[b]:
                    assert core == by == owner or passed != at, (names(program, a, b), way)


def names(program: Program, *locations: int) -> list[str]:
    return [program.strings[int(program.locations.name[location])] for location in locations]


def test_there_is_something_to_share() -> None:
    """The programs above have locations apart that are touched in one region: arms, and bodies of loops."""
    inside = 0
    for seed in range(40):
        program = scattered(Random(seed))
        life = lifetimes(program)
        starts = program.starts("instructions", "blocks")
        for region in program.structure.regions:
            begin, end = int(starts[region.begin]), int(starts[region.end])
            within = np.flatnonzero((begin <= life.begin) & (life.end <= end) & (life.begin < life.end))
            inside += sum(
                bool(life.end[a] <= life.begin[b] or life.end[b] <= life.begin[a]) for a, b in combinations(within, 2)
            )
    assert inside > 20
