"""Unordered writes of equal bytes: which of them a comparison of schedules may treat as one.

Where schedules differ, the program runs once with values, and each write to DRAM is kept as a hash of its bytes.
Writes of the same bytes of storage with equal hashes are one *kind* for the shadow memory (`shadow.py`), as atomics
are: they commute. Any other access must still find the same of them under every schedule, so a read between two equal
writes is a difference, as it is for the checker.

The values of one schedule hold for all. Take the first read under any other schedule that finds other bytes: all
before it have computed the same, so writes of one kind have written the same, and the comparison reports the read.

The checker proves more, and proves it for all inputs: that the last of several writes on each core are equal. Here
the writes themselves must be equal, on the inputs of this run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from haulout.ir.enums import Space
from haulout.ir.schema import Ids
from haulout.sim.events.schedules import Schedule
from haulout.sim.inputs import Values
from haulout.sim.memory.arena import Memory
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.plan import Plan, Prepared
from haulout.sim.run import run
from haulout.sim.shadow import Difference, Shadow
from haulout.support.diagnostics import Diagnostic, Label, Severity


def kinds_of_writes(
    prepared: Prepared,
    plan: Plan,
    shadow: Shadow,
    inputs: Values | None,
    schedule: Schedule,
    seed: int,
    registers: RegisterLog | None,
) -> Ids:
    """The kind of each executed access, as in `Shadow.kind`, with a new one for each class of equal writes.

    Raises what `simulate` raises.
    """
    program, columns = prepared.program, shadow.columns
    is_dram = program.locations.space <= Space.DRAM_SHARED
    hashes: dict[bytes, list[int]] = {}

    def wrote(item: int, memory: Memory) -> None:
        row = int(plan.trace.row[item])
        begin = int(prepared.code.begin[row])
        for access in range(int(columns.middle[item]), int(columns.last[item])):
            operand = int(columns.operand[access])
            static = begin + access - int(columns.first[item])
            location = int(prepared.operands.location[operand])
            if columns.kind[access] or not is_dram[location] or program.accesses.maybe[static]:
                continue
            found = hashlib.blake2b(memory.read(operand).tobytes(), digest_size=16)
            found.update(repr(prepared.operands[operand].patterns).encode())
            hashes.setdefault(found.digest(), []).append(access)

    run(prepared, plan, inputs, seed=seed, schedule=schedule, registers=registers, wrote=wrote)
    kind = columns.kind.copy()
    following = int(kind.max(initial=0)) + 1
    for members in hashes.values():
        if len(members) > 1:
            kind[members] = following
            following += 1
    return kind


def notes_on_equal(prepared: Prepared, found: Sequence[Difference]) -> list[Diagnostic]:
    """`benign-duplicate-write` for differences that equal writes excuse, one for each pair."""
    notes: dict[tuple[int, int], Diagnostic] = {}
    code, program = prepared.code, prepared.program
    for each in found:
        writers = [writer for writer in (each.expected, each.found) if writer.row >= 0]
        pair = writers if len(writers) == 2 else [*writers, each.access]
        rows = tuple(sorted(one.row for one in pair))
        if len(rows) != 2 or rows in notes:
            continue
        location = each.location
        name = program.strings[int(program.locations.name[location])]
        notes[rows[0], rows[1]] = Diagnostic(
            "benign-duplicate-write",
            Severity.NOTE,
            f"{code.named(rows[0])} and {code.named(rows[1])} write the same bytes of %{name} in either order, "
            "and these are equal on the inputs of this run",
            (code.label(rows[0]), Label("the other write", code.label(rows[1]).span)),
        )
    return list(notes.values())
