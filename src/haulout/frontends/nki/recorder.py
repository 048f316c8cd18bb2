"""The recording of one core: storages and instructions in program order.

Every instruction is recorded, so the recorder keeps plain tuples and looks up the source line once. A DMA is on the
queue of its HBM tensor: transfers of one tensor share a queue, and unrelated transfers are unordered.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from haulout.frontends.nki.accessed import accessed
from haulout.frontends.nki.engines import runs_on
from haulout.frontends.nki.findings import Findings, kernel_frame, kernel_place, reject
from haulout.frontends.nki.hardware_matmul import Accumulation
from haulout.frontends.nki.hardware_rules import (
    check_accumulation,
    check_hardware,
    check_meeting,
    check_storage,
)
from haulout.frontends.nki.hardware_table import TARGETS
from haulout.frontends.nki.index_rules import check_indices
from haulout.frontends.nki.instructions import DMA, Instruction
from haulout.frontends.nki.layout import row_major
from haulout.frontends.nki.ranges import follow_range
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.shape_rules import UNCHANGED, check_rule, every_16th, shuffled
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.value_rules import follow
from haulout.ir.enums import Engine
from haulout.ir.patterns import Pattern
from haulout.ir.schema import SIZE_MAX
from haulout.support.diagnostics import Severity, bad_input

TENSOR_QUEUES = 12
"""DMA queues 0 to 11 belong to HBM tensors in turn; 12 to 15 to the pipes of `sendrecv`."""
PIPE_QUEUES = 4

Operand = tuple[int, Pattern | None]
"""(storage number, bytes of it; None: all)."""
_COPIES = frozenset({"dma_copy", "tensor_copy"})
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""What the text format cannot write in a name."""
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=[^=]")


class Record(NamedTuple):
    """One instruction."""

    opcode: str
    engine: Engine
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    maybe: tuple[int, ...]
    """Operands (reads first) of which some bytes are touched, not known which."""
    place: tuple[str, int]
    detail: Any = None
    """What a barrier or a sendrecv says besides."""
    given: Mapping[str, Any] | None = None
    """All arguments by parameter, where the table has the instruction."""


class BarrierDetail(NamedTuple):
    """Operands of a `core_barrier`."""

    data: int
    cores: tuple[int, ...]
    name: str | None


class MeetingDetail(NamedTuple):
    """Operands of a `sendrecv`."""

    to: int
    source: int
    pipe: str
    alike: bool = True
    """The two tensors have one element type, shape and order of elements."""


class LoopDetail(NamedTuple):
    """Where a loop begins or ends whose count only the device knows."""

    number: int
    begins: bool
    decides: tuple[Any, ...] | None = None
    """`("range", START, STOP, STEP)`, or `("while", FIRST, NEXT)`: the registers that go on unless they are zero."""


class Recorder:
    """Records one core. `cores` is the size of the launch grid, `core` the program id; `grid`: its axes, if there are
    several."""

    def __init__(
        self,
        core: int,
        cores: int,
        findings: Findings,
        *,
        trips: int | None = None,
        target: str = "gen3",
        grid: tuple[int, ...] = (),
        overwritten: frozenset[str] = frozenset(),
    ) -> None:
        if target not in TARGETS:
            bad_input(f"invalid target {target!r}", help=[f"one of {', '.join(TARGETS)}"])
        self.core, self.cores, self.findings = core, cores, findings
        self.trips, self.target, self.grid = trips, target, grid
        self.overwritten = overwritten
        """Arguments that some core is known to write: what they were given is not known to stay."""
        self.storages: list[Storage] = []
        self.records: list[Record] = []
        self.loops: list[tuple[str, int]] = []
        """Places of loops whose count is not known; a loop's number is its position."""
        self.registers: list[VirtualRegister] = []
        self.waits: dict[int, list[int]] = {}
        """Position of a record -> those of records that it waits for."""
        self.unknown: dict[str, tuple[tuple[str, int], tuple[str, ...]]] = {}
        """Instructions that have no row: where they were first met, and what is probably meant."""
        self.open: list[int] = []
        """Loops whose bodies are being recorded, the innermost last."""
        self._names: dict[str, int] = {}
        self._shared: dict[tuple[str, int], Storage] = {}
        self._queues: dict[int, Engine] = {}
        self._identities: dict[tuple[int, str], Tensor] = {}
        self._accumulation = Accumulation()

    # -- allocations -------------------------------------------------------------------------------------------------

    def allocate(
        self,
        shape: Sequence[int],
        dtype: str,
        buffer: Buffer,
        *,
        name: str | None = None,
        address: tuple[int, int] | None = None,
        argument: bool = False,
        constant: bool = False,
        place: tuple[str, int] | None = None,
    ) -> Tensor:
        """A new tensor; without a name it has that of the variable it is assigned to."""
        if place is None:
            place = kernel_place(2)
        shared = None
        if buffer is Buffer.shared_hbm and not argument and not constant:
            shared = (name or "", sum(each[0] == (name or "") for each in self._shared))
        storage = Storage(
            len(self.storages),
            self._unique(name or _variable(place) or buffer.value),
            tuple(shape),
            dtype,
            buffer,
            place,
            argument,
            constant,
            shared,
        )
        if storage.size > SIZE_MAX:
            reject(f"{storage.describe()} has more than 2**62 bytes", place=place)
        if not isinstance(storage.name, str) or _UNPRINTED.search(storage.name):
            reject(f"invalid name {storage.name!r} of a tensor", place=place)
        if address is not None and buffer.on_chip:
            storage.partition, storage.address = address
        storage.loop = self.open[-1] if self.open else None
        self.storages.append(storage)
        if shared is not None:
            self._shared[shared] = storage
        check_storage(storage, self.target, self.findings)
        return Tensor(storage, dtype, storage.shape, row_major(storage.shape))

    def _unique(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}.{count + 1}"

    def shared_storages(self) -> list[Storage]:
        """The shared allocations in order."""
        return list(self._shared.values())

    def shared_storage(self, number: tuple[str, int]) -> Storage | None:
        """The shared allocation of that name and count."""
        return self._shared.get(number)

    def overwritten_arguments(self) -> list[Storage]:
        """Arguments with known contents, seen by all cores, that this core writes."""
        return [each for each in self.storages if each.given and each.written and each.buffer is Buffer.shared_hbm]

    def identity(self, size: int, dtype: str) -> Tensor:
        """`nl.shared_identity_matrix`: one of each size and type."""
        found = self._identities.get((size, dtype))
        if found is None:
            found = self.allocate((size, size), dtype, Buffer.sbuf, name=f"identity_{size}", constant=True)
            found.storage.identity = True
            self._identities[size, dtype] = found
        return found

    # -- instructions ------------------------------------------------------------------------------------------------

    def instruction(self, row: Instruction, given: dict[str, Any]) -> None:
        """Record one instruction of the table; `given` are its arguments by parameter."""
        frame = kernel_frame(2)
        place = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        writes: list[Tensor] = []
        reads: list[Tensor] = []
        for parameter, value in given.items():
            if isinstance(value, Tensor):
                if parameter in row.writes:
                    writes.append(value)
                elif parameter in row.accumulates:
                    reads.append(value)
                    writes.append(value)
                else:
                    reads.append(value)
            elif isinstance(value, list | tuple):
                reads += _tensors(value)
        if given.get("dst_rmw_op") is None and row.name in _COPIES and _is_onto_itself(given):
            # Every byte keeps its value, so it does what a read does, and that matters where others write.
            writes, reads = [], [each for each in reads if self._is_seen(each)]
        check_hardware(row, given, self.target, self.findings, place)
        check_indices(row.name, given, self.findings, place)
        if row.rule and writes:
            check_rule(row, given, self.findings, place)
            reads, writes = _by_lanes(row.rule, given, reads, writes)
        if row.engine is Engine.PE and row.name != "nc_transpose":
            reads += self._accumulating(row.name, given, writes, place)
        elif given.get("dst_rmw_op") is not None:
            reads += writes
        self.add(f"nki.{row.name}", self._engine(row, given, writes, reads), reads, writes, place, None, given)

    def touch_all(self, name: str, tensors: list[Tensor], help: Sequence[str] = ()) -> None:
        """An instruction that the table does not have: it may read and write all its tensors.

        `help` says what is meant, if that is known.
        """
        place = kernel_place(2)
        self.unknown.setdefault(name, (place, tuple(help)))
        self.add(f"nki.{name}", Engine.POOL, tensors, tensors, place)

    def add(
        self,
        opcode: str,
        engine: Engine,
        reads: Sequence[Tensor],
        writes: Sequence[Tensor],
        place: tuple[str, int],
        detail: Any = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a record; operands that the table does not name (indices) are added to the reads.

        `given` are its arguments, of which `dst` takes the value: what is known of contents follows from them.
        """
        indices = [
            index for each in (*reads, *writes) if each.indirect is not None for index in each.index_operands()
        ]
        read_bytes: dict[Operand, bool] = {}
        write_bytes: dict[Operand, bool] = {}
        for found, tensors in ((read_bytes, (*reads, *indices)), (write_bytes, writes)):
            for tensor in tensors:
                patterns, maybe = accessed(tensor)
                number = tensor.storage.number
                for pattern in patterns:
                    found[number, pattern] = found.get((number, pattern), True) and maybe
        for tensor in writes:
            tensor.storage.written = True
        flags = (*read_bytes.values(), *write_bytes.values())
        maybe_at = tuple(at for at, flag in enumerate(flags) if flag) if True in flags else ()
        self.records.append(
            Record(opcode, engine, tuple(read_bytes), tuple(write_bytes), maybe_at, place, detail, given)
        )
        name = opcode.removeprefix("nki.")
        follow(name, given or {}, writes)
        follow_range(name, given or {}, writes)

    def _is_seen(self, tensor: Tensor) -> bool:
        """Whether other cores have the tensor too."""
        return tensor.storage.buffer is Buffer.shared_hbm and self.cores > 1

    def assign(self, target: Tensor, value: Any) -> None:
        """`target[...] = value`."""
        given = {"dst": target, "src" if isinstance(value, Tensor) else "value": value}
        reads = [value] if isinstance(value, Tensor) else []
        opcode = "nki.assign" if reads else "nki.fill"
        engine = self.queue_of([target, *reads]) or Engine.VECTOR
        writes = [target]
        if reads and _is_onto_itself(given):
            writes, reads = [], [each for each in reads if self._is_seen(each)]
        self.add(opcode, engine, reads, writes, kernel_place(2), None, given)

    def barrier(
        self, data: Tensor, cores: tuple[int, ...], engine: Engine, name: str | None, place: tuple[str, int]
    ) -> None:
        """`core_barrier`."""
        check_meeting("core_barrier", self.target, self.findings, place)
        detail = BarrierDetail(data.storage.number, cores, name)
        self.records.append(Record("core_barrier", engine, ((data.storage.number, None),), (), (), place, detail))

    def sendrecv(
        self, src: Tensor, dst: Tensor, detail: MeetingDetail, engine: Engine, place: tuple[str, int]
    ) -> None:
        """`sendrecv`."""
        check_meeting("sendrecv", self.target, self.findings, place)
        alike = (src.dtype, src.shape, src.strides) == (dst.dtype, dst.shape, dst.strides)
        # Rows in the order of an index; one index for all only moves the bytes.
        alike = alike and not any(each.indirect is not None and each.indirect.vector for each in (src, dst))
        given = {"src": src, "dst": dst}
        self.add("sendrecv", engine, [src], [dst], place, detail._replace(alike=alike), given)

    def newest(self) -> int:
        """The position of the newest record."""
        return len(self.records) - 1

    def wait_for(self, consumer: int, producer: int) -> None:
        """`depends_on`: one instruction runs after another; only where both stand in the same loops."""
        inside = [
            [each.detail.number for each in self.records[:at] if isinstance(each.detail, LoopDetail)]
            for at in (consumer, producer)
        ]
        if producer < consumer and inside[0] == inside[1]:
            self.waits.setdefault(consumer, []).append(producer)
        elif producer >= consumer:
            self.findings.add("kernel-error", "depends_on must name earlier instructions")

    # -- choices -----------------------------------------------------------------------------------------------------

    def _engine(self, row: Instruction, given: dict[str, Any], writes: list[Tensor], reads: list[Tensor]) -> Engine:
        if row.engine is DMA:
            return self.queue_of([*writes, *reads]) or Engine.DMA0
        return runs_on(row, given).engine

    def queue_of(self, tensors: Sequence[Tensor]) -> Engine | None:
        """The DMA queue of the first HBM tensor among the operands; None when all are on chip."""
        for tensor in tensors:
            if tensor.storage.buffer.is_hbm:
                number = tensor.storage.number
                if number not in self._queues:
                    self._queues[number] = Engine(Engine.DMA0 + len(self._queues) % TENSOR_QUEUES)
                return self._queues[number]
        return None

    def _accumulating(
        self, name: str, given: dict[str, Any], writes: list[Tensor], place: tuple[str, int]
    ) -> list[Tensor]:
        """Destinations of a matrix multiplication that are added to: by its flag, or when one wrote them before."""
        flag = given.get("accumulate")
        found = []
        for tensor in writes:
            key = (tensor.offset, tensor.shape, tensor.strides)
            before = key in tensor.storage.accumulated
            tensor.storage.accumulated.add(key)
            if tensor.storage.buffer is Buffer.psum and not before:
                if flag:
                    check_accumulation(name, self._accumulation, tensor, self.target, self.findings, place)
                self._accumulation.add(tensor)
            if flag or (flag is None and before):
                found.append(tensor)
        return found

    # -- notes -------------------------------------------------------------------------------------------------------

    def begin_loop(self, place: tuple[str, int], decides: tuple[Any, ...] | None = None) -> int:
        """A loop whose count only the device knows: its body is recorded once. Returns its number.

        Contents that are known now may be others in a later iteration, so nothing is known inside or behind it.
        """
        self.loops.append(place)
        self._mark(LoopDetail(len(self.loops) - 1, True, decides))
        return len(self.loops) - 1

    def decide_loop(self, number: int, decides: tuple[Any, ...]) -> None:
        """What decides a loop, known when its body is recorded."""
        at = next(at for at, each in enumerate(self.records) if each.detail == LoopDetail(number, True))
        self.records[at] = self.records[at]._replace(detail=LoopDetail(number, True, decides))

    def is_inside_loop(self) -> bool:
        """Whether the body of a loop is being recorded."""
        return bool(self.open)

    def end_loop(self, number: int) -> None:
        """The body of a loop is recorded."""
        self._mark(LoopDetail(number, False))

    def _mark(self, detail: LoopDetail) -> None:
        if detail.begins:
            self.open.append(detail.number)
        else:
            self.open.pop()
        self.records.append(Record("loop", Engine.SYNC, (), (), (), self.loops[detail.number], detail))
        for storage in self.storages:
            if not storage.argument:
                storage.values = storage.within = None
        for register in self.registers:
            register.value = None

    def outermost_loops(self) -> list[tuple[int, int]]:
        """Positions of the begin and the end of every loop that stands in no other."""
        found: list[tuple[int, int]] = []
        depth = 0
        for at, record in enumerate(self.records):
            if isinstance(record.detail, LoopDetail):
                if record.detail.begins and depth == 0:
                    found.append((at, len(self.records)))
                depth += 1 if record.detail.begins else -1
                if depth == 0:
                    found[-1] = (found[-1][0], at)
        return found

    @property
    def instructions(self) -> int:
        """How many were recorded; the marks of loops are none."""
        return sum(not isinstance(record.detail, LoopDetail) for record in self.records)

    def note_loop(self, place: tuple[str, int]) -> None:
        """`trips` unrolls loops whose count only the device knows: what was assumed is said once a place."""
        self.findings.add(
            "assumed-loop-count",
            f"the trip count of this loop is known on the device only: the trace assumes {self.trips} iterations",
            severity=Severity.NOTE,
            place=place,
            help=["`trips` of haulout.nki.trace chooses another number"],
        )

    def note_register(self, place: tuple[str, int]) -> None:
        """A register used as a number though its value is not known."""
        self.findings.add(
            "assumed-register",
            "the value of this register is known on the device only: the trace assumes 0",
            severity=Severity.WARNING,
            place=place,
        )


def _is_onto_itself(given: Mapping[str, Any]) -> bool:
    """Whether a copy reads and writes one view."""
    dst, src = given.get("dst"), given.get("src")
    return isinstance(dst, Tensor) and isinstance(src, Tensor) and dst.layout() == src.layout()


def _by_lanes(
    rule: str, given: Mapping[str, Any], reads: list[Tensor], writes: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Reads and writes of instructions that touch some partitions of their operands only."""
    if rule == "every-16th-partition":
        return [every_16th(each) for each in reads], [every_16th(each) for each in writes]
    mask = given.get("shuffle_mask")
    if rule == "shuffle" and isinstance(mask, list | tuple) and all(isinstance(lane, int) for lane in mask):
        changed = {at for at, lane in enumerate(mask) if lane != UNCHANGED}
        return (
            [part for each in reads for part in shuffled(each, set(mask))],
            [part for each in writes for part in shuffled(each, changed)],
        )
    return reads, writes


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _variable(place: tuple[str, int]) -> str | None:
    """The variable that the statement at a place assigns to."""
    found = _ASSIGNED.match(linecache.getline(*place)) if place[0] else None
    return found.group(1) if found else None
