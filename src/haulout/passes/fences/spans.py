"""Spans: the part of control flow in which a group of shared locations is touched, whatever core touches them.

A span is a pair of blocks (first, last) that run equally often, one after the other, around every access of its
group:

    first dominates every access, last post-dominates every access,
    first dominates last, last post-dominates first, both in the same innermost loop,
    and every access is on the way from first to last (a header runs after its loop's body as well as before it)

Where an end of that kind is missing, the span grows: out of the loop, or from the block of a fork to its join. It
never ends in an arm of a divergent fork, where no fence may be. Blocks are counted as on core 0.
"""

from __future__ import annotations

import logging
from collections import defaultdict

import numpy as np

from haulout.analysis.liveness import SharedLiveness
from haulout.analysis.phases import shared_accesses
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.ir.structure import Structure

log = logging.getLogger(__name__)

Span = tuple[int, int]
"""(first block, last block)"""


def shared_spans(program: Program) -> list[Span]:
    """The spans of all groups, a group being what overlaps, in layout order."""
    owner, block = _touched(program)
    low = np.full(len(program.locations), len(program.blocks), np.int64)
    high = np.full(len(program.locations), NONE, np.int64)
    # group by owner location: first and last block
    np.minimum.at(low, owner, block)
    np.maximum.at(high, owner, block)
    touched = high >= 0
    spans = _components(low[touched], high[touched])
    if not program.structure:
        return spans
    blocks = np.unique(block)
    while True:
        inside = [blocks[(blocks >= low) & (blocks <= high)] for low, high in spans]
        wider = [_control_equivalent(program.structure, int(each[0]), int(each[-1])) for each in inside]
        merged = _components(
            np.array([min(span[0], grown[0]) for span, grown in zip(spans, wider, strict=True)]),
            np.array([max(span[1], grown[1]) for span, grown in zip(spans, wider, strict=True)]),
        )
        if merged == spans:
            return wider
        spans = merged


def _touched(program: Program) -> tuple[Ints, Ints]:
    """Owner location and block of all shared accesses."""
    picked = np.flatnonzero(shared_accesses(program))
    owner = program.owner[program.accesses.location[picked]].astype(np.int64)
    row = program.accesses.instruction[picked]
    block = program.instructions.block[row] % max(len(program.blocks) // program.lnc, 1)
    return owner, block.astype(np.int64)


def _components(low: Ints, high: Ints) -> list[Span]:
    """Unions of closed intervals that overlap, in order."""
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    if not len(low):
        return []
    opens = np.append(True, low[1:] > reach[:-1])
    firsts = np.flatnonzero(opens)
    lasts = np.append(firsts[1:], len(low)) - 1
    return list(zip(low[firsts].tolist(), reach[lasts].tolist(), strict=True))


def _control_equivalent(structure: Structure, low: int, high: int) -> Span:
    """The smallest span around the touched blocks of one function, of which the first and the last are given."""
    first, last = low, high
    while True:
        first, end = min(first, last, low), max(first, last, high)
        while not structure.dominates(first, end):
            first = structure.dominator[first]
        last = end
        while not structure.post_dominates(last, first):
            last = structure.post_dominator[last]
        forks = [at for block in (first, last) if (at := structure.divergent_fork(block)) != NONE]
        loop, last_loop = structure.common_loop(first, first), structure.common_loop(last, last)
        if forks:
            first, last = structure.forks[forks[0]].block, structure.forks[forks[0]].join
        elif loop not in (NONE, *structure.loops_around(last)):
            first = structure.dominator[structure.loops[loop].header]
        elif loop != last_loop:
            last = structure.loops[last_loop].end
        elif loop != NONE and not first <= low <= high <= last:
            first, last = structure.dominator[structure.loops[loop].header], structure.loops[loop].end
        elif structure.dominates(first, last) and structure.post_dominates(last, first):
            return first, last
        if first == NONE:
            # A loop without a block before it: no block runs once before the accesses.
            return next(each.start for each in structure.functions if low in each), last


def log_spans(program: Program, live: SharedLiveness) -> None:
    """The reference's account of what it joins, at debug level: per core, and over all cores."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    picked = np.flatnonzero(shared_accesses(program))
    row = program.accesses.instruction[picked]
    blocks = len(program.blocks) // program.lnc
    touched: dict[tuple[int, int], set[int]] = defaultdict(set)
    written: dict[tuple[int, int], set[int]] = defaultdict(set)
    for location, core, block, write in zip(
        program.owner[program.accesses.location[picked]].tolist(),
        program.instruction_core[row].tolist(),
        (program.instructions.block[row] % blocks).tolist(),
        program.accesses.write[picked].tolist(),
        strict=True,
    ):
        touched[location, core].add(block)
        if write:
            written[location, core].add(block)

    def say(location: int, inside: set[int]) -> str:
        name = program.strings[int(program.locations.name[location])]
        return f"{name}: " + " ".join("^" + program.strings[int(program.blocks.name[at])] for at in sorted(inside))

    numbers = {location: at for at, location in enumerate(live.locations.tolist())}
    for core in range(program.lnc):
        mine = sorted(key for key in touched if key[1] == core)
        defined = [say(key[0], {min(written[key])}) for key in mine if written[key]]
        log.debug("First def blocks for mlocs (per core), core %d: %s", core, "; ".join(defined))
        log.debug(
            "All accesses for mlocs (per core), core %d: %s", core, "; ".join(say(k[0], touched[k]) for k in mine)
        )
    spanning = []
    for location in sorted({key[0] for key in touched}):
        bit = 1 << numbers[location] if location in numbers else 0
        through = {at for at in range(blocks) if live.sets.live_in[at] & live.sets.live_out[at] & bit}
        spanning.append(say(location, through.union(*(each for key, each in touched.items() if key[0] == location))))
    log.debug("Block spanning mlocs (all cores): %s", "; ".join(spanning))
