"""Fences between blocks against the definition: which block leads to which is found by walking the edges."""

from __future__ import annotations

from bisect import bisect_left
from itertools import combinations
from random import Random

import numpy as np
import pytest

from haulout.analysis.phases import phases, shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.block_fences import fences_between, outside_atoms
from haulout.passes.fences.slots import insert_fences, phase_slots
from haulout_generators.branch_programs import random_branch_program


def led_to(program: Program) -> list[set[int]]:
    """Of each block of the first core: those that a way of one edge at least leads to."""
    count = len(program.blocks) // program.lnc
    leads = [program.edges.target[program.edges.source == block].tolist() for block in range(count)]
    found: list[set[int]] = []
    for block in range(count):
        reached: set[int] = set()
        work = list(leads[block])
        while work:
            at = work.pop()
            if at not in reached:
                reached.add(at)
                work += leads[at]
        found.append(reached)
    return found


def conflicts(program: Program) -> set[tuple[int, int]]:
    """Instructions of two cores that touch one shared location, one writing, whatever bytes of it."""
    accesses = program.accesses
    touching = [
        (int(program.owner[accesses.location[at]]), int(accesses.instruction[at]), bool(accesses.write[at]))
        for at in np.flatnonzero(shared_accesses(program)).tolist()
    ]
    core = program.instruction_core.tolist()
    return {
        (row, other)
        for (location, row, write), (same, other, also) in combinations(touching, 2)
        if location == same and core[row] != core[other] and (write or also)
    }


def wanted(program: Program) -> set[tuple[int, bool]]:
    """(block, whether at its end) of each fence that a conflict asks for."""
    structure, count = program.structure, len(program.blocks) // program.lnc
    behind, fences = led_to(program), fence_rows(program).tolist()
    starts = program.starts("instructions", "blocks").tolist()
    block = program.instructions.block.tolist()
    atoms = [structure.divergent_fork(at) for at in range(count)]

    def fenced(begin: int, end: int) -> bool:
        return bisect_left(fences, begin) < bisect_left(fences, end)

    asked = set()
    for pair in conflicts(program):
        for early, late in (pair, pair[::-1]):
            one, other = block[early] % count, block[late] % count
            atom = atoms[other]
            if atoms[one] == NONE and fenced(early, starts[block[early] + 1]):
                continue
            if atom == NONE and fenced(starts[block[late]], late):
                continue
            fork = structure.forks[atom].block if atom != NONE else NONE
            # In one run of an atom nothing can be held back, only a later one.
            if other in behind[one] and (atom == NONE or atoms[one] != atom or fork in behind[fork]):
                asked.add((other, False) if atom == NONE else (fork, True))
    return asked


@pytest.mark.parametrize("seed", range(60))
def test_each_block_that_needs_a_fence_gets_one_and_no_other(seed: int) -> None:
    rng = Random(seed)
    program = random_branch_program(
        rng, steps=3, depth=3, loops=0.4, divergent=rng.choice((0.0, 0.5)), fences=rng.choice((0.0, 0.3))
    )
    count = len(program.blocks) // program.lnc
    found = outside_atoms(program, phases(program, fence_rows(program)))
    names = [f"f{at}" for at in range(int(found.needed.sum()))]
    for each in (program, insert_fences(program, phase_slots(program, found, names), "me")):
        slots, starts = fences_between(each, "b"), each.starts("instructions", "blocks").tolist()
        placed = list(zip(slots.block.tolist(), slots.before.tolist(), strict=True))
        assert placed == [
            (core * count + at, starts[core * count + at + at_end])
            for at, at_end in sorted(wanted(each))
            for core in range(each.lnc)
        ]
