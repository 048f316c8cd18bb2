"""How many signals surely lie between two places: equal to the least over runs that are written out and counted."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from tests.brute import _run_of

from haulout import Program
from haulout.analysis.loops import find_loops
from haulout.ir.enums import NONE
from haulout.passes.sync.nest import Between, make_nest
from haulout.testing.programs import random_loop_program

Step = tuple[int, tuple[int, ...], tuple[int, ...]]
"""(row, headers of the loops around it, turn of each)"""


def some_runs(program: Program, rng: Random) -> list[list[Step]]:
    """Runs of the one core, with 0 to 2 trips where they are not known."""
    starts = program.starts("instructions", "blocks").tolist()
    headers = [row for row in range(len(program.blocks)) if program.blocks.cond[row] != NONE]
    known = program.blocks.trip.tolist()
    every = [
        dict(zip(headers, each, strict=True))
        for each in product(*([known[row]] if known[row] != NONE else [0, 1, 2] for row in headers))
    ]
    if len(every) > 27:
        # The fewest trips is where the least is found.
        every = [every[0], *rng.sample(every[1:], 26)]
    return [
        [
            (row, loops, turns)
            for block, loops, turns in _run_of(program, 0, len(program.blocks), trips)
            for row in range(starts[block], starts[block + 1])
        ]
        for trips in every
    ]


def least_between(
    runs: list[list[Step]], signals: set[int], producer: int, row: int, header: int | None
) -> int | None:
    """The least number of signals between the producer's latest run before the row (with `header`: in the turn before
    of that loop) and the row; None when no run shows it.
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
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(60))
def test_counts_are_the_least_of_all_runs(seed: int) -> None:
    rng = Random(seed)
    program = random_loop_program(rng, cores=1, steps=2, depth=1 + seed % 3)
    rows = range(len(program.instructions))
    if len(rows) > 60:
        pytest.skip("too many runs to write out")
    runs = some_runs(program, rng)
    nest = make_nest(program, find_loops(program))
    signals = {row for row in rows if rng.random() < 0.6}
    at = np.cumsum([0, *(row in signals for row in rows)]).astype(np.int64)
    between = Between(nest, 0, at)
    block = program.instructions.block.tolist()
    seen = 0
    for row, producer in rng.sample(list(product(rows, rows)), min(150, len(rows) ** 2)):
        here, there = block[row], block[producer]
        loop = nest.innermost_common(here, there)
        if producer < row and nest.dominates(there, here):
            expected = least_between(runs, signals, producer, row, None)
            if expected is not None:
                assert between.forward(producer, there, row, here) == expected
                seen += 1
        if loop != NONE:
            expected = least_between(runs, signals, producer, row, nest.found.loops[loop].header)
            if expected is not None:
                found = between.carried(producer, there, row, here, loop)
                # The run that has the fewest trips around may not have this pair; fewer is what may be claimed.
                assert found <= expected
                seen += found == expected
    assert seen


@pytest.mark.parametrize("seed", range(60))
def test_a_count_before_a_place_is_the_same_in_all_runs(seed: int) -> None:
    rng = Random(seed)
    program = random_loop_program(rng, cores=1, steps=2, depth=1 + seed % 3)
    rows = range(len(program.instructions))
    if len(rows) > 60:
        pytest.skip("too many runs to write out")
    runs = some_runs(program, rng)
    nest = make_nest(program, find_loops(program))
    signals = {row for row in rows if rng.random() < 0.2}
    between = Between(nest, 0, np.cumsum([0, *(row in signals for row in rows)]).astype(np.int64))
    for row in rows:
        counts = {
            sum(each[0] in signals for each in run[:at])
            for run in runs
            for at, each in enumerate(run)
            if each[0] == row
        }
        before = between.before(row, int(program.instructions.block[row]), 0)
        if before is not None and counts:
            assert counts == {before}
