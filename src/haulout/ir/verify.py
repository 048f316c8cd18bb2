"""What every program must be, before and after every pass.

1. columns: of one length and the declared type, no number below its least value; every id column points into its
   table or is null where the schema allows it; parents never fall;
2. names: modules one a core, in order; names unique where they must be; functions equal on all cores;
3. locations: sizes agree with dtype and shape, const data has the right length, placements are placements;
4. views: a shared location's target exists on its core, is no view itself, and is as large;
5. operands: every byte touched lies inside its location, wherever steps take it; reads and writes of one instruction
   are equal or disjoint; an atomic operand is half of a read-modify-write of whole elements;
6. order: a dependence stays inside its function and looks back; `seq` is on all instructions or none and never
   falls along a block;
7. rendezvous: one row of `barriers` for each `core_barrier`, one of `meetings` for each `sendrecv`, and no others;
8. semaphores: amounts and counts are numbers that make sense, a remote signal goes to another core that there is.

Findings are collected; each names the entity and the value seen.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence

import numpy as np

from haulout.ir import dtypes
from haulout.ir.atomics import atomic_fault
from haulout.ir.attributes import format_name
from haulout.ir.enums import LINES, NONE, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import MAX_CORES, SIZE_MAX, TABLES, Column, Ints
from haulout.ir.semaphores import MOST, semaphore_use
from haulout.ir.steps import first_outside, outside, step_reach
from haulout.support.diagnostics import Diagnostic, Diagnostics, Label, Severity, Span

_MOST = 20
"""Findings of one sort that are listed; a broken column would repeat itself a million times."""


def verify(program: Program) -> list[Diagnostic]:
    """Everything that is wrong with a program; empty when it is sound. Later checks wait for sound ids."""
    found = Diagnostics()
    for check in (
        _check_columns,
        _check_ids,
        _check_names,
        _check_locations,
        _check_views,
        _check_operands,
        _check_steps,
        _check_atomics,
        _check_order,
        _check_rendezvous,
        _check_semaphores,
    ):
        check(program, found)
        if len(found) and check in (_check_columns, _check_ids, _check_names):
            break
    return found.items


def check_sound(program: Program) -> Program:
    """The program itself; raises `HauloutError` with what `verify` found when it is not sound."""
    found = Diagnostics(verify(program))
    found.raise_if_errors()
    return program


# -- places ---------------------------------------------------------------------------------------------------------


def place(program: Program, loc: int, text_line: int) -> Span | None:
    """Where a row came from: the user's source if it says so, else its line of the `.bir` text."""
    source = program.strings.get(loc)
    if source is not None:
        file, _, line = source.rpartition(":")
        return Span(file, int(line)) if file and line.isdecimal() else Span(source)
    return Span(program.file, text_line) if text_line != NONE and program.file is not None else None


def instruction_label(program: Program, row: int, message: str = "") -> Label:
    """An instruction and its place, for a message."""
    name = format_name(program.instruction_name(row))
    span = place(program, int(program.instructions.loc[row]), int(program.instructions.text_line[row]))
    return Label(message or f"%{name} on core {program.instruction_core[row]}", span)


def location_label(program: Program, row: int, message: str = "") -> Label:
    """A location and its place, for a message."""
    name = format_name(program.strings[int(program.locations.name[row])])
    span = place(program, int(program.locations.loc[row]), int(program.locations.text_line[row]))
    return Label(message or f"%{name} on core {program.location_core[row]}", span)


def _bad(found: Diagnostics, message: str, *labels: Label, code: str = "bad-input") -> None:
    found.add(code, Severity.ERROR, message, *labels)


def _some(mask: Column) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask)[:_MOST]]


# -- the checks -----------------------------------------------------------------------------------------------------


_LEAST = {
    ("locations", "align"): 1,
    ("patterns", "offset"): 0,
    ("dims", "count"): 1,
    ("shapes", "extent"): 0,
    ("steps", "modulus"): 0,
    ("steps", "phase"): 0,
}
"""Columns with a least value of their own; columns that may be null start there, at NONE."""
_FREE = {("dims", "stride"), ("steps", "stride"), ("semaphores", "value"), ("patterns", "run")}


def _check_columns(program: Program, found: Diagnostics) -> None:
    for name, table in TABLES.items():
        rows = program.table(name)
        columns = rows.columns()
        for column, spec in table.specs().items():
            values = columns[column]
            if not isinstance(values, np.ndarray) or values.dtype != spec["dtype"] or values.ndim != 1:
                _bad(found, f"{name}.{column} is no column of {spec['dtype']}")
            elif len(values) != len(rows):
                _bad(found, f"{name}.{column} has {len(values)} rows, the table has {len(rows)}")
            elif spec["to"] is None and values.dtype.kind == "i" and (name, column) not in _FREE:
                least = _LEAST.get((name, column), NONE if spec["null"] else 0)
                for row in _some(values < least)[:1]:
                    _bad(found, f"{name}.{column}[{row}] is {values[row]}, expected at least {least}")
    if len(found):
        return
    for row in _some(program.locations.parts == 0)[:1]:
        _bad(found, f"locations.parts[{row}] is 0, expected at least 1")


def _check_ids(program: Program, found: Diagnostics) -> None:
    for name, table in TABLES.items():
        rows = program.table(name)
        for column, spec in table.specs().items():
            values = getattr(rows, column)
            target = spec["to"]
            if target is not None:
                size = len(program.strings) if target == "strings" else len(program.table(target))
                wrong = (values >= size) | (values < (NONE if spec["null"] else 0))
                for row in _some(wrong):
                    _bad(found, f"{name}.{column}[{row}] is {values[row]}, not a row of {target} ({size} rows)")
            if column == table.parent and len(values) and bool(np.any(values[1:] < values[:-1])):
                _bad(found, f"{name}.{column} falls: rows are not in the order of their parents")
    for name, begin, end, size in (
        ("patterns", program.patterns.dim_begin, program.patterns.dim_end, len(program.dims)),
        ("locations", program.locations.shape_begin, program.locations.shape_end, len(program.shapes)),
    ):
        for row in _some((begin < 0) | (begin > end) | (end > size)):
            _bad(found, f"{name}[{row}] has the range {begin[row]}:{end[row]} of {size} rows")
    for name, cells, size in (
        ("instructions.engine", program.instructions.engine, LINES),
        ("locations.space", program.locations.space, len(Space)),
        ("locations.kind", program.locations.kind, len(Kind)),
    ):
        for row in _some(cells >= size):
            _bad(found, f"{name}[{row}] is {cells[row]}, expected less than {size}")


def _check_names(program: Program, found: Diagnostics) -> None:
    modules, functions = program.modules, program.functions
    if not 1 <= program.lnc <= MAX_CORES or not np.array_equal(modules.core, np.arange(program.lnc)):
        _bad(found, f"lnc={program.lnc} needs one module for each core in order, found cores {modules.core.tolist()}")
        return
    per_module = [functions.name[functions.module == row].tolist() for row in range(len(modules))]
    for core, names in enumerate(per_module):
        if len(set(names)) != len(names):
            _bad(found, f"core {core} has two functions of one name")
        if names != per_module[0]:
            listed = [[program.strings[name] for name in each] for each in (per_module[0], names)]
            _bad(
                found,
                f"functions must be equal on all cores: core 0 has {listed[0]}, core {core} has {listed[1]}",
            )
    if len(np.unique(modules.name)) < len(modules):
        _bad(found, "two modules have one name")
    for what, names, parents in (
        ("block", program.blocks.name, program.blocks.function),
        ("location", program.locations.name, program.locations.function),
        ("instruction", program.instructions.name, program.instruction_function),
    ):
        key = parents.astype(np.int64) * (len(program.strings) + 1) + names
        order = np.argsort(key, kind="stable")
        twice = np.zeros(len(key), bool)
        twice[order[1:]] = key[order[1:]] == key[order[:-1]]
        for row in _some(twice & (names != NONE)):
            function = program.strings[int(functions.name[parents[row]])]
            _bad(found, f"two {what}s are named {program.strings[int(names[row])]!r} in function @{function}")
    edges, blocks = program.edges, program.blocks
    for row in _some(blocks.function[edges.source] != blocks.function[edges.target]):
        _bad(found, f"block ^{program.strings[int(blocks.name[edges.source[row]])]} leads into another function")
    branches = np.flatnonzero(blocks.cond != NONE)
    foreign = program.locations.function[blocks.cond[branches]] != blocks.function[branches]
    empty = program.locations.size[blocks.cond[branches]] < 1
    for wrong, what in ((foreign, "of another function"), (empty, "without bytes")):
        for row in branches[wrong].tolist():
            name = "^" + format_name(program.strings[int(blocks.name[row])])
            label = Label(name, place(program, NONE, int(blocks.text_line[row])))
            _bad(found, f"block {name} branches on a location {what}", label)
    steps, stepped = program.steps, program.accesses.instruction[program.steps.access]
    for row in _some(program.instruction_function[stepped] != blocks.function[steps.header]):
        _bad(found, "a step follows a loop of another function", instruction_label(program, int(stepped[row])))


def _check_locations(program: Program, found: Diagnostics) -> None:
    rows = program.locations
    for row in _some((rows.size < 0) | (rows.size > SIZE_MAX) | (rows.align < 1) | (rows.align > SIZE_MAX)):
        _bad(found, f"size {rows.size[row]}, align {rows.align[row]} is no size", location_label(program, row))
    sizes = np.array(
        [dtypes.NUMPY[text].itemsize if text in dtypes.NUMPY else 0 for text in program.strings], np.int64
    )
    typed = np.flatnonzero(rows.dtype != NONE)
    for row in _some((rows.dtype != NONE) & (sizes[rows.dtype] == 0)) if len(typed) else []:
        dtype = program.strings[int(rows.dtype[row])]
        _bad(found, f"no element type is named {dtype!r}", location_label(program, row))
    # Bytes by dtype and shape, one axis at a time; floats, because a product of extents may leave 64 bits.
    wanted = sizes[rows.dtype].astype(np.float64) if len(sizes) else np.zeros(len(rows))
    rank = rows.shape_end - rows.shape_begin
    for axis in range(int(rank.max(initial=0))):
        there = np.flatnonzero(rank > axis)
        wanted[there] *= program.shapes.extent[rows.shape_begin[there] + axis]
    for row in _some((rows.dtype != NONE) & (wanted != rows.size)):
        shape = f"{program.strings[int(rows.dtype[row])]}{list(program.shape(row))}"
        _bad(found, f"size={rows.size[row]}, but {shape} is {wanted[row]:.0f} bytes", location_label(program, row))
    lengths: dict[int, int] = {}
    for row in np.flatnonzero(rows.data != NONE).tolist():
        text = int(rows.data[row])
        if text not in lengths:
            try:
                lengths[text] = len(base64.b64decode(program.strings[text], validate=True))
            except (binascii.Error, ValueError):
                lengths[text] = NONE
        if lengths[text] != rows.size[row]:
            seen = "not base64" if lengths[text] == NONE else f"{lengths[text]} bytes"
            _bad(found, f"data is {seen}, size={rows.size[row]}", location_label(program, row))
        elif rows.kind[row] != Kind.CONST:
            _bad(found, "data belongs to kind=const alone", location_label(program, row))
    for row in _some((rows.address > SIZE_MAX) | (rows.address < NONE)):
        _bad(found, f"address {rows.address[row]} is no address", location_label(program, row))
    for row in _some((rows.address != NONE) & (rows.address % np.maximum(rows.align, 1) != 0)):
        _bad(found, f"address {rows.address[row]} is no multiple of {rows.align[row]}", location_label(program, row))


def _check_views(program: Program, found: Diagnostics) -> None:
    rows, owner = program.locations, program.owner
    views = rows.remote_name != NONE
    for row in _some(views & (rows.space != Space.DRAM_SHARED)):
        _bad(found, "remote= belongs to dram.shared alone", location_label(program, row))
    for row in _some(views & ((rows.remote_core < 0) | (rows.remote_core >= program.lnc))):
        _bad(found, f"remote core {rows.remote_core[row]}, lnc={program.lnc}", location_label(program, row))
    for row in _some(views & (owner == NONE)):
        wanted = f"%{program.strings[int(rows.remote_name[row])]} of core {rows.remote_core[row]}"
        _bad(found, f"its target {wanted} does not exist", location_label(program, row), code="unresolved-remote")
    resolved = np.where(owner == NONE, np.arange(len(rows)), owner)
    for row in _some(views & (rows.remote_core == program.location_core)):
        _bad(found, "a view of its own core", location_label(program, row))
    for row in _some(views & (resolved != np.arange(len(rows))) & (rows.remote_name[resolved] != NONE)):
        _bad(found, "a view of a view", location_label(program, row), location_label(program, int(owner[row])))
    for row in _some(views & (rows.size != rows.size[resolved])):
        target = int(owner[row])
        _bad(
            found,
            f"a view of {rows.size[row]} bytes of a location of {rows.size[target]} bytes",
            location_label(program, row),
            location_label(program, target),
        )
    for row in _some(views & (rows.space[resolved] != Space.DRAM_SHARED)):
        _bad(found, "its target is not dram.shared", location_label(program, row))


def pattern_hulls(program: Program) -> tuple[Ints, Ints]:
    """First byte and byte behind the last of every pattern; `?` gives 0, 0."""
    rows = program.patterns
    reach = program.dims.stride * (program.dims.count - 1)
    below = np.append(0, np.cumsum(np.minimum(reach, 0)))
    above = np.append(0, np.cumsum(np.maximum(reach, 0)))
    low = rows.offset + below[rows.dim_end] - below[rows.dim_begin]
    high = rows.offset + above[rows.dim_end] - above[rows.dim_begin] + rows.run
    unknown = rows.run == NONE
    return np.where(unknown, 0, low), np.where(unknown, 0, high)


def _check_operands(program: Program, found: Diagnostics) -> None:
    accesses = program.accesses
    location_function = program.locations.function[accesses.location]
    for row in _some(location_function != program.instruction_function[accesses.instruction]):
        _bad(found, "an operand of another function", instruction_label(program, int(accesses.instruction[row])))
    same = accesses.instruction[1:] == accesses.instruction[:-1]
    for row in _some(same & accesses.write[:-1] & ~accesses.write[1:]):
        _bad(found, "it reads behind what it writes", instruction_label(program, int(accesses.instruction[row])))
    for row in _some((program.dims.count < 1) | (np.abs(program.dims.stride) > SIZE_MAX)):
        _bad(found, f"a pattern dim {program.dims.stride[row]}x{program.dims.count[row]}")
        return
    patterns = program.patterns
    for row in _some((patterns.run < 1) & (patterns.run != NONE)):
        _bad(found, f"a pattern with a run of {patterns.run[row]} bytes")
    # Patterns whose hull leaves 64 bits are found in floats first; the exact columns may then wrap no more.
    reach = np.append(0.0, np.cumsum(np.abs(program.dims.stride.astype(float)) * (program.dims.count - 1)))
    span = patterns.offset + reach[patterns.dim_end] - reach[patterns.dim_begin] + patterns.run
    for row in _some((patterns.offset < 0) | (span > SIZE_MAX)):
        _bad(found, f"pattern [{program.pattern(row)}] reaches further than 2**62 bytes", code="out-of-bounds")
        return
    low, high = (np.append(values, 0) for values in pattern_hulls(program))
    outside = (low[accesses.pattern] < 0) | (high[accesses.pattern] > program.locations.size[accesses.location])
    for row in _some(outside):
        location, pattern = int(accesses.location[row]), program.pattern(int(accesses.pattern[row]))
        _bad(
            found,
            f"[{pattern}] touches bytes {low[accesses.pattern[row]]}:{high[accesses.pattern[row]]} of a location "
            f"of {program.locations.size[location]} bytes",
            instruction_label(program, int(accesses.instruction[row])),
            location_label(program, location),
            code="out-of-bounds",
        )
    if not np.any(outside):
        for row, first, second in _self_conflicts(program):
            _bad(
                found,
                f"it reads [{first}] and writes [{second}] of one location: neither the same bytes nor disjoint",
                instruction_label(program, row),
            )


def _self_conflicts(program: Program) -> Iterator[tuple[int, Pattern, Pattern]]:
    """Instructions that read and write one location through patterns that meet in some bytes but not in all."""
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


def _check_steps(program: Program, found: Diagnostics) -> None:
    steps = program.steps

    def label(row: int) -> Label:
        return instruction_label(program, int(program.accesses.instruction[steps.access[row]]))

    wrong = (steps.modulus > SIZE_MAX) | (np.abs(steps.stride) > SIZE_MAX)
    for row in _some(wrong):
        _bad(found, f"a step by {steps.stride[row]} bytes with modulus {steps.modulus[row]}", label(row))
    if wrong.any():
        return
    wrong = steps.phase >= np.maximum(steps.modulus, 1)
    for row in _some(wrong):
        allowed = f"from 0 to {steps.modulus[row] - 1}" if steps.modulus[row] else "none without a modulus"
        _bad(found, f"a step with phase {steps.phase[row]}, expected {allowed}", label(row))
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
    for at in _some(leaves):
        access = int(reach.access[at])
        message = f"its step takes it to bytes {low[at] + reach.down[at]}:{high[at] + reach.up[at]} of a location of "
        message = "its step takes it further than 2**62 bytes, in a location of " if reach.far[at] else message
        notes, helps = [], ["make the stride or the modulus smaller, or the location larger"]
        if first := first_outside(program, access, int(low[at]), int(high[at])):
            row, iteration = first
            header = int(program.steps.header[row])
            name = "^" + format_name(program.strings[int(program.blocks.name[header])])
            notes.append(f"it leaves its location in iteration {iteration} of the loop at {name}")
            if program.blocks.trip[header] == NONE:
                times = iteration + (program.instructions.block[accesses.instruction[access]] != header)
                notes.append(f"its trip is not known: all {program.steps.modulus[row]} places of the period count")
                if iteration:
                    most = "once" if times == 2 else f"{times - 1} times"
                    helps.append(f"or, where it runs no more than {most}, say so: trip= at {name}")
        labels = (
            instruction_label(program, int(accesses.instruction[access])),
            location_label(program, int(accesses.location[access])),
        )
        message += f"{size[at]} bytes"
        found.append(Diagnostic("out-of-bounds", Severity.ERROR, message, labels, tuple(notes), tuple(helps)))
    return found


def _check_atomics(program: Program, found: Diagnostics) -> None:
    atomic, wrong = np.flatnonzero(program.accesses.atomic), 0
    rows, cuts = np.unique(program.accesses.instruction[atomic], return_index=True)
    for row, operands in zip(rows.tolist(), np.split(atomic, cuts[1:]), strict=bool(len(rows))):
        if wrong < _MOST and (fault := atomic_fault(program, row, operands.tolist())):
            _bad(found, fault, instruction_label(program, row))
            wrong += 1


def _check_order(program: Program, found: Diagnostics) -> None:
    rows, function = program.dependences, program.instruction_function
    for row in _some(function[rows.instruction] != function[rows.producer]):
        _bad(found, "it waits for another function", instruction_label(program, int(rows.instruction[row])))
    # A forward dependence looks back in layout order unless blocks branch; carried ones may look anywhere.
    ahead = ~rows.carried & (rows.producer >= rows.instruction)
    ahead &= program.instructions.block[rows.producer] == program.instructions.block[rows.instruction]
    for row in _some(ahead):
        producer = format_name(program.instruction_name(int(rows.producer[row])))
        label = instruction_label(program, int(rows.instruction[row]))
        _bad(found, f"it waits for %{producer}, which stands behind it", label)
    instructions = program.instructions
    barriers = np.zeros(len(instructions), bool)
    barriers[program.barriers.instruction] = True
    for row in _some((instructions.engine == Engine.ALL) & ~barriers):
        _bad(found, "only core_barrier may stand on engine all", instruction_label(program, row))
    bare = instructions.seq == NONE
    for each in np.unique(function).tolist():
        some = bare[function == each]
        if some.any() and not some.all():
            row = int(np.flatnonzero((function == each) & bare)[0])
            _bad(
                found, "seq is on some instructions of the function, not on this one", instruction_label(program, row)
            )
    same = instructions.block[1:] == instructions.block[:-1]
    for row in _some(same & (instructions.seq[1:] < instructions.seq[:-1]) & ~bare[1:]):
        _bad(
            found,
            f"seq falls from {instructions.seq[row]} to {instructions.seq[row + 1]}",
            instruction_label(program, row + 1),
        )
    cores = program.barriers.cores
    for at in _some((cores >> np.uint64(program.lnc - 1)) > 1):
        _bad(
            found,
            f"a participant that is no core of lnc={program.lnc}",
            instruction_label(program, int(program.barriers.instruction[at])),
        )
    meetings = program.meetings
    for at in _some((meetings.to >= program.lnc) | (meetings.source >= program.lnc)):
        _bad(
            found,
            f"a peer that is no core of lnc={program.lnc}",
            instruction_label(program, int(meetings.instruction[at])),
        )


def _check_rendezvous(program: Program, found: Diagnostics) -> None:
    for name, opcode, rows in (
        ("barriers", "core_barrier", program.barriers.instruction),
        ("meetings", "sendrecv", program.meetings.instruction),
    ):
        wanted = np.flatnonzero(program.instructions.opcode == program.strings.find(opcode))
        if not np.array_equal(wanted, rows):
            _bad(
                found, f"{name} has {len(rows)} rows, which are not those of the {len(wanted)} {opcode} instructions"
            )


def _check_semaphores(program: Program, found: Diagnostics) -> None:
    wrong: list[tuple[int, str]] = []
    use = semaphore_use(program, lambda row, message: wrong.append((row, message)))
    for row, message in wrong[:_MOST]:
        _bad(found, message, instruction_label(program, row))
    signals, waits = use.signals, use.waits
    for at in _some((signals.amount < 1) | (signals.amount > MOST)):
        label = instruction_label(program, int(signals.instruction[at]))
        _bad(found, f"a signal of {signals.amount[at]}; it adds at least 1 and at most {MOST}", label)
    for at in _some((waits.value < 0) | (waits.value > MOST)):
        label = instruction_label(program, int(waits.instruction[at]))
        _bad(found, f"a wait for {waits.value[at]}; it is for 0 to {MOST}", label)
    own = program.instruction_core[signals.instruction]
    for at in _some((signals.core < 0) | (signals.core >= program.lnc)):
        label = instruction_label(program, int(signals.instruction[at]))
        _bad(found, f"a remote signal to core {signals.core[at]}, lnc={program.lnc}", label)
    for at in _some(signals.remote & (signals.core == own)):
        label = instruction_label(program, int(signals.instruction[at]))
        _bad(found, f"a remote signal to core {signals.core[at]}, which is its own", label)
