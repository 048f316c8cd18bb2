"""The recordings of all cores as one program.

    locations      on-chip tensors and private HBM belong to one core; shared HBM is an allocation of core 0 and a
                   view elsewhere. Shared allocations of one name are one tensor, and of those without a name the k-th
                   of every core; arguments are matched by their order.
    instructions   one for each record, named by its opcode and its position; `loc` is the line of the kernel
    core_barrier   two interpretations, `barrier_scope`:
                     data    as documented: on its own engine; it orders the accesses of its tensor before and after
                             it, and no other accesses.
                     global  a fence of all engines, DMA included
    sendrecv       a `sendrecv`; its pipe is the tag

If an operand touches an unknown subset of bytes, its pattern covers all of them, and the attribute
`maybe=[operand, ...]` lists it (reads first). `args` has all arguments of the instruction (`emit_args.py`). An output
is `partial` if the values of indices decide which of its rows are written.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np

from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.emit_core import CoreEmitter
from haulout.frontends.nki.findings import place_text, shown_path
from haulout.frontends.nki.lint import lint
from haulout.frontends.nki.one_partition import narrow_tensors
from haulout.frontends.nki.recorder import Recorder
from haulout.frontends.nki.scatter import filled_by_indices
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.trace import BarrierScope, Trace
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Kind, Space
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic

_SPACES = {
    Buffer.sbuf: Space.SBUF,
    Buffer.psum: Space.PSUM,
    Buffer.private_hbm: Space.DRAM_LOCAL,
    Buffer.shared_hbm: Space.DRAM_SHARED,
}


@dataclass(slots=True)
class Emitted:
    """A traced kernel as a program, and what was found on the way: while tracing, and by `lint`."""

    program: Program
    findings: list[Diagnostic]
    trace: Trace


def emit(trace: Trace, *, barrier_scope: BarrierScope = "data", narrow: bool = False) -> Emitted:
    """The program of a trace that came to its end.

    `narrow`: a program with the same findings on order that is not for compiling: an on-chip tensor that is accessed
    alike in all partitions has one of them (`one_partition.py`).
    """
    build = ProgramBuilder(trace.name, trace.cores, file=shown_path(trace.place[0]) or None)
    by_indices = filled_by_indices(trace)
    for recorder in trace.recorders:
        function = build.function(build.module(f"nc{recorder.core}", recorder.core), trace.name)
        narrowed = narrow_tensors(recorder) if narrow else {}
        locations = [
            _location(build, function, trace, storage, recorder.core, storage.number in narrowed, by_indices)
            for storage in recorder.storages
        ]
        CoreEmitter(build, function, recorder, locations, narrowed, by_data=barrier_scope == "data").run()
    program = build.freeze()
    # Edges that an iteration carries are known when the loop ends, after the instruction that waits.
    order = np.argsort(program.dependences.instruction, kind="stable")
    findings = [*trace.findings.items, *lint(trace, barrier_scope)]
    return Emitted(program.replace(dependences=program.dependences.take(order)), findings, trace)


# -- locations -------------------------------------------------------------------------------------------------------


def _location(
    build: ProgramBuilder,
    function: int,
    trace: Trace,
    storage: Storage,
    core: int,
    narrow: bool,
    by_indices: set[tuple[str, int]],
) -> int:
    shared = storage.buffer is Buffer.shared_hbm
    twins = {each.core: _twin(each, storage) for each in trace.recorders} if shared else {}
    known = [(core, twin) for core, twin in twins.items() if twin is not None and twin.size == storage.size]
    remote = None
    if known and known[0][0] != core:
        remote = (known[0][1].name, known[0][0])
    element = ELEMENT_TYPES[storage.dtype]
    kind = _kind(storage, [twin for _, twin in known] or [storage])
    partial = kind is Kind.OUTPUT and remote is None and storage.place in by_indices
    return build.location(
        function,
        storage.name,
        _SPACES[storage.buffer],
        storage.row_bytes if narrow else storage.size,
        kind=kind,
        align=1 if storage.address is not None else 64,
        dtype=None if narrow else element.stored,
        shape=None if narrow else storage.shape,
        remote=remote,
        address=storage.address,
        partition=None if storage.address is None else storage.partition,
        parts=(1 if narrow else storage.partitions) if storage.buffer.on_chip else None,
        loc=place_text(storage.place),
        attrs=({"partial": True} if partial else {}) | _for_simulation(storage, narrow),
    )


def _for_simulation(storage: Storage, narrow: bool) -> dict[str, AttrValue]:
    """What a constant holds before the kernel starts, and the loop that allocates a tensor of PSUM."""
    if storage.loop is not None and storage.buffer is Buffer.psum:
        return {"loop": storage.loop}
    if not storage.constant or narrow:
        return {}
    if storage.identity:
        return {"filled": "identity"}
    if storage.array is None:
        return {}
    stored = np.ascontiguousarray(storage.array.astype(NUMPY[ELEMENT_TYPES[storage.dtype].stored]))
    return {"filled": base64.b64encode(stored.tobytes()).decode()}


def _twin(recorder: Recorder, storage: Storage) -> Storage | None:
    """The same tensor on another core: by order among the arguments or the shared allocations."""
    if storage.shared_number is None:
        if storage.number < len(recorder.storages):
            found = recorder.storages[storage.number]
            return found if (found.argument or found.constant) and found.name == storage.name else None
        return None
    return recorder.shared_storage(storage.shared_number)


def _kind(storage: Storage, twins: list[Storage]) -> Kind:
    written = any(twin.written for twin in twins)
    if storage.constant or storage.argument:
        return Kind.INOUT if written else Kind.INPUT
    return Kind.OUTPUT if any(twin.returned for twin in twins) else Kind.INTERNAL
