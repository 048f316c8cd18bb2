"""Larger programs: nothing is found where nothing is, and the one planted mistake where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checker.snippets import told

from haulout.checker import check_program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import compact
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

ENGINES = [Engine.VECTOR, Engine.ACT, Engine.DMA0, Engine.PE]
GROUP = 25


def pipeline(length: int, cores: int = 2, allocated: bool = True) -> Program:
    """Groups of instructions between barriers; each group hands a shared buffer to the next group of the other cores.

    Scratch buffers of many sizes reuse the storage of the last group but one.
    """
    build = ProgramBuilder("pipeline", cores)
    sizes = np.random.default_rng(7).integers(1, 40, (cores, length)) * 64
    groups = length // GROUP
    for core in range(cores):
        function = build.function(build.module(f"nc{core}", core), "main")
        base = core << 24

        def place(address: int) -> int | None:
            return address if allocated else None

        given = build.location(function, "x", Space.DRAM_LOCAL, 64, kind=Kind.INPUT, address=place(base))
        shared = {}
        for each in range(cores):
            for group in range(groups):
                remote = None if each == core else (f"s{each}_{group}", each)
                shared[each, group] = build.location(
                    function,
                    f"s{each}_{group}",
                    Space.DRAM_SHARED,
                    4096,
                    remote=remote,
                    address=place((each << 24) + 4096 * (1 + group % 3)),
                )
        block = build.block(function, "entry")
        top, last, row = 0, given, -1
        for at in range(length):
            group, step = divmod(at, GROUP)
            if step == 0:
                top = base + (1 << 16) + (group % 2) * GROUP * 40 * 64
            if step == GROUP - 1:
                build.barrier(block, f"b{group}", f"b{group}", seq=at)
                continue
            size = int(sizes[core, at])
            mine = build.location(function, f"l{at}", Space.DRAM_LOCAL, size, address=place(top))
            top += size
            reads = [last if step else given]
            writes: list[int | tuple[int, Pattern | None]] = [mine]
            if step == 3 and group:
                reads += [shared[each, group - 1] for each in range(cores) if each != core]
            if step in (4, 5):  # in two interleaved halves
                writes.append((shared[core, group], Pattern(64 * (step - 4), 64, ((128, 32),))))
            deps = [row] if step else []
            row = build.instruction(block, f"i{at}", "op", ENGINES[at % 4], reads, writes, seq=at, deps=deps)
            last = mine
    return build.freeze()


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("allocated", [True, False])
def test_a_clean_program_is_clean(cores: int, allocated: bool) -> None:
    assert check_program(pipeline(2000, cores, allocated)) == []


@pytest.mark.parametrize("allocated", [True, False])
def test_one_barrier_less(allocated: bool) -> None:
    program = pipeline(8000, 2, allocated)
    keep = np.ones(len(program.instructions), bool)
    keep[program.barriers.instruction[program.barriers.name == program.strings.find("b100")]] = False
    found = check_program(compact(program, keep)[0])
    races = [each for each in found if each.code == "cross-core-race"]
    assert races
    assert any("%i2528" in told(each) for each in races)


def test_one_dependence_less() -> None:
    program = pipeline(8000, 2)
    rows = program.dependences
    kept = program.replace(dependences=rows.take(np.arange(len(rows)) != 5000))
    lost = program.instruction_name(int(rows.instruction[5000]))
    (found,) = check_program(kept)
    assert found.code == "missing-dependence"
    assert f"%{lost}" in told(found)


def test_one_address_moved() -> None:
    program = pipeline(8000, 2)
    row = int(np.flatnonzero(program.locations.name == program.strings.find("l4001"))[0])
    address = program.locations.address.copy()
    address[row] += 64
    found = check_program(program.replace(locations=program.locations.replace(address=address)))
    assert "overlapping-storage" in {each.code for each in found}
    assert any("%l4001" in told(each) for each in found)


def test_one_view_left_behind() -> None:
    program = pipeline(2000, 2)
    rows = program.locations
    view = int(np.flatnonzero((rows.remote_name != -1) & (rows.address != -1))[7])
    address = rows.address.copy()
    address[view] += 4096
    found = {each.code for each in check_program(program.replace(locations=rows.replace(address=address)))}
    assert "view-mismatch" in found
