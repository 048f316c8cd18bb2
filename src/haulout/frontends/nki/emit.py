"""Recordings of all cores to one program.

    locations      on-chip tensors and private HBM are each core's own; shared HBM is core 0's allocation, a view
                   elsewhere. The k-th shared allocation of every core is one tensor; arguments are matched by their
                   order.
    instructions   one a record, named by what it is and its position; `loc` is the kernel's line
    core_barrier   two readings, `barrier_scope`:
                     data    the documented one: on its own engine; it waits for what touched its tensor before, and
                             what touches the tensor after waits for it. Nothing else is ordered by it.
                     global  a fence of everything, engines and DMA
    sendrecv       a meeting, its pipe is the tag

An operand of which some bytes are touched, not known which, has a pattern that covers them all and is listed in the
instruction's attribute `maybe=[operand, ...]` (reads first).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from haulout.frontends.nki.diagnose import shown_path, span_at
from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.duplicates import find_duplicates, shared_key
from haulout.frontends.nki.recorder import BarrierDetail, MeetingDetail, Operand, Record, Recorder
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.trace import Trace
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Label, Severity

BarrierScope = Literal["data", "global"]

_SPACES = {
    Buffer.sbuf: Space.SBUF,
    Buffer.psum: Space.PSUM,
    Buffer.private_hbm: Space.DRAM_LOCAL,
    Buffer.shared_hbm: Space.DRAM_SHARED,
}


@dataclass(slots=True)
class Emitted:
    """A traced kernel as a program, and what is not in the program's tables."""

    program: Program
    findings: list[Diagnostic]
    trace: Trace


@dataclass(slots=True)
class _Gate:
    """The newest barrier on a tensor, and the engines that wait for it already."""

    barrier: int
    passed: set[Engine] = field(default_factory=set)


def emit(trace: Trace, *, barrier_scope: BarrierScope = "data", split_duplicates: bool = False) -> Emitted:
    """The program of a trace that came to its end.

    `split_duplicates`, for checking alone: a shared tensor that all cores fill with the same values (`duplicates.py`)
    is one tensor a core, which is the same for every reader and has no race; a note says so.
    """
    duplicates = find_duplicates(trace) if split_duplicates else {}
    findings = [*trace.findings.items, *(_duplicate(trace, key) for key in duplicates)]
    build = ProgramBuilder(trace.name, trace.cores, file=shown_path(trace.place[0]) or None)
    for recorder in trace.recorders:
        _emit_core(build, trace, recorder, barrier_scope, set(duplicates))
    return Emitted(build.freeze(), findings, trace)


def _duplicate(trace: Trace, key: Any) -> Diagnostic:
    """The note about a tensor that all cores fill alike, at the first write of each."""
    labels = []
    name = ""
    for recorder in trace.recorders:
        number, name = next((each.number, each.name) for each in recorder.storages if shared_key(each) == key)
        first = next(record for record in recorder.records if any(other == number for other, _ in record.writes))
        labels.append(Label(f"core {recorder.core} writes {name}", span_at(first.place)))
    message = f"all cores write the same values to {name}"
    note = "the writes are in no order, and it does no harm: every byte gets one value, whoever is last"
    help_text = "to save the work, let one core write, or give each core its part"
    return Diagnostic("benign-duplicate-write", Severity.NOTE, message, tuple(labels), (note,), (help_text,))


def _emit_core(
    build: ProgramBuilder,
    trace: Trace,
    recorder: Recorder,
    scope: BarrierScope,
    duplicates: set[Any],
) -> None:
    function = build.function(build.module(f"nc{recorder.core}", recorder.core), trace.name)
    locations = [
        _location(build, function, trace, recorder, storage, shared_key(storage) in duplicates)
        for storage in recorder.storages
    ]
    entry = build.block(function, "entry")
    gates: dict[int, _Gate] = {}
    latest: dict[int, dict[Engine, int]] = {}
    """Storage -> engine -> the last instruction there that touched it."""
    places: dict[tuple[str, int], str] = {}
    shown: dict[str, str] = {}
    for position, record in enumerate(recorder.records):
        loc = places.get(record.place)
        if loc is None and record.place[0]:
            file = shown.setdefault(record.place[0], shown_path(record.place[0]))
            loc = places.setdefault(record.place, f"{file}:{record.place[1]}")
        name = f"{record.opcode.removeprefix('nki.')}_{position}"
        if isinstance(record.detail, BarrierDetail):
            _barrier(build, entry, recorder, record, name, loc, scope, locations, gates, latest)
            continue
        reads = [(locations[number], pattern) for number, pattern in record.reads]
        writes = [(locations[number], pattern) for number, pattern in record.writes]
        opcode = record.opcode
        attrs: dict[str, AttrValue] = {"maybe": list(record.maybe)} if record.maybe else {}
        if record.zeros:
            # A copy of zeros is a fill: two of them do each other no harm.
            opcode, attrs["value"] = "memset", 0
        if isinstance(record.detail, MeetingDetail):
            to, source, pipe = record.detail
            row = build.sendrecv(
                entry, name, record.engine, to=to, source=source, tag=pipe, reads=reads, writes=writes, loc=loc
            )
        elif record.reads and record.writes and _clash(record.reads, record.writes, recorder.storages):
            # It reads and writes bytes that meet but differ: as reading, then writing, which its engine
            # keeps in order.
            count = len(reads)
            before: dict[str, AttrValue] = {"maybe": [at for at in record.maybe if at < count]}
            after: dict[str, AttrValue] = {**attrs, "maybe": [at - count for at in record.maybe if at >= count]}
            row = build.instruction(entry, f"{name}.in", opcode, record.engine, reads, attrs=before, loc=loc)
            _wait_for_gates(build, row, record, record.reads, gates)
            row = build.instruction(entry, name, opcode, record.engine, (), writes, attrs=after, loc=loc)
        else:
            row = build.instruction(entry, name, opcode, record.engine, reads, writes, attrs=attrs, loc=loc)
        if scope == "data":
            if gates:
                _wait_for_gates(build, row, record, (*record.reads, *record.writes), gates)
            for number, _ in (*record.reads, *record.writes):
                if recorder.storages[number].buffer.is_hbm:
                    latest.setdefault(number, {})[record.engine] = row


# -- locations -------------------------------------------------------------------------------------------------------


def _location(
    build: ProgramBuilder, function: int, trace: Trace, recorder: Recorder, storage: Storage, alone: bool
) -> int:
    shared = storage.buffer is Buffer.shared_hbm
    twins = {each.core: _twin(each, storage) for each in trace.recorders} if shared else {}
    known = [(core, twin) for core, twin in twins.items() if twin is not None and twin.size == storage.size]
    remote = None
    if known and known[0][0] != recorder.core and not alone:
        remote = (known[0][1].name, known[0][0])
    element = ELEMENT_TYPES[storage.dtype]
    return build.location(
        function,
        storage.name,
        _SPACES[storage.buffer],
        storage.size,
        kind=_kind(storage, [twin for _, twin in known] or [storage]),
        align=1 if storage.address is not None else 64,
        dtype=element.stored,
        shape=storage.shape,
        remote=remote,
        address=storage.address,
        partition=None if storage.address is None else storage.partition,
        parts=storage.partitions if storage.buffer.on_chip else None,
        loc=f"{shown_path(storage.place[0])}:{storage.place[1]}" if storage.place[0] else None,
    )


def _twin(recorder: Recorder, storage: Storage) -> Storage | None:
    """The same tensor on another core: by order among the arguments or the shared allocations."""
    if storage.shared_number is None:
        if storage.number < len(recorder.storages):
            found = recorder.storages[storage.number]
            return found if (found.argument or found.constant) and found.name == storage.name else None
        return None
    shared = recorder.shared_storages()
    return shared[storage.shared_number] if storage.shared_number < len(shared) else None


def _kind(storage: Storage, twins: list[Storage]) -> Kind:
    written = any(twin.written for twin in twins)
    if storage.constant or storage.argument:
        return Kind.INOUT if written else Kind.INPUT
    return Kind.OUTPUT if storage.buffer.is_hbm and any(twin.returned for twin in twins) else Kind.INTERNAL


# -- order -----------------------------------------------------------------------------------------------------------


def _barrier(
    build: ProgramBuilder,
    entry: int,
    recorder: Recorder,
    record: Record,
    name: str,
    loc: str | None,
    scope: BarrierScope,
    locations: list[int],
    gates: dict[int, _Gate],
    latest: dict[int, dict[Engine, int]],
) -> None:
    data, cores, given = record.detail
    rendezvous = given or f"on {recorder.storages[data].name}"
    everyone = set(cores) >= set(range(recorder.cores))
    waits: list[int] = []
    if scope == "data":
        waits = sorted(latest.get(data, {}).values())
        if data in gates and gates[data].barrier not in waits:
            waits.append(gates[data].barrier)
    row = build.barrier(
        entry,
        name,
        rendezvous,
        engine=record.engine if scope == "data" else Engine.ALL,
        cores=None if everyone else [core for core in cores if core < recorder.cores],
        reads=[locations[data]],
        deps=waits,
        loc=loc,
    )
    gates[data] = _Gate(row, {record.engine})
    latest.pop(data, None)


def _wait_for_gates(
    build: ProgramBuilder, row: int, record: Record, operands: tuple[Operand, ...], gates: dict[int, _Gate]
) -> None:
    """The first access of a tensor on each engine after a barrier on that tensor waits for the barrier."""
    for number, _ in operands:
        gate = gates.get(number)
        if gate is not None and record.engine not in gate.passed:
            gate.passed.add(record.engine)
            build.dependence(row, gate.barrier)


def _clash(reads: tuple[Operand, ...], writes: tuple[Operand, ...], storages: list[Storage]) -> bool:
    """Whether a read and a write of one storage meet in some bytes but not in all."""
    for number, pattern in writes:
        for other, seen in reads:
            if other == number and seen != pattern:
                size = storages[number].size
                if _meets(pattern or Pattern(0, size), seen or Pattern(0, size)):
                    return True
    return False


@lru_cache(maxsize=1 << 14)
def _meets(one: Pattern, other: Pattern) -> bool:
    if one.hull[1] <= other.hull[0] or other.hull[1] <= one.hull[0]:
        return False
    if not one.dims and not other.dims:
        return True
    return len(np.intersect1d(one.bytes(), other.bytes())) > 0
