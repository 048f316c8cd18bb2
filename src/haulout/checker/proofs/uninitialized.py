"""What nothing has written reaches no output, and outputs are written to the last byte.

Only `internal` and `output` locations start without a value. A write counts for the bytes of its own tensor, through
whichever view it comes; the earlier value of another tensor in the same storage does not. Accesses are taken in the
order of the schedule: when none of the tensor's accesses race, what came before a read in one schedule comes before
it in all. Tensors whose accesses race have that reported instead.

Most tensors are written whole first, and one look at their first access settles them. For the others the atoms of
`regions.py`: each atom points to the next one not written yet, so written stretches are skipped at once (union-find).
A `?` write may have written any byte, and what rests on it is reported as possible.

Where some read finds bytes that nothing has written, `harm.py` says whether that matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.bytesets import squeezed
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import Meetings
from haulout.checker.proofs.extents import Regions, find_regions
from haulout.checker.proofs.storage_map import logical_map
from haulout.checker.values.harm import Harm, find_harm
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Proviso, Severity, Subject
from haulout.support.jit import compiled_if_large, njit

_MOST = 20
"""Findings of one sort that are listed."""
_MOST_HOPS = 5
"""Locations on the way of undefined bytes that are listed."""


class Missing(NamedTuple):
    """By location number: whether bytes were missing in a read, and what is in the end."""

    read: Bools
    """Some read found bytes that nothing certainly has written."""
    left: Ints
    """By location: its first byte never written, NONE: all are."""
    maybe: Bools
    """By location: a `?` write may have written what is missing."""


def check_written(model: Model, events: Ids, meetings: Meetings, excused: Bools) -> list[Diagnostic]:
    """`uninitialized-read` and `output-not-written`; locations of the mask `excused` have other troubles."""
    program = model.program
    number = np.full(len(program.locations), NONE, np.int32)
    number[model.locations] = np.arange(len(model.locations), dtype=np.int32)
    owner = number[model.owners()[model.location]]
    kind, size = program.locations.kind[model.locations], program.locations.size[model.locations]
    is_owner = model.owners()[model.locations] == model.locations
    judged = is_owner & ((kind == Kind.INTERNAL) | (kind == Kind.OUTPUT)) & (size > 0)
    missing = _missing(model, events, owner, judged, np.zeros(len(owner), bool))

    found = []
    reads = model.locations[judged & ~excused[model.locations] & missing.read].tolist()
    if reads:
        found += [_uninitialized(model, harm) for harm in find_harm(model, events, meetings, reads, _MOST)]
    outputs = np.flatnonzero(judged & (kind == Kind.OUTPUT) & (missing.left != NONE))
    for place in outputs[:_MOST].tolist():
        found.append(_not_written(model, missing, place))
    scattered = model.maybe & model.write
    if scattered.any():
        # So far these count as writes of all that they may reach. Say where something depends on that.
        less = _missing(model, events, owner, judged, scattered)
        depends = (less.read & ~missing.read & ~excused[model.locations]) | (
            (less.left != NONE) & (missing.left == NONE) & (kind == Kind.OUTPUT)
        )
        found += [_assumed(model, place, scattered) for place in np.flatnonzero(judged & depends)[:_MOST].tolist()]
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


def _missing(model: Model, events: Ids, owner: Ids, judged: Bools, unsure: Bools) -> Missing:
    """What is missing in the locations of the mask `judged`, if accesses of the mask `unsure` write nothing."""
    state = _scan_first(events, owner, model.write, _whole(model) & ~unsure, len(judged))
    missing = _partly_written(model, events, owner, judged & (state == _PARTLY), unsure)
    untouched = judged & (state == _UNTOUCHED)
    untouched &= model.program.locations.kind[model.locations] == Kind.OUTPUT
    missing.left[untouched] = 0
    return missing


def _partly_written(model: Model, events: Ids, owner: Ids, wanted: Bools, unsure: Bools) -> Missing:
    """The same for locations that are not written whole by their first access."""
    size = len(wanted)
    missing = Missing(
        read=np.zeros(size, bool),
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
            unsure,
            regions.of_access,
            regions.unknown,
            regions.starts,
            regions.low,
            regions.high,
            regions.first_key,
            base,
            np.flatnonzero(wanted & ~fine),
            missing,
        )
    for place in np.flatnonzero(fine).tolist():
        _byte_by_byte(model, regions, taken[owner[taken] == place], place, unsure, missing)
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
    unsure: Bools,
    region: Ids,
    unknown: Bools,
    starts: Ints,
    low: Ids,
    high: Ids,
    first_key: Ints,
    base: Ints,
    wanted: Ints,
    missing: Missing,
) -> None:
    """Writes mark atoms, reads look for one that is not marked. A location's own region has its number."""
    following = np.arange(len(first_key) + 1).astype(np.int32)
    for at in range(len(events)):
        a = events[at]
        place = owner[a]
        guess = unknown[region[a]]
        if write[a]:
            if guess:
                missing.maybe[place] = True
            if guess or unsure[a]:
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
                missing.read[place] = True
                break
    for at in range(len(wanted)):
        place = wanted[at]
        for k in range(starts[place], starts[place + 1]):
            atom = _next_unwritten(following, low[k])
            if atom < high[k]:
                missing.left[place] = first_key[atom] - base[place]
                break


def _byte_by_byte(model: Model, regions: Regions, events: Ids, place: int, unsure: Bools, missing: Missing) -> None:
    """The same for one location whose patterns are too fine, on a map of its bytes (or of their common units)."""
    size = int(model.program.locations.size[model.locations[place]])
    base = int(regions.storage.base[model.locations[place]])
    touched = np.unique(regions.of_access[events]).tolist()
    small = squeezed([regions.byte_set(region).moved(-base) for region in touched], size)
    sets, size = dict(zip(touched, small.sets, strict=True)), small.size
    numbers = [size] + [n for one in sets.values() for n in (one.offset, one.run, *(s for s, _ in one.dims))]
    unit = int(np.gcd.reduce(np.array(numbers, np.int64)))
    written = np.zeros(size // unit, bool)
    for access in events.tolist():
        region = int(regions.of_access[access])
        guess, one = bool(regions.unknown[region]), sets[region]
        view = np.lib.stride_tricks.as_strided(
            written[one.offset // unit :],
            shape=(*(count for _, count in one.dims), one.run // unit),
            strides=(*(stride // unit for stride, _ in one.dims), 1),
        )
        if model.write[access]:
            if guess:
                missing.maybe[place] = True
            elif not unsure[access]:
                view[...] = True
        elif not view.all():
            missing.read[place] = True
    if not written.all():
        missing.left[place] = small.byte(int(np.argmin(written)) * unit)


# -- messages --------------------------------------------------------------------------------------------------------


def _uninitialized(model: Model, harm: Harm) -> Diagnostic:
    access, location = harm.read.access, harm.location
    instruction = int(model.instruction[access])
    first, end = int(harm.read.missing[0][0]), int(harm.read.missing[1][0])
    where = f"bytes {first}:{end} of {model.location_name(location)}"
    writers = np.flatnonzero((model.owners()[model.location] == location) & model.write)
    provisos = _provisos(model, harm, instruction)
    unsure = not harm.read.certain or (bool(provisos) and not harm.everywhere)
    message = (
        f"{model.name(instruction)} on core {model.core[instruction]} {'may read' if unsure else 'reads'} {where}, "
        "which nothing has written"
    )
    notes = [_where_to(model, harm)]
    if not harm.certain and not harm.everywhere:
        notes.append("an access on this way is not known statically: it may have written them, or touch others")
    if harm.everywhere:
        notes.append("not in the run that was looked at; in others, of more iterations or other arms, it may")
    if harm.times > 1:
        notes.append(f"the first of {harm.times} such reads of this location")
    if not len(writers):
        notes.append("nothing ever writes this location")
        help_text = "write it first, or declare it kind=input if it is given from outside"
    else:
        help_text = f"write these bytes before {model.name(instruction)}"
    labels = (
        model.label(instruction, f"{model.name(instruction)} on core {model.core[instruction]}"),
        location_label(model.program, location),
    )
    severity = Severity.ERROR if harm.certain and not provisos else Severity.WARNING
    subject = Subject(
        "read before any write",
        model.function,
        (model.access_entity(access),),
        (model.location_entity(location),),
        (int(model.core[instruction]),),
        pairs=max(harm.times, 1),
        provisos=provisos,
    )
    return Diagnostic("uninitialized-read", severity, message, labels, tuple(notes), (help_text,), subject)


def _provisos(model: Model, harm: Harm, instruction: int) -> tuple[Proviso, ...]:
    """The choices of the run that kept the bytes unwritten, before they are read or on their way."""
    if provisos := model.provisos(NONE, instruction, harm.location):
        return provisos
    if harm.everywhere:
        return ()
    hops = harm.reach.hops[1:]
    last = model.last if harm.reach.instruction == NONE else harm.reach.instruction
    ends = [*(hop.writer for hop in hops[1:]), last]
    for hop, end in zip(hops, ends, strict=False):
        if provisos := model.provisos(hop.writer, end, hop.location):
            return provisos
    return ()


def _where_to(model: Model, harm: Harm) -> str:
    """What the bytes reach, and by which locations."""
    what, instruction, hops = harm.reach
    program, rows = model.program, None
    if harm.everywhere and model.unrolled is not None:
        program, rows = model.unrolled.source, instruction
    name = ""
    if instruction != NONE:
        name = f"%{format_name(program.instruction_name(rows))}" if rows is not None else model.name(instruction)
    between = [model.location_name(hop.location) for hop in (hops[1:-1] if what == "output" else hops[1:])]
    match what:
        case "output":
            does = f"reaches {model.location_name(hops[-1].location)}"
        case "branch":
            does = f"decides {name}" if name else "decides a branch"
        case "index":
            does = f"may be an index of {name}"
        case "collective":
            does = f"reaches other cores in {name}"
        case _:
            does = f"goes into {name}, which writes nothing: what becomes of it is not known"
    shown = between if len(between) <= _MOST_HOPS else [*between[:2], "...", *between[-2:]]
    return f"it {does}" + (f", through {', '.join(shown)}" if shown else "")


def _not_written(model: Model, missing: Missing, place: int) -> Diagnostic:
    location, possible = int(model.locations[place]), bool(missing.maybe[place])
    size = int(model.program.locations.size[location])
    notes: tuple[str, ...] = ()
    if possible:
        notes = ("a `?` write of this location is not known statically: it may have written it",)
    provisos = model.provisos(NONE, model.last, location) if len(model.rows) else ()
    possible = possible or bool(provisos)
    if partial := model.program.location_attrs(location).get("partial") is True:
        notes = (*notes, "it is declared partial: which of its bytes are written depends on the values of indices")
    does = "may never be written" if possible else "is never written"
    name = f"output {model.location_name(location)} of core {model.program.location_core[location]}"
    message = f"{name}: byte {missing.left[place]} of {size} {does}"
    severity = Severity.NOTE if partial else Severity.WARNING if possible else Severity.ERROR
    labels = (location_label(model.program, location),)
    entity = model.location_entity(location)
    subject = Subject("output", model.function, (), (entity,), (entity.core,), provisos=provisos)
    return Diagnostic("output-not-written", severity, message, labels, notes, subject=subject)


def _assumed(model: Model, place: int, scattered: Bools) -> Diagnostic:
    """A note: some bytes are written only if indices that are not known reach them."""
    location = int(model.locations[place])
    writers = np.flatnonzero(scattered & (model.owners()[model.location] == location))
    is_output = model.program.locations.kind[location] == Kind.OUTPUT
    name = f"{model.location_name(location)} of core {model.program.location_core[location]}"
    message = f"it is assumed that indices reach all bytes of {name} that are {'an output' if is_output else 'read'}"
    labels = (location_label(model.program, location), *(model.label(int(model.instruction[w])) for w in writers[:1]))
    entity = model.location_entity(location)
    subject = Subject("assumed to be reached by indices", model.function, (), (entity,), (entity.core,))
    code = "output-not-written" if is_output else "uninitialized-read"
    note = "which bytes these accesses write is known on the device only; nothing else writes all of the location"
    return Diagnostic(code, Severity.NOTE, message, labels, (note,), subject=subject)
