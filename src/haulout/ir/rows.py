"""New rows for a program that exists: collected one by one, entered by one merge of each table.

A pass that replaces instructions (a collective by copies, a constant by its value) collects here what it makes and
what it deletes; `apply` then inserts, deletes and renumbers once. Locations come first: `location` returns ids that
the new instructions may use at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from haulout.ir.attributes import AttrValue, format_attrs
from haulout.ir.edit import NewInstructions, compact, insert
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import TABLES, Ids

Operand = tuple[int, Pattern | None]


class Changes:
    """Rows to add to and delete from one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.strings = program.strings
        self.deleted = np.zeros(len(program.instructions), bool)
        self._before: list[int] = []
        self._shared: set[int] = set()
        self._views: dict[int, int] = {}
        self._patterns: dict[Pattern, int] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def location(
        self,
        function: int,
        name: str,
        space: Space,
        size: int,
        *,
        dtype: str | None = None,
        shape: Sequence[int] = (),
        remote: tuple[str, int] | None = None,
        align: int = 64,
        loc: int = NONE,
    ) -> int:
        """A new internal location; returns its id until `apply`."""
        begin = len(self.program.shapes) + len(self._rows["shapes"])
        self._rows["shapes"] += [{"extent": extent} for extent in shape]
        self._rows["locations"].append(
            {
                "name": self.strings.intern(name),
                "function": function,
                "space": int(space),
                "kind": int(Kind.INTERNAL),
                "size": size,
                "align": align,
                "dtype": self.strings.optional(dtype),
                "shape_begin": begin,
                "shape_end": begin + len(shape),
                "remote_name": NONE if remote is None else self.strings.intern(remote[0]),
                "remote_core": NONE if remote is None else remote[1],
                "loc": loc,
            }
        )
        return len(self.program.locations) + len(self._rows["locations"]) - 1

    def share(self, row: int) -> None:
        """Make an old local location a shared one, which its core owns."""
        self._shared.add(row)

    def view(self, row: int, owner: int) -> None:
        """Make an old local location a view of another old location, which becomes a shared one."""
        self.share(owner)
        self._views[row] = owner

    def instruction(
        self,
        before: int,
        name: str,
        opcode: str,
        engine: Engine,
        reads: Iterable[Operand],
        writes: Iterable[Operand],
        *,
        seq: int = NONE,
        attrs: Mapping[str, AttrValue] | str | None = None,
    ) -> int:
        """A new instruction in front of row `before`, in the same block and from the same source line.

        `attrs` as text have the form that `format_attrs` gives.
        """
        old = self.program.instructions
        index = len(self._before)
        self._before.append(before)
        self._rows["instructions"].append(
            {
                "name": self.strings.intern(name),
                "block": int(old.block[before]),
                "opcode": self.strings.intern(opcode),
                "engine": int(engine),
                "seq": seq,
                "attrs": self.strings.intern(attrs if isinstance(attrs, str) else format_attrs(attrs))
                if attrs
                else NONE,
                "loc": int(old.loc[before]),
                "text_line": int(old.text_line[before]),
            }
        )
        for write, operands in ((False, reads), (True, writes)):
            for location, pattern in operands:
                self._rows["accesses"].append(
                    {"instruction": index, "location": location, "pattern": self._pattern(pattern), "write": write}
                )
        return index

    def barrier(self, before: int, name: str, rendezvous: str, made_by: str, *, seq: int = NONE) -> None:
        """A new fence: a `core_barrier` on engine `all` of all cores."""
        index = self.instruction(before, name, "core_barrier", Engine.ALL, (), (), seq=seq)
        self._rows["barriers"].append(
            {
                "instruction": index,
                "name": self.strings.intern(rendezvous),
                "made_by": self.strings.intern(made_by),
            }
        )

    def delete(self, row: int) -> None:
        """Delete an old instruction."""
        self.deleted[row] = True

    def _pattern(self, pattern: Pattern | None) -> int:
        if pattern is None:
            return NONE
        if pattern in self._patterns:
            return self._patterns[pattern]
        begin = len(self.program.dims) + len(self._rows["dims"])
        self._rows["dims"] += [{"stride": stride, "count": count} for stride, count in pattern.dims]
        self._rows["patterns"].append(
            {
                "offset": pattern.offset,
                "run": pattern.run,
                "dim_begin": begin,
                "dim_end": begin + len(pattern.dims),
            }
        )
        row = self._patterns[pattern] = len(self.program.patterns) + len(self._rows["patterns"]) - 1
        return row

    def _table(self, name: str) -> Any:
        rows = self._rows[name]
        columns: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
        return TABLES[name].make(len(rows), **columns)

    def apply(self) -> tuple[Program, Ids]:
        """The changed program, and old instruction id -> new id (NONE: deleted)."""
        program = self.program
        program = program.replace(
            patterns=program.patterns.append(self._table("patterns")),
            dims=program.dims.append(self._table("dims")),
            shapes=program.shapes.append(self._table("shapes")),
        )
        views, owners = list(self._views), list(self._views.values())
        space, name, core = (
            getattr(program.locations, each).copy() for each in ("space", "remote_name", "remote_core")
        )
        space[sorted(self._shared) + views] = Space.DRAM_SHARED
        name[views], core[views] = program.locations.name[owners], program.location_core[owners]
        merged = program.locations.replace(space=space, remote_name=name, remote_core=core).append(
            self._table("locations")
        )
        order = np.argsort(merged.function, kind="stable").astype(np.int32)
        position: Ids = np.empty(len(order), np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        maps = {"locations": position}
        program = program.replace(
            locations=merged.take(order),
            accesses=program.accesses.remap(maps),
            blocks=program.blocks.remap(maps),
        )
        new = NewInstructions(
            np.array(self._before, np.int32),
            self._table("instructions"),
            accesses=self._table("accesses").remap(maps),
            barriers=self._table("barriers"),
        )
        old_rows = len(program.instructions)
        program, moved = insert(program, new)
        keep = np.ones(len(program.instructions), bool)
        keep[moved[:old_rows][self.deleted]] = False
        program, packed = compact(program, keep)
        return program, packed[moved[:old_rows]]
