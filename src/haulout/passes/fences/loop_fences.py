"""Fences of a loop without a common time axis: P5 of the design's theory.

Fences of one iteration and the next make rounds: with `count` fences an iteration, what comes after the last of them
and what comes before the first of the next iteration are in one round. Every instruction of the body gets a number
`round`, 0 to `count`, how many of the iteration's fences come before it:

    round(next) >= round(before)                    neighbours in a core's list
    round(y) + count * distance >= round(x) + 1     a conflict between cores: x, then y, `distance` iterations later

`distance` is 0 for the conflict of one iteration, in source order, and 1 for the next iteration's, both ways. The
least `count` for which a solution exists is the least number of fences; the least solution is found by relaxation
(Bellman and Ford). Unlike slots of source time, cores may be in different places of the source at a fence, so one
fence can serve two unrelated conflicts.

Only loops whose body is one block, which has all shared accesses of the loop and no fence yet.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np

from haulout.analysis.overlap import _scan_conflict, _scan_meets, extents
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.atomics import access_sorts
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.passes.fences.slots import Slots
from haulout.support.jit import plain_if_small

MAX_PAIRS = 100_000
"""Pairs of accesses looked at in one loop; one with more is left alone."""
MAX_FENCES = 64
"""An iteration; a loop that needs more is left alone."""

Conflict = tuple[int, int, int]
"""(x, y, distance): rows, and how many iterations y is later."""


def round_slots(program: Program, stem: str) -> Slots:
    """The fewest fences an iteration of every loop that this method takes, `<stem>0`, `<stem>1`, ..."""
    blocks = len(program.blocks) // program.lnc
    touched = np.flatnonzero(shared_accesses(program))
    fenced = set((program.instructions.block[fence_rows(program)] % blocks).tolist())
    before: list[int] = []
    joined: list[int] = []
    names: list[str] = []
    block = program.instructions.block[program.accesses.instruction[touched]] % blocks
    touched = touched[np.argsort(block, kind="stable")]
    starts = np.searchsorted(np.sort(block), np.arange(blocks + 1)).tolist()
    for loop in program.structure.loops.values():
        if loop.header >= blocks or len(loop.body) > 1 or loop.trip in (0, 1):
            continue
        inside = touched[starts[loop.latch] : starts[loop.end]]
        in_header = starts[loop.latch] > starts[loop.header]
        if fenced & {loop.header, loop.latch} or in_header or not len(inside):
            continue
        lists = _lists(program, inside)
        conflicts = _conflicts(program, inside)
        solved = least_rounds(lists, conflicts) if conflicts is not None else None
        if solved is None:
            continue
        count, rounds = solved
        for fence in range(1, count + 1):
            name = f"{stem}{len(before) // program.lnc}"
            for core, row in enumerate(_places(program, loop.latch, lists, rounds, fence)):
                before.append(row)
                joined.append(core * blocks + loop.latch)
                names.append(name)
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


def least_rounds(lists: list[list[int]], conflicts: list[Conflict]) -> tuple[int, dict[int, int]] | None:
    """The least number of fences an iteration, and the least round of each row.

    `lists`: the rows of each core, in order. None: more than `MAX_FENCES` are needed.
    """
    edges = [(x, y, 0, 0) for rows in lists for x, y in pairwise(rows)]
    edges += [(x, y, 1, distance) for x, y, distance in conflicts]
    for count in range(MAX_FENCES + 1):
        rounds = {row: 0 for rows in lists for row in rows}
        changed, largest = True, 0
        while changed and largest <= count:
            changed = False
            for x, y, more, distance in edges:
                least = rounds[x] + more - count * distance
                if least > rounds[y]:
                    rounds[y], changed = least, True
                    largest = max(largest, least)
        if not changed:
            return count, rounds
    return None


def _lists(program: Program, access: Ints) -> list[list[int]]:
    """The rows of some accesses on each core, in order."""
    rows = np.unique(program.accesses.instruction[access])
    core = program.instruction_core[rows]
    return [rows[core == each].tolist() for each in range(program.lnc)]


def _conflicts(program: Program, access: Ints) -> list[Conflict] | None:
    """What must be ordered between cores; None when there are too many pairs to look at."""
    accesses = program.accesses
    row = accesses.instruction[access]
    columns = (
        access,
        row,
        program.instruction_core[row],
        program.instructions.seq[row],
        access_sorts(program)[access],
    )
    groups: dict[int, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    for owner, *each in zip(
        program.owner[accesses.location[access]].tolist(), *(column.tolist() for column in columns), strict=True
    ):
        groups[owner].append(tuple(each))
    pairs = sum(len(group) ** 2 for group in groups.values())
    if pairs > 2 * MAX_PAIRS:
        return None
    x = extents(program)
    found: dict[Conflict, None] = {}
    with plain_if_small(_scan_meets, pairs, 20_000):
        for group in groups.values():
            for (a, first, core, time, sort), (b, second, other, later, also) in combinations(group, 2):
                if core == other or not _scan_conflict(sort, also) or not _scan_meets(x, min(a, b), max(a, b)):
                    continue
                if time != later:
                    found[(first, second, 0) if time < later else (second, first, 0)] = None
                found[first, second, 1] = found[second, first, 1] = None
    return list(found)


def _places(program: Program, body: int, lists: list[list[int]], rounds: dict[int, int], fence: int) -> list[int]:
    """The row in front of which a fence stands, on every core: where the first of them enters its round."""
    blocks = len(program.blocks) // program.lnc
    starts, seq = program.starts("instructions", "blocks"), program.instructions.seq
    gaps, entered = [], []
    for core, rows in enumerate(lists):
        low, high = starts[core * blocks + body : core * blocks + body + 2].tolist()
        end = high
        for row in rows:
            if rounds[row] < fence:
                low = row + 1
            else:
                high = min(high, row)
        if high < end:
            entered.append(int(seq[high]))
        gaps.append((low, high))
    if not entered:
        return [high for _, high in gaps]
    return [low + int(np.searchsorted(seq[low:high], min(entered))) for low, high in gaps]
