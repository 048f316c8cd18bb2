"""Executing a compiled program for real: a Python thread a core, or a thread a queue, all on one arena.

NumPy releases Python's lock in operations on many elements, so the cores compute at the same time. The program's
barriers, semaphores and exchanges are all that orders one thread with another: a program with a race may compute
anything here. The kernels are the simulator's, and so are the bits of the results.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE
from haulout.ir.enums import Kind as LocationKind
from haulout.ir.program import Program
from haulout.ir.structure import Loop
from haulout.runtime.lines import Line, decides
from haulout.runtime.meeting import StoppedError
from haulout.runtime.prepare import Executable, bind
from haulout.runtime.spans import Kind, Span
from haulout.sim.execution import Progress, initial_bytes
from haulout.sim.flow.visits import MAX_INSTRUCTIONS
from haulout.sim.inputs import Values, element_type, locations_of_kind, qualified_name
from haulout.sim.numerics import TensorType
from haulout.sim.plan import within_memory
from haulout.sim.steps.make import Step
from haulout.support.blas import one_thread
from haulout.support.diagnostics import HauloutError, bad_input


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outputs of the last run, and the time of every one."""

    outputs: dict[str, npt.NDArray[Any]]
    """`MODULE/LOCATION` -> value, for every output and inout location of every core."""
    seconds: tuple[float, ...]
    """Of each run: wall time from the start of the threads to the end of the last one."""
    cpu_seconds: tuple[float, ...]
    """Of each run: CPU time of the process in that time."""
    instructions: int
    """Steps of one run on all cores; waits and signals of semaphores are steps, too."""
    memory_bytes: int
    """Bytes of the arena."""
    spans: tuple[Span, ...] = ()
    """With `trace`: what each core did in the last run, and when."""

    def __repr__(self) -> str:
        return f"<RunResult of {len(self.outputs)} outputs, {len(self.seconds)} runs, best {min(self.seconds):.3g} s>"


def run(
    program: Program,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    repeat: int = 1,
    queues: bool = False,
    trace: bool = False,
    max_instructions: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
) -> RunResult:
    """Execute a compiled program `repeat` times, each time from the same inputs.

    `inputs` and `seed` as in `haulout.sim.simulate`. With `queues` each engine and queue of a core is a thread of its
    own: then dependences order the instructions of a core, not its list. Loops may execute `max_instructions`
    instructions on each core.
    `progress` is called with (done, total) runs.

    Raises `HauloutError`: `bad-input` for a program that is not compiled, and for inputs or instructions that do not
    fit; `barrier-mismatch` and `deadlock` when the threads cannot come to their ends.
    """
    if repeat < 1:
        bad_input(f"repeat is {repeat}, expected at least 1")
    executable = bind(program, queues)
    prepared = executable.prepared
    times = []
    with within_memory(prepared.layout.size), one_thread():
        begin = _Begin(executable, inputs, seed)
        for done in range(repeat):
            if progress is not None:
                progress(done, repeat)
            begin()
            threads = [_Thread(executable, line, max_instructions, trace) for line in executable.lines]
            times.append(_together(executable, threads))
        outputs = _outputs(executable)
    spans = tuple(span for thread in threads for span in thread.spans) if trace else ()
    first = min((span.begin for span in spans), default=0)
    return RunResult(
        outputs,
        tuple(wall for wall, _ in times),
        tuple(cpu for _, cpu in times),
        sum(thread.executed for thread in threads),
        prepared.layout.size,
        tuple(span._replace(begin=span.begin - first, end=span.end - first) for span in spans),
    )


class _Begin:
    """Puts the arena and everything shared into the state before a run."""

    def __init__(self, executable: Executable, inputs: Values | None, seed: int) -> None:
        self.executable = executable
        prepared = executable.prepared
        self.contents = [
            (executable.whole(row, TensorType(np.dtype(np.uint8), (len(data),))), data)
            for row, data in initial_bytes(prepared, inputs, seed).items()
        ]

    def __call__(self) -> None:
        self.executable.reset()
        for slot, data in self.contents:
            slot.write(data)


def _outputs(executable: Executable) -> dict[str, npt.NDArray[Any]]:
    program, functions = executable.prepared.program, executable.prepared.functions
    rows = locations_of_kind(program, functions, LocationKind.OUTPUT, LocationKind.INOUT, views=True)
    return {
        qualified_name(program, row): executable.whole(row, TensorType(*element_type(program, row))).read().copy()
        for row in rows
    }


def _together(executable: Executable, threads: list[_Thread]) -> tuple[float, float]:
    """Run all threads to their ends; seconds of the clock and of CPUs. Raises the first error of a thread."""
    meetings = executable.meetings
    started: list[_Thread] = []
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C, or no more threads
        meetings.stop(error)
        for thread in started:
            thread.join()
        raise
    seconds = time.perf_counter() - begin, time.process_time() - cpu
    if meetings.error is not None:
        raise meetings.error
    return seconds


class _Thread(threading.Thread):
    """One line."""

    def __init__(self, executable: Executable, line: Line, limit: int, trace: bool) -> None:
        super().__init__(name=f"haulout core {' '.join(map(str, line.place))}".rstrip(), daemon=True)
        self.code, self.meetings, self.line = executable.prepared.code, executable.meetings, line
        self.totals = executable.totals
        self.shares = sum(each.core == line.core for each in executable.lines) > 1
        """Whether its core has other lines."""
        self.limit, self.trace = limit, trace
        self.executed = 0
        self.spans: list[Span] = []
        self._row = NONE
        """Where it is, for a message."""
        self._turn = 0
        """Branches so far."""

    def run(self) -> None:
        """Execute the line; an error ends all threads."""
        meetings = self.meetings
        try:
            with np.errstate(all="ignore"):
                self._walk()
        except StoppedError:
            pass
        except HauloutError as error:
            label = self.code.label(self._row)
            found = [replace(each, labels=(label, *each.labels)) for each in error.diagnostics if not each.labels]
            meetings.stop(HauloutError(*found, *(each for each in error.diagnostics if each.labels)))
        except BaseException as error:
            meetings.stop(error)
        finally:
            meetings.end(self.line.number)

    def _walk(self) -> None:
        sections, line = self.code.sections, self.line
        left, sizes = self.limit, self.code.sizes
        section = 0
        while section != NONE:
            steps = line.steps[section]
            if self.trace:
                self._run_traced(steps, line.rows[section], line.kinds[section])
            else:
                self._run(steps, line.rows[section])
            self.executed += len(steps)
            taken = True
            if section in sections.choices:
                self._row = self.code.branch(section, line.core)
                taken = self._takes(section)
            if line.around:
                left -= sizes[section][line.core] + 1
                if left < 0:
                    bad_input(
                        f"the loops have executed {self.limit:,} instructions on core {line.core} and do not end",
                        help=["let them run for longer with max_instructions, or --max-instructions"],
                    )
            following = sections.following[section][not taken]
            line.leave(sections, section, following, self.totals[section][line.core])
            section = following

    def _takes(self, section: int) -> bool:
        """Whether the branch of a section takes the first successor: one line of a core decides, the others wait."""
        line, meetings = self.line, self.meetings
        self._turn += 1
        if not decides(line):
            return meetings.decision(line.core, self._turn - 1, line.number, self._row)
        taken = line.branches[section]()
        self._check_trip(section, taken)
        if self.shares:
            meetings.decide(line.core, taken)
        return taken

    def _run(self, steps: list[Step], rows: list[int]) -> None:
        meetings = self.meetings
        for row, step in zip(rows, steps, strict=True):
            if meetings.error is not None:
                raise StoppedError
            self._row = row
            step()

    def _run_traced(self, steps: list[Step], rows: list[int], kinds: list[Kind]) -> None:
        meetings, now = self.meetings, time.perf_counter_ns
        core, engine = self.line.core, self.line.engine
        for row, step, kind in zip(rows, steps, kinds, strict=True):
            if meetings.error is not None:
                raise StoppedError
            self._row = row
            begin = now()
            step()
            self.spans.append(Span(core, engine, row, kind, begin, now()))

    def _check_trip(self, section: int, taken: bool) -> None:
        choice = self.code.sections.choices[section]
        if isinstance(choice, Loop) and choice.trip >= 0 and taken != (self.line.around[-1] < choice.trip):
            k = self.line.around[-1]
            does = f"enters the body once more after {k}" if taken else f"leaves the loop after {k}"
            name = self.code.choice_name(section)
            bad_input(f"{name} has trip={choice.trip}, but its branch {does} iterations")
