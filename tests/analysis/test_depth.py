"""Deep nests: they compile up to a limit of depth and are refused beyond it, never with a RecursionError."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.read_structure import MAX_DEPTH
from haulout.passes.base import PassContext
from haulout.passes.pipeline import standard_pipeline
from haulout.support.diagnostics import HauloutError


def nest(leads: dict[int, list[int]], innermost: int) -> Program:
    """Two cores; each block of two successors reads the same input; the innermost block and the first conflict."""
    build = ProgramBuilder("nest", 2)
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core, subgraph=0), "main")
        x = build.location(function, "x", Space.DRAM_SHARED, 16, remote=("x", 0) if core else None)
        cond = build.location(function, "p", Space.DRAM_LOCAL, 1, dtype="pred", shape=[1], kind=Kind.INPUT)
        blocks = [
            build.block(function, f"b{at}", cond=cond if len(leads.get(at, ())) == 2 else None)
            for at in range(max(leads) + 2)
        ]
        for at in sorted(leads):
            for target in leads[at]:
                build.edge(blocks[at], blocks[target])
        where = blocks[innermost if core else 0]
        build.instruction(where, f"w{core}", "memset", Engine.DMA0, [], [x], seq=core, attrs={"value": core})
    return build.freeze()


def branches(depth: int) -> Program:
    """Branches of one arm in each other."""
    leads = {at: [at + 1, 2 * depth - at] for at in range(depth)}
    leads |= {at: [at + 1] for at in range(depth, 2 * depth)}
    return nest(leads, depth)


def loops(depth: int) -> Program:
    """Loops in each other; the block behind one is the latch of the one around it."""
    leads = {0: [1]}
    leads |= {at: [at + 1, 2 * depth + 2 - at] for at in range(1, depth + 1)}
    leads |= {depth + 1: [depth]}
    leads |= {2 * depth + 2 - at: [at - 1] for at in range(2, depth + 1)}
    return nest(leads, depth + 1)


@pytest.mark.parametrize("make", [branches, loops])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 2 * MAX_DEPTH])
def test_what_is_too_deep_is_refused(make: Callable[[int], Program], depth: int) -> None:
    with pytest.raises(HauloutError, match=f"inside more than {MAX_DEPTH} loops and arms"):
        compiled(make(depth))


def compiled(program: Program) -> Program:
    for each in standard_pipeline():
        program = each.run(program, PassContext())
    return program


@pytest.mark.parametrize(("make", "depth"), [(branches, 600), (loops, 8)])
def test_what_is_not_compiles(make: Callable[[int], Program], depth: int) -> None:
    assert len(make(depth).structure.regions) == 2 * depth
    assert len(compiled(make(depth)).barriers) >= 2


def test_loops_that_make_the_list_too_long_are_refused() -> None:
    with pytest.raises(HauloutError, match="loops nest too deeply") as raised:
        compiled(loops(40))
    assert raised.value.diagnostics[0].code == "bad-input"
