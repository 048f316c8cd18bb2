"""The place of a barrier on every core: it orders two accesses and as many other bad pairs as possible.

It must come after one access and before the other, and on all cores between the same two fences. Where `seq` is known
it has one time on all cores; otherwise it goes next to the instruction of the same name, since cores are often
clones. Without such an instruction it goes, core after core, to the place that orders the most pairs with the cores
placed so far, and of several such places to the nearest to the same position.

       core 0      w0  w1  │  r0  r1           the first pair is (w0, r0): right before its second access, and on the
       core 1      w0  w1  │  r0  r1           other cores after everything that must come before
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from haulout.checker.explain.fixes import AddBarrier, Place
from haulout.checker.model import Model
from haulout.ir.enums import NONE, Engine
from haulout.ir.read_structure import block_rows, chain
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Arm


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A place on one core, from which those on the other cores are found."""

    core: int
    at: int
    """Position in the segment of its core."""
    row: int
    """The instruction that it comes before, or after; NONE: an end of the segment."""
    after: bool


class Placer:
    """Places barriers in the program of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program if model.unrolled is None else model.unrolled.source
        name = self.program.strings.find(model.function)
        self.functions: list[int] = np.flatnonzero(self.program.functions.name == name).tolist()
        self.fence = self._fences()
        nothing = np.zeros(0, np.int32)
        self.producer, self.consumer = nothing, nothing

    def aim(self, first: Ids, second: Ids, timed: Bools) -> None:
        """Set the pairs of instructions of which a barrier should order as many as possible; untimed ones in any
        order.
        """
        free = ~timed
        self.producer = np.append(first, second[free])
        self.consumer = np.append(second, first[free])

    def barriers(self, i: int, j: int) -> Iterator[AddBarrier]:
        """Barriers that might bring one instruction before another."""
        made: dict[AddBarrier, None] = {}
        for each in self._barriers(i, j):
            if each is not None and each not in made:
                made[each] = None
                yield each

    def _barriers(self, i: int, j: int) -> Iterator[AddBarrier | None]:
        unrolled = self.model.unrolled
        if unrolled is None:
            segments = [self.model.rows[slice(*self.model.core_starts[core : core + 2])] for core in self._cores]
            yield from self._around(_Segments(segments, NONE), i, j, True)
            return
        blocks = []
        for each in (i, j):
            row, core = int(self.model.rows[each]), int(self.model.core[each])
            blocks.append(int(unrolled.block[row]) - block_rows(self.program, self.functions[core]).start)
        together = unrolled.execution[self.model.rows[i]] == unrolled.execution[self.model.rows[j]]
        if blocks[0] == blocks[1]:
            yield from self._around(self._block(blocks[0]), i, j, bool(together))
        else:
            yield from self._around(self._block(blocks[1]), NONE, j, False)
            yield from self._around(self._block(blocks[0]), i, NONE, False)
        yield from (
            self._edge(self._block(block), start)
            for block, start in self._outside(blocks[0], blocks[1], bool(together))
        )

    def _outside(self, here: int, there: int, together: bool) -> Iterator[tuple[int, bool]]:
        """Blocks at whose start, or else end, a barrier comes between two blocks, outside of loops and arms."""
        unrolled = self.model.unrolled
        assert unrolled is not None
        structure = unrolled.structure
        for block, other, start in ((here, there, True), (there, here, False)):
            number = structure.left_region(block, other)
            if number == NONE:
                continue
            region = structure.regions[number]
            if isinstance(region, Arm):
                fork = structure.forks[region.fork]
                yield (fork.join, True) if start else (fork.block, False)
            elif start:
                yield region.end, True
        if not together and (common := structure.common_loop(here, there)) != NONE:
            headers = [
                structure.loops[number].header for number in structure.loops_around(structure.loops[common].header)
            ]
            yield from ((header, True) for header in reversed(headers))

    @property
    def _cores(self) -> range:
        return range(len(self.functions))

    def _block(self, number: int) -> _Segments:
        rows = []
        for function in self.functions:
            block = block_rows(self.program, function)[number]
            begin, end = np.searchsorted(self.program.instructions.block, [block, block + 1]).tolist()
            rows.append(np.arange(begin, end, dtype=np.int32))
        return _Segments(rows, number)

    def _edge(self, segments: _Segments, start: bool) -> AddBarrier:
        return AddBarrier(
            tuple(self._place(segments, core, 0 if start else len(segments.rows[core])) for core in self._cores)
        )

    # -- beside one of the two --------------------------------------------------------------------------------------

    def _around(self, segments: _Segments, i: int, j: int, together: bool) -> Iterator[AddBarrier | None]:
        """Right before the second, or right after the first; `together`: they run in that order there."""
        limits: dict[int, tuple[int, int]] = {}
        anchors = []
        for each, after in ((j, False), (i, True)):
            if each == NONE:
                continue
            core, row = int(self.model.core[each]), self._row(each)
            at = len(segments.rows[core]) if row == NONE else int(np.flatnonzero(segments.rows[core] == row)[0])
            if row == NONE and after:
                continue
            anchors.append(_Anchor(core, at + after, row, after))
            if together:
                low, high = limits.get(core, (0, len(segments.rows[core])))
                limits[core] = (max(low, at + 1), high) if after else (low, min(high, at))
        for anchor in anchors:
            yield self._places(segments, anchor, limits)

    def _places(self, segments: _Segments, anchor: _Anchor, limits: dict[int, tuple[int, int]]) -> AddBarrier | None:
        fences = [self.fence[rows] for rows in segments.rows]
        epoch = int(fences[anchor.core][: anchor.at].sum())
        producer, consumer = self._pairs(segments)
        placed: dict[int, int] = {}
        for core in [anchor.core, *limits, *self._cores]:
            if core in placed:
                continue
            positions = np.flatnonzero(fences[core])
            if len(positions) < epoch:
                return None
            low = int(positions[epoch - 1]) + 1 if epoch else 0
            high = int(positions[epoch]) if epoch < len(positions) else len(segments.rows[core])
            least, limit = limits.get(core, (low, high))
            low, high = max(low, least), min(high, limit)
            if low > high or (core == anchor.core and not low <= anchor.at <= high):
                return None
            if core == anchor.core:
                placed[core] = anchor.at
                continue
            wanted, known = self._beside(segments.rows[core], anchor)
            if not known:
                wanted = _best(_gain(core, len(segments.rows[core]), producer, consumer, placed), low, high, wanted)
            placed[core] = min(max(wanted, low), high)
        return AddBarrier(tuple(self._place(segments, core, placed[core]) for core in self._cores))

    def _beside(self, rows: Ids, anchor: _Anchor) -> tuple[int, bool]:
        """The position of the anchor on another core, and True if it is known rather than guessed."""
        table = self.program.instructions
        if anchor.row == NONE:
            return len(rows), False
        time, times = int(table.seq[anchor.row]), table.seq[rows]
        if time != NONE and np.any(times != NONE):
            if anchor.after:
                before = np.flatnonzero((times != NONE) & (times <= time))
                return (int(before[-1]) + 1 if len(before) else 0), True
            after = np.flatnonzero(times >= time)
            return (int(after[0]) if len(after) else len(rows)), True
        if table.name[anchor.row] != NONE:
            same = np.flatnonzero(table.name[rows] == table.name[anchor.row])
            if len(same):
                return int(same[0]) + anchor.after, True
        return min(anchor.at, len(rows)), False

    def _pairs(self, segments: _Segments) -> tuple[_Ends, _Ends]:
        """The positions of the pairs that run in these segments, in one execution of them."""
        model = self.model
        keep = np.ones(len(self.producer), bool)
        if model.unrolled is not None:
            run = model.unrolled.execution[model.rows]
            keep &= run[self.producer] == run[self.consumer]
            here = np.zeros(len(self.program.instructions) + 1, bool)
            here[np.concatenate(segments.rows)] = True
            origin = model.unrolled.origin[model.rows]
            keep &= here[origin[self.producer]] & here[origin[self.consumer]]
        ends = []
        for each in (self.producer[keep], self.consumer[keep]):
            core = model.core[each]
            if model.unrolled is None:
                at = each - model.core_starts[core]
            else:
                first = np.array([rows[0] if len(rows) else 0 for rows in segments.rows], np.int64)
                at = model.unrolled.origin[model.rows[each]] - first[core]
            ends.append(_Ends(core, at.astype(np.int64)))
        return ends[0], ends[1]

    # -- rows -------------------------------------------------------------------------------------------------------

    def _row(self, instruction: int) -> int:
        row = int(self.model.rows[instruction])
        return row if self.model.unrolled is None else int(self.model.unrolled.origin[row])

    def _place(self, segments: _Segments, core: int, at: int) -> Place:
        rows, blocks = segments.rows[core], self.program.instructions.block
        if at < len(rows):
            return Place(int(blocks[rows[at]]), int(rows[at]))
        if segments.block != NONE:
            block = block_rows(self.program, self.functions[core])[segments.block]
        else:
            listed = chain(self.program, self.functions[core])
            assert listed is not None
            block = listed[-1]
        return Place(block, int(np.searchsorted(blocks, block, "right")))

    def _fences(self) -> Bools:
        """Rows of the barriers on `all` of all cores."""
        program = self.program
        table = program.barriers
        fence = np.zeros(len(program.instructions), bool)
        full = program.core_sets.full & (program.instructions.engine[table.instruction] == Engine.ALL)
        fence[table.instruction[full]] = True
        return fence


@dataclass(frozen=True, slots=True)
class _Segments:
    """Rows on each core that run one after the other: a block, by its number, or the whole function (NONE)."""

    rows: list[Ids]
    block: int


@dataclass(frozen=True, slots=True)
class _Ends:
    """One side of the pairs: core, and position in its segment."""

    core: Ids
    at: Ints


def _gain(core: int, length: int, producer: _Ends, consumer: _Ends, placed: dict[int, int]) -> Ints:
    """How many pairs a place orders, for each place in a segment of some length, with cores that are placed."""
    cut = np.full(int(max(*placed, core)) + 65, NONE, np.int64)
    cut[list(placed)] = list(placed.values())
    change = np.zeros(length + 2, np.int64)
    first = (producer.core == core) & (cut[consumer.core] != NONE) & (consumer.at >= cut[consumer.core])
    np.add.at(change, producer.at[first] + 1, 1)
    second = (consumer.core == core) & (producer.at < cut[producer.core])
    change[0] += int(second.sum())
    np.add.at(change, consumer.at[second] + 1, -1)
    gain: Ints = np.cumsum(change)[: length + 1]
    return gain


def _best(gain: Ints, low: int, high: int, wanted: int) -> int:
    """The place with the largest gain, of several the nearest to the one wanted."""
    part = gain[low : high + 1]
    best = np.flatnonzero(part == part.max()) + low
    return int(best[np.argmin(np.abs(best - wanted))])
