"""A program: its tables, and columns derived from them.

Passes read whole columns and return a new `Program` by `replace`; columns are never written in place once a program
is made. What can be derived (ranges of children, the core of an instruction) is a cached method, not a column.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from haulout.ir.attributes import AttrValue, parse_attrs
from haulout.ir.core_sets import CoreSets, core_sets
from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.schema import (
    TABLES,
    Accesses,
    Barriers,
    Blocks,
    Dependences,
    Dims,
    Edges,
    Functions,
    Ids,
    Instructions,
    Ints,
    Locations,
    Meetings,
    Modules,
    Patterns,
    Semaphores,
    Shapes,
    Steps,
    Table,
)
from haulout.ir.strings import StringTable

if TYPE_CHECKING:
    from haulout.ir.frames import Library
    from haulout.ir.structure import Structure
    from haulout.ir.views import ModuleView


@dataclass
class Program:
    """The modules of all cores, as tables. `file` is where its `.bir` or source text came from, for messages."""

    name: str
    lnc: int
    strings: StringTable
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    modules: Modules = field(default_factory=Modules.empty)
    functions: Functions = field(default_factory=Functions.empty)
    blocks: Blocks = field(default_factory=Blocks.empty)
    edges: Edges = field(default_factory=Edges.empty)
    instructions: Instructions = field(default_factory=Instructions.empty)
    accesses: Accesses = field(default_factory=Accesses.empty)
    patterns: Patterns = field(default_factory=Patterns.empty)
    dims: Dims = field(default_factory=Dims.empty)
    locations: Locations = field(default_factory=Locations.empty)
    shapes: Shapes = field(default_factory=Shapes.empty)
    dependences: Dependences = field(default_factory=Dependences.empty)
    barriers: Barriers = field(default_factory=Barriers.empty)
    meetings: Meetings = field(default_factory=Meetings.empty)
    steps: Steps = field(default_factory=Steps.empty)
    semaphores: Semaphores = field(default_factory=Semaphores.empty)
    file: str | None = None

    # -- whole-program operations ---------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Program:
        """The same program with some fields replaced. Of what is derived only an equal structure is kept."""
        kept = {item.name: getattr(self, item.name) for item in fields(self)}
        made = Program(**{**kept, **changes})
        if "structure" in self.__dict__ and not changes.keys() & {"lnc", "modules", "functions", "blocks", "edges"}:
            made.__dict__["structure"] = self.structure
        return made

    def table(self, name: str) -> Table:
        """A table by its name in the schema."""
        found: Table = getattr(self, name)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all columns; strings not counted."""
        return sum(self.table(name).nbytes for name in TABLES)

    @property
    def output_names(self) -> list[str]:
        """Locations (equal names on all cores) that hold the results, in the order of the source's result tuple."""
        names = self.attrs.get("outputs", [])
        return [str(name) for name in names] if isinstance(names, list) else []

    # -- derived columns ------------------------------------------------------------------------------------

    @cached_property
    def function_core(self) -> Ids:
        """Core of each function."""
        return self.modules.core[self.functions.module]

    @cached_property
    def block_core(self) -> Ids:
        """Core of each block."""
        return self.function_core[self.blocks.function]

    @cached_property
    def instruction_function(self) -> Ids:
        """Function of each instruction."""
        return self.blocks.function[self.instructions.block]

    @cached_property
    def instruction_core(self) -> Ids:
        """Core of each instruction."""
        return self.block_core[self.instructions.block]

    @cached_property
    def location_core(self) -> Ids:
        """Core whose function names each location (the viewer's, for a view)."""
        return self.function_core[self.locations.function]

    @cached_property
    def owner(self) -> Ids:
        """Owner location of each location: itself, or for a view its target, by name; NONE when it has no target."""
        return _resolve_owners(self)

    @cached_property
    def core_sets(self) -> CoreSets:
        """The participants of each row of `barriers`."""
        return core_sets(self.barriers.cores, self.strings, self.lnc)

    def starts(self, child: str, parent: str) -> Ints:
        """Where each parent row's children begin: `children of p` = rows `starts[p]:starts[p + 1]`."""
        rows = self.table(child)
        column = getattr(rows, type(rows).parent or "")
        return np.searchsorted(column, np.arange(len(self.table(parent)) + 1)).astype(np.int64)

    @cached_property
    def access_starts(self) -> Ints:
        """Operands of instruction i: rows `access_starts[i]:access_starts[i + 1]` of `accesses`."""
        return self.starts("accesses", "instructions")

    @cached_property
    def structure(self) -> Structure:
        """The loops and forks of all functions; raises `bad-input` where the control flow is not supported."""
        from haulout.ir.read_structure import program_structure

        return program_structure(self)

    # -- single rows, for printers and messages ---------------------------------------------------------------

    def pattern(self, index: int) -> Pattern | None:
        """A row of `patterns` as a value; None for NONE, the whole location."""
        if index == NONE:
            return None
        rows = self.patterns
        begin, end = int(rows.dim_begin[index]), int(rows.dim_end[index])
        dims = zip(self.dims.stride[begin:end].tolist(), self.dims.count[begin:end].tolist(), strict=True)
        return Pattern(int(rows.offset[index]), int(rows.run[index]), tuple(dims))

    def shape(self, location: int) -> tuple[int, ...]:
        """Extents of a location."""
        rows = self.locations
        return tuple(self.shapes.extent[rows.shape_begin[location] : rows.shape_end[location]].tolist())

    def instruction_name(self, index: int) -> str:
        """The instruction's name; an anonymous one is named by its position in its function, `_12`."""
        name = int(self.instructions.name[index])
        if name != NONE:
            return self.strings[name]
        function = self.instruction_function[index]
        first = int(np.searchsorted(self.instruction_function, function))
        return f"_{index - first}"

    def instruction_attrs(self, index: int) -> dict[str, AttrValue]:
        """Attributes of an instruction that have no column of their own."""
        text = self.strings.get(int(self.instructions.attrs[index]))
        return parse_attrs(text) if text else {}

    def location_attrs(self, index: int) -> dict[str, AttrValue]:
        """Attributes of a location that have no column of their own."""
        text = self.strings.get(int(self.locations.attrs[index]))
        return parse_attrs(text) if text else {}

    def module_views(self) -> list[ModuleView]:
        """The modules, to walk by hand (printers, a debugger; not passes)."""
        from haulout.ir.views import ModuleView

        return [ModuleView(self, row) for row in range(len(self.modules))]

    # -- notebooks ----------------------------------------------------------------------------------------------

    def frame(self, name: str, library: Library = "auto") -> Any:
        """A table with decoded names and enums: a pandas DataFrame, or without pandas a dict of NumPy columns.

        Tables of which each row is on a core have the column `core` first. Ids of other tables are row numbers. Null
        is None in columns of texts, -1 in a dict of integers. Raises `HauloutError` for an unknown name.
        """
        from haulout.ir import frames

        frames.check_table(name)
        return frames.frame(self.table(name), self.strings, self._core_column(name), library)

    def to_arrow(self, name: str) -> Any:
        """The same as a `pyarrow.Table` (the extra `arrow`). Raises `HauloutError` without pyarrow."""
        from haulout.ir import frames

        frames.check_table(name)
        return frames.arrow(self.table(name), self.strings, self._core_column(name))

    def _core_column(self, name: str) -> dict[str, Ids]:
        cores = {
            "functions": "function_core",
            "blocks": "block_core",
            "instructions": "instruction_core",
            "locations": "location_core",
        }
        return {"core": getattr(self, cores[name])} if name in cores else {}

    def _repr_html_(self) -> str:
        from haulout.support.html import html_table

        rows = []
        for core in range(self.lnc):
            here = self.location_core == core
            size = int(self.locations.size[here & (self.owner == np.arange(len(self.locations)))].sum())
            mine = self.instruction_core == core
            fences = np.isin(self.barriers.instruction, np.flatnonzero(mine)).sum()
            rows.append((core, f"{mine.sum():,}", f"{fences:,}", f"{here.sum():,}", f"{size:,}"))
        headings = ("core", "instructions", "barriers", "locations", "bytes owned")
        return html_table(self.name, headings, rows)

    def __repr__(self) -> str:
        return (
            f"<Program {self.name!r}: {self.lnc} cores, {len(self.instructions)} instructions, "
            f"{len(self.locations)} locations, {len(self.barriers)} barriers>"
        )


def _resolve_owners(program: Program) -> Ids:
    """Join views with their targets on (core, function name, location name): by name, never by index."""
    locations, strings = program.locations, max(len(program.strings), 1)
    function_name = program.functions.name[locations.function].astype(np.int64)

    def key(core: Ids, name: Ids) -> Ints:
        # Strings are interned, so (core, function name, name) packs into one integer.
        return (core.astype(np.int64) * strings + function_name) * strings + name

    rows = np.arange(len(locations), dtype=np.int32)
    owner = rows.copy()
    views = np.flatnonzero(locations.remote_name != NONE)
    if len(views):
        own = key(program.location_core, locations.name)
        order = np.argsort(own, kind="stable")
        wanted = key(locations.remote_core, locations.remote_name)[views]
        at = np.minimum(np.searchsorted(own, wanted, sorter=order), len(order) - 1)
        found = rows[order[at]]
        owner[views] = np.where(own[found] == wanted, found, NONE)
    return owner
