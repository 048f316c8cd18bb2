"""Storage while its owner does nothing: other cores are at work in epochs that are empty on the owner's list."""

from random import Random

import numpy as np
import pytest

import haulout
from haulout.analysis.lifetimes import lifetimes
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.passes.pipeline import Fences
from haulout.testing.programs import random_program


@pytest.mark.parametrize("trailing", [False, True], ids=["between fences", "behind the last fence"])
def test_remote_accesses_in_an_epoch_without_rows_of_the_owner(trailing: bool) -> None:
    """Core 1 moves %a to %b, both of core 0, while core 0 waits: they, and core 0's own %x, are live at one time."""
    build = ProgramBuilder("asleep", 2)
    owner = build.function(build.module("nc0", 0), "main")
    build.location(owner, "x", Space.DRAM_LOCAL, 64, kind=Kind.INOUT)
    for name in "ab":
        build.location(owner, name, Space.DRAM_SHARED, 64)
    entry = build.block(owner, "entry")
    build.barrier(entry, "m0", "m0")
    if not trailing:
        build.barrier(entry, "m1", "m1")
    other = build.function(build.module("nc1", 1), "main")
    views = [build.location(other, name, Space.DRAM_SHARED, 64, remote=(name, 0)) for name in "ab"]
    out = build.location(other, "out", Space.DRAM_LOCAL, 64, kind=Kind.OUTPUT)
    entry = build.block(other, "entry")
    build.barrier(entry, "m0", "m0")
    build.instruction(entry, "fill", "memset", Engine.DMA0, [], [views[0]])
    build.instruction(entry, "move", "dma_copy", Engine.DMA0, [views[0]], [views[1]])
    build.instruction(entry, "get", "dma_copy", Engine.DMA0, [views[1]], [out])
    if not trailing:
        build.barrier(entry, "m1", "m1")
    program = build.freeze()
    life = lifetimes(program)
    assert np.all(life.end[:3] > life.begin[:3])
    assert life.begin[:3].max() < life.end[:3].min()
    # Through the front door `localize_shared_memory` moves both to core 1; without it they stay.
    assert haulout.compile(program).ok


@pytest.mark.parametrize("fences", ["minimal", "bracket"])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_compile_to_a_proof(seed: int, fences: Fences) -> None:
    result = haulout.compile(random_program(Random(seed)), fences=fences)
    assert result.ok, "\n".join(map(str, result.diagnostics))
