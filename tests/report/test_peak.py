"""What a JAX user asks of a compile: the arrays of the peak, exchanges by source line, donation, XLA's own plan."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.hlo.test_hlo_paths import program

import haulout
from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.makespan import makespan
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.origin import XlaMemory, with_origin, xla_memory
from haulout.ir.program import Program
from haulout.report.exchange import exchange_time
from haulout.report.memory_map import draw_program
from haulout.report.model import Report
from haulout.report.peak import MAX_ARRAYS, find_peak
from haulout.report.tables import origin_lines, peak_table
from haulout.target import DEFAULT, load_target


@pytest.fixture(scope="module")
def report() -> Report:
    return haulout.compile(program()).report


def chain(sizes: list[int]) -> Program:
    """Arrays of these sizes, each made of the one before."""
    build = ProgramBuilder("chain", lnc=1)
    main = build.function(build.module("nc0", core=0), "main")
    last = build.location(main, "x", Space.DRAM_LOCAL, 4, kind=Kind.INPUT)
    entry = build.block(main, "entry")
    for at, size in enumerate(sizes):
        made = build.location(main, f"a{at}", Space.DRAM_LOCAL, size, loc=f"model.py:{at}")
        build.instruction(entry, f"make{at}", "dma_copy", Engine.DMA0, [last], [made], seq=at)
        last = made
    return build.freeze()


def test_the_peak_is_the_largest_sum_of_live_bytes() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        made = chain((64 * rng.integers(1, 100, 14)).tolist())
        life = lifetimes(made)
        level = [
            int(made.locations.size[(life.begin <= at) & (at < life.end)].sum())
            for at in range(len(made.instructions) + 1)
        ]
        peak, arrays = find_peak(made)
        assert peak is not None
        assert peak.bytes == max(level)
        assert peak.arrays == len(arrays) <= MAX_ARRAYS
        assert sum(each.bytes for each in arrays) == peak.bytes
        assert peak.instruction == f"make{level.index(max(level))}"
        assert arrays == sorted(arrays, key=lambda each: -each.bytes)


def test_a_program_without_bytes_has_no_peak() -> None:
    build = ProgramBuilder("empty", lnc=1)
    build.block(build.function(build.module("nc0", core=0), "main"), "entry")
    assert find_peak(build.freeze()) == (None, [])


def test_the_arrays_of_the_peak_have_paths(report: Report) -> None:
    assert {"params['h'][0]['w']", "batch.x"} <= {each.path for each in report.peak_arrays}
    assert report.peak is not None
    assert report.peak.bytes == max(core.lower_bound_bytes for core in report.cores) or report.peak.bytes > 0
    assert peak_table(report) is not None
    # Without paths there is no table: other programs have none.
    assert peak_table(haulout.compile(chain([64, 128])).report) is None


def test_exchanges_belong_to_the_line_of_the_collective(report: Report) -> None:
    assert report.exchange is not None
    assert report.exchange.lines[0].loc == "step.py:4"
    assert 0 < report.exchange.share <= 1


def test_the_time_of_exchanges_is_within_the_makespan() -> None:
    compiled = haulout.compile("examples/jax/decoder_train.n4.hlo").program
    estimate = makespan(compiled, load_target(DEFAULT))
    found = exchange_time(compiled, estimate)
    total = sum(each.move_us + each.wait_us for each in found.lines)
    assert 0 < total <= found.share * estimate.makespan * 1.001 + 0.01
    assert found.share < 1
    assert all(each.loc is not None for each in found.lines)


def test_one_core_exchanges_nothing() -> None:
    made = chain([64])
    assert exchange_time(made, makespan(made, load_target(DEFAULT))).share == 0


def test_lines_of_the_report(report: Report) -> None:
    text = "\n".join(origin_lines(report))
    assert "donated: 2 of 3 arrays hold a result" in text
    assert "no result fits param.1" in text
    assert "XLA" not in text
    known = with_origin(program(), memory=XlaMemory(2, 100, 60, 40, 30))
    assert xla_memory(known) == (2, 100, 60, 40, 30)
    plan = haulout.compile(known).report.xla_memory
    assert plan is not None
    assert plan.total_bytes == 2 * (100 + 60 - 40 + 30)
    # What a file claims is taken only in this form.
    for wrong in ("text", [1, 2], [1, 2, 3, 4, -5]):
        assert xla_memory(known.replace(attrs={"xla_memory": wrong})) is None


def test_the_memory_map_shows_paths() -> None:
    compiled = haulout.compile(program()).program
    names = {name for panel in draw_program(compiled).panels for name in panel.names}
    assert "params['h'][0]['w'] (param)" in names
    assert any(int(compiled.locations.attrs[row]) == NONE for row in range(len(compiled.locations)))
