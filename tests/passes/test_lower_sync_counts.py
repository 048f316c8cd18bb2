"""How many signals surely lie between two places: equal to the least over runs that are written out and counted."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from tests.passes.sync_runs import Step, runs_of

from haulout import Program
from haulout.ir.enums import NONE
from haulout.passes.sync.nest import Between
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.programs import random_loop_program


def counts_between(
    runs: list[list[Step]], signals: set[int], producer: int, row: int, header: int | None
) -> list[int]:
    """Numbers of signals between the producer's latest run before the row (with `header`: in the turn before of that
    loop) and the row.
    """
    found: list[int] = []
    for run in runs:
        for at, (each, loops, turns) in enumerate(run):
            if each != row:
                continue
            wanted = None
            if header is not None:
                level = loops.index(header)
                wanted = (turns[:level], turns[level] - 1)
            latest = None
            for other in range(at):
                if run[other][0] != producer:
                    continue
                if wanted is not None:
                    level = loops.index(header or 0)
                    if (run[other][2][:level], run[other][2][level]) != wanted:
                        continue
                latest = other
            if latest is not None:
                found.append(sum(run[place][0] in signals for place in range(latest + 1, at)))
    return found


def small_program(seed: int, kind: str) -> Program:
    rng = Random(seed)
    while True:
        if kind == "loops":
            program = random_loop_program(rng, cores=1, steps=2, depth=1 + seed % 3)
        else:
            program = random_branch_program(rng, cores=1, depth=1 + seed % 3, loops=0.4, divergent=0.2)
        if len(program.instructions) <= 60:
            return program


def counted(program: Program, rng: Random, share: float) -> tuple[set[int], Between]:
    """Rows chosen to signal, and their counts."""
    rows = range(len(program.instructions))
    signals = {row for row in rows if rng.random() < share}
    return signals, Between(program, 0, np.array(sorted(signals), np.int32))


@pytest.mark.parametrize("kind", ["loops", "branches"])
@pytest.mark.parametrize("seed", range(60))
def test_counts_are_the_least_of_all_runs(seed: int, kind: str) -> None:
    program = small_program(seed, kind)
    rng = Random(seed)
    rows = range(len(program.instructions))
    runs, all_runs = runs_of(program, rng)
    structure, (signals, between) = program.structure, counted(program, rng, 0.6)
    block = program.instructions.block.tolist()
    seen = 0
    for row, producer in rng.sample(list(product(rows, rows)), min(150, len(rows) ** 2)):
        here, there = block[row], block[producer]
        loop = structure.common_loop(here, there)
        if producer < row and structure.dominates(there, here):
            count = between.forward(producer, there, row, here)
            for each in (found := counts_between(runs, signals, producer, row, None)):
                assert count.least <= each
            if found and all_runs:
                assert count.least == min(found)
                seen += 1
        if loop != NONE:
            count = between.carried(producer, there, row, here, loop)
            header = structure.loops[loop].header
            for each in (found := counts_between(runs, signals, producer, row, header)):
                # The run that has the fewest trips around may not have this pair; fewer is what may be claimed.
                assert count.least <= each
            seen += bool(found) and count.least == min(found)
    assert seen or not all_runs or not rows


@pytest.mark.parametrize("kind", ["loops", "branches"])
@pytest.mark.parametrize("seed", range(60))
def test_a_count_before_a_place_is_the_same_in_all_runs(seed: int, kind: str) -> None:
    program = small_program(seed, kind)
    rng = Random(seed)
    runs, all_runs = runs_of(program, rng)
    signals, between = counted(program, rng, 0.2)
    fixed = [header for header in range(len(program.blocks)) if program.blocks.trip[header] != NONE]
    for row in range(len(program.instructions)):
        counts = {
            sum(each[0] in signals for each in run[:at])
            for run in runs
            for at, each in enumerate(run)
            if each[0] == row
        }
        before = between.before(row, int(program.instructions.block[row]))
        if before is not None and counts:
            assert counts == {before}
        if before is None and all_runs and not fixed:
            # Inside of a loop that signals nothing is claimed, though it may run once at most.
            assert len(counts) != 1 or program.structure.loops_around(int(program.instructions.block[row]))
