"""The explanation of an `over-capacity` error: the fewest buffers that cannot fit together, and where.

Cores keep their partitions for the whole program, so the bytes of different cores add up. Each core contributes the
buffers that are live when it holds most; the largest of all these are listed, as many as exceed the capacity. With
equal partitions only the core with the most live bytes counts, against its share. In a joint space the bytes of the
cores add up epoch by epoch, so the moments are those of the worst epoch. A location that nothing accesses counts
alone, where it is larger than all that is live.

If the live bytes fit and the placement does not, some buffers of one core may provably not fit into the bytes that
the other cores leave (`packing/conflict_set.py`). Otherwise the notes say that there is no proof.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.lifetimes import Lifetimes
from haulout.analysis.straightline import epochs
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.packing import LIMIT, Problem, Status, solve
from haulout.packing.conflict_set import conflict_set
from haulout.support.diagnostics import Label

_MAX_LISTED = 10
_MAX_PROVED = 400
"""With more buffers on a core, no proof is tried."""


class Explanation(NamedTuple):
    """Buffers that cannot fit together, as labels and notes; `certain`: that is proved."""

    labels: list[Label]
    notes: list[str]
    certain: bool


class _Buffers(NamedTuple):
    """Locations of one core with a lifetime."""

    core: int
    rows: Ints
    problem: Problem
    live: Ints
    """Bytes live from each moment of `moments` on."""
    moments: Ints
    idle: int
    """The largest location that nothing accesses, if it is larger than the most bytes that are live; else NONE."""
    most: int
    """The bytes that the core needs at least."""


def explain(program: Program, life: Lifetimes, capacity: int, kind: str) -> Explanation:
    """Why the program needs more than `capacity` bytes with one kind of partitions."""
    cores = [_buffers(program, life, core) for core in range(program.lnc)]
    room = capacity
    if kind == "joint":
        moments = _worst_epoch(program, cores)
        larger = [each for each in cores if each.idle != NONE and each.most > capacity]
        cores = larger[:1] or [each._replace(idle=NONE) for each in cores]
        moments = [moments[each.core] for each in cores]
    else:
        moments = [int(np.argmax(each.live)) if len(each.live) else NONE for each in cores]
    if kind == "equal":
        cores = [max(cores, key=lambda each: (each.most, -each.core))]
        moments = [moments[cores[0].core]]
        room = capacity // program.lnc
    owner, bytes_of, places = [], [], []
    for each, at in zip(cores, moments, strict=True):
        if each.idle != NONE:
            owner.append(each.idle)
            bytes_of.append(each.most)
            places.append(f"core {each.core}: a location of {each.most} bytes that nothing accesses")
        if each.idle != NONE or at == NONE:
            continue
        moment = int(each.moments[at])
        there = (each.problem.lower <= moment) & (moment < each.problem.upper)
        owner += each.rows[there].tolist()
        bytes_of += each.problem.size[there].tolist()
        places.append(_place(program, each.core, moment, int(there.sum()), int(each.problem.size[there].sum())))
    order = sorted(range(len(owner)), key=lambda at: (-bytes_of[at], owner[at]))
    total = np.cumsum([bytes_of[at] for at in order], dtype=object)
    beyond = np.flatnonzero(total > room)
    part = f"the {room} bytes of one core" if kind == "equal" else f"{room} bytes"
    if len(beyond):
        chosen = [owner[at] for at in order[: int(beyond[0]) + 1]]
        fewest = f"these {len(chosen)} buffers of {total[beyond[0]]} bytes cannot fit into {part} together; no fewer"
        if len(chosen) == 1:
            fewest = f"this buffer of {total[0]} bytes does not fit into {part} by itself"
        return Explanation(_listed(program, life, chosen), [*places, fewest], True)
    if kind == "proportional" and (found := _proved(program, life, cores, capacity)) is not None:
        return found
    return Explanation([], [*places, "no placement was found; there is no proof that none exists"], False)


def _buffers(program: Program, life: Lifetimes, core: int) -> _Buffers:
    locations = program.locations
    mine = (locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE) & (program.location_core == core)
    rows = np.flatnonzero(mine & (life.end > life.begin) & (locations.size > 0))
    idle = np.flatnonzero(mine & (life.end <= life.begin))
    begin, end, size = life.begin[rows], life.end[rows], locations.size[rows]
    problem = Problem.of(begin, end, size, locations.align[rows])
    moments, at = np.unique(begin, return_inverse=True)
    change = np.zeros(len(moments) + 1, np.int64)
    np.add.at(change, at, size)
    np.subtract.at(change, np.searchsorted(moments, end), size)
    live = np.cumsum(change)[: len(moments)]
    most = int(live.max(initial=0))
    largest = int(idle[np.argmax(locations.size[idle])]) if len(idle) else NONE
    if largest == NONE or locations.size[largest] <= most:
        return _Buffers(core, rows, problem, live, moments, NONE, most)
    return _Buffers(core, rows, problem, live, moments, largest, int(locations.size[largest]))


def _worst_epoch(program: Program, cores: list[_Buffers]) -> list[int]:
    """For each core the moment with the most live bytes in the epoch that is worst for all cores together."""
    epoch = np.append(epochs(program, once=True), 0).astype(np.int64)
    count = int(epoch.max(initial=0)) + 1
    most = np.zeros((len(cores), count), np.int64)
    for each in cores:
        rows = np.flatnonzero(program.instruction_core == each.core)
        if not len(each.moments) or not len(rows):
            continue
        # Locations that are live when an epoch begins count in it.
        begins = rows[np.unique(epoch[rows], return_index=True)[1]]
        for moment in (each.moments, begins):
            at = np.searchsorted(each.moments, moment, side="right") - 1
            held = np.where(at >= 0, each.live[at], 0)
            np.maximum.at(most[each.core], epoch[np.minimum(moment, rows[-1])], held)
    worst = int(np.argmax(most.sum(axis=0)))
    chosen = []
    for each in cores:
        rows = np.flatnonzero((program.instruction_core == each.core) & (epoch[:-1] == worst))
        if not len(rows) or not len(each.moments):
            chosen.append(NONE)
            continue
        first = max(int(np.searchsorted(each.moments, rows[0], side="right")) - 1, 0)
        last = int(np.searchsorted(each.moments, rows[-1], side="right"))
        chosen.append(first + int(np.argmax(each.live[first:last])) if first < last else NONE)
    return chosen


def _proved(program: Program, life: Lifetimes, cores: list[_Buffers], capacity: int) -> Explanation | None:
    """Buffers of one core that provably do not fit into the bytes that the other cores leave."""
    bounds = [each.most for each in cores]
    for each in cores:
        room = capacity - sum(bounds) + bounds[each.core]
        if not 0 < len(each.rows) <= _MAX_PROVED or not 0 <= room <= LIMIT:
            continue
        if solve(each.problem, capacity=room).status is not Status.INFEASIBLE:
            continue
        found = conflict_set(each.problem, room, proved=True)
        if found is None:
            continue
        chosen = each.rows[list(found.buffers)].tolist()
        total = sum(program.locations.size[chosen].tolist())
        least = "no smaller part of them is known not to fit" if found.minimal else "there may be a smaller set"
        notes = [
            f"the other cores leave core {each.core} at most {room} bytes",
            f"these {len(chosen)} buffers of {total} bytes, not all live at one time, do not fit there; {least}",
        ]
        return Explanation(_listed(program, life, chosen), notes, True)
    return None


def _place(program: Program, core: int, moment: int, buffers: int, size: int) -> str:
    """The moment at which a core holds most."""
    what = f"{buffers} buffers of {size} bytes are live"
    if moment >= len(program.instructions) or program.instruction_core[moment] != core:
        return f"core {core}, after its last instruction: {what}"
    name = format_name(program.instruction_name(moment))
    return f"core {core}, at %{name} (epoch {int(epochs(program)[moment])}): {what}"


def _listed(program: Program, life: Lifetimes, rows: list[int]) -> list[Label]:
    """The first buffers with size and range, and how many bytes the others have."""
    locations = program.locations
    labels = []
    for row in rows[:_MAX_LISTED]:
        label = location_label(program, row)
        span = f"live {_range(program, life, row)}" if life.begin[row] < life.end[row] else "never accessed"
        labels.append(Label(f"{label.message}: {locations.size[row]} bytes, {span}", label.span))
    if len(rows) > _MAX_LISTED:
        rest = sum(locations.size[rows[_MAX_LISTED:]].tolist())
        labels.append(Label(f"and {len(rows) - _MAX_LISTED} more buffers of {rest} bytes"))
    return labels


def _range(program: Program, life: Lifetimes, row: int) -> str:
    """A lifetime as text."""
    core = int(program.location_core[row])
    first, last = int(life.begin[row]), int(life.end[row]) - 1
    if program.locations.kind[row] != Kind.INTERNAL and first == np.searchsorted(program.instruction_core, core):
        return "in the whole function"

    def name(at: int) -> str:
        if at >= len(program.instructions) or program.instruction_core[at] != core:
            return "the end"
        return instruction_label(program, at).message.partition(" on core ")[0]

    return f"from {name(first)} to {name(last)}"
