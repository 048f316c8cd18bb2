"""Partitions of DRAM: proportional, equal, joint; lifetimes against the exact bound, a maximum-weight antichain."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

import haulout
from haulout import HauloutError, Program
from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.straightline import epochs
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import PassContext
from haulout.passes.coloring_allocator_dram_shared import ColoringAllocatorDramShared, Partitions
from haulout.passes.joint_space import plan_joint
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import parse_pipeline, standard_pipeline
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.programs import random_loop_program, random_program

SEEDS = range(25)
LOOP_BETWEEN = """bir 1
program "a loop between two fences" lnc=2
"""
for _core, (_first, _last) in enumerate([("large", "out"), ("out", "large")]):
    LOOP_BETWEEN += f"""module @nc{_core} core={_core} {{
  func @main {{
    mloc %c dram.local size=1 kind=input dtype=pred shape=[1]
    mloc %large dram.local size=4096 dtype=f32 shape=[1024]
    mloc %out dram.local size=64 kind=inout dtype=f32 shape=[16]
    block ^entry -> ^head:
      %first = memset @dma0 () -> (%{_first}) seq=0 value=0
      %b0 = core_barrier @all () -> () seq=1 name="b0"
    block ^head -> ^body, ^after cond=c:
    block ^body -> ^head:
      %step = tanh @act (%out) -> (%out) seq=2
    block ^after:
      %b1 = core_barrier @all () -> () seq=3 name="b1"
      %last = memset @dma0 () -> (%{_last}) seq=4 value=0
  }}
}}
"""


def owned(program: Program) -> np.ndarray:
    """Rows that get an address: real DRAM locations."""
    locations = program.locations
    return np.flatnonzero((locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE))


def taking_turns(cores: int = 2, size: int = 4096) -> Program:
    """Core k needs a large buffer in epoch k only: a joint space holds one of them."""
    build = ProgramBuilder("turns", cores)
    for core in range(cores):
        main = build.function(build.module(f"nc{core}", core), "main")
        large = build.location(main, "large", Space.DRAM_LOCAL, size)
        small = build.location(main, "out", Space.DRAM_LOCAL, 64, kind=Kind.INOUT)
        block = build.block(main, "entry")
        for epoch in range(cores):
            if epoch == core:
                build.instruction(
                    block, "set", "memset", Engine.DMA0, writes=[large], seq=3 * epoch, attrs={"value": 0}
                )
            build.barrier(block, f"b{epoch}", f"b{epoch}", seq=3 * epoch + 1)
        build.instruction(block, "end", "memset", Engine.DMA0, writes=[small], seq=3 * cores, attrs={"value": 0})
    return build.freeze()


def ready(seed: int, **options: int) -> Program:
    """A random program up to where addresses are given."""
    passes = standard_pipeline()
    before = [each.name for each in passes].index(ColoringAllocatorDramShared.name)
    return PassManager(passes[:before]).run(random_program(Random(seed), steps=14, **options), PassContext())


def placed(program: Program, partitions: Partitions) -> tuple[Program, PassContext]:
    context = PassContext()
    return ColoringAllocatorDramShared(partitions=partitions).run(program, context), context


def precedence(program: Program, rows: np.ndarray) -> np.ndarray:
    """[i, j]: every access of location i comes before every one of j: on its core's list, or in an earlier epoch."""
    epoch, core = epochs(program), program.instruction_core
    accesses = program.accesses
    barrier = np.isin(accesses.instruction, program.barriers.instruction)
    touched = {
        int(row): np.unique(accesses.instruction[(program.owner[accesses.location] == row) & ~barrier]).tolist()
        for row in rows
    }

    def before(x: int, y: int) -> bool:
        return bool(epoch[x] < epoch[y] or (core[x] == core[y] and x < y))

    kind = program.locations.kind
    lasting = {int(row): kind[row] != Kind.INTERNAL for row in rows}
    given = {row: lasts and (kind[row] != Kind.OUTPUT or not touched[row]) for row, lasts in lasting.items()}
    table = np.zeros((len(rows), len(rows)), bool)
    for i, a in enumerate(rows.tolist()):
        for j, b in enumerate(rows.tolist()):
            if i != j and not lasting[a] and not given[b]:
                table[i, j] = all(before(x, y) for x in touched[a] for y in touched[b])
    return table


def antichain(weight: np.ndarray, before: np.ndarray) -> int:
    """The greatest weight of locations no two of which are ordered: Dilworth, as a sum minus a maximum flow."""
    n = len(weight)
    source, sink = 2 * n, 2 * n + 1
    one, two = np.nonzero(before)
    head = np.concatenate([np.full(n, source), np.arange(n) + n, one])
    tail = np.concatenate([np.arange(n), np.full(n, sink), two + n])
    room = np.concatenate([weight, weight, np.full(len(one), 2**30)])
    graph = coo_array((room.astype(np.int32), (head, tail)), shape=(2 * n + 2, 2 * n + 2)).tocsr()
    return int(weight.sum() - maximum_flow(graph, source, sink).flow_value)


@pytest.mark.parametrize("seed", SEEDS)
def test_lifetimes_lose_little_against_the_exact_bound(seed: int) -> None:
    program = ready(seed)
    life = lifetimes(program)
    live = owned(program)
    live = live[life.end[live] > life.begin[live]]
    exact = sum(
        antichain(program.locations.size[mine], precedence(program, mine))
        for mine in (live[program.location_core[live] == core] for core in range(program.lnc))
    )
    result, context = placed(program, "proportional")
    totals = context.counters["coloring_allocator_dram_shared"]
    assert exact <= totals["total_peak_bytes"]
    # 64 bytes are reserved at least, so the interval bound counts more than the bytes themselves.
    aligned = -(-program.locations.size[live] // 64) * 64
    exact_aligned = sum(
        antichain(aligned[at], precedence(program, live[at]))
        for at in (np.flatnonzero(program.location_core[live] == core) for core in range(program.lnc))
    )
    assert exact_aligned <= totals["total_lower_bound_bytes"] <= 1.5 * exact_aligned
    assert result.lnc == program.lnc


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_space_is_sound_and_bounded(seed: int) -> None:
    program = ready(seed)
    life = lifetimes(program)
    rows = owned(program)
    joint = plan_joint(program, rows, life)
    live = np.flatnonzero(life.end[rows] > life.begin[rows])
    before = precedence(program, rows[live])
    offset, size = joint.offset[live], program.locations.size[rows[live]]
    for i in range(len(live)):
        for j in range(i):
            apart = offset[i] + size[i] <= offset[j] or offset[j] + size[j] <= offset[i]
            assert apart or before[i, j] or before[j, i]
    assert antichain(size, before) <= joint.peak
    assert joint.lower_bound <= joint.peak
    assert np.all(joint.offset % np.maximum(program.locations.align[rows], 1) == 0)


@pytest.mark.thin(5, "12 s")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_is_proved_and_joint_is_never_worse(seed: int) -> None:
    program = random_program(Random(seed), steps=14)
    totals = {}
    for kind in ("proportional", "equal", "joint"):
        result = haulout.compile(program, partitions=kind)  # type: ignore[arg-type]
        codes = {each.code for each in result.diagnostics if each.severity > haulout.Severity.NOTE}
        assert not codes & {"overlapping-storage", "misaligned-storage", "cross-core-race", "missing-dependence"}
        totals[kind] = result.report.total_peak_bytes
        assert result.report.partition_totals[kind] == totals[kind]
    assert totals["joint"] <= totals["proportional"] <= totals["equal"]


@pytest.mark.thin(5, "12 s")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [random_loop_program, random_branch_program])
def test_a_joint_space_with_loops_and_branches_is_proved(make: Callable[[Random], Program], seed: int) -> None:
    """A loop may run never, and its last part meets the first of the next iteration: no fence in it ends an epoch."""
    program = make(Random(seed))
    try:
        apart = haulout.compile(program, partitions="proportional")
    except HauloutError:
        return  # the program reads what nothing has written
    joint = haulout.compile(program)
    assert joint.proved or not apart.proved
    assert joint.report.total_peak_bytes <= apart.report.total_peak_bytes


def test_a_fence_outside_loops_frees_storage_for_other_cores() -> None:
    program = parse_bir(LOOP_BETWEEN)
    result = haulout.compile(program)
    assert result.proved
    assert result.report.partition_totals == {"proportional": 8448, "equal": 8448, "joint": 4352}


def test_equal_partitions_have_equal_offsets() -> None:
    program, _ = placed(ready(3, cores=3), "equal")
    rows = owned(program)
    address, core = program.locations.address[rows], program.location_core[rows]
    by_core = [set(address[core == c].tolist()) for c in range(3)]
    share = max(int((address + program.locations.size[rows])[core == c].max()) for c in range(1)) if by_core[0] else 0
    assert share > 0
    twins, context = placed(taking_turns(), "equal")
    size = context.counters["coloring_allocator_dram_shared"]["total_peak_bytes"] // 2
    rows = owned(twins)
    named = {(twins.strings[int(twins.locations.name[r])], int(twins.location_core[r])): r for r in rows.tolist()}
    for name in ("large", "out"):
        one, two = (int(twins.locations.address[named[name, c]]) for c in range(2))
        assert two == one + size


def test_joint_space_reuses_across_a_fence() -> None:
    program = taking_turns(cores=3)
    apart = haulout.compile(program, partitions="proportional")
    joint = haulout.compile(program, partitions="joint")
    assert apart.report.total_peak_bytes == 3 * (4096 + 64)
    assert joint.report.total_peak_bytes == joint.report.total_lower_bound_bytes == 4096 + 3 * 64
    assert joint.report.partition_totals == {"proportional": 12480, "equal": 12480, "joint": 4288}
    assert joint.ok
    again = parse_bir(print_bir(joint.program), "again")
    assert again.attrs["partitions"] == "joint"
    assert haulout.check(again) == []


def test_the_checker_judges_a_joint_space_by_lifetimes() -> None:
    """Without the fences between them, the large buffers of a joint space overlap while they live."""
    text = print_bir(haulout.compile(taking_turns(), partitions="joint").program)
    broken = "\n".join(line for line in text.splitlines() if 'name="b0"' not in line)
    codes = {each.code for each in haulout.check(parse_bir(broken, "broken"))}
    assert codes & {"overlapping-storage", "cross-core-race"}
    unsaid = text.replace(" partitions=joint", "")
    assert unsaid != text
    assert {each.code for each in haulout.check(parse_bir(unsaid, "unsaid"))} == {"overlapping-storage"}


def test_capacity_counts_the_joint_space_once() -> None:
    assert haulout.compile(taking_turns(), partitions="joint", capacity=4096 + 128).ok
    with pytest.raises(HauloutError, match="the capacity is 4224") as caught:
        haulout.compile(taking_turns(), partitions="proportional", capacity=4096 + 128)
    assert (
        "--partitions" in caught.value.diagnostics[0].help[0] or "no placement" in caught.value.diagnostics[0].help[0]
    )


def test_placements_that_came_with_the_program_keep_proportional_partitions() -> None:
    program = taking_turns()
    locations = program.locations
    address = locations.address.copy()
    address[owned(program)[0]] = 128
    result, context = placed(program.replace(locations=locations.replace(address=address)), "joint")
    assert [each.code for each in context.diagnostics] == ["kept-partitions"]
    assert "partitions" not in result.attrs


def test_option_in_a_pipeline() -> None:
    (made,) = parse_pipeline("coloring_allocator_dram_shared{partitions=equal}")
    assert made == ColoringAllocatorDramShared(partitions="equal")
    with pytest.raises(
        HauloutError, match="partitions must be one of smallest, proportional, equal, joint, found 'thirds'"
    ):
        parse_pipeline("coloring_allocator_dram_shared{partitions=thirds}")
