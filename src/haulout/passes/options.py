"""Options of passes: the type of a field decides which values it takes, wherever they are written.

A pass is a dataclass; its fields are its options. `check_options` compares every value with the annotation of its
field and raises `bad-input`. `Pass` calls it when a pass is made, `PassManager` before it runs any (a pass of a user
may have a `__post_init__` of its own). Pipeline text makes passes, so the same checks apply.

    bool, int, float, str, Path     a bool is not an int; an int is a float
    Literal["a", "b"], an Enum      one of them; an Enum by its value too
    X | Y, X | None                 either
    Annotated[int, Between(0, 9)]   within bounds, both included
    list[X], tuple[X, Y], dict ...  every element
    any other class                 an instance of it

Values that text cannot express are converted: a Path from a string, a tuple or a set from a list, a float from an
integer. Defaults are not checked.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from inspect import get_annotations
from pathlib import PurePath
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from haulout.ir.schema import INT32_MAX, MAX_CORES, SIZE_MAX
from haulout.support.diagnostics import bad_input
from haulout.support.shown import shown, shown_number


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds of a number, both included."""

    least: int | float
    most: int | float


Bytes = Annotated[int, Between(0, SIZE_MAX)]
"""A size in memory; the largest one that a program may have."""
Cores = Annotated[int, Between(1, MAX_CORES)]
Count = Annotated[int, Between(0, INT32_MAX)]
"""A number of things."""


def check_options(each: object) -> None:
    """Check the options of a pass against their types, and convert equal values of other types."""
    if not is_dataclass(each) or isinstance(each, type):
        return
    hints = option_types(type(each))
    defaults = {item.name: item.default for item in fields(each)}
    for name, hint in hints.items():
        value = getattr(each, name)
        if value is defaults[name]:
            continue
        taken = check_option(f"{getattr(each, 'name', type(each).__name__)}: option {name}", value, hint)
        if taken is not value:
            object.__setattr__(each, name, taken)


def check_option(what: str, value: object, hint: Any) -> Any:
    """The value, converted to its type; `bad-input` if it is of another type. `what` is the message's subject."""
    taken = _taken(value, hint)
    if taken is _WRONG:
        bad_input(f"{what} must be {type_text(hint)}, found {shown(value)}")
    return taken


def option_types(kind: type) -> Mapping[str, Any]:
    """Option -> its type, in the order of the fields. Raises `bad-input` for an annotation with an unknown name."""
    return {item.name: _hint(kind, item.name) for item in fields(kind) if item.init}


def _hint(kind: type, name: str) -> Any:
    """The type of one field; annotations of other fields (a ClassVar, say) may have unknown names."""
    try:
        owner = next(each for each in kind.__mro__ if name in get_annotations(each))
        single = SimpleNamespace(__annotations__={name: get_annotations(owner)[name]})
        names = vars(sys.modules[owner.__module__])
        return get_type_hints(single, names, dict(vars(owner)), include_extras=True)[name]
    except Exception as error:
        bad_input(
            f"{getattr(kind, 'name', kind.__name__)}: the type of option {name} cannot be read: {error}",
            help=["import the names of the annotation in the module of the class, outside of TYPE_CHECKING"],
        )


# -- one value -------------------------------------------------------------------------------------------------------

_WRONG = object()
_COLLECTIONS: dict[Any, type] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: tuple,
    Collection: tuple,
    Iterable: tuple,
    Set: frozenset,
}
"""Type of a field -> the type that an equal value is converted to."""


def _taken(value: Any, hint: Any) -> Any:
    """The value converted to the type, or `_WRONG`."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return value
    if kind is Annotated:
        taken = _taken(value, arguments[0])
        bounds = [mark for mark in arguments[1:] if isinstance(mark, Between)]
        return taken if taken is _WRONG or all(each.least <= taken <= each.most for each in bounds) else _WRONG
    if kind in (Union, UnionType):
        found = [taken for each in arguments if (taken := _taken(value, each)) is not _WRONG]
        return next((taken for taken in found if taken is value), found[0] if found else _WRONG)
    if kind is Literal:
        return next((each for each in arguments if _same(value, each)), _WRONG)
    for name in ("__supertype__", "__value__"):  # NewType, `type X = ...`
        if not isinstance(kind, type) and hasattr(kind, name):
            return _taken(value, getattr(kind, name))
    if kind in _COLLECTIONS:
        return _collection(value, kind, arguments)
    if kind in (dict, Mapping) and arguments and isinstance(value, Mapping):
        pairs = [_taken(each, hint) for pair in value.items() for each, hint in zip(pair, arguments, strict=True)]
        return _WRONG if any(each is _WRONG for each in pairs) else value
    return _scalar(value, NoneType if kind is None else kind)


def _scalar(value: Any, kind: Any) -> Any:
    truth = isinstance(value, bool | np.bool_)
    if kind is bool:
        return bool(value) if truth else _WRONG
    if kind is int or kind is float:
        number = isinstance(value, int | np.integer) or (kind is float and isinstance(value, float | np.floating))
        if truth or not number:
            return _WRONG
        try:
            return value if isinstance(value, kind) else kind(value)
        except OverflowError:
            return _WRONG
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str | PurePath):
        return value if isinstance(value, kind) else kind(value)
    if isinstance(kind, enum.EnumType) and not isinstance(value, kind):
        members: list[enum.Enum] = list(kind)
        return next((each for each in members if _same(value, each.value)), _WRONG)
    try:
        return value if isinstance(value, kind) else _WRONG
    except TypeError:
        return value  # isinstance does not support the type, such as a protocol that is not runtime-checkable


def _same(value: object, wanted: object) -> bool:
    """Equal and of one type: True is not 1."""
    return isinstance(value, type(wanted)) and isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _collection(value: Any, kind: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple | set | frozenset):
        return _WRONG
    fixed = kind is tuple and arguments and arguments[-1] is not Ellipsis
    if fixed and len(arguments) != len(value):
        return _WRONG
    hints = arguments if fixed else [arguments[0] if arguments else Any] * len(value)
    items = [_taken(item, hint) for item, hint in zip(value, hints, strict=True)]
    if any(item is _WRONG for item in items):
        return _WRONG
    if isinstance(value, kind) and all(one is two for one, two in zip(value, items, strict=True)):
        return value
    return _COLLECTIONS[kind](items)


# -- types as text ---------------------------------------------------------------------------------------------------

_TEXT: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    NoneType: "none",
    None: "none",
    Any: "anything",
}


def type_text(hint: Any) -> str:
    """The values of a type, as text for messages and the reference."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        bounds = [mark for mark in arguments[1:] if isinstance(mark, Between)]
        limits = [f" from {_limit(each.least)} to {_limit(each.most)}" for each in bounds]
        return type_text(arguments[0]) + " and".join(limits)
    if kind in (Union, UnionType):
        return " or ".join(type_text(each) for each in arguments)
    if kind is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else str(arguments[0])
    if isinstance(kind, enum.EnumType):
        members: list[enum.Enum] = list(kind)
        return f"one of {', '.join(str(each.value) for each in members)}"
    if kind in _COLLECTIONS:
        items = [type_text(each) for each in arguments if each is not Ellipsis]
        return "a list" + (f" of {', '.join(items)}" if items else "")
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path"
    return _TEXT.get(kind) or str(getattr(kind, "__name__", kind))


def _limit(value: float) -> str:
    return shown_number(value) if isinstance(value, int) else str(value)
