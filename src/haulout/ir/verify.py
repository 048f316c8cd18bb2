"""The invariants of a program, checked before and after every pass.

1. columns: of one length and the declared type, no number below its least value; every id column points into its
   table or is null where the schema allows it; parents never fall;
2. names: modules one a core, in order; names unique where they must be; functions equal on all cores;
3. locations: sizes agree with dtype and shape, const data has the right length, placements are placements;
4. views: a shared location's target exists on its core, is not a view itself, and has the same size;
5. operands: every accessed byte is inside its location, in every iteration; reads and writes of one instruction
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

import numpy as np

from haulout.ir import dtypes
from haulout.ir.attributes import format_name
from haulout.ir.core_classes import classes_error, core_classes
from haulout.ir.core_sets import set_cores, set_text
from haulout.ir.enums import LINES, NONE, Engine, Kind, Space
from haulout.ir.labels import instruction_label, location_label, place
from haulout.ir.program import Program
from haulout.ir.schema import MAX_CORES, SIZE_MAX, TABLES
from haulout.ir.semaphores import MAX_COUNT, semaphore_use
from haulout.ir.verify_operands import bad, check_atomics, check_operands, check_steps, first_rows
from haulout.support.diagnostics import Diagnostic, Diagnostics, Label
from haulout.support.shown import shown


def verify(program: Program) -> list[Diagnostic]:
    """Everything that is wrong with a program; empty when it is sound. Later checks wait for sound ids."""
    found = Diagnostics()
    for check in (
        _check_columns,
        _check_ids,
        _check_names,
        _check_locations,
        _check_classes,
        _check_views,
        check_operands,
        check_steps,
        check_atomics,
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
                bad(found, f"{name}.{column} is not a column of {spec['dtype']}")
            elif len(values) != len(rows):
                bad(found, f"{name}.{column} has {len(values)} rows, the table has {len(rows)}")
            elif spec["to"] is None and values.dtype.kind == "i" and (name, column) not in _FREE:
                least = _LEAST.get((name, column), NONE if spec["null"] else 0)
                for row in first_rows(values < least)[:1]:
                    bad(found, f"{name}.{column}[{row}] is {values[row]}, expected at least {least}")
    if len(found):
        return
    for row in first_rows(program.locations.parts == 0)[:1]:
        bad(found, f"locations.parts[{row}] is 0, expected at least 1")


def _check_ids(program: Program, found: Diagnostics) -> None:
    for name, table in TABLES.items():
        rows = program.table(name)
        for column, spec in table.specs().items():
            values = getattr(rows, column)
            target = spec["to"]
            if target is not None:
                size = len(program.strings) if target == "strings" else len(program.table(target))
                wrong = (values >= size) | (values < (NONE if spec["null"] else 0))
                for row in first_rows(wrong):
                    bad(found, f"{name}.{column}[{row}] is {values[row]}, not a row of {target} ({size} rows)")
            if column == table.parent and len(values) and bool(np.any(values[1:] < values[:-1])):
                bad(found, f"{name}.{column} falls: rows are not in the order of their parents")
    for name, begin, end, size in (
        ("patterns", program.patterns.dim_begin, program.patterns.dim_end, len(program.dims)),
        ("locations", program.locations.shape_begin, program.locations.shape_end, len(program.shapes)),
    ):
        for row in first_rows((begin < 0) | (begin > end) | (end > size)):
            bad(found, f"{name}[{row}] has the range {begin[row]}:{end[row]} of {size} rows")
    for name, cells, size in (
        ("instructions.engine", program.instructions.engine, LINES),
        ("locations.space", program.locations.space, len(Space)),
        ("locations.kind", program.locations.kind, len(Kind)),
    ):
        for row in first_rows(cells >= size):
            bad(found, f"{name}[{row}] is {cells[row]}, expected less than {size}")


def _check_names(program: Program, found: Diagnostics) -> None:
    modules, functions = program.modules, program.functions
    if not 1 <= program.lnc <= MAX_CORES or not np.array_equal(modules.core, np.arange(program.lnc)):
        bad(found, f"lnc={program.lnc} needs one module for each core in order, found cores {modules.core.tolist()}")
        return
    per_module = [functions.name[functions.module == row].tolist() for row in range(len(modules))]
    for core, names in enumerate(per_module):
        if len(set(names)) != len(names):
            bad(found, f"core {core} has two functions of one name")
        if names != per_module[0]:
            listed = [[program.strings[name] for name in each] for each in (per_module[0], names)]
            bad(
                found,
                f"functions must be equal on all cores: core 0 has {listed[0]}, core {core} has {listed[1]}",
            )
    if len(np.unique(modules.name)) < len(modules):
        bad(found, "two modules have one name")
    for what, names, parents in (
        ("block", program.blocks.name, program.blocks.function),
        ("location", program.locations.name, program.locations.function),
        ("instruction", program.instructions.name, program.instruction_function),
    ):
        key = parents.astype(np.int64) * (len(program.strings) + 1) + names
        order = np.argsort(key, kind="stable")
        twice = np.zeros(len(key), bool)
        twice[order[1:]] = key[order[1:]] == key[order[:-1]]
        for row in first_rows(twice & (names != NONE)):
            function = program.strings[int(functions.name[parents[row]])]
            bad(found, f"two {what}s are named {program.strings[int(names[row])]!r} in function @{function}")
    edges, blocks = program.edges, program.blocks
    for row in first_rows(blocks.function[edges.source] != blocks.function[edges.target]):
        bad(found, f"block ^{program.strings[int(blocks.name[edges.source[row]])]} leads into another function")
    branches = np.flatnonzero(blocks.cond != NONE)
    foreign = program.locations.function[blocks.cond[branches]] != blocks.function[branches]
    empty = program.locations.size[blocks.cond[branches]] < 1
    for wrong, what in ((foreign, "of another function"), (empty, "without bytes")):
        for row in branches[wrong].tolist():
            name = "^" + format_name(program.strings[int(blocks.name[row])])
            label = Label(name, place(program, NONE, int(blocks.text_line[row])))
            bad(found, f"block {name} branches on a location {what}", label)
    steps, stepped = program.steps, program.accesses.instruction[program.steps.access]
    for row in first_rows(program.instruction_function[stepped] != blocks.function[steps.header]):
        bad(found, "a step follows a loop of another function", instruction_label(program, int(stepped[row])))


def _check_locations(program: Program, found: Diagnostics) -> None:
    rows = program.locations
    for row in first_rows((rows.size < 0) | (rows.size > SIZE_MAX) | (rows.align < 1) | (rows.align > SIZE_MAX)):
        bad(found, f"invalid size {rows.size[row]} or align {rows.align[row]}", location_label(program, row))
    sizes = np.array(
        [dtypes.NUMPY[text].itemsize if text in dtypes.NUMPY else 0 for text in program.strings], np.int64
    )
    typed = np.flatnonzero(rows.dtype != NONE)
    for row in first_rows((rows.dtype != NONE) & (sizes[rows.dtype] == 0)) if len(typed) else []:
        dtype = program.strings[int(rows.dtype[row])]
        bad(found, f"unknown element type {dtype!r}", location_label(program, row))
    # Bytes by dtype and shape, one axis at a time; floats, because a product of extents may leave 64 bits.
    wanted = sizes[rows.dtype].astype(np.float64) if len(sizes) else np.zeros(len(rows))
    rank = rows.shape_end - rows.shape_begin
    for axis in range(int(rank.max(initial=0))):
        there = np.flatnonzero(rank > axis)
        wanted[there] *= program.shapes.extent[rows.shape_begin[there] + axis]
    for row in first_rows((rows.dtype != NONE) & (wanted != rows.size)):
        shape = f"{program.strings[int(rows.dtype[row])]}{list(program.shape(row))}"
        bad(found, f"size={rows.size[row]}, but {shape} is {wanted[row]:.0f} bytes", location_label(program, row))
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
            bad(found, f"data is {seen}, size={rows.size[row]}", location_label(program, row))
        elif rows.kind[row] != Kind.CONST:
            bad(found, "only kind=const may have data", location_label(program, row))
    for row in first_rows((rows.address > SIZE_MAX) | (rows.address < NONE)):
        bad(found, f"invalid address {rows.address[row]}", location_label(program, row))
    for row in first_rows((rows.address != NONE) & (rows.address % np.maximum(rows.align, 1) != 0)):
        bad(
            found, f"address {rows.address[row]} is not a multiple of {rows.align[row]}", location_label(program, row)
        )


def _check_classes(program: Program, found: Diagnostics) -> None:
    rows = program.locations
    function_name = program.functions.name[rows.function]
    texts: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(rows.same != NONE).tolist():
        wrong = classes_error(core_classes(program, row), program.lnc)
        key = int(function_name[row]), int(rows.name[row])
        if wrong is None and texts.setdefault(key, int(rows.same[row])) != rows.same[row]:
            wrong = "same differs from that of the same location on another core"
        if wrong is not None:
            bad(found, wrong, location_label(program, row))


def _check_views(program: Program, found: Diagnostics) -> None:
    rows, owner = program.locations, program.owner
    views = rows.remote_name != NONE
    for row in first_rows(views & (rows.space != Space.DRAM_SHARED)):
        bad(found, "only dram.shared may have remote=", location_label(program, row))
    for row in first_rows(views & ((rows.remote_core < 0) | (rows.remote_core >= program.lnc))):
        bad(found, f"unknown remote core {rows.remote_core[row]}, lnc={program.lnc}", location_label(program, row))
    for row in first_rows(views & (owner == NONE)):
        wanted = f"%{program.strings[int(rows.remote_name[row])]} of core {rows.remote_core[row]}"
        bad(found, f"its target {wanted} does not exist", location_label(program, row), code="unresolved-remote")
    resolved = np.where(owner == NONE, np.arange(len(rows)), owner)
    for row in first_rows(views & (rows.remote_core == program.location_core)):
        bad(found, "a view of its own core", location_label(program, row))
    for row in first_rows(views & (resolved != np.arange(len(rows))) & (rows.remote_name[resolved] != NONE)):
        bad(found, "a view of a view", location_label(program, row), location_label(program, int(owner[row])))
    for row in first_rows(views & (rows.size != rows.size[resolved])):
        target = int(owner[row])
        bad(
            found,
            f"a view of {rows.size[row]} bytes of a location of {rows.size[target]} bytes",
            location_label(program, row),
            location_label(program, target),
        )
    for row in first_rows(views & (rows.space[resolved] != Space.DRAM_SHARED)):
        bad(found, "its target is not dram.shared", location_label(program, row))


def _check_order(program: Program, found: Diagnostics) -> None:
    rows, function = program.dependences, program.instruction_function
    for row in first_rows(function[rows.instruction] != function[rows.producer]):
        label = instruction_label(program, int(rows.instruction[row]))
        bad(found, "it depends on an instruction of another function", label)
    # A forward dependence looks back in layout order unless blocks branch; carried ones may look anywhere.
    ahead = ~rows.carried & (rows.producer >= rows.instruction)
    ahead &= program.instructions.block[rows.producer] == program.instructions.block[rows.instruction]
    for row in first_rows(ahead):
        producer = format_name(program.instruction_name(int(rows.producer[row])))
        label = instruction_label(program, int(rows.instruction[row]))
        bad(found, f"it depends on %{producer}, which comes later", label)
    instructions = program.instructions
    barriers = np.zeros(len(instructions), bool)
    barriers[program.barriers.instruction] = True
    for row in first_rows((instructions.engine == Engine.ALL) & ~barriers):
        bad(found, "only core_barrier may run on engine all", instruction_label(program, row))
    bare = instructions.seq == NONE
    for each in np.unique(function).tolist():
        some = bare[function == each]
        if some.any() and not some.all():
            row = int(np.flatnonzero((function == each) & bare)[0])
            bad(found, "it has no seq, but other instructions of the function have", instruction_label(program, row))
    same = instructions.block[1:] == instructions.block[:-1]
    for row in first_rows(same & (instructions.seq[1:] < instructions.seq[:-1]) & ~bare[1:]):
        bad(
            found,
            f"seq falls from {instructions.seq[row]} to {instructions.seq[row + 1]}",
            instruction_label(program, row + 1),
        )
    for text in np.unique(program.barriers.cores[program.barriers.cores != NONE]).tolist():
        members = set_cores(program.strings[text])
        label = instruction_label(program, int(program.barriers.instruction[program.barriers.cores == text][0]))
        if set_text(members) != program.strings[text] or not members:
            bad(found, f"its participants {shown(program.strings[text])} are no list of cores that rise", label)
        elif members[0] < 0 or members[-1] >= program.lnc:
            bad(found, f"a participant is not a core of lnc={program.lnc}", label)
    meetings = program.meetings
    for at in first_rows((meetings.to >= program.lnc) | (meetings.source >= program.lnc)):
        bad(
            found,
            f"a peer is not a core of lnc={program.lnc}",
            instruction_label(program, int(meetings.instruction[at])),
        )


def _check_rendezvous(program: Program, found: Diagnostics) -> None:
    for name, opcode, rows in (
        ("barriers", "core_barrier", program.barriers.instruction),
        ("meetings", "sendrecv", program.meetings.instruction),
    ):
        wanted = np.flatnonzero(program.instructions.opcode == program.strings.find(opcode))
        if not np.array_equal(wanted, rows):
            bad(found, f"{name} has {len(rows)} rows, which are not those of the {len(wanted)} {opcode} instructions")


def _check_semaphores(program: Program, found: Diagnostics) -> None:
    table = program.semaphores
    for at in first_rows(np.where(table.wait, table.core != NONE, table.back)):
        label = instruction_label(program, int(table.instruction[at]))
        what = f"a wait on core {table.core[at]}" if table.wait[at] else "a signal that counts back"
        bad(found, f"{what}; only signals go to other cores, and only waits count back", label)
    use = semaphore_use(program)
    signals, waits = use.signals, use.waits
    for at in first_rows((signals.amount < 1) | (signals.amount > MAX_COUNT)):
        label = instruction_label(program, int(signals.instruction[at]))
        bad(found, f"a signal of {signals.amount[at]}, expected 1 to {MAX_COUNT}", label)
    for at in first_rows((waits.value < 0) | (waits.value > MAX_COUNT)):
        label = instruction_label(program, int(waits.instruction[at]))
        bad(found, f"a wait for {waits.value[at]}, expected 0 to {MAX_COUNT}", label)
    own = program.instruction_core[signals.instruction]
    for at in first_rows((signals.core < 0) | (signals.core >= program.lnc)):
        label = instruction_label(program, int(signals.instruction[at]))
        bad(found, f"a remote signal to core {signals.core[at]}, lnc={program.lnc}", label)
    for at in first_rows(signals.remote & (signals.core == own)):
        label = instruction_label(program, int(signals.instruction[at]))
        bad(found, f"a remote signal to core {signals.core[at]}, which is its own", label)
