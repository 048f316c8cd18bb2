"""Whatever order is taken, of straight code and in loops, the compiled program is correct and gives what it gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.brute import touched, unordered, written_out, wrong_reads
from tests.property.test_compile_loops import runs
from tests.tiers import examples

import haulout
from haulout.ir.program import Program
from haulout.passes import order_by_phases
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout.sim import compare_schedules, simulate
from haulout.support.diagnostics import Severity
from haulout_generators.programs import random_loop_program, random_program

DATA = Path(__file__).resolve().parents[1] / "end_to_end" / "data"


@contextmanager
def every_order_is_better() -> Iterator[None]:
    """The pass moves whatever it may move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_by_phases, "WORSE", 1e9)
        patch.setattr(order_by_phases, "ROOM", 1e9)
        patch.setattr(order_by_phases, "GAIN", 1e9)
        patch.setattr(order_by_phases, "PROMISE", 1e9)
        yield


def outputs(program: Program) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in simulate(program, seed=1).outputs.items()}


def reads(program: Program) -> dict[tuple[int, str], list[object]]:
    """Of each instruction: who wrote each byte that it reads, when the program runs in `seq` order."""
    core, seq = program.instruction_core.tolist(), program.instructions.seq.tolist()
    writer: dict[tuple[object, int], object] = {}
    found: dict[tuple[int, str], list[object]] = {}
    for row in sorted(range(len(core)), key=lambda row: (seq[row], row)):
        me = core[row], program.instruction_name(row)
        for access in range(*program.access_starts[row : row + 2].tolist()):
            for byte in sorted(touched(program, access)):
                if program.accesses.write[access]:
                    writer[byte] = me
                else:
                    found.setdefault(me, []).append(writer.get(byte))
    return found


@settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_straight_code_is_proved_and_reads_the_same_writes(rng: Random) -> None:
    source = random_program(rng, steps=16)
    with every_order_is_better():
        moved = haulout.compile(source)
    assert [str(each) for each in moved.diagnostics if each.severity > Severity.NOTE] == []
    assert unordered(moved.program, physical=True) == []
    assert compare_schedules(moved.program).agrees
    ours, theirs = reads(moved.program), reads(source)
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.thin(3, "10 s")
@pytest.mark.parametrize(
    "name", ["decoder_train.n4", "conv_spatial_train.n2", "scatters.n2", "moe_shardmap.n2", "accumulation.n2"]
)
def test_numbers_are_the_same(name: str) -> None:
    source = haulout.load(DATA / f"{name}.hlo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_by_phases, "_may_move", lambda _: False)
        kept = haulout.compile(source)
    with every_order_is_better():
        moved = haulout.compile(source)
    assert moved.proved
    assert kept.report.counters["order_by_phases"]["moved"] == 0
    assert moved.report.counters["order_by_phases"]["moved"] > 0
    assert outputs(moved.program) == outputs(kept.program)


@pytest.mark.thin(7, "15 s")
@pytest.mark.parametrize("seed", range(40))
def test_loops_are_ordered_for_every_trip_count(seed: int) -> None:
    rng = Random(seed)
    source = random_loop_program(rng, steps=6, depth=1 + seed % 2)
    context = PassContext()
    with every_order_is_better():
        program = PassManager(standard_pipeline()).run(source, context)
    for trips in runs(program, rng):
        straight, times = written_out(program, trips)
        if len(straight.instructions) > 220:
            continue
        assert unordered(straight, physical=True) == [], trips
        assert wrong_reads(straight, times) == [], trips


def test_something_moves_in_these() -> None:
    moved = []
    for seed in range(12):
        for source in (
            random_program(Random(seed), steps=16),
            random_loop_program(Random(seed), steps=6, depth=1 + seed % 2),
        ):
            context = PassContext()
            with every_order_is_better():
                PassManager(standard_pipeline()).run(source, context)
            moved.append(context.counters["order_by_phases"]["moved"] > 0)
    assert sum(moved[::2]) >= 6
    assert sum(moved[1::2]) >= 3
