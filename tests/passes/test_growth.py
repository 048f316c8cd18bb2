"""Twice the blocks is twice the work, not four times: calls are counted, time is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.pipeline import Fences, standard_pipeline
from haulout.support.jit import always_compiled


def row_of_shapes(items: int) -> Program:
    """Loops and branches behind each other; what one writes another core reads in the next, and in one later."""
    build = ProgramBuilder("row", 2)
    loops = [4 * item for item in range(items) if item % 2]
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core, subgraph=0), "main")
        cond = build.location(function, "p", Space.DRAM_LOCAL, 1, dtype="pred", shape=[1], kind=Kind.INPUT)
        local = build.location(function, "l", Space.DRAM_LOCAL, 16, kind=Kind.OUTPUT)
        shared = [
            build.location(function, f"s{item}", Space.DRAM_SHARED, 16, remote=(f"s{item}", 0) if core else None)
            for item in range(items)
        ]
        # Of each item: loop header or fork, body or then arm, else arm or a block behind, join.
        blocks = [build.block(function, f"b{at}", cond=None if at % 4 else cond) for at in range(4 * items)]
        for at, block in enumerate(blocks):
            first = at - at % 4
            if first in loops:
                targets = {0: [first + 1, first + 2], 1: [first]}.get(at % 4, [at + 1])
            else:
                targets = {0: [first + 1, first + 2], 1: [first + 3]}.get(at % 4, [at + 1])
            for target in targets:
                if target < len(blocks):
                    build.edge(block, blocks[target])
        for item in range(items):
            for place, (who, what) in enumerate(((0, item), (1, item), (1, item - 1), (0, item // 2))):
                if who == core and what >= 0:
                    reads, writes = ([local], [shared[what]]) if place == 0 else ([shared[what]], [local])
                    at = 4 * item + (0, 1, 2, 3)[place]
                    build.instruction(
                        blocks[at], f"i{at}", "dma_copy", Engine.DMA0, reads, writes, seq=4 * item + place
                    )
    return build.freeze()


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, those of Python and of C."""
    count = 0

    def count_call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("fences", ["minimal", "bracket"])
def test_work_grows_with_the_blocks(fences: Fences) -> None:
    counted: list[dict[str, int]] = []
    # The first run is there to load and compile what is needed: all of it, as no kernel is left for larger work.
    for items in (40, 40, 80):
        program, counts = row_of_shapes(items), {}
        for number, each in enumerate(standard_pipeline(fences=fences)):
            before = program

            def work() -> None:
                nonlocal program
                program = each.run(before, PassContext())  # noqa: B023

            with always_compiled():
                counts[f"{number} {each.name}"] = calls(work)
        counted.append(counts)
    _, small, large = counted
    assert {name: large[name] / small[name] for name in small if large[name] > 3.5 * small[name]} == {}
