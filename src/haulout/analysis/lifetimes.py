"""One lifetime for every location, on its owner's instruction list, whoever touches it.

An access by the owner occupies its own position. An access by another core may happen anywhere in its epoch, so it
occupies that whole epoch of the owner's list: from behind the fence before (the start of the function when there is
none) to the fence behind (its end). An epoch in which the owner does nothing is a stretch of time all the same, in
which others may be at work: it takes one position, its closing fence or the one behind the last row. The lifetime is
the hull of all that. A location that is not `internal` is live in the whole function: its contents come from outside,
or go there.

Two locations of one core whose lifetimes do not meet may share storage: their accesses are ordered by the owner's
list, which the edges of order 84 make true, or by a fence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.straightline import epochs
from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.schema import Ints


class Lifetimes(NamedTuple):
    """Half-open ranges of instruction rows of the owner's core, a row a location; empty where nothing touches it.

    The position behind a core's last row stands for what other cores do after its last fence.
    """

    begin: Ints
    end: Ints


def lifetimes(program: Program) -> Lifetimes:
    """Lifetimes of all locations; a view's is empty, its owner's counts."""
    accesses, locations = program.accesses, program.locations
    rows = len(program.instructions)
    barrier = np.zeros(rows, bool)
    barrier[program.barriers.instruction] = True
    picked = np.flatnonzero(~barrier[accesses.instruction])
    instruction = accesses.instruction[picked].astype(np.int64)
    owner = program.owner[accesses.location[picked]]
    known = owner >= 0
    instruction, owner = instruction[known], owner[known]
    owner_core = program.location_core[owner]
    remote = program.instruction_core[instruction] != owner_core
    first, last = instruction, instruction + 1
    epoch_begin, epoch_end = _epoch_ranges(program)
    index = epochs(program)[instruction[remote]]
    # A core may have fewer epochs than the one that reaches for it; such programs are found by the checker.
    index = np.minimum(index, epoch_begin.shape[1] - 1)
    first[remote] = epoch_begin[owner_core[remote], index]
    last[remote] = epoch_end[owner_core[remote], index]
    begin = np.full(len(locations), rows, np.int64)
    end = np.zeros(len(locations), np.int64)
    np.minimum.at(begin, owner, first)
    np.maximum.at(end, owner, last)
    function_begin, function_end = _function_ranges(program)
    whole = (locations.kind != Kind.INTERNAL) & (locations.remote_name < 0)
    begin = np.where(whole, function_begin[locations.function], begin)
    end = np.where(whole, function_end[locations.function], end)
    untouched = begin >= end
    return Lifetimes(np.where(untouched, 0, begin), np.where(untouched, 0, end))


def _function_ranges(program: Program) -> tuple[Ints, Ints]:
    """Rows of each function, and the position behind them."""
    function = program.instruction_function
    every = np.arange(len(program.functions))
    begin = np.searchsorted(function, every).astype(np.int64)
    return begin, np.searchsorted(function, every, side="right").astype(np.int64) + 1


def _epoch_ranges(program: Program) -> tuple[Ints, Ints]:
    """Rows of each epoch as [core, epoch], the fence that closes it included; at least one position.

    A core with fewer epochs than others repeats the position behind its last row.
    """
    epoch, core = epochs(program), program.instruction_core
    count = int(epoch.max(initial=0)) + 1
    key = core.astype(np.int64) * count + epoch
    wanted = np.arange(program.lnc * count)
    begin = np.searchsorted(key, wanted).reshape(program.lnc, count).astype(np.int64)
    end = np.searchsorted(key, wanted, side="right").reshape(program.lnc, count).astype(np.int64)
    return begin, np.maximum(end, begin + 1)
