"""The operands of a program: inside their locations in every iteration, equal or disjoint, whole atomics.

Part of `haulout.ir.verify`, after the checks of ids, names, locations and views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from haulout.ir.atomics import atomic_fault
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import SIZE_MAX, Column, Ints, Patterns
from haulout.ir.steps import first_outside, outside, step_reach
from haulout.support.diagnostics import Diagnostic, Diagnostics, Label, Severity

MAX_LISTED = 20
"""Findings of one kind; a broken column would repeat one a million times."""


def bad(found: Diagnostics, message: str, *labels: Label, code: str = "bad-input") -> None:
    """Append an error."""
    found.add(code, Severity.ERROR, message, *labels)


def first_rows(mask: Column) -> list[int]:
    """The first rows of a mask, up to `MAX_LISTED`."""
    return [int(row) for row in np.flatnonzero(mask)[:MAX_LISTED]]


def pattern_hulls(program: Program, patterns: Patterns | None = None) -> tuple[Ints, Ints]:
    """First byte and end of every pattern, or of others with its dims; `?` gives 0, 0."""
    rows = program.patterns if patterns is None else patterns
    reach = program.dims.stride * (program.dims.count - 1)
    below = np.append(0, np.cumsum(np.minimum(reach, 0)))
    above = np.append(0, np.cumsum(np.maximum(reach, 0)))
    low = rows.offset + below[rows.dim_end] - below[rows.dim_begin]
    high = rows.offset + above[rows.dim_end] - above[rows.dim_begin] + rows.run
    unknown = rows.run == NONE
    return np.where(unknown, 0, low), np.where(unknown, 0, high)


def check_operands(program: Program, found: Diagnostics) -> None:
    """Operands of one function, inside their locations; reads and writes of an instruction equal or disjoint."""
    accesses = program.accesses
    location_function = program.locations.function[accesses.location]
    for row in first_rows(location_function != program.instruction_function[accesses.instruction]):
        bad(found, "an operand of another function", instruction_label(program, int(accesses.instruction[row])))
    same = accesses.instruction[1:] == accesses.instruction[:-1]
    for row in first_rows(same & accesses.write[:-1] & ~accesses.write[1:]):
        bad(found, "reads must come before writes", instruction_label(program, int(accesses.instruction[row])))
    for row in first_rows((program.dims.count < 1) | (np.abs(program.dims.stride) > SIZE_MAX)):
        bad(found, f"a pattern dim {program.dims.stride[row]}x{program.dims.count[row]}")
        return
    patterns = program.patterns
    for row in first_rows((patterns.run < 1) & (patterns.run != NONE)):
        bad(found, f"a pattern with a run of {patterns.run[row]} bytes")
    # Floats find the patterns whose hull exceeds 64 bits first; the exact columns cannot overflow after that.
    reach = np.append(0.0, np.cumsum(np.abs(program.dims.stride.astype(float)) * (program.dims.count - 1)))
    span = patterns.offset + reach[patterns.dim_end] - reach[patterns.dim_begin] + patterns.run
    for row in first_rows((patterns.offset < 0) | (span > SIZE_MAX)):
        bad(found, f"pattern [{program.pattern(row)}] exceeds 2**62 bytes", code="out-of-bounds")
        return
    low, high = (np.append(values, 0) for values in pattern_hulls(program))
    outside = (low[accesses.pattern] < 0) | (high[accesses.pattern] > program.locations.size[accesses.location])
    for row in first_rows(outside):
        location, pattern = int(accesses.location[row]), program.pattern(int(accesses.pattern[row]))
        bad(
            found,
            f"[{pattern}] touches bytes {low[accesses.pattern[row]]}:{high[accesses.pattern[row]]} of a location "
            f"of {program.locations.size[location]} bytes",
            instruction_label(program, int(accesses.instruction[row])),
            location_label(program, location),
            code="out-of-bounds",
        )
    if not np.any(outside):
        for row, first, second in _self_conflicts(program):
            bad(
                found,
                f"it reads [{first}] and writes [{second}] of one location: neither the same bytes nor disjoint",
                instruction_label(program, row),
            )


def _self_conflicts(program: Program) -> Iterator[tuple[int, Pattern, Pattern]]:
    """Instructions that read and write one location through patterns that share some bytes but not all."""
    accesses = program.accesses
    instruction, owner = accesses.instruction, program.owner[accesses.location]
    # Operands are few: compare each with its neighbours 1, 2, ... further on before anything is sorted.
    mixed = np.zeros(len(program.instructions), bool)
    for step in range(1, int(np.diff(program.access_starts).max(initial=0))):
        hit = (instruction[step:] == instruction[:-step]) & (owner[step:] == owner[:-step])
        hit &= accesses.write[step:] != accesses.write[:-step]
        mixed[instruction[step:][hit]] = True
    picked = np.flatnonzero(mixed[instruction])
    key = instruction[picked].astype(np.int64) * len(program.locations) + owner[picked]
    by_key = np.argsort(key, kind="stable")
    order, key = picked[by_key], key[by_key]
    # group by (instruction, owner location): those that read and write through more than one pattern
    starts = np.flatnonzero(np.append(True, np.diff(key) != 0)) if len(order) else order
    if not len(starts):
        return
    writes = np.add.reduceat(accesses.write[order].astype(np.int64), starts)
    size = np.diff(np.append(starts, len(order)))
    pattern = accesses.pattern[order]
    several = np.minimum.reduceat(pattern, starts) != np.maximum.reduceat(pattern, starts)
    seen: set[tuple[int, int, int]] = set()
    for group in np.flatnonzero(several & (writes > 0) & (writes < size)).tolist():
        rows = order[starts[group] : starts[group] + size[group]].tolist()
        length = int(program.locations.size[accesses.location[rows[0]]])
        for read in sorted({int(accesses.pattern[row]) for row in rows if not accesses.write[row]}):
            for write in sorted({int(accesses.pattern[row]) for row in rows if accesses.write[row]} - {read}):
                if (read, write, length) in seen:
                    continue
                seen.add((read, write, length))
                a, b = (program.pattern(each) or Pattern(0, length) for each in (read, write))
                if a.is_unknown or b.is_unknown or a.hull[1] <= b.hull[0] or b.hull[1] <= a.hull[0]:
                    continue
                touched = (np.unique(a.bytes()), np.unique(b.bytes()))
                if not np.array_equal(*touched) and len(np.intersect1d(*touched, assume_unique=True)):
                    yield int(accesses.instruction[rows[0]]), a, b


def check_steps(program: Program, found: Diagnostics) -> None:
    """Valid numbers of steps, and operands that stay inside their locations."""
    steps = program.steps

    def label(row: int) -> Label:
        return instruction_label(program, int(program.accesses.instruction[steps.access[row]]))

    wrong = (steps.modulus > SIZE_MAX) | (np.abs(steps.stride) > SIZE_MAX)
    for row in first_rows(wrong):
        bad(found, f"a step by {steps.stride[row]} bytes with modulus {steps.modulus[row]}", label(row))
    if wrong.any():
        return
    wrong = steps.phase >= np.maximum(steps.modulus, 1)
    for row in first_rows(wrong):
        allowed = f"from 0 to {steps.modulus[row] - 1}" if steps.modulus[row] else "none without a modulus"
        bad(found, f"a step with phase {steps.phase[row]}, expected {allowed}", label(row))
    if not wrong.any():
        found.extend(left_locations(program))


def left_locations(program: Program, functions: Sequence[int] | None = None) -> list[Diagnostic]:
    """`out-of-bounds` for each operand that its steps take out of its location, in all functions or some."""
    reach, accesses = step_reach(program), program.accesses
    hulls = [np.append(values, 0) for values in pattern_hulls(program)]
    pattern = accesses.pattern[reach.access]
    size = program.locations.size[accesses.location[reach.access]]
    low, high = hulls[0][pattern], np.where(pattern == NONE, size, hulls[1][pattern])
    unknown = np.append(program.patterns.run == NONE, False)[pattern]
    leaves = outside(program, reach, low, high) & ~unknown & (low >= 0) & (high <= size)
    if functions is not None:
        leaves &= np.isin(program.instruction_function[accesses.instruction[reach.access]], functions)
    found = []
    for at in first_rows(leaves):
        access = int(reach.access[at])
        message = f"its step takes it to bytes {low[at] + reach.down[at]}:{high[at] + reach.up[at]} of a location of "
        message = "its step takes it more than 2**62 bytes, in a location of " if reach.far[at] else message
        notes, helps = [], ["make the stride or the modulus smaller, or the location larger"]
        if first := first_outside(program, access, int(low[at]), int(high[at])):
            row, iteration = first
            header = int(program.steps.header[row])
            name = "^" + format_name(program.strings[int(program.blocks.name[header])])
            notes.append(f"it leaves its location in iteration {iteration} of the loop at {name}")
            if program.blocks.trip[header] == NONE:
                times = iteration + (program.instructions.block[accesses.instruction[access]] != header)
                notes.append(f"its trip is unknown: all {program.steps.modulus[row]} iterations of the period count")
                if iteration:
                    most = "once" if times == 2 else f"{times - 1} times"
                    helps.append(f"or, if it runs at most {most}, give trip= at {name}")
        labels = (
            instruction_label(program, int(accesses.instruction[access])),
            location_label(program, int(accesses.location[access])),
        )
        message += f"{size[at]} bytes"
        found.append(Diagnostic("out-of-bounds", Severity.ERROR, message, labels, tuple(notes), tuple(helps)))
    return found


def check_atomics(program: Program, found: Diagnostics) -> None:
    """Each atomic operand is half of a read-modify-write of whole elements."""
    atomic, wrong = np.flatnonzero(program.accesses.atomic), 0
    rows, cuts = np.unique(program.accesses.instruction[atomic], return_index=True)
    for row, operands in zip(rows.tolist(), np.split(atomic, cuts[1:]), strict=bool(len(rows))):
        if wrong < MAX_LISTED and (fault := atomic_fault(program, row, operands.tolist())):
            bad(found, fault, instruction_label(program, row))
            wrong += 1
