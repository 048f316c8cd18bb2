"""Where an instruction came from in the user's source: the tables behind the header, and the metadata.

    tables   := ("FileNames" | "FunctionNames") (INT STRING)*
              | ("FileLocations" | "StackFrames") (INT "{" (KEY "=" INT)* "}")*
    metadata := "{" (KEY "=" (STRING | WORD))* "}"

A `stack_frame_id` names a frame, the frame a location, the location a file and a line; old dumps write
`source_file` and `source_line` into the metadata itself. The innermost frame is the place: JAX lists only
frames of the user's own code. A place serves messages only, so an id that leads nowhere (a file trimmed by
hand) gives no place instead of an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from haulout.frontends.hlo.cursor import STRING, WORD, Cursor
from haulout.frontends.hlo.source import Excerpt

_TABLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b")
_ROW = re.compile(r"[0-9]{1,18}(?![0-9])")
_FIELD = re.compile(r'(?<![A-Za-z_])([A-Za-z_]++)=(?:"((?:[^"\\]++|\\.)*+)"|([^\s}]+))')


@dataclass(slots=True)
class PlaceTables:
    """The tables of a file, by id."""

    files: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, dict[str, int]] = field(default_factory=dict)

    def place(self, metadata: Excerpt | None) -> str | None:
        """`FILE:LINE` of an instruction with this metadata, or None."""
        if metadata is None:
            return None
        fields = {match[1]: match[3] if match[2] is None else match[2] for match in _FIELD.finditer(metadata.text)}
        if "source_file" in fields:
            return f"{_unescape(fields['source_file'])}:{fields.get('source_line', '0')}"
        frame = self.frames.get(_number(fields.get("stack_frame_id")), {})
        location = self.locations.get(frame.get("file_location_id", 0), {})
        file = self.files.get(location.get("file_name_id", 0))
        return f"{file}:{location['line']}" if file is not None and "line" in location else None


def parse_tables(cursor: Cursor) -> PlaceTables:
    """Read the tables that stand here, in any order."""
    tables = PlaceTables()
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
    """The text without backslashes; control characters, which no name of a program may hold, become `?`."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", re.sub(r"\\(.)", r"\1", text))
