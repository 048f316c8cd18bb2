"""A program as `.bir` text, which `parse_bir` reads back to the same program; attributes in the format's order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from haulout.ir.attributes import AttrValue, format_attrs, format_name, format_value, parse_attrs, quote
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program

_ENGINE_TEXT = [engine.text for engine in Engine]
_SPACE_TEXT = [space.text for space in Space]
_KIND_TEXT = [kind.text for kind in Kind]


def print_bir(program: Program) -> str:
    """The text of a program, two spaces a level, a newline at the end."""
    return "\n".join(_Printer(program).lines()) + "\n"


@dataclass
class _Notes:
    """What instructions say besides their operands: instruction id -> text of its rows."""

    deps: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    carried: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    atomic: dict[int, list[AttrValue]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[int, list[AttrValue]] = field(default_factory=lambda: defaultdict(list))
    signals: dict[int, list[AttrValue]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[int, list[AttrValue]] = field(default_factory=lambda: defaultdict(list))
    own: dict[int, str] = field(default_factory=dict)
    """Attributes of barriers and meetings."""
    sorted: dict[int, dict[str, AttrValue]] = field(default_factory=lambda: defaultdict(dict))
    """Columns that are written among the other attributes, in the order of their names."""

    def add(self, row: int, key: str, value: AttrValue) -> None:
        """One more entry of a list among the other attributes."""
        entries = self.sorted[row].setdefault(key, [])
        assert isinstance(entries, list)
        entries.append(value)


class _Printer:
    """Columns as lists (reading one cell of a list is three times as fast as of an array), then text row by row."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.text = list(program.strings)
        self.notes = self._collect_notes()
        self.location_names = [format_name(self.text[name]) for name in program.locations.name.tolist()]
        self.pattern_texts = [f"[{program.pattern(row)}]" for row in range(len(program.patterns))]
        named = program.instructions.name.tolist()
        self.instruction_names = [
            format_name(self.text[name]) if name != NONE else program.instruction_name(row)
            for row, name in enumerate(named)
        ]

    def lines(self) -> Iterator[str]:
        program = self.program
        yield "bir 1"
        yield f"program {quote(program.name)} lnc={program.lnc}{_more(format_attrs(program.attrs))}"
        functions = program.starts("functions", "modules").tolist()
        for module in range(len(program.modules)):
            yield from self.module(module, range(functions[module], functions[module + 1]))

    def module(self, row: int, functions: range) -> Iterator[str]:
        modules = self.program.modules
        subgraph = int(modules.subgraph[row])
        yield (
            f"module @{self.name(modules.name[row])} core={modules.core[row]}"
            f"{'' if subgraph == NONE else f' subgraph={subgraph}'}{self.other(modules.attrs[row])} {{"
        )
        for function in functions:
            yield from self.function(function)
        yield "}"

    def function(self, row: int) -> Iterator[str]:
        program = self.program
        functions = program.functions
        yield f"  func @{self.name(functions.name[row])}{self.other(functions.attrs[row])} {{"
        begin, end = program.starts("locations", "functions")[row : row + 2].tolist()
        for location in range(begin, end):
            yield self.location(location)
        begin, end = program.starts("blocks", "functions")[row : row + 2].tolist()
        instructions = program.starts("instructions", "blocks")[begin : end + 1].tolist()
        for at, block in enumerate(range(begin, end)):
            yield self.block(block)
            yield from self.instructions(instructions[at], instructions[at + 1])
        yield "  }"

    def location(self, row: int) -> str:
        program, rows = self.program, self.program.locations
        parts = [f"    mloc %{self.location_names[row]} {_SPACE_TEXT[rows.space[row]]} size={rows.size[row]}"]
        if rows.align[row] != 64:
            parts.append(f"align={rows.align[row]}")
        if rows.kind[row] != Kind.INTERNAL:
            parts.append(f"kind={_KIND_TEXT[rows.kind[row]]}")
        if rows.dtype[row] != NONE:
            extents = ",".join(str(extent) for extent in program.shape(row))
            parts.append(f"dtype={self.text[rows.dtype[row]]} shape=[{extents}]")
        if rows.data[row] != NONE:
            parts.append(f"data={quote(self.text[rows.data[row]])}")
        if rows.remote_name[row] != NONE:
            parts.append(f"remote=[{self.name(rows.remote_name[row])},{rows.remote_core[row]}]")
        for key, cells in (
            ("address", rows.address),
            ("bank", rows.bank),
            ("partition", rows.partition),
            ("parts", rows.parts),
        ):
            if cells[row] != NONE:
                parts.append(f"{key}={cells[row]}")
        if rows.same[row] != NONE:
            parts.append(f"same={self.text[rows.same[row]]}")
        if rows.loc[row] != NONE:
            parts.append(f"loc={quote(self.text[rows.loc[row]])}")
        return " ".join(parts) + self.other(rows.attrs[row])

    def block(self, row: int) -> str:
        program, rows = self.program, self.program.blocks
        begin, end = program.starts("edges", "blocks")[row : row + 2].tolist()
        targets = ", ".join(f"^{self.name(rows.name[t])}" for t in program.edges.target[begin:end].tolist())
        text = f"    block ^{self.name(rows.name[row])}" + (f" -> {targets}" if targets else "")
        if rows.trip[row] != NONE:
            text += f" trip={rows.trip[row]}"
        if rows.cond[row] != NONE:
            text += f" cond={self.location_names[rows.cond[row]]}"
        if rows.divergent[row]:
            text += " divergent=true"
        return text + self.other(rows.attrs[row]) + ":"

    def instructions(self, begin: int, end: int) -> Iterator[str]:
        program, notes, texts = self.program, self.notes, self.text
        rows = program.instructions.take(slice(begin, end))
        opcodes, engines, seqs = rows.opcode.tolist(), rows.engine.tolist(), rows.seq.tolist()
        attrs, locs = rows.attrs.tolist(), rows.loc.tolist()
        starts = program.access_starts[begin : end + 1].tolist()
        operands = program.accesses.take(slice(starts[0], starts[-1])) if starts else program.accesses
        locations, patterns = operands.location.tolist(), operands.pattern.tolist()
        writes = operands.write.tolist()
        for at, row in enumerate(range(begin, end)):
            lists: tuple[list[str], list[str]] = ([], [])
            for access in range(starts[at] - starts[0], starts[at + 1] - starts[0]):
                pattern = "" if patterns[access] == NONE else self.pattern_texts[patterns[access]]
                lists[writes[access]].append(f"%{self.location_names[locations[access]]}{pattern}")
            line = (
                f"      %{self.instruction_names[row]} = {texts[opcodes[at]]} @{_ENGINE_TEXT[engines[at]]} "
                f"({', '.join(lists[0])}) -> ({', '.join(lists[1])})"
            )
            if seqs[at] != NONE:
                line += f" seq={seqs[at]}"
            if row in notes.deps:
                line += f" deps=[{','.join(self.instruction_names[d] for d in notes.deps[row])}]"
            if row in notes.carried:
                line += f" carried=[{','.join(self.instruction_names[d] for d in notes.carried[row])}]"
            if row in notes.atomic:
                line += f" atomic={format_value(notes.atomic[row])}"
            for key, values in (("step", notes.steps), ("signal", notes.signals), ("wait", notes.waits)):
                if row in values:
                    line += f" {key}={format_value(values[row])}"
            if locs[at] != NONE:
                line += f" loc={quote(texts[locs[at]])}"
            line += notes.own.get(row, "")
            other = "" if attrs[at] == NONE else texts[attrs[at]]
            if row in notes.sorted:
                other = format_attrs(parse_attrs(other) | notes.sorted[row])
            yield line + _more(other)

    def _collect_notes(self) -> _Notes:
        program, notes = self.program, _Notes()
        rows = program.dependences
        for row, producer, carried in zip(
            rows.instruction.tolist(), rows.producer.tolist(), rows.carried.tolist(), strict=True
        ):
            (notes.carried if carried else notes.deps)[row].append(producer)
        starts = program.access_starts
        for access in np.flatnonzero(program.accesses.atomic).tolist():
            row = int(program.accesses.instruction[access])
            notes.atomic[row].append(access - int(starts[row]))
        for access in np.flatnonzero(program.accesses.maybe).tolist():
            row = int(program.accesses.instruction[access])
            notes.add(row, "maybe", access - int(starts[row]))
        for key, marked in (("join", program.instructions.join), ("gather", program.instructions.gather)):
            for row in np.flatnonzero(marked).tolist():
                notes.sorted[row][key] = True
        for at in range(len(program.steps)):
            access = int(program.steps.access[at])
            row = int(program.accesses.instruction[access])
            header = self.text[program.blocks.name[program.steps.header[at]]]
            steps = program.steps
            step: list[AttrValue] = [access - int(starts[row]), header, int(steps.stride[at]), int(steps.modulus[at])]
            notes.steps[row].append([*step, int(steps.phase[at])] if steps.phase[at] else step)
        marks = program.semaphores
        columns = (marks.instruction, marks.name, marks.core, marks.value, marks.wait, marks.back)
        for row, name, core, value, wait, back in zip(*(each.tolist() for each in columns), strict=True):
            semaphore: list[AttrValue] = [self.text[name], value]
            if core != NONE:
                notes.add(row, "remote_signal", [core, *semaphore])
            elif back:
                notes.add(row, "wait_back", semaphore)
            else:
                (notes.waits if wait else notes.signals)[row].append(semaphore)
        for at in range(len(program.barriers)):
            notes.own[int(program.barriers.instruction[at])] = self.barrier(at)
        for at in range(len(program.meetings)):
            notes.own[int(program.meetings.instruction[at])] = self.meeting(at)
        return notes

    def barrier(self, row: int) -> str:
        rows = self.program.barriers
        text = f" name={quote(self.text[rows.name[row]])}"
        if rows.cores[row] != NONE:
            text += f" cores={self.text[rows.cores[row]]}"
        if rows.index[row] != NONE:
            text += f" index={rows.index[row]}"
        if rows.made_by[row] != NONE:
            text += f" made_by={self.name(rows.made_by[row])}"
        return text

    def meeting(self, row: int) -> str:
        rows = self.program.meetings
        text = f" to={rows.to[row]}" if rows.to[row] != NONE else ""
        text += f" from={rows.source[row]}" if rows.source[row] != NONE else ""
        return text + (f" tag={quote(self.text[rows.tag[row]])}" if rows.tag[row] != NONE else "")

    def name(self, string: int) -> str:
        return format_name(self.text[string])

    def other(self, string: int) -> str:
        return "" if string == NONE else _more(self.text[string])


def _more(text: str) -> str:
    return f" {text}" if text else ""
