"""One lifetime for every location, on its owner's instruction list, for the accesses of all cores.

An access by the owner occupies its own position. An access by another core may happen anywhere in its epoch, so it
occupies that whole epoch of the owner's list: from the row after the previous fence (or the start of the function) to
the next fence (or its end). Other cores may also work in an epoch without instructions of the owner: it takes one
position, its closing fence or the position after the last row. The lifetime is the hull of these positions. An
input, inout or const is live in the whole function, as its contents come from outside. An output is live from its
first access to the end; in the whole function if it has no access, or is `partial`.

Two locations of one core whose lifetimes do not overlap may share storage: their accesses are ordered by the owner's
list, which the edges of order 84 enforce, or by a fence. Loops and branches: `region_lifetimes.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.dependences import touched_owner
from haulout.analysis.region_lifetimes import cover_loops, region_ranges
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints


class Lifetimes(NamedTuple):
    """Half-open ranges of instruction rows of the owner's core, a row a location; empty without accesses.

    The position after a core's last row is for accesses of other cores after its last fence.
    """

    begin: Ints
    end: Ints


def lifetimes(program: Program) -> Lifetimes:
    """Lifetimes of all locations; that of a view is empty."""
    locations, structure = program.locations, program.structure
    access = np.flatnonzero(touched_owner(program) != NONE)
    owner = program.owner[program.accesses.location[access]]
    first, last = region_ranges(program, access) if structure else _ranges(program, access)
    begin = np.full(len(locations), len(program.instructions), np.int64)
    end = np.zeros(len(locations), np.int64)
    np.minimum.at(begin, owner, first)
    np.maximum.at(end, owner, last)
    function_begin, function_end = (each[locations.function] for each in _function_ranges(program))
    lasting = (locations.kind == Kind.OUTPUT) & (begin < end) & ~partial_outputs(program)
    end = np.where(lasting, function_end, end)
    if structure:
        cover_loops(program, access, begin, end)
    whole = (locations.kind != Kind.INTERNAL) & ~lasting & (locations.remote_name == NONE)
    begin = np.where(whole, function_begin, begin)
    end = np.where(whole, function_end, end)
    untouched = begin >= end
    return Lifetimes(np.where(untouched, 0, begin), np.where(untouched, 0, end))


def partial_outputs(program: Program) -> Bools:
    """Outputs with bytes that may never be written."""
    rows = np.flatnonzero(program.locations.kind == Kind.OUTPUT)
    found = np.zeros(len(program.locations), bool)
    found[rows] = [program.location_attrs(row).get("partial") is True for row in rows.tolist()]
    return found


def _ranges(program: Program, access: Ints) -> tuple[Ints, Ints]:
    """Rows that each access occupies on its owner's list: its own, or its whole epoch when another core makes it."""
    instruction = program.accesses.instruction[access].astype(np.int64)
    owner_core = program.location_core[program.owner[program.accesses.location[access]]]
    remote = program.instruction_core[instruction] != owner_core
    first, last = instruction.copy(), instruction + 1
    epoch_begin, epoch_end = _epoch_ranges(program)
    # The owner may have fewer epochs than the accessing core; the checker reports such programs.
    index = np.minimum(epochs(program)[instruction[remote]], epoch_begin.shape[1] - 1)
    first[remote] = epoch_begin[owner_core[remote], index]
    last[remote] = epoch_end[owner_core[remote], index]
    return first, last


def _function_ranges(program: Program) -> tuple[Ints, Ints]:
    """Rows of each function, and the position after them."""
    function = program.instruction_function
    every = np.arange(len(program.functions))
    begin = np.searchsorted(function, every).astype(np.int64)
    return begin, np.searchsorted(function, every, side="right").astype(np.int64) + 1


def _epoch_ranges(program: Program) -> tuple[Ints, Ints]:
    """Rows of each epoch as [core, epoch], the fence that closes it included; at least one position.

    A core with fewer epochs than others repeats the position after its last row.
    """
    epoch, core = epochs(program), program.instruction_core
    count = int(epoch.max(initial=0)) + 1
    key = core.astype(np.int64) * count + epoch
    wanted = np.arange(program.lnc * count)
    begin = np.searchsorted(key, wanted).reshape(program.lnc, count).astype(np.int64)
    end = np.searchsorted(key, wanted, side="right").reshape(program.lnc, count).astype(np.int64)
    return begin, np.maximum(end, begin + 1)
