"""Memory that was never written shows: floats are NaN, the bytes of everything else are 0xAA.

To find what depends on it, a run with other bytes is compared (`unwritten.py`): pi, and 0x55.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from haulout.ir.dtypes import NUMPY
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.sim.memory.layout import Layout
from haulout.sim.numerics.dtypes import is_float

_FRESH, _OTHER = 0xAA, 0x55


def fill_fresh(program: Program, functions: Ids, layout: Layout, arena: Bytes, other: bool = False) -> None:
    """Fill all locations of some functions; inputs are written afterwards. `other`: with the other bytes."""
    rows = program.locations
    chosen = np.isin(rows.function, functions) & (program.owner == np.arange(len(rows))) & (layout.base >= 0)
    for row in np.flatnonzero(chosen).tolist():
        base, width, pitch = (int(column[row]) for column in (layout.base, layout.width, layout.pitch))
        pieces = int(rows.size[row]) // width if width else 0
        if not pieces:
            continue
        bits = _fresh_bits(program.strings.get(int(rows.dtype[row])), other)
        if width % bits.itemsize:
            bits = _fresh_bits(None, other)
        item = bits.itemsize
        strides = (pitch or width, item)
        np.ndarray((pieces, width // item), bits.dtype, arena.data, base, strides)[...] = bits


def _fresh_bits(dtype: str | None, other: bool) -> np.unsignedinteger[Any]:
    """The bits of an element that was never written."""
    if dtype is None or not is_float(NUMPY[dtype]):
        return np.uint8(_OTHER if other else _FRESH)
    stored = np.array([np.pi if other else np.nan], NUMPY[dtype])
    found: np.unsignedinteger[Any] = stored.view(f"u{stored.itemsize}")[0]
    return found
