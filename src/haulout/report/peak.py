"""Which arrays make the peak of the memory: those that are live at the moment when most bytes of one core are.

Bytes of DRAM, by the lifetimes that the allocator works with (`analysis/lifetimes.py`): a lower bound of its result.
"""

from __future__ import annotations

import msgspec
import numpy as np

from haulout.analysis.lifetimes import lifetimes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.paths import location_path
from haulout.ir.program import Program

MAX_ARRAYS = 10


class PeakArray(msgspec.Struct):
    """A location that is live at the peak."""

    name: str
    path: str | None
    """What the author calls it."""
    kind: str
    dtype: str | None
    shape: list[int]
    bytes: int
    loc: str | None
    """The source line that makes it."""


class Peak(msgspec.Struct):
    """The moment of one core at which most bytes are live."""

    core: int
    bytes: int
    arrays: int
    """Live arrays."""
    instruction: str | None
    """What runs then."""
    loc: str | None


def find_peak(program: Program) -> tuple[Peak | None, list[PeakArray]]:
    """The peak of the core that has the most live bytes, and its largest arrays; None if none of its DRAM is live."""
    rows, life = program.locations, lifetimes(program)
    dram = (rows.space <= Space.DRAM_SHARED) & (rows.remote_name == NONE) & (life.end > life.begin) & (rows.size > 0)
    best: tuple[int, int, int] | None = None
    for core in range(program.lnc):
        mine = np.flatnonzero(dram & (program.location_core == core))
        moments, at = np.unique(np.concatenate([life.begin[mine], life.end[mine]]), return_inverse=True)
        if not len(mine):
            continue
        change = np.zeros(len(moments), np.int64)
        np.add.at(change, at, np.concatenate([rows.size[mine], -rows.size[mine]]))
        level = np.cumsum(change)
        top = int(np.argmax(level))
        if best is None or int(level[top]) > best[0]:
            best = int(level[top]), core, int(moments[top])
    if best is None:
        return None, []
    total, core, moment = best
    live = np.flatnonzero(dram & (program.location_core == core) & (life.begin <= moment) & (moment < life.end))
    order = live[np.argsort(-rows.size[live], kind="stable")]
    runs = moment < len(program.instructions) and int(program.instruction_core[moment]) == core
    peak = Peak(
        core,
        total,
        len(live),
        program.instruction_name(moment) if runs else None,
        program.strings.get(int(program.instructions.loc[moment])) if runs else None,
    )
    return peak, [_array(program, row) for row in order[:MAX_ARRAYS].tolist()]


def _array(program: Program, row: int) -> PeakArray:
    rows, strings = program.locations, program.strings
    return PeakArray(
        strings[int(rows.name[row])],
        location_path(program, row),
        Kind(int(rows.kind[row])).text,
        strings.get(int(rows.dtype[row])),
        list(program.shape(row)),
        int(rows.size[row]),
        strings.get(int(rows.loc[row])),
    )
