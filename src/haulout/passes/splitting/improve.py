"""Local search: better cuts than the greedy choice, by moves that change several operations at once.

Operations that write one location are cut alike, so they are one *unit*; its options are `UNDIVIDED` and the cuts of
all of them together. A move gives a unit another option, and takes along

    nothing
    every unit of the same form: all equal layers change at once
    what agrees with it, up to 1, 2, 4, 8, or any number of steps away: operands, their other readers, results
    its operands or readers, for `UNDIVIDED`

A move is kept if the *cost* falls: the estimated time (`estimate.py`), and a price for bytes that are held more than
once (`worth.py`). Time comes first: for bytes, a choice may take a little longer than the fastest that is known, and
one of those leaves all undivided. Where a fence is needed, the units on both sides of it are tried in pairs, since
neither may gain alone. The search begins at the two best of the greedy choice and choices that spread from one unit
each. It ends when no move helps, or after a fixed number of estimates; so it is deterministic.
At the end, cuts that gain next to nothing and need a fence are undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from haulout.ir.enums import Kind
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.estimate import UNDIVIDED, SplitEstimator, scan_split
from haulout.passes.splitting.keys import Key
from haulout.passes.splitting.operations import Classes, Operation
from haulout.passes.splitting.worth import price_of_copies
from haulout.support.jit import plain_if_small
from haulout.target import Target

WORK = 1_200_000
"""Estimates times instructions that a search may take."""
DEPTHS = (1, 2, 4, 8)
_SEEDS = 6
_CLIMBS = 2
"""The search begins at so many of the best starts, one after the other."""
_LEAST_GAIN = 1e-5
_FOR_BYTES = 0.02
"""A choice may take so much longer than the fastest one, as a share of its time, to save bytes."""
_TOO_SLOW = 1e3
"""The price of a microsecond above that."""
_SMALL = 1 / 256
"""Of the time of a fence: what a cut must gain for each conflict between cores that it makes."""
_FEW = 60
"""So many units are tried in pairs with all their options; of more, one of each pair is left undivided."""

Move = dict[int, int]
"""Options by unit."""


class Units:
    """Operations that must be cut alike, with the ways to do so."""

    def __init__(self, operations: Mapping[int, Operation], sizes: Mapping[int, int]) -> None:
        self.operations = operations
        self._sizes = sizes
        self.of_row: dict[int, int] = {}
        self.rows: list[list[int]] = []
        for rows in _components(operations, sizes):
            self.of_row.update(dict.fromkeys(rows, len(self.rows)))
            self.rows.append(rows)
        self.options = [list(self._ways(rows)) for rows in self.rows]
        """Of each unit, of each option the number of the axis of each of its rows."""
        self._index()

    def _ways(self, rows: list[int]) -> Iterator[tuple[int, ...]]:
        first = self.operations[rows[0]]
        for at in range(len(first.axes)):
            taken = self._alike(rows, at)
            if taken is not None:
                yield taken

    def _alike(self, rows: list[int], at: int) -> tuple[int, ...] | None:
        """The axes of all rows if the first one takes its axis number `at`."""
        keys: dict[int, Key | None] = {}
        taken: dict[int, int] = {}
        left = list(rows)
        while left:
            row = next((each for each in left if not taken or self._written(each) & keys.keys()), None)
            if row is None:
                return None
            left.remove(row)
            operation = self.operations[row]
            for number, axis in enumerate(operation.axes):
                pairs = zip(operation.operands, axis.keys, strict=True)
                written = {operand.location: key for operand, key in pairs if operand.write}
                fits = all(keys.get(location, key) == key for location, key in written.items())
                if fits and (taken or number == at):
                    taken[row] = number
                    keys.update(written)
                    break
            else:
                return None
        return tuple(taken[row] for row in rows)

    def _written(self, row: int) -> set[int]:
        return {operand.location for operand in self.operations[row].operands if operand.write}

    def _index(self) -> None:
        """Which options read or write a location by a key."""
        self._by_key: defaultdict[tuple[int, Key], dict[int, int]] = defaultdict(dict)
        self._keys: list[list[list[tuple[int, Key]]]] = []
        for unit, (rows, options) in enumerate(zip(self.rows, self.options, strict=True)):
            mine = []
            for option, axes in enumerate(options):
                found = []
                for row, axis in zip(rows, axes, strict=True):
                    operation = self.operations[row]
                    for operand, key in zip(operation.operands, operation.axes[axis].keys, strict=True):
                        if key is not None and operand.location in self._sizes:
                            found.append((operand.location, key))
                            self._by_key[operand.location, key].setdefault(unit, option)
                mine.append(list(dict.fromkeys(found)))
            self._keys.append(mine)
        self.written = [sorted(set().union(*map(self._written, rows))) for rows in self.rows]
        touching: defaultdict[int, list[int]] = defaultdict(list)
        for row, operation in self.operations.items():
            for operand in operation.operands:
                touching[operand.location].append(self.of_row[row])
        self.near = [
            sorted(
                {other for row in rows for each in self.operations[row].operands for other in touching[each.location]}
            )
            for rows in self.rows
        ]

    def spread(self, seed: Move) -> list[Move]:
        """What agrees with a move, step by step: the operands of its units, their other readers, results."""
        found, steps = set(seed), [seed]
        while steps[-1]:
            near: Move = {}
            for unit, option in steps[-1].items():
                if option != UNDIVIDED:
                    for each in self._keys[unit][option]:
                        for other, its_option in self._by_key[each].items():
                            if other not in found:
                                found.add(other)
                                near[other] = its_option
            steps.append(near)
        return steps[:-1]


class Search:
    """The search, over choices of an option for each unit."""

    def __init__(
        self,
        program: Program,
        units: Units,
        estimator: SplitEstimator,
        must_cut: Collection[int],
        copies: Sequence[float],
    ) -> None:
        """`copies`: of each unit the price of what it writes while it is undivided, microseconds."""
        self._units, self._estimator = units, estimator
        self._copies = np.array(copies)
        self._rows = len(program.instructions) // program.lnc
        self._must = must_cut
        kind = program.locations.kind
        self._inner = {
            unit for unit, written in enumerate(units.written) if all(kind[at] == Kind.INTERNAL for at in written)
        }
        self._forms = self._alike(program)
        self._unit = np.full(self._rows, len(units.rows))
        most = max(map(len, units.options), default=0)
        self._axes = np.full((self._rows, most + 1), UNDIVIDED, np.int32)
        for unit, (rows, options) in enumerate(zip(units.rows, units.options, strict=True)):
            self._unit[rows] = unit
            self._axes[rows, : len(options)] = np.array(options, np.int32).reshape(-1, len(rows)).T
        self._known: dict[bytes, tuple[float, float]] = {}
        """Time and price of bytes of each choice that was estimated."""
        self._fastest = np.inf
        many = 200 + 10 * sum(len(each) + 1 for each in units.options)
        self._left = min(WORK // max(self._rows, 1), many)
        self.best = np.full(len(units.rows), UNDIVIDED, np.int32)

    def run(self, start: Ids) -> Ids:
        """The best choice that is found; with `start` the first one that is looked at."""
        with plain_if_small(scan_split, self._left * self._rows if len(self._units.rows) > 2 else 0):
            starts = list(self._starts(start))
            for each in starts:
                self._look(each)
            starts.sort(key=self._cost)
            for self.best in starts[:_CLIMBS]:
                improved = True
                while improved and self._left > 0:
                    improved = self._round()
                    improved |= self._pairs()
        best = min(self._known, key=lambda each: self._cost_of(*self._known[each]))
        return np.frombuffer(best, np.int32)

    def simpler(self, options: Ids) -> Ids:
        """The choice without cuts of short operations that gain next to nothing and need a fence.

        The estimate takes it that all which may move to one fence does. Where that is wrong, they cost one each.
        Operations that write what the program returns keep their cuts: nothing waits for these.
        """
        spans = self._spans()
        estimator, choice = self._estimator, self.choice(options)
        time, pairs = estimator.estimate(choice), estimator.crossing(choice)
        of_row = self._units.of_row
        ends = {of_row[row] for rows in pairs for row in rows if row in of_row} - set(self._must)
        short = [each for each in ends & self._inner if spans[each] <= estimator.fence]
        for unit in sorted(short, key=lambda each: (spans[each], each)):
            tried = options.copy()
            tried[unit] = UNDIVIDED
            choice = self.choice(tried)
            left, its_time = estimator.crossing(choice), estimator.estimate(choice)
            fewer = len(pairs) - len(left)
            if fewer > 0 and its_time <= time + _SMALL * estimator.fence * fewer:
                options, time, pairs = tried, its_time, left
        return options

    def choice(self, options: Ids) -> Ids:
        """Of each instruction the number of its axis."""
        found: Ids = self._axes[np.arange(self._rows), np.append(options, UNDIVIDED)[self._unit]]
        return found

    def _consider(self, options: Ids) -> bool:
        """Take a choice over if it costs less than the best so far."""
        self._look(options)
        if self._cost(options) >= self._cost(self.best) * (1 - _LEAST_GAIN):
            return False
        self.best = options
        return True

    def _look(self, options: Ids) -> None:
        """Estimate a choice, once."""
        key = options.tobytes()
        if key not in self._known:
            self._left -= 1
            time = self._estimator.estimate(self.choice(options))
            self._known[key] = time, float(self._copies[options == UNDIVIDED].sum())
            self._fastest = min(self._fastest, time)

    def _cost(self, options: Ids) -> float:
        return self._cost_of(*self._known[options.tobytes()])

    def _cost_of(self, time: float, copies: float) -> float:
        """Microseconds; it may rise when a faster choice becomes known."""
        return time + copies + _TOO_SLOW * max(0.0, time - (1 + _FOR_BYTES) * self._fastest)

    def _move(self, move: Move) -> bool:
        options = self.best.copy()
        for unit, option in move.items():
            if option != UNDIVIDED or unit not in self._must:
                options[unit] = option
        return self._consider(options)

    def _starts(self, greedy: Ids) -> Iterator[Ids]:
        """The greedy choice, and those that spread from one unit, then from the next that is left, and so on."""
        yield greedy
        spans = self._spans()
        order = sorted(range(len(spans)), key=lambda unit: (-spans[unit], unit))
        firsts = [{unit: option} for unit in order[:_SEEDS] for option in range(len(self._units.options[unit]))]
        for first in firsts:
            taken: Move = {}
            for unit in (*first, *order):
                if unit not in taken and self._units.options[unit]:
                    for step in self._units.spread({unit: first.get(unit, 0)}):
                        taken = step | taken
            options = np.full(len(spans), UNDIVIDED, np.int32)
            options[list(taken)] = list(taken.values())
            yield options
        alone = np.full(len(spans), UNDIVIDED, np.int32)
        kept = list(self._must)
        alone[kept] = greedy[kept]
        yield alone

    def _spans(self) -> list[float]:
        """Time of each unit, undivided."""
        times = self._estimator.times[:, UNDIVIDED] * self._estimator.repeats
        return [float(times[rows].sum()) for rows in self._units.rows]

    def _round(self) -> bool:
        """All moves of all units once; whether one helped."""
        improved = False
        spans = self._spans()
        for unit in sorted(range(len(spans)), key=lambda each: (-spans[each], each)):
            for option in (*range(len(self._units.options[unit])), UNDIVIDED):
                for move in self._moves(unit, option):
                    if self._left <= 0:
                        return improved
                    improved |= self._move(move)
        return improved

    def _moves(self, unit: int, option: int) -> Iterator[Move]:
        forms: list[Move] = [{unit: option}]
        if len(self._forms[unit]) > 1:
            forms.append(dict.fromkeys(self._forms[unit], option))
        for seed in forms:
            yield seed
            if option != UNDIVIDED:
                move: Move = {}
                for depth, step in enumerate(steps := self._units.spread(seed)):
                    move |= step
                    if depth in DEPTHS or (depth > 0 and depth == len(steps) - 1):
                        yield move
            else:
                yield dict.fromkeys((other for each in seed for other in self._units.near[each]), UNDIVIDED)

    def _pairs(self) -> bool:
        """Both sides of each fence at once; whether it helped."""
        improved = False
        of_row = self._units.of_row
        for rows in self._estimator.crossing(self.choice(self.best)):
            one, other = (of_row.get(row) for row in rows)
            if one is None or other is None or one == other:
                continue
            few = len(self._units.rows) <= _FEW
            mine = (*range(len(self._units.options[one])), UNDIVIDED) if few else (UNDIVIDED,)
            for pair in product(mine, (*range(len(self._units.options[other])), UNDIVIDED)):
                for width in (False, True):
                    if self._left <= 0:
                        return improved
                    move = {}
                    for unit, option in zip((one, other), pair, strict=True):
                        move.update(dict.fromkeys(self._forms[unit] if width else (unit,), option))
                    improved |= self._move(move)
        return improved

    def _alike(self, program: Program) -> list[list[int]]:
        """Of each unit those of the same form: opcodes, attributes, shapes and strides."""
        instructions = program.instructions
        forms: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for unit, rows in enumerate(self._units.rows):
            form = tuple(
                (
                    int(instructions.opcode[row]),
                    int(instructions.attrs[row]),
                    int(instructions.block[row]),
                    tuple((each.shape, each.strides, each.offset) for each in self._units.operations[row].operands),
                )
                for row in rows
            )
            forms[form, tuple(self._units.options[unit])].append(unit)
        found: list[list[int]] = [[] for _ in self._units.rows]
        for units in forms.values():
            for unit in units:
                found[unit] = units
        return found


def improve(
    program: Program,
    operations: Mapping[int, Operation],
    sizes: Mapping[int, int],
    classes: Mapping[int, Classes],
    cuts: Cuts,
    target: Target,
    keep: Collection[int] = (),
) -> Cuts:
    """Cuts with a lower estimated time than `cuts`, or these. The cuts of the operations `keep` stay.

    The estimate knows little of the fences of collectives: a program that has some keeps its cuts.
    """
    opcodes = np.unique(program.instructions.opcode).tolist()
    if any(lookup(program.strings[opcode]).collective for opcode in opcodes):
        return cuts
    operations = {**operations, **{row: replace(operations[row], axes=(cuts.axes[row],)) for row in keep}}
    units = Units(operations, sizes)
    if not units.rows:
        return cuts
    must = {units.of_row[row] for row in keep}
    price = price_of_copies(program, classes, target)
    copies = [sum(price[at] for at in written if at in sizes) for written in units.written]
    estimator = SplitEstimator(program, operations, classes, sizes.keys(), target)
    search = Search(program, units, estimator, must, copies)
    start = np.full(len(units.rows), UNDIVIDED, np.int32)
    for unit, (rows, options) in enumerate(zip(units.rows, units.options, strict=True)):
        axes = tuple(_number(operations[row], cuts, row) for row in rows)
        if axes in options:
            start[unit] = options.index(axes)
        elif axes[0] != UNDIVIDED:  # another combination with these keys
            start[unit] = next((at for at, each in enumerate(options) if each[0] == axes[0]), UNDIVIDED)
    found = search.choice(search.simpler(search.run(start)))
    made = Cuts()
    for row, number in enumerate(found.tolist()):
        if number != UNDIVIDED:
            axis = operations[row].axes[number]
            made.axes[row] = axis
            for operand, key in zip(operations[row].operands, axis.keys, strict=True):
                if operand.write and key is not None:
                    made.keys[operand.location] = key
    return made


def _number(operation: Operation, cuts: Cuts, row: int) -> int:
    axis = cuts.axes.get(row)
    return UNDIVIDED if axis is None else operation.axes.index(axis)


def _components(operations: Mapping[int, Operation], sizes: Mapping[int, int]) -> list[list[int]]:
    """Rows of operations that write common locations, in rising order. (Union-find.)"""
    leader = {row: row for row in operations}

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    writer: dict[int, int] = {}
    for row in sorted(operations):
        for operand in operations[row].operands:
            if operand.write:
                one, other = sorted((find(writer.setdefault(operand.location, row)), find(row)))
                leader[other] = one
    found: defaultdict[int, list[int]] = defaultdict(list)
    for row in sorted(operations):
        found[find(row)].append(row)
    return [found[row] for row in sorted(found)]
