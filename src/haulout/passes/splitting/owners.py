"""Who owns a location that several cores share: the core that owns the fewest live bytes while it lives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program


class Owners:
    """Bytes that each core owns, over the instructions of the first core; the cores run in lockstep."""

    def __init__(self, program: Program) -> None:
        rows = len(program.instructions) // program.lnc
        count, accesses = len(program.locations) // program.lnc, len(program.accesses) // program.lnc
        self._size = program.locations.size
        self._begin = np.full(count, rows, np.int64)
        self._end = np.zeros(count, np.int64)
        at, row = program.accesses.location[:accesses], program.accesses.instruction[:accesses]
        np.minimum.at(self._begin, at, row)
        np.maximum.at(self._end, at, row + 1)
        for loop in program.structure.loops.values():
            self._widen(program, loop.begin, loop.end, rows)
        lasting = (program.locations.kind[:count] != Kind.INTERNAL) & (program.locations.remote_name[:count] == NONE)
        self._begin[lasting], self._end[lasting] = 0, max(rows, 1)
        self._owned = np.zeros((program.lnc, max(rows, 1)), np.int64)

    def _widen(self, program: Program, begin: int, end: int, rows: int) -> None:
        """What is touched in a loop and outside lives in all of it."""
        first, last = np.searchsorted(program.instructions.block[:rows], [begin, end]).tolist()
        inside = (self._begin < last) & (self._end > first) & ~((self._begin >= first) & (self._end <= last))
        self._begin[inside] = np.minimum(self._begin[inside], first)
        self._end[inside] = np.maximum(self._end[inside], last)

    def choose(self, location: int, members: Sequence[int]) -> int:
        """The member that is to own a location of the first core's table; its bytes count from now on."""
        span = slice(int(self._begin[location]), max(int(self._end[location]), int(self._begin[location]) + 1))
        most = self._owned[:, span].max(axis=1, initial=0)
        owner = min(members, key=lambda core: (int(most[core]), core))
        self._owned[owner, span] += self._size[location]
        return owner
