"""Source locations of instructions: the tables after the header, and the metadata of each instruction.

    tables   := ("FileNames" | "FunctionNames") (INT STRING)*
              | ("FileLocations" | "StackFrames") (INT "{" (KEY "=" INT)* "}")*
    metadata := "{" (KEY "=" (STRING | WORD))* "}"

A `stack_frame_id` names a frame, the frame a location, the location a file and a line. Old dumps write `source_file`
and `source_line` into the metadata itself. The innermost frame outside of installed packages gives the line, or else
the innermost one: JAX leaves out its own frames, but not those of Flax, Haiku or Optax, where all models look alike.
JAX 0.10 counts the parents of frames from one more than it should, so that a frame without a parent is its own.
Messages alone use these lines, so an unknown id (in a file that was edited) gives no line instead of an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from haulout.frontends.hlo.cursor import STRING, WORD, Cursor
from haulout.frontends.hlo.source import Excerpt

MAX_FRAMES = 200
"""Of a stack that are looked at; JAX keeps ten."""
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_TABLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b")
_ROW = re.compile(r"[0-9]{1,18}(?![0-9])")
_FIELD = re.compile(r'(?<![A-Za-z_])([A-Za-z_]++)=(?:"((?:[^"\\]++|\\.)*+)"|([^\s}]+))')


_PATH = re.compile(r"""[^\W\d]\w*(?:\.\w+|\[(?:[^\[\]'"]*+|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|<[^<>]*+>)\])*+""")
"""A name, then attributes, indices and keys, as `jax.tree_util.keystr` writes them."""


@dataclass(slots=True)
class MetadataTables:
    """The tables of a file, by id."""

    files: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, dict[str, int]] = field(default_factory=dict)
    _places: dict[int, str | None] = field(default_factory=dict)
    """By frame."""
    _shift: int | None = None
    """What the ids of parents are too large by."""

    def place(self, metadata: Excerpt | None) -> str | None:
        """`FILE:LINE` of an instruction with this metadata, or None."""
        if metadata is None:
            return None
        place, number = _place_or_frame(metadata.text)
        if place is not None:
            return place
        if number not in self._places:
            self._places[number] = self._line_of(number)
        return self._places[number]

    def _line_of(self, number: int) -> str | None:
        """`FILE:LINE` of the innermost frame of the author, or of the innermost one."""
        if self._shift is None:
            self._shift = int(any(frame.get("parent_frame_id") == each for each, frame in self.frames.items()))
        innermost: str | None = None
        for _ in range(MAX_FRAMES):
            frame = self.frames.get(number, {})
            location = self.locations.get(frame.get("file_location_id", 0), {})
            file = self.files.get(location.get("file_name_id", 0))
            if file is None or "line" not in location:
                break
            place = f"{file}:{location['line']}"
            if not _INSTALLED.search(file):
                return place
            innermost = innermost or place
            number = frame.get("parent_frame_id", 0) - self._shift
        return innermost


@lru_cache(maxsize=4096)
def _place_or_frame(text: str) -> tuple[str | None, int]:
    """`FILE:LINE` if the metadata itself says so, or else the id of the frame; instructions of one line share it."""
    fields = {match[1]: match[3] if match[2] is None else match[2] for match in _FIELD.finditer(text)}
    if "source_file" in fields:
        return f"{_unescape(fields['source_file'])}:{fields.get('source_line', '0')}", 0
    return None, _number(fields.get("stack_frame_id"))


def op_name(metadata: Excerpt) -> str:
    """The path of scopes and the primitive that an instruction comes from."""
    fields = {match[1]: match[2] for match in _FIELD.finditer(metadata.text) if match[2] is not None}
    return _unescape(fields.get("op_name", ""))


def parameter_path(metadata: Excerpt | None) -> str | None:
    """The place of a parameter in the arguments of the traced function, `params['h'][0]['w']`, as JAX writes it.

    None if the name is not such a path: other front ends write scopes there, `jit(f)/reduce_sum`.
    """
    name = "" if metadata is None else op_name(metadata)
    return name if _PATH.fullmatch(name) else None


def parse_tables(cursor: Cursor) -> MetadataTables:
    """Read the tables, in any order."""
    tables = MetadataTables()
    while match := cursor.take(_TABLE):
        kind = match[1]
        while row := cursor.take(_ROW):
            number = int(row[0])
            if kind in ("FileNames", "FunctionNames"):
                text = _unescape(cursor.expect(STRING, "a name in double quotes")[1])
                if kind == "FileNames":
                    tables.files[number] = text
            else:
                rows = tables.locations if kind == "FileLocations" else tables.frames
                rows[number] = _parse_record(cursor)
    return tables


def _parse_record(cursor: Cursor) -> dict[str, int]:
    cursor.expect_mark("{")
    record: dict[str, int] = {}
    while not cursor.take_mark("}"):
        key = cursor.expect(WORD, "a field or `}`")[0]
        cursor.expect_mark("=")
        record[key] = cursor.integer("an id", None)
    return record


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else 0


def _unescape(text: str) -> str:
    """The text without backslashes; control characters, which a name of a program must not contain, become `?`."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", re.sub(r"\\(.)", r"\1", text))
