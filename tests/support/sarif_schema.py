"""SARIF 2.1.0, as far as haulout writes it, written down from the standard: what may be where, and what must be.

`problems` walks a document. An object has the listed properties and no others; a property with `!` is required.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

MESSAGE = {"text!": str}
ARTIFACT = {"uri!": "uri"}
REGION = {"startLine!": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
LOCATION = {"physicalLocation!": {"artifactLocation!": ARTIFACT, "region": REGION}, "message": MESSAGE, "id": 0}
REPLACEMENT = {"deletedRegion!": REGION, "insertedContent": {"text": str}}
FIX = {"description": MESSAGE, "artifactChanges!": [{"artifactLocation!": ARTIFACT, "replacements!": [REPLACEMENT]}]}
RESULT = {
    "ruleId": str,
    "ruleIndex": 0,
    "level": ("none", "note", "warning", "error"),
    "message!": MESSAGE,
    "locations": [LOCATION],
    "relatedLocations": [LOCATION],
    "partialFingerprints": {"*": str},
    "suppressions": [{"kind!": ("inSource", "external"), "justification": str}],
    "fixes": [FIX],
}
RULE = {"id!": str, "shortDescription": MESSAGE, "fullDescription": MESSAGE, "help": MESSAGE}
RUN = {
    "tool!": {"driver!": {"name!": str, "version": str, "rules": [RULE]}},
    "columnKind": ("utf16CodeUnits", "unicodeCodePoints"),
    "results": [RESULT],
}
DOCUMENT = {"$schema": "uri", "version!": ("2.1.0",), "runs!": [RUN]}


def problems(value: Any, shape: Any = DOCUMENT, path: str = "$") -> Iterator[str]:
    """What the standard does not allow, each with its place."""
    match shape:
        case dict():
            if not isinstance(value, dict):
                yield f"{path}: no object"
                return
            known = {key.removesuffix("!"): each for key, each in shape.items()}
            yield from (f"{path}: no {key[:-1]}" for key in shape if key.endswith("!") and key[:-1] not in value)
            for key, each in value.items():
                if key in known or "*" in known:
                    yield from problems(each, known.get(key, known.get("*")), f"{path}.{key}")
                else:
                    yield f"{path}.{key}: not known"
            yield from _region(value, path) if shape is REGION else ()
        case list():
            if not isinstance(value, list):
                yield f"{path}: no array"
                return
            for at, each in enumerate(value):
                yield from problems(each, shape[0], f"{path}[{at}]")
        case tuple():
            if value not in shape:
                yield f"{path}: {value!r}"
        case int():
            if type(value) is not int or value < shape:
                yield f"{path}: {value!r}, expected an integer of at least {shape}"
        case "uri":
            text = value if isinstance(value, str) else " "
            if not text.isascii() or any(char in text for char in ' <>"{}|\\^`') or urlsplit(text).fragment:
                yield f"{path}: {value!r} is no URI reference"
        case _:
            if not isinstance(value, str) or not value:
                yield f"{path}: {value!r}, expected text"


def _region(region: dict[str, int], path: str) -> Iterator[str]:
    begin = region.get("startLine", 1), region.get("startColumn", 1)
    end = region.get("endLine", begin[0]), region.get("endColumn", 1 << 30)
    if end < begin:
        yield f"{path}: ends before it begins"
