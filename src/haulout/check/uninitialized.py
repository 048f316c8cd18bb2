"""No byte is read before something writes it, and outputs are written to the last byte.

Only `internal` and `output` locations start without a value. A write counts for the bytes of its own tensor, through
whichever view it comes; the earlier value of another tensor in the same storage does not. Accesses are taken in the
order of the schedule: when none of the tensor's accesses race, what came before a read in one schedule comes before
it in all. Tensors whose accesses race have that reported instead.

Most tensors are written whole first, and one look at their first access settles them. For the others the atoms of
`regions.py`: each atom points to the next one not written yet, so written stretches are skipped at once (union-find).
A `?` write may have written any byte, and what rests on it is reported as possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.check.bytesets import squeezed
from haulout.check.model import Model
from haulout.check.regions import Regions, find_regions
from haulout.check.storage_map import logical_map
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.ir.verify import location_label
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import compiled_if_large, njit

_MOST = 20
"""Findings of one sort that are listed."""


class Missing(NamedTuple):
    """By location number: its first read of bytes not written (0: certainly, 1: possibly), and what is left."""

    access: Column
    """int32 [2, locations], NONE: no such read."""
    byte: Column
    """int64 [2, locations]: the first byte missed."""
    run: Column
    """int64 [2, locations]: and the byte behind those missed there."""
    times: Column
    """int64 [2, locations]."""
    left: Ints
    """By location: its first byte never written, NONE: all are."""
    maybe: Bools
    """By location: a `?` write may have written what is missing."""


def check_written(model: Model, events: Ids, excused: Bools) -> list[Diagnostic]:
    """`uninitialized-read` and `output-not-written`; locations of the mask `excused` have other troubles."""
    program = model.program
    number = np.full(len(program.locations), NONE, np.int32)
    number[model.locations] = np.arange(len(model.locations), dtype=np.int32)
    owner = number[model.owners()[model.location]]
    kind, size = program.locations.kind[model.locations], program.locations.size[model.locations]
    is_owner = model.owners()[model.locations] == model.locations
    judged = is_owner & ((kind == Kind.INTERNAL) | (kind == Kind.OUTPUT)) & (size > 0)
    state = _scan_first(events, owner, model.write, _whole(model), len(kind))
    missing = _missing(model, events, owner, judged & (state == _PARTLY))
    unwritten = judged & (kind == Kind.OUTPUT) & (state == _UNTOUCHED)
    missing.left[unwritten] = 0

    found = []
    reads = np.flatnonzero(judged & ~excused[model.locations] & (missing.access != NONE).any(axis=0))
    for place in reads[:_MOST].tolist():
        found.append(_uninitialized(model, missing, place))
    outputs = np.flatnonzero(judged & (kind == Kind.OUTPUT) & (missing.left != NONE))
    for place in outputs[:_MOST].tolist():
        found.append(_not_written(model, missing, place))
    return found


_UNTOUCHED, _PARTLY, _WRITTEN = range(3)


def _whole(model: Model) -> Bools:
    """Accesses that certainly touch every byte of their owner."""
    program, patterns = model.program, model.program.patterns
    size = program.locations.size
    plain = (patterns.offset == 0) & (patterns.dim_begin == patterns.dim_end)
    partial = np.flatnonzero(model.pattern != NONE)
    covers = (size >= size[model.owners()])[model.location]
    each, of = model.pattern[partial], model.location[partial]
    covers[partial] &= plain[each] & (patterns.run[each] == size[of])
    return covers


@njit
def _scan_first(events: Ids, owner: Ids, write: Bools, whole: Bools, locations: int) -> Ids:
    """Whether each location is first written whole; it is then written whole for all that follows."""
    state = np.zeros(locations, np.int32)
    for at in range(len(events)):
        a = events[at]
        if state[owner[a]] == 0:
            state[owner[a]] = 2 if write[a] and whole[a] else 1
    return state


# -- locations that are written piece by piece -----------------------------------------------------------------------


def _missing(model: Model, events: Ids, owner: Ids, wanted: Bools) -> Missing:
    """What is missing in the locations of the mask `wanted`."""
    size = len(wanted)
    missing = Missing(
        access=np.full((2, size), NONE, np.int32),
        byte=np.zeros((2, size), np.int64),
        run=np.zeros((2, size), np.int64),
        times=np.zeros((2, size), np.int64),
        left=np.full(size, NONE, np.int64),
        maybe=np.zeros(size, bool),
    )
    if not wanted.any():
        return missing
    keep = wanted[owner]
    storage = logical_map(model)
    regions = find_regions(model, storage, keep, wanted, meets=False)
    # Regions too fine to be cut: their locations are judged byte by byte.
    fine = np.zeros(size, bool)
    apart = (regions.apart & ~regions.unknown)[regions.of_access] & keep
    fine[owner[apart]] = True
    base = storage.base[model.locations]
    taken = events[keep[events]]
    coarse = taken[~fine[owner[taken]]]
    with compiled_if_large(int(np.diff(regions.starts)[regions.of_access[coarse]].sum())):
        _scan_written(
            coarse,
            owner,
            model.write,
            regions.of_access,
            regions.unknown,
            regions.starts,
            regions.low,
            regions.high,
            regions.first_key,
            regions.end_key,
            base,
            np.flatnonzero(wanted & ~fine),
            missing,
        )
    for place in np.flatnonzero(fine).tolist():
        _byte_by_byte(model, regions, taken[owner[taken] == place], place, missing)
    return missing


@njit
def _next_unwritten(following: Ids, atom: int) -> int:
    root = atom
    while following[root] != root:
        root = following[root]
    while following[atom] != root:
        following[atom], atom = root, following[atom]
    return root


@njit
def _scan_written(
    events: Ids,
    owner: Ids,
    write: Bools,
    region: Ids,
    unknown: Bools,
    starts: Ints,
    low: Ids,
    high: Ids,
    first_key: Ints,
    end_key: Ints,
    base: Ints,
    wanted: Ints,
    missing: Missing,
) -> None:
    """Writes mark atoms, reads look for one that is not marked. A location's own region has its number."""
    following = np.arange(len(first_key) + 1).astype(np.int32)
    begun = np.zeros(len(base), np.bool_)
    for at in range(len(events)):
        a = events[at]
        place = owner[a]
        guess = unknown[region[a]]
        if write[a]:
            begun[place] = True
            if guess:
                missing.maybe[place] = True
                continue
            for k in range(starts[region[a]], starts[region[a] + 1]):
                atom = _next_unwritten(following, low[k])
                while atom < high[k]:
                    following[atom] = atom + 1
                    atom = _next_unwritten(following, atom)
            continue
        whole = place if guess else region[a]
        for k in range(starts[whole], starts[whole + 1]):
            atom = _next_unwritten(following, low[k])
            if atom < high[k]:
                possible = 1 if (begun[place] if guess else missing.maybe[place]) else 0
                missing.times[possible, place] += 1
                if missing.access[possible, place] < 0:
                    missing.access[possible, place] = a
                    missing.byte[possible, place] = first_key[atom] - base[place]
                    missing.run[possible, place] = end_key[atom] - base[place]
                break
    for at in range(len(wanted)):
        place = wanted[at]
        for k in range(starts[place], starts[place + 1]):
            atom = _next_unwritten(following, low[k])
            if atom < high[k]:
                missing.left[place] = first_key[atom] - base[place]
                break


def _byte_by_byte(model: Model, regions: Regions, events: Ids, place: int, missing: Missing) -> None:
    """The same for one location whose patterns are too fine, on a map of its bytes (or of their common units)."""
    size = int(model.program.locations.size[model.locations[place]])
    base = int(regions.storage.base[model.locations[place]])
    touched = np.unique(regions.of_access[events]).tolist()
    small = squeezed([regions.byte_set(region).moved(-base) for region in touched], size)
    sets, size = dict(zip(touched, small.sets, strict=True)), small.size
    numbers = [size] + [n for one in sets.values() for n in (one.offset, one.run, *(s for s, _ in one.dims))]
    unit = int(np.gcd.reduce(np.array(numbers, np.int64)))
    written = np.zeros(size // unit, bool)
    begun = False
    for access in events.tolist():
        region = int(regions.of_access[access])
        guess, one = bool(regions.unknown[region]), sets[region]
        view = np.lib.stride_tricks.as_strided(
            written[one.offset // unit :],
            shape=(*(count for _, count in one.dims), one.run // unit),
            strides=(*(stride // unit for stride, _ in one.dims), 1),
        )
        if model.write[access]:
            begun = True
            if guess:
                missing.maybe[place] = True
            else:
                view[...] = True
        elif not view.all():
            possible = int(begun if guess else missing.maybe[place])
            missing.times[possible, place] += 1
            if missing.access[possible, place] == NONE:
                at = np.unravel_index(int(np.argmin(view)), view.shape)
                steps = (*(stride for stride, _ in one.dims), unit)
                byte = small.byte(one.offset + sum(int(i) * step for i, step in zip(at, steps, strict=True)))
                missing.access[possible, place] = access
                missing.byte[possible, place] = byte
                missing.run[possible, place] = byte + unit
    if not written.all():
        missing.left[place] = small.byte(int(np.argmin(written)) * unit)


# -- messages --------------------------------------------------------------------------------------------------------


def _uninitialized(model: Model, missing: Missing, place: int) -> Diagnostic:
    possible = int(missing.access[0, place] == NONE)
    access = int(missing.access[possible, place])
    instruction, location = int(model.instruction[access]), int(model.locations[place])
    where = f"bytes {missing.byte[possible, place]}:{missing.run[possible, place]} of {model.location_name(location)}"
    writers = np.flatnonzero((model.owners()[model.location] == location) & model.write)
    proviso = model.proviso(NONE, instruction, location)
    does = "may read" if possible or proviso else "reads"
    message = f"{model.name(instruction)} on core {model.core[instruction]} {does} {where}, which nothing has written"
    notes = []
    if possible:
        notes.append("a `?` access of this location is not known statically: it may have written them")
    if (count := int(missing.times[possible, place])) > 1:
        notes.append(f"the first of {count} such reads of this location")
    later = [int(model.instruction[row]) for row in writers.tolist()]
    if not later:
        notes.append("nothing ever writes this location")
        help_text = "write it first, or declare it kind=input if it is given from outside"
    else:
        help_text = f"write these bytes before {model.name(instruction)}"
    labels = (
        model.label(instruction, f"{model.name(instruction)} on core {model.core[instruction]}"),
        location_label(model.program, location),
    )
    if proviso:
        notes.append(proviso)
    severity = Severity.WARNING if possible or proviso else Severity.ERROR
    return Diagnostic("uninitialized-read", severity, message, labels, tuple(notes), (help_text,))


def _not_written(model: Model, missing: Missing, place: int) -> Diagnostic:
    location, possible = int(model.locations[place]), bool(missing.maybe[place])
    size = int(model.program.locations.size[location])
    notes: tuple[str, ...] = ()
    if possible:
        notes = ("a `?` write of this location is not known statically: it may have written it",)
    if len(model.rows) and (proviso := model.proviso(NONE, model.last, location)):
        notes, possible = (*notes, proviso), True
    does = "may never be written" if possible else "is never written"
    name = f"output {model.location_name(location)} of core {model.program.location_core[location]}"
    message = f"{name}: byte {missing.left[place]} of {size} {does}"
    severity = Severity.WARNING if possible else Severity.ERROR
    labels = (location_label(model.program, location),)
    return Diagnostic("output-not-written", severity, message, labels, notes)
