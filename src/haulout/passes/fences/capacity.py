"""Fences that free storage earlier: what `minimal` adds where, and only where, the capacity demands it.

A staging buffer is held until the epoch of its last remote reader ends. With the fewest fences that may be long after
the read. Each candidate fence stands right behind the last access of some shared location by another core; the one
that takes most off what is live above each core's share of the capacity is taken, until the program fits or none
helps. (Writes that the fewest fences let run ahead of all their readers are not held back by it.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.phases import shared_accesses
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.passes.fences.nests import END, NestPlan, Place, nest_slots
from haulout.passes.fences.slots import insert_fences

MOST_CANDIDATES = 200
"""Places that are tried in each turn, evenly spread when there are more."""


@dataclass(frozen=True, slots=True)
class FreeingFence:
    """A fence that was added, and what it did."""

    name: str
    place: Place
    freed: int
    """Bytes less at the peaks of all cores together."""


def live_bytes(program: Program, allowed: int = 0) -> tuple[int, int]:
    """The most bytes of DRAM live at one time, summed over cores: no placement needs less.

    Second: the bytes above `allowed` on each core, summed over all moments; what is left to be freed.
    """
    locations, life = program.locations, lifetimes(program)
    owned = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE) & (life.end > life.begin)
    size = -(-locations.size // locations.align) * locations.align
    peaks = excess = 0
    for core in range(program.lnc):
        rows = np.flatnonzero(owned & (program.location_core == core))
        change = np.zeros(int(life.end[rows].max(initial=0)) + 1, np.int64)
        np.add.at(change, life.begin[rows], size[rows])
        np.subtract.at(change, life.end[rows], size[rows])
        live = np.cumsum(change)
        peaks += int(live.max(initial=0))
        excess += int(np.maximum(live - allowed, 0).sum())
    return peaks, excess


def free_storage(program: Program, capacity: int, stem: str, made_by: str) -> tuple[Program, list[FreeingFence]]:
    """The program with fences added until its live bytes fit the capacity, or no fence helps any more."""
    added: list[FreeingFence] = []
    allowed = capacity // program.lnc
    # Several peaks may be equally high: a fence helps when it lowers one of them, if not yet the highest.
    peaks, excess = live_bytes(program, allowed)
    while peaks > capacity:
        name = f"{stem}{len(added)}"
        best: tuple[tuple[int, int], Place, Program] | None = None
        for place in _candidates(program):
            slots = nest_slots(program, NestPlan([place], 0.0), name)
            tried = insert_fences(program, slots._replace(name=[name] * len(slots.name)), made_by)
            left = live_bytes(tried, allowed)
            if left[::-1] < ((excess, peaks) if best is None else best[0][::-1]):
                best = left, place, tried
        if best is None:
            break
        added.append(FreeingFence(name, best[1], peaks - best[0][0]))
        (peaks, excess), _, program = best
    return program, added


def _candidates(program: Program) -> list[Place]:
    """Right behind the last access of each shared location by a core that does not own it."""
    accesses = program.accesses
    picked = np.flatnonzero(shared_accesses(program))
    owner = program.owner[accesses.location[picked]]
    row = accesses.instruction[picked]
    remote = program.instruction_core[row] != program.location_core[owner]
    blocks = len(program.blocks) // program.lnc
    block = program.instructions.block[row] % blocks
    last: dict[int, tuple[int, int]] = {}
    for location, where, time in zip(
        owner[remote].tolist(), block[remote].tolist(), program.instructions.seq[row[remote]].tolist(), strict=True
    ):
        last[location] = max(last.get(location, (-1, -1)), (where, time))
    places = set()
    for where, time in last.values():
        times = program.instructions.seq[program.instructions.block % blocks == where]
        behind = times[times > time]
        places.add((where, int(behind.min()) if len(behind) else END))
    ordered = sorted(places)
    step = -(-len(ordered) // MOST_CANDIDATES) if ordered else 1
    return ordered[::step]
