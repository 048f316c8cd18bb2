"""The records of one core as instructions, with the order of `core_barrier` and the blocks of loops.

Barriers of scope `data` are edges. A barrier waits for the latest access of its tensor on every engine (`latest`).
The first later access of the tensor on each engine waits for the barrier (its `_Gate`). Engines run in order, so this
orders all accesses.

A loop is a header, its body, and the block after it; the header runs once more than the body. An edge must start at
an instruction that always runs. So for each tensor with barriers the header of a loop has two instructions without
effect:

    uses    waits for the accesses before the loop, and, carried, for the latest of the previous iteration: a later
            barrier waits for it
    gate    on the engine of barriers, so after the barrier of the previous iteration: a later access waits for it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import copysign

from haulout.frontends.nki.byte_sets import overlap
from haulout.frontends.nki.emit_args import decision, instruction_args, instruction_call
from haulout.frontends.nki.findings import place_text
from haulout.frontends.nki.one_partition import first_partition
from haulout.frontends.nki.recorder import BarrierDetail, LoopDetail, MeetingDetail, Operand, Record, Recorder
from haulout.frontends.nki.storage import Storage
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Space
from haulout.ir.patterns import Pattern


@dataclass(slots=True)
class _Gate:
    """The newest barrier on a tensor, and the engines that wait for it already."""

    barrier: int
    passed: set[Engine] = field(default_factory=set)


@dataclass(slots=True)
class _OpenLoop:
    """A loop whose body is being emitted."""

    number: int
    header: int
    uses: dict[int, int]
    """Tensor -> its `uses` in the header."""
    passed: dict[int, tuple[int, set[Engine]]]
    """Tensor -> the gate before the loop, and who had passed it."""
    gates: dict[int, int]
    """Tensor -> its `gate` in the header."""
    engines: dict[int, Engine]
    """Tensor -> the engine of the barriers on it."""


class CoreEmitter:
    """Appends the instructions of one core to a program."""

    def __init__(
        self,
        build: ProgramBuilder,
        function: int,
        recorder: Recorder,
        locations: list[int],
        narrow: dict[int, int],
        *,
        by_data: bool,
    ) -> None:
        self.build, self.function, self.recorder, self.locations = build, function, recorder, locations
        self.narrow, self.by_data = narrow, by_data
        self.block = build.block(function, "entry")
        self.gates: dict[int, _Gate] = {}
        self.latest: dict[int, dict[Engine, int]] = {}
        """Tensor -> engine -> the last instruction there that touched it."""
        self.open: list[_OpenLoop] = []
        self.rows: dict[int, int] = {}
        """Position of a record -> its instruction."""
        self._locs: dict[tuple[str, int], str | None] = {}

    def run(self) -> None:
        """All records, in order."""
        for position, record in enumerate(self.recorder.records):
            name = f"{record.opcode.removeprefix('nki.')}_{position}"
            match record.detail:
                case BarrierDetail():
                    self._barrier(record, record.detail, name, position)
                case LoopDetail(begins=True):
                    self._begin_loop(record, record.detail, position)
                case LoopDetail():
                    self._end_loop()
                case _:
                    self._instruction(record, name, position)

    def _loc(self, place: tuple[str, int]) -> str | None:
        if place not in self._locs:
            self._locs[place] = place_text(place)
        return self._locs[place]

    # -- instructions ----------------------------------------------------------------------------------------------

    def _instruction(self, record: Record, name: str, position: int) -> None:
        build, loc = self.build, self._loc(record.place)
        reads = [self._operand(number, pattern) for number, pattern in record.reads]
        writes = [self._operand(number, pattern) for number, pattern in record.writes]
        opcode = record.opcode
        maybe = record.maybe
        attrs = instruction_args(record)
        if _fills_with_zeros(record):
            opcode, attrs = "memset", {"value": 0}
        if isinstance(record.detail, MeetingDetail):
            to, source, pipe, _ = record.detail
            row = build.sendrecv(
                self.block,
                name,
                record.engine,
                to=to,
                source=source,
                tag=pipe,
                reads=reads,
                writes=writes,
                maybe=maybe,
                attrs=attrs,
                loc=loc,
            )
        elif record.reads and record.writes and _clash(record.reads, record.writes, self.recorder.storages):
            # It reads and writes bytes that meet but differ: as reading, then writing; its engine keeps the order.
            # Neither of the two has `args`, since neither alone computes what the arguments say. The second
            # has `call`.
            count = len(reads)
            written = [at - count for at in maybe if at >= count]
            row = build.instruction(
                self.block,
                f"{name}.in",
                opcode,
                record.engine,
                reads,
                maybe=maybe,
                attrs={"freezes": name},
                loc=loc,
            )
            self._wait_for_gates(row, record.engine, record.reads)
            attrs = instruction_call(record) | {"of": f"{name}.in"}
            row = build.instruction(
                self.block, name, opcode, record.engine, (), writes, maybe=written, attrs=attrs, loc=loc
            )
        else:
            row = build.instruction(
                self.block, name, opcode, record.engine, reads, writes, maybe=maybe, attrs=attrs, loc=loc
            )
        self._ordered(row, position)
        if self.by_data:
            operands = (*record.reads, *record.writes)
            if self.gates:
                self._wait_for_gates(row, record.engine, operands)
            for number, _ in operands:
                if self.recorder.storages[number].buffer.is_hbm:
                    self.latest.setdefault(number, {})[record.engine] = row

    def _operand(self, number: int, pattern: Pattern | None) -> tuple[int, Pattern | None]:
        row = self.narrow.get(number)
        if row is not None and pattern is not None:
            pattern = first_partition(pattern, row, self.recorder.storages[number].partitions)
        return self.locations[number], pattern

    def _wait_for_gates(self, row: int, engine: Engine, operands: tuple[Operand, ...]) -> None:
        """The first access of a tensor on each engine after a barrier on that tensor waits for the barrier."""
        for number, _ in operands:
            gate = self.gates.get(number)
            if gate is not None and engine not in gate.passed:
                gate.passed.add(engine)
                self.build.dependence(row, gate.barrier)

    def _ordered(self, row: int, position: int) -> None:
        """The edges that the kernel asks for."""
        self.rows[position] = row
        for producer in self.recorder.waits.get(position, ()):
            if producer in self.rows:
                self.build.dependence(row, self.rows[producer])

    def _barrier(self, record: Record, detail: BarrierDetail, name: str, position: int) -> None:
        data, recorder = detail.data, self.recorder
        everyone = set(detail.cores) >= set(range(recorder.cores))
        waits: list[int] = []
        if self.by_data:
            waits = sorted(self.latest.get(data, {}).values())
            if data in self.gates and self.gates[data].barrier not in waits:
                waits.append(self.gates[data].barrier)
        row = self.build.barrier(
            self.block,
            name,
            detail.name or f"on {recorder.storages[data].name}",
            engine=record.engine if self.by_data else Engine.ALL,
            cores=None if everyone else detail.cores,
            reads=[self.locations[data]],
            deps=waits,
            loc=self._loc(record.place),
        )
        self._ordered(row, position)
        self.gates[data] = _Gate(row, {record.engine})
        self.latest.pop(data, None)

    # -- loops -----------------------------------------------------------------------------------------------------

    def _begin_loop(self, record: Record, detail: LoopDetail, position: int) -> None:
        """The header: what decides whether the body runs, and the order around it; then the body's first block."""
        build, number, loc = self.build, detail.number, self._loc(record.place)
        count = build.location(self.function, f"loop_{number}_count", Space.SBUF, 4, parts=1, loc=loc)
        header = build.block(self.function, f"loop_{number}", cond=count)
        build.edge(self.block, header)
        self.block = header
        attrs = decision(detail)
        build.instruction(
            header, f"loop_{number}_decides", "nki.loop", Engine.SYNC, (), [count], attrs=attrs, loc=loc
        )
        opened = _OpenLoop(number, header, {}, {}, {}, {})
        touched, opened.engines = self._inside(position) if self.by_data else ([], {})
        for tensor in touched:
            name = self.recorder.storages[tensor].name
            waits = sorted(self.latest.get(tensor, {}).values())
            row = build.instruction(
                header, f"loop_{number}_uses.{name}", "nki.uses", Engine.SYNC, deps=waits, loc=loc
            )
            opened.uses[tensor] = row
            self.latest[tensor] = {Engine.SYNC: row}
            gate = self.gates.get(tensor)
            if tensor in opened.engines:
                waits = [gate.barrier] if gate is not None else []
                engine = opened.engines[tensor]
                row = build.instruction(header, f"loop_{number}_gate.{name}", "nki.gate", engine, deps=waits, loc=loc)
                opened.gates[tensor] = row
                self.gates[tensor] = _Gate(row, {engine})
            elif gate is not None:
                opened.passed[tensor] = (gate.barrier, set(gate.passed))
        self.open.append(opened)
        body = build.block(self.function, f"body_{number}")
        build.edge(header, body)
        self.block = body

    def _inside(self, begin: int) -> tuple[list[int], dict[int, Engine]]:
        """Tensors that barriers order and that the loop touches, and the engine of its barriers on each."""
        records = self.recorder.records
        ordered = {record.detail.data for record in records if isinstance(record.detail, BarrierDetail)}
        touched: dict[int, None] = {}
        fenced: dict[int, Engine] = {}
        depth, at = 1, begin
        while depth and at + 1 < len(records):
            at += 1
            record = records[at]
            match record.detail:
                case LoopDetail(begins=begins):
                    depth += 1 if begins else -1
                case BarrierDetail(data=data):
                    fenced[data] = record.engine
                    touched[data] = None
                case _:
                    touched |= {number: None for number, _ in (*record.reads, *record.writes) if number in ordered}
        return list(touched), fenced

    def _end_loop(self) -> None:
        """The edge back to the header, which collects what the iteration touched; then the block after the loop."""
        build, closed = self.build, self.open.pop()
        build.edge(self.block, closed.header)
        for tensor, row in closed.uses.items():
            for newest in sorted(set(self.latest.get(tensor, {}).values())):
                if newest > row:
                    build.dependence(row, newest, carried=True)
            self.latest[tensor] = {Engine.SYNC: row}
        for tensor, row in closed.gates.items():
            if self.gates[tensor].barrier > row:
                build.dependence(row, self.gates[tensor].barrier, carried=True)
            self.gates[tensor] = _Gate(row, {closed.engines[tensor]})
        for tensor, (barrier, passed) in closed.passed.items():
            # The loop may not run: who waited inside it has not waited behind it.
            self.gates[tensor] = _Gate(barrier, passed)
        behind = build.block(self.function, f"behind_{closed.number}")
        build.edge(closed.header, behind)
        self.block = behind


def _fills_with_zeros(record: Record) -> bool:
    """Whether every byte that it writes becomes 0."""
    value = (record.given or {}).get("value")
    return record.opcode == "nki.memset" and isinstance(value, int | float) and value == 0 and copysign(1, value) > 0


def _clash(reads: tuple[Operand, ...], writes: tuple[Operand, ...], storages: list[Storage]) -> bool:
    """Whether a read and a write of one storage meet in some bytes but not in all."""
    for number, pattern in writes:
        for other, seen in reads:
            if other == number and seen != pattern:
                size = storages[number].size
                if overlap(pattern or Pattern(0, size), seen or Pattern(0, size)):
                    return True
    return False
