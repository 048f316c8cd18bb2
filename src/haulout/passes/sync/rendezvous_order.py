"""Do the cores' lists agree on the order of their rendezvous?

A pass may add edges that the program does not ask for: stronger waits, or an order of the signals of two engines.
These edges look back in the list of their core. They close no cycle if a run exists in which each core executes its
list one instruction after the other: that run respects all of them. It exists for barriers of all engines and all
cores. Barriers of one engine or of some cores, and `sendrecv`, may be in a different order on each core.

Cores run loops equally often and take the same arms of a fork, so blocks are compared one by one: lists that agree in
every block agree in every run. In divergent arms only barriers of all engines and all cores are allowed, as both arms
have the same number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program


class _Event(NamedTuple):
    """One rendezvous on a list: a barrier's line and members, or what a `sendrecv` sends and receives."""

    line: Hashable
    members: tuple[int, ...]
    sends: Hashable = None
    receives: Hashable = None


def lists_agree(program: Program) -> bool:
    """Whether cores that execute their lists in order reach their ends."""
    barriers = program.barriers
    full = program.core_sets.full & (program.instructions.engine[barriers.instruction] == Engine.ALL)
    if not len(program.meetings) and bool(full.all()):
        return True
    structure, core_of = program.structure, program.function_core
    part = program.instructions.block if structure else program.instruction_function
    whole = program.blocks.function if structure else np.arange(len(program.functions))
    parts = len(program.blocks) if structure else len(program.functions)
    first = np.searchsorted(core_of[whole], np.arange(program.lnc)).tolist()
    lists: dict[tuple[int, int], list[_Event]] = {}
    for row, event in _events(program):
        if structure.divergent_fork(int(program.instructions.block[row])) != NONE:
            if event.line == (int(Engine.ALL), tuple(range(program.lnc))):
                continue
            return False
        core = int(program.instruction_core[row])
        lists.setdefault((int(part[row]) - first[core], core), []).append(event)
    return all(_reaches_end([lists.get((at, core), []) for core in range(program.lnc)]) for at in range(parts))


def _events(program: Program) -> list[tuple[int, _Event]]:
    barriers, meetings, sets = program.barriers, program.meetings, program.core_sets
    found: list[tuple[int, _Event]] = []
    for at, row in enumerate(barriers.instruction.tolist()):
        members = sets.members[sets.of[at]]
        found.append((row, _Event((int(program.instructions.engine[row]), members), members)))
    for at, row in enumerate(meetings.instruction.tolist()):
        here, tag = int(program.instruction_core[row]), int(meetings.tag[at])
        to, source = int(meetings.to[at]), int(meetings.source[at])
        sends = None if to == NONE else (here, to, tag)
        receives = None if source == NONE else (source, here, tag)
        found.append((row, _Event(None, (), sends, receives)))
    return sorted(found, key=lambda pair: pair[0])


def _reaches_end(lists: list[list[_Event]]) -> bool:
    at = [0] * len(lists)
    passed: list[Counter[Hashable]] = [Counter() for _ in lists]
    sent: Counter[Hashable] = Counter()
    received: Counter[Hashable] = Counter()
    announced = [NONE] * len(lists)
    moved = True
    while moved:
        moved = False
        for core, events in enumerate(lists):
            if at[core] == len(events):
                continue
            event = events[at[core]]
            if event.line is None:
                if announced[core] < at[core]:
                    announced[core] = at[core]
                    sent[event.sends] += 1
                    received[event.receives] += 1
                    moved = True
                ready = event.sends is None or received[event.sends] >= sent[event.sends]
                ready &= event.receives is None or sent[event.receives] >= received[event.receives]
                if ready:
                    at[core] += 1
                    moved = True
            elif all(_is_at(lists, at, passed, other, event, passed[core]) for other in event.members):
                for other in event.members:
                    passed[other][event.line] += 1
                    at[other] += 1
                moved = True
    return all(place == len(events) for place, events in zip(at, lists, strict=True))


def _is_at(
    lists: list[list[_Event]],
    at: list[int],
    passed: list[Counter[Hashable]],
    core: int,
    event: _Event,
    mine: Counter[Hashable],
) -> bool:
    here = at[core]
    return (
        here < len(lists[core])
        and lists[core][here].line == event.line
        and passed[core][event.line] == mine[event.line]
    )
