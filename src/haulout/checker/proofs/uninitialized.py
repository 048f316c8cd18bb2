"""Undefined bytes reach no output, and outputs are written to the last byte.

Only `internal` and `output` locations start without a value. A write counts for the bytes of its own tensor, through
any view; the earlier value of another tensor in the same storage does not. Accesses are taken in the order of the
schedule: when no accesses of the tensor race, what comes before a read in one schedule comes before it in all.
Tensors whose accesses race get that finding instead.

Most tensors are written whole first, which their first access shows. The others use the atoms of `extents.py`: each
atom points to the next unwritten one, so written intervals are skipped at once (union-find). A `?` write may have
written any byte, and what depends on it is reported as possible.

Where a read finds unwritten bytes, `values/harm.py` decides whether that matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.bytesets import compacted
from haulout.checker.columns import positions
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import SendRecvs
from haulout.checker.proofs.extents import Extents, find_extents
from haulout.checker.proofs.storage_map import logical_map
from haulout.checker.values.harm import Harm, find_harm
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Proviso, Severity, Subject
from haulout.support.jit import compiled_if_large, njit

_MAX_FINDINGS = 20
"""Findings of one sort that are reported."""
_MAX_HOPS = 5
"""Locations that are listed on the path of undefined bytes."""


class Missing(NamedTuple):
    """By location number: the unwritten bytes that were read, and those at the end."""

    read: Bools
    """Some read found bytes without a certain write."""
    left: Ints
    """The first byte that is never written; NONE: all are written."""
    maybe: Bools
    """A `?` write may have written what is missing."""


def check_written(model: Model, schedule: Ids, sendrecvs: SendRecvs, excused: Bools) -> list[Diagnostic]:
    """`uninitialized-read` and `output-not-written`; the mask `excused` has locations with other findings."""
    program = model.program
    owner = positions(model.locations, len(program.locations))[model.owners()[model.location]]
    kind, size = program.locations.kind[model.locations], program.locations.size[model.locations]
    is_owner = model.owners()[model.locations] == model.locations
    judged = is_owner & ((kind == Kind.INTERNAL) | (kind == Kind.OUTPUT)) & (size > 0)
    missing = _missing(model, schedule, owner, judged, np.zeros(len(owner), bool))

    found = []
    reads = model.locations[judged & ~excused[model.locations] & missing.read].tolist()
    if reads:
        found += [_uninitialized(model, harm) for harm in find_harm(model, schedule, sendrecvs, reads, _MAX_FINDINGS)]
    outputs = np.flatnonzero(judged & (kind == Kind.OUTPUT) & (missing.left != NONE))
    for place in outputs[:_MAX_FINDINGS].tolist():
        found.append(_not_written(model, missing, place))
    scattered = model.maybe & model.write
    if scattered.any():
        # So far these count as writes of all that they may reach. Report what depends on that.
        less = _missing(model, schedule, owner, judged, scattered)
        depends = (less.read & ~missing.read & ~excused[model.locations]) | (
            (less.left != NONE) & (missing.left == NONE) & (kind == Kind.OUTPUT)
        )
        found += [
            _assumed(model, place, scattered) for place in np.flatnonzero(judged & depends)[:_MAX_FINDINGS].tolist()
        ]
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
def _scan_first(schedule: Ids, owner: Ids, write: Bools, whole: Bools, locations: int) -> Ids:
    """The state of each location after its first access: a whole write defines all later reads."""
    state = np.zeros(locations, np.int32)
    for at in range(len(schedule)):
        a = schedule[at]
        if state[owner[a]] == 0:
            state[owner[a]] = 2 if write[a] and whole[a] else 1
    return state


# -- locations that are written piece by piece -----------------------------------------------------------------------


def _missing(model: Model, schedule: Ids, owner: Ids, judged: Bools, unsure: Bools) -> Missing:
    """What is missing in the locations of the mask `judged`, if accesses of the mask `unsure` write nothing."""
    state = _scan_first(schedule, owner, model.write, _whole(model) & ~unsure, len(judged))
    missing = _partly_written(model, schedule, owner, judged & (state == _PARTLY), unsure)
    untouched = judged & (state == _UNTOUCHED)
    untouched &= model.program.locations.kind[model.locations] == Kind.OUTPUT
    missing.left[untouched] = 0
    return missing


def _partly_written(model: Model, schedule: Ids, owner: Ids, wanted: Bools, unsure: Bools) -> Missing:
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
    extents = find_extents(model, storage, keep, wanted, overlaps=False)
    # Check locations whose extents are too fine to be cut byte by byte.
    fine = np.zeros(size, bool)
    too_fine = (extents.atomless & ~extents.unknown)[extents.of_access] & keep
    fine[owner[too_fine]] = True
    base = storage.base[model.locations]
    kept = schedule[keep[schedule]]
    coarse = kept[~fine[owner[kept]]]
    with compiled_if_large(int(np.diff(extents.starts)[extents.of_access[coarse]].sum())):
        _scan_written(
            coarse,
            owner,
            model.write,
            unsure,
            extents.of_access,
            extents.unknown,
            extents.starts,
            extents.low,
            extents.high,
            extents.first_key,
            base,
            np.flatnonzero(wanted & ~fine),
            missing,
        )
    for place in np.flatnonzero(fine).tolist():
        _byte_by_byte(model, extents, kept[owner[kept] == place], place, unsure, missing)
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
    schedule: Ids,
    owner: Ids,
    write: Bools,
    unsure: Bools,
    extent: Ids,
    unknown: Bools,
    starts: Ints,
    low: Ids,
    high: Ids,
    first_key: Ints,
    base: Ints,
    wanted: Ints,
    missing: Missing,
) -> None:
    """Writes mark atoms, reads look for one that is not marked. A location's own extent has its number."""
    following = np.arange(len(first_key) + 1).astype(np.int32)
    for at in range(len(schedule)):
        a = schedule[at]
        place = owner[a]
        guess = unknown[extent[a]]
        if write[a]:
            if guess:
                missing.maybe[place] = True
            if guess or unsure[a]:
                continue
            for k in range(starts[extent[a]], starts[extent[a] + 1]):
                atom = _next_unwritten(following, low[k])
                while atom < high[k]:
                    following[atom] = atom + 1
                    atom = _next_unwritten(following, atom)
            continue
        whole = place if guess else extent[a]
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


def _byte_by_byte(model: Model, extents: Extents, schedule: Ids, place: int, unsure: Bools, missing: Missing) -> None:
    """The same for one location whose patterns are too fine, on a map of its bytes (or of their common units)."""
    size = int(model.program.locations.size[model.locations[place]])
    base = int(extents.storage.base[model.locations[place]])
    touched = np.unique(extents.of_access[schedule]).tolist()
    small = compacted([extents.byte_set(extent).shifted(-base) for extent in touched], size)
    sets, size = dict(zip(touched, small.sets, strict=True)), small.size
    numbers = [size] + [n for one in sets.values() for n in (one.offset, one.run, *(s for s, _ in one.dims))]
    unit = int(np.gcd.reduce(np.array(numbers, np.int64)))
    written = np.zeros(size // unit, bool)
    for access in schedule.tolist():
        extent = int(extents.of_access[access])
        guess, one = bool(extents.unknown[extent]), sets[extent]
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
    unsure = not harm.read.certain or (bool(provisos) and not harm.in_other_run)
    message = (
        f"{model.name(instruction)} on core {model.core[instruction]} {'may read' if unsure else 'reads'} {where}, "
        "which nothing has written"
    )
    notes = [_where_to(model, harm)]
    if not harm.certain and not harm.in_other_run:
        notes.append(
            "the bytes of an access on this path are not known statically: it may write these, or touch others"
        )
    if harm.in_other_run:
        notes.append("not in the run that was checked, but possibly in one with more iterations or other arms")
    if harm.times > 1:
        notes.append(f"the first of {harm.times} such reads of this location")
    if not len(writers):
        notes.append("the location has no writer")
        help_text = "write it first, or declare it kind=input if the caller provides it"
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
    """The choices of the run that keep the bytes unwritten, before they are read or on their path."""
    if provisos := model.provisos(NONE, instruction, harm.location):
        return provisos
    if harm.in_other_run:
        return ()
    hops = harm.reach.hops[1:]
    last = model.last if harm.reach.instruction == NONE else harm.reach.instruction
    ends = [*(hop.writer for hop in hops[1:]), last]
    for hop, end in zip(hops, ends, strict=False):
        if provisos := model.provisos(hop.writer, end, hop.location):
            return provisos
    return ()


def _where_to(model: Model, harm: Harm) -> str:
    """What the bytes reach, and through which locations."""
    what, instruction, hops = harm.reach
    program, rows = model.program, None
    if harm.in_other_run and model.unrolled is not None:
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
            does = f"is read by {name}, which writes nothing: its effect is not known"
    shown = between if len(between) <= _MAX_HOPS else [*between[:2], "...", *between[-2:]]
    return f"it {does}" + (f", through {', '.join(shown)}" if shown else "")


def _not_written(model: Model, missing: Missing, place: int) -> Diagnostic:
    location, possible = int(model.locations[place]), bool(missing.maybe[place])
    size = int(model.program.locations.size[location])
    notes: tuple[str, ...] = ()
    if possible:
        notes = ("the bytes of a `?` write of this location are not known statically: it may write this one",)
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
    """A note: some bytes are written only if unknown indices reach them."""
    location = int(model.locations[place])
    writers = np.flatnonzero(scattered & (model.owners()[model.location] == location))
    is_output = model.program.locations.kind[location] == Kind.OUTPUT
    name = f"{model.location_name(location)} of core {model.program.location_core[location]}"
    what = f"output {name}" if is_output else f"{name} that are read"
    message = f"indices are assumed to reach all bytes of {what}"
    labels = (location_label(model.program, location), *(model.label(int(model.instruction[w])) for w in writers[:1]))
    entity = model.location_entity(location)
    subject = Subject("assumed to be reached by indices", model.function, (), (entity,), (entity.core,))
    code = "output-not-written" if is_output else "uninitialized-read"
    note = "the bytes that these accesses write are known at run time only; nothing else writes the whole location"
    return Diagnostic(code, Severity.NOTE, message, labels, (note,), subject=subject)
