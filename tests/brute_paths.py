"""The plain truth about order inside one core of a small program with branches and loops: every way through it, run.

A *way* is what a core executes: blocks, each with the loops around it and the iteration of each. Order is by explicit
graph: an engine runs its instructions in order, barriers on `all` fence, edges name executions. Nothing else is taken
for granted: not that a branch waits for what it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
from tests.brute import barrier_rows, touched

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program


@dataclass(frozen=True)
class Step:
    """A block that is executed, and in which iteration of each loop around it (header -> iteration)."""

    block: int
    loops: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Execution:
    """An instruction that is executed."""

    row: int
    step: Step


def latches(program: Program) -> dict[int, int]:
    """Header -> last block of its loop: a block with two successors to which a later block leads back."""
    return {
        int(target): int(source)
        for source, target in zip(program.edges.source, program.edges.target, strict=True)
        if source >= target
    }


def walk(program: Program, core: int, decide: Callable[[int, int], bool]) -> list[Step]:
    """One way of a core through its one function. `decide(block, iteration)`: whether a block with two successors
    takes the first; the iteration is that of a header's own loop, else 0.
    """
    last_of = latches(program)
    successors: dict[int, list[int]] = {}
    for source, target in zip(program.edges.source.tolist(), program.edges.target.tolist(), strict=True):
        successors.setdefault(source, []).append(target)
    block = int(np.flatnonzero(program.block_core == core)[0])
    loops: list[tuple[int, int]] = []
    steps = []
    while True:
        if block in last_of and (not loops or loops[-1][0] != block):
            loops.append((block, 0))
        steps.append(Step(block, tuple(loops)))
        targets = successors.get(block, [])
        if not targets:
            return steps
        if len(targets) == 2:
            iteration = loops[-1][1] if block in last_of else 0
            first = decide(block, iteration)
            if block in last_of and not first:
                loops.pop()
            block = targets[0 if first else 1]
        else:
            if targets[0] <= block:
                loops[-1] = (loops[-1][0], loops[-1][1] + 1)
            block = targets[0]


def random_walk(program: Program, core: int, rng: Random, most: int = 3) -> list[Step]:
    """A way that chance takes; loops of unknown trip count run 0 to `most` times."""
    last_of = latches(program)
    trips: dict[int, int] = {}

    def decide(block: int, iteration: int) -> bool:
        if block not in last_of:
            return rng.random() < 0.5
        if iteration == 0:
            known = int(program.blocks.trip[block])
            trips[block] = known if known != NONE else rng.randint(0, most)
        return iteration < trips[block]

    return walk(program, core, decide)


def executions(program: Program, steps: list[Step]) -> list[Execution]:
    """Instructions in the order of a way."""
    starts = program.starts("instructions", "blocks").tolist()
    return [Execution(row, step) for step in steps for row in range(starts[step.block], starts[step.block + 1])]


def named(ran: list[Execution], at: int, producer: int, carried: bool) -> int:
    """Which earlier execution an edge from `ran[at]` to a producer names; NONE: there is none."""
    mine = ran[at].step.loops
    for other in range(at - 1, -1, -1):
        if ran[other].row != producer:
            continue
        if not carried:
            return other
        theirs = ran[other].step.loops
        depth = 0
        while depth < min(len(mine), len(theirs)) and mine[depth][0] == theirs[depth][0]:
            depth += 1
        if depth and mine[: depth - 1] == theirs[: depth - 1] and theirs[depth - 1][1] == mine[depth - 1][1] - 1:
            return other
    return NONE


def order_of(program: Program, ran: list[Execution]) -> list[int]:
    """Of each execution a bit set of those that are complete before it starts."""
    edges: dict[int, list[tuple[int, bool]]] = {}
    have = program.dependences
    for row, producer, carried in zip(
        have.instruction.tolist(), have.producer.tolist(), have.carried.tolist(), strict=True
    ):
        edges.setdefault(row, []).append((producer, carried))
    engine = program.instructions.engine.tolist()
    before: list[int] = []
    last: dict[int, int] = {}
    fence = NONE
    for at, each in enumerate(ran):
        mine = engine[each.row]
        known = {last[line] for line in last if mine in (line, Engine.ALL)} | ({fence} - {NONE})
        known |= {named(ran, at, producer, carried) for producer, carried in edges.get(each.row, [])} - {NONE}
        bits = 0
        for other in sorted(known):
            bits |= before[other] | 1 << other
        before.append(bits)
        last[mine] = at
        if mine == Engine.ALL:
            fence = at
    return before


def races_inside(program: Program, ran: list[Execution], *, physical: bool = False) -> list[tuple[int, int]]:
    """Pairs of executions of one core that conflict and that nothing orders."""
    before = order_of(program, ran)
    barriers = barrier_rows(program)
    reads: dict[int, set[tuple[object, int]]] = {}
    writes: dict[int, set[tuple[object, int]]] = {}
    for row in {each.row for each in ran} - set(barriers):
        reads[row], writes[row] = set(), set()
        for access in range(*program.access_starts[row : row + 2].tolist()):
            bytes_ = touched(program, access, physical=physical)
            (writes if program.accesses.write[access] else reads)[row].update(bytes_)
    found = []
    for b, later in enumerate(ran):
        for a in range(b):
            first, second = ran[a].row, later.row
            if before[b] >> a & 1 or first in barriers or second in barriers:
                continue
            if writes[first] & (reads[second] | writes[second]) or reads[first] & writes[second]:
                found.append((a, b))
    return found


def illegal_edges(program: Program, ran: list[Execution]) -> list[tuple[int, int, bool]]:
    """Edges whose producer has not run when it should have: always for `deps`, in a loop's second iteration and
    later ones for `carried`.
    """
    wrong = []
    have = program.dependences
    edges = list(zip(have.instruction.tolist(), have.producer.tolist(), have.carried.tolist(), strict=True))
    last_of = latches(program)

    def around(row: int) -> list[int]:
        block = int(program.instructions.block[row])
        return sorted(header for header, last in last_of.items() if header <= block <= last)

    for at, each in enumerate(ran):
        for row, producer, carried in edges:
            if row != each.row:
                continue
            if carried:
                common = [header for header in around(row) if header in around(producer)]
                if not common:
                    wrong.append((row, producer, carried))
                    continue
                if dict(each.step.loops)[common[-1]] == 0:
                    continue
            if named(ran, at, producer, carried) == NONE:
                wrong.append((row, producer, carried))
    return wrong
