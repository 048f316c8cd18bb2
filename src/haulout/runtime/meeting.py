"""How threads wait for each other: barriers, semaphores and exchanges of the program, and nothing else.

A thread that must wait says so, with the place. When every thread that still runs waits, none of them can go on: that
is a deadlock, and it is found at once, without a time limit. It is exact: whatever may let a thread go on removes all
threads from those that wait, and each looks again at what it waits for.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bytes
from haulout.sim.flow.code import Code
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, fail

Tag: TypeAlias = tuple[int, int, int]
"""Sender, receiver and tag of an exchange."""


class StoppedError(Exception):
    """A thread ends because another one failed."""


@dataclass(slots=True)
class Group:
    """The barriers of some cores on one line, which meet by their index."""

    engine: int
    cores: tuple[int, ...]
    arrived: dict[int, int] = field(default_factory=dict)
    """Core -> the instruction with which it waits."""
    round: int = 0
    """How often all have met."""

    def reset(self) -> None:
        """The state before a run."""
        self.arrived.clear()
        self.round = 0


class Meetings:
    """The state of one run that threads share, besides the arena."""

    def __init__(self, code: Code, semaphores: int) -> None:
        self.code = code
        self._changed = threading.Condition()
        self.error: BaseException | None = None
        """Why the run ends early; every thread looks at it before each instruction."""
        self._running: set[int] = set(range(code.program.lnc))
        self._waiting: dict[int, tuple[int, str]] = {}
        """Core -> the row at which it waits, and for what."""
        self.value = [0] * semaphores
        """Of each semaphore. One that a single thread adds to is changed without the lock."""
        self._sent: dict[Tag, deque[Bytes]] = defaultdict(deque)
        self._ready: dict[Tag, int] = defaultdict(int)

    def reset(self) -> None:
        """The state before a run."""
        self.error = None
        self._running = set(range(self.code.program.lnc))
        self._waiting.clear()
        self.value[:] = [0] * len(self.value)
        self._sent.clear()
        self._ready.clear()

    # -- threads -----------------------------------------------------------------------------------------------------

    def stop(self, error: BaseException) -> None:
        """End all threads; the first error counts."""
        with self._changed:
            self._stop(error)

    def end(self, core: int) -> None:
        """A thread is at its end."""
        with self._changed:
            self._running.discard(core)
            self._look()

    def _stop(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._changed.notify_all()

    def _change(self) -> None:
        self._waiting.clear()
        self._changed.notify_all()

    def _wait(self, core: int, row: int, what: str, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self.error is not None:
                raise StoppedError
            self._waiting[core] = row, what
            self._look()
            if self.error is None:
                self._changed.wait()
        self._waiting.pop(core, None)

    def _look(self) -> None:
        """Stop when all threads that run wait."""
        if self._running and len(self._waiting) == len(self._running) and self.error is None:
            self._stop(HauloutError(self._deadlock()))

    def _deadlock(self) -> Diagnostic:
        code = self.code
        waits = [f"core {core} waits for {what}" for core, (_, what) in sorted(self._waiting.items())]
        ended = [core for core in range(code.program.lnc) if core not in self._running]
        waits += [f"core {core} is at its end" for core in ended]
        labels = [code.label(row, f"core {core} waits here") for core, (row, _) in sorted(self._waiting.items())]
        return Diagnostic("deadlock", Severity.ERROR, "no core can go on: " + ", ".join(waits), tuple(labels))

    # -- barriers ----------------------------------------------------------------------------------------------------

    def meet(self, group: Group, core: int, row: int, name: str) -> None:
        """Wait until all cores of a barrier are there. Raises `barrier-mismatch` if they meet under other names."""
        with self._changed:
            group.arrived[core] = row
            if len(group.arrived) == len(group.cores):
                self._expect_same(group)
                group.arrived.clear()
                group.round += 1
                self._change()
                return
            turn = group.round
            self._wait(core, row, f"barrier '{name}'", lambda: group.round != turn)

    def _expect_same(self, group: Group) -> None:
        code = self.code
        first = min(group.arrived)
        for core, row in sorted(group.arrived.items()):
            names = [_barrier_name(code, each) for each in (group.arrived[first], row)]
            sections = [int(code.section[each]) for each in (group.arrived[first], row)]
            if names[0] != names[1] and code.sections.structure.separating_fork(*sections) == NONE:
                fail(
                    "barrier-mismatch",
                    f"barrier {group.round} of cores {', '.join(map(str, group.cores))} on line "
                    f"{Engine(group.engine).text} is '{names[0]}' on core {first}, '{names[1]}' on core {core}",
                    *(code.label(each) for each in (group.arrived[first], row)),
                )

    # -- semaphores --------------------------------------------------------------------------------------------------

    def signal(self, semaphore: int, amount: int) -> None:
        """Add to a semaphore that several threads may add to."""
        with self._changed:
            self.value[semaphore] += amount
            self._change()

    def wait_for(self, semaphore: int, least: int, core: int, row: int, name: str) -> None:
        """Wait until a semaphore is at least so large."""
        # It never falls, so a look without the lock suffices where it is large enough.
        if self.value[semaphore] >= least:
            return
        with self._changed:
            what = f"{name} to be at least {least}"
            self._wait(core, row, what, lambda: self.value[semaphore] >= least)

    # -- exchanges ---------------------------------------------------------------------------------------------------

    def exchange(self, core: int, row: int, sends: Tag | None, receives: Tag | None, data: Bytes) -> Bytes | None:
        """A `sendrecv`: what it receives, once its partners are there."""
        with self._changed:
            if sends is not None:
                self._sent[sends].append(data)
            if receives is not None:
                self._ready[receives] += 1
            self._change()
            if sends is not None:
                self._wait(core, row, f"core {sends[1]} to receive", lambda: self._ready[sends] > 0)
                self._ready[sends] -= 1
            if receives is None:
                return None
            self._wait(core, row, f"core {receives[0]} to send", lambda: bool(self._sent[receives]))
            return self._sent[receives].popleft()


def _barrier_name(code: Code, row: int) -> str:
    program = code.program
    at = int(program.barriers.instruction.searchsorted(row))
    return program.strings[int(program.barriers.name[at])]
