"""How threads wait for each other: barriers, semaphores and exchanges of the program, and nothing else.

A thread that must wait says so, with the place and the condition. Whatever may let another one go on tests the
conditions of all that wait, and wakes those whose condition holds. When every thread that still runs waits, none of
them can go on: that is a deadlock, and it is found at once, without a time limit. It is exact, since the condition of
each has been tested after the last change.

With a thread a queue there is more to wait for, inside a core: dependences, which are semaphores that count how often
their producer is complete, and branches, which one thread of a core decides for all of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bytes
from haulout.sim.flow.code import Code
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, fail

Tag: TypeAlias = tuple[int, int, int]
"""Sender, receiver and tag of an exchange."""


class StoppedError(Exception):
    """A thread ends because another one failed."""


class Place(NamedTuple):
    """What a thread is, for messages."""

    core: int
    line: str
    """Its queue; empty for a thread that runs all of them."""


class _Wait(NamedTuple):
    row: int
    what: str
    is_over: Callable[[], bool]


@dataclass(slots=True)
class Group:
    """The barriers of some cores on one line, which meet by their index."""

    engine: int
    cores: tuple[int, ...]
    wanted: int
    """Threads that attend."""
    arrived: dict[int, int] = field(default_factory=dict)
    """Thread -> the instruction with which it waits."""
    round: int = 0
    """How often all have met."""

    def reset(self) -> None:
        """The state before a run."""
        self.arrived.clear()
        self.round = 0


class Meetings:
    """The state of one run that threads share, besides the arena. Threads are numbers: indices of `places`."""

    def __init__(self, code: Code, places: Sequence[Place], semaphores: int, dependences: int) -> None:
        self.code, self.places, self.semaphores = code, places, semaphores
        self._lock = threading.Lock()
        self._wake = [threading.Condition(self._lock) for _ in places]
        self.value = [0] * (semaphores + dependences)
        """Of each semaphore, then of each producer of a dependence. One that a single thread adds to and waits for is
        changed without the lock.
        """
        self._waiting: dict[int, _Wait] = {}
        self._sent: dict[tuple[Tag, int], Bytes] = {}
        self._ready: set[tuple[Tag, int]] = set()
        self._decisions: dict[int, list[bool]] = defaultdict(list)
        self.reset()

    def reset(self) -> None:
        """The state before a run."""
        self.error: BaseException | None = None
        """Why the run ends early; every thread looks at it before each instruction."""
        self._running = set(range(len(self.places)))
        self.value[:] = [0] * len(self.value)
        for each in (self._waiting, self._sent, self._ready, self._decisions):
            each.clear()

    # -- threads -----------------------------------------------------------------------------------------------------

    def stop(self, error: BaseException) -> None:
        """End all threads; the first error counts."""
        with self._lock:
            self._stop(error)

    def end(self, thread: int) -> None:
        """A thread is at its end."""
        with self._lock:
            self._running.discard(thread)
            self._look()

    def _stop(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        for condition in self._wake:
            condition.notify()

    def _change(self) -> None:
        """Wake the threads that may go on."""
        for thread, wait in list(self._waiting.items()):
            if wait.is_over():
                del self._waiting[thread]
                self._wake[thread].notify()

    def _wait(self, thread: int, row: int, what: str, is_over: Callable[[], bool]) -> None:
        if is_over():
            return
        self._waiting[thread] = _Wait(row, what, is_over)
        self._look()
        while thread in self._waiting:
            if self.error is not None:
                raise StoppedError
            self._wake[thread].wait()

    def _look(self) -> None:
        """Stop when all threads that run wait."""
        if self._running and len(self._waiting) == len(self._running) and self.error is None:
            self._stop(HauloutError(self._deadlock()))

    def _deadlock(self) -> Diagnostic:
        lines: dict[tuple[int, int, str], list[str]] = defaultdict(list)
        for thread, (row, what, _) in sorted(self._waiting.items()):
            core, line = self.places[thread]
            lines[core, row, what].append(line)
        who = {key: f"core {key[0]} {', '.join(each)}".rstrip() for key, each in lines.items()}
        waits = [f"{who[key]} waits for {key[2]}" for key in lines]
        going = {self.places[thread].core for thread in self._running}
        waits += [f"core {core} is at its end" for core in range(self.code.program.lnc) if core not in going]
        labels = [self.code.label(key[1], f"{who[key]} waits here") for key in lines]
        return Diagnostic("deadlock", Severity.ERROR, "no core can go on: " + ", ".join(waits), tuple(labels))

    # -- barriers ----------------------------------------------------------------------------------------------------

    def meet(self, group: Group, thread: int, row: int, name: str) -> None:
        """Wait until all threads of a barrier are there. Raises `barrier-mismatch` if they meet under other names."""
        with self._lock:
            group.arrived[thread] = row
            if len(group.arrived) == group.wanted:
                self._expect_same(group)
                group.arrived.clear()
                group.round += 1
                self._change()
                return
            turn = group.round
            self._wait(thread, row, f"barrier '{name}'", lambda: group.round != turn)

    def _expect_same(self, group: Group) -> None:
        code = self.code
        first = min(group.arrived)
        for thread, row in sorted(group.arrived.items()):
            names = [_barrier_name(code, each) for each in (group.arrived[first], row)]
            sections = [int(code.section[each]) for each in (group.arrived[first], row)]
            if names[0] != names[1] and code.sections.structure.separating_fork(*sections) == NONE:
                fail(
                    "barrier-mismatch",
                    f"barrier {group.round} of cores {', '.join(map(str, group.cores))} on line "
                    f"{Engine(group.engine).text} is '{names[0]}' on core {self.places[first].core}, '{names[1]}' on "
                    f"core {self.places[thread].core}",
                    *(code.label(each) for each in (group.arrived[first], row)),
                )

    # -- semaphores --------------------------------------------------------------------------------------------------

    def signal(self, semaphore: int, amount: int) -> None:
        """Add to a semaphore that other threads may add to or wait for."""
        with self._lock:
            self.value[semaphore] += amount
            self._change()

    def wait_for(self, semaphore: int, least: int, thread: int, row: int, what: str) -> None:
        """Wait until a semaphore is at least so large; `what` is its name, or the producer of a dependence."""
        # It never falls, so a look without the lock suffices where it is large enough.
        if self.value[semaphore] >= least:
            return
        with self._lock:
            text = f"{what} to be at least {least}" if semaphore < self.semaphores else what
            self._wait(thread, row, text, lambda: self.value[semaphore] >= least)

    # -- branches ----------------------------------------------------------------------------------------------------

    def decide(self, core: int, taken: bool) -> None:
        """Tell the other threads of a core which successor its next branch takes."""
        with self._lock:
            self._decisions[core].append(taken)
            self._change()

    def decision(self, core: int, turn: int, thread: int, row: int) -> bool:
        """Wait for the branch that is number `turn` of its core."""
        with self._lock:
            made = self._decisions[core]
            self._wait(thread, row, "its branch", lambda: len(made) > turn)
        return made[turn]

    # -- exchanges ---------------------------------------------------------------------------------------------------

    def exchange(
        self, thread: int, row: int, sends: tuple[Tag, int] | None, receives: tuple[Tag, int] | None, data: Bytes
    ) -> Bytes | None:
        """A `sendrecv`: what it receives, once its partners are there; each side has its number among its equals."""
        with self._lock:
            if sends is not None:
                self._sent[sends] = data
            if receives is not None:
                self._ready.add(receives)
            self._change()
            if sends is not None:
                self._wait(thread, row, f"core {sends[0][1]} to receive", lambda: sends in self._ready)
                self._ready.remove(sends)
            if receives is None:
                return None
            self._wait(thread, row, f"core {receives[0][0]} to send", lambda: receives in self._sent)
            return self._sent.pop(receives)


def _barrier_name(code: Code, row: int) -> str:
    program = code.program
    at = int(program.barriers.instruction.searchsorted(row))
    return program.strings[int(program.barriers.name[at])]
