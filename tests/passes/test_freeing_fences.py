"""Fences that no conflict needs: they are placed where they free much, and only there."""

from __future__ import annotations

import pytest

import haulout
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.passes.fences.freeing import LEAST_BYTES, TIME_FOR_BYTES
from haulout.sim import compare_schedules

LARGE = 1 << 22


def handed_over(shared: int, local: int, late: bool = False) -> Program:
    """Core 0 hands a buffer to core 1, then needs another one; `late`: core 1 reads the first to the very end."""
    build = ProgramBuilder("handed over", 2)
    for core in range(2):
        main = build.function(build.module(f"nc{core}", core), "main")
        sent = build.location(main, "sent", Space.DRAM_SHARED, shared, remote=("sent", 0) if core else None)
        out = build.location(main, "out", Space.DRAM_LOCAL, 64, kind=Kind.OUTPUT)
        block = build.block(main, "entry")
        if core:
            build.instruction(block, "take", "copy", Engine.ACT, [(sent, pattern(64))], [out], seq=1)
            if late:
                build.instruction(block, "again", "copy", Engine.ACT, [(sent, pattern(64))], [out], seq=9)
            continue
        own = build.location(main, "own", Space.DRAM_LOCAL, local)
        build.instruction(block, "give", "memset", Engine.DMA0, [], [sent], seq=0, attrs={"value": 1})
        build.instruction(block, "fill", "memset", Engine.DMA0, [], [own], seq=2, attrs={"value": 2})
        build.instruction(block, "use", "copy", Engine.ACT, [(own, pattern(64))], [out], seq=3)
    return build.freeze()


def pattern(size: int) -> Pattern:
    return Pattern(0, size)


def test_a_fence_behind_the_last_remote_read_frees_the_buffer() -> None:
    result = haulout.compile(handed_over(LARGE, LARGE))
    assert result.proved
    assert result.report.barriers == 2
    assert result.report.total_peak_bytes < 1.1 * LARGE
    assert compare_schedules(result.program).diagnostics == ()


@pytest.mark.parametrize(
    ("shared", "local", "late"),
    [
        (LARGE, LARGE, True),
        (LARGE, LARGE // 64, False),
        (LARGE // 64, LARGE, False),
        (LEAST_BYTES // 2,) * 2 + (False,),
    ],
    ids=["still read", "little is needed", "little is freed", "small program"],
)
def test_no_fence_is_added_where_it_frees_little(shared: int, local: int, late: bool) -> None:
    result = haulout.compile(handed_over(shared, local, late))
    assert result.proved
    assert result.report.barriers == 1
    assert result.report.total_peak_bytes >= shared + local


def test_a_fence_that_takes_too_long_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    program = handed_over(LARGE, LARGE)
    with_fence = haulout.compile(program).report
    monkeypatch.setattr("haulout.passes.fences.freeing.TIME_FOR_BYTES", -1.0)
    without = haulout.compile(program).report
    assert (with_fence.barriers, without.barriers) == (2, 1)
    freed = 1 - with_fence.total_peak_bytes / without.total_peak_bytes
    assert with_fence.estimated_makespan_us <= without.estimated_makespan_us * (1 + TIME_FOR_BYTES * freed)


@pytest.mark.parametrize(("local", "fences"), [(LARGE, 1), (3 * LARGE, 0)])
def test_the_first_fence_must_free_more_than_another(local: int, fences: int) -> None:
    # Without a fence the result lives as long as the buffers: a third of all bytes, or a seventh.
    build = ProgramBuilder("own pieces", 2)
    for core in range(2):
        main = build.function(build.module(f"nc{core}", core), "main")
        remote = ("out", 0) if core else None
        out = build.location(main, "out", Space.DRAM_SHARED, LARGE, kind=Kind.OUTPUT, remote=remote)
        own = build.location(main, "own", Space.DRAM_LOCAL, local)
        kept = build.location(main, "kept", Space.DRAM_LOCAL, 64)
        block = build.block(main, "entry")
        half = Pattern(core * (LARGE // 2), LARGE // 2)
        build.instruction(block, "fill", "memset", Engine.DMA0, [], [own], seq=0, attrs={"value": 1})
        build.instruction(block, "use", "copy", Engine.ACT, [(own, pattern(64))], [kept], seq=1)
        build.instruction(block, "give", "memset", Engine.DMA0, [], [(out, half)], seq=2, attrs={"value": 2})
        build.instruction(block, "end", "copy", Engine.ACT, [kept], [(out, Pattern(half.offset, 64))], seq=3)
    result = haulout.compile(build.freeze(), share="none")
    assert result.proved
    assert result.report.barriers == fences


def test_a_fence_pays_where_the_cores_share_one_space() -> None:
    """Core 1 is done with its own buffer when it fills one of core 0: each core needs one buffer in any case."""
    build = ProgramBuilder("in turn", 2)
    for core in range(2):
        main = build.function(build.module(f"nc{core}", core), "main")
        sent = build.location(main, "sent", Space.DRAM_SHARED, LARGE, remote=("sent", 0) if core else None)
        out = build.location(main, "out", Space.DRAM_LOCAL, 64, kind=Kind.OUTPUT)
        block = build.block(main, "entry")
        if core:
            own = build.location(main, "own", Space.DRAM_LOCAL, LARGE)
            build.instruction(block, "fill", "memset", Engine.DMA0, [], [own], seq=0, attrs={"value": 1})
            build.instruction(block, "use", "copy", Engine.ACT, [(own, pattern(64))], [out], seq=1)
            build.instruction(block, "give", "memset", Engine.DMA0, [], [sent], seq=2, attrs={"value": 2})
        else:
            build.instruction(block, "take", "copy", Engine.ACT, [(sent, pattern(64))], [out], seq=3)
    program = build.freeze()
    one_space, apart = (haulout.compile(program, partitions=each) for each in ("smallest", "proportional"))
    assert one_space.proved
    assert apart.proved
    assert (one_space.report.barriers, apart.report.barriers) == (2, 1)
    assert one_space.report.total_peak_bytes < 1.1 * LARGE
    assert apart.report.total_peak_bytes > 1.9 * LARGE
