"""From phases to places: fence k of a segment on every core, and a program with those fences inserted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.phases import Phases
from haulout.ir.edit import NewInstructions, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Barriers, Ids, Instructions


class Slots(NamedTuple):
    """Fences to insert, the same number on every core: a row a fence and core, fence by fence."""

    before: Ids
    """The row in front of which it stands; on a core whose list ends, one behind its last row."""
    block: Ids
    """The block that it joins: that of the row it stands before, or of the row it stands behind."""
    name: list[str]


def phase_slots(program: Program, phases: Phases, names: list[str]) -> Slots:
    """A place on each core for each fence that the phases need.

    Fence k stands behind the last instruction of phase k - 1 and before the first of phase k; inside that gap it
    stands at source time: where the first core enters phase k. `names` has one name for each fence.
    """
    seq, core = program.instructions.seq, program.instruction_core
    before: list[int] = []
    blocks: list[int] = []
    labels: list[str] = []
    list_order = np.argsort(phases.instruction, kind="stable")
    shared_rows, shared_phase = phases.instruction[list_order], phases.phase[list_order]
    shared_seq = seq[shared_rows]
    segment_key = core.astype(np.int64) * len(phases.needed) + phases.segment
    at = 0
    for segment in np.flatnonzero(phases.needed).tolist():
        ranges = []
        for each in range(program.lnc):
            key = each * len(phases.needed) + segment
            begin = int(np.searchsorted(segment_key, key))
            end = int(np.searchsorted(segment_key, key, side="right"))
            # A permanent fence that closes the segment is its last row, and stays its last row.
            ranges.append((begin, end - 1 if end > begin and phases.closes[end - 1] else end))
        for fence in range(1, int(phases.needed[segment]) + 1):
            gaps = []
            time = None
            for begin, end in ranges:
                low, high = np.searchsorted(shared_rows, [begin, end])
                cut = low + int(np.searchsorted(shared_phase[low:high], fence))
                gaps.append(
                    (
                        int(shared_rows[cut - 1]) + 1 if cut > low else begin,
                        int(shared_rows[cut]) if cut < high else end,
                    )
                )
                if cut < high:
                    entered = int(shared_seq[cut])
                    time = entered if time is None else min(time, entered)
            for each, ((begin, end), (low, high)) in enumerate(zip(ranges, gaps, strict=True)):
                target = begin + int(np.searchsorted(seq[begin:end], NONE if time is None else time))
                slot = min(max(target, low), high)
                before.append(slot)
                if begin < end:
                    blocks.append(int(program.instructions.block[min(slot, end - 1)]))
                else:
                    # A core with nothing in this segment: the block that another core is in.
                    blocks.append(_same_block(program, phases, segment, each))
                labels.append(names[at])
            at += 1
    return Slots(np.array(before, np.int32), np.array(blocks, np.int32), labels)


def _same_block(program: Program, phases: Phases, segment: int, core: int) -> int:
    """The block of a segment on a core that has no instruction in it."""
    row = int(np.flatnonzero(phases.segment == segment)[0])
    blocks = len(program.blocks) // program.lnc
    return core * blocks + int(program.instructions.block[row]) % blocks


def insert_fences(program: Program, slots: Slots, made_by: str) -> Program:
    """The program with a fence of all cores at every slot; each takes the `seq` of what stands behind it."""
    if not len(slots.before):
        return program
    # Slots of different blocks may name the same row (one block's end is the next one's start): blocks in order.
    order = np.lexsort((slots.block, slots.before))
    before, names = slots.before[order], [slots.name[at] for at in order.tolist()]
    block = slots.block[order]
    strings, rows = program.strings, program.instructions
    timed = bool(len(rows)) and bool(rows.seq[0] != NONE)
    seq = np.full(len(before), 0 if timed else NONE, np.int64)
    # The neighbours' time, the one behind preferred; in a block of its own that of what ran before it on its core.
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
    """The fence's own name where no instruction has it, else one with a number."""
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
