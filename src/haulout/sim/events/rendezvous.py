"""Rendezvous: barriers are matched by index on their line, exchanges (`sendrecv`) by sender, receiver and tag.

The k-th barrier on line e of the cores S on one core belongs to the k-th such barrier on every other core of S; in
loops every iteration counts. If the names or the numbers of these barriers differ between cores, the cores would wait
for each other in different places: `barrier-mismatch`. Only barriers in different arms of one fork may differ in
name. The k-th `sendrecv` that core s sends to core r under a tag is paired with the k-th that r receives from s under
it; one without a partner is a `deadlock`.

A trace may be the beginning of a run. A partner that a core may still execute is no error, but *absent*: the item
that waits for it cannot complete in this trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.sim.flow.trace import Trace
from haulout.support.diagnostics import fail


class BarrierSet(NamedTuple):
    """Barriers that are counted together."""

    engine: int
    cores: tuple[int, ...]


class Absent(NamedTuple):
    """A partner that has not arrived."""

    item: int
    """The item that waits for it."""
    core: int
    """The core that it would run on."""


def barrier_groups(trace: Trace, unfinished: Collection[int] = ()) -> tuple[Ids, list[Absent]]:
    """For each item of the trace: the item of its barrier on the lowest core; itself if it is no barrier.

    `unfinished` cores may still execute more barriers. Raises `barrier-mismatch`.
    """
    program = trace.code.program
    lead = np.arange(len(trace), dtype=np.int32)
    absent: list[Absent] = []
    sequences: dict[BarrierSet, dict[int, list[tuple[int, int]]]] = {}
    row_of = {instruction: row for row, instruction in enumerate(program.barriers.instruction.tolist())}
    for item in np.flatnonzero(np.isin(trace.row, program.barriers.instruction)).tolist():
        instruction, core = int(trace.row[item]), int(trace.core[item])
        row = row_of[instruction]
        key = BarrierSet(int(program.instructions.engine[instruction]), _participants(program, row))
        if core not in key.cores:
            fail(
                "barrier-mismatch",
                f"core {core} executes a barrier of {_listed(key.cores)}, which does not include it",
                instruction_label(program, instruction),
            )
        lists = sequences.setdefault(key, {member: [] for member in key.cores})
        lists[core].append((item, int(program.barriers.name[row])))
    for key, lists in sequences.items():
        first = lists[key.cores[0]]
        for core in key.cores[1:]:
            _expect_same(trace, key, (key.cores[0], first), (core, lists[core]), unfinished)
        count = min(map(len, lists.values()))
        for core in key.cores:
            lead[[item for item, _ in lists[core][:count]]] = [item for item, _ in first[:count]]
            lacking = next((each for each in key.cores if len(lists[each]) == count), core)
            absent += [Absent(item, lacking) for item, _ in lists[core][count:]]
    return lead, absent


def exchanges(trace: Trace, unfinished: Collection[int] = ()) -> tuple[list[tuple[int, int]], list[Absent]]:
    """Pairs (waiting item, item whose arrival it waits for), two for each exchange, in trace order.

    Raises `deadlock` for an exchange without partner, unless the partner's core is `unfinished`.
    """
    program = trace.code.program
    sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    received: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    row_of = {instruction: row for row, instruction in enumerate(program.meetings.instruction.tolist())}
    for item in np.flatnonzero(np.isin(trace.row, program.meetings.instruction)).tolist():
        row, core = row_of[int(trace.row[item])], int(trace.core[item])
        to, source, tag = (
            int(column[row]) for column in (program.meetings.to, program.meetings.source, program.meetings.tag)
        )
        if to != NONE:
            sent[core, to, tag].append(item)
        if source != NONE:
            received[source, core, tag].append(item)
    pairs: list[tuple[int, int]] = []
    absent: list[Absent] = []
    for key in dict.fromkeys([*sent, *received]):
        mine, theirs = sent[key], received[key]
        count = min(len(mine), len(theirs))
        for core, unmatched in ((key[1], mine[count:]), (key[0], theirs[count:])):
            if unmatched and core not in unfinished:
                _refuse_unmatched(trace, key, mine, theirs)
            absent += [Absent(item, core) for item in unmatched]
        for sender, receiver in zip(mine[:count], theirs[:count], strict=True):
            pairs += [(sender, receiver), (receiver, sender)]
    return pairs, absent


def senders(trace: Trace, pairs: list[tuple[int, int]]) -> dict[int, int]:
    """For each item that receives: the item whose data it receives."""
    program = trace.code.program
    result = {}
    row_of = {instruction: row for row, instruction in enumerate(program.meetings.instruction.tolist())}
    for waiting, partner in pairs:
        row = row_of[int(trace.row[waiting])]
        sends_here = int(program.meetings.to[row_of[int(trace.row[partner])]]) == int(trace.core[waiting])
        if sends_here and int(program.meetings.source[row]) == int(trace.core[partner]):
            result[waiting] = partner
    return result


def _participants(program: Program, row: int) -> tuple[int, ...]:
    return program.core_sets.members[int(program.core_sets.of[row])]


def _expect_same(
    trace: Trace,
    key: BarrierSet,
    left: tuple[int, list[tuple[int, int]]],
    right: tuple[int, list[tuple[int, int]]],
    unfinished: Collection[int],
) -> None:
    """Raise `barrier-mismatch` at the first index where the two cores' sequences differ."""
    program = trace.code.program
    names = [[name for _, name in barriers] for _, barriers in (left, right)]
    if names[0] == names[1]:
        return
    shorter = min(map(len, names))
    differing = (k for k in range(shorter) if names[0][k] != names[1][k])
    at = next((k for k in differing if not _in_different_arms(trace, left[1][k][0], right[1][k][0])), shorter)
    shorter_core = left[0] if len(names[0]) < len(names[1]) else right[0]
    if at == shorter and (len(names[0]) == len(names[1]) or shorter_core in unfinished):
        return
    texts = [f"'{program.strings[each[at]]}'" if at < len(each) else "missing" for each in names]
    labels = [
        instruction_label(program, int(trace.row[barriers[at][0]]))
        for _, barriers in (left, right)
        if at < len(barriers)
    ]
    fail(
        "barrier-mismatch",
        f"barrier {at} of {_listed(key.cores)} on line {Engine(key.engine).text} is {texts[0]} on core {left[0]}, "
        f"{texts[1]} on core {right[0]}",
        *labels,
        notes=[
            f"core {core}: " + ", ".join(program.strings[name] for _, name in barriers[max(0, at - 3) : at + 4])
            for core, barriers in (left, right)
        ],
    )


def _in_different_arms(trace: Trace, *items: int) -> bool:
    sections = (int(trace.visits.section[trace.visit[item]]) for item in items)
    return trace.code.sections.structure.separating_fork(*sections) != NONE


def _refuse_unmatched(trace: Trace, key: tuple[int, int, int], sent: list[int], received: list[int]) -> None:
    program = trace.code.program
    sender, receiver, tag = key
    index = min(len(sent), len(received))
    waiting = (sent if len(sent) > len(received) else received)[index]
    core, absent = (sender, receiver) if len(sent) > len(received) else (receiver, sender)
    named = f" tagged '{program.strings[tag]}'" if tag != NONE else ""
    label = instruction_label(program, int(trace.row[waiting]))
    fail(
        "deadlock",
        f"exchange {index} from core {sender} to core {receiver}{named} has no partner on core {absent}: "
        f"core {core} deadlocks",
        label,
    )


def _listed(cores: tuple[int, ...]) -> str:
    return "cores " + ", ".join(map(str, cores))
