"""Barriers as signals and waits order what the barriers ordered: neither less nor more, on every way through.

The order is told by brute force (`sync_runs.py`): for each execution of an instruction all that cannot start when it
never completes, on all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from tests.passes.sync_runs import joint_order, joint_run

from haulout import Program
from haulout.ir.core_sets import set_text
from haulout.ir.edit import NewInstructions, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Barriers, Instructions
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.programs import random_program

MOST_STEPS = 90


def with_barriers(rng: Random, program: Program, many: int) -> Program:
    """More barriers: of all engines or of one, of all cores or of some, at the ends of blocks; also in both arms of
    divergent branches, as many in either.
    """
    structure, blocks = program.structure, len(program.blocks) // program.lnc
    free = [block for block in range(blocks) if structure.divergent_fork(block) == NONE]
    places: list[list[int]] = [[rng.choice(free)] for _ in range(many)]
    for fork in structure.forks:
        if fork.block < blocks and fork.divergent and len(fork.arms) == 2 and fork.block in free:
            places += [[structure.regions[arm].begin for arm in fork.arms]] * rng.randint(0, 2)
    rows: list[tuple[int, int, int, int, Engine, int]] = []
    starts = program.starts("instructions", "blocks").tolist()
    for number, where in enumerate(places):
        engine = rng.choice((Engine.ALL, Engine.ALL, Engine.ACT, Engine.SYNC))
        cores: Sequence[int] = range(program.lnc)
        if rng.random() < 0.4:
            cores = rng.sample(cores, rng.randint(1, min(2, program.lnc)))
        text = program.strings.intern(set_text(cores))
        for block in where:
            for core in cores:
                here = core * blocks + block
                rows.append((here, number, core, starts[here + 1], engine, text))
    rows.sort()
    strings = program.strings
    new = NewInstructions(
        np.array([row[3] for row in rows], np.int32),
        Instructions.make(
            len(rows),
            name=[strings.intern(f"more{row[1]}.{row[0]}") for row in rows],
            block=[row[0] for row in rows],
            opcode=strings.intern("core_barrier"),
            engine=[int(row[4]) for row in rows],
        ),
        barriers=Barriers.make(
            len(rows),
            instruction=np.arange(len(rows)),
            name=[strings.intern(f"more{row[1]}") for row in rows],
            cores=[row[5] for row in rows],
        ),
    )
    program = program.replace(
        instructions=program.instructions.replace(seq=np.full(len(program.instructions), NONE, np.int64))
    )
    return insert(program, new)[0]


def source_program(seed: int) -> Program:
    rng = Random(seed)
    while True:
        cores = rng.randint(1, 3)
        if seed % 4 == 0:
            program = random_program(rng, cores=cores, steps=4, fences=0.4)
        else:
            program = random_branch_program(
                rng, cores=cores, steps=1, depth=1 + seed % 2, divergent=0.4, fences=0.2, loops=0.4
            )
        if len(program.instructions) <= 40 * cores:
            return with_barriers(rng, program, rng.randint(1, 3))


def lowered(program: Program, *passes: LowerSync | LowerBarriers) -> tuple[Program, PassContext]:
    context = PassContext()
    return PassManager([*passes]).run(program, context), context


@pytest.mark.thin(5, "6 s")
@pytest.mark.parametrize("seed", range(80))
def test_the_order_is_what_the_barriers_made(seed: int) -> None:
    source = source_program(seed)
    assert verify(source) == []
    program, _ = lowered(source, LowerBarriers())
    assert verify(program) == []
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert len(program.barriers) == 0
    for way in range(3):
        run = joint_run(source, Random(way))
        if sum(map(len, run)) <= MOST_STEPS:
            assert joint_order(program, joint_run(program, Random(way))) == joint_order(source, run)
