"""Semaphores: the items that add to each, and the items that wait for it.

    signal=[[S,n]]             adds n to S of the own core when the instruction is complete
    remote_signal=[[c,S,n]]    adds n to S of core c, at any time after that
    wait=[[S,n]]               starts when S is at least n
    wait_back=[[S,j]]          starts when S is at least (what the core's instructions before it add to S, remote
                               signals to an S of another core included) - j

A semaphore starts at 0 and never falls, so the condition of a wait stays true once it is true. Therefore a run that
hangs in one order of its events hangs in every order, and the events that do not depend on an event x are one set:
what happens when x never does. Schedules rely on that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.sim.flow.code import Code
from haulout.sim.flow.trace import Trace


class Operations(NamedTuple):
    """Signals or waits of instructions, as columns sorted by row of the code."""

    row: Ids
    semaphore: Ids
    value: Ints


def no_operations() -> Operations:
    """Empty columns."""
    return Operations(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Semaphores:
    """All semaphores of the code that runs, their signals and their waits."""

    core: list[int] = field(default_factory=list)
    """The core of each semaphore."""
    name: list[str] = field(default_factory=list)
    signals: Operations = field(default_factory=no_operations)
    remote: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which signals are for another core."""
    issues: Operations = field(default_factory=no_operations)
    """The signals, each with the semaphore of that name on the signalling core, which is what `wait_back` counts."""
    waits: Operations = field(default_factory=no_operations)
    back: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which waits are `wait_back`."""

    def __len__(self) -> int:
        return len(self.core)

    def named(self, semaphore: int) -> str:
        """The name of a semaphore, for a message."""
        return f"semaphore {format_name(self.name[semaphore])} of core {self.core[semaphore]}"


class Tally(NamedTuple):
    """A state of the semaphores."""

    value: Ints
    """The value of each semaphore."""
    issued: Ints
    """What the instructions that cores have reached add to it, as `wait_back` counts."""


class Counting(NamedTuple):
    """The signals and the waits of a trace, by item."""

    item: Ids
    """The item of each signal."""
    semaphore: Ids
    amount: Ints
    remote: Bools
    waiter: Ids
    """The item of each wait."""
    awaited: Ids
    """Its semaphore."""
    threshold: Ints
    """The least value of the semaphore that lets it start."""
    tally: Tally
    """The state in which the trace begins."""


def find_semaphores(code: Code) -> Semaphores:
    """The semaphores of the code that runs."""
    program = code.program
    use = semaphore_use(program)
    if not use:
        return Semaphores()
    signals, waits = use.signals, use.waits
    signalling, waiting = (np.flatnonzero(code.section[each.instruction] != NONE) for each in (signals, waits))
    own = [code.core[each.instruction] for each in (signals, waits)]
    keys = [
        (core.astype(np.int64) * len(use.names) + name)[rows]
        for core, name, rows in (
            (signals.core, signals.name, signalling),
            (own[0], signals.name, signalling),
            (own[1], waits.name, waiting),
        )
    ]
    known = np.unique(np.concatenate(keys))
    added, issued, awaited = (np.searchsorted(known, key).astype(np.int32) for key in keys)
    return Semaphores(
        (known // len(use.names)).tolist(),
        [use.names[name] for name in (known % len(use.names)).tolist()],
        Operations(signals.instruction[signalling], added, signals.amount[signalling]),
        signals.remote[signalling],
        Operations(signals.instruction[signalling], issued, signals.amount[signalling]),
        Operations(waits.instruction[waiting], awaited, waits.value[waiting]),
        waits.back[waiting],
    )


def count_trace(trace: Trace, semaphores: Semaphores, tally: Tally) -> Counting:
    """The signals and the waits of a trace that begins in a state."""
    item, row = _expand(trace, semaphores.signals)
    waiter, wait = _expand(trace, semaphores.waits)
    awaited = semaphores.waits.semaphore[wait]
    threshold = semaphores.waits.value[wait].copy()
    back = np.flatnonzero(semaphores.back[wait])
    if len(back):
        issuer, issue = _expand(trace, semaphores.issues)
        span = len(trace) + 1
        keys = semaphores.issues.semaphore[issue].astype(np.int64) * span + issuer
        order = np.argsort(keys, kind="stable")
        sums = np.append(0, np.cumsum(semaphores.issues.value[issue][order]))
        begin, here = awaited[back].astype(np.int64) * span, waiter[back]
        low, high = (np.searchsorted(keys[order], at) for at in (begin, begin + here))
        threshold[back] = tally.issued[awaited[back]] + sums[high] - sums[low] - threshold[back]
    return Counting(
        item,
        semaphores.signals.semaphore[row],
        semaphores.signals.value[row],
        semaphores.remote[row],
        waiter,
        awaited,
        threshold,
        tally,
    )


def nothing_counted(semaphores: Semaphores) -> Tally:
    """The state at the start of a run."""
    return Tally(np.zeros(len(semaphores), np.int64), np.zeros(len(semaphores), np.int64))


def gains(trace: Trace, semaphores: Semaphores, items: Bools | None = None) -> Tally:
    """What the complete trace, or some items of it, adds to semaphores."""
    found = []
    for operations in (semaphores.signals, semaphores.issues):
        item, row = _expand(trace, operations)
        if items is not None:
            row = row[items[item]]
        total = np.zeros(len(semaphores), np.int64)
        np.add.at(total, operations.semaphore[row], operations.value[row])
        found.append(total)
    return Tally(*found)


def _expand(trace: Trace, operations: Operations) -> tuple[Ids, Ints]:
    """The operations of all items of a trace: (item, row of the operations), by item."""
    low, high = (np.searchsorted(operations.row, trace.row, side) for side in ("left", "right"))
    count = high - low
    items = np.flatnonzero(count)
    count = count[items]
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(items, count).astype(np.int32), np.repeat(low[items], count) + offset
