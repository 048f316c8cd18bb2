"""Which operands members may read where they are: nothing writes them until the members have read them.

An operand is read in place if it is a whole local location, and

    nothing writes it later in the list, on any core                                     it is *unchanged*
    or the next write comes after the next collective, in the block of this one          it is free by then

In the second case the state of a loop, say, is the operand, and its new value comes late in the body. The fence of
the collective between them usually orders the members' reads before the write; where it does not, order 81 adds one.
That needs `seq`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.ir.arrays import Array
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program


class Writes:
    """The writes of each location, in list order."""

    def __init__(self, program: Program, in_place: bool) -> None:
        locations, accesses = program.locations, program.accesses
        self._program = program
        written, row = accesses.location[accesses.write], accesses.instruction[accesses.write]
        order = np.lexsort((row, written))
        self._rows = row[order]
        self._starts = np.searchsorted(written[order], np.arange(len(locations) + 1))
        fits = (locations.space == Space.DRAM_LOCAL) & (locations.address == NONE)
        self._fits = fits & np.isin(locations.kind, (Kind.INTERNAL, Kind.INPUT)) & in_place

    def judge(
        self, rows: list[int], following: list[int] | None, inputs: Sequence[Sequence[Array]]
    ) -> tuple[list[bool], list[bool]]:
        """Of each operand of the collective in `rows`: whether members read it in place; whether it is unchanged.

        `following` are the rows of the next collective.
        """
        found: tuple[list[bool], list[bool]] = [], []
        for arrays in zip(*inputs, strict=True):
            fits = all(self._fits[each.location] and each.pattern is None for each in arrays)
            later = [self._next(each.location, row) for each, row in zip(arrays, rows, strict=True)]
            unchanged = fits and all(write is None for write in later)
            found[1].append(unchanged)
            found[0].append(unchanged or (fits and self._is_free(rows, following, later)))
        return found

    def _next(self, location: int, row: int) -> int | None:
        """The first write of a location at or after a row."""
        writes = self._rows[self._starts[location] : self._starts[location + 1]]
        at = int(np.searchsorted(writes, row))
        return int(writes[at]) if at < len(writes) else None

    def _is_free(self, rows: list[int], following: list[int] | None, later: Sequence[int | None]) -> bool:
        """Whether the next collective is between each of the rows, in its block, and the next write."""
        instructions = self._program.instructions
        if following is None or instructions.seq[rows[0]] == NONE:
            return False
        return all(
            instructions.block[row] == instructions.block[after] and (write is None or write > after)
            for row, after, write in zip(rows, following, later, strict=True)
        )
