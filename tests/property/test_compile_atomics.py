"""Compiled programs with atomic accesses: nothing that needs order lacks it, and atomics of one kind get none.

A program is a list of source operations, each on some cores at one `seq`: accumulations into a shared location, reads
of it, writes by one core. They stand in a straight line, or in the body of a loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from tests.checker.snippets import bir

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import made_fences
from haulout.passes.manager import PassManager
from haulout.passes.order_by_phases import OrderByPhases
from haulout.passes.pipeline import standard_pipeline
from haulout.sim import compare_schedules
from haulout.support.diagnostics import Severity
from haulout_judges import Outcome, reachability

SHARED = ("s0", "s1")
LINES = {
    "add": "add @{engine} (%{s}, %x) -> (%{s}) atomic=[0,2]",
    "maximum": "maximum @{engine} (%{s}, %x) -> (%{s}) atomic=[0,2]",
    "plain": "add @{engine} (%{s}, %x) -> (%{s})",
    "write": "copy @{engine} (%x) -> (%{s})",
    "read": "copy @{engine} (%{s}) -> (%o)",
}


@dataclass(frozen=True)
class Operation:
    what: str
    location: str
    cores: tuple[int, ...]


def operations(rng: Random, cores: int) -> list[Operation]:
    found = []
    for _ in range(rng.randint(2, 8)):
        what = rng.choice(["add", "add", "add", "maximum", "plain", "write", "read", "read"])
        count = rng.randint(1, cores) if what in ("add", "maximum", "read") else 1
        found.append(Operation(what, rng.choice(SHARED), tuple(sorted(rng.sample(range(cores), count)))))
    return found


def source(rng: Random, listed: list[Operation], cores: int, loop: str | None) -> Program:
    """The operations on each core, at random engines; with `loop`, in the body of one with that trip count."""
    texts = []
    for core in range(cores):
        lines = []
        for owner, name in enumerate(SHARED):
            head = "kind=inout" if core == owner else f"remote=[{name},{owner}]"
            lines.append(f"mloc %{name} dram.shared size=16 dtype=s32 shape=[4] {head}")
        lines.append("mloc %x dram.local size=16 kind=input dtype=s32 shape=[4]")
        lines.append("mloc %o dram.local size=16 kind=inout dtype=s32 shape=[4]")
        if loop is not None:
            lines += ["mloc %c dram.local size=4 kind=input dtype=s32 shape=[1]", "block ^e -> ^head:"]
            lines += [f"block ^head -> ^body, ^x{loop} cond=c:", "block ^body -> ^head:"]
        for seq, each in enumerate(listed):
            if core in each.cores:
                line = LINES[each.what].format(engine=rng.choice(["act", "vector", "dma0"]), s=each.location)
                lines.append(f"%i{seq} = {line} seq={seq}")
        if loop is not None:
            lines.append("block ^x:")
        texts.append("\n".join(lines))
    program = parse_bir(bir(*texts), "atomics.bir")
    assert verify(program) == []
    return program


MAKER = "extend_shared_lifetimes"


def compiled(program: Program, policy: str, *, moves: bool = True) -> Program:
    passes = standard_pipeline(fences=policy)  # type: ignore[arg-type]
    passes = [each for each in passes if moves or each.name != OrderByPhases.name]
    done = PassManager(passes).run(program, PassContext())
    assert print_bir(parse_bir(print_bir(done))) == print_bir(done)
    assert done.accesses.atomic.sum() == program.accesses.atomic.sum()
    return done


def conflict(one: Operation, other: Operation) -> bool:
    atomic = one.what == other.what and one.what in ("add", "maximum")
    return one.location == other.location and not atomic and (one.what != "read" or other.what != "read")


def chain(listed: list[Operation], cores: int) -> int:
    """The longest chain of conflicts between cores; each core's own operations stay in order."""
    level = dict.fromkeys(range(cores), 0)
    done: list[tuple[Operation, dict[int, int]]] = []
    for each in listed:
        mine = {}
        for core in each.cores:
            crossed = [
                at + 1
                for other, levels in done
                if conflict(each, other)
                for twin, at in levels.items()
                if twin != core
            ]
            mine[core] = max([level[core], *crossed])
        level.update(mine)
        done.append((each, mine))
    return max(level.values())


@pytest.mark.thin(7, "20 s")
@pytest.mark.parametrize("policy", ["minimal", "bracket"])
@pytest.mark.parametrize("seed", range(60))
def test_what_conflicts_is_ordered(seed: int, policy: str) -> None:
    rng = Random(seed)
    cores = rng.choice((2, 2, 3))
    listed = operations(rng, cores)
    given = source(rng, listed, cores, None)
    program = compiled(given, policy)
    assert [each for each in check_program(program) if each.severity > Severity.NOTE] == []
    assert compare_schedules(program).agrees
    assert reachability.judge(program).outcome is Outcome.CLEAN
    if policy == "minimal":
        in_place, moved = (made_fences(each, MAKER) for each in (compiled(given, policy, moves=False), program))
        assert len(in_place) == chain(listed, cores) >= len(moved)


@pytest.mark.thin(7, "30 s")
@pytest.mark.parametrize("policy", ["minimal", "bracket"])
@pytest.mark.parametrize("trip", ["", " trip=1", " trip=3"])
@pytest.mark.parametrize("seed", range(20))
def test_what_conflicts_in_loops_is_ordered(seed: int, trip: str, policy: str) -> None:
    rng = Random(f"loop {seed}")
    listed = operations(rng, 2)
    program = compiled(source(rng, listed, 2, trip), policy)
    assert [each for each in check_program(program) if each.severity > Severity.NOTE] == []
    assert reachability.judge(program).outcome is Outcome.CLEAN


@pytest.mark.parametrize("loop", [None, "", " trip=4"])
def test_accumulation_alone_needs_no_fence_and_no_edge(loop: str | None) -> None:
    listed = [Operation("add", "s0", (0, 1)) for _ in range(4)]
    program = compiled(source(Random(3), listed, 2, loop), "minimal")
    assert made_fences(program, "extend_shared_lifetimes") == []
    opcodes = [program.strings[int(each)] for each in program.instructions.opcode[program.dependences.instruction]]
    assert "add" not in opcodes
    ordinary = [Operation("plain", "s0", (core,)) for core in (0, 1)]
    assert made_fences(compiled(source(Random(3), ordinary, 2, loop), "minimal"), "extend_shared_lifetimes") != []


def test_what_is_fetched_is_fetched_in_the_source_s_order() -> None:
    line = "%f = fetch_and_op @dma0 (%s, %x) -> (%s, %o) op=add atomic=[0,2] seq={}"
    texts = [
        f"mloc %s dram.shared size=16 dtype=s32 shape=[4] {'remote=[s,0]' if core else 'kind=inout'}\n"
        "mloc %x dram.local size=16 kind=input dtype=s32 shape=[4]\n"
        "mloc %o dram.local size=16 kind=output dtype=s32 shape=[4]\n" + line.format(core)
        for core in (0, 1)
    ]
    program = parse_bir(bir(*texts))
    assert [each.code for each in check_program(program)] == ["order-dependent-result"]
    done = compiled(program, "minimal")
    assert check_program(done) == []
    assert len(done.barriers) == 2
