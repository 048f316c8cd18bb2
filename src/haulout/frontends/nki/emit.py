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
instruction's attribute `maybe=[operand, ...]` (reads first). Writes of a tensor that all cores fill with the same
values (`duplicates.py`) are listed in `duplicate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from haulout.frontends.nki.diagnose import place_text, shown_path, span_at
from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.duplicates import find_duplicates, shared_key
from haulout.frontends.nki.emit_core import CoreEmitter
from haulout.frontends.nki.one_partition import narrow_tensors
from haulout.frontends.nki.recorder import Recorder
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.trace import Trace
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Kind, Space
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


def emit(trace: Trace, *, barrier_scope: BarrierScope = "data", for_check: bool = False) -> Emitted:
    """The program of a trace that came to its end.

    `for_check`: a program that has the same findings and is no more to be compiled. A shared tensor that all cores
    fill with the same values (`duplicates.py`) is one tensor a core, which is the same for every reader and has no
    race; a note says so. An on-chip tensor that is accessed alike in all partitions has one of them
    (`one_partition.py`).
    """
    duplicates = find_duplicates(trace)
    findings = [*trace.findings.items, *(_duplicate(trace, key) for key in duplicates)]
    build = ProgramBuilder(trace.name, trace.cores, file=shown_path(trace.place[0]) or None)
    for recorder in trace.recorders:
        narrow = narrow_tensors(recorder) if for_check else {}
        _emit_core(build, trace, recorder, barrier_scope, set(duplicates), narrow, for_check)
    program = build.freeze()
    # Edges that an iteration carries are known when the loop ends, after the instruction that waits.
    order = np.argsort(program.dependences.instruction, kind="stable")
    return Emitted(program.replace(dependences=program.dependences.take(order)), findings, trace)


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
    narrow: dict[int, int],
    for_check: bool,
) -> None:
    function = build.function(build.module(f"nc{recorder.core}", recorder.core), trace.name)
    locations = []
    for storage in recorder.storages:
        alone, one = for_check and shared_key(storage) in duplicates, storage.number in narrow
        locations.append(_location(build, function, trace, recorder, storage, alone, one))
    alike = [] if for_check else recorder.storages
    same = {storage.number for storage in alike if shared_key(storage) in duplicates}
    CoreEmitter(build, function, recorder, locations, narrow, same, by_data=scope == "data").run()


# -- locations -------------------------------------------------------------------------------------------------------


def _location(
    build: ProgramBuilder,
    function: int,
    trace: Trace,
    recorder: Recorder,
    storage: Storage,
    alone: bool,
    narrow: bool,
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
        storage.row_bytes if narrow else storage.size,
        kind=_kind(storage, [twin for _, twin in known] or [storage]),
        align=1 if storage.address is not None else 64,
        dtype=None if narrow else element.stored,
        shape=None if narrow else storage.shape,
        remote=remote,
        address=storage.address,
        partition=None if storage.address is None else storage.partition,
        parts=(1 if narrow else storage.partitions) if storage.buffer.on_chip else None,
        loc=place_text(storage.place),
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
    return Kind.OUTPUT if any(twin.returned for twin in twins) else Kind.INTERNAL
