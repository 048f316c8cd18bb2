"""Where memory that was never written goes, in programs of NKI.

An instruction of NKI may read elements that were never written, as long as nothing depends on them: a tile has 128
partitions, of which a kernel uses some. Where a run reads such bytes, the program runs twice more, with other bytes
there: NaN and 0xAA, then pi and 0x55. What differs depends on them. The comparison is by bytes, so it follows copies,
masks and arithmetic exactly, on the inputs of the run:

    an output, an index out of bounds, a branch     `uninitialized-read`, an error
    a product or a reduction over partitions        the same as a note: the engine mixes such elements into others
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from haulout.ir.enums import Kind
from haulout.ir.labels import location_label
from haulout.sim.execution import Execution
from haulout.sim.inputs import locations_of_kind
from haulout.sim.memory.arena import Memory
from haulout.sim.plan import Plan, Prepared
from haulout.support.diagnostics import Diagnostic, HauloutError, Label, Severity

_MIXING = frozenset({"nki.nc_matmul", "nki.nc_matmul_mx", "nki.tensor_partition_reduce"})
_MOST_LABELS = 3
"""Reads of memory that was never written which a finding names."""


@dataclass(slots=True)
class Written:
    """A hash of what each item of a trace wrote."""

    prepared: Prepared
    plan: Plan
    hashes: dict[int, int] = field(default_factory=dict)

    def __call__(self, item: int, memory: Memory) -> None:
        """An item has written."""
        code, row = self.prepared.code, int(self.plan.trace.row[item])
        if row not in self.prepared.operands.strided.moving:
            operands = range(int(code.middle[row]), int(code.end[row]))
            self.hashes[item] = hash(tuple(memory.read(each).tobytes() for each in operands))


def find_unwritten(
    prepared: Prepared,
    plan: Plan,
    rows: Sequence[int],
    one: tuple[Execution, Written],
    other: tuple[Execution, Written],
) -> Iterator[Diagnostic]:
    """Findings from two runs whose memory began with other bytes; `rows` read some that were never written."""
    executions, written = (one[0], other[0]), (one[1].hashes, other[1].hashes)
    items = [item for item, found in written[0].items() if written[1].get(item) != found]
    differing = {int(row) for row in plan.trace.row[items]}
    guilty = [row for row in rows if row in differing or prepared.code.middle[row] == prepared.code.end[row]]
    labels = _labels(prepared, guilty or rows)
    program = prepared.program
    for location in locations_of_kind(program, prepared.functions, Kind.OUTPUT, Kind.INOUT):
        whole = prepared.operands.whole(location)
        differs = executions[0].memory.read(whole) != executions[1].memory.read(whole)
        differs = differs & executions[0].memory.holds_value(whole)
        if differs.any():
            name = program.strings[int(program.locations.name[location])]
            yield Diagnostic(
                "uninitialized-read",
                Severity.ERROR,
                f"{int(differs.sum())} bytes of %{name}, the first at byte {int(differs.argmax())}, depend on memory "
                "that was never written",
                (*labels, location_label(program, location)),
            )
    for item in items:
        row = int(plan.trace.row[item])
        opcode = (
            program.strings.get(int(program.instructions.opcode[row])) if row < prepared.code.instructions else ""
        )
        if opcode in _MIXING and row in differing:
            differing.discard(row)
            yield Diagnostic(
                "uninitialized-read",
                Severity.NOTE,
                f"{prepared.code.named(row)} combines partitions, and its result depends on memory that was never "
                "written",
                (prepared.code.label(row), *labels),
            )


def stopped(prepared: Prepared, rows: Sequence[int], error: HauloutError) -> Diagnostic:
    """The finding for a run that does not come to its end with other bytes in such memory."""
    first = error.diagnostics[0]
    return Diagnostic(
        "uninitialized-read",
        Severity.ERROR,
        f"an index or a branch depends on memory that was never written: with other bytes there, {first.message}",
        (*first.labels[:1], *_labels(prepared, rows)),
    )


def once_per_line(found: Iterator[Diagnostic]) -> list[Diagnostic]:
    """Notes of one line once; errors all."""
    kept: dict[object, Diagnostic] = {}
    for each in found:
        span = each.labels[0].span if each.labels else None
        is_note = each.severity is Severity.NOTE and span is not None
        kept.setdefault((each.code, span) if is_note else each.message, each)
    return list(kept.values())


def _labels(prepared: Prepared, rows: Sequence[int]) -> tuple[Label, ...]:
    code = prepared.code
    found: list[Label] = []
    for row in rows:
        label = code.label(row, f"{code.named(row)} reads bytes that were never written")
        if label.span not in [each.span for each in found]:
            found.append(label)
    return tuple(found[:_MOST_LABELS])
