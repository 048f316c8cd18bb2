"""Compiled programs, broken on purpose: the checker finds every change that matters, and no other change of order.

The judge is the simulator, which shares no code with the checker: a change matters when the cores cannot meet, when
some schedule lets an access see another writer, or when the outputs' bytes are not those of the unbroken program.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate
from haulout.support.diagnostics import Severity
from haulout_generators.mutate import KINDS, Mutant, mutants
from haulout_generators.programs import random_program

DATA = Path(__file__).parent / "data"
LONG = """
    accumulation chosen_by_data cond_in_fori conjugate_gradients experts line_search loss_scaling pipeline
    ragged_loops ring_attention
"""
"""Left out: a minute or two each, and others have the same constructs."""
EXAMPLES = sorted(path.stem for path in DATA.glob("*.hlo") if path.stem.partition(".")[0] not in LONG.split())
RACE = Path(__file__).parents[2] / "examples" / "race"
ORDER_ONLY = ("drop-barrier", "move-barrier", "drop-dependence")
"""Changes that leave storage alone: what the simulator calls harmless must be clean."""


def serious(program: Program) -> list[haulout.Diagnostic]:
    return [each for each in check_program(program, advise=False) if each.severity > Severity.NOTE]


def matters(mutant: Mutant, reference: dict[str, bytes] | None) -> bool:
    try:
        if not compare_schedules(mutant.program).agrees:
            return True
        if reference is None:
            return False
        result = simulate(mutant.program)
    except haulout.HauloutError:
        return True
    return bool(result.diagnostics) or {k: v.tobytes() for k, v in result.outputs.items()} != reference


def judge(program: Program, most: int | None, *, run: bool = True) -> Counter[tuple[str, bool]]:
    """(kind, matters) -> how many; fails at a change that matters and is not found, or a false alarm.

    One run takes one way through branches, and what is harmless on it may matter on another: there no finding is
    called a false alarm.
    """
    branches = bool(program.structure.forks)
    seen: Counter[tuple[str, bool]] = Counter()
    reference = {k: v.tobytes() for k, v in simulate(program).outputs.items()} if run else None
    for mutant in mutants(program, most=most):
        found = serious(mutant.program)
        bad = matters(mutant, reference)
        seen[mutant.kind, bad] += 1
        if bad:
            assert found, f"{mutant.kind}: {mutant.where} was not found"
        elif mutant.kind in ORDER_ONLY and not branches:
            # Schedules that agree may all have the source's order the other way round; and a fence that moves may end
            # a lifetime early of which the bytes in question were not needed any more.
            alarms = [str(each) for each in found if each.code not in ("unfaithful-order", "overlapping-storage")]
            assert not alarms, f"{mutant.kind}: {mutant.where} is harmless: {alarms}"
    return seen


@pytest.mark.thin(20, "100 s")
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_broken_in_every_way(example: str) -> None:
    program = haulout.compile(DATA / f"{example}.hlo").program
    seen = judge(program, most=2)
    if len(program.barriers) and not program.structure.forks:
        # No fence of the least number can be missed, and no core can meet alone or under another name.
        for kind in ("drop-barrier", "lose-barrier", "rename-barrier"):
            assert seen[kind, True] > 0
            assert seen[kind, False] == 0


@pytest.mark.long("20 s")
def test_brackets_broken_in_every_way() -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for example in ("all_reduce_sum.n4", "chain.n2", "ring_matmul.n2"):
        seen += judge(haulout.compile(DATA / f"{example}.hlo", fences="bracket").program, most=None)
    seen += judge(haulout.compile(DATA / "chain.n2.hlo", fences="bracket", sync="semaphores").program, most=None)
    assert {kind for kind, bad in seen if bad} == set(KINDS)


def test_the_mended_example_broken_in_every_way() -> None:
    program = haulout.compile(RACE / "sum_fixed.bir").program
    assert sum(judge(program, most=None).values()) > 10


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_broken_in_every_way(seed: int) -> None:
    result = haulout.compile(random_program(Random(seed)))
    assert result.ok, [str(each) for each in result.diagnostics]
    # Their opcodes cannot be executed: judged by who sees whose writes alone.
    judge(result.program, most=6, run=False)
