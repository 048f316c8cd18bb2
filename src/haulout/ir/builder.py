"""Making a program row by row: append, then freeze once.

    build = ProgramBuilder("two-core sum", lnc=2)
    main = build.function(build.module("nc0", core=0), "main")
    x = build.location(main, "x", Space.DRAM_LOCAL, 4096, kind=Kind.INPUT)
    entry = build.block(main, "entry")
    build.instruction(entry, "w", "dma_copy", Engine.DMA0, reads=[x], writes=[(part0, Pattern(0, 4096))], seq=0)
    program = build.freeze()

Rows are appended in layout order (module by module, function by function, block by block); instructions may be
appended to any block, `freeze` puts them in block order and keeps the order within each block. Ids that `instruction`
returns are valid as `deps` of later ones and until `freeze`, not after it when blocks were filled out of turn.

What a call is given is checked at the call (`builder_checks.py`); whether the whole is sound, `verify` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from haulout.ir.attributes import AttrValue, format_attrs, format_value
from haulout.ir.builder_checks import Checks, check_program
from haulout.ir.core_sets import set_text
from haulout.ir.enums import NONE, DependenceKind, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import TABLES, Ids
from haulout.ir.strings import StringTable

Operand = int | tuple[int, Pattern | None]
"""A location id, or (location id, bytes of it); None: all bytes."""


class ProgramBuilder:
    """Rows of every table as Python lists until `freeze`.

    Names, ids, sizes, cores and numbers that cannot be right raise `HauloutError` (`bad-input`) at the call, unless
    `checked` is off, for a reader that checks them itself, with their places.
    """

    def __init__(
        self,
        name: str,
        lnc: int,
        *,
        attrs: Mapping[str, AttrValue] | None = None,
        file: str | None = None,
        checked: bool = True,
    ) -> None:
        if checked:
            check_program(name, lnc, attrs)
        self.name, self.lnc, self.file = name, lnc, file
        self.attrs: dict[str, AttrValue] = dict(attrs or {})
        self.strings = StringTable()
        self._rows: dict[str, dict[str, list[Any]]] = {
            name: {column: [] for column in table.specs()} for name, table in TABLES.items()
        }
        self._defaults = {
            name: {column: spec["default"] for column, spec in table.specs().items()}
            for name, table in TABLES.items()
        }
        self._patterns: dict[Pattern, int] = {}
        self._checks = Checks(self._rows, self.strings, lnc) if checked else None

    def row(self, table: str, **values: Any) -> int:
        """Append a row; columns not named take their defaults. Returns its id."""
        columns, defaults = self._rows[table], self._defaults[table]
        index = -1
        for name, cells in columns.items():
            index = len(cells)
            cells.append(values.pop(name, defaults[name]))
        if values:
            raise TypeError(f"{table} has no column {', '.join(values)}")
        return index

    def count(self, table: str) -> int:
        """Rows appended so far."""
        return len(next(iter(self._rows[table].values())))

    def _attrs(self, attrs: Mapping[str, AttrValue] | None) -> int:
        return self.strings.intern(format_attrs(attrs)) if attrs else NONE

    def module(
        self,
        name: str,
        core: int,
        *,
        subgraph: int | None = None,
        attrs: Mapping[str, AttrValue] | None = None,
    ) -> int:
        """The module of one core."""
        if self._checks is not None:
            self._checks.module(name, core, subgraph, attrs)
        return self.row(
            "modules",
            name=self.strings.intern(name),
            core=core,
            subgraph=NONE if subgraph is None else subgraph,
            attrs=self._attrs(attrs),
        )

    def function(self, module: int, name: str, *, attrs: Mapping[str, AttrValue] | None = None) -> int:
        """A function of a module."""
        if self._checks is not None:
            self._checks.function(module, name, attrs)
        return self.row("functions", name=self.strings.intern(name), module=module, attrs=self._attrs(attrs))

    def location(
        self,
        function: int,
        name: str,
        space: Space,
        size: int,
        *,
        kind: Kind = Kind.INTERNAL,
        align: int = 64,
        dtype: str | None = None,
        shape: Sequence[int] | None = None,
        data: str | None = None,
        remote: tuple[str, int] | None = None,
        address: int | None = None,
        bank: int | None = None,
        partition: int | None = None,
        parts: int | None = None,
        same: Sequence[Sequence[int]] | None = None,
        attrs: Mapping[str, AttrValue] | None = None,
        loc: str | None = None,
        text_line: int = NONE,
    ) -> int:
        """A memory location; `size` and `address` in bytes, `data` base64, `remote` the owner's (name, core).

        `same`: the cores that hold equal bytes, by class.
        """
        if self._checks is not None:
            self._checks.location(
                function,
                name,
                space,
                size,
                kind=kind,
                align=align,
                dtype=dtype,
                shape=shape,
                data=data,
                remote=remote,
                address=address,
                bank=bank,
                partition=partition,
                parts=parts,
                same=same,
                attrs=attrs,
            )
        extents = self._rows["shapes"]["extent"]
        begin = len(extents)
        extents.extend(shape or ())

        def null(value: int | None) -> int:
            return NONE if value is None else value

        return self.row(
            "locations",
            name=self.strings.intern(name),
            function=function,
            space=int(space),
            kind=int(kind),
            size=size,
            align=align,
            dtype=self.strings.optional(dtype),
            shape_begin=begin,
            shape_end=len(extents),
            data=self.strings.optional(data),
            remote_name=NONE if remote is None else self.strings.intern(remote[0]),
            remote_core=NONE if remote is None else remote[1],
            address=null(address),
            bank=null(bank),
            partition=null(partition),
            parts=null(parts),
            same=NONE if same is None else self.strings.intern(format_value([list(each) for each in same])),
            attrs=self._attrs(attrs),
            loc=self.strings.optional(loc),
            text_line=text_line,
        )

    def block(
        self,
        function: int,
        name: str,
        *,
        trip: int | None = None,
        cond: int | None = None,
        divergent: bool = False,
        attrs: Mapping[str, AttrValue] | None = None,
        text_line: int = NONE,
    ) -> int:
        """A basic block."""
        if self._checks is not None:
            self._checks.block(function, name, trip, cond, attrs)
        return self.row(
            "blocks",
            name=self.strings.intern(name),
            function=function,
            trip=NONE if trip is None else trip,
            cond=NONE if cond is None else cond,
            divergent=divergent,
            attrs=self._attrs(attrs),
            text_line=text_line,
        )

    def edge(self, source: int, target: int) -> None:
        """Add a successor to a block."""
        if self._checks is not None:
            self._checks.edge(source, target)
        self.row("edges", source=source, target=target)

    def pattern(self, pattern: Pattern) -> int:
        """The id of a pattern; equal ones share a row."""
        found = self._patterns.get(pattern)
        if found is None:
            strides, counts = self._rows["dims"]["stride"], self._rows["dims"]["count"]
            begin = len(strides)
            for stride, count in pattern.dims:
                strides.append(stride)
                counts.append(count)
            found = self.row(
                "patterns", offset=pattern.offset, run=pattern.run, dim_begin=begin, dim_end=len(strides)
            )
            self._patterns[pattern] = found
        return found

    def instruction(
        self,
        block: int,
        name: str | None,
        opcode: str,
        engine: Engine,
        reads: Iterable[Operand] = (),
        writes: Iterable[Operand] = (),
        *,
        seq: int | None = None,
        deps: Iterable[int] = (),
        atomic: Iterable[int] = (),
        maybe: Iterable[int] = (),
        join: bool = False,
        gather: bool = False,
        attrs: Mapping[str, AttrValue] | None = None,
        loc: str | None = None,
        text_line: int = NONE,
        rendezvous: bool = False,
    ) -> int:
        """An instruction, its operands, and what it waits for; `atomic` and `maybe` number operands, reads first.

        `rendezvous` is for `barrier` and `sendrecv`, which add the row that their opcodes need.
        """
        if self._checks is not None:
            self._checks.instruction(block, name, opcode, engine, seq, attrs, rendezvous)
        index = self.row(
            "instructions",
            name=self.strings.optional(name),
            block=block,
            opcode=self.strings.intern(opcode),
            engine=int(engine),
            seq=NONE if seq is None else seq,
            join=join,
            gather=gather,
            attrs=self._attrs(attrs),
            loc=self.strings.optional(loc),
            text_line=text_line,
        )
        atomic, maybe = set(atomic), set(maybe)
        listed = [(operand, False) for operand in reads] + [(operand, True) for operand in writes]
        for number, (operand, write) in enumerate(listed):
            self.access(index, operand, write=write, atomic=number in atomic, maybe=number in maybe)
        for producer in deps:
            self.dependence(index, producer)
        return index

    def access(
        self, instruction: int, operand: Operand, *, write: bool, atomic: bool = False, maybe: bool = False
    ) -> int:
        """One more operand of an instruction, reads before writes."""
        location, pattern = operand if isinstance(operand, tuple) else (operand, None)
        if self._checks is not None:
            self._checks.access(instruction, location, pattern, write)
        return self.row(
            "accesses",
            instruction=instruction,
            location=location,
            pattern=NONE if pattern is None else self.pattern(pattern),
            write=write,
            atomic=atomic,
            maybe=maybe,
        )

    def semaphore(
        self, instruction: int, name: str, value: int, *, wait: bool = False, back: bool = False, core: int = NONE
    ) -> None:
        """A signal, to another `core` if one is given, or a wait, which may count back (`semaphores.py`)."""
        name_id = self.strings.intern(name)
        self.row("semaphores", instruction=instruction, name=name_id, core=core, value=value, wait=wait, back=back)

    def dependence(
        self,
        instruction: int,
        producer: int,
        *,
        carried: bool = False,
        kind: DependenceKind = DependenceKind.GIVEN,
    ) -> None:
        """`instruction` waits for `producer`, of the previous iteration when `carried`."""
        if self._checks is not None:
            self._checks.dependence(instruction, producer, carried, kind)
        self.row("dependences", instruction=instruction, producer=producer, carried=carried, kind=int(kind))

    def barrier(
        self,
        block: int,
        name: str,
        rendezvous: str,
        *,
        engine: Engine = Engine.ALL,
        cores: Iterable[int] | None = None,
        index: int | None = None,
        made_by: str | None = None,
        **instruction: Any,
    ) -> int:
        """A `core_barrier` instruction; `cores` None means all of them."""
        cores = None if cores is None else list(cores)
        if self._checks is not None:
            self._checks.barrier(name, rendezvous, cores, index, made_by)
        row = self.instruction(block, name, "core_barrier", engine, rendezvous=True, **instruction)
        self.row(
            "barriers",
            instruction=row,
            name=self.strings.intern(rendezvous),
            cores=self.strings.optional(set_text(cores) if cores else None),
            index=NONE if index is None else index,
            made_by=self.strings.optional(made_by),
        )
        return row

    def sendrecv(
        self,
        block: int,
        name: str,
        engine: Engine,
        *,
        to: int | None,
        source: int | None,
        tag: str | None = None,
        **instruction: Any,
    ) -> int:
        """A `sendrecv` instruction."""
        if self._checks is not None:
            self._checks.sendrecv(name, to, source, tag)
        row = self.instruction(block, name, "sendrecv", engine, rendezvous=True, **instruction)
        self.row(
            "meetings",
            instruction=row,
            to=NONE if to is None else to,
            source=NONE if source is None else source,
            tag=self.strings.optional(tag),
        )
        return row

    def freeze(self) -> Program:
        """The program. The builder must not be used any more."""
        tables: dict[str, Any] = {}
        for name, table in TABLES.items():
            columns: dict[str, Any] = self._rows[name]
            tables[name] = table.make(len(next(iter(columns.values()))), **columns)
        program = Program(
            self.name,
            self.lnc,
            self.strings,
            attrs=self.attrs,
            file=self.file,
            **tables,
        )
        order = np.argsort(program.instructions.block, kind="stable").astype(np.int32)
        program = program.replace(edges=program.edges.take(np.argsort(program.edges.source, kind="stable")))
        if np.array_equal(order, np.arange(len(order))):
            return program
        position: Ids = np.empty_like(order)
        position[order] = np.arange(len(order), dtype=np.int32)
        return reorder_instructions(program.replace(instructions=program.instructions.take(order)), position)


def reorder_instructions(program: Program, position: Ids) -> Program:
    """Send every instruction id through `position` and sort the rows of its children again, stably."""
    maps = {"instructions": position}
    changed: dict[str, Any] = {}
    for name in ("accesses", "dependences", "barriers", "meetings", "semaphores"):
        rows = program.table(name).remap(maps)
        order = np.argsort(rows.instruction, kind="stable")  # type: ignore[attr-defined]
        changed[name] = rows.take(order)
        if name == "accesses":
            new_access = np.empty(len(order), np.int32)
            new_access[order] = np.arange(len(order), dtype=np.int32)
            steps = program.steps.remap({"accesses": new_access})
            changed["steps"] = steps.take(np.argsort(steps.access, kind="stable"))
    return program.replace(**changed)
