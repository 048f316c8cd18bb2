"""Cut the lists of the cores so that the cores arrive at their fences together.

Given fence k - 1, fence k may be placed on each core anywhere between

    low     after the last instruction whose latest phase is below k, and
    high    before the first one whose earliest phase is k, or which must follow an instruction after fence k - 1
            (`Phases.reach`)

Every choice, independently on each core, keeps the number of fences. No instruction passes a fence, so the time of
the program is the sum over its phases, and the time of a phase is that of its slowest core. Two rules to cut:

`fill`   Fence by fence. The instructions before `low` must run, so all cores wait for the slowest core to run them.
The
         other cores run the following instructions meanwhile, in list order, while they fit.
`even`   Improve existing cuts, fence by fence, in several sweeps. The neighbouring fences stay, so the time of two
         phases changes. For a time T of the first, every core takes as many instructions as fit into T, which leaves
         the fewest for the second. The best of several T is taken, if it is an improvement.

Clocks are those of the makespan: one for each engine, started by engine order and dependences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.durations import F64
from haulout.analysis.phases import Phases
from haulout.ir.enums import LINES, NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids, Ints
from haulout.support.jit import njit, plain_if_small

ALL = int(Engine.ALL)
_SWEEPS = 2
_LEVELS = 6
"""How many times T are tried for a fence in a sweep."""
_IDLE = 0.01
"""The fence between two phases is tried if the idle part of their time exceeds this fraction."""


class Work(NamedTuple):
    """The columns of instructions and fences that the scans read."""

    duration: F64
    engine: Bytes
    dep_start: Ints
    producer: Ids
    entry: Ids
    """Row of each instruction in the next columns; NONE: it has no shared access."""
    earliest: Ids
    reach: Ids
    number: Ids
    """Of each fence in its segment, from 1."""
    begin: Ints
    """[fence, core]: first row of the segment."""
    low: Ints
    end: Ints
    """The end of the segment's rows."""


def work_of(program: Program, phases: Phases, duration: F64, number: Ids, begin: Ints, low: Ints, end: Ints) -> Work:
    """The columns of a program; `duration` of each instruction, the others as `Work` says."""
    rows = len(program.instructions)
    own = program.dependences.take(~program.dependences.carried)
    entry = np.full(rows, NONE, np.int32)
    entry[phases.instruction] = np.arange(len(phases.instruction))
    starts = np.searchsorted(own.instruction, np.arange(rows + 1)).astype(np.int64)
    engine = program.instructions.engine
    each = (entry, phases.earliest, phases.reach, number, begin, low, end)
    return Work(duration, engine, starts, own.producer, *each)


def fill(work: Work) -> Ints:
    """The row before which each fence goes, [fence, core], by the rule `fill`."""
    with plain_if_small(_scan_fill, len(work.duration)):
        cuts: Ints = _scan_fill(work)
    return cuts


def even(work: Work, cuts: Ints) -> Ints:
    """The same by the rule `even`: better cuts than the given ones, or these."""
    with plain_if_small(_scan_even, len(work.duration) * _LEVELS):
        better: Ints = _scan_even(work, cuts.copy())
    return better


@njit
def _scan_fill(work: Work) -> Ints:
    """Fence by fence: run the instructions before `low`, then those that fit."""
    fences, cores = work.low.shape
    cuts = np.zeros((fences, cores), np.int64)
    clock = np.zeros((cores, LINES))
    now = np.zeros(cores)
    finish = np.zeros(len(work.duration))
    before = np.zeros(cores, np.int64)
    for fence in range(fences):
        for core in range(cores):
            before[core] = work.begin[fence, core] if work.number[fence] == 1 else cuts[fence - 1, core]
            clock[core, :] = 0.0
            now[core] = 0.0
            row = before[core]
            while row < work.low[fence, core]:
                now[core] = max(now[core], _scan_run(work, row, before[core], clock[core], finish))
                row += 1
            cuts[fence, core] = row
        limit = now.max()
        for core in range(cores):
            high = _scan_high(work, fence, core, cuts[fence, core], work.end[fence, core], before)
            row = cuts[fence, core]
            while row < high and _scan_run(work, row, before[core], clock[core], finish) <= limit:
                row += 1
            cuts[fence, core] = row
    return cuts


@njit
def _scan_even(work: Work, cuts: Ints) -> Ints:
    """Sweeps over the fences, forward and backward in turn."""
    fences, cores = cuts.shape
    clock, finish = np.zeros(LINES), np.zeros(len(work.duration))
    before, behind = np.zeros(cores, np.int64), np.zeros(cores, np.int64)
    low, high, tried = np.zeros(cores, np.int64), np.zeros(cores, np.int64), np.zeros(cores, np.int64)
    for sweep in range(_SWEEPS):
        gained = False
        for step in range(fences):
            fence = step if sweep % 2 == 0 else fences - 1 - step
            last = fence + 1 == fences or work.number[fence + 1] == 1
            first_most = second_most = first_sum = second_sum = 0.0
            for core in range(cores):
                before[core] = work.begin[fence, core] if work.number[fence] == 1 else cuts[fence - 1, core]
                behind[core] = work.end[fence, core] if last else cuts[fence + 1, core]
                one = _scan_phase(work, before[core], cuts[fence, core], clock, finish)
                two = _scan_phase(work, cuts[fence, core], behind[core], clock, finish)
                first_most, second_most = max(first_most, one), max(second_most, two)
                first_sum, second_sum = first_sum + one, second_sum + two
            best = first_most + second_most
            if best * cores - first_sum - second_sum <= _IDLE * best:
                continue
            least = most = 0.0
            for core in range(cores):
                low[core] = max(work.low[fence, core], before[core])
                high[core] = _scan_high(work, fence, core, cuts[fence, core], behind[core], before)
                least = max(least, _scan_phase(work, before[core], low[core], clock, finish))
                most = max(most, _scan_phase(work, before[core], high[core], clock, finish))
            for level in range(_LEVELS):
                limit = least + (most - least) * level / (_LEVELS - 1)
                for core in range(cores):
                    clock[:] = 0.0
                    row = before[core]
                    while row < high[core]:
                        if _scan_run(work, row, before[core], clock, finish) > limit and row >= low[core]:
                            break
                        row += 1
                    tried[core] = row
                _scan_settle(work, tried, behind)
                one = two = 0.0
                for core in range(cores):
                    one = max(one, _scan_phase(work, before[core], tried[core], clock, finish))
                    two = max(two, _scan_phase(work, tried[core], behind[core], clock, finish))
                if one + two < best * (1.0 - 1e-9):
                    best, gained = one + two, True
                    cuts[fence] = tried
        if not gained:
            break
    return cuts


@njit
def _scan_high(work: Work, fence: int, core: int, row: int, end: int, before: Ints) -> int:
    """The latest place of the fence: before this row, `row` or a later one."""
    while row < end:
        entry = work.entry[row]
        if entry >= 0:
            if work.earliest[entry] >= work.number[fence]:
                return row
            for other in range(len(before)):
                if work.reach[entry, other] >= before[other]:
                    return row
        row += 1
    return row


@njit
def _scan_settle(work: Work, cuts: Ints, behind: Ints) -> None:
    """Move cuts to later rows until no instruction before the next fence must follow one after them."""
    moved = True
    while moved:
        moved = False
        for core in range(len(cuts)):
            for row in range(cuts[core], behind[core]):
                entry = work.entry[row]
                if entry >= 0:
                    for other in range(len(cuts)):
                        if work.reach[entry, other] >= cuts[other]:
                            cuts[other] = work.reach[entry, other] + 1
                            moved = True


@njit
def _scan_phase(work: Work, begin: int, end: int, clock: F64, finish: F64) -> float:
    """The time of a core for the rows `begin:end`, with all engines idle at first."""
    clock[:] = 0.0
    now = 0.0
    for row in range(begin, end):
        now = max(now, _scan_run(work, row, begin, clock, finish))
    return now


@njit
def _scan_run(work: Work, row: int, begin: int, clock: F64, finish: F64) -> float:
    """Run an instruction; the time when it is complete. Rows before `begin` are complete."""
    start = clock[work.engine[row]]
    if work.engine[row] == ALL:
        start = clock.max()
    for d in range(work.dep_start[row], work.dep_start[row + 1]):
        if work.producer[d] >= begin:
            start = max(start, finish[work.producer[d]])
    done = start + work.duration[row]
    finish[row] = done
    clock[work.engine[row]] = done
    if work.engine[row] == ALL:
        clock[:] = done
    return float(done)
