"""The reader of HLO text: a module after partitioning, as XLA prints it.

    module      := "HloModule" NAME ("," attribute)* tables computation+
    computation := ["ENTRY"] NAME [signature] "{" instruction+ "}" ("," attribute)*
    signature   := "(" [NAME ":" shape ("," NAME ":" shape)*] ")" "->" shape
    instruction := ["ROOT"] NAME "=" shape OPCODE "(" operands ")" ("," attribute)*
    operands    := literal (constant) | INT (parameter) | [[shape] operand ("," [shape] operand)*]
    operand     := NAME ("#" INT)*        # an element of a tuple, as a `get-tuple-element` would give it
    attribute   := KEY "=" value          # text up to a comma or line end outside brackets; see `_parse_value`

Names may stand with or without `%`, comments (`/*index=5*/`) and blanks anywhere. The reader also checks what
every later step relies on: names are unique, operands and called computations stand before their use,
parameters are numbered 0, 1, ... without gaps, the root has the declared shape, exactly one computation is
the entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.literals import is_left_out, parse_literal
from haulout.frontends.hlo.metadata import MetadataTables, parse_tables
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape, parse_shape, sees_shape
from haulout.ir.dtypes import NUMPY
from haulout.support.files import read_text

CALLEES = (
    "to_apply",
    "condition",
    "body",
    "calls",
    "select",
    "scatter",
    "branch_computations",
    "true_computation",
    "false_computation",
)
"""Attributes that name computations."""

_HEADER = re.compile(r"HloModule\b")
_ENTRY = re.compile(r"ENTRY\b")
_ROOT = re.compile(r"ROOT\b")
_OPCODE = re.compile(r"[a-z][a-z0-9\-]*(?=\s*\()")
_ELEMENT = re.compile(r"#([0-9]+)")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_\-]*)\s*=")
_QUOTED_PART = r"""'(?:[^'\\\n]++|\\.)*+'|"(?:[^"\\\n]++|\\.)*+(?:"|(?=\n)|\Z)|/\*(?s:.*?)(?:\*/|\Z)"""
"""An open string ends with its line, an open comment with the text; neither is searched again from the next mark."""
_VALUE_PART = re.compile(rf"""[^{{}}()\[\],"'\n/]++|{_QUOTED_PART}|.|\n""")
_INNER_PART = re.compile(rf"""[^{{}}()\[\]"'/]++|{_QUOTED_PART}|.""")
"""Inside brackets, where commas and line ends mean nothing."""
_MESH_IDS = re.compile(r",\s*device_ids\s*=\s*(?=\()")
_OPEN, _CLOSE = "{([", "})]"


def parse_hlo(text: str, file: str = "<hlo>") -> HloModule:
    """Parse HLO text. `file` is the name that messages show. Raises `HauloutError` (`bad-input`)."""
    cursor = Cursor(Source(file, text))
    cursor.expect(_HEADER, "`HloModule`")
    name = cursor.name("the name of the module")
    header = _parse_attributes(cursor)
    tables = parse_tables(cursor)
    computations: dict[str, Computation] = {}
    entry: Computation | None = None
    while not cursor.at_end():
        is_entry = cursor.take(_ENTRY) is not None
        computation = _parse_computation(cursor, tables, computations)
        computations[computation.name] = computation
        if is_entry:
            if entry is not None:
                computation.where.fail(f"a second entry computation; the first is %{entry.name}")
            entry = computation
    if entry is None:
        cursor.fail("an `ENTRY` computation")
    return HloModule(
        name,
        cursor.source,
        header,
        computations,
        entry,
        _header_integer(header, "num_partitions"),
        _header_integer(header, "replica_count"),
        attributes.aliases(header["input_output_alias"]) if "input_output_alias" in header else (),
    )


def read_hlo(path: str | Path) -> HloModule:
    """Parse an HLO file. Raises `HauloutError` when it cannot be read or is not valid."""
    return parse_hlo(read_text(Path(path)), str(path))


def _header_integer(header: Mapping[str, Excerpt], key: str) -> int:
    return attributes.integer(header[key], 1) if key in header else 1


def _parse_computation(cursor: Cursor, tables: MetadataTables, known: Mapping[str, Computation]) -> Computation:
    start = cursor.skip()
    name = cursor.name("a computation")
    where = Excerpt(cursor.source, start, cursor.position)
    if name in known:
        where.fail(f"a second computation %{name}")
    signature = _parse_signature(cursor) if cursor.sees_mark("(") else None
    cursor.expect_mark("{", "`{` and the instructions of the computation")
    instructions: list[Instruction] = []
    by_name: dict[str, Instruction] = {}
    root: Instruction | None = None
    while not cursor.take_mark("}"):
        is_root = cursor.take(_ROOT) is not None
        instruction = _parse_instruction(cursor, tables, by_name, known, instructions)
        instructions.append(instruction)
        by_name[instruction.name] = instruction
        if is_root:
            if root is not None:
                instruction.where.fail(f"a second root of %{name}; the first is %{root.name}")
            root = instruction
    if cursor.sees_mark(","):
        _parse_attributes(cursor)
    if not instructions:
        where.fail(f"computation %{name} has no instructions")
    root = root or instructions[-1]
    parameters = _order_parameters(instructions, where)
    if signature is not None:
        _check_signature(signature, parameters, root, where)
    return Computation(name, tuple(instructions), root, parameters, where, by_name)


def _parse_signature(cursor: Cursor) -> tuple[list[AnyShape], AnyShape]:
    """Shapes of the parameters and of the result."""
    cursor.expect_mark("(")
    shapes: list[AnyShape] = []
    while not cursor.take_mark(")"):
        if shapes:
            cursor.expect_mark(",", "`,` or `)`")
        cursor.name("a parameter")
        cursor.expect_mark(":", "`:` and the shape of the parameter")
        shapes.append(parse_shape(cursor))
    cursor.expect_mark("->", "`->` and the shape of the result")
    return shapes, parse_shape(cursor)


def _order_parameters(instructions: list[Instruction], where: Excerpt) -> tuple[Instruction, ...]:
    """By number, which must be 0, 1, ... without gaps."""
    parameters = sorted((item for item in instructions if item.opcode == "parameter"), key=lambda item: item.number)
    for number, parameter in enumerate(parameters):
        if parameter.number != number:
            parameter.where.fail(
                f"parameters must be numbered 0 to {len(parameters) - 1}, each once",
                f"this is number {parameter.number}",
            )
    return tuple(parameters)


def _check_signature(
    signature: tuple[list[AnyShape], AnyShape],
    parameters: tuple[Instruction, ...],
    root: Instruction,
    where: Excerpt,
) -> None:
    shapes, result = signature
    if len(shapes) != len(parameters):
        where.fail(f"the signature has {len(shapes)} parameters, the body {len(parameters)}")
    for shape, parameter in zip(shapes, parameters, strict=True):
        if shape != parameter.shape:
            parameter.where.fail(
                f"parameter {parameter.number} is {shape} in the signature and {parameter.shape} here"
            )
    if result != root.shape:
        root.where.fail(f"the signature's result is {result}, the root is {root.shape}", "the root")


def _parse_instruction(
    cursor: Cursor,
    tables: MetadataTables,
    by_name: dict[str, Instruction],
    known: Mapping[str, Computation],
    before: list[Instruction],
) -> Instruction:
    start = cursor.skip()
    name = cursor.name("an instruction or `}`")
    if name in by_name:
        cursor.source.fail(start, f"a second instruction %{name} in this computation", end=cursor.position)
    cursor.expect_mark("=")
    shape = parse_shape(cursor)
    opcode = cursor.expect(_OPCODE, "an opcode and `(`")[0]
    where = Excerpt(cursor.source, start, cursor.position)
    cursor.expect_mark("(")
    operands: tuple[str, ...] = ()
    number, literal = -1, None
    if opcode == "constant":
        data = _parse_value(cursor, within=True)
        if isinstance(shape, Shape) and shape.dtype not in NUMPY:
            literal = None  # refused with everything else of that type
        elif not is_left_out(data, shape):
            literal = parse_literal(data, shape)
    elif opcode == "parameter":
        number = cursor.integer("a parameter number")
    else:
        operands = _parse_operands(cursor, by_name, before)
    cursor.expect_mark(")")
    values = _parse_attributes(cursor)
    for key in CALLEES:
        if key in values:
            _check_callees(values[key], known)
    place = tables.place(values.get("metadata"))
    return Instruction(name, shape, opcode, operands, values, where, number, literal, place)


def _parse_operands(cursor: Cursor, by_name: dict[str, Instruction], before: list[Instruction]) -> tuple[str, ...]:
    """The names of the operands; elements of tuples that are named here for the first time are added to `before`."""
    operands: list[str] = []
    while not cursor.sees_mark(")"):
        if operands:
            cursor.expect_mark(",", "`,` or `)` after an operand")
        shape = parse_shape(cursor) if sees_shape(cursor) else None
        start = cursor.skip()
        operand = cursor.name("an operand")
        if operand not in by_name:
            cursor.source.fail(start, f"%{operand} is not defined before this use", "used here", cursor.position)
        while (match := cursor.take(_ELEMENT)) is not None:
            operand = _element(by_name, before, operand, Excerpt(cursor.source, match.start(1), match.end(1)))
        if shape is not None and shape != by_name[operand].shape:
            cursor.source.fail(
                start, f"%{operand} has shape {by_name[operand].shape}, not {shape}", end=cursor.position
            )
        operands.append(operand)
    return tuple(operands)


def _element(by_name: dict[str, Instruction], before: list[Instruction], of: str, index: Excerpt) -> str:
    """The name of an element of a tuple."""
    name = f"{of}#{index.text}"
    if name not in by_name:
        shape, number = by_name[of].shape, attributes.integer(index)
        if not isinstance(shape, TupleShape) or number >= len(shape.elements):
            index.fail(f"%{of} of shape {shape} has no element {number}")
        made = Instruction(name, shape.elements[number], "get-tuple-element", (of,), {"index": index}, index)
        by_name[name] = made
        before.append(made)
    return name


def _check_callees(value: Excerpt, known: Mapping[str, Computation]) -> None:
    for callee in attributes.names(value):
        if callee not in known:
            value.fail(f"computation %{callee} is not defined before this use", "used here")


def _parse_attributes(cursor: Cursor) -> dict[str, Excerpt]:
    """`("," KEY "=" value)*`."""
    values: dict[str, Excerpt] = {}
    while cursor.take_mark(","):
        start = cursor.skip()
        key = cursor.expect(_KEY, "an attribute `key=value`")[1]
        if key in values:
            cursor.source.fail(start, f"attribute `{key}` is given twice", end=cursor.position)
        values[key] = _parse_value(cursor)
    return values


def _parse_value(cursor: Cursor, *, within: bool = False) -> Excerpt:
    """The text up to a comma or a line end outside brackets; `within` parentheses: up to the closing one.

    One form has a comma outside brackets: `mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}`.
    """
    text, start = cursor.source.text, cursor.skip()
    position = end = start
    opened: list[tuple[str, int]] = []
    while position < cursor.end:
        match = (_INNER_PART if opened or within else _VALUE_PART).match(text, position, cursor.end)
        if match is None:
            break
        part = match[0]
        if part in _OPEN:
            opened.append((part, position))
        elif part in _CLOSE:
            if not opened:
                break
            bracket, at = opened.pop()
            if _OPEN.index(bracket) != _CLOSE.index(part):
                cursor.source.fail(at, f"`{bracket}` is closed by `{part}`", "opened here")
        elif not opened and part == "," and not within:
            ids = _MESH_IDS.match(text, position) if text.startswith("mesh[", start) else None
            if ids is None:
                break
            match = ids
        elif not opened and part == "\n" and not within:
            break
        position = match.end()
        if not part.isspace():
            end = position
    if opened:
        cursor.source.fail(opened[-1][1], f"`{opened[-1][0]}` is never closed", "opened here")
    cursor.position = position
    if end == start and not within:
        cursor.fail("a value")
    return Excerpt(cursor.source, start, end)
