"""Queues: random programs stay proved and are never slower; and where no queue changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

import haulout
from haulout.analysis.makespan import first_free_queues, makespan
from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.assign_queues import AssignQueues
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout.target import DEFAULT, load_target

TEXT = """
bir 1
program "a queue with nothing to do" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=67108864 kind=input
    mloc %s dram.local size=64 kind=input
    mloc %b dram.local size=64
    mloc %y dram.local size=67108864 kind=output
    mloc %z dram.local size=67108864 kind=output
    block ^only:
      %long = dma_copy @dma0 (%x) -> (%y) seq=1
      %short = dma_copy @dma0 (%s) -> (%b) seq=2
      %next = memset @vector () -> (%z) seq=3 deps=[short]
      %other = dma_copy @dma1 (%b) -> (%b) seq=4
  }
}
"""


def assigned(text: str) -> tuple[Program, Program, int]:
    """A program with its edges, and with other queues, and how many instructions have one."""
    program = parse_bir(text)
    for each in (BuildFdeps(), AntiDependencyAnalyzerPostSharedDram()):
        program = each.run(program, PassContext())
    context = PassContext()
    result = AssignQueues().run(program, context)
    return program, result, context.counters["assign_queues"]["moved"]


def random_program(seed: int) -> str:
    """Copies of random sizes on three queues, and work on two engines; most need what a queue orders."""
    rng = random.Random(seed)
    sizes = [rng.choice((64, 1 << 20, 1 << 24)) for _ in range(6)]
    lines = ["bir 1", f'program "random {seed}" lnc=1', "module @nc0 core=0 {", "  func @main {"]
    lines += [f"    mloc %m{k} dram.local size={size} kind=inout" for k, size in enumerate(sizes)]
    lines += ["    block ^only:"]
    for seq in range(20):
        one, two = rng.randrange(6), rng.randrange(6)
        size = min(sizes[one], sizes[two])
        engine = rng.choice(("dma0", "dma1", "dma2", "vector", "act"))
        opcode = "dma_copy" if engine.startswith("dma") else "copy"
        lines.append(f"      %i{seq} = {opcode} @{engine} (%m{one}[0:{size}]) -> (%m{two}[0:{size}]) seq={seq}")
    return "\n".join([*lines, "  }", "}", ""])


def test_random_programs_stay_proved_and_are_not_slower() -> None:
    target, moved = load_target(DEFAULT), 0
    for seed in range(60):
        program, result, count = assigned(random_program(seed))
        moved += count > 0
        assert makespan(result, target).makespan <= makespan(program, target).makespan
        assert (result is program) == (count == 0)
        assert haulout.compile(parse_bir(print_bir(result))).proved
        work = program.instructions.engine < Engine.DMA0
        assert (result.instructions.engine[work] == program.instructions.engine[work]).all()
    assert moved > 10


def test_the_first_free_queue_of_those_in_use() -> None:
    program, result, moved = assigned(TEXT)
    assert moved == 1
    assert result.instructions.engine.tolist() == [Engine.DMA0, Engine.DMA1, Engine.VECTOR, Engine.DMA1]
    # Of several with the same start, the one that is free last: all but %long are on dma1.
    dma = np.array([True, True, False, True])
    assert first_free_queues(program, load_target(DEFAULT), dma).tolist() == result.instructions.engine.tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" seq=1\n", "\n"),
        ("      %short", '      %meet = core_barrier @all () -> () seq=2 name="meet" index=0\n      %short'),
        ("seq=2\n", 'seq=2 signal=[["s",1]]\n'),
        ("%other = dma_copy @dma1 (%b) -> (%b) seq=4", "%other = copy @act (%b) -> (%b) seq=4"),  # one queue in use
    ],
)
def test_queues_stay_where_they_may_be_meant(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    program, result, moved = assigned(changed)
    assert result is program
    assert moved == 0


def test_levels_that_keep_the_lists_keep_the_queues() -> None:
    assert "assign_queues" not in haulout.compile(parse_bir(TEXT), level=1).report.counters
    assert haulout.compile(parse_bir(TEXT)).report.counters["assign_queues"] == {"moved": 1}
