"""Pipelines as text, `name{option=value option=value},name,...`: read and written."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, get_args

from haulout.ir.attributes import AttrValue, format_attrs, parse_attrs
from haulout.passes.base import Pass
from haulout.passes.options import option_types
from haulout.support.diagnostics import bad_input

PIPELINE = "# passes: "
"""Begins the first line of a reproducer; its pipeline follows."""


def find_pass(name: str, known: Mapping[str, type[Pass]]) -> type[Pass]:
    """The pass of a name; `bad-input` where there is none."""
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    helps = [*(f"did you mean {each}?" for each in near), "passes: " + ", ".join(known)]
    bad_input(f"no pass is named {name!r}", help=helps)


def pipeline_of(text: str) -> str | None:
    """The pipeline in the first line of a reproducer; None: it has none."""
    first = text.partition("\n")[0]
    return first.removeprefix(PIPELINE) if first.startswith(PIPELINE) else None


def pipeline_text(passes: Iterable[Pass]) -> str:
    """The text that makes these passes."""
    return ",".join(map(_text, passes))


def _text(each: Pass) -> str:
    options = {}
    for item in fields(each):
        value = getattr(each, item.name)
        if item.default is MISSING or value != item.default:
            options[item.name] = _value(value)
    return each.name + (f"{{{format_attrs(options)}}}" if options else "")


def _value(value: Any) -> AttrValue:
    match value:
        case None:
            return "none"
        case enum.Enum():
            return _value(value.value)
        case PurePath():
            return str(value)
        case tuple() | list() | set() | frozenset():
            return [_value(each) for each in value]
        case _:
            found: AttrValue = value
            return found


_PASS = re.compile(r"""\s*([a-z_0-9]+)\s*(?:\{((?:"(?:[^"\\]|\\.)*"|[^"}])*)\})?\s*(?:,|\Z)""")


def parse_passes(text: str, known: Mapping[str, type[Pass]]) -> list[Pass]:
    """Passes from `name{option=value option=value},name`; `bad-input` names what is not known or of a wrong type.

    `known` are all passes by name. `none` is None where the option's type allows that.
    """
    passes: list[Pass] = []
    at = 0
    while at < len(text):
        match = _PASS.match(text, at)
        if match is None:
            bad_input(f"expected NAME or NAME{{OPTION=VALUE}} in the pipeline, found {text[at:]!r}")
        name, options = match.group(1), parse_attrs(match.group(2) or "")
        passes.append(_make(find_pass(name, known), options))
        at = match.end()
    return passes


def _make(kind: type[Pass], options: dict[str, AttrValue]) -> Pass:
    known = option_types(kind)
    values: dict[str, AttrValue | None] = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            bad_input(f"{kind.name} has no option {key!r}", help=["options: " + (", ".join(known) or "none")])
        if name in values:
            bad_input(f"{kind.name}: option {name} is given twice")
        values[name] = None if value == "none" and type(None) in get_args(known[name]) else value
    return kind(**values)
