"""Shared tensors that every core fills with the same values: two writes that race and do no harm.

Value numbering, both cores side by side. Equal numbers mean equal values: an argument's number is the same on all
cores, an instruction's is made of what it does and the numbers of what it reads, what a `sendrecv` delivers has the
number of what the partner sent. Operands of a commutative operator count in either order, so `mine + received` is the
same on both sides. Between two meetings a core sees its own writes of a shared tensor, after them everybody's.

A tensor is a *duplicate* when all cores write the same values through the same patterns, and patterns that meet are
the same pattern with one value: whoever writes last, every byte ends up the same, and was never anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from haulout.frontends.nki.byte_sets import meet
from haulout.frontends.nki.recorder import BarrierDetail, LoopDetail, MeetingDetail, Operand, Record, Recorder
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.trace import Trace
from haulout.ir.patterns import Pattern

MOST_PARTS = 32
"""Parts of one tensor that are told apart; more become one."""
COMMUTATIVE = frozenset(
    {"add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or"}
)

Parts = dict[Pattern | None, int]
"""Pattern -> value number, in the order of the writes."""


@dataclass(slots=True)
class _Numbers:
    """Terms to value numbers."""

    known: dict[Any, int] = field(default_factory=dict)

    def of(self, *term: Any) -> int:
        return self.known.setdefault(term, len(self.known))


@dataclass(slots=True)
class _Core:
    """One core on its way through its records."""

    recorder: Recorder
    parts: dict[Any, Parts] = field(default_factory=dict)
    fresh: list[tuple[Any, Pattern | None, int]] = field(default_factory=list)
    """Writes of shared tensors since the last meeting."""
    written: dict[Any, list[tuple[Pattern | None, int]]] = field(default_factory=dict)
    at: int = 0
    depth: int = 0
    """Loops around the record at hand."""


def find_duplicates(trace: Trace) -> dict[Any, Storage]:
    """Shared tensors (by `shared_key`) that are duplicates, with core 0's storage of each."""
    if trace.cores < 2 or not _candidates(trace):
        return {}
    cores = [_Core(recorder) for recorder in trace.recorders]
    numbers = _Numbers()
    if not _run(cores, numbers):
        return {}
    found = {}
    for storage in trace.recorders[0].storages:
        key = shared_key(storage)
        if key is None:
            continue
        writes = [core.written.get(key, []) for core in cores]
        values = set(writes[0])
        patterns = {pattern for pattern, _ in values}
        same = all(writes) and all(set(each) == values for each in writes)
        if same and len(patterns) == len(values) and _apart(patterns, storage.size):
            found[key] = storage
    return found


def shared_key(storage: Storage) -> Any:
    """What a tensor that all cores see is called on every core; None for the others."""
    if storage.buffer is not Buffer.shared_hbm:
        return None
    return ("shared", storage.shared_number) if storage.shared_number is not None else ("given", storage.number)


def _candidates(trace: Trace) -> bool:
    """Whether all cores write some shared tensor through the same patterns, which are apart; mostly there is none."""
    sides = []
    for recorder in trace.recorders:
        patterns: dict[Any, set[Pattern | None]] = {}
        keys = [shared_key(storage) if storage.written else None for storage in recorder.storages]
        for record in recorder.records:
            for number, pattern in record.writes:
                if keys[number] is not None:
                    patterns.setdefault(keys[number], set()).add(pattern)
        sides.append(patterns)
    sizes = {shared_key(storage): storage.size for storage in trace.recorders[0].storages}
    return any(
        all(side.get(key) == patterns for side in sides[1:]) and _apart(patterns, sizes.get(key, 0))
        for key, patterns in sides[0].items()
    )


def _apart(patterns: set[Pattern | None], size: int) -> bool:
    """Whether no two of the patterns meet; of many, judged by their hulls."""
    if len(patterns) <= MOST_PARTS:
        return not any(meet(*pair) for pair in combinations([each or Pattern(0, size) for each in patterns], 2))
    hulls = sorted((pattern or Pattern(0, size)).hull for pattern in patterns)
    return all(first[1] <= second[0] for first, second in pairwise(hulls))


# -- both cores side by side -----------------------------------------------------------------------------------------


def _run(cores: list[_Core], numbers: _Numbers) -> bool:
    """Number the writes of all cores, from meeting to meeting; False when their meetings do not agree."""
    while True:
        stops = [_segment(core, numbers) for core in cores]
        if all(stop is None for stop in stops):
            return True
        if any(stop is None for stop in stops) or len({type(stop.detail) for stop in stops if stop}) > 1:
            return False
        _deliver(cores, [stop for stop in stops if stop], numbers)
        for core in cores:
            for other in cores:
                if other is not core:
                    for key, pattern, value in core.fresh:
                        _write(other.parts.setdefault(key, {}), pattern, value, numbers)
        for core in cores:
            core.fresh = []
            core.at += 1


def _segment(core: _Core, numbers: _Numbers) -> Record | None:
    """Run a core up to its next meeting, and return that."""
    records = core.recorder.records
    while core.at < len(records):
        record = records[core.at]
        if isinstance(record.detail, LoopDetail):
            core.depth += 1 if record.detail.begins else -1
        elif record.detail is not None:
            return record
        _step(core, record, numbers)
        core.at += 1
    return None


def _deliver(cores: list[_Core], stops: list[Record], numbers: _Numbers) -> None:
    """What a `sendrecv` brings has the number of what was sent."""
    sent = []
    for core, stop in zip(cores, stops, strict=True):
        reads = [_read(core, operand, numbers) for operand in stop.reads[:1]]
        sent.append(reads[0] if reads else 0)
    for core, stop in zip(cores, stops, strict=True):
        if isinstance(stop.detail, MeetingDetail):
            for number, pattern in stop.writes:
                _write(_parts(core, number), pattern, sent[stop.detail.source], numbers)
        assert isinstance(stop.detail, MeetingDetail | BarrierDetail)


def _step(core: _Core, record: Record, numbers: _Numbers) -> None:
    reads = {operand: _read(core, operand, numbers) for operand in record.reads}
    given = record.given
    if given is None or core.depth:
        # Not in the table, or another value in each iteration: what it computes is nobody else's.
        term: tuple[Any, ...] = ("own", core.recorder.core, core.at)
    else:
        terms = [(name, _term(value, reads, numbers)) for name, value in given.items() if name not in ("dst", "name")]
        if record.opcode == "nki.tensor_tensor" and getattr(given.get("op"), "__name__", "") in COMMUTATIVE:
            pair = sorted(str(value) for name, value in terms if name in ("data1", "data2"))
            terms = [("operands", tuple(pair)), *(term for term in terms if term[0] not in ("data1", "data2"))]
        # What is read without being named: destinations that are added to.
        named = {operand for name, value in given.items() if name != "dst" for operand in _operands(value)}
        rest = tuple(sorted(reads[operand] for operand in record.reads if operand not in named))
        term = (record.opcode, tuple(terms), rest)
    for position, (number, pattern) in enumerate(record.writes):
        value = numbers.of(*term, position)
        if len(record.reads) + position in record.maybe:
            value = numbers.of("some", value, _read(core, (number, pattern), numbers))
        key = shared_key(core.recorder.storages[number])
        _write(_parts(core, number), pattern, value, numbers)
        if key is not None:
            core.fresh.append((key, pattern, value))
            core.written.setdefault(key, []).append((pattern, value))


def _operands(value: Any) -> list[Operand]:
    """The operands of an argument."""
    if isinstance(value, Tensor):
        own = [(value.storage.number, pattern) for pattern in value.bytes().patterns]
        return own + [operand for index in value.index_operands() for operand in _operands(index)]
    return [operand for each in value for operand in _operands(each)] if isinstance(value, list | tuple) else []


def _term(value: Any, reads: dict[Operand, int], numbers: _Numbers) -> Any:
    """An argument as part of a term: tensors by number and layout, everything else by its text."""
    if isinstance(value, Tensor):
        known = tuple(reads.get((value.storage.number, pattern), -1) for pattern in value.bytes().patterns)
        index = value.indirect.index if value.indirect is not None else None
        return (
            known,
            value.dtype,
            value.shape,
            value.strides[1:],
            None if index is None else _term(index, reads, numbers),
        )
    if isinstance(value, list | tuple):
        return tuple(_term(each, reads, numbers) for each in value)
    return getattr(value, "__name__", None) or repr(value)


# -- what a tensor holds ---------------------------------------------------------------------------------------------


def _parts(core: _Core, number: int) -> Parts:
    storage = core.recorder.storages[number]
    key = shared_key(storage)
    return core.parts.setdefault(("own", number) if key is None else key, {})


def _read(core: _Core, operand: Operand, numbers: _Numbers) -> int:
    number, pattern = operand
    storage = core.recorder.storages[number]
    parts = _parts(core, number)
    if list(parts) == [pattern]:
        return parts[pattern]
    key = shared_key(storage)
    given = key or (("constant", storage.name) if storage.constant else None)
    low, high = (pattern or Pattern(0, storage.size)).hull
    seen = []
    for part, value in parts.items():
        begin, end = (part or Pattern(0, storage.size)).hull
        if begin < high and low < end:
            seen.append((str(part), value))
    if seen and seen[-1][0] == str(pattern):
        return seen[-1][1]
    return numbers.of("part", str(pattern), given, tuple(sorted(seen)))


def _write(parts: Parts, pattern: Pattern | None, value: int, numbers: _Numbers) -> None:
    if pattern is None:
        parts.clear()
    parts.pop(pattern, None)
    parts[pattern] = value
    if len(parts) > MOST_PARTS:
        whole = numbers.of("many", tuple(sorted((str(part), number) for part, number in parts.items())))
        parts.clear()
        parts[None] = whole
