"""What the blocks of a function touch, so that choices which cannot affect each other are not combined.

Locations that may share storage are one *group*: an owner, its views, and all that overlaps their addresses
(partitions of SBUF and PSUM are not told apart: a group may be too large, never too small).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from haulout.checker.paths.control_flow import ControlFlow
from haulout.checker.paths.counts_across_fences import counts_carry
from haulout.checker.paths.wait_trips import counts_choices
from haulout.ir.enums import LINES, NONE, Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids

_ONE_CORE = (1 << (LINES + 1)) - 1
"""Engines of a core, and its branches."""


@dataclass(slots=True)
class Footprints:
    """By block of the function, on all cores."""

    reads: list[dict[int, int]]
    """Groups read -> on which lines: a bit for each engine of each core. The branch of a header or a fork reads its
    `cond`."""
    writes: list[dict[int, int]]
    fences: list[tuple[int, ...]]
    """Barriers of all cores on `all`, core by core."""
    has_work: list[bool]
    """It has instructions on some core."""
    has_rendezvous: list[bool]
    """Some instruction is a barrier or a `sendrecv`, or uses semaphores."""
    has_semaphores: list[bool]
    synchronizes: list[bool]
    """Some instruction makes cores wait for each other: a barrier, a `sendrecv`; or uses semaphores, unless no core
    signals one of another."""
    only_on_all: list[bool]
    """If it synchronizes, only by barriers on `all`."""
    counts_carry: bool
    """What is chosen before a fence of all cores might change what a wait after it implies
    (`counts_across_fences.py`)."""
    counts_choices: bool
    """Leaving out what a run need not execute might add order (`wait_trips.py`)."""
    seq_rises: bool
    """`seq` never falls from one block to later ones, on any core."""
    group: Ids
    """Of every location of the program."""
    undefined: frozenset[int]
    """Groups with a location that starts without a value."""
    shared: frozenset[int]
    """Groups of several owners."""

    def touch(self, blocks: Iterable[int], group: int) -> int:
        """The cores on which some block touches a group, a bit a core."""
        lines = 0
        for block in blocks:
            lines |= self.reads[block].get(group, 0) | self.writes[block].get(group, 0)
        return cores_of(lines)

    def write(self, blocks: Iterable[int], group: int) -> bool:
        """Whether some block writes a group."""
        return any(group in self.writes[block] for block in blocks)


def joined(parts: Iterable[dict[int, int]]) -> dict[int, int]:
    """Groups with the lines of all parts."""
    found: dict[int, int] = {}
    for part in parts:
        for group, lines in part.items():
            found[group] = found.get(group, 0) | lines
    return found


def cores_of(lines: int) -> int:
    """The cores of some lines, a bit each."""
    cores, core = 0, 0
    while lines:
        cores |= (lines & _ONE_CORE > 0) << core
        lines >>= LINES + 1
        core += 1
    return cores


def may_conflict(writes: dict[int, int], touches: dict[int, int]) -> bool:
    """Whether some write may conflict with an access on another line; what one line does is in order."""
    return any(
        lines | touches[group] != lines or lines & (lines - 1) for group, lines in writes.items() if group in touches
    )


def find_footprints(flow: ControlFlow) -> Footprints:
    """What each block of a function touches."""
    program, block, count = flow.program, flow.block, len(flow.blocks)
    group = _groups(program)
    accesses = program.accesses
    at = block[accesses.instruction].astype(np.int64)
    mine = at != NONE
    sides: list[list[dict[int, int]]] = [[{} for _ in range(count)] for _ in range(2)]
    lines, groups = (LINES + 1) * program.lnc, int(group.max(initial=0)) + 1
    line = program.instruction_core.astype(np.int64) * (LINES + 1) + program.instructions.engine
    keys = (at * 2 + accesses.write)[mine] * groups + group[accesses.location[mine]]
    for key in np.unique(keys * lines + line[accesses.instruction[mine]]).tolist():
        where, which = divmod(key // lines, groups)
        side = sides[where % 2][where // 2]
        side[which] = side.get(which, 0) | 1 << key % lines
    for core, blocks in enumerate(flow.rows):
        for at_block, cond in enumerate(program.blocks.cond[blocks.start : blocks.stop].tolist()):
            if cond != NONE:
                which, branch = int(group[cond]), core * (LINES + 1) + LINES
                sides[0][at_block][which] = sides[0][at_block].get(which, 0) | 1 << branch

    barriers = program.barriers
    everyone = np.uint64((1 << program.lnc) - 1)
    full = (barriers.cores == 0) | (barriers.cores == everyone)
    full &= (program.instructions.engine[barriers.instruction] == Engine.ALL) & (block[barriers.instruction] != NONE)
    fences = np.zeros((count, program.lnc), np.int64)
    rows = barriers.instruction[full]
    np.add.at(fences, (block[rows], program.instruction_core[rows]), 1)

    def having(*instructions: Ids | list[int]) -> Bools:
        """Blocks that have some of some instructions."""
        found = np.zeros(count, bool)
        for each in instructions:
            marked = block[each]
            found[marked[marked != NONE]] = True
        return found

    semaphores = having(program.semaphores.instruction)
    rendezvous = having(barriers.instruction, program.meetings.instruction)
    on_engines = barriers.instruction[program.instructions.engine[barriers.instruction] != Engine.ALL]
    not_on_all = having(on_engines, program.meetings.instruction)
    foreign = semaphores & having(program.semaphores.instruction[program.semaphores.core != NONE]).any()
    return Footprints(
        sides[0],
        sides[1],
        [tuple(each) for each in fences.tolist()],
        [size > 0 for size in flow.sizes],
        (rendezvous | semaphores).tolist(),
        semaphores.tolist(),
        (rendezvous | foreign).tolist(),
        (~(not_on_all | foreign)).tolist(),
        bool(semaphores.any()) and counts_carry(flow, fences.sum(axis=1) > 0, semaphores),
        bool(semaphores.any()) and counts_choices(flow),
        _seq_rises(program, block, count),
        group,
        *_kinds(program, flow.functions, group),
    )


def _groups(program: Program) -> Ids:
    """The group of every location."""
    rows, owner = program.locations, program.owner
    count = len(rows)
    owner = np.where(owner == NONE, np.arange(count), owner)
    placed = np.flatnonzero((rows.address != NONE) & (rows.size > 0))
    space = np.where(rows.space[placed] <= Space.DRAM_SHARED, NONE, rows.space[placed].astype(np.int64))
    core = np.where(space == NONE, 0, program.location_core[placed])
    order = placed[np.lexsort((rows.address[placed], core, space))]
    kind = rows.space[order].astype(np.int64)
    kind = np.where(kind <= Space.DRAM_SHARED, NONE, kind * program.lnc + program.location_core[order])
    # Sweep: a location joins the one before when it begins before the end of all so far.
    begin, end = rows.address[order], rows.address[order] + rows.size[order]
    new = np.ones(len(order), bool)
    first = np.append(True, kind[1:] != kind[:-1])[: len(order)]
    for at in np.flatnonzero(first).tolist():
        stop = at + int(np.argmax(np.append(first[at + 1 :], True))) + 1
        reach = np.maximum.accumulate(end[at:stop])
        new[at + 1 : stop] = begin[at + 1 : stop] >= reach[:-1]
    label = np.arange(count, dtype=np.int64)
    label[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1] if len(order) else label[order]
    # Views belong to their owners; few are not in that group already.
    parent = np.arange(count)

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = int(parent[row])
        return row

    apart = np.flatnonzero(label != label[owner])
    for one, other in {(int(label[row]), int(label[owner[row]])) for row in apart.tolist()}:
        parent[root(one)] = root(other)
    roots = np.array([root(each) for each in np.unique(label).tolist()], np.int64)
    named: Ids = roots[np.searchsorted(np.unique(label), label)].astype(np.int32)
    return named


def _kinds(program: Program, functions: Sequence[int], group: Ids) -> tuple[frozenset[int], frozenset[int]]:
    """Groups with a location that starts without a value, and groups of several owners."""
    rows = program.locations
    mine = np.flatnonzero(np.isin(rows.function, functions) & (rows.remote_name == NONE))
    empty = (rows.kind[mine] == Kind.INTERNAL) | (rows.kind[mine] == Kind.OUTPUT)
    groups, owners = np.unique(group[mine], return_counts=True)
    return frozenset(group[mine[empty]].tolist()), frozenset(groups[owners > 1].tolist())


def _seq_rises(program: Program, block: Ids, count: int) -> bool:
    """Whether `seq` never falls from block to block."""
    seq = program.instructions.seq
    timed = np.flatnonzero((seq != NONE) & (block != NONE))
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, NONE, np.int64)
    np.minimum.at(low, block[timed], seq[timed])
    np.maximum.at(high, block[timed], seq[timed])
    before = np.maximum.accumulate(high)[:-1]
    return bool(np.all(before <= low[1:]))
