"""Rows as objects, for printers, error messages, a debugger, a notebook. Passes use columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from haulout.ir.attributes import AttrValue, format_name
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program


@dataclass(frozen=True, slots=True)
class View:
    """A row of a table."""

    program: Program
    row: int


class LocationView(View):
    """A memory location."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.program.strings[int(self.program.locations.name[self.row])]

    @property
    def core(self) -> int:
        """The core that names it."""
        return int(self.program.location_core[self.row])

    @property
    def space(self) -> Space:
        """Its memory."""
        return Space(int(self.program.locations.space[self.row]))

    @property
    def kind(self) -> Kind:
        """Who fills it."""
        return Kind(int(self.program.locations.kind[self.row]))

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.program.locations.size[self.row])

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.program.shape(self.row)

    @property
    def dtype(self) -> str | None:
        """Element type."""
        return self.program.strings.get(int(self.program.locations.dtype[self.row]))

    @property
    def address(self) -> int | None:
        """Placement, or None before allocation."""
        address = int(self.program.locations.address[self.row])
        return None if address == NONE else address

    @property
    def remote(self) -> tuple[str, int] | None:
        """RemoteLocalTarget: the owner's (name, core), or None when this is not a view."""
        name = self.program.strings.get(int(self.program.locations.remote_name[self.row]))
        return None if name is None else (name, int(self.program.locations.remote_core[self.row]))

    def __repr__(self) -> str:
        text = f"{self.dtype}{list(self.shape)}" if self.dtype else f"{self.size} bytes"
        place = "" if self.address is None else f" at {self.address:#x}"
        remote = "" if self.remote is None else f" -> %{self.remote[0]} of core {self.remote[1]}"
        return f"<%{format_name(self.name)} on core {self.core}: {text}, {self.space.text}{place}{remote}>"


class InstructionView(View):
    """An instruction."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.program.instruction_name(self.row)

    @property
    def core(self) -> int:
        """The core it runs on."""
        return int(self.program.instruction_core[self.row])

    @property
    def opcode(self) -> str:
        """What it does."""
        return self.program.strings[int(self.program.instructions.opcode[self.row])]

    @property
    def engine(self) -> Engine:
        """The line it runs on."""
        return Engine(int(self.program.instructions.engine[self.row]))

    @property
    def seq(self) -> int | None:
        """Logical time."""
        seq = int(self.program.instructions.seq[self.row])
        return None if seq == NONE else seq

    @property
    def loc(self) -> str | None:
        """`FILE:LINE` in the user's source."""
        return self.program.strings.get(int(self.program.instructions.loc[self.row]))

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """Attributes that have no column of their own."""
        return self.program.instruction_attrs(self.row)

    def operands(self, write: bool) -> list[tuple[LocationView, Pattern | None]]:
        """The locations read or written, with their patterns."""
        program = self.program
        begin, end = program.access_starts[self.row : self.row + 2].tolist()
        return [
            (
                LocationView(program, int(program.accesses.location[a])),
                program.pattern(int(program.accesses.pattern[a])),
            )
            for a in range(begin, end)
            if bool(program.accesses.write[a]) == write
        ]

    @property
    def reads(self) -> list[tuple[LocationView, Pattern | None]]:
        """What it reads."""
        return self.operands(write=False)

    @property
    def writes(self) -> list[tuple[LocationView, Pattern | None]]:
        """What it writes."""
        return self.operands(write=True)

    def __repr__(self) -> str:
        def listed(operands: list[tuple[LocationView, Pattern | None]]) -> str:
            return ", ".join(
                f"%{format_name(loc.name)}" + ("" if pattern is None else f"[{pattern}]") for loc, pattern in operands
            )

        return (
            f"<%{format_name(self.name)} = {self.opcode} @{self.engine.text} ({listed(self.reads)}) -> "
            f"({listed(self.writes)}) on core {self.core}>"
        )


class BlockView(View):
    """A basic block."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.program.strings[int(self.program.blocks.name[self.row])]

    @property
    def instructions(self) -> list[InstructionView]:
        """In list order."""
        begin, end = self.program.starts("instructions", "blocks")[self.row : self.row + 2].tolist()
        return [InstructionView(self.program, row) for row in range(begin, end)]

    @property
    def successors(self) -> list[BlockView]:
        """Blocks that may follow."""
        begin, end = self.program.starts("edges", "blocks")[self.row : self.row + 2].tolist()
        return [BlockView(self.program, int(self.program.edges.target[row])) for row in range(begin, end)]

    def __iter__(self) -> Iterator[InstructionView]:
        return iter(self.instructions)

    def __repr__(self) -> str:
        arrows = ", ".join(f"^{block.name}" for block in self.successors)
        return f"<block ^{self.name}: {len(self.instructions)} instructions{' -> ' + arrows if arrows else ''}>"


class FunctionView(View):
    """A function."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.program.strings[int(self.program.functions.name[self.row])]

    @property
    def blocks(self) -> list[BlockView]:
        """In layout order."""
        begin, end = self.program.starts("blocks", "functions")[self.row : self.row + 2].tolist()
        return [BlockView(self.program, row) for row in range(begin, end)]

    @property
    def locations(self) -> list[LocationView]:
        """In the order of the text."""
        begin, end = self.program.starts("locations", "functions")[self.row : self.row + 2].tolist()
        return [LocationView(self.program, row) for row in range(begin, end)]

    def location(self, name: str) -> LocationView:
        """A location by name; `KeyError` when there is none."""
        for found in self.locations:
            if found.name == name:
                return found
        raise KeyError(name)

    def __repr__(self) -> str:
        return f"<func @{self.name}: {len(self.blocks)} blocks, {len(self.locations)} locations>"


class ModuleView(View):
    """The program of one core."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.program.strings[int(self.program.modules.name[self.row])]

    @property
    def core(self) -> int:
        """Its core."""
        return int(self.program.modules.core[self.row])

    @property
    def functions(self) -> list[FunctionView]:
        """The first is the entry."""
        begin, end = self.program.starts("functions", "modules")[self.row : self.row + 2].tolist()
        return [FunctionView(self.program, row) for row in range(begin, end)]

    def __repr__(self) -> str:
        return f"<module @{self.name} on core {self.core}: {[f.name for f in self.functions]}>"
