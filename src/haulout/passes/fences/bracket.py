"""The reference's policy: a pair of fences around every group of shared lifetimes.

A group is a connected component of overlapping spans (first block that touches a location, on any core, to the last).
On every core `cb_sg<id>_start` stands at the start of the group's first block and `cb_sg<id>_end` at the end of its
last; `<id>` is the subgraph's, further groups count on: `cb_sg<id>_<k>_start`. Two fences around a block do not order
what is inside; that is the rendezvous' business that the program or the lowering of a collective put there.
"""

from __future__ import annotations

import numpy as np

from haulout.analysis.loops import Loops, find_loops
from haulout.analysis.phases import shared_accesses
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.passes.fences.slots import Slots


def bracket_slots(program: Program) -> Slots:
    """The brackets of all groups, in the order in which they open."""
    touched = shared_accesses(program)
    accesses = program.accesses
    owner = program.owner[accesses.location[touched]]
    block = program.instructions.block[accesses.instruction[touched]]
    # Blocks of different cores are the same block by their position in the function; functions by their name.
    first_block = program.starts("blocks", "functions")
    position = np.arange(len(program.blocks)) - first_block[program.blocks.function]
    functions = len(program.functions) // program.lnc
    function = program.blocks.function % functions
    axis = (function.astype(np.int64) * (len(program.blocks) + 1) + position)[block]
    begin = np.full(len(program.locations), np.iinfo(np.int64).max)
    end = np.full(len(program.locations), -1, np.int64)
    # group by owner location: first and last block
    np.minimum.at(begin, owner, axis)
    np.maximum.at(end, owner, axis)
    spans = np.flatnonzero(end >= 0)
    groups = _components(begin[spans], end[spans])
    if found := find_loops(program):
        groups = _control_equivalent(program, found, groups)
    subgraph = max(int(program.modules.subgraph[0]), 0)
    block_starts = program.starts("instructions", "blocks")
    before, blocks, names = [], [], []
    for number, (low, high) in enumerate(groups):
        stem = f"cb_sg{subgraph}" + (f"_{number}" if number else "")
        for suffix, at, edge in (("start", low, 0), ("end", high, 1)):
            which, where = divmod(at, len(program.blocks) + 1)
            for core in range(program.lnc):
                row = int(first_block[core * functions + which]) + where
                before.append(int(block_starts[row + edge]))
                blocks.append(row)
                names.append(f"{stem}_{suffix}")
    return Slots(np.array(before, np.int32), np.array(blocks, np.int32), names)


def _control_equivalent(program: Program, found: Loops, groups: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Widen spans until both ends stand in the same innermost loop, so that both run equally often."""
    stride = len(program.blocks) + 1

    def widened(low: int, high: int) -> tuple[int, int]:
        function, first = divmod(low, stride)
        origin = int(np.searchsorted(program.blocks.function, function))
        first, last = origin + first, origin + high % stride
        while (at := found.of_block[first]) != (to := found.of_block[last]):
            if at != NONE and to not in [at, *_inside(found, int(at))]:
                first = found.loops[at].header - 1
            else:
                last = found.loops[to].last + 1
        return function * stride + first - origin, function * stride + last - origin

    while True:
        wider = [widened(low, high) for low, high in groups]
        merged = _components(np.array([each[0] for each in wider]), np.array([each[1] for each in wider]))
        if merged == groups:
            return groups
        groups = merged


def _inside(found: Loops, loop: int) -> list[int]:
    """Loops inside a loop, at any depth."""
    inner = [index for index, each in enumerate(found.loops) if each.parent == loop]
    return inner + [deeper for index in inner for deeper in _inside(found, index)]


def _components(begin: Ints, end: Ints) -> list[tuple[int, int]]:
    """Unions of closed intervals that overlap, in order."""
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    if not len(begin):
        return []
    opens = np.append(True, begin[1:] > reach[:-1])
    firsts = np.flatnonzero(opens)
    lasts = np.append(firsts[1:], len(begin)) - 1
    return list(zip(begin[firsts].tolist(), reach[lasts].tolist(), strict=True))
