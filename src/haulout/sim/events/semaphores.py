"""Semaphores: who adds to which one, who waits for how much.

    signal=[[S,n]]             adds n to S of the own core when the instruction is complete
    remote_signal=[[c,S,n]]    adds n to S of core c, any time after that
    wait=[[S,n]]               starts when S is at least n
    wait_back=[[S,j]]          starts when S is at least (what the core's instructions before it add to S, remote
                               signals to an S of another core included) - j

A semaphore starts at 0 and never falls, so a wait that is fulfilled stays fulfilled. Hence the order in which things
happen cannot hang a run that another order does not hang, and "whatever does not depend on x" is one set: what
happens when x never does. Schedules rely on that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.sim.flow.code import Code
from haulout.sim.flow.trace import Trace
from haulout.support.diagnostics import bad_input


class Marks(NamedTuple):
    """What instructions say about semaphores, as columns sorted by row of the code."""

    row: Ids
    semaphore: Ids
    value: Ints


def no_marks() -> Marks:
    """Nothing is said."""
    return Marks(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Semaphores:
    """All semaphores of what runs, and what is said about them."""

    core: list[int] = field(default_factory=list)
    """Of each semaphore."""
    name: list[str] = field(default_factory=list)
    signals: Marks = field(default_factory=no_marks)
    remote: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which signals go to another core."""
    issues: Marks = field(default_factory=no_marks)
    """The signals, each on the semaphore of that name of the own core: what `wait_back` counts."""
    waits: Marks = field(default_factory=no_marks)
    back: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which waits look back."""

    def __len__(self) -> int:
        return len(self.core)

    def named(self, semaphore: int) -> str:
        """One of them, for a message."""
        return f"semaphore {format_name(self.name[semaphore])} of core {self.core[semaphore]}"


class Tally(NamedTuple):
    """How far the semaphores have come."""

    value: Ints
    """What each of them is."""
    issued: Ints
    """What instructions that have been reached by their core add to it, as `wait_back` counts."""


class Counting(NamedTuple):
    """Who adds and who waits in a trace, by item; `Tally` is the state in which it begins."""

    item: Ids
    """Of each signal ..."""
    semaphore: Ids
    amount: Ints
    remote: Bools
    waiter: Ids
    """The item of each wait ..."""
    awaited: Ids
    """... the semaphore ..."""
    threshold: Ints
    """... and what it must be at least."""
    tally: Tally


def find_semaphores(code: Code) -> Semaphores:
    """The semaphores of what runs."""
    program = code.program
    use = semaphore_use(program, lambda row, why: bad_input(why, instruction_label(program, row)))
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
        Marks(signals.instruction[signalling], added, signals.amount[signalling]),
        signals.remote[signalling],
        Marks(signals.instruction[signalling], issued, signals.amount[signalling]),
        Marks(waits.instruction[waiting], awaited, waits.value[waiting]),
        waits.back[waiting],
    )


def count_trace(trace: Trace, semaphores: Semaphores, tally: Tally) -> Counting:
    """Who adds and who waits in a trace that begins with some state."""
    item, mark = _expand(trace, semaphores.signals)
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
        semaphores.signals.semaphore[mark],
        semaphores.signals.value[mark],
        semaphores.remote[mark],
        waiter,
        awaited,
        threshold,
        tally,
    )


def nothing_counted(semaphores: Semaphores) -> Tally:
    """The state at the start of a run."""
    return Tally(np.zeros(len(semaphores), np.int64), np.zeros(len(semaphores), np.int64))


def gains(trace: Trace, semaphores: Semaphores, items: Bools | None = None) -> Tally:
    """What a trace, or some items of it, adds when it is complete."""
    found = []
    for marks in (semaphores.signals, semaphores.issues):
        item, mark = _expand(trace, marks)
        if items is not None:
            mark = mark[items[item]]
        total = np.zeros(len(semaphores), np.int64)
        np.add.at(total, marks.semaphore[mark], marks.value[mark])
        found.append(total)
    return Tally(*found)


def _expand(trace: Trace, marks: Marks) -> tuple[Ids, Ints]:
    """The marks of all items of a trace: (item, row of the marks), by item."""
    low, high = (np.searchsorted(marks.row, trace.row, side) for side in ("left", "right"))
    count = high - low
    items = np.flatnonzero(count)
    count = count[items]
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(items, count).astype(np.int32), np.repeat(low[items], count) + offset
