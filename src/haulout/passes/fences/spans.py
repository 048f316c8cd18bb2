"""Spans: the stretch of control flow in which a group of shared locations is touched, whatever core touches them.

A span is a pair of blocks (first, last) that run equally often, one after the other, around every access of its
group:

    first dominates every access, last post-dominates every access,
    first dominates last, last post-dominates first, both in the same innermost loop,
    and on the way from first to last every access is met (a header is behind its loop's body as well as before it)

Where an end of that kind is missing, the span grows: out of the loop, or from the fork to the join of a branch. It
never ends in an arm of a divergent fork, where no fence may stand. Blocks are counted as on core 0.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections import defaultdict

import numpy as np

from haulout.analysis.cfg import ControlFlow, function_flow
from haulout.analysis.liveness import SharedLiveness
from haulout.analysis.phases import shared_accesses
from haulout.analysis.regions import Regions
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ints

log = logging.getLogger(__name__)

Span = tuple[int, int]
"""(first block, last block)"""


def shared_spans(program: Program, found: Regions) -> list[Span]:
    """The spans of all groups, a group being what overlaps, in layout order."""
    owner, block = _touched(program)
    low = np.full(len(program.locations), len(program.blocks), np.int64)
    high = np.full(len(program.locations), NONE, np.int64)
    # group by owner location: first and last block
    np.minimum.at(low, owner, block)
    np.maximum.at(high, owner, block)
    touched = high >= 0
    spans = _components(low[touched], high[touched])
    if not found:
        return spans
    blocks, flows = np.unique(block).tolist(), _Flows(program)
    while True:
        wider = [
            _control_equivalent(flows, found, blocks[bisect_left(blocks, low) : bisect_right(blocks, high)])
            for low, high in spans
        ]
        merged = _components(
            np.array([min(span[0], grown[0]) for span, grown in zip(spans, wider, strict=True)]),
            np.array([max(span[1], grown[1]) for span, grown in zip(spans, wider, strict=True)]),
        )
        if merged == spans:
            return wider
        spans = merged


class _Flows:
    """The graphs of the functions, each analysed once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[int, tuple[int, ControlFlow, dict[int, int]]] = {}

    def around(self, block: int) -> tuple[int, ControlFlow, dict[int, int]]:
        """Of the function of a block: its first block, its graph, the place of each block in the graph's order."""
        function = int(self.program.blocks.function[block])
        if function not in self.found:
            flow = function_flow(self.program, function)
            origin = int(self.program.starts("blocks", "functions")[function])
            self.found[function] = origin, flow, {each: at for at, each in enumerate(flow.order)}
        return self.found[function]


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


def _control_equivalent(flows: _Flows, found: Regions, blocks: list[int]) -> Span:
    """The smallest span around some blocks of one function."""
    origin, flow, place = flows.around(blocks[0])
    inside = [block - origin for block in blocks]
    first = last = inside[0]
    while True:
        first = flow.common_dominator([first, last, *inside])
        last = flow.common_post_dominator([first, last, *inside])
        atoms = [at for block in (first, last) if (at := found.atom(block + origin)) != NONE]
        if atoms:
            branch = found.branches[atoms[0]]
            first, last = branch.fork - origin, branch.join - origin
        elif flow.loop[first] not in (NONE, *flow.loops_around(last)):
            first = _before_loop(flow, first)
        elif flow.loop[last] != flow.loop[first]:
            last = _behind_loop(flow, last)
        elif flow.loop[first] != NONE and not all(place[first] <= place[at] <= place[last] for at in inside):
            first, last = _before_loop(flow, first), _behind_loop(flow, last)
        elif flow.dominates(first, last) and flow.post_dominates(last, first):
            return first + origin, last + origin
        if first == NONE:
            # A loop without a block before it: there is no place that runs once.
            return origin, last + origin


def _before_loop(flow: ControlFlow, block: int) -> int:
    return flow.dominator[flow.loops[flow.loop[block]].header]


def _behind_loop(flow: ControlFlow, block: int) -> int:
    inside = flow.loops[flow.loop[block]].blocks
    while block in inside:
        block = flow.post_dominator[block]
    return block


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
