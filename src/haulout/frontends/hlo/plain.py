"""The plain form of an instruction, as XLA prints nearly all of them: one blank between tokens, no comments.

    [ROOT] %NAME = TYPE[INTS]{INTS} OPCODE([[TYPE[INTS]{INTS} ]%NAME, ...])[, KEY=VALUE]...

Each pattern reads at once what the cursor reads token by token, and matches only where the cursor reads the same.
What does not match, or fails a check, is read again by the cursor, which alone knows every form and every message.
A text of a million lines needs it: the cursor takes some 50 steps a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from haulout.frontends.hlo.cursor import Cursor
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import ARRAY, plain_array

_MOST = 200
"""Of repeats of a group, for each of which the matcher keeps a state."""
_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*+"
_OPERAND = rf"(?:({ARRAY}) )?%?({_NAME})"
_UNGROUPED = _OPERAND.replace("(" + ARRAY, "(?:" + ARRAY).replace("(" + _NAME, "(?:" + _NAME)

HEAD = re.compile(rf"\s*+(?:(ROOT) |(?!ROOT\b))(%?{_NAME}) = ({ARRAY}) ([a-z][a-z0-9\-]*+)\(")
"""From the end of the line before to the operands: ROOT, name, shape, opcode."""
SCALAR = re.compile(r"([+\-.\w]{1,64}+)\)")
"""A constant of one number."""
_OPERANDS = re.compile(rf"((?:{_UNGROUPED}(?:, {_UNGROUPED}){{0,{_MOST}}})?)\)")
_EACH_OPERAND = re.compile(_OPERAND)

_FLAT = r"""[^{}()\[\]"'/]"""
_VALUE = rf"""[\w.%\->]++|"[^"\\\n]*+"|\{{(?:{_FLAT}++|"[^"\\\n]*+"|\{{{_FLAT}*+\}}|\[{_FLAT}*+\]){{0,{_MOST}}}\}}"""
_ATTRIBUTE = re.compile(rf", ([A-Za-z_][A-Za-z0-9_\-]*+)=({_VALUE})(?=[,\n])")
_NEXT_LINE = re.compile(r"\n\s*+[%}R]")


def operands(cursor: Cursor, by_name: Mapping[str, Instruction]) -> tuple[str, ...] | None:
    """The names of the operands; the `)` is read, too.

    None, with nothing read, if they are not plain, not known, or of another shape than is written.
    """
    match = _OPERANDS.match(cursor.source.text, cursor.position, cursor.end)
    if match is None:
        return None
    listed = match[1]
    if "[" in listed:
        found = _EACH_OPERAND.findall(listed)
        names = [name for _, name in found]
    else:
        found, names = [], listed.replace("%", "").split(", ") if listed else []
    for name in names:
        if name not in by_name:
            return None
    if any(shape and plain_array(shape) != by_name[name].shape for shape, name in found):
        return None
    cursor.position = match.end()
    return tuple(names)


def attributes(cursor: Cursor, values: dict[str, Excerpt]) -> bool:
    """Read attributes as long as they are plain and new into `values`. Whether they are all of the instruction."""
    source, position, end = cursor.source, cursor.position, cursor.end
    text = source.text
    while (match := _ATTRIBUTE.match(text, position, end)) is not None:
        key = match[1]
        if key in values:
            break
        position = match.end()
        values[key] = Excerpt(source, match.start(2), position)
    cursor.position = position
    return _NEXT_LINE.match(text, position, end) is not None
