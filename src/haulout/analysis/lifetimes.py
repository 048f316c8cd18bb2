"""One lifetime for every location, on its owner's instruction list, whoever touches it.

An access by the owner occupies its own position. An access by another core may happen anywhere in its epoch, so it
occupies that whole epoch of the owner's list: from behind the fence before (the start of the function when there is
none) to the fence behind (its end). An epoch in which the owner does nothing is a stretch of time all the same, in
which others may be at work: it takes one position, its closing fence or the one behind the last row. The lifetime is
the hull of all that. A location that is not `internal` is live in the whole function: its contents come from outside,
or go there.

Two locations of one core whose lifetimes do not meet may share storage: their accesses are ordered by the owner's
list, which the edges of order 84 make true, or by a fence. Loops and branches: `region_lifetimes.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.dependences import touched_owner
from haulout.analysis.region_lifetimes import cover_loops, region_ranges
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE, Kind
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
    locations, structure = program.locations, program.structure
    access = np.flatnonzero(touched_owner(program) != NONE)
    owner = program.owner[program.accesses.location[access]]
    first, last = region_ranges(program, access) if structure else _ranges(program, access)
    begin = np.full(len(locations), len(program.instructions), np.int64)
    end = np.zeros(len(locations), np.int64)
    np.minimum.at(begin, owner, first)
    np.maximum.at(end, owner, last)
    if structure:
        cover_loops(program, access, begin, end)
    function_begin, function_end = _function_ranges(program)
    whole = (locations.kind != Kind.INTERNAL) & (locations.remote_name < 0)
    begin = np.where(whole, function_begin[locations.function], begin)
    end = np.where(whole, function_end[locations.function], end)
    untouched = begin >= end
    return Lifetimes(np.where(untouched, 0, begin), np.where(untouched, 0, end))


def _ranges(program: Program, access: Ints) -> tuple[Ints, Ints]:
    """Rows that each access occupies on its owner's list: its own, or its whole epoch when another core makes it."""
    instruction = program.accesses.instruction[access].astype(np.int64)
    owner_core = program.location_core[program.owner[program.accesses.location[access]]]
    remote = program.instruction_core[instruction] != owner_core
    first, last = instruction.copy(), instruction + 1
    epoch_begin, epoch_end = _epoch_ranges(program)
    # A core may have fewer epochs than the one that reaches for it; such programs are found by the checker.
    index = np.minimum(epochs(program)[instruction[remote]], epoch_begin.shape[1] - 1)
    first[remote] = epoch_begin[owner_core[remote], index]
    last[remote] = epoch_end[owner_core[remote], index]
    return first, last


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
