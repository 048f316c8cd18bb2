"""Liveness of whole locations over blocks, all cores together: an iteration to a fixpoint on sets of bits.

    live in of a block   =  exposed  |  (live out - killed)
    live out of a block  =  live in of all its successors, joined

Sets are of *owner* locations: the accesses of all cores to one location are joined block by block, in `seq` order. So
a block stands for the blocks of its number on all cores. A location is exposed in a block that reads it before
anything there kills it. Two questions are asked:

`shared_liveness`: which internal shared location may be read before any core has written any of it? It is live into
the entry. Any write kills: whether *all* of it was written is for the checker to see. The ways are those of the cores
together: a loop is taken to run, and on a divergent fork some core takes each arm; what rests on that the checker
tells. Where all cores take the same arm, both are possible.

`carried_values` (`region_lifetimes.py` asks): which value lives around a loop? It is live into the loop's header, on
the graph as it is. Only a write of the whole kills.

The lines that the reference logs of its analysis are logged here, too, at debug level.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints

log = logging.getLogger(__name__)

Bits = int
"""A set of numbers."""


@dataclass(frozen=True, slots=True)
class LiveSets:
    """The fixpoint, by block number."""

    live_in: list[Bits]
    live_out: list[Bits]
    iterations: int
    """Walks over all blocks, the last of which changed nothing."""


def solve(successors: Sequence[Sequence[int]], exposed: Sequence[Bits], killed: Sequence[Bits]) -> LiveSets:
    """The smallest sets that meet the equations; blocks are walked from the last to the first."""
    live_in, live_out = list(exposed), [0] * len(exposed)
    iterations, changed = 0, True
    while changed:
        iterations, changed = iterations + 1, False
        for block in reversed(range(len(exposed))):
            out = 0
            for target in successors[block]:
                out |= live_in[target]
            live_out[block] = out
            into = exposed[block] | (out & ~killed[block])
            if into != live_in[block]:
                live_in[block], changed = into, True
    return LiveSets(live_in, live_out, iterations)


def block_graph(program: Program) -> list[list[int]]:
    """Successors of the blocks of one core, of all its functions, by number."""
    count = len(program.blocks) // program.lnc
    starts = program.starts("edges", "blocks").tolist()
    return [program.edges.target[starts[row] : starts[row + 1]].tolist() for row in range(count)]


@dataclass(frozen=True, slots=True)
class SharedLiveness:
    """Liveness of the internal shared locations; bit k of a set is `locations[k]`."""

    locations: Ids
    sets: LiveSets
    exposed: list[Bits]
    graph: list[list[int]]
    entries: list[int]
    """First blocks of functions."""

    def live_into_entry(self) -> list[tuple[int, int]]:
        """(location, block) of each value that nothing can have produced, and the first block that reads it so."""
        found = []
        for entry in self.entries:
            for number in _members(self.sets.live_in[entry]):
                found.append((int(self.locations[number]), self._reader(entry, number)))
        return sorted(found)

    def _reader(self, entry: int, number: int) -> int:
        """The first block, in layout, that a live value reaches from the entry and is exposed in."""
        seen, work, readers = {entry}, [entry], []
        while work:
            block = work.pop()
            if self.exposed[block] >> number & 1:
                readers.append(block)
            else:
                fresh = [each for each in self.graph[block] if each not in seen]
                seen.update(fresh)
                work += [each for each in fresh if self.sets.live_in[each] >> number & 1]
        return min(readers)


def shared_liveness(program: Program, access: Ints) -> SharedLiveness:
    """Liveness of internal locations over some accesses, which are those of shared locations.

    A value that nothing has written on any way to a block's end is not in its `live_out`: it is not there to be kept.
    """
    accesses, blocks = program.accesses, len(program.blocks) // program.lnc
    owner = program.owner[accesses.location[access]]
    internal = program.locations.kind[owner] == Kind.INTERNAL
    access, owner = access[internal], owner[internal]
    row = accesses.instruction[access]
    locations, number = np.unique(owner, return_inverse=True)
    place = (program.instructions.block[row] % max(blocks, 1)) * len(locations) + number
    # sort by block, location, time, writes first: the first row of each group says whether a read is exposed
    order = np.lexsort((~accesses.write[access], program.instructions.seq[row], place))
    first = np.ones(len(order), bool)
    first[1:] = place[order[1:]] != place[order[:-1]]
    reads_first = np.zeros((blocks, len(locations)), bool)
    written = np.zeros((blocks, len(locations)), bool)
    leading = order[first]
    reads_first.flat[place[leading[~accesses.write[access[leading]]]]] = True
    written.flat[place[accesses.write[access]]] = True
    exposed, killed = _bits(reads_first), _bits(written)
    graph = _taken_graph(program)
    sets = solve(graph, exposed, killed)
    starts = program.starts("blocks", "functions").tolist()
    entries = [at for at, end in pairwise(starts) if at < min(end, blocks)]
    live = SharedLiveness(locations.astype(np.int32), _available(graph, sets, killed), exposed, graph, entries)
    if log.isEnabledFor(logging.DEBUG):
        _log(program, live, sets)
    return live


def carried_values(program: Program, exposed: Sequence[Bits], killed: Sequence[Bits]) -> dict[int, Bits]:
    """For each loop of the first core, by its header's block number: the values that are live into the header."""
    sets = solve(block_graph(program), exposed, killed)
    count = len(program.blocks) // program.lnc
    return {header: sets.live_in[header] for header in program.structure.loop_at if header < count}


def _taken_graph(program: Program) -> list[list[int]]:
    """The paths of all cores together: loops run, and both arms of divergent forks do, one after the other."""
    structure, graph = program.structure, block_graph(program)
    for loop in structure.loops.values():
        if loop.header < len(graph):
            graph[loop.latch].append(graph[loop.header].pop())
    for fork in structure.forks:
        if fork.block < len(graph) and fork.divergent:
            graph[fork.block] = [fork.block + 1]
            if fork.middle < fork.join:
                graph[fork.middle - 1] = [fork.middle]
    return graph


def _available(graph: list[list[int]], sets: LiveSets, killed: list[Bits]) -> LiveSets:
    """The same sets, `live_out` without what nothing has written on any way there."""
    written, changed = list(killed), True
    while changed:
        changed = False
        for block, targets in enumerate(graph):
            for target in targets:
                if written[block] & ~written[target]:
                    written[target] |= written[block]
                    changed = True
    out = [live & there for live, there in zip(sets.live_out, written, strict=True)]
    return LiveSets(sets.live_in, out, sets.iterations)


def _log(program: Program, live: SharedLiveness, before: LiveSets) -> None:
    """The reference's lines; `before`: with what is not there to be kept."""

    def names(bits: Bits) -> list[str]:
        rows = live.locations[_members(bits)]
        return [program.strings[int(name)] for name in program.locations.name[rows]]

    log.debug("Build Shared live-in/live-out with %d iterations", live.sets.iterations)
    for block, exposed in enumerate(live.exposed):
        for name in names(live.sets.live_in[block] & ~exposed):
            log.debug("Propagating %s to newLiveIn for %s", name, program.strings[int(program.blocks.name[block])])
        for name in names(before.live_out[block] & ~live.sets.live_out[block]):
            log.debug("Removing %s from newLiveOut, because it is not defined here", name)


def _bits(rows: Bools) -> list[Bits]:
    """Each row of a matrix as a set."""
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(rows, axis=1, bitorder="little")]


def _members(bits: Bits) -> list[int]:
    """The numbers in a set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
