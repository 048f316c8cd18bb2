"""Fences that free storage earlier: `minimal` adds them only if the capacity demands it.

A staging buffer is held from the start of the epoch of its first remote writer to the end of the epoch of its last
remote reader. With the fewest fences, that may be long before the write and long after the read. They also let
writers run ahead of all readers, so many buffers may be full before the first is read. A candidate is, in source
time,

    directly after the last access of a shared location by a core that does not own it    (frees it from there on)
    directly before the first such access                                                 (starts its life there)

for the locations that are live where some core holds more than its share of the capacity. It cuts the program: the
fewest fences for the two parts are placed again (`finish`), and no write runs ahead of it.

1. Try all candidates. If even these are not enough, add none; the allocator then reports the buffers that do not fit.
2. Add up to `MAX_TURNS` candidates, each time the one that removes most of the live bytes above the shares.
3. If that is not enough, add all candidates.
4. Remove the fences that the others make unnecessary, many at a time, then one by one.

A note on each fence says what it frees: the bytes by which the peaks of all cores would rise without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from haulout.analysis.lifetimes import Lifetimes, lifetimes
from haulout.analysis.phases import shared_accesses
from haulout.ir.enums import NONE, Space
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.passes.fences.exact_cover import END, NestPlan, Place, nest_slots
from haulout.passes.fences.slots import insert_fences
from haulout.support.diagnostics import Diagnostic, Label, Severity

MAX_CANDIDATES = 200
"""If there are more, those of the largest locations are tried."""
FULL_SEARCH_LIMIT = 5000
"""Instructions; a longer program tries fewer candidates, to take no longer."""
MAX_TURNS = 3


@dataclass(frozen=True, slots=True)
class FreeingFence:
    """An added fence and its effect."""

    name: str
    place: Place
    freed: int
    """Bytes by which the peaks of all cores together would be higher without it."""


def live_bytes(program: Program, allowed: int = 0) -> tuple[int, int]:
    """The most bytes of DRAM live at one time, summed over cores: a lower bound for placements with partitions.

    Second: the bytes above `allowed` on each core, summed over all moments, which fences should free.
    """
    life = lifetimes(program)
    peaks = excess = 0
    # The row of a fence itself must not count.
    counts = np.ones(len(program.instructions) + 2, bool)
    counts[program.barriers.instruction] = False
    for _, _, live in _profiles(program, life):
        peaks += int(live.max(initial=0))
        excess += int(np.maximum(live - allowed, 0)[counts[: len(live)]].sum())
    return peaks, excess


def _profiles(program: Program, life: Lifetimes) -> Iterator[tuple[Ints, Ints, Ints]]:
    """For each core: the locations that it owns, their bytes, and the bytes live at each row."""
    locations = program.locations
    owned = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE) & (life.end > life.begin)
    size = -(-locations.size // locations.align) * locations.align
    for core in range(program.lnc):
        rows = np.flatnonzero(owned & (program.location_core == core))
        change = np.zeros(int(life.end[rows].max(initial=0)) + 1, np.int64)
        np.add.at(change, life.begin[rows], size[rows])
        np.subtract.at(change, life.end[rows], size[rows])
        yield rows, size[rows], np.cumsum(change)


def free_storage(
    program: Program,
    capacity: int,
    stem: str,
    made_by: str,
    finish: Callable[[Program], Program] = lambda program: program,
) -> tuple[Program, list[FreeingFence]]:
    """The program with fences `<stem>0`, `<stem>1`, ... so that its live bytes fit the capacity, or unchanged.

    `finish` places the other fences; it is used to evaluate candidates, the result does not include them.
    """

    def cut(places: list[Place]) -> Program:
        slots = nest_slots(program, NestPlan(places, 0.0), stem)
        return insert_fences(program, slots, made_by)

    def peaks(places: list[Place]) -> int:
        return live_bytes(finish(cut(places)))[0]

    every = _candidates(finish(program), capacity // program.lnc)
    if not every or peaks(every) > capacity:
        return program, []
    chosen = _grow(lambda places: finish(cut(places)), capacity, program.lnc)
    if peaks(chosen) > capacity:
        chosen = every
    chosen = _needed(chosen, lambda places: peaks(places) <= capacity)
    least = peaks(chosen)
    freed = [peaks([other for other in chosen if other != each]) - least for each in chosen]
    return cut(chosen), [FreeingFence(f"{stem}{k}", *each) for k, each in enumerate(zip(chosen, freed, strict=True))]


def _grow(build: Callable[[list[Place]], Program], capacity: int, cores: int) -> list[Place]:
    """Add places one by one, the best first."""
    allowed = capacity // cores
    chosen: list[Place] = []
    whole = build(chosen)
    # Several peaks may be equally high, so a fence that lowers only one of them is progress.
    peaks, excess = live_bytes(whole, allowed)
    while peaks > capacity and len(chosen) < MAX_TURNS:
        best: tuple[tuple[int, int], list[Place], Program] | None = None
        for place in _candidates(whole, allowed):
            places = sorted({*chosen, place})
            tried = build(places)
            left = live_bytes(tried, allowed)
            if left[::-1] < ((excess, peaks) if best is None else best[0][::-1]):
                best = left, places, tried
        if best is None:
            break
        (peaks, excess), chosen, whole = best
    return chosen


def _needed(places: list[Place], fits: Callable[[list[Place]], bool]) -> list[Place]:
    """A minimal subset of the places that still fits."""
    part = max(len(places) // 2, 1)
    while True:
        at = 0
        while at < len(places):
            rest = places[:at] + places[at + part :]
            if fits(rest):
                places = rest
            else:
                at += part
        if part == 1:
            return places
        part = max(part // 2, 1)


def capacity_notes(program: Program, added: list[FreeingFence]) -> list[Diagnostic]:
    """A note on each added fence: what it frees, and its place on each core."""
    notes = []
    for fence in added:
        rows = program.barriers.instruction[program.barriers.name == program.strings.find(fence.name)]
        labels = tuple(_label(program, row) for row in rows[:8].tolist())
        message = (
            f"fence {fence.name} was added for the capacity: it frees {fence.freed} bytes at the peaks of the cores"
        )
        notes.append(Diagnostic("capacity-fence", Severity.NOTE, message, labels))
    return notes


def _label(program: Program, row: int) -> Label:
    """The place of a fence: before an instruction, or at the end of a core's list."""
    core, after = program.instruction_core, row + 1
    barrier = program.strings.find("core_barrier")
    while after < len(core) and core[after] == core[row] and program.instructions.opcode[after] == barrier:
        after += 1
    if after < len(core) and core[after] == core[row]:
        at = instruction_label(program, after)
        return Label(f"before {at.message}", at.span)
    return Label(f"at the end of core {core[row]}")


def _candidates(program: Program, allowed: int) -> list[Place]:
    """Those that are tried: fewer in a longer program."""
    rows = len(program.instructions)
    return candidates(
        program, allowed, min(MAX_CANDIDATES, max(MAX_CANDIDATES * FULL_SEARCH_LIMIT // max(rows, 1), 10))
    )


def candidates(program: Program, allowed: int, most: int) -> list[Place]:
    """Directly before the first and after the last remote access of each location that exceeds the share.

    At most so many, those of the largest locations, in the order of places.
    """
    accesses, seq = program.accesses, program.instructions.seq
    picked = np.flatnonzero(shared_accesses(program))
    owner = program.owner[accesses.location[picked]]
    row = accesses.instruction[picked]
    wanted = _live_above(program, allowed)[owner] & (program.instruction_core[row] != program.location_core[owner])
    owner, row = owner[wanted], row[wanted]
    blocks = len(program.blocks) // program.lnc
    block = program.instructions.block % blocks
    # sort by location, place: first and last of each
    order = np.lexsort((seq[row], block[row], owner))
    owner, row = owner[order], row[order]
    first, last = np.ones(len(order), bool), np.ones(len(order), bool)
    first[1:] = last[:-1] = owner[1:] != owner[:-1]
    times = {}
    size: dict[Place, int] = {}
    for ends, after in ((first, False), (last, True)):
        for at, location in zip(row[ends].tolist(), owner[ends].tolist(), strict=True):
            where, time = int(block[at]), int(seq[at])
            if program.structure.divergent_fork(where) != NONE:
                continue
            if after:
                if where not in times:
                    times[where] = np.unique(seq[block == where])
                later = times[where][np.searchsorted(times[where], time, side="right") :]
                time = int(later[0]) if len(later) else END
            size[where, time] = max(size.get((where, time), 0), int(program.locations.size[location]))
    largest = sorted(size, key=lambda place: (-size[place], place))[:most]
    return sorted(largest)


def _live_above(program: Program, allowed: int) -> Bools:
    """Whether each location is live where its core holds more than `allowed` bytes."""
    life = lifetimes(program)
    mask = np.zeros(len(program.locations), bool)
    for rows, _, live in _profiles(program, life):
        above = np.append(0, np.cumsum(live > allowed))
        mask[rows] = above[life.end[rows]] > above[life.begin[rows]]
    return mask
