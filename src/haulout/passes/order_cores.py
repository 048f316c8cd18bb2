"""Order inside cores, for the passes that add it: edges of a straight list, or joins and edges of one with loops."""

from __future__ import annotations

import numpy as np

from haulout.analysis.dependences import missing_order
from haulout.analysis.loop_dependences import missing_loop_order
from haulout.analysis.loops import Loops, find_loops
from haulout.ir.edit import NewInstructions, add_dependences, insert
from haulout.ir.enums import NONE, DependenceKind, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Dependences, Instructions

JOIN = "join=true"
"""Attribute of the `nop` in a loop's header."""


def order_cores(program: Program, kinds: set[DependenceKind], *, removable_fences: bool) -> tuple[Program, int]:
    """The program with every edge of these kinds that it lacked, and how many those were."""
    found = find_loops(program)
    if not found:
        edges = missing_order(program, kinds, removable_fences=removable_fences)
        return add_dependences(program, edges), len(edges)
    program = with_joins(program, found)
    edges = missing_loop_order(program, found, join_rows(program, found), kinds, removable_fences=removable_fences)
    return add_dependences(program, edges), len(edges)


def join_rows(program: Program, found: Loops) -> list[int]:
    """The join of each loop: the `nop` so marked in its header; NONE where there is none yet."""
    rows = np.flatnonzero(program.instructions.attrs == program.strings.intern(JOIN))
    by_block = dict(zip(program.instructions.block[rows].tolist(), rows.tolist(), strict=True))
    return [by_block.get(loop.header, NONE) for loop in found.loops]


def with_joins(program: Program, found: Loops) -> Program:
    """Every loop's header has a join, which waits for all of the previous iteration as it stands now."""
    program = _insert_joins(program, found)
    joins = join_rows(program, found)
    is_join = np.zeros(len(program.instructions), bool)
    is_join[joins] = True
    have = program.dependences
    program = program.replace(dependences=have.take(~(is_join[have.instruction] & have.carried)))
    waiting: list[int] = []
    producers: list[int] = []
    for index, loop in enumerate(found.loops):
        inner = [at for at, each in enumerate(found.loops) if each.parent == index]
        wanted = set(
            _last_rows(program, [b for b in range(loop.header, loop.last + 1) if found.of_block[b] == index])
        )
        for at in inner:
            # A header runs once more than its loop's body: its last run is behind the inner join's.
            wanted |= {joins[at], *_last_rows(program, [found.loops[at].header])}
        wanted -= {joins[index]}
        waiting += [joins[index]] * len(wanted)
        producers += sorted(wanted)
    return add_dependences(
        program, Dependences.make(len(waiting), instruction=waiting, producer=producers, carried=True)
    )


def _last_rows(program: Program, blocks: list[int]) -> list[int]:
    """The last instruction of each engine in some blocks, which ascend."""
    starts = program.starts("instructions", "blocks")
    last: dict[int, int] = {}
    for block in blocks:
        for row in range(int(starts[block]), int(starts[block + 1])):
            last[int(program.instructions.engine[row])] = row
    return list(last.values())


def _insert_joins(program: Program, found: Loops) -> Program:
    strings, rows = program.strings, program.instructions
    starts = program.starts("instructions", "blocks")
    mark = strings.intern(JOIN)
    missing = [loop.header for loop, row in zip(found.loops, join_rows(program, found), strict=True) if row == NONE]
    if not missing:
        return program
    timed = len(rows) > 0 and bool(np.all(rows.seq != NONE))
    before = starts[missing]
    # A header without instructions of its own takes the time of what stands behind it.
    seq = rows.seq[np.minimum(before, len(rows) - 1)] if timed else np.full(len(missing), NONE)
    names = [strings.intern(f"join.{strings[int(program.blocks.name[header])]}") for header in missing]
    new = NewInstructions(
        before.astype(np.int32),
        Instructions.make(
            len(missing),
            name=names,
            block=missing,
            opcode=strings.intern("nop"),
            engine=int(Engine.SYNC),
            seq=seq,
            attrs=mark,
        ),
    )
    return insert(program, new)[0]
