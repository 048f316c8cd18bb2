"""The reader of HLO text: a module after partitioning, as XLA prints it.

    module      := ["HloModule" NAME ("," attribute)* tables] computation+
    computation := ["ENTRY"] NAME [signature] "{" instruction+ "}" ("," attribute)*
    signature   := "(" [NAME ":" shape ("," NAME ":" shape)*] ")" "->" shape
    instruction := ["ROOT"] NAME "=" shape OPCODE "(" operands ")" ("," attribute)*
    operands    := literal (constant) | INT (parameter) | [[shape] operand ("," [shape] operand)*]
    operand     := NAME ("#" INT)*        # an element of a tuple, as a `get-tuple-element` would give it
    attribute   := KEY "=" value          # text up to a comma or line end outside brackets; see `_parse_value`

Names may stand with or without `%`, comments (`/*index=5*/`) and blanks anywhere. The reader also checks what
every later step relies on: names are unique, operands and called computations stand before their use,
parameters are numbered 0, 1, ... without gaps, the root has the declared shape, at most one computation is marked as
the entry. Without a mark the last one is it, as in XLA. An entry of which a part was cut away is read, too
(`fragments.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from haulout.frontends.hlo import attributes, plain
from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.fragments import Missing, numbered, opaque_without
from haulout.frontends.hlo.literals import is_left_out, parse_literal, plain_scalar
from haulout.frontends.hlo.metadata import MetadataTables, parse_tables
from haulout.frontends.hlo.model import Computation, HloModule, Instruction, Literal
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape, parse_shape, plain_array, sees_shape
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
_CALLEES = frozenset(CALLEES)

_HEADER = re.compile(r"HloModule\b")
_ENTRY = re.compile(r"ENTRY\b")
_COMPUTATION = re.compile(r"(?:ENTRY\b\s*)?%?[A-Za-z_][\w.\-]*\s*[({]")
_ONE_MODULE = "give each module a file of its own"
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
    name, header = Path(file).stem, dict[str, Excerpt]()
    if cursor.take(_HEADER):
        name = cursor.name("the name of the module")
        cursor.take_mark(":")  # as XLA printed it until 2018
        header = _parse_attributes(cursor)
    elif cursor.at_end() or not cursor.sees(_COMPUTATION):
        cursor.fail("`HloModule`")
    tables = parse_tables(cursor)
    computations: dict[str, Computation] = {}
    entry: Computation | None = None
    missing = Missing()
    while not cursor.at_end():
        if cursor.sees(_HEADER):
            cursor.source.fail(cursor.skip(), "a second module", "it begins here", help=[_ONE_MODULE])
        is_entry = cursor.take(_ENTRY) is not None
        if is_entry and entry is not None:
            message = f"a second entry computation; the first is %{entry.name}"
            cursor.source.fail(cursor.skip(), message, help=[_ONE_MODULE])
        computation = _parse_computation(cursor, tables, computations, missing if is_entry else None)
        computations[computation.name] = computation
        if is_entry:
            entry = computation
    if not computations:
        cursor.fail("an `ENTRY` computation")
    entry = entry or computation
    left_out = tuple(missing.sentences(entry.root))
    aliased = "input_output_alias" in header and not left_out
    return HloModule(
        name,
        cursor.source,
        header,
        computations,
        entry,
        _header_integer(header, "num_partitions"),
        _header_integer(header, "replica_count"),
        attributes.aliases(header["input_output_alias"]) if aliased else (),
        left_out=left_out,
    )


def read_hlo(path: str | Path) -> HloModule:
    """Parse an HLO file. Raises `HauloutError` when it cannot be read or is not valid."""
    return parse_hlo(read_text(Path(path)), str(path))


def _header_integer(header: Mapping[str, Excerpt], key: str) -> int:
    return attributes.integer(header[key], 1) if key in header else 1


def _parse_computation(
    cursor: Cursor, tables: MetadataTables, known: Mapping[str, Computation], missing: Missing | None
) -> Computation:
    """`missing` notes what is cut away from an entry; elsewhere nothing may be."""
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
    while True:
        head = plain.HEAD.match(cursor.source.text, cursor.position, cursor.end)
        if head is None and cursor.take_mark("}"):
            break
        is_root = (cursor.take(_ROOT) if head is None else head[1]) is not None
        instruction = _parse_instruction(cursor, head, tables, by_name, known, instructions, missing)
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
    if missing is not None:
        _find_cuts(instructions, signature, root, missing)
        if missing.sentences(root):
            instructions, signature = numbered(instructions, missing), None
            by_name = {each.name: each for each in instructions}
            root = by_name[root.name]
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


def _find_cuts(
    instructions: list[Instruction],
    signature: tuple[list[AnyShape], AnyShape] | None,
    root: Instruction,
    missing: Missing,
) -> None:
    """Note the parameters, and the result, that only the signature has. What it contradicts is refused."""
    if signature is None:
        return
    shapes, result = signature
    own = {
        each.number: each for each in instructions if each.opcode == "parameter" and each.name not in missing.operands
    }
    missing.parameters = [number for number in range(len(shapes)) if number not in own]
    missing.is_root_cut = result != root.shape
    if missing.sentences(root):
        for number, parameter in own.items():
            if number < len(shapes):
                _check_parameter(shapes[number], parameter)


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
        _check_parameter(shape, parameter)
    if result != root.shape:
        root.where.fail(f"the signature's result is {result}, the root is {root.shape}", "the root")


def _check_parameter(shape: AnyShape, parameter: Instruction) -> None:
    if shape != parameter.shape:
        parameter.where.fail(f"parameter {parameter.number} is {shape} in the signature and {parameter.shape} here")


def _parse_instruction(
    cursor: Cursor,
    head: re.Match[str] | None,
    tables: MetadataTables,
    by_name: dict[str, Instruction],
    known: Mapping[str, Computation],
    before: list[Instruction],
    missing: Missing | None,
) -> Instruction:
    """`head` is the plain form of what is before the operands, if it has that form."""
    name, shape, opcode, where = _parse_plain_head(cursor, head, by_name) or _parse_head(cursor, by_name, missing)
    operands: tuple[str, ...] = ()
    number, literal = -1, None
    if opcode == "constant":
        literal = _parse_constant(cursor, shape)
    elif opcode == "parameter":
        number = cursor.integer("a parameter number")
        cursor.expect_mark(")")
    else:
        read = plain.operands(cursor, by_name)
        operands = _parse_operands(cursor, by_name, before, missing) if read is None else read
    values = _parse_attributes(cursor)
    place = tables.place(values.get("metadata"))
    made = Instruction(name, shape, opcode, operands, values, where, number, literal, place)
    if _CALLEES.isdisjoint(values):
        return made
    for key in CALLEES:
        absent = [each for each in attributes.names(values[key]) if each not in known] if key in values else []
        if absent and missing is not None and missing.without(made, absent):
            return opaque_without(made)
        if absent:
            values[key].fail(f"computation %{absent[0]} is not defined before this use", "used here")
    return made


def _parse_plain_head(
    cursor: Cursor, head: re.Match[str] | None, by_name: Mapping[str, Instruction]
) -> tuple[str, AnyShape, str, Excerpt] | None:
    """Name, shape, opcode and their place; None, with at most `ROOT` read, if the cursor has to look at them."""
    if head is None:
        return None
    shown, text, opcode = head.group(2, 3, 4)
    name, shape = shown.removeprefix("%"), plain_array(text)
    if shape is None or name in by_name:
        cursor.position = head.start(2)
        return None
    end = cursor.position = head.end()
    return name, shape, opcode, Excerpt(cursor.source, head.start(2), end - 1)


def _parse_head(
    cursor: Cursor, by_name: Mapping[str, Instruction], missing: Missing | None
) -> tuple[str, AnyShape, str, Excerpt]:
    """What is before the operands; the `(` is read, too."""
    start = cursor.skip()
    name = cursor.name("an instruction or `}`")
    if missing is not None and name in missing.operands:
        message = f"%{name} is defined after line {missing.operands[name].line} has used it"
        cursor.source.fail(start, message, end=cursor.position)
    if name in by_name:
        cursor.source.fail(start, f"a second instruction %{name} in this computation", end=cursor.position)
    if cursor.sees_mark("("):
        message = f"a computation %{name} inside of another one, which lacks its `}}`"
        cursor.source.fail(start, message, "it begins here", cursor.position)
    cursor.expect_mark("=")
    shape = parse_shape(cursor)
    opcode = cursor.expect(_OPCODE, "an opcode and `(`")[0]
    where = Excerpt(cursor.source, start, cursor.position)
    cursor.expect_mark("(")
    return name, shape, opcode, where


def _parse_constant(cursor: Cursor, shape: AnyShape) -> Literal | None:
    """The data of a constant, None if they are left out; the `)` is read, too."""
    number = plain.SCALAR.match(cursor.source.text, cursor.position, cursor.end)
    if number is not None and isinstance(shape, Shape):
        value = plain_scalar(number[1], shape)
        if value is not None:
            cursor.position = number.end()
            return value
    data = _parse_value(cursor, within=True)
    literal = None
    if isinstance(shape, Shape) and shape.dtype not in NUMPY:
        pass  # refused with everything else of that type
    elif not is_left_out(data, shape):
        literal = parse_literal(data, shape)
    cursor.expect_mark(")")
    return literal


def _parse_operands(
    cursor: Cursor, by_name: dict[str, Instruction], before: list[Instruction], missing: Missing | None
) -> tuple[str, ...]:
    """The names of the operands, up to the `)`; elements of tuples that are new are added to `before`."""
    operands: list[str] = []
    while not cursor.sees_mark(")"):
        if operands:
            cursor.expect_mark(",", "`,` or `)` after an operand")
        shape = parse_shape(cursor) if sees_shape(cursor) else None
        start = cursor.skip()
        operand = cursor.name("an operand")
        if operand not in by_name and missing is not None and shape is not None:
            by_name[operand] = missing.operand(operand, shape, Excerpt(cursor.source, start, cursor.position))
            before.append(by_name[operand])
        if operand not in by_name:
            cursor.source.fail(start, f"%{operand} is not defined before this use", "used here", cursor.position)
        while (match := cursor.take(_ELEMENT)) is not None:
            operand = _element(by_name, before, operand, Excerpt(cursor.source, match.start(1), match.end(1)))
        if shape is not None and shape != by_name[operand].shape:
            cursor.source.fail(
                start, f"%{operand} has shape {by_name[operand].shape}, not {shape}", end=cursor.position
            )
        operands.append(operand)
    cursor.expect_mark(")")
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


def _parse_attributes(cursor: Cursor) -> dict[str, Excerpt]:
    """`("," KEY "=" value)*`."""
    values: dict[str, Excerpt] = {}
    if plain.attributes(cursor, values):
        return values
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
