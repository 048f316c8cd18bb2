"""Estimated time of a program on a target: one pass over the instructions in list order.

Every engine of every core has a clock. An instruction starts when its engine is free and its producers are complete;
it takes its duration (`durations.py`). Cores are advanced in turn, each until it waits for another:

    barrier          arrives when its engine is free (on `all`: every engine of the core); all participants leave
                     together, at the last arrival plus the barrier's cost
    sendrecv         leaves when its partners have arrived, plus its cost
    branch           later instructions start after its condition was written and read
    two arms         each starts with the clocks of the fork; the join takes the later of both, engine by engine
    loop             all cores enter and leave it together; the estimate of one iteration counts as often as the loop
                     runs (`ASSUMED_TRIP` if unknown): iterations do not overlap

So dependences of an earlier iteration cost nothing. Semaphores cost nothing and are assumed to express dependences
only. Fences that are not in the program can be given as rows, to compare places before one is chosen. Cores that
deadlock are released one by one, in order; the checker reports the deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.analysis.durations import F64, durations
from haulout.analysis.makespan_scan import Columns, Results, _scan_makespan
from haulout.analysis.straightline import fence_mask
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.support.jit import plain_if_small
from haulout.target.model import Target

ASSUMED_TRIP = 4
"""Iterations of a loop whose trip is not known; the placement of fences assumes as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The estimate of a run. Times are in microseconds; inside a loop, over all iterations."""

    makespan: float
    busy: F64
    """[core, engine]: time in which the engine works."""
    waited: F64
    """For each core the sum of the times from its arrival at each barrier or `sendrecv` until it leaves."""
    arrival: F64
    """[fence, core]: when the core arrives; inside a loop, in the first iteration."""
    done: F64
    """Of each fence: when all leave it."""
    begin: F64
    """Of each instruction: when it starts; in a loop, in the first iteration."""
    finish: F64
    """Of each instruction: when it is complete; a barrier starts then."""
    arrived: F64
    """Of each barrier and `sendrecv`: when its line comes to it; of others -1."""
    began: F64
    """Of each loop of a core, in order: when all cores enter it ..."""
    ended: F64
    """... and when the last one has left it, after all its iterations."""
    assumed: int
    """Loops whose trip was assumed."""

    @property
    def balance(self) -> float:
        """Average time of the cores over that of the slowest, for all phases between fences; 1 is the best."""
        begin = np.append(0.0, self.done[:-1])[:, None]
        spent = np.maximum(self.arrival - begin, 0.0)
        slowest = float(spent.max(axis=1).sum()) if len(spent) else 0.0
        return float(spent.mean(axis=1).sum()) / slowest if slowest else 1.0


class Estimator:
    """A program with the columns that do not depend on the tried fences."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        loops = program.structure.loops.values()
        self.assumed = sum(each.trip == NONE for each in loops) // max(program.lnc, 1)
        self.columns = _columns(program, target)

    def estimate(self, fences: Ids | None = None) -> Estimate:
        """The estimate, with fences of all cores before the rows `fences`, [fence, core], ascending by fence.

        `fences` is for programs without loops and branches, where a row determines the block of a fence.
        """
        program = self.program
        extra: Ids = np.zeros((0, program.lnc), np.int32) if fences is None else fences.astype(np.int32)
        with plain_if_small(_scan_makespan, len(program.instructions)):
            found: Results = _scan_makespan(self.columns, extra, self.target.barrier(program.lnc))
        order = np.argsort(found.done, kind="stable")
        return Estimate(
            makespan=float(found.end.max(initial=0.0)),
            busy=found.busy,
            waited=found.waited,
            arrival=found.arrival[order],
            done=found.done[order],
            begin=found.finish - self.columns.duration,
            finish=found.finish,
            arrived=found.arrived,
            began=found.began,
            ended=found.ended,
            assumed=self.assumed,
        )


def makespan(program: Program, target: Target) -> Estimate:
    """The estimate of a program as it is."""
    return Estimator(program, target).estimate()


def first_free_queues(program: Program, target: Target, movable: Bools) -> Bytes:
    """Of each instruction its engine, if those that are `movable` take the queue in which they start first.

    The queues are those that they have now. What a queue's order implied before may need edges with the new engines.
    """
    queues = np.unique(program.instructions.engine[movable]).astype(np.int32)
    columns = _columns(program, target)._replace(movable=movable, queues=queues)
    with plain_if_small(_scan_makespan, len(program.instructions)):
        found: Results = _scan_makespan(columns, np.zeros((0, program.lnc), np.int32), target.barrier(program.lnc))
    return found.engine


class Groups(NamedTuple):
    """Matching barriers have one group: the k-th of one line, set of participants and function."""

    of: Ids
    size: Ids
    fences: int
    """Number of groups that are fences; they come first."""


def _columns(program: Program, target: Target) -> Columns:
    structure, rows = program.structure, len(program.instructions)
    own = program.dependences.take(~program.dependences.carried)
    groups = barrier_groups(program)
    group = np.full(rows, NONE, np.int32)
    group[program.barriers.instruction] = groups.of
    to, source = partners(program)
    meeting = np.zeros(rows, bool)
    meeting[program.meetings.instruction] = True
    first = np.searchsorted(program.block_core, np.arange(program.lnc + 1)).astype(np.int64)
    blocks = len(program.blocks)
    joins, swaps, forks = np.zeros(blocks, bool), np.zeros(blocks, bool), np.zeros(blocks, bool)
    for fork in structure.forks:
        joins[fork.join] = forks[fork.block] = True
        if fork.middle < fork.join:
            swaps[fork.middle] = True
    # Loops are numbered alike on all cores.
    loops = list(structure.loops.values())[: len(structure.loops) // max(program.lnc, 1)]
    trip = np.array([ASSUMED_TRIP if loop.trip == NONE else loop.trip for loop in loops], np.float64)
    opens, closes = np.full(blocks, NONE, np.int32), np.full(blocks, NONE, np.int32)
    for at, loop in enumerate(structure.loops.values()):
        opens[loop.header] = closes[loop.latch] = at % len(loops)
    depth = max(structure.descend(0, lambda outer, number, region: outer + 1))
    return Columns(
        durations(program, target),
        program.instructions.engine,
        np.zeros(rows, bool),
        np.zeros(0, np.int32),
        np.searchsorted(own.instruction, np.arange(rows + 1)).astype(np.int64),
        own.producer,
        first,
        program.starts("instructions", "blocks"),
        group,
        groups.size,
        np.array([target.barrier(size) for size in groups.size.tolist()], np.float64),
        meeting,
        to,
        source,
        target.sendrecv_us,
        target.branch_us,
        _decides(program),
        program.blocks.cond != NONE,
        joins,
        swaps,
        forks,
        opens,
        closes,
        trip,
        depth + 1,
        groups.fences,
    )


def barrier_groups(program: Program) -> Groups:
    """Groups of the barriers."""
    row = program.barriers.instruction
    if not len(row):
        return Groups(np.zeros(0, np.int32), np.zeros(0, np.int32), 0)
    cores = program.core_sets.of.astype(np.int64)
    line = program.instructions.engine[row].astype(np.int64)
    function = program.functions.name[program.instruction_function[row]].astype(np.int64)
    kind = np.unique(np.stack([line, function, cores]), axis=1, return_inverse=True)[1].ravel()
    ordinal = _ordinals(kind * program.lnc + program.instruction_core[row])
    plain = ~fence_mask(program)
    keys, group, size = np.unique(
        np.stack([plain.astype(np.int64), ordinal, kind]), axis=1, return_inverse=True, return_counts=True
    )
    return Groups(group.ravel().astype(np.int32), size.astype(np.int32), int((keys[0] == 0).sum()))


def _ordinals(key: Ints) -> Ints:
    """How many rows before each have the same key."""
    order = np.argsort(key, kind="stable")
    _, start, count = np.unique(key[order], return_index=True, return_counts=True)
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - np.repeat(start, count)
    return found


def partners(program: Program) -> tuple[Ids, Ids]:
    """Of each `sendrecv`, the instruction that receives what it sends, and the one that sends what it receives."""
    rows = len(program.instructions)
    to, source = np.full(rows, NONE, np.int32), np.full(rows, NONE, np.int32)
    meetings = program.meetings
    waiting: dict[tuple[int, int, int, int], int] = {}
    seen: dict[tuple[int, int, int, bool], int] = {}
    for row, receiver, sender, tag in zip(
        meetings.instruction.tolist(),
        meetings.to.tolist(),
        meetings.source.tolist(),
        meetings.tag.tolist(),
        strict=True,
    ):
        core = int(program.instruction_core[row])
        for one, two, sends in ((core, receiver, True), (sender, core, False)):
            if one == NONE or two == NONE:
                continue
            at = seen.get((one, two, tag, sends), 0)
            seen[one, two, tag, sends] = at + 1
            other = waiting.pop((one, two, tag, at), None)
            if other is None:
                waiting[one, two, tag, at] = row
            elif sends:
                to[row], source[other] = other, row
            else:
                source[row], to[other] = other, row
    return to, source


def _decides(program: Program) -> Bools:
    """Whether an instruction writes the condition of its own block."""
    accesses = program.accesses
    cond = program.blocks.cond[program.instructions.block[accesses.instruction]]
    mask = np.zeros(len(program.instructions), bool)
    mask[accesses.instruction[accesses.write & (accesses.location == cond)]] = True
    return mask
