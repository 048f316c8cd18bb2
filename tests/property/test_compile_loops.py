"""Programs with loops, compiled under both policies and written out for many trip counts: nothing is left unordered,
and every read finds its own location's bytes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tests.brute import unordered, written_out, wrong_reads

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout_generators.programs import random_loop_program

MOST_RUNS = 10


def runs(program: Program, rng: Random) -> list[dict[int, int]]:
    """Trip counts to try: what is known, and 0 to 3 for what is not; some of all combinations."""
    headers = [row for row in range(len(program.blocks) // program.lnc) if program.blocks.cond[row] != NONE]
    choices = [
        [int(program.blocks.trip[row])] if program.blocks.trip[row] != NONE else [0, 1, 2, 3] for row in headers
    ]
    every = [dict(zip(headers, each, strict=True)) for each in product(*choices)]
    return every if len(every) <= MOST_RUNS else rng.sample(every, MOST_RUNS)


@pytest.mark.thin(7, "25 s")
@pytest.mark.parametrize("policy", ["minimal", "bracket"])
@pytest.mark.parametrize("seed", range(60))
def test_compiled_loops_are_ordered_for_every_trip_count(seed: int, policy: str) -> None:
    rng = Random(seed)
    source = random_loop_program(rng, steps=4, depth=1 + seed % 2)
    assert verify(source) == []
    program = PassManager(standard_pipeline(fences=policy)).run(source, PassContext())  # type: ignore[arg-type]
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    for trips in runs(program, rng):
        straight, times = written_out(program, trips)
        if len(straight.instructions) > 220:
            continue
        assert verify(straight) == [], trips
        assert unordered(straight, physical=True) == [], trips
        assert wrong_reads(straight, times) == [], trips
