"""Barrier matching: every pair of cores must attend its common barriers in one sequence.

Barriers are matched by index, engine by engine (`all` counts as an engine): the k-th barrier that two cores both
attend on an engine is one rendezvous of the two. Both sides must agree on its name and its participants; otherwise
the cores wait at different barriers, and the message shows both sequences around the first difference. Names may
differ between arms of one divergent fork, because each core takes its own arm.

A matched barrier is identified by (engine, participants, how many of those came before on this core). All barriers of
one engine and one set of participants are in one order, the same on every participant. Such a *chain* is what the
bands of `happens_before.py` are measured on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.checker.columns import occurrence
from haulout.checker.model import Model
from haulout.ir.attributes import format_name, format_value
from haulout.ir.core_sets import CoreSets
from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_SHOWN_AROUND = 2
"""Barriers shown before and after the first difference."""


@dataclass(slots=True)
class Barriers:
    """The barriers of a model, in list order core by core."""

    instruction: Ids
    core: Ids
    engine: Bytes
    name: Ids
    cores: Ids
    """Participants: the number of the set in `members`."""
    given: Ints
    """`index=`, NONE when absent."""
    chain: Ids
    """(engine, participants), numbered densely."""
    index: Ids
    """Position on the chain, on this core."""
    members: list[tuple[int, ...]]
    """The cores of each set; the last has all."""

    @property
    def chains(self) -> int:
        """The number of chains."""
        return int(self.chain.max(initial=NONE)) + 1


def find_barriers(model: Model) -> Barriers:
    """The barriers of a model with their chains."""
    table = model.program.barriers
    rows = np.flatnonzero(model.local[table.instruction] != NONE)
    rows = rows[np.argsort(model.local[table.instruction[rows]], kind="stable")]
    instruction = model.local[table.instruction[rows]]
    sets = model.program.core_sets
    cores = sets.of[rows]
    engine, core = model.engine[instruction], model.core[instruction]
    _, chain = np.unique(engine.astype(np.int64) * len(sets.members) + cores, return_inverse=True)
    return Barriers(
        instruction=instruction,
        core=core,
        engine=engine,
        name=table.name[rows],
        cores=cores,
        given=table.index[rows],
        chain=chain.astype(np.int32),
        index=occurrence(chain * np.int64(model.cores) + core).astype(np.int32),
        members=sets.members,
    )


def check_barriers(model: Model, barriers: Barriers) -> list[Diagnostic]:
    """`barrier-mismatch` at the first place where two cores disagree, at most one a core."""
    found = [*_outsiders(model, barriers), *_falling_indices(model, barriers)]
    if found:
        return found
    lists = _lists(model, barriers)
    for second in range(1, model.cores):
        for first in range(second):
            if lists[first] != lists[second] and (wrong := _mismatch(model, barriers, first, second)):
                found.append(wrong)
                break
    return found


def _lists(model: Model, barriers: Barriers) -> list[int]:
    """Of each core a number, equal for cores with equal lists of barriers: these need not be compared."""
    order = np.lexsort((barriers.engine, barriers.core))
    columns = np.stack([barriers.engine, barriers.name, barriers.cores], axis=1, dtype=np.int64)[order]
    cuts = np.searchsorted(barriers.core[order], np.arange(model.cores + 1)).tolist()
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(columns[begin:end].tobytes(), len(numbers)) for begin, end in pairwise(cuts)]


def _outsiders(model: Model, barriers: Barriers) -> list[Diagnostic]:
    """Barriers on a core that is not one of their participants."""
    inside = CoreSets(barriers.cores, barriers.members).has(barriers.core)
    found = []
    for at in np.flatnonzero(~inside)[:1].tolist():
        message = (
            f"{_title(model, barriers, at)} is on core {barriers.core[at]}, but its participants are "
            f"{list(barriers.members[barriers.cores[at]])}"
        )
        label = model.label(int(barriers.instruction[at]))
        entity = model.instruction_entity(int(barriers.instruction[at]))
        subject = Subject("barrier of other cores", model.function, (entity,), cores=(entity.core,))
        found.append(Diagnostic("barrier-mismatch", Severity.ERROR, message, (label,), subject=subject))
    return found


def _falling_indices(model: Model, barriers: Barriers) -> list[Diagnostic]:
    """Given indices that do not rise along the list of their core and engine."""
    has = np.flatnonzero(barriers.given != NONE)
    # An index follows the text: a run may reach an inner loop only in a later iteration of the outer one.
    rows = barriers.instruction[has]
    text = rows if model.unrolled is None else model.unrolled.origin[model.rows[rows]]
    order = has[np.lexsort((text, barriers.engine[has], barriers.core[has]))]
    before, after = order[:-1], order[1:]
    same = (barriers.engine[before] == barriers.engine[after]) & (barriers.core[before] == barriers.core[after])
    wrong = same & (barriers.given[after] <= barriers.given[before])
    found = []
    for at in np.flatnonzero(wrong)[:1].tolist():
        first, second = int(before[at]), int(after[at])
        message = (
            f"{_title(model, barriers, second)} on core {barriers.core[first]} has index={barriers.given[second]}, "
            f"expected more than index={barriers.given[first]} of the earlier {_title(model, barriers, first)} on "
            f"@{Engine(barriers.engine[first]).text}"
        )
        labels = tuple(model.label(int(barriers.instruction[row])) for row in (second, first))
        entities = tuple(model.instruction_entity(int(barriers.instruction[row])) for row in (first, second))
        subject = Subject("falling barrier index", model.function, entities, cores=(entities[0].core,))
        found.append(Diagnostic("barrier-mismatch", Severity.ERROR, message, labels, subject=subject))
    return found


def _mismatch(model: Model, barriers: Barriers, first: int, second: int) -> Diagnostic | None:
    """The first difference between the common barriers of two cores, engine by engine."""
    common = np.array([first in each and second in each for each in barriers.members])[barriers.cores]
    here, there = (np.flatnonzero(common & (barriers.core == core)) for core in (first, second))
    engines = np.union1d(barriers.engine[here], barriers.engine[there]).tolist()
    for engine in sorted(engines, reverse=True):  # `all` first
        left, right = here[barriers.engine[here] == engine], there[barriers.engine[there] == engine]
        length = min(len(left), len(right))
        left_part, right_part = left[:length], right[:length]
        differs = (barriers.name[left_part] != barriers.name[right_part]) & ~_in_opposite_arms(
            model, barriers, left_part, right_part
        )
        differs |= barriers.cores[left_part] != barriers.cores[right_part]
        at = int(np.argmax(differs)) if differs.any() else length
        if at < max(len(left), len(right)):
            return _show_mismatch(model, barriers, (first, second), (left, right), at, Engine(engine))
    return None


def _in_opposite_arms(model: Model, barriers: Barriers, left: Ids, right: Ids) -> Bools:
    """Which pairs are in different arms of one divergent fork."""
    found = np.zeros(len(left), bool)
    if model.unrolled is None:
        return found
    executions, structure = model.unrolled.run.executions, model.unrolled.structure
    sides = [model.unrolled.execution[model.rows[barriers.instruction[rows]]].tolist() for rows in (left, right)]
    for at, (one, other) in enumerate(zip(*sides, strict=True)):
        fork = structure.separating_fork(executions[one][0], executions[other][0])
        found[at] = fork != NONE and structure.forks[fork].divergent
    return found


def _show_mismatch(
    model: Model,
    barriers: Barriers,
    cores: tuple[int, int],
    sequences: tuple[Ids, Ids],
    at: int,
    engine: Engine,
) -> Diagnostic:
    """Both sequences side by side around position `at`."""

    def cell(sequence: Ids, position: int) -> str:
        if position >= len(sequence):
            return "(none)"
        row = int(sequence[position])
        text = format_value(model.program.strings[int(barriers.name[row])])
        members = barriers.members[barriers.cores[row]]
        if len(members) < model.cores:
            text += f" cores={list(members)}"
        return f"{text} {model.name(int(barriers.instruction[row]))}"

    # The sentence depends on which side has a barrier at this position.
    ends = [at < len(sequence) for sequence in sequences]
    labels: list[Label] = []
    for core, sequence, present in zip(cores, sequences, ends, strict=True):
        if present:
            row = int(sequence[at])
            labels.append(
                model.label(int(barriers.instruction[row]), f"core {core} is at {_title(model, barriers, row)}")
            )
        elif len(sequence):
            last = int(barriers.instruction[sequence[-1]])
            labels.append(model.label(last, f"the last barrier on @{engine.text} of core {core}"))
    if all(ends):
        left, right = (int(sequence[at]) for sequence in sequences)
        what, sides = "is", [_described(model, barriers, row) for row in (left, right)]
        if barriers.name[left] == barriers.name[right]:
            what = "has different participants:"
            if sides[0] == sides[1]:
                what = "is"
                sides = [model.name(int(barriers.instruction[row])) for row in (left, right)]
        message = (
            f"barrier {at} on @{engine.text} {what} {sides[0]} on core {cores[0]} and {sides[1]} on core {cores[1]}"
        )
    else:
        alone, other = (cores[0], cores[1]) if ends[0] else (cores[1], cores[0])
        row = int(sequences[0 if ends[0] else 1][at])
        message = (
            f"core {alone} waits at {_title(model, barriers, row)}, barrier {at} on @{engine.text}; core {other} "
            f"has {f'only {at}' if at else 'none'} there"
        )
    notes = _side_by_side(cores, [[cell(seq, p) for p in _window(at, sequences)] for seq in sequences], at, sequences)
    if at + 1 < min(map(len, sequences)) and _inverted(barriers, sequences, at):
        notes.append("the order is inverted: each core attends the next barrier of the other first")
    here = [int(barriers.instruction[sequence[at]]) for sequence in sequences if at < len(sequence)]
    subject = Subject(
        "barrier sequence",
        model.function,
        tuple(map(model.instruction_entity, here)),
        cores=cores,
        position=at,
        provisos=model.meeting_provisos(*cores),
    )
    help_text = "give both cores the same barriers in the same order, with equal names and participants"
    return Diagnostic("barrier-mismatch", Severity.ERROR, message, tuple(labels), tuple(notes), (help_text,), subject)


def _window(at: int, sequences: Sequence[Ids]) -> range:
    return range(max(at - _SHOWN_AROUND, 0), min(at + _SHOWN_AROUND + 1, max(map(len, sequences))))


def _side_by_side(cores: tuple[int, int], cells: list[list[str]], at: int, sequences: Sequence[Ids]) -> list[str]:
    width = max(len(text) for text in [*cells[0], f"core {cores[0]}"])
    lines = [f"     {f'core {cores[0]}':{width}}    core {cores[1]}"]
    for position, left, right in zip(_window(at, sequences), *cells, strict=True):
        mark = "<>" if position == at else "  "
        lines.append(f"{position:4} {left:{width}} {mark} {right}".rstrip())
    return lines


def _inverted(barriers: Barriers, sequences: Sequence[Ids], at: int) -> bool:
    left, right = ([int(barriers.name[row]) for row in sequence[at : at + 2]] for sequence in sequences)
    return left == right[::-1]


def _described(model: Model, barriers: Barriers, row: int) -> str:
    """The name and the participants of a barrier."""
    text = format_value(model.program.strings[int(barriers.name[row])])
    return f"{text} of cores {list(barriers.members[barriers.cores[row]])}"


def _title(model: Model, barriers: Barriers, row: int) -> str:
    return f"barrier {format_name(model.program.strings[int(barriers.name[row])])}"
