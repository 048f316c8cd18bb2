"""A memory map: time against offset, one offline HTML page, a panel a core (or one for a planner's problem).

Every buffer is a box: its live range and its bytes. The page shows the peak, the buffers that are live there, and the
box under the pointer. It loads no other resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
import msgspec
import numpy as np
import numpy.typing as npt

from haulout.analysis.lifetimes import lifetimes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.report.tables import format_bytes
from haulout.support.render import encodable

Ints = npt.NDArray[np.int64]

MAX_BOXES = 20_000
"""Of a panel: the largest by bytes times time; the page reports the number of others."""
MAX_LISTED = 40
_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Escapes for JSON in a script element: names must not end it or start a comment."""


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


def program_panels(program: Program) -> list[Panel]:
    """A panel a core: the locations that it owns, over its own instruction list, from its partition's start."""
    locations, life = program.locations, lifetimes(program)
    owned = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE) & (locations.address != NONE)
    owned &= (locations.size > 0) & (life.end > life.begin)
    panels = []
    for core in range(program.lnc):
        rows = np.flatnonzero(owned & (program.location_core == core))
        if not len(rows):
            continue
        base = int(locations.address[rows].min())
        first = int(np.searchsorted(program.instruction_core, core))
        shared = locations.space[rows] == Space.DRAM_SHARED
        outside = locations.kind[rows] != Kind.INTERNAL
        panels.append(
            Panel(
                f"core {core}, partition at {base:#x}",
                [program.strings[name] for name in locations.name[rows].tolist()],
                life.begin[rows] - first,
                life.end[rows] - first,
                np.arange(len(rows)),
                locations.address[rows] - base,
                locations.size[rows],
                np.where(shared, 1, np.where(outside, 2, 0)).astype(np.int64),
                ("local", "shared", "input, output, constant"),
            )
        )
    return panels


def memory_map(title: str, panels: Sequence[Panel], *, time_unit: str = "instruction") -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("haulout.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    views = [_view(panel) for panel in panels]
    data = msgspec.json.encode([view["data"] for view in views]).decode()
    page = environment.get_template("memory_map.html").render(
        title=title, views=views, data=data.translate(_IN_SCRIPT), time_unit=time_unit
    )
    return encodable(page)


def _view(panel: Panel) -> dict[str, object]:
    time, peak = _peak(panel)
    rows = np.arange(len(panel.lower))
    if len(rows) > MAX_BOXES:
        area = (panel.upper - panel.lower).astype(float) * panel.size[panel.buffer]
        rows = np.sort(np.argsort(-area, kind="stable")[:MAX_BOXES])
    live = np.flatnonzero((panel.lower <= time) & (time < panel.upper))
    live = live[np.argsort(-panel.size[panel.buffer[live]], kind="stable")]
    top = int((panel.offset + panel.size).max(initial=0))
    buffer = panel.buffer[rows]
    return {
        "title": panel.title,
        "peak": format_bytes(peak),
        "top": format_bytes(top),
        "peak_time": time,
        "boxes": len(panel.lower),
        "drawn": len(rows),
        "groups": list(panel.groups),
        "live": [
            {
                "name": panel.names[at],
                "size": format_bytes(int(panel.size[at])),
                "offset": f"{int(panel.offset[at]):#x}",
                "range": f"{int(panel.lower[row])}..{int(panel.upper[row])}",
            }
            for row, at in ((row, int(panel.buffer[row])) for row in live[:MAX_LISTED].tolist())
        ],
        "more": max(len(live) - MAX_LISTED, 0),
        "data": {
            "names": [encodable(panel.names[at]) for at in buffer.tolist()],
            "lower": panel.lower[rows].tolist(),
            "upper": panel.upper[rows].tolist(),
            "offset": panel.offset[buffer].tolist(),
            "size": panel.size[buffer].tolist(),
            "group": panel.group[buffer].tolist(),
            "time": time,
            "top": max(top, panel.capacity or 0),
            "capacity": panel.capacity,
        },
    }


def _peak(panel: Panel) -> tuple[int, int]:
    """The first moment with the most bytes live, and those bytes."""
    size = panel.size[panel.buffer]
    live = panel.upper > panel.lower
    times = np.concatenate([panel.lower[live], panel.upper[live]])
    change = np.concatenate([size[live], -size[live]])
    if not len(times):
        return 0, 0
    moments, at = np.unique(times, return_inverse=True)
    level = np.cumsum(np.bincount(at, weights=change.astype(float)))
    best = int(np.argmax(level))
    return int(moments[best]), int(level[best])
