"""Compiled programs with one deliberate change each, which a checker must notice wherever it matters.

    drop-barrier       remove a fence on every core
    lose-barrier       remove a fence on one core
    move-barrier       move a fence one instruction up or down on one core
    rename-barrier     give a rendezvous another name on one core
    drop-dependence    remove an edge inside a core
    drop-wait          remove a wait for a semaphore
    shift-address      move a location, and its views, by its alignment
    leave-view         move a location without its views
    cut-lifetime       place a location on another one that is live at the same time

Not every change matters: the outer fence of a bracket may order nothing, an edge may be implied by others. An
independent judge decides (the simulator under all its schedules, or plain reachability).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.straightline import fence_rows
from haulout.ir.builder import reorder_instructions
from haulout.ir.edit import compact
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import Column, Ids

KINDS = (
    "drop-barrier",
    "lose-barrier",
    "move-barrier",
    "rename-barrier",
    "drop-dependence",
    "drop-wait",
    "shift-address",
    "leave-view",
    "cut-lifetime",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one change."""

    kind: str
    where: str
    program: Program


def drops(program: Program, chosen: Callable[[Column], list[int]] = list) -> Iterator[Mutant]:
    """The program without one fence, one edge or one wait, for each that is `chosen` among their rows."""
    fences, core = fence_rows(program), program.instruction_core
    for at in chosen(np.arange(len(fences) // program.lnc)):
        rows = [int(fences[core[fences] == each][at]) for each in range(program.lnc)]
        yield Mutant("drop-barrier", _named(program, rows[0]), _without(program, rows))
    edge, semaphores = program.dependences, program.semaphores
    for at in chosen(np.arange(len(edge))):
        keep = np.arange(len(edge)) != at
        where = f"{_named(program, int(edge.instruction[at]))} on %{program.instruction_name(int(edge.producer[at]))}"
        yield Mutant("drop-dependence", where, program.replace(dependences=edge.take(keep)))
    for at in chosen(np.flatnonzero(semaphores.wait)):
        keep = np.arange(len(semaphores)) != at
        where = f"{_named(program, int(semaphores.instruction[at]))} for {program.strings[int(semaphores.name[at])]}"
        yield Mutant("drop-wait", where, program.replace(semaphores=semaphores.take(keep)))


def mutants(program: Program, *, most: int | None = None, seed: int = 0) -> Iterator[Mutant]:
    """Every mutant of a compiled straight-line program; with `most`, that many of each kind, chosen by `seed`."""
    rng = np.random.default_rng(seed)

    def chosen(rows: Column) -> list[int]:
        if most is None or len(rows) <= most:
            return [int(row) for row in rows]
        return sorted(int(row) for row in rng.choice(rows, most, replace=False))

    yield from drops(program, chosen)
    fences = fence_rows(program)
    block = program.instructions.block
    for row in chosen(fences):
        yield Mutant("lose-barrier", _named(program, row), _without(program, [row]))
        yield Mutant("rename-barrier", _named(program, row), _renamed(program, row))
        for other in (row - 1, row + 1):
            if 0 <= other < len(block) and block[other] == block[row]:
                yield Mutant(
                    "move-barrier",
                    f"{_named(program, row)} past %{program.instruction_name(other)}",
                    _swapped(program, min(row, other)),
                )
    yield from _moved_storage(program, chosen)


def _moved_storage(program: Program, chosen: Callable[[Column], list[int]]) -> Iterator[Mutant]:
    locations, owner = program.locations, program.owner
    owned = (locations.remote_name == NONE) & (locations.space <= Space.DRAM_SHARED) & (locations.size > 0)
    used = np.zeros(len(locations), bool)
    used[owner[program.accesses.location]] = True
    rows = np.flatnonzero(owned & used & (locations.address != NONE))
    viewed = np.zeros(len(locations), bool)
    viewed[owner[locations.remote_name != NONE]] = True
    for row in chosen(rows):
        moved = np.where(owner == row, locations.address + locations.align, locations.address)
        yield Mutant("shift-address", _place(program, row), _addressed(program, moved))
    for row in chosen(rows[viewed[rows]]):
        address = locations.address.copy()
        address[row] += locations.align[row]
        yield Mutant("leave-view", _place(program, row), _addressed(program, address))
    life = lifetimes(program)
    for row in chosen(rows):
        # The next location of this core that is live at the same time.
        same = rows[(program.location_core[rows] == program.location_core[row]) & (rows != row)]
        meets = same[(life.begin[same] < life.end[row]) & (life.begin[row] < life.end[same])]
        if len(meets):
            target = int(meets[np.argmax(meets > row)])
            moved = np.where(owner == row, locations.address[target], locations.address)
            where = f"{_place(program, row)} onto {_place(program, target)}"
            yield Mutant("cut-lifetime", where, _addressed(program, moved))


def _named(program: Program, row: int) -> str:
    return f"%{program.instruction_name(row)} of core {program.instruction_core[row]}"


def _place(program: Program, row: int) -> str:
    return f"%{program.strings[int(program.locations.name[row])]} of core {program.location_core[row]}"


def _without(program: Program, rows: list[int]) -> Program:
    keep = np.ones(len(program.instructions), bool)
    keep[rows] = False
    return compact(program, keep)[0]


def _renamed(program: Program, row: int) -> Program:
    name = program.barriers.name.copy()
    name[program.barriers.instruction == row] = program.strings.intern("another name")
    return program.replace(barriers=program.barriers.replace(name=name))


def _swapped(program: Program, row: int) -> Program:
    """Instructions `row` and `row + 1` in the other order; a moved barrier takes its neighbour's `seq`."""
    position: Ids = np.arange(len(program.instructions), dtype=np.int32)
    position[[row, row + 1]] = [row + 1, row]
    rows = program.instructions.take(position)
    # The list must stay sorted by seq: a moved instruction takes the time of its new place.
    program = program.replace(instructions=rows.replace(seq=program.instructions.seq))
    swapped = reorder_instructions(program, position)
    edge = swapped.dependences
    return swapped.replace(dependences=edge.take(edge.producer < edge.instruction))


def _addressed(program: Program, address: Column) -> Program:
    return program.replace(locations=program.locations.replace(address=address))
