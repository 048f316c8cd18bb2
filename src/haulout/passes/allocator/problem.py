"""The problem: buffers, when each is live, how many bytes it takes, and what restricts its offset.

One row a buffer: `size`, `alignment`, `pinned` (the offset it must get, or -1). When it is live is a list of
half-open ranges, one row a range: `lower`, `upper`, and `owner`, the buffer. Most buffers have one range; a value
carried around a loop, or one that is recomputed, has several, and its storage may serve others in the holes.

    buffer     0  size 64        time  0    10    20    30
    ranges     0..10, 20..30           [0000)     [0000)      both ranges at one offset
    buffer     1  size 64, 10..20            [1111)           may share it

Two buffers conflict when a range of one meets a range of the other. Buffers of size zero and ranges of length zero
conflict with nothing. A size is reserved in whole units of the greatest common divisor of all alignments (with one
alignment for all: sizes rounded up to it), because no other buffer could start inside the last unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from haulout.support.diagnostics import bad_input

I64: TypeAlias = NDArray[np.int64]
Column: TypeAlias = Sequence[int] | NDArray[np.integer]

LIMIT = 2**62
"""Largest size, time and end of a placement; sums of two still fit int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Buffers to place. Build with `Problem.of`, which validates; the arrays are not to be changed afterwards.

    Valid: `len(size) == len(alignment) == len(pinned)`, `len(lower) == len(upper) == len(owner)`; `owner` ascends;
    ranges of one owner are disjoint, not touching, ascending; every buffer has at least one range, perhaps empty.
    """

    lower: I64
    upper: I64
    owner: I64
    size: I64
    alignment: I64
    pinned: I64

    @staticmethod
    def of(
        lower: Column,
        upper: Column,
        size: Column,
        alignment: int | Column = 1,
        *,
        pinned: Column | None = None,
        owner: Column | None = None,
    ) -> Problem:
        """Validate columns and make a problem of them.

        `lower` and `upper` have one element a buffer, or, with `owner`, one a range. `alignment` is bytes, one for
        all or one a buffer. Raises `HauloutError` (`bad-input`) naming the column and the row.
        """
        sizes = _column("size", size, 0, LIMIT)
        n = len(sizes)
        aligns = (
            np.full(n, _scalar("alignment", alignment, 1, LIMIT))
            if isinstance(alignment, int | np.integer)
            else _column("alignment", alignment, 1, LIMIT, n)
        )
        pins = np.full(n, -1, np.int64) if pinned is None else _column("pinned", pinned, -1, LIMIT, n)
        lowers = _column("lower", lower, -LIMIT, LIMIT, n if owner is None else None)
        uppers = _column("upper", upper, -LIMIT, LIMIT, len(lowers))
        backward = np.flatnonzero(uppers < lowers)
        if len(backward):
            row = int(backward[0])
            bad_input(f"range {row} ends at {uppers[row]}, before its start {lowers[row]}")
        owners = np.arange(n, dtype=np.int64)
        if owner is not None:
            owners = _column("owner", owner, 0, n - 1, len(lowers))
            lowers, uppers, owners = _merged(lowers, uppers, owners, n)
        _check_pins(sizes, aligns, pins)
        return Problem(lowers, uppers, owners, sizes, aligns, pins)

    def __len__(self) -> int:
        """Number of buffers."""
        return len(self.size)

    @property
    def has_holes(self) -> bool:
        """Whether any buffer has more than one range."""
        return len(self.lower) != len(self.size)

    @property
    def has_pins(self) -> bool:
        """Whether any offset is given."""
        return bool((self.pinned >= 0).any())

    @property
    def occupies(self) -> NDArray[np.bool_]:
        """Which buffers take storage at some time: neither empty in bytes nor in time."""
        live = np.zeros(len(self), bool)
        live[self.owner[self.upper > self.lower]] = True
        return live & (self.size > 0)

    @property
    def granule(self) -> int:
        """Bytes: the greatest common divisor of all alignments; offsets are multiples of it."""
        return int(np.gcd.reduce(self.alignment)) if len(self) else 1

    @property
    def reserved(self) -> I64:
        """Bytes taken by each buffer: its size rounded up to whole granules. Below 2**63."""
        granule = self.granule
        return (self.size + (granule - 1)) // granule * granule


def _column(name: str, values: Column, least: int, most: int, length: int | None = None) -> I64:
    """`values` as an int64 column, every element in [least, most]."""
    array = np.asarray(values)
    if array.ndim != 1:
        bad_input(f"column `{name}` has {array.ndim} dimensions, not 1")
    if length is not None and len(array) != length:
        bad_input(f"column `{name}` has {len(array)} rows, not {length}")
    if not len(array):
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iuO" or not all(isinstance(v, int | np.integer) for v in _objects(array)):
        bad_input(f"column `{name}` must hold integers, not {array.dtype}")
    outside = np.flatnonzero((array < least) | (array > most))
    if len(outside):
        row = int(outside[0])
        bad_input(f"column `{name}`, row {row}: {array[row]} is not between {least} and {most}")
    return array.astype(np.int64)


def _objects(array: NDArray[np.generic]) -> list[object]:
    """The elements when NumPy found no integer type for them (beyond 64 bits, or mixed)."""
    return list(array) if array.dtype.kind == "O" else []


def _scalar(name: str, value: int | np.integer, least: int, most: int) -> int:
    if not least <= value <= most:
        bad_input(f"`{name}` is {value}, not between {least} and {most}")
    return int(value)


def _merged(lower: I64, upper: I64, owner: I64, n: int) -> tuple[I64, I64, I64]:
    """Ranges sorted by owner, touching ones joined, empty ones dropped but where an owner has no other."""
    order = np.lexsort((upper, lower, owner))
    rows: list[tuple[int, int, int]] = []
    for k, lo, hi in zip(owner[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True):
        if rows and rows[-1][0] == k and (lo <= rows[-1][2] or lo == hi or rows[-1][1] == rows[-1][2]):
            previous = rows.pop()
            if lo == hi:
                lo, hi = previous[1:]
            elif previous[1] < previous[2]:
                lo, hi = previous[1], max(previous[2], hi)
        elif (rows[-1][0] if rows else -1) + 1 < k:
            break
        rows.append((k, lo, hi))
    owners = {row[0] for row in rows}
    if len(owners) < n:
        bad_input(f"buffer {next(k for k in range(n) if k not in owners)} has no range")
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 1].copy(), table[:, 2].copy(), table[:, 0].copy()


def _check_pins(size: I64, alignment: I64, pinned: I64) -> None:
    """Pinned offsets are aligned and end within the address space."""
    fixed = pinned >= 0
    for row in np.flatnonzero(fixed & (pinned % alignment != 0))[:1].tolist():
        bad_input(f"buffer {row} is pinned at {pinned[row]}, not a multiple of its alignment {alignment[row]}")
    for row in np.flatnonzero(fixed & (pinned > LIMIT - size))[:1].tolist():
        bad_input(f"buffer {row} is pinned at {pinned[row]} with size {size[row]}: it ends beyond 2**62")
