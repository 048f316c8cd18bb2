"""The first operation of the split program that computes something else.

The recipe: both programs run once more and keep what each operation computes. Operations correspond by `op_name` and
opcode if both texts have them, else by name; a collective corresponds to what its operand corresponds to. An
operation is *right* if the cores hold what the first program computes there: all of it, tiles of it, or parts of a
sum, of a maximum or of a minimum. The walk goes back from a result that differs and stops at right operations. Of
what it meets, the first in program order that has a counterpart with other values is the answer.

Values may be a little farther apart than those of results, since differences of large numbers lose digits.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.report.comparison.inputs import Inputs
from haulout.report.comparison.layout import by_shapes
from haulout.report.comparison.numbers import Difference, Tolerance
from haulout.report.comparison.source import Source
from haulout.sim.record import Record, Written

Array = npt.NDArray[Any]
_WIDER = 10
_MOVING = ("transpose", "reverse", "slice")
"""Operations that the front end resolves into the patterns of their readers."""
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_MAX_RANK = 4
"""Of arrays whose transpositions are tried."""


class Holds(enum.Enum):
    """What the cores hold of a value of the first program."""

    ALL = "all of it, or their tiles"
    SUM = "parts of a sum"
    MAXIMUM = "parts of a maximum"
    MINIMUM = "parts of a minimum"
    MOVED = "tiles of other cores"
    OTHER = "something else"
    UNKNOWN = "no counterpart"


_RIGHT = (Holds.ALL, Holds.SUM, Holds.MAXIMUM, Holds.MINIMUM)
_PARTIAL = {Holds.SUM: np.add, Holds.MAXIMUM: np.maximum, Holds.MINIMUM: np.minimum}


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where the programs part."""

    b: str
    """The operation of the split program."""
    a: str
    """Its counterpart; empty if it has none."""
    row: int
    """The instruction in the split program."""
    row_a: int
    """The counterpart; -1 if it has none."""
    cores: tuple[tuple[int, Difference], ...]
    """Cores on which it differs."""
    right: tuple[tuple[str, Holds], ...]
    """What it reads, directly or through operations without counterpart, and what the cores hold of that; for parts
    of a sum the operation that makes them."""
    between: tuple[str, ...]
    """Operations without counterpart that it depends on, after those that are right."""
    through: tuple[str, ...] = ()
    """Transpositions and the like through which it reads; they are no instructions of their own."""
    transposed: tuple[int, ...] = ()
    """The order of dimensions of the counterpart's value in which it has the same numbers."""
    holds: Holds = Holds.OTHER
    is_complete: bool = True
    """False: values of later operations were too large to keep (`record.MAX_BYTES`)."""


class Matcher:
    """Counterparts of the operations of the second program, and what the cores hold of their values."""

    def __init__(
        self, a: Source, b: Source, record_a: Record, record_b: Record, inputs: Inputs, tolerance: Tolerance
    ) -> None:
        self.a, self.b, self.record_a, self.record_b = a, b, record_a, record_b
        self.inputs, self.tolerance = inputs, tolerance
        self.known = list(dict.fromkeys(each.layout for each in inputs.each if each.layout is not None))
        self.by_core = a.program.lnc == b.program.lnc
        self._found: dict[str, tuple[Holds, str]] = {}
        self._by_origin = self._origins()

    def holds(self, name: str) -> tuple[Holds, str]:
        """What the cores hold after an operation, and of which operation of the first program."""
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def counterparts(self, name: str) -> list[str]:
        """Operations of the first program that may be this one, the likeliest first."""
        operation = self.b.operations.get(name)
        if operation is not None and operation.opcode in _COLLECTIVES and self.a.operations:
            return self._of_operands(name)
        if operation is None or not operation.origin or not self._by_origin:
            return [name] if name in self.record_a.values else []
        found = self._by_origin.get((operation.origin, operation.opcode), [])
        same = [each for each in self.record_b.values if self._key(each) == self._key(name)]
        at = min(same.index(name) if name in same else 0, max(len(found) - 1, 0))
        return [*found[at:], *found[:at]]

    def _of_operands(self, name: str) -> list[str]:
        found: list[str] = []
        of_input = {each.b: each.a for each in self.inputs.each}
        for each in sorted(self.record_b.reads.get(name, set()) - {name}):
            if each in self.record_b.values:
                holds, which = self.holds(each)
                found += [which] if holds in _RIGHT else []
            elif each in of_input:
                found.append(of_input[each])
        return found

    def differences(self, name: str, counterpart: str) -> list[tuple[int, Difference]]:
        """The cores whose values differ from those of the counterpart."""
        found = []
        for core, want, got in self._aligned(name, counterpart):
            difference = self._compare(want, got)
            if difference.count:
                found.append((core, difference))
        return found

    def transposed(self, name: str, counterpart: str) -> tuple[int, ...]:
        """The order of dimensions in which all cores have the counterpart's values; empty if there is none."""
        aligned = list(self._aligned(name, counterpart))
        rank = aligned[0][1].ndim if aligned else 0
        for order in itertools.islice(itertools.permutations(range(rank)), 1, math.factorial(_MAX_RANK)):
            turned = [(want.transpose(order), got) for _, want, got in aligned]
            if all(w.shape == g.shape and not self._compare(w, g).count for w, g in turned):
                return order
        return ()

    def _aligned(self, name: str, counterpart: str) -> Iterator[tuple[int, Array, Array]]:
        ours, theirs = self._values(self.record_a, self.a, counterpart), self._values(self.record_b, self.b, name)
        for core, got in sorted(theirs.items()):
            want = ours.get(core if self.by_core else 0)
            if want is None or want.dtype != got.dtype:
                continue
            if want.shape == got.shape:
                yield core, want, got
            elif layouts := ([] if self.by_core else by_shapes(want.shape, got.shape, self.b.program.lnc)):
                part = want[layouts[0].slices(got.shape, core)]
                yield core, part, got[tuple(slice(0, n) for n in part.shape)]

    def _look(self, name: str) -> tuple[Holds, str]:
        theirs = self._values(self.record_b, self.b, name)
        other = []
        for each in self.counterparts(name):
            found = self._held(self._values(self.record_a, self.a, each), theirs)
            if found in _RIGHT:
                return found, each
            if found is not Holds.UNKNOWN:
                other.append((found, each))
        if not other:
            return Holds.UNKNOWN, ""
        return min(other, key=lambda each: (each[0] is not Holds.MOVED, self._farthest(name, each[1])))

    def _farthest(self, name: str, counterpart: str) -> float:
        return max((each.largest for _, each in self.differences(name, counterpart)), default=0.0)

    def _held(self, ours: dict[int, Array], theirs: dict[int, Array]) -> Holds:
        cores = self.b.program.lnc
        if self.by_core:
            pairs = [(ours.get(core), got) for core, got in theirs.items()]
            fits = [(want, got) for want, got in pairs if want is not None and self._alike(want, got)]
            if not fits or len(fits) < len(pairs):
                return Holds.UNKNOWN
            return Holds.ALL if not any(self._compare(*each).count for each in fits) else Holds.OTHER
        want = ours.get(0)
        if want is None or not theirs or any(want.dtype != got.dtype for got in theirs.values()):
            return Holds.UNKNOWN
        got = list(theirs.values())
        if len(got) < cores:  # One core does it for all.
            return self._tiled(want, got, complete=False)
        if any(each.shape != got[0].shape for each in got):
            return Holds.UNKNOWN
        found = self._tiled(want, got)
        if found is not Holds.OTHER or want.dtype.kind == "b":
            return found
        for holds, members in itertools.product(_PARTIAL, _groups(cores)):
            with np.errstate(all="ignore"):
                joined = [_PARTIAL[holds].reduce([got[core] for core in group]) for group in members]
            each = [joined[next(i for i, group in enumerate(members) if core in group)] for core in range(cores)]
            if self._tiled(want, each) is Holds.ALL:
                return holds
        return found

    def _tiled(self, want: Array, got: Sequence[Array], *, complete: bool = True) -> Holds:
        """Whether every core has all of it, or its tile."""
        cores, shape = self.b.program.lnc, got[0].shape
        if shape == want.shape:
            return Holds.OTHER if any(self._compare(want, each).count for each in got) else Holds.ALL
        layouts = by_shapes(want.shape, shape, cores)
        if not layouts or not complete:
            return Holds.UNKNOWN
        counts = layouts[0].tiles.counts
        more = [each for each in self.known if each.tiles.counts == counts]
        for layout in [*layouts, *more]:
            if all(self._has(want[layout.slices(shape, core)], value) for core, value in enumerate(got)):
                return Holds.ALL
        places = {layouts[0].tiles.of_core[core]: layouts[0].slices(shape, core) for core in range(cores)}
        held = [{at for at, place in places.items() if self._has(want[place], value)} for value in got]
        return Holds.MOVED if all(held) and set().union(*held) == set(places) else Holds.OTHER

    def _has(self, part: Array, value: Array) -> bool:
        return not self._compare(part, value[tuple(slice(0, n) for n in part.shape)]).count

    def _alike(self, want: Array, got: Array) -> bool:
        return want.dtype == got.dtype and want.shape == got.shape

    def _compare(self, want: Array, got: Array) -> Difference:
        return self.tolerance.times(_WIDER, want.dtype).compare(want, got)

    def _values(self, record: Record, source: Source, name: str) -> dict[int, Array]:
        """The value of an operation on each core, in the shape that the text gives it."""
        operation = source.operations.get(name)
        if name not in record.values and source is self.a:
            keys = {core: f"{source.module(core)}/{name}" for core in range(source.program.lnc)}
            return {core: self.inputs.a[key] for core, key in keys.items() if key in self.inputs.a}
        written = record.values.get(name, {})
        found = {core: _shaped(each, operation.dims if operation else None) for core, each in written.items()}
        owners = {each.owner for each in written.values()}
        if len(written) > 1 and len(owners) == 1 and not operation:
            # The cores have written parts of one location.
            last = max(written.values(), key=lambda each: each.step)
            if last.whole is not None:
                return dict.fromkeys(written, last.whole)
        return found

    def _origins(self) -> dict[tuple[str, str], list[str]]:
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name in self.record_a.values:
            operation = self.a.operations.get(name)
            if operation is not None and operation.origin:
                found[operation.origin, operation.opcode].append(name)
        return dict(found)

    def _key(self, name: str) -> tuple[str, str]:
        operation = self.b.operations.get(name)
        return (operation.origin, operation.opcode) if operation is not None else ("", name)


def find_first(matcher: Matcher, result: str) -> FirstDifference | None:
    """The first operation that differs, on a way to a result; None if none is found."""
    record = matcher.record_b
    starts = record.writers.get(result, set()) & record.values.keys()
    met = _met(matcher, starts)
    order = [name for name in record.values if name in met]
    first = next((name for name in order if matcher.holds(name)[0] is Holds.OTHER), None)
    if first is None:
        partial = [name for name in record.values if name in starts and matcher.holds(name)[0] in _PARTIAL]
        first = next(iter([*order, *partial]), None)
    if first is None:
        return None
    holds, counterpart = matcher.holds(first)
    before = _met(matcher, {first}, always={first})
    reads = set().union(*(record.reads.get(name, set()) for name in before)) - before
    held = [(name, matcher.holds(name)[0]) for name in record.values if name in reads]
    right = list(dict.fromkeys((_made_by(matcher, name, how), how) for name, how in held))
    right += [(name, Holds.ALL) for name in sorted(reads - record.values.keys())]
    cores = matcher.differences(first, counterpart) if counterpart else []
    return FirstDifference(
        first,
        counterpart,
        next(iter(record.values[first].values())).row,
        next((each.row for each in matcher.record_a.values.get(counterpart, {}).values()), -1),
        tuple(cores),
        tuple(right),
        tuple(name for name in record.values if name in before and name != first),
        _through(matcher, first),
        matcher.transposed(first, counterpart) if counterpart else (),
        holds,
        record.is_complete and matcher.record_a.is_complete,
    )


def _through(matcher: Matcher, name: str) -> tuple[str, ...]:
    """Operations between one and the instructions that it reads which move elements."""
    operations, found, seen = matcher.b.operations, [], {name}
    todo = list(operations[name].operands) if name in operations else []
    while todo:
        each = todo.pop(0)
        if each in seen or each not in operations or each in matcher.record_b.values:
            continue
        seen.add(each)
        if operations[each].opcode in _MOVING:
            found.append(each)
        todo += operations[each].operands
    return tuple(found)


def _made_by(matcher: Matcher, name: str, holds: Holds) -> str:
    """The operation that makes the parts which an operation holds; the operation itself where it has no parts."""
    seen = {name}
    while holds in _PARTIAL:
        reads = matcher.record_b.reads.get(name, set())
        before = [each for each in reads if each not in seen and matcher.holds(each)[0] is holds]
        if not before:
            break
        name = before[0] if len(before) == 1 else min(before)
        seen.add(name)
    return name


def _met(matcher: Matcher, starts: set[str], always: frozenset[str] | set[str] = frozenset()) -> set[str]:
    """Operations on the way back from some, as far as the first right ones."""
    record = matcher.record_b
    met: set[str] = set()
    todo = list(starts)
    while todo:
        name = todo.pop()
        if name in met or name not in record.values:
            continue
        if name not in always and matcher.holds(name)[0] in _RIGHT:
            continue
        met.add(name)
        todo += record.reads.get(name, set())
    return met


def _groups(cores: int) -> list[list[list[int]]]:
    """Ways to group the cores: neighbours, or cores that are equally far apart."""
    found = []
    for size in range(cores, 1, -1):
        if cores % size == 0:
            count = cores // size
            found.append([list(range(at * size, (at + 1) * size)) for at in range(count)])
            if count > 1:
                found.append([list(range(at, cores, count)) for at in range(count)])
    return found


def _shaped(written: Written, dims: tuple[int, ...] | None) -> Array:
    value = written.value if written.pieces == 1 or written.whole is None else written.whole
    if dims is not None and math.prod(dims) == value.size:
        return value.reshape(dims)
    return value
