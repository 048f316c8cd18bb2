"""Barriers of a traced kernel without effect, or on a tensor that is not shared.

A barrier orders accesses if one before it on one core and one after it on another touch a common byte of its tensor
(with global scope: of any shared tensor), and one of them writes. Without such a pair the barrier has no effect
inside the kernel. It may still order the kernel and the code that runs after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from haulout.frontends.nki.byte_sets import overlap
from haulout.frontends.nki.findings import Findings, span_at
from haulout.frontends.nki.recorder import BarrierDetail, LoopDetail, Record, Recorder
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.trace import BarrierScope, Trace
from haulout.ir.patterns import Pattern
from haulout.support.diagnostics import Label, Severity

MAX_PAIRS = 1 << 16
"""Pairs of accesses that are compared for one barrier; then it is taken to order something."""


@dataclass(frozen=True, slots=True)
class _Access:
    """An access of a shared tensor: where in the core's list, what, and which bytes."""

    at: int
    key: object
    pattern: Pattern
    write: bool


def check_barriers(trace: Trace, scope: BarrierScope, findings: Findings) -> None:
    """`barrier-not-shared`, `adjacent-barriers`, `redundant-barrier`."""
    barriers = [_barriers(recorder) for recorder in trace.recorders]
    for recorder, rows in zip(trace.recorders, barriers, strict=True):
        for at in rows:
            _check_shared(recorder, recorder.records[at], findings)
    if trace.cores < 2:
        for at in barriers[0]:
            findings.add(
                "redundant-barrier",
                "this barrier has one participant: the kernel runs on one core",
                severity=Severity.NOTE,
                place=trace.recorders[0].records[at].place,
            )
        return
    if len({len(rows) for rows in barriers}) > 1:
        return
    accesses = [_shared_accesses(recorder) for recorder in trace.recorders]
    previous: tuple[int, ...] | None = None
    for meeting in zip(*barriers, strict=True):
        records = [recorder.records[at] for recorder, at in zip(trace.recorders, meeting, strict=True)]
        if previous is not None and _nothing_between(trace, previous, meeting, scope):
            before = trace.recorders[0].records[previous[0]]
            findings.add(
                "adjacent-barriers",
                "this barrier repeats another: no core accesses what they order between them",
                severity=Severity.NOTE,
                place=records[0].place,
                label="this barrier",
                more=[Label("and this one before it", span_at(before.place))],
                help=["remove one of them"],
            )
        elif not _orders(accesses, trace, meeting, records, scope):
            data = _tensor(trace.recorders[0], records[0])
            findings.add(
                "redundant-barrier",
                f"this barrier orders no accesses inside the kernel: no byte of {data} is accessed by one core "
                "before it and by another after it, with a write among them",
                severity=Severity.NOTE,
                place=records[0].place,
                notes=["it may still order the kernel and the code that runs after it"],
                help=["remove it if no code outside of the kernel needs it"],
            )
        previous = meeting


def _barriers(recorder: Recorder) -> list[int]:
    return [at for at, record in enumerate(recorder.records) if isinstance(record.detail, BarrierDetail)]


def _tensor(recorder: Recorder, record: Record) -> str:
    return recorder.storages[int(record.detail.data)].name


def _check_shared(recorder: Recorder, record: Record, findings: Findings) -> None:
    storage = recorder.storages[record.detail.data]
    if storage.buffer is Buffer.shared_hbm:
        return
    findings.add(
        "barrier-not-shared",
        f"the barrier's tensor {storage.describe()} is not in shared HBM: the other core does not see it, so "
        "the barrier orders no access of that core",
        severity=Severity.WARNING,
        place=record.place,
        subject=storage.name,
        more=[Label(storage.describe(), span_at(storage.place))],
        help=["name the `nl.shared_hbm` tensor that the cores exchange"],
    )


def _nothing_between(trace: Trace, first: tuple[int, ...], second: tuple[int, ...], scope: BarrierScope) -> bool:
    """Whether both order the same tensor, and between them no core touches it (with global scope: any shared one)."""
    for recorder, begin, end in zip(trace.recorders, first, second, strict=True):
        data = recorder.records[begin].detail.data
        if recorder.records[end].detail.data != data:
            return False
        for record in recorder.records[begin + 1 : end]:
            if isinstance(record.detail, LoopDetail):
                return False
            for number, _ in (*record.reads, *record.writes):
                if number == data or (scope == "global" and recorder.storages[number].shared_key is not None):
                    return False
    return True


def _shared_accesses(recorder: Recorder) -> list[_Access]:
    found = []
    for at, record in enumerate(recorder.records):
        if isinstance(record.detail, BarrierDetail):
            continue
        for write, operands in ((False, record.reads), (True, record.writes)):
            for number, pattern in operands:
                key = recorder.storages[number].shared_key
                if key is not None:
                    found.append(_Access(at, key, pattern or Pattern(0, recorder.storages[number].size), write))
    return found


def _orders(
    accesses: list[list[_Access]], trace: Trace, rows: tuple[int, ...], records: list[Record], scope: BarrierScope
) -> bool:
    """Whether some access before it on one core meets one after it on another."""
    keys = None
    if scope == "data":
        keys = {
            recorder.storages[record.detail.data].shared_key
            for recorder, record in zip(trace.recorders, records, strict=True)
        }
    compared = 0
    # Inside a loop, what follows the barrier comes before it in the next iteration.
    spans = [
        next((span for span in recorder.outermost_loops() if span[0] < row < span[1]), (row, row))
        for recorder, row in zip(trace.recorders, rows, strict=True)
    ]
    for core, mine in enumerate(accesses):
        for other, theirs in enumerate(accesses):
            if core == other:
                continue
            before = [each for each in mine if each.at < spans[core][1] and (keys is None or each.key in keys)]
            after = [each for each in theirs if each.at > spans[other][0] and (keys is None or each.key in keys)]
            compared += len(before) * len(after)
            if compared > MAX_PAIRS:
                return True
            if any(_meet(one, two) for one in before for two in after):
                return True
    return False


def _meet(one: _Access, two: _Access) -> bool:
    return one.key == two.key and (one.write or two.write) and overlap(one.pattern, two.pattern)
