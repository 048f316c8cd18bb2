"""From phases to fences: the place of fence k of a segment on every core, and their insertion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.phases import Phases
from haulout.ir.edit import NewInstructions, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Barriers, Bools, Ids, Instructions, Ints


class Slots(NamedTuple):
    """Fences to insert, the same number on every core: one row for each fence and core, fence by fence."""

    before: Ids
    """The row before which it goes; at the end of a core's list, the row number after the last."""
    block: Ids
    """Its block: that of the next row, or of the previous one."""
    name: list[str]


class Gaps(NamedTuple):
    """The possible places of the fences that phases need: one row for each fence, segment by segment; then
    [fence, core].
    """

    segment: Ids
    number: Ids
    """Of the fence in its segment, from 1."""
    begin: Ints
    """First row of the segment."""
    end: Ints
    """The end of its rows, or the permanent fence that closes it."""
    low: Ints
    """After the last shared access of a lower phase."""
    high: Ints
    """Before the first shared access of this phase or a higher one."""
    entered: Bools
    """Whether that access exists."""


def gaps(program: Program, phases: Phases, phase: Ids) -> Gaps:
    """The gaps of a choice of phases, a column like `phases.phase`."""
    needed, cores = phases.needed, np.arange(program.lnc)
    segment: Ids = np.repeat(np.arange(len(needed), dtype=np.int32), needed)
    number: Ids = (np.arange(len(segment)) - np.repeat(np.cumsum(needed) - needed, needed) + 1).astype(np.int32)
    segment_key = program.instruction_core.astype(np.int64) * len(needed) + phases.segment
    wanted = cores * len(needed) + segment[:, None]
    begin = np.searchsorted(segment_key, wanted).astype(np.int64)
    end = np.searchsorted(segment_key, wanted, side="right").astype(np.int64)
    # A permanent fence that closes the segment is its last row, and stays its last row.
    end -= (end > begin) & np.append(phases.closes, False)[end - 1]
    order = np.argsort(phases.instruction, kind="stable")
    shared: Ints = phases.instruction[order].astype(np.int64)
    most = int(needed.max(initial=0)) + 2
    phase_key = segment_key[shared] * most + phase[order]
    cut = np.searchsorted(phase_key, wanted * most + number[:, None])
    first = np.searchsorted(phase_key, wanted * most)
    last = np.searchsorted(phase_key, (wanted + 1) * most)
    padded = np.append(shared, 0)
    entered = cut < last
    low = np.where(cut > first, padded[cut - 1] + 1, begin)
    return Gaps(segment, number, begin, end, low, np.where(entered, padded[cut], end), entered)


def source_time(program: Program, found: Gaps) -> Ints:
    """Cuts inside the gaps, on every core at the time at which the first core enters the phase."""
    seq = program.instructions.seq
    never = np.iinfo(np.int64).max
    time = np.where(found.entered, np.append(seq, never)[found.high], never).min(axis=1, initial=never)
    cuts = np.empty_like(found.low)
    for segment in np.unique(found.segment).tolist():
        mine = np.flatnonzero(found.segment == segment)
        for core in range(program.lnc):
            begin, end = int(found.begin[mine[0], core]), int(found.end[mine[0], core])
            wanted = np.where(time[mine] == never, NONE, time[mine])
            cuts[mine, core] = begin + np.searchsorted(seq[begin:end], wanted)
    return np.clip(cuts, found.low, found.high)


def cut_slots(program: Program, phases: Phases, found: Gaps, cuts: Ints, names: list[str]) -> Slots:
    """Slots of fences at `cuts`, [fence, core]; `names` has one name for each fence."""
    block = program.instructions.block
    inside = found.begin < found.end
    joined = np.where(inside, np.append(block, NONE)[np.where(inside, np.minimum(cuts, found.end - 1), 0)], NONE)
    for at, core in np.argwhere(~inside).tolist():
        # A core without instructions in this segment takes the block of another core.
        joined[at, core] = _same_block(program, phases, int(found.segment[at]), core)
    labels = [name for name in names for _ in range(program.lnc)]
    return Slots(cuts.ravel().astype(np.int32), joined.ravel().astype(np.int32), labels)


def phase_slots(program: Program, phases: Phases, names: list[str]) -> Slots:
    """A place on each core for each fence that the phases need, by source time.

    Fence k goes after the last instruction of phase k - 1 and before the first of phase k, at the time at which the
    first core enters phase k. `names` has one name for each fence.
    """
    found = gaps(program, phases, phases.phase)
    return cut_slots(program, phases, found, source_time(program, found), names)


def _same_block(program: Program, phases: Phases, segment: int, core: int) -> int:
    """The block of a segment on a core that has no instruction in it."""
    row = int(np.flatnonzero(phases.segment == segment)[0])
    blocks = len(program.blocks) // program.lnc
    return core * blocks + int(program.instructions.block[row]) % blocks


def insert_fences(program: Program, slots: Slots, made_by: str) -> Program:
    """The program with a fence of all cores at every slot; each takes the `seq` of the next instruction."""
    if not len(slots.before):
        return program
    # Slots of different blocks may name the same row (one block's end is the next one's start): blocks in order.
    order = np.lexsort((slots.block, slots.before))
    before, names = slots.before[order], [slots.name[at] for at in order.tolist()]
    block = slots.block[order]
    strings, rows = program.strings, program.instructions
    timed = bool(len(rows)) and bool(rows.seq[0] != NONE)
    seq = np.full(len(before), 0 if timed else NONE, np.int64)
    # The time of the next instruction of the block, else of the previous one, else of the previous one on the core.
    for neighbour, parent, own in (
        (before - 1, program.instruction_core, program.block_core[block]),
        (before - 1, rows.block, block),
        (before, rows.block, block),
    ):
        there = (neighbour >= 0) & (neighbour < len(rows))
        there[there] = parent[neighbour[there]] == own[there]
        seq[there] = rows.seq[neighbour[there]]
    barrier = strings.intern("core_barrier")
    new = NewInstructions(
        before,
        Instructions.make(
            len(before),
            name=[strings.intern(fresh) for fresh in _instruction_names(program, names)],
            block=block,
            opcode=barrier,
            engine=int(Engine.ALL),
            seq=seq,
        ),
        barriers=Barriers.make(
            len(before),
            instruction=np.arange(len(before)),
            name=[strings.intern(name) for name in names],
            made_by=strings.intern(made_by),
        ),
    )
    return insert(program, new)[0]


def _instruction_names(program: Program, fences: list[str]) -> list[str]:
    """The fence's own name if no instruction has it, else one with a number."""
    taken = {program.strings[name] for name in np.unique(program.instructions.name).tolist() if name != NONE}
    chosen: dict[str, str] = {}
    for fence in fences:
        if fence not in chosen:
            name, count = fence, 0
            while name in taken:
                count += 1
                name = f"{fence}.{count}"
            taken.add(name)
            chosen[fence] = name
    return [chosen[fence] for fence in fences]
