"""The problem: buffers, their live ranges, their sizes, and the constraints on their offsets.

One row a buffer: `size`, `alignment`, `pinned` (the offset it must get, or -1), `segment` (the buffer must not cross
a multiple of it; 0: no limit). One row a live range, half-open: `lower`, `upper`, and `owner`, the buffer. Most
buffers have one range. A value that is carried around a loop or recomputed has several; other buffers may use its
storage in the holes between them.

    buffer     0  size 64        time  0    10    20    30
    ranges     0..10, 20..30           [0000)     [0000)      both ranges at one offset
    buffer     1  size 64, 10..20            [1111)           may share it

A range may use only a window of the buffer's bytes, `window_low:window_high`; None: every range uses the whole
buffer.

Two buffers conflict when a range of one overlaps a range of the other. Buffers of size zero and ranges of length zero
conflict with nothing. A size is reserved in whole units of the greatest common divisor of all alignments (with one
alignment for all: sizes rounded up to it), because no other buffer could start inside the last unit.

`rules` has the constraints between buffers, and the pools (`rules.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from haulout.packing.rules import Rules
from haulout.support.diagnostics import bad_input, fail

I64: TypeAlias = NDArray[np.int64]
Column: TypeAlias = Sequence[int] | NDArray[np.integer]

LIMIT = 2**62
"""Largest size, time and end of a placement; sums of two still fit int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Buffers to place. Build with `Problem.of`, which validates; do not change the arrays afterwards.

    Valid: `len(size) == len(alignment) == len(pinned) == len(segment)`, `len(lower) == len(upper) == len(owner)`;
    `owner` ascends; the ranges of an owner are disjoint, not adjacent, ascending; every buffer has at least one
    range, perhaps empty.
    """

    lower: I64
    upper: I64
    owner: I64
    size: I64
    alignment: I64
    pinned: I64
    segment: I64
    rules: Rules = Rules()
    window_low: I64 | None = None
    window_high: I64 | None = None

    @staticmethod
    def of(
        lower: Column,
        upper: Column,
        size: Column,
        alignment: int | Column = 1,
        *,
        pinned: Column | None = None,
        owner: Column | None = None,
        segment: int | Column = 0,
        rules: Rules | None = None,
        window: tuple[Column, Column] | None = None,
    ) -> Problem:
        """Validate columns and make a problem of them.

        `lower` and `upper` have one element a buffer, or, with `owner`, one a range. `alignment`: bytes, one for all
        or one a buffer. `segment`, likewise: the largest contiguous stretch of memory, a multiple of the alignment, 0
        for no limit; no buffer crosses a multiple of it. `window`: first and end of the bytes that each range uses,
        half-open; the ranges of a buffer must not overlap then. Raises `HauloutError`: `bad-input` with the column
        and the row, `over-capacity` when a buffer is larger than its segment.
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
        low = high = None
        if window is not None:
            owners = owners if owner is None else _column("owner", owner, 0, n - 1, len(lowers))
            lowers, uppers, owners, low, high = _windowed(lowers, uppers, owners, window, sizes)
        elif owner is not None:
            owners = _column("owner", owner, 0, n - 1, len(lowers))
            lowers, uppers, owners = _merged(lowers, uppers, owners, n)
        segments = (
            np.full(n, _scalar("segment", segment, 0, LIMIT))
            if isinstance(segment, int | np.integer)
            else _column("segment", segment, 0, LIMIT, n)
        )
        _check_pins(sizes, aligns, pins)
        check_segments(sizes, aligns, pins, segments)
        if rules is not None:
            rules.check(n)
        return Problem(lowers, uppers, owners, sizes, aligns, pins, segments, rules or Rules(), low, high)

    def __len__(self) -> int:
        """Number of buffers."""
        return len(self.size)

    @property
    def has_holes(self) -> bool:
        """Whether any buffer has more than one range."""
        return len(self.lower) != len(self.size)

    @property
    def windows(self) -> tuple[I64, I64]:
        """The bytes of its buffer that each range uses, half-open."""
        if self.window_low is None or self.window_high is None:
            return np.zeros(len(self.owner), np.int64), self.size[self.owner]
        return self.window_low, self.window_high

    @property
    def has_pins(self) -> bool:
        """Whether any offset is given."""
        return bool((self.pinned >= 0).any())

    @property
    def occupies(self) -> NDArray[np.bool_]:
        """Which buffers take storage: they have bytes and are live at some time."""
        live = np.zeros(len(self), bool)
        some = self.upper > self.lower
        if self.window_low is not None and self.window_high is not None:
            some &= self.window_high > self.window_low
        live[self.owner[some]] = True
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
        bad_input(f"column `{name}` has {array.ndim} dimensions, expected 1")
    if length is not None and len(array) != length:
        bad_input(f"column `{name}` has {len(array)} rows, expected {length}")
    if not len(array):
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iuO" or not all(isinstance(v, int | np.integer) for v in _objects(array)):
        bad_input(f"column `{name}` must hold integers, not {array.dtype}")
    outside = np.flatnonzero((array < least) | (array > most))
    if len(outside):
        row = int(outside[0])
        bad_input(f"column `{name}`, row {row}: expected a number between {least} and {most}, found {array[row]}")
    return array.astype(np.int64)


def _objects(array: NDArray[np.generic]) -> list[object]:
    """The elements of an array of objects: integers of more than 64 bits, or mixed types."""
    return list(array) if array.dtype.kind == "O" else []


def _scalar(name: str, value: int | np.integer, least: int, most: int) -> int:
    if not least <= value <= most:
        bad_input(f"`{name}` is {value}, expected a number between {least} and {most}")
    return int(value)


def _merged(lower: I64, upper: I64, owner: I64, n: int) -> tuple[I64, I64, I64]:
    """Ranges sorted by owner; adjacent ones are joined, empty ones dropped unless the owner has no other."""
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


def _windowed(
    lower: I64, upper: I64, owner: I64, window: tuple[Column, Column], size: I64
) -> tuple[I64, I64, I64, I64, I64]:
    """Ranges with windows sorted by owner and time; they must not overlap, and every owner must have one."""
    low = _column("window low", window[0], 0, LIMIT, len(lower))
    high = _column("window high", window[1], 0, LIMIT, len(lower))
    for row in np.flatnonzero((high < low) | (high > size[owner]))[:1].tolist():
        bad_input(f"range {row}: window {low[row]} to {high[row]} is not within {size[owner[row]]} bytes")
    order = np.lexsort((upper, lower, owner))
    lower, upper, owner = lower[order], upper[order], owner[order]
    for row in np.flatnonzero((owner[1:] == owner[:-1]) & (lower[1:] < upper[:-1]))[:1].tolist():
        bad_input(f"ranges of buffer {owner[row]} overlap at {lower[row + 1]}; ranges with windows must be disjoint")
    missing = np.setdiff1d(np.arange(len(size)), owner)
    if len(missing):
        bad_input(f"buffer {missing[0]} has no range")
    return lower, upper, owner, low[order], high[order]


def _check_pins(size: I64, alignment: I64, pinned: I64) -> None:
    """Pinned offsets are aligned and end within the address space."""
    fixed = pinned >= 0
    for row in np.flatnonzero(fixed & (pinned % alignment != 0))[:1].tolist():
        bad_input(f"buffer {row} is pinned at {pinned[row]}, not a multiple of its alignment {alignment[row]}")
    for row in np.flatnonzero(fixed & (pinned > LIMIT - size))[:1].tolist():
        bad_input(f"buffer {row} is pinned at {pinned[row]} with size {size[row]}: it ends above 2**62")


def check_segments(size: I64, alignment: I64, pinned: I64, segment: I64) -> None:
    """Segments are multiples of the alignment and large enough, and pinned buffers do not cross them."""
    some = segment > 0
    whole = np.where(some, segment, 1)
    for row in np.flatnonzero(some & (whole % alignment != 0))[:1].tolist():
        bad_input(f"buffer {row}: the segment {segment[row]} is not a multiple of the alignment {alignment[row]}")
    for row in np.flatnonzero(some & (size > segment))[:1].tolist():
        fail(
            "over-capacity",
            f"buffer {row} takes {size[row]} bytes, the largest contiguous stretch is {segment[row]}",
            help=("split the buffer, or use a memory with larger segments",),
        )
    for row in np.flatnonzero(some & (pinned >= 0) & (pinned % whole > whole - size))[:1].tolist():
        bad_input(f"buffer {row} is pinned at {pinned[row]} across a multiple of its segment {segment[row]}")
