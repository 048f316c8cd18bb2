"""Which bytes of a result an instruction makes of which bytes of an operand, as far as its opcode says.

    bytes        byte k of the result is byte k of the operand
    elements     element k of a result is made of element k of each operand, or of an operand's only element
    partitions   what lies in a partition is made of what lies in the same partition of each operand
    nothing      of every other opcode: each byte of a result may come from each byte of an operand

Bytes and elements count in the order of the operand's pattern. Partitions count upwards among those that the pattern
touches, so an operand in partitions 32:64 meets a result in 0:32. Operands that do not fit each other in that way, as
one that is broadcast along the partitions, fall back to nothing known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haulout.check import bytesets
from haulout.check.columns import distinct, stretched
from haulout.ir.schema import Ints

Runs = tuple[Ints, Ints]
"""Maximal runs of bytes, ascending: the first byte of each, and the byte after its last."""

NO_BYTES: Runs = (np.zeros(0, np.int64), np.zeros(0, np.int64))

BYTES = frozenset({"dma_copy", "bitcast_convert", "sendrecv"})

# fmt: off
ELEMENTS = frozenset((
    "add", "multiply", "maximum", "minimum", "subtract", "divide", "remainder", "power", "atan2", "and", "or", "xor",
    "not", "shift_left", "shift_right_logical", "shift_right_arithmetic", "negate", "abs", "sign", "popcnt",
    "count_leading_zeros", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "is_finite", "exponential",
    "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt", "rsqrt", "cbrt", "sine", "cosine",
    "tan", "erf", "copy", "compare", "select", "clamp", "convert", "reduce_precision", "combine",
))

PARTITIONS = frozenset((
    "nki.tensor_copy", "nki.tensor_copy_predicated", "nki.activation", "nki.activation_reduce", "nki.activate2",
    "nki.tensor_tensor", "nki.tensor_scalar", "nki.scalar_tensor_tensor", "nki.tensor_reduce",
    "nki.tensor_scalar_reduce", "nki.tensor_scalar_cumulative", "nki.tensor_tensor_scan", "nki.reciprocal",
    "nki.exponential", "nki.bn_stats", "nki.bn_aggr", "nki.max8", "nki.nc_find_index8", "nki.nc_match_replace8",
    "nki.range_select", "nki.select_reduce", "nki.dropout", "nki.affine_select",
))
# fmt: on

COLLECTIVES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"})
"""Other cores read their operands, in no instruction of theirs."""


def is_index(opcode: str, operand: int, reads: int, guesses: bool) -> bool:
    """Whether one of the `reads` that an instruction has may be an index.

    Where an opcode of no known index `guesses`, that is touches bytes which are not known statically, each operand
    may be the one that says which.
    """
    match opcode:
        case "gather" | "dynamic_slice":
            return operand >= 1
        case "dynamic_update_slice":
            return operand >= 2
        case "scatter":
            return operand == (reads - 1) // 2
        case "nki.local_gather" | "nki.nc_n_gather":
            return True
    return guesses


class Extent(NamedTuple):
    """The bytes of an operand."""

    starts: Ints
    """First byte of each run of the pattern, in its order."""
    run: int
    runs: Runs
    """The same bytes as maximal runs."""
    row: int
    """Bytes of the location in each partition; 0: it has no partitions, or one."""
    item: int
    """Bytes an element; 0: not known."""

    @property
    def nbytes(self) -> int:
        """Bytes in the order of the pattern; one that is touched twice counts twice."""
        return len(self.starts) * self.run


def spread(opcode: str, source: Extent, some: Runs, target: Extent) -> Runs:
    """The bytes of a result that may be made of some bytes of an operand."""
    steps = None
    if opcode in BYTES:
        steps = (1, 1) if source.nbytes == target.nbytes else None
    elif opcode in ELEMENTS:
        steps = _element_sizes(source, target)
    elif opcode in PARTITIONS:
        return _by_partition(source, some, target)
    return target.runs if steps is None else _by_place(source, some, target, *steps)


def _element_sizes(source: Extent, target: Extent) -> tuple[int, int] | None:
    """Bytes of one element, or of eight bytes' worth of them, on both sides; None when they do not correspond."""
    if source.nbytes == 0 or target.nbytes == 0:
        return None
    if source.item and target.item and source.nbytes * target.item == target.nbytes * source.item:
        return source.item, target.item
    common = math.gcd(source.nbytes, target.nbytes)
    sizes = source.nbytes // common, target.nbytes // common
    # Elements have 1, 2, 4 or 8 bytes. An operand of one element lies in the first step, with all of such a result.
    return (8 * sizes[0], 8 * sizes[1]) if set(sizes) <= {1, 2, 4, 8} else None


def _by_place(source: Extent, some: Runs, target: Extent, step: int, other: int) -> Runs:
    """Steps of `step` bytes of the operand, in its order, make steps of `other` bytes of the result."""
    run, starts = source.run, source.starts
    begin = np.searchsorted(some[1], starts, "right")
    count = np.maximum(np.searchsorted(some[0], starts + run, "left") - begin, 0)
    which, piece = np.repeat(np.arange(len(starts)), count), stretched(begin, count)
    low = np.maximum(some[0][piece], starts[which]) - starts[which] + which * run
    high = np.minimum(some[1][piece], starts[which] + run) - starts[which] + which * run
    low, high = bytesets.merged(low // step * other, np.minimum(-(-high // step) * other, target.nbytes))
    # Back from places to bytes: cut where the runs of the result's pattern end.
    first = low // target.run
    count = (high - 1) // target.run - first + 1
    at = stretched(first, count)
    begin = np.maximum(np.repeat(low, count), at * target.run) + target.starts[at] - at * target.run
    end = np.minimum(np.repeat(high, count), (at + 1) * target.run) + target.starts[at] - at * target.run
    return ordered(begin, end)


def _by_partition(source: Extent, some: Runs, target: Extent) -> Runs:
    """Partitions of the operand make the same ones of the result."""
    if not source.row or not target.row:
        return target.runs
    mine, theirs = _partitions(source.runs, source.row), _partitions(target.runs, target.row)
    if len(mine) != len(theirs):
        return target.runs
    rows = theirs[np.searchsorted(mine, _partitions(some, source.row))] * target.row
    return bytesets.common(target.runs, bytesets.merged(rows, rows + target.row))


def _partitions(runs: Runs, row: int) -> Ints:
    """The partitions that some bytes lie in, ascending."""
    first = runs[0] // row
    return distinct(stretched(first, (runs[1] - 1) // row - first + 1))


# -- sets of bytes ---------------------------------------------------------------------------------------------------


def ordered(low: Ints, high: Ints) -> Runs:
    """Runs in any order as maximal runs."""
    order = np.argsort(low, kind="stable")
    return bytesets.merged(low[order], high[order])


def union(one: Runs, other: Runs) -> Runs:
    """The bytes in any of two sets."""
    return ordered(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


def without(one: Runs, other: Runs) -> Runs:
    """The bytes of the first set that are not in the second."""
    ends = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return bytesets.common(one, (np.append(ends[0], other[1]), np.append(other[0], ends[1])))


def total(runs: Runs) -> int:
    """How many bytes."""
    return int((runs[1] - runs[0]).sum())
