"""What a program keeps of its source: names of results, donation, the memory that XLA plans, what the text lacks.

    results=[TEXT,...]    what the author calls each of `outputs=` (`paths.py`)
    donated=[NAME,...]    inputs that may be overwritten; those that hold a result are kind=inout
    xla_memory=[DEVICES,ARGUMENTS,RESULTS,ALIASED,TEMPORARIES]    bytes on each device
    incomplete=[TEXT,...]    what the source leaves out; `incomplete-text` says it

Reports alone use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from haulout.ir.attributes import AttrValue, format_attrs, int_list, parse_attrs
from haulout.ir.enums import NONE, Kind
from haulout.ir.paths import KEY, RESULTS
from haulout.ir.program import Program

DONATED = "donated"
XLA_MEMORY = "xla_memory"
INCOMPLETE = "incomplete"


class XlaMemory(NamedTuple):
    """Bytes on each of `devices` by the buffer assignment of XLA for CPUs."""

    devices: int
    arguments: int
    results: int
    aliased: int
    """Of the results: those that are stored where an argument is."""
    temporaries: int

    @property
    def total(self) -> int:
        """Bytes on one device."""
        return self.arguments + self.results - self.aliased + self.temporaries


def with_origin(
    program: Program,
    *,
    donated: Sequence[str] = (),
    arguments: Sequence[str] = (),
    results: Sequence[str] = (),
    memory: XlaMemory | None = None,
    incomplete: Sequence[str] = (),
) -> Program:
    """The program with these facts: `donated` are names of locations, `results` paths in the order of `outputs=`.

    `arguments` are paths in the order of the parameters, which are the first locations of each core. Paths of another
    number than that of `outputs=` are not used.
    """
    attrs: dict[str, AttrValue] = dict(program.attrs)
    if donated:
        attrs[DONATED] = list(donated)
    if memory is not None:
        attrs[XLA_MEMORY] = list(memory)
    if incomplete:
        attrs[INCOMPLETE] = list(incomplete)
    rows, column = program.locations, program.locations.attrs.copy()
    inputs = {int(name): path for name, path in zip(rows.name.tolist(), arguments, strict=False)}
    outputs: dict[int, str] = {}
    if results and len(results) == len(program.output_names):
        attrs[RESULTS] = list(results)
        outputs = {program.strings.intern(n): path for n, path in zip(program.output_names, results, strict=True)}
    for row, (kind, name) in enumerate(zip(rows.kind.tolist(), rows.name.tolist(), strict=True)):
        paths = outputs if kind == Kind.OUTPUT else inputs if kind in (Kind.INPUT, Kind.INOUT) else {}
        if (path := paths.get(name)) is not None:
            text = program.strings.get(int(column[row]))
            column[row] = program.strings.intern(format_attrs({**(parse_attrs(text) if text else {}), KEY: path}))
    return program.replace(attrs=attrs, locations=rows.replace(attrs=column))


def donated_locations(program: Program) -> list[tuple[int, bool]]:
    """Of the first core each donated input, and whether a result is stored there."""
    listed = program.attrs.get(DONATED)
    names = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
    rows = program.locations
    inputs = [
        row
        for row, kind in enumerate(rows.kind.tolist())
        if kind in (Kind.INPUT, Kind.INOUT) and program.location_core[row] == 0
    ]
    found = [row for row in inputs if program.strings[int(rows.name[row])] in names]
    return [(row, int(rows.kind[row]) == Kind.INOUT) for row in found]


def aliased_bytes(program: Program) -> int:
    """Bytes of the inputs of all cores that hold a result, those that are stored once counted once."""
    rows = program.locations
    mask = (rows.kind == Kind.INOUT) & (rows.remote_name == NONE)
    return int(rows.size[mask].sum())


def xla_memory(program: Program) -> XlaMemory | None:
    """The memory that XLA plans, None if it is not known."""
    listed = program.attrs.get(XLA_MEMORY)
    found = None if listed is None else int_list(listed)
    return XlaMemory(*found) if found is not None and len(found) == 5 and min(found) >= 0 else None
