"""The inputs of a run: arrays that the user names, or numbers drawn from a seed.

Every location of kind `input` or `inout` takes a value, under the key `MODULE/LOCATION`, or under `LOCATION` for the
same value on every core. What its author calls it (`ir/paths.py`) may stand for LOCATION, unless a location has that
name. One that several cores share takes the value of any of them.

Drawn values depend only on the seed and the name of the location, so cores that have the same parameter get the same
numbers: NumPy's SFC64, seeded with the first 16 bytes of SHA-256 of `SEED:LOCATION`; floats are uniform (drawn as
f32, f64 as f64) with mean 0 and standard deviation 0.1, integers uniform from 0 to 7, predicates 0 or 1.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from haulout.ir.core_classes import core_classes
from haulout.ir.dtypes import NUMPY, name_of
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.paths import location_paths
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.support.diagnostics import Diagnostics, Severity, bad_input

DType: TypeAlias = np.dtype[Any]
Values: TypeAlias = Mapping[str, npt.NDArray[Any]]
_REACH = 0.1 * 3**0.5
"""Half the width of a uniform distribution of standard deviation 0.1."""


def input_bytes(program: Program, functions: Ids, inputs: Values | None, seed: int) -> dict[int, Bytes]:
    """The contents of every input location of some functions.

    Raises `HauloutError` (`bad-input`) with every key that is missing, unknown or of the wrong type.
    """
    rows = locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT)
    result = {row: _filled(program, row) for row in rows if is_filled(program, row)}
    if inputs is None:
        known_draws: dict[tuple[str, DType, tuple[int, ...]], Bytes] = {}
        wanted = {row: (_name(program, row), *element_type(program, row)) for row in rows if row not in result}
        for each in wanted.values():
            if each not in known_draws:
                known_draws[each] = drawn(*each, seed)
        return result | {row: known_draws[each] for row, each in wanted.items()}
    found = Diagnostics()
    known: set[str] = set()
    views = locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT, views=True)
    names_of: defaultdict[int, list[str]] = defaultdict(list)
    paths = _paths(program, views)
    for row in views:
        names_of[int(program.owner[row])] += _qualified(program, row, paths)
    for row in rows:
        keys = (*_qualified(program, row, paths), *names_of[row], _name(program, row), *paths.get(row, ()))
        known.update(keys)
        key = next((key for key in keys if key in inputs), None)
        if key is None and row in result:
            continue
        if key is None:
            message = f"missing input '{keys[0]}' (or '{keys[-1]}')"
            found.add("bad-input", Severity.ERROR, message, location_label(program, row))
        else:
            _take(program, row, key, np.asarray(inputs[key]), found, result)
    known |= _check_copies(program, functions, inputs, result, found, paths)
    for key in sorted(set(inputs) - known):
        found.add("bad-input", Severity.ERROR, f"unknown input '{key}'", help=[_names(sorted(known))])
    found.raise_if_errors()
    return result


def _check_copies(
    program: Program,
    functions: Ids,
    inputs: Values,
    result: dict[int, Bytes],
    found: Diagnostics,
    paths: Mapping[int, tuple[str, ...]],
) -> set[str]:
    """The keys of views; an error where cores that must get equal bytes (`same=`) get others."""
    locations = program.locations
    known: set[str] = set()
    first: dict[tuple[int, int, int], int] = {}
    for row in locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT, views=True):
        if locations.remote_name[row] == NONE:
            held = row
        else:
            keys, held = _qualified(program, row, paths), int(program.owner[row])
            known.update(keys)
            key = next((key for key in keys if key in inputs), None)
            if key is not None:
                _take(program, row, key, np.asarray(inputs[key]), found, result)
        core = int(program.location_core[row])
        for number, members in enumerate(core_classes(program, row)):
            if core in members:
                function = int(program.functions.name[locations.function[row]])
                held = first.setdefault((function, int(locations.name[row]), number), held)
        taken = result.get(row)
        if held != row and taken is not None and held in result and not np.array_equal(taken, result[held]):
            message = f"inputs '{qualified_name(program, held)}' and '{qualified_name(program, row)}' must be equal"
            notes = [f"its cores hold equal bytes: same={core_classes(program, row)}"]
            found.add("bad-input", Severity.ERROR, message, location_label(program, row), notes=notes)
        if locations.remote_name[row] != NONE:
            result.pop(row, None)
    return known


def locations_of_kind(program: Program, functions: Ids, *kinds: Kind, views: bool = False) -> list[int]:
    """Locations of some functions and kinds, views left out unless asked for: their owner has them."""
    rows = program.locations
    chosen = np.isin(rows.function, functions) & np.isin(rows.kind, kinds) & (views | (rows.remote_name == NONE))
    return [int(row) for row in np.flatnonzero(chosen)]


def qualified_name(program: Program, row: int) -> str:
    """`MODULE/LOCATION`."""
    module = program.functions.module[program.locations.function[row]]
    return f"{program.strings[int(program.modules.name[module])]}/{_name(program, row)}"


def _paths(program: Program, rows: list[int]) -> dict[int, tuple[str, ...]]:
    """What the author calls some locations, where none of them has that as its name."""
    names, paths = {_name(program, row) for row in rows}, location_paths(program)
    return {row: (path,) for row in rows if (path := paths[row]) is not None and path not in names}


def _qualified(program: Program, row: int, paths: Mapping[int, tuple[str, ...]]) -> list[str]:
    """`MODULE/LOCATION`, and `MODULE/PATH` if it has a path."""
    name = qualified_name(program, row)
    module = name.removesuffix(_name(program, row))
    return [name, *(module + path for path in paths.get(row, ()))]


def element_type(program: Program, row: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype and shape of a location; one that has none is a row of bytes."""
    name = program.strings.get(int(program.locations.dtype[row]))
    if name is None:
        return np.dtype(np.uint8), (int(program.locations.size[row]),)
    return NUMPY[name], program.shape(row)


def _take(
    program: Program, row: int, key: str, value: npt.NDArray[Any], found: Diagnostics, result: dict[int, Bytes]
) -> None:
    dtype, shape = element_type(program, row)
    # A .npz file keeps no name of an ml_dtypes type, only its width.
    unnamed = value.dtype.kind == "V" and name_of(value.dtype) is None and value.dtype.itemsize == dtype.itemsize
    if (value.dtype != dtype and not unnamed) or value.shape != shape:
        message = f"input '{key}' is {_type(value.dtype, value.shape)}, expected {_type(dtype, shape)}"
        found.add("bad-input", Severity.ERROR, message, location_label(program, row))
        return
    result[row] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def is_filled(program: Program, row: int) -> bool:
    """Whether a location is filled before the program starts, so that it need not be given: `filled=`."""
    return program.locations.attrs[row] != NONE and "filled" in program.location_attrs(row)


def _filled(program: Program, row: int) -> Bytes:
    """The contents that `filled=identity` or `filled=BASE64` gives. Raises `bad-input` for any others."""
    dtype, shape = element_type(program, row)
    value = program.location_attrs(row)["filled"]
    if value == "identity" and len(shape) == 2:
        return np.eye(*shape).astype(dtype).reshape(-1).view(np.uint8)
    try:
        found = np.frombuffer(base64.b64decode(str(value), validate=True), np.uint8)
    except ValueError:
        found = np.zeros(0, np.uint8)
    if len(found) != int(program.locations.size[row]):
        message = f"attribute `filled`: expected identity, or {program.locations.size[row]} bytes in base64"
        bad_input(message, location_label(program, row))
    return found


def drawn(name: str, dtype: DType, shape: tuple[int, ...], seed: int) -> Bytes:
    """Numbers for an input of some name and type."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = np.random.Generator(np.random.SFC64(int.from_bytes(digest[:16], "little")))
    value: npt.NDArray[Any]
    if dtype.kind == "b":
        value = generator.integers(0, 2, shape)
    elif dtype.kind in "iu":
        value = generator.integers(0, 8, shape)
    elif dtype.kind == "c":
        value = generator.uniform(-_REACH, _REACH, (*shape, 2)).view(np.complex128).reshape(shape)
    else:
        wide = np.float64 if dtype == np.float64 else np.float32
        value = generator.random(shape, wide)
        np.subtract(value, wide(0.5), out=value)
        np.multiply(value, wide(2 * _REACH), out=value)
    return np.ascontiguousarray(value.astype(dtype, copy=False)).reshape(-1).view(np.uint8)


def _name(program: Program, row: int) -> str:
    return program.strings[int(program.locations.name[row])]


def _type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{name_of(dtype) or dtype}[{','.join(map(str, shape))}]"


def _names(names: list[str]) -> str:
    listed = ", ".join(names[:12])
    return f"its inputs are {listed}{', ...' if len(names) > 12 else ''}" if names else "it has no inputs"
