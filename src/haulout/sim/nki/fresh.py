"""Memory that was never written shows: floats are NaN, the bytes of everything else are 0xAA."""

from __future__ import annotations

import numpy as np

from haulout.ir.dtypes import NUMPY
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.sim.memory.layout import Layout
from haulout.sim.numerics.dtypes import is_float
from haulout.sim.numerics.types import Array

_FRESH = 0xAA


def fill_fresh(program: Program, functions: Ids, layout: Layout, arena: Bytes) -> None:
    """Fill all locations of some functions; inputs are written afterwards."""
    rows = program.locations
    chosen = np.isin(rows.function, functions) & (program.owner == np.arange(len(rows))) & (layout.base >= 0)
    for row in np.flatnonzero(chosen).tolist():
        base, width, pitch = (int(column[row]) for column in (layout.base, layout.width, layout.pitch))
        pieces = int(rows.size[row]) // width if width else 0
        if not pieces:
            continue
        pattern = _pattern(program.strings.get(int(rows.dtype[row])))
        place = np.ndarray((pieces, width), np.uint8, arena.data, base, (pitch or width, 1))
        whole = width % len(pattern) == 0
        place[...] = np.tile(pattern, width // len(pattern)) if whole else _FRESH


def _pattern(dtype: str | None) -> Array:
    """The bytes of an element that was never written."""
    if dtype is None or not is_float(NUMPY[dtype]):
        return np.array([_FRESH], np.uint8)
    return np.frombuffer(np.array(np.nan, NUMPY[dtype]).tobytes(), np.uint8)
