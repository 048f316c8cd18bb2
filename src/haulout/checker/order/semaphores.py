"""The semaphores of a model: which instruction adds how much to which, and which one waits for how much.

A semaphore is a core and a name. It starts at 0 and never falls. A signal adds when its instruction is complete; a
wait holds its instruction back until the count is reached. `wait_back` is resolved to a count once the run is known:
what its core has issued to that name before, less its number.

A run may execute a loop less often than the program does: `skipped_iterations.py` tells what follows for counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.skipped_iterations import Outrun, SemaphoreOps, find_skipped
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.support.diagnostics import Diagnostic, Severity, Subject

_MAX_FINDINGS = 10
"""Waits that are reported."""
_MAX_SIGNALS = 3
"""Signals of each wait that are shown."""


@dataclass(slots=True)
class Semaphores:
    """Signals and waits, each by instruction; semaphores are numbered densely over all cores."""

    names: list[tuple[int, str]]
    """Semaphore -> its core and its name."""
    signal: Ids
    """The instruction that adds ..."""
    signal_to: Ids
    """... to this semaphore ..."""
    amount: Ints
    wait: Ids
    """The instruction that waits ..."""
    wait_for: Ids
    """... for this semaphore ..."""
    value: Ints
    """... to be at least this; more than 0."""
    omitted: Ints
    """What the skipped iterations would add before; `value` is reduced by it already."""
    place: Ids
    """The execution of the run that has the wait."""
    open_until: Ids
    """Of each signal: skipped iterations repeat it any number of times, as seen by waits whose place is smaller than
    this; -1: they do not repeat it."""
    outrun: list[tuple[int, int, Outrun]]
    """(Instruction, semaphore, reason) of waits that are not satisfied when a loop runs more often."""

    def __bool__(self) -> bool:
        return bool(self.names)

    def title(self, semaphore: int) -> str:
        """`done.dma0 of core 1`."""
        core, name = self.names[semaphore]
        return f"{format_name(name)} of core {core}"


def find_semaphores(model: Model) -> Semaphores:
    """The semaphores of a model."""
    if model.unrolled is not None and not any(model.unrolled.footprints.has_semaphores):
        return no_semaphores()  # asked once for many runs
    use = semaphore_use(model.program)
    if not use:
        return no_semaphores()
    signals, waits = use.signals, use.waits
    mine = np.flatnonzero(model.local[signals.instruction] != NONE)
    mine = mine[np.argsort(model.local[signals.instruction[mine]], kind="stable")]
    theirs = np.flatnonzero(model.local[waits.instruction] != NONE)
    theirs = theirs[np.argsort(model.local[waits.instruction[theirs]], kind="stable")]
    signal, wait = model.local[signals.instruction[mine]], model.local[waits.instruction[theirs]]
    amount, value = signals.amount[mine], waits.value[theirs].copy()
    name, wanted = signals.name[mine].astype(np.int64), waits.name[theirs].astype(np.int64)
    names = len(use.names)
    to_key = signals.core[mine] * np.int64(names) + name
    for_key = model.core[wait] * np.int64(names) + wanted

    back = np.flatnonzero(waits.back[theirs])
    issued_key = model.core[signal] * np.int64(names) + name
    value[back] = _sums(issued_key, signal, amount).before(for_key[back], wait[back]) - value[back]
    ops = SemaphoreOps(signal, to_key, issued_key, amount, wait, for_key, value, ~waits.back[theirs])
    left = find_skipped(model, ops)
    value -= left.omitted

    keys = np.unique(np.concatenate([to_key, for_key]))
    kept = value > 0
    return Semaphores(
        [(int(key // names), use.names[int(key % names)]) for key in keys],
        signal,
        np.searchsorted(keys, to_key).astype(np.int32),
        amount,
        wait[kept],
        np.searchsorted(keys, for_key[kept]).astype(np.int32),
        value[kept],
        left.omitted[kept],
        left.place[kept],
        left.open_until,
        [(int(wait[each.wait]), int(np.searchsorted(keys, for_key[each.wait])), each) for each in left.outrun],
    )


def no_semaphores() -> Semaphores:
    """Those of a model that has none."""
    ids, ints = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Semaphores([], ids, ids, ints, ids, ids, ints, ints, ids, ids, [])


def check_reachable(model: Model, semaphores: Semaphores) -> list[Diagnostic]:
    """`deadlock` for waits whose count is more than all signals add up to."""
    total = np.zeros(len(semaphores.names), np.int64)
    np.add.at(total, semaphores.signal_to, semaphores.amount)
    found = []
    for at in np.flatnonzero(semaphores.value > total[semaphores.wait_for])[:_MAX_FINDINGS].tolist():
        semaphore, instruction = int(semaphores.wait_for[at]), int(semaphores.wait[at])
        more = int(semaphores.omitted[at])
        signals = semaphores.signal[semaphores.signal_to == semaphore]
        message = (
            f"{model.name(instruction)} on core {model.core[instruction]} deadlocks: semaphore "
            f"{semaphores.title(semaphore)} must reach {semaphores.value[at] + more}, but all its signals add up to "
            f"{total[semaphore] + more}"
        )
        labels = (model.label(instruction), *(model.label(signal) for signal in signals[:_MAX_SIGNALS].tolist()))
        notes = [f"signals that run: {len(signals)}"]
        help_text = "lower the count, or add signals; other cores signal this semaphore with remote_signal"
        subject = Subject(
            "semaphore never reached",
            model.function,
            (model.instruction_entity(instruction),),
            cores=(int(model.core[instruction]),),
            position=semaphore,
            provisos=model.provisos(NONE, instruction),
        )
        found.append(Diagnostic("deadlock", Severity.ERROR, message, labels, tuple(notes), (help_text,), subject))
    return found


def check_outrun(model: Model, semaphores: Semaphores) -> list[Diagnostic]:
    """`deadlock` for waits whose count rises by more in each iteration of a loop than its signals add."""
    found: dict[tuple[str, int, str], Diagnostic] = {}
    for instruction, semaphore, why in semaphores.outrun:
        name = model.name(instruction)
        message = (
            f"{name} on core {model.core[instruction]} deadlocks after some iterations of the loop at {why.loop}: "
            f"its count of semaphore {semaphores.title(semaphore)} rises by {why.wanted} in each iteration, but "
            f"signals add only {why.added}"
        )
        note = "wait_back counts what its core adds to semaphores of that name, on this core and on others"
        entity = model.instruction_entity(instruction)
        subject = Subject("semaphore outrun", model.function, (entity,), cores=(entity.core,), position=semaphore)
        label = model.label(instruction)
        finding = Diagnostic("deadlock", Severity.ERROR, message, (label,), (note,), subject=subject)
        found.setdefault((name, semaphore, why.loop), finding)
    return list(found.values())[:_MAX_FINDINGS]


@dataclass(slots=True)
class _Sums:
    """Running sums of amounts, key by key, in the order of instructions."""

    key: Ints
    """(key, instruction), packed, ascending."""
    total: Ints
    stride: int

    def before(self, key: Ints, instruction: Ids) -> Ints:
        """For each (key, instruction): the sum of the amounts of that key at instructions before that one."""
        end = np.searchsorted(self.key, key * self.stride + np.minimum(instruction, self.stride - 1))
        begin = np.searchsorted(self.key, key * self.stride)
        totals: Ints = self.total[end] - self.total[begin]
        return totals


def _sums(key: Ints, instruction: Ids, amount: Ints) -> _Sums:
    stride = int(instruction.max(initial=0)) + 2
    packed = key * stride + instruction
    order = np.argsort(packed, kind="stable")
    return _Sums(packed[order], np.append(0, np.cumsum(amount[order])), stride)
