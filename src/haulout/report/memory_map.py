"""A memory map: time against offset, one offline HTML page, a panel for each address space.

Every buffer is a box: its live range and its bytes. Above the boxes of a panel the live bytes are a curve; fences are
lines through all panels. Inputs and constants, which are live all the time, are folded until they are asked for. The
page (`templates/memory_map.*`) loads no other resource. Its data are compressed; what only a click shows is unpacked
at the first click.

The time of a program is a *step*: its instructions in the order in which they start by the estimate, where no
instruction comes before one that precedes it in its core's list. So lifetimes, which follow the lists, stay apart.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import jinja2
import msgspec
import numpy as np
import numpy.typing as npt

from haulout.analysis.fence_pairs import fence_pairs
from haulout.analysis.lifetimes import lifetimes
from haulout.analysis.makespan import makespan
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.paths import location_paths
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.packing import Problem, solve
from haulout.support.render import encodable
from haulout.support.shown import format_bytes
from haulout.target import DEFAULT, load_target

Ints = npt.NDArray[np.int64]

MAX_TOUCHES = 16
"""Accesses of a buffer that are listed."""
MAX_PAIRS = 12
"""Conflicts of a fence that are listed."""
_EFFORT = 3
"""Of the compression: more makes a page a tenth smaller, and takes three times as long."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Boxes of one address space. Ranges are half-open."""

    title: str
    names: Sequence[str]
    lower: Ints
    """One element a live range."""
    upper: Ints
    buffer: Ints
    """Buffer of each range."""
    offset: Ints
    """One element a buffer."""
    size: Ints
    group: Ints
    """Colour of each buffer: an index into `groups`."""
    groups: Sequence[str]
    capacity: int | None = None
    folded: int | None = None
    """The group that is hidden until it is asked for."""
    rows: Ints | None = None
    """Of each buffer: its location, for what a click shows."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a page shows of a program."""

    panels: list[Panel]
    time_unit: str = "moment"
    fences: list[dict[str, Any]] = field(default_factory=list)
    """`time`, `name`, and `orders`: lines of text."""
    details: dict[str, Any] = field(default_factory=dict)


def draw_program(program: Program) -> Drawing:
    """A panel for DRAM that cores share, or each core's part, and for each core's SBUF and PSUM. Locations of DRAM
    without an address are left out.
    """
    step = _steps(program)
    return Drawing(_panels(program, step), "step", _fences(program, step), _details(program))


def _steps(program: Program) -> Ints:
    """Of each instruction its step."""
    begin = makespan(program, load_target(DEFAULT)).begin
    core = program.instruction_core
    for first, end in pairwise(np.searchsorted(core, np.arange(program.lnc + 1)).tolist()):
        begin[first:end] = np.maximum.accumulate(begin[first:end])
    step = np.empty(len(begin), np.int64)
    step[np.lexsort((np.arange(len(begin)), core, begin))] = np.arange(len(begin))
    return step


def _panels(program: Program, step: Ints) -> list[Panel]:
    locations, life = program.locations, lifetimes(program)
    core = program.location_core
    placed = (locations.remote_name == NONE) & (locations.address != NONE) & (locations.size > 0)
    placed &= life.end > life.begin
    # The first and the last position of a core stand for the start and the end of the run.
    first, last = (np.searchsorted(program.instruction_core, core, side) for side in ("left", "right"))
    times = np.append(step, len(step))
    begin = np.where(life.begin <= first, 0, times[np.minimum(life.begin, last)])
    end = np.where(life.end >= last, len(step), times[np.clip(life.end - 1, 0, None)] + 1)
    begin = np.minimum(begin, end - 1)
    panels = []
    names = [
        program.strings[name] if path is None else f"{path} ({program.strings[name]})"
        for name, path in zip(locations.name.tolist(), location_paths(program), strict=True)
    ]
    for title, rows in [*_spaces(program, placed), *_unplaced(program, life.end > life.begin)]:
        shared, outside = locations.space[rows] == Space.DRAM_SHARED, locations.kind[rows] != Kind.INTERNAL
        offset, height = locations.address[rows], _heights(program, rows)
        if (offset == NONE).any():
            offset = solve(Problem.of(begin[rows], end[rows], height), effort=0).offset
        base = int(offset.min())
        panels.append(
            Panel(
                f"{title}, from {base:#x}" if base else title,
                [names[row] for row in rows.tolist()],
                begin[rows],
                end[rows],
                np.arange(len(rows)),
                offset - base,
                height,
                np.where(outside, 2, np.where(shared, 1, 0)).astype(np.int64),
                ("local", "shared", "input, output, constant"),
                folded=2,
                rows=rows,
            )
        )
    return panels


def _heights(program: Program, rows: Ints) -> Ints:
    """Bytes of an address space that each location takes: on chip those of one partition."""
    rows_of = program.locations
    on_chip = rows_of.space[rows] > Space.DRAM_SHARED
    found: Ints = np.where(on_chip, rows_of.size[rows] // np.maximum(rows_of.parts[rows], 1), rows_of.size[rows])
    return found


def _spaces(program: Program, placed: Bools) -> list[tuple[str, Ints]]:
    """Titles and locations of the address spaces: parts of DRAM that meet are one."""
    rows, core = program.locations, program.location_core
    found: list[tuple[str, Ints]] = []
    dram = placed & (rows.space <= Space.DRAM_SHARED)
    parts: list[tuple[int, int, list[int]]] = []
    for each in range(program.lnc):
        mine = np.flatnonzero(dram & (core == each))
        if len(mine):
            parts.append((int(rows.address[mine].min()), int((rows.address + rows.size)[mine].max()), [each]))
    merged: list[tuple[int, int, list[int]]] = []
    for begin, end, cores in sorted(parts):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end), sorted(merged[-1][2] + cores)
        else:
            merged.append((begin, end, cores))
    for _, _, cores in sorted(merged, key=lambda part: part[2]):
        name = f"core {cores[0]}" if len(cores) == 1 else f"cores {', '.join(map(str, cores))}"
        found.append((f"DRAM, {name}", np.flatnonzero(dram & np.isin(core, cores))))
    for space in (Space.SBUF, Space.PSUM):
        for each in range(program.lnc):
            mine = np.flatnonzero(placed & (rows.space == space) & (core == each))
            if len(mine):
                found.append((f"{space.name}, core {each}", mine))
    return found


def _unplaced(program: Program, lives: Bools) -> list[tuple[str, Ints]]:
    """Titles and locations on chip whose places are left to a later compiler: the drawing packs them, so that one
    sees how much is live at once.
    """
    rows, core = program.locations, program.location_core
    wanted = lives & (rows.remote_name == NONE) & (rows.address == NONE) & (rows.size > 0)
    found = []
    for space in (Space.SBUF, Space.PSUM):
        for each in range(program.lnc):
            mine = np.flatnonzero(wanted & (rows.space == space) & (core == each))
            if len(mine):
                found.append((f"{space.name}, core {each}, packed here as it has no addresses", mine))
    return found


def _fences(program: Program, step: Ints) -> list[dict[str, Any]]:
    """The fences with the conflicts that they alone order."""
    rows = fence_rows(program)
    first = rows[program.instruction_core[rows] == 0]
    names = np.full(len(program.instructions), NONE, np.int32)
    names[program.barriers.instruction] = program.barriers.name
    pairs, accesses = fence_pairs(program), program.accesses
    found = []
    for row in first.tolist():
        mine = np.flatnonzero(pairs.fence == row)
        lines = []
        for earlier, later in zip(pairs.earlier[mine[:MAX_PAIRS]], pairs.later[mine[:MAX_PAIRS]], strict=True):
            sides = [_access(program, int(access)) for access in (earlier, later)]
            lines.append(f"{program.strings[int(program.locations.name[accesses.location[earlier]])]}: "
                         f"{sides[0]}, then {sides[1]}")  # fmt: skip
        if len(mine) > MAX_PAIRS:
            lines.append(f"and {len(mine) - MAX_PAIRS} more")
        found.append({"time": int(step[row]), "name": program.strings[int(names[row])], "orders": lines})
    return found


def _access(program: Program, access: int) -> str:
    row = int(program.accesses.instruction[access])
    what = "writes" if program.accesses.write[access] else "reads"
    return f"{program.instruction_name(row)} on core {int(program.instruction_core[row])} {what}"


def _details(program: Program) -> dict[str, Any]:
    """What a click shows: of each location its type and shape, and its first accesses."""
    rows, accesses = program.locations, program.accesses
    owner = program.owner[accesses.location]
    order = np.flatnonzero(owner != NONE)
    order = order[np.argsort(owner[order], kind="stable")]
    owner = owner[order]
    start = np.searchsorted(owner, np.arange(len(rows) + 1))
    order = order[np.arange(len(order)) - start[owner] < MAX_TOUCHES]
    listed = np.searchsorted(program.owner[accesses.location[order]], np.arange(len(rows) + 1))
    used, which = np.unique(accesses.instruction[order], return_inverse=True)
    loc = program.instructions.loc[used].tolist()
    names = [encodable(program.instruction_name(row)) for row in used.tolist()]
    return {
        "type": [encodable(_type(program, row)) for row in range(len(rows))],
        "place": [_text(program, name) for name in rows.loc.tolist()],
        "core": program.location_core.tolist(),
        "start": listed.tolist(),
        "count": np.diff(start).tolist(),
        "touch": which.tolist(),
        "write": accesses.write[order].astype(int).tolist(),
        "instruction": names,
        "instruction_core": program.instruction_core[used].tolist(),
        "loc": [_text(program, name) for name in loc],
    }


def _type(program: Program, row: int) -> str:
    dtype, kind = int(program.locations.dtype[row]), Kind(int(program.locations.kind[row])).text
    shape = program.shape(row)
    text = "" if dtype == NONE else program.strings[dtype]
    text += "" if shape is None else "[" + ",".join(map(str, shape)) + "]"
    return " ".join(part for part in (text, kind) if part)


def _text(program: Program, name: int) -> str:
    return "" if name == NONE else encodable(program.strings[name])


# -- the page --------------------------------------------------------------------------------------------------------


def memory_map(title: str, drawing: Drawing) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("haulout.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    views = [_view(panel) for panel in drawing.panels]
    fences = [
        {**fence, "name": encodable(fence["name"]), "orders": [encodable(line) for line in fence["orders"]]}
        for fence in drawing.fences
    ]
    data = {"unit": drawing.time_unit, "panels": [view["data"] for view in views], "fences": fences}
    page = environment.get_template("memory_map.html").render(
        title=title,
        views=views,
        time_unit=drawing.time_unit,
        data=_packed(data),
        details=_packed(drawing.details),
        style=environment.get_template("memory_map.css").render(),
        code=environment.get_template("memory_map.js").render(),
    )
    return encodable(page)


def _packed(value: Any) -> str:
    """JSON, compressed, in base64: nothing in it can end the script element."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(value), _EFFORT)).decode()


def _view(panel: Panel) -> dict[str, Any]:
    times, level = _levels(panel)
    at = int(np.argmax(level)) if len(level) else 0
    peak, time = (int(level[at]), int(times[at])) if len(level) else (0, 0)
    top = int((panel.offset + panel.size).max(initial=0))
    order = np.argsort(-(panel.upper - panel.lower) * panel.size[panel.buffer].astype(float), kind="stable")
    return {
        "title": panel.title,
        "peak": format_bytes(peak),
        "top": format_bytes(top),
        "peak_time": time,
        "boxes": len(panel.lower),
        "groups": list(panel.groups),
        "data": {
            "title": encodable(panel.title),
            "names": list(map(encodable, panel.names)),
            "lower": panel.lower[order].tolist(),
            "upper": panel.upper[order].tolist(),
            "buffer": panel.buffer[order].tolist(),
            "offset": panel.offset.tolist(),
            "size": panel.size.tolist(),
            "group": panel.group.tolist(),
            "groups": list(panel.groups),
            "folded": panel.folded,
            "row": [] if panel.rows is None else panel.rows.tolist(),
            "times": times.tolist(),
            "level": level.tolist(),
            "time": time,
            "top": max(top, panel.capacity or 0),
            "capacity": panel.capacity,
        },
    }


def _levels(panel: Panel) -> tuple[Ints, Ints]:
    """Moments, and the bytes that are live from each on."""
    size = panel.size[panel.buffer]
    live = panel.upper > panel.lower
    moments, at = np.unique(np.concatenate([panel.lower[live], panel.upper[live]]), return_inverse=True)
    change = np.concatenate([size[live], -size[live]])
    total = np.zeros(len(moments), np.int64)
    np.add.at(total, at, change)
    return moments.astype(np.int64), np.cumsum(total)
