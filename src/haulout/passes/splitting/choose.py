"""Which cut each operation takes: keys of locations, spread from the largest ones.

A location that is cut has one key: every operation that writes it is cut so that its parts write disjoint bytes of
that key. An operation that reads it agrees if it is cut, too, and each part reads what the same part wrote.

1. The largest location without a key tries each key that all its writers allow. A try spreads: to the operands of its
   writers, to the results of its readers, and on, as long as operations agree.
2. The try in which most bytes are read and written in agreement is kept. Short runs of bytes count less.
3. Again, until every location has a key or no possible one.

This is greedy: what is keyed stays. (Sharding propagation as in GSPMD, Xu et al. 2021, with keys for dimensions.)
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from haulout.passes.splitting.keys import Key
from haulout.passes.splitting.operations import Axis, Operation

T = TypeVar("T")
_LEAST_RUN = 64
"""Bytes that a run of fewer bytes costs."""


@dataclass(slots=True)
class Cuts:
    """What is cut, and how."""

    keys: dict[int, Key] = field(default_factory=dict)
    """Of each location that is cut."""
    axes: dict[int, Axis] = field(default_factory=dict)
    """Of each operation, by its row."""

    def update(self, other: Cuts) -> None:
        """Take over another one's."""
        self.keys.update(other.keys)
        self.axes.update(other.axes)


@dataclass(frozen=True, slots=True)
class Touch:
    """An operand of an operation."""

    operation: Operation
    at: int


class Chooser:
    """Chooses cuts of `operations` for the locations `sizes` (bytes), whose writers are all among the operations.

    `preferred` has keys that a location is to have where one of them is possible.
    """

    def __init__(
        self,
        operations: Mapping[int, Operation],
        sizes: Mapping[int, int],
        preferred: Mapping[int, Collection[Key]] | None = None,
    ) -> None:
        self._sizes = sizes
        self._preferred = preferred or {}
        self._writers: defaultdict[int, list[Touch]] = defaultdict(list)
        self._readers: defaultdict[int, list[Touch]] = defaultdict(list)
        for operation in operations.values():
            for at, operand in enumerate(operation.operands):
                if operand.location in sizes:
                    (self._writers if operand.write else self._readers)[operand.location].append(Touch(operation, at))
        self.cuts = Cuts()

    def run(self) -> Cuts:
        """The cuts of all locations that can be cut.

        A location with preferred keys gets one of them where what is chosen before allows it, else another.
        """
        self._choose()
        if self._preferred:
            self._preferred = {}
            self._choose()
        return self.cuts

    def _choose(self) -> None:
        for location in sorted(self._sizes, key=lambda each: (-self._sizes[each], each)):
            if location in self.cuts.keys:
                continue
            tries = [found for key in self._possible(location) if (found := self._spread(location, key)) is not None]
            if tries:
                self.cuts.update(max(tries, key=self._agreement))

    def _possible(self, location: int) -> list[Key]:
        """Keys that the first writer of a location allows."""
        first = self._writers[location][0]
        keys = (axis.keys[first.at] for axis in first.operation.axes)
        return list(dict.fromkeys(key for key in keys if key is not None))

    def _agreement(self, cuts: Cuts) -> float:
        """Bytes that the operations of a try read and write in agreement."""
        total = 0.0
        for location, key in cuts.keys.items():
            worth = self._sizes[location] * min(1.0, key.unit / _LEAST_RUN)
            for touch in (*self._writers[location], *self._readers[location]):
                axis = cuts.axes.get(touch.operation.row) or self.cuts.axes.get(touch.operation.row)
                total += worth if axis is not None and axis.keys[touch.at] == key else 0.0
        return total

    def _spread(self, location: int, key: Key) -> Cuts | None:
        """A try: what follows from a key, and what agrees with that; None: the location cannot have it."""
        made = Cuts()
        forced = self._forced(location, key, made)
        if forced is None:
            return None
        made.update(forced)
        queue = deque(forced.keys)
        while queue:
            at = queue.popleft()
            for wanted, its_key in self._neighbours(at, made):
                if wanted in made.keys or wanted in self.cuts.keys:
                    continue
                more = self._forced(wanted, its_key, made)
                if more is not None:
                    made.update(more)
                    queue.extend(more.keys)
        return made

    def _neighbours(self, location: int, made: Cuts) -> Iterator[tuple[int, Key]]:
        """Locations that would agree, and their keys: operands of its writers, results of its readers."""
        for touch in self._writers[location]:
            axis = made.axes[touch.operation.row]
            for operand, key in zip(touch.operation.operands, axis.keys, strict=True):
                if not operand.write and key is not None and operand.location in self._sizes:
                    yield operand.location, key
        wanted = made.keys[location]
        for touch in self._readers[location]:
            if touch.operation.row in made.axes or touch.operation.row in self.cuts.axes:
                continue
            for axis in touch.operation.axes:
                if axis.keys[touch.at] == wanted:
                    for operand, key in zip(touch.operation.operands, axis.keys, strict=True):
                        if operand.write and key is not None:
                            yield operand.location, key
                    break

    def _forced(self, location: int, key: Key, made: Cuts) -> Cuts | None:
        """The cuts that a key of a location asks for; None where one of them contradicts what is chosen."""
        found = Cuts()
        wanted = [(location, key)]
        while wanted:
            at, its_key = wanted.pop()
            if at not in self._sizes or its_key not in self._preferred.get(at, (its_key,)):
                return None
            known = _first(at, found.keys, made.keys, self.cuts.keys)
            if known is not None:
                if known != its_key:
                    return None
                continue
            found.keys[at] = its_key
            for touch in self._writers[at]:
                axis = _first(touch.operation.row, found.axes, made.axes, self.cuts.axes)
                if axis is None:
                    axis = self._best_axis(touch, its_key, made)
                    if axis is None:
                        return None
                    found.axes[touch.operation.row] = axis
                    wanted += _results(touch.operation, axis)
                elif axis.keys[touch.at] != its_key:
                    return None
        return found

    def _best_axis(self, touch: Touch, key: Key, made: Cuts) -> Axis | None:
        """The cut with that key that agrees with most bytes that are read."""
        fitting = [axis for axis in touch.operation.axes if axis.keys[touch.at] == key]

        def agreeing(axis: Axis) -> int:
            pairs = zip(touch.operation.operands, axis.keys, strict=True)
            return sum(
                self._sizes[operand.location]
                for operand, its_key in pairs
                if its_key is not None and its_key == _first(operand.location, made.keys, self.cuts.keys)
            )

        return max(fitting, key=agreeing, default=None)


def _first(key: int, *places: Mapping[int, T]) -> T | None:
    return next((each[key] for each in places if key in each), None)


def _results(operation: Operation, axis: Axis) -> Iterable[tuple[int, Key]]:
    pairs = zip(operation.operands, axis.keys, strict=True)
    return [(operand.location, key) for operand, key in pairs if operand.write and key is not None]
