"""Estimated time of a program whose operations are cut, without making it: what the choice of cuts compares.

The cores do alike, so one of them is followed. An instruction takes the time of its part, or of all of it. Two
accesses of one location, at least one of which writes it, are an edge. Its weight is 1 if the location is cut and
one of them touches what another core's part is (they do not *agree* with its key), else 0. What would overwrite a
value that other cores read gets another location (`values.py`), so such an edge falls away. In each loop body, and
outside of loops, with an inner loop as one item:

1. *Phases*: the phase of an item is the weight of the heaviest path to it. A fence lies between two phases.
2. *Time*: each item in list order starts when its engine is free and what it depends on is done; and each fence takes
   its time. That engines stop at a fence does not count: what waits for it may move (`order_by_phases`), and the
   others find work meanwhile.
3. *Loops*: an edge of weight 1 from item a to item b comes back from b to a in the next iteration. If no fence lies
   between, the iteration costs one more. The time of an iteration counts as often as the loop runs.

Nothing depends on this: it compares choices, and the fences are placed later, from the program itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.analysis.durations import durations
from haulout.analysis.makespan import ASSUMED_TRIP
from haulout.analysis.overlap import extents
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop
from haulout.passes.fences.exact_cover import block_weight
from haulout.passes.splitting.keys import Key
from haulout.passes.splitting.operations import Classes, Operation, part_attrs
from haulout.passes.splitting.parts import PartColumns
from haulout.passes.splitting.values import values_of
from haulout.support.jit import njit
from haulout.target import Target

F64 = npt.NDArray[np.float64]
UNDIVIDED = -1
"""The choice of an instruction that is not cut, in the place of the number of one of its axes."""
_NO_EDGE = -(1 << 20)
"""The weight of an edge that falls away: what would overwrite a value that other cores read gets another location."""
FENCE_WEIGHT = 1.5
"""Of a fence's time: engines run dry before it, and cores arrive one after the other."""
_SHARE_OF_WORK = 1 / 32
_MANY = 32
"""An access is compared with as many before it in its location; more would cost time, and they hardly matter."""


class _Items(NamedTuple):
    """Instructions and loops, grouped by the loop around them, inner loops first."""

    group_starts: Ints
    order: Ids
    """Items of each group as they are in the lists."""
    loop: Ids
    """Of each group the item that it is in the group around it; NONE: the program."""
    trip: F64
    engine: Ids
    """Of each item; NONE: a loop."""
    edge_starts: Ints
    """Edges to the item at each place of `order`."""
    source: Ids


class SplitEstimator:
    """A program whose `operations` may be cut along any of their axes; rows are those of the first core."""

    def __init__(
        self,
        program: Program,
        operations: Mapping[int, Operation],
        classes: Mapping[int, Classes],
        cut_locations: Collection[int],
        target: Target,
    ) -> None:
        self._rows = len(program.instructions) // program.lnc
        self.fence = FENCE_WEIGHT * target.barrier(program.lnc)
        """Microseconds that one counts."""
        self._engines = int(program.instructions.engine.max(initial=0)) + 1
        most = max((len(each.axes) for each in operations.values()), default=0)
        self.times = np.repeat(durations(program, target)[: self._rows, None], most + 1, axis=1)
        """Of each instruction by its choice; the last column is `UNDIVIDED`."""
        for at in range(most):
            chosen = [each for each in operations.values() if at < len(each.axes)]
            rows = [each.row for each in chosen]
            self.times[rows, at] = _part_times(program, chosen, at, target)[rows]
        self.repeats = np.array(
            [block_weight(program.structure, block) for block in program.instructions.block[: self._rows].tolist()]
        )
        """How often each instruction runs."""
        self._keys = self._key_numbers(program, operations, classes, cut_locations, most)
        self._set_edges(program, cut_locations)

    def _key_numbers(
        self,
        program: Program,
        operations: Mapping[int, Operation],
        classes: Mapping[int, Classes],
        cut_locations: Collection[int],
        most: int,
    ) -> Ids:
        """[access, choice]: number of the key; NONE: the access needs what other parts have."""
        numbers: dict[Key, int] = {}
        found = np.full((len(program.accesses) // program.lnc, most + 1), NONE, np.int32)
        for operation in operations.values():
            for at, axis in enumerate(operation.axes):
                for operand, key in zip(operation.operands, axis.keys, strict=True):
                    agrees = operand.location in cut_locations and classes[operand.location] == operation.classes
                    if key is not None and agrees:
                        found[operand.access, at] = numbers.setdefault(key, len(numbers))
        return found

    def _set_edges(self, program: Program, cut_locations: Collection[int]) -> None:
        loops, around = _loops(program)
        accesses = program.accesses
        edges = []
        for one, other in _conflicts(program):
            chain, chain_of_other = ([*around[int(accesses.instruction[at])]] for at in (one, other))
            shared = 0
            while shared < min(len(chain), len(chain_of_other)) and chain[shared] == chain_of_other[shared]:
                shared += 1
            source = self._rows + chain[shared] if shared < len(chain) else int(accesses.instruction[one])
            deeper = shared < len(chain_of_other)
            to = self._rows + chain_of_other[shared] if deeper else int(accesses.instruction[other])
            if source != to:
                edges.append((chain[shared - 1] if shared else len(loops), to, source, one, other))
        # Groups are numbered as loops, inner ones first; the last is the program.
        depth = {at: len(_chain_of(loops, at)) for at in range(len(loops))}
        group_order = [*sorted(depth, key=lambda at: (-depth[at], at)), len(loops)]
        place = self._set_items(program, loops, around, group_order)
        edges.sort(key=lambda each: place[each[1]])
        columns = np.array(edges, np.int64).reshape(-1, 5)
        places = np.array([place[to] for to in columns[:, 1].tolist()], np.int64)
        self._items: _Items = self._items._replace(
            edge_starts=np.searchsorted(places, np.arange(len(self._items.order) + 1)).astype(np.int64),
            source=columns[:, 2].astype(np.int32),
        )
        self._one, self._other = columns[:, 3], columns[:, 4]
        value = values_of(program)
        self._overwrites = value[self._one] != value[self._other]
        self._location = accesses.location[self._one]
        self._instruction = accesses.instruction[: len(accesses) // program.lnc]
        self._reader = accesses.instruction[self._other]
        writers = np.flatnonzero(accesses.write[: len(self._instruction)])
        self._writer = np.full(len(program.locations), NONE, np.int64)
        self._writer[accesses.location[writers]] = writers
        self._may_be_cut = np.zeros(len(program.locations), bool)
        self._may_be_cut[list(cut_locations)] = True

    def _set_items(
        self, program: Program, loops: list[Loop], around: list[tuple[int, ...]], group_order: list[int]
    ) -> dict[int, int]:
        """Sets the items; returns the place of each in their order."""
        first = np.searchsorted(program.instructions.block[: self._rows], [each.begin for each in loops]).tolist()
        items: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for row in range(self._rows):
            items[around[row][-1] if around[row] else len(loops)].append((row, row))
        for at in range(len(loops)):
            chain = _chain_of(loops, at)
            items[chain[-1] if chain else len(loops)].append((first[at], self._rows + at))
        order: list[int] = []
        starts = [0]
        for group in group_order:
            order += [item for _, item in sorted(items[group])]
            starts.append(len(order))
        trips = [float(ASSUMED_TRIP if each.trip == NONE else each.trip) for each in loops]
        engine = np.append(program.instructions.engine[: self._rows], np.full(len(loops), NONE))
        self._items = _Items(
            np.array(starts, np.int64),
            np.array(order, np.int32),
            np.array([NONE if each == len(loops) else self._rows + each for each in group_order], np.int32),
            np.array([1.0 if each == len(loops) else trips[each] for each in group_order], np.float64),
            engine.astype(np.int32),
            np.zeros(1, np.int64),
            np.zeros(0, np.int32),
        )
        return {item: place for place, item in enumerate(order)}

    def weights(self, choice: Ids) -> Ids:
        """Of each edge, for the choice of each instruction."""
        key = self._keys[np.arange(len(self._keys)), choice[self._instruction]]
        writer = self._writer[self._location]
        of_location = np.where(self._may_be_cut[self._location], key[writer], NONE)
        apart = (of_location != NONE) & ((key[self._one] != of_location) | (key[self._other] != of_location))
        found: Ids = np.where(apart, np.where(self._overwrites, _NO_EDGE, 1), 0).astype(np.int32)
        return found

    def crossing(self, choice: Ids) -> list[tuple[int, int]]:
        """Instructions of the edges that need a fence: the one before it and the one behind."""
        found = np.flatnonzero(self.weights(choice) > 0)
        pairs = zip(self._instruction[self._one[found]].tolist(), self._reader[found].tolist(), strict=True)
        return list(dict.fromkeys(pairs))

    def estimate(self, choice: Ids) -> float:
        """Microseconds, for the choice of each instruction of the first core: the number of an axis or `UNDIVIDED`.

        With a small part of the time that all engines work: storage that is used again orders what could overlap.
        """
        times = self.times[np.arange(self._rows), choice]
        span = float(scan_split(self._items, self.weights(choice), times, self.fence, self._engines))
        return span + _SHARE_OF_WORK * float(times @ self.repeats)


@njit
def scan_split(items: _Items, weight: Ids, times: F64, fence: float, engines: int) -> float:
    """The time of the program."""
    phase = np.zeros(len(items.engine), np.int64)
    spent = np.zeros(len(items.engine))
    spent[: len(times)] = times
    total = 0.0
    for group in range(len(items.loop)):
        begin, end = items.group_starts[group], items.group_starts[group + 1]
        top = 0
        for place in range(begin, end):
            item, least = items.order[place], 0
            for edge in range(items.edge_starts[place], items.edge_starts[place + 1]):
                least = max(least, phase[items.source[edge]] + weight[edge])
            phase[item] = least
            top = max(top, least)
        again = 0
        for place in range(begin, end):
            for edge in range(items.edge_starts[place], items.edge_starts[place + 1]):
                if weight[edge] > 0 and top - phase[items.order[place]] + phase[items.source[edge]] < 1:
                    again = 1
        total = _run_group(items, begin, end, spent, engines) + top * fence
        if items.loop[group] >= 0:
            total = (total + again * fence) * items.trip[group]
            spent[items.loop[group]] = total
    return total


@njit
def _run_group(items: _Items, begin: int, end: int, spent: F64, engines: int) -> float:
    """The time of items `begin:end` of the order, without fences."""
    done = np.zeros(len(items.engine))
    clocks = np.zeros(engines)
    end_of_all = 0.0
    for place in range(begin, end):
        item = items.order[place]
        engine = items.engine[item]
        start = end_of_all if engine < 0 else clocks[engine]
        for edge in range(items.edge_starts[place], items.edge_starts[place + 1]):
            start = max(start, done[items.source[edge]])
        done[item] = start + spent[item]
        end_of_all = max(end_of_all, done[item])
        if engine < 0:
            clocks[:] = done[item]
        else:
            clocks[engine] = done[item]
    return end_of_all


def _part_times(program: Program, operations: list[Operation], at: int, target: Target) -> F64:
    """Durations of the largest parts of operations cut along their axis number `at`, by row."""
    made = PartColumns(program, {})
    for operation in operations:
        axis, parts = operation.axes[at], len(operation.classes[0])
        place = axis.largest(operation.operands, parts)
        boxes = axis.boxes(operation.operands, place)
        made.row(operation.row, 0, axis.opcode, part_attrs(operation, axis, boxes, place))
        for box in boxes:
            made.operand(box, 0)
    return durations(made.finish(), target)


def _loops(program: Program) -> tuple[list[Loop], list[tuple[int, ...]]]:
    """The loops of the first core, and the numbers of those around each of its instructions, outermost first."""
    blocks = len(program.blocks) // program.lnc
    loops = sorted(
        (each for each in program.structure.loops.values() if each.begin < blocks), key=lambda it: it.begin
    )
    by_block = [
        tuple(at for at, each in enumerate(loops) if each.begin <= block < each.end) for block in range(blocks)
    ]
    rows = len(program.instructions) // program.lnc
    return loops, [by_block[block] for block in program.instructions.block[:rows].tolist()]


def _chain_of(loops: list[Loop], at: int) -> tuple[int, ...]:
    """Numbers of the loops around a loop, outermost first."""
    inner = loops[at]
    return tuple(
        other
        for other, each in enumerate(loops)
        if other != at and each.begin <= inner.begin and inner.end <= each.end
    )


def _conflicts(program: Program) -> Iterator[tuple[int, int]]:
    """Pairs of accesses of the first core, in list order, that touch common bytes, and one of them writes."""
    accesses = program.accesses
    count = len(accesses) // program.lnc
    x = extents(program)
    low, high = x.low[:count].tolist(), x.high[:count].tolist()
    whole: Bools = x.exact[:count] & (x.low[:count] == 0)
    whole &= x.high[:count] == program.locations.size[accesses.location[:count]]
    before: defaultdict[int, list[int]] = defaultdict(list)
    writes = accesses.write[:count].tolist()
    for at, (location, instruction) in enumerate(
        zip(accesses.location[:count].tolist(), accesses.instruction[:count].tolist(), strict=True)
    ):
        for other in before[location][-_MANY:]:
            meets = low[other] < high[at] and low[at] < high[other]
            if meets and (writes[at] or writes[other]) and accesses.instruction[other] != instruction:
                yield other, at
        if writes[at] and whole[at]:
            before[location] = []
        before[location].append(at)
