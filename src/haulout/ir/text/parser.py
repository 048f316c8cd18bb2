"""`.bir` text to a program: one statement a line, one method a kind of statement.

    program  := "bir" "1"   "program" STRING attrs   module+
    module   := "module" "@"NAME attrs "{"   function+   "}"
    function := "func" "@"NAME attrs "{"   mloc*   block+   "}"

Names are resolved when their function closes, so that an instruction may name a later one in `carried`. The first
error ends the parse: its diagnostic shows the line, a caret and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from haulout.ir import dtypes
from haulout.ir.attributes import int_list
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import ENGINE_BY_TEXT, KIND_BY_TEXT, NONE, SPACE_BY_TEXT, DependenceKind, Engine
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import INT64_MAX, MAX_CORES, SIZE_MAX
from haulout.ir.text.lexer import Line
from haulout.ir.text.values import Attributes, parse_pattern
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.shown import shown


def parse_bir(text: str, file: str = "<text>") -> Program:
    """The program of a `.bir` text. Raises `HauloutError` (`bad-input`) at the first thing that is not the format.

    Only names and syntax are checked here; `verify` checks the rest.
    """
    return _Parser(text, file).program()


class _Function:
    """What is known while a function is being read: names, and references still to be resolved."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.locations: dict[str, int] = {}
        self.blocks: dict[str, int] = {}
        self.instructions: dict[str, int] = {}
        self.successors: list[tuple[int, list[str], Line]] = []
        self.waits: list[tuple[int, str, bool, Line]] = []
        self.steps: list[tuple[int, str, list[int], Line]] = []


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = self._lines(text)
        self.line = next(self.lines)

    def _lines(self, text: str) -> Iterator[Line]:
        rows = text.split("\n")
        for number, row in enumerate(rows, 1):
            line = Line(self.file, number, row)
            if not line.is_blank:
                yield line
        last = Line(self.file, len(rows), rows[-1]).move_to_end()
        while True:
            yield last

    def next(self) -> None:
        """Close this line and go to the next statement."""
        self.line.expect_end()
        self.line = next(self.lines)

    # -- program, module, function ----------------------------------------------------------------------------

    def program(self) -> Program:
        self.line.expect("bir")
        if not self.line.accept("1"):
            self.line.expected("version 1 of the format")
        self.next()
        self.line.expect("program")
        name = self.line.string("the program's name")
        attrs = Attributes(self.line)
        lnc = attrs.take_int("lnc", 1, MAX_CORES)
        if lnc is None:
            attrs.missing("lnc", "the number of cores")
        self.build = ProgramBuilder(name, lnc, attrs=attrs.values, file=self.file, checked=False)
        self.next()
        names: set[str] = set()
        while self.line.value == "module":
            self.module(names)
        if not names:
            self.line.expected("'module'")
        self.line.expect_end()
        return self.build.freeze()

    def module(self, names: set[str]) -> None:
        line = self.line
        line.expect("module")
        name = self.unique(line.sigil("@", "the module's name"), names, "module")
        attrs = Attributes(line)
        core = attrs.take_int("core", 0, MAX_CORES - 1)
        if core is None:
            attrs.missing("core", "the core it runs on")
        subgraph = attrs.take_int("subgraph")
        module = self.build.module(name, core, subgraph=subgraph, attrs=attrs.values)
        line.expect("{")
        self.next()
        functions: set[str] = set()
        while self.line.value == "func":
            self.function(module, functions)
        if not functions:
            self.line.expected("'func'")
        self.close()

    def function(self, module: int, names: set[str]) -> None:
        line = self.line
        line.expect("func")
        name = self.unique(line.sigil("@", "the function's name"), names, "function")
        attrs = Attributes(line)
        function = _Function(self.build.function(module, name, attrs=attrs.values))
        line.expect("{")
        self.next()
        while self.line.value == "mloc":
            self.location(function)
        while self.line.value == "block":
            self.block(function)
        if not function.blocks:
            self.line.expected("'mloc' or 'block'")
        self.close()
        self.resolve(function)

    def close(self) -> None:
        self.line.expect("}")
        self.next()

    def unique(self, name: str, names: Any, what: str) -> str:
        """The name, once; `names` remembers it when it is a set."""
        if name in names:
            self.line.error(f"{what} {name!r} is defined twice", self.line.previous)
        if isinstance(names, set):
            names.add(name)
        return name

    # -- locations ----------------------------------------------------------------------------------------------

    def location(self, function: _Function) -> None:
        line = self.line
        line.expect("mloc")
        name = self.unique(line.sigil("%", "the location's name"), function.locations, "location")
        if line.kind != "name" or line.value not in SPACE_BY_TEXT:
            line.expected("a space: " + ", ".join(SPACE_BY_TEXT))
        space = SPACE_BY_TEXT[line.advance()]
        attrs = Attributes(line)
        size = attrs.take_int("size", 0, SIZE_MAX)
        if size is None:
            attrs.missing("size", "the bytes of the location")
        kind = attrs.take_text("kind")
        if kind is not None and kind not in KIND_BY_TEXT:
            line.error(f"expected a kind ({', '.join(KIND_BY_TEXT)}), found {shown(kind)}", line.first)
        dtype = attrs.take_text("dtype")
        known = None if dtype is None else dtypes.canonical(dtype)
        if dtype is not None and known is None:
            line.error(f"expected an element type ({', '.join(dtypes.NUMPY)}), found {shown(dtype)}", line.first)
        align = attrs.take_int("align", 1, SIZE_MAX)
        function.locations[name] = self.build.location(
            function.row,
            name,
            space,
            size,
            kind=KIND_BY_TEXT[kind or "internal"],
            align=64 if align is None else align,
            dtype=known,
            shape=attrs.take_ints("shape", 0, SIZE_MAX),
            data=attrs.take_text("data"),
            remote=self.remote(attrs),
            address=attrs.take_int("address", 0, SIZE_MAX),
            bank=attrs.take_int("bank"),
            partition=attrs.take_int("partition"),
            parts=attrs.take_int("parts", 1),
            same=self.same(attrs),
            loc=attrs.take_text("loc"),
            attrs=attrs.values,
            text_line=line.number,
        )
        self.next()

    def remote(self, attrs: Attributes) -> tuple[str, int] | None:
        value = attrs.take("remote")
        if value is None:
            return None
        if isinstance(value, list) and len(value) == 2:
            name, core = value
            if isinstance(name, str) and isinstance(core, int) and 0 <= core < MAX_CORES:
                return name, core
        attrs.error("remote", "expected [NAME,CORE]")

    def same(self, attrs: Attributes) -> list[list[int]] | None:
        value = attrs.take("same")
        if value is None:
            return None
        if isinstance(value, list) and None not in (found := [int_list(each) for each in value]):
            return [each for each in found if each is not None]
        attrs.error("same", "expected lists of cores, [[0,1],[2,3]]")

    # -- blocks and instructions ----------------------------------------------------------------------------------

    def block(self, function: _Function) -> None:
        line = self.line
        line.expect("block")
        name = self.unique(line.sigil("^", "the block's name"), function.blocks, "block")
        successors: list[str] = []
        if line.accept("->"):
            successors.append(line.sigil("^", "a successor"))
            while line.accept(","):
                successors.append(line.sigil("^", "a successor"))
        attrs = Attributes(line)
        cond = attrs.take_text("cond")
        if cond is not None and cond not in function.locations:
            line.error(f"no location %{cond} in this function", line.first)
        row = self.build.block(
            function.row,
            name,
            trip=attrs.take_int("trip", 0, INT64_MAX),
            cond=None if cond is None else function.locations[cond],
            divergent=attrs.take_bool("divergent"),
            attrs=attrs.values,
            text_line=line.number,
        )
        function.blocks[name] = row
        function.successors.append((row, successors, line))
        line.expect(":")
        self.next()
        while self.line.kind == "sigil" and self.line.value[0] == "%":
            self.instruction(function, row)

    def instruction(self, function: _Function, block: int) -> None:
        line = self.line
        name = self.unique(line.sigil("%", "the instruction's name"), function.instructions, "instruction")
        line.expect("=")
        if line.kind != "name":
            line.expected("an opcode")
        opcode = line.advance()
        where = line.at
        engine_name = line.sigil("@", "an engine")
        if engine_name not in ENGINE_BY_TEXT:
            line.error(
                f"expected an engine (pe, act, vector, pool, sync, dma0 to dma15, all), found {engine_name!r}", where
            )
        engine = ENGINE_BY_TEXT[engine_name]
        if engine is Engine.ALL and opcode != "core_barrier":
            line.error("only core_barrier may run on engine all", where)
        reads = self.refs(function)
        line.expect("->")
        writes = self.refs(function)
        attrs = Attributes(line)
        common: dict[str, Any] = {
            "seq": attrs.take_int("seq", 0, INT64_MAX),
            "loc": attrs.take_text("loc"),
            "reads": reads,
            "writes": writes,
            "text_line": line.number,
        }
        waits = [(wait, False) for wait in attrs.take_names("deps")]
        waits += [(wait, True) for wait in attrs.take_names("carried")]
        for key in ("atomic", "maybe"):
            common[key] = attrs.take_ints(key) or []
            for number in common[key]:
                if number >= len(reads) + len(writes):
                    line.error(f"{key}: no operand {number}", line.first)
        for key in ("join", "gather"):
            common[key] = attrs.take_bool(key)
        steps = attrs.take_rows("step", int, str, int, int, int, optional=1)
        semaphores = self.semaphores(attrs)
        if opcode == "core_barrier":
            row = self.barrier(block, name, engine, attrs, common)
        elif opcode == "sendrecv":
            row = self.build.sendrecv(
                block,
                name,
                engine,
                to=attrs.take_int("to", 0, MAX_CORES - 1),
                source=attrs.take_int("from", 0, MAX_CORES - 1),
                tag=attrs.take_text("tag"),
                attrs=attrs.values,
                **common,
            )
        else:
            row = self.build.instruction(block, name, opcode, engine, attrs=attrs.values, **common)
        function.instructions[name] = row
        function.waits += [(row, wait, carried, line) for wait, carried in waits]
        first_access = self.build.count("accesses") - len(reads) - len(writes)
        for operand, header, *numbers in steps:
            if not 0 <= int(operand) < len(reads) + len(writes):
                line.error(f"step: no operand {operand}", line.first)
            moves = [int(each) for each in numbers]
            function.steps.append((first_access + int(operand), str(header), moves, line))
        for each in semaphores:
            self.build.semaphore(row, **each)
        self.next()

    def semaphores(self, attrs: Attributes) -> list[dict[str, Any]]:
        """The signals and waits of an instruction."""
        found: list[dict[str, Any]] = []
        for key, wait, back in (("signal", False, False), ("wait", True, False), ("wait_back", True, True)):
            rows = attrs.take_rows(key, str, int)
            found += [{"name": name, "value": value, "wait": wait, "back": back} for name, value in rows]
        for core, name, value in attrs.take_rows("remote_signal", int, str, int):
            if not 0 <= int(core) < MAX_CORES:
                attrs.error("remote_signal", f"expected a core from 0 to {MAX_CORES - 1}, found {core}")
            found.append({"name": name, "value": value, "core": core})
        return found

    def barrier(self, block: int, name: str, engine: Engine, attrs: Attributes, common: dict[str, Any]) -> int:
        rendezvous = attrs.take_text("name")
        if rendezvous is None:
            attrs.missing("name", "the barrier's rendezvous name")
        cores = attrs.take_ints("cores", 0, MAX_CORES - 1)
        if cores == []:
            attrs.error("cores", "expected at least one core, found []")
        return self.build.barrier(
            block,
            name,
            rendezvous,
            engine=engine,
            cores=cores,
            index=attrs.take_int("index", 0, INT64_MAX),
            made_by=attrs.take_text("made_by"),
            attrs=attrs.values,
            **common,
        )

    def refs(self, function: _Function) -> list[tuple[int, Pattern | None]]:
        """`refs := [ref ("," ref)*]` in parentheses."""
        line = self.line
        line.expect("(")
        found: list[tuple[int, Pattern | None]] = []
        while not line.accept(")"):
            if found:
                line.expect(",")
            where = line.at
            name = line.sigil("%", "a location")
            location = function.locations.get(name)
            if location is None:
                line.error(f"no location %{name} in this function", where)
            text = line.pattern_text()
            found.append((location, None if text is None else parse_pattern(line, text, line.previous)))
        return found

    # -- names ----------------------------------------------------------------------------------------------------

    def resolve(self, function: _Function) -> None:
        """Turn names that may look forward into rows."""
        for row, successors, line in function.successors:
            for name in successors:
                if name not in function.blocks:
                    self.unknown(line, f"no block ^{name} in this function")
                self.build.edge(row, function.blocks[name])
        for row, name, carried, line in function.waits:
            producer = function.instructions.get(name, NONE)
            if producer == NONE:
                self.unknown(line, f"no instruction %{name} in this function")
            self.build.dependence(row, producer, carried=carried, kind=DependenceKind.GIVEN)
        for access, header, (stride, modulus, *phase), line in function.steps:
            if header not in function.blocks:
                self.unknown(line, f"step: no block ^{header} in this function")
            self.build.row(
                "steps",
                access=access,
                header=function.blocks[header],
                stride=stride,
                modulus=modulus,
                phase=phase[0] if phase else 0,
            )

    def unknown(self, line: Line, message: str) -> NoReturn:
        bad_input(message, Label("here", Span(self.file, line.number), line.text))
