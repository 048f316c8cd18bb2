"""What the blocks of a function touch, for what a run says of blocks that it does not execute.

Locations that may share storage are one *group*: an owner, its views, and all that overlaps their addresses
(partitions of SBUF and PSUM are not told apart: a group may be too large, never too small).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from haulout.checker.paths.control_flow import ControlFlow
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids


@dataclass(slots=True)
class Footprints:
    """By block of the function, on all cores."""

    reads: list[set[int]]
    """Groups read; the branch of a header or a fork reads its `cond`."""
    writes: list[set[int]]
    has_work: list[bool]
    """It has instructions on some core."""
    has_rendezvous: list[bool]
    """Some instruction is a barrier or a `sendrecv`, or uses semaphores."""
    has_semaphores: list[bool]
    group: Ids
    """Of every location of the program."""

    def touch(self, blocks: Iterable[int], group: int) -> bool:
        """Whether some block touches a group."""
        return any(group in self.reads[block] or group in self.writes[block] for block in blocks)

    def write(self, blocks: Iterable[int], group: int) -> bool:
        """Whether some block writes a group."""
        return any(group in self.writes[block] for block in blocks)


def find_footprints(flow: ControlFlow) -> Footprints:
    """What each block of a function touches."""
    program, block, count = flow.program, flow.block, len(flow.blocks)
    group = _groups(program)
    accesses = program.accesses
    at = block[accesses.instruction].astype(np.int64)
    mine = at != NONE
    sides: list[list[set[int]]] = [[set() for _ in range(count)] for _ in range(2)]
    groups = int(group.max(initial=0)) + 1
    for key in np.unique((at * 2 + accesses.write)[mine] * groups + group[accesses.location[mine]]).tolist():
        where, which = divmod(key, groups)
        sides[where % 2][where // 2].add(which)
    for blocks in flow.rows:
        for at_block, cond in enumerate(program.blocks.cond[blocks.start : blocks.stop].tolist()):
            if cond != NONE:
                sides[0][at_block].add(int(group[cond]))

    def having(*instructions: Ids | list[int]) -> Bools:
        """Blocks that have some of some instructions."""
        found = np.zeros(count, bool)
        for each in instructions:
            marked = block[each]
            found[marked[marked != NONE]] = True
        return found

    semaphores = having(program.semaphores.instruction)
    rendezvous = having(program.barriers.instruction, program.meetings.instruction)
    return Footprints(
        sides[0],
        sides[1],
        [size > 0 for size in flow.sizes],
        (rendezvous | semaphores).tolist(),
        semaphores.tolist(),
        group,
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
