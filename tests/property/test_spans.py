"""Spans of shared groups against their definition, on all ways through random programs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.property.ways import ways

from haulout.analysis.phases import shared_accesses
from haulout.passes.fences.spans import shared_spans
from haulout_generators.branch_programs import random_branch_program


@pytest.mark.thin(5, "12 s")
@pytest.mark.parametrize("seed", range(150))
def test_brackets_open_before_and_close_behind_every_access(seed: int) -> None:
    """On every way, block by block: a bracket is open at every access, and opens and closes in turn."""
    rng = Random(seed)
    # Nothing is written in the entry alone: groups that are touched in a part of the program only.
    program = random_branch_program(rng, cores=2, steps=1, depth=3, divergent=rng.choice((0.0, 0.5)))
    blocks = len(program.blocks) // program.lnc
    touched = shared_accesses(program)
    block = program.instructions.block[program.accesses.instruction[touched]] % blocks
    # Keep one location's accesses in a few neighbouring blocks.
    low = rng.randrange(blocks)
    kept = {at for at in set(block.tolist()) if low <= at <= low + rng.randint(0, 6)}
    drop = np.zeros(len(program.accesses), bool)
    drop[np.flatnonzero(touched)[~np.isin(block, sorted(kept))]] = True
    program = program.replace(accesses=program.accesses.take(~drop))
    spans = shared_spans(program)
    assert all(first_last[0] <= first_last[1] for first_last in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans)), "groups do not overlap"
    seen: set[int] = set()
    for way in ways(program, 300, rng):
        for core in way:
            inside: int | None = None
            for visit in core:
                opening = [number for number, span in enumerate(spans) if span[0] == visit.block]
                if opening:
                    assert inside is None
                    assert visit.atom is None, "a fence in a divergent arm"
                    inside = opening[0]
                if visit.block in kept:
                    assert inside is not None, visit
                    seen.add(inside)
                closing = [number for number, span in enumerate(spans) if span[1] == visit.block]
                if closing:
                    assert closing == [inside]
                    assert visit.atom is None
                    inside = None
            assert inside is None
    assert seen <= set(range(len(spans)))
