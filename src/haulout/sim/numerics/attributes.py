"""Reading one attribute of an instruction, with the type that its opcode needs.

Attributes come from text that a person may have written, so each reader reports what it expected and what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from haulout.sim.numerics.types import Attrs
from haulout.support.diagnostics import bad_input


def integer(attrs: Attrs, name: str, default: int | None = None) -> int:
    """The attribute as one integer."""
    value: Any = attrs.get(name, default)
    if not _is_integer(value):
        _unexpected(name, "an integer", value)
    return int(value)


def integers(attrs: Attrs, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
    """The attribute as a list of integers."""
    value: Any = attrs.get(name, default)
    if not isinstance(value, list | tuple) or not all(map(_is_integer, value)):
        _unexpected(name, "a list of integers", value)
    return tuple(value)


def flag(attrs: Attrs, name: str, default: bool | None = None) -> bool:
    """The attribute as true or false."""
    value: Any = attrs.get(name, default)
    if not isinstance(value, bool):
        _unexpected(name, "true or false", value)
    return value


def flags(attrs: Attrs, name: str, default: Sequence[bool]) -> tuple[bool, ...]:
    """The attribute as a list of true and false."""
    value: Any = attrs.get(name, default)
    if not isinstance(value, list | tuple) or not all(isinstance(item, bool) for item in value):
        _unexpected(name, "a list of true and false", value)
    return tuple(value)


def text(attrs: Attrs, name: str) -> str:
    """The attribute as a name or a string."""
    value: Any = attrs.get(name)
    if not isinstance(value, str):
        _unexpected(name, "a name", value)
    return value


def word(attrs: Attrs, name: str, choices: Sequence[str]) -> str:
    """The attribute as one of a few names."""
    value: Any = attrs.get(name)
    if not isinstance(value, str) or value not in choices:
        _unexpected(name, f"one of {', '.join(choices)}", value)
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unexpected(name: str, expected: str, found: object) -> NoReturn:
    if found is None:
        bad_input(f"attribute `{name}` is missing: expected {expected}")
    bad_input(f"attribute `{name}`: expected {expected}, found {found!r}")
