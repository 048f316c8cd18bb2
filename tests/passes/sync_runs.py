"""Runs of small programs with loops and branches, written out; and what in a run is behind what.

Nothing is shared with the library but the tables. A run is the rows of one core in the order in which they stand in
its execution; every visit of a fork or of a header may choose anew. Semaphores never fall and nothing else is taken
back, so what can start does, in whatever order it is tried: one greedy run in which X never completes tells all that
is behind X.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

import numpy as np
from tests.brute import participants

from haulout import Program
from haulout.ir.enums import NONE, Engine

Execution = tuple[int, str, int]
"""(core, name of an instruction, how often it ran before)"""

MOST_TRIPS = 2
"""Of loops whose trip count is not known."""


class Step(NamedTuple):
    """One execution of one row."""

    row: int
    loops: tuple[int, ...] = ()
    """Headers of the loops around it."""
    turns: tuple[int, ...] = ()
    """The turn of each."""


def walks(program: Program, core: int = 0, rng: Random | None = None) -> Iterator[list[Step]]:
    """Ways through one core: all of them, or with `rng` one at random."""
    starts = program.starts("instructions", "blocks").tolist()
    leads = [program.edges.target[program.edges.source == block].tolist() for block in range(len(program.blocks))]
    trips = program.blocks.trip.tolist()
    first = program.block_core.tolist().index(core)
    stack: list[tuple[int, tuple[int, ...], tuple[int, ...], list[Step]]] = [(first, (), (), [])]
    while stack:
        block, loops, turns, run = stack.pop()
        header = len(leads[block]) == 2 and leads[leads[block][1] - 1] == [block]
        if header and (not loops or loops[-1] != block):
            loops, turns = (*loops, block), (*turns, 0)
        run = [*run, *(Step(row, loops, turns) for row in range(starts[block], starts[block + 1]))]
        if not leads[block]:
            yield run
            continue
        following = []
        if header:
            most = MOST_TRIPS if trips[block] == NONE else trips[block]
            if turns[-1] < most:
                following.append((leads[block][0], loops, turns, run))
            if turns[-1] >= (0 if trips[block] == NONE else most):
                following.append((leads[block][1], loops[:-1], turns[:-1], run))
        else:
            for target in leads[block]:
                back = bool(loops) and target == loops[-1]
                following.append((target, loops, (*turns[:-1], turns[-1] + 1) if back else turns, run))
        stack += following if rng is None else [rng.choice(following)]


def runs_of(program: Program, rng: Random, most: int = 300, core: int = 0) -> tuple[list[list[Step]], bool]:
    """(runs, whether they are all there are)."""
    runs = list(islice(walks(program, core), most + 1))
    if len(runs) <= most:
        return runs, True
    return [next(walks(program, core, rng)) for _ in range(most // 2)], False


@dataclass(slots=True)
class Run:
    """Positions of a run with what they wait for and what they add to."""

    engine: list[int]
    deps: list[list[int]] = field(default_factory=list)
    adds: list[list[tuple[str, int]]] = field(default_factory=list)
    remote: list[list[tuple[int, str, int]]] = field(default_factory=list)
    needs: list[list[tuple[str, int]]] = field(default_factory=list)


def in_run(program: Program, steps: Sequence[Step]) -> Run:
    """Edges and semaphores of a run, by positions; `wait_back` as the count that it stands for."""
    made = Run([int(program.instructions.engine[step.row]) for step in steps])
    table, dependences = program.semaphores, program.dependences
    signals: dict[int, list[tuple[str, int]]] = defaultdict(list)
    waits: dict[int, list[tuple[str, int]]] = defaultdict(list)
    edges: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    late: dict[int, list[tuple[str, int]]] = defaultdict(list)
    remote: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for at, row in enumerate(table.instruction.tolist()):
        pair = (program.strings[int(table.name[at])], int(table.value[at]))
        if table.core[at] != NONE:
            remote[row].append((int(table.core[at]), *pair))
        else:
            (late if table.back[at] else waits if table.wait[at] else signals)[row].append(pair)
    for at in range(len(dependences)):
        edge = (int(dependences.producer[at]), bool(dependences.carried[at]))
        edges[int(dependences.instruction[at])].append(edge)
    issued: dict[str, int] = defaultdict(int)
    for at, step in enumerate(steps):
        made.deps.append([])
        for producer, carried in edges[step.row]:
            found = [other for other in range(at) if steps[other].row == producer]
            if carried:
                found = [other for other in found if _is_turn_before(steps[other], step)]
            made.deps[at] += found[-1:]
        back = [(name, issued[name] - value) for name, value in late[step.row]]
        made.needs.append([*waits[step.row], *back])
        made.adds.append(list(signals[step.row]))
        made.remote.append(list(remote[step.row]))
        for name, value in [*signals[step.row], *(item[1:] for item in made.remote[at])]:
            issued[name] += value
    return made


def _is_turn_before(producer: Step, step: Step) -> bool:
    depth = 0
    while depth < min(len(producer.loops), len(step.loops)) and producer.loops[depth] == step.loops[depth]:
        depth += 1
    same = producer.turns[: depth - 1] == step.turns[: depth - 1]
    return same and producer.turns[depth - 1] == step.turns[depth - 1] - 1


def joint_run(program: Program, rng: Random) -> list[list[Step]]:
    """A way through every core: the same one, but for the arms of divergent forks."""
    chosen: dict[object, int] = {}
    first = [program.block_core.tolist().index(core) for core in range(program.lnc)]
    found = []
    for core in range(program.lnc):

        def choose(block: int, turns: tuple[int, ...], options: int, core: int = core) -> int:
            alone = core if program.blocks.divergent[block] else NONE
            return chosen.setdefault((block - first[core], turns, alone), rng.randrange(options))

        found.append(_walk(program, first[core], choose))
    return found


def _walk(program: Program, block: int, choose: Callable[[int, tuple[int, ...], int], int]) -> list[Step]:
    starts = program.starts("instructions", "blocks").tolist()
    run: list[Step] = []
    loops: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    trips: list[int] = []
    while True:
        leads = program.edges.target[program.edges.source == block].tolist()
        before = program.edges.target[program.edges.source == leads[1] - 1].tolist() if len(leads) == 2 else []
        if before == [block] and (not loops or loops[-1] != block):
            known = int(program.blocks.trip[block])
            trips.append(choose(block, turns, MOST_TRIPS + 1) if known == NONE else known)
            loops, turns = (*loops, block), (*turns, 0)
        run += [Step(row, loops, turns) for row in range(starts[block], starts[block + 1])]
        if not leads:
            return run
        if before == [block]:
            if turns[-1] < trips[-1]:
                block = leads[0]
            else:
                loops, turns, block = loops[:-1], turns[:-1], leads[1]
                trips.pop()
        elif len(leads) == 2:
            block = leads[choose(block, turns, 2)]
        else:
            if loops and leads[0] == loops[-1]:
                turns = (*turns[:-1], turns[-1] + 1)
            block = leads[0]


def joint_order(program: Program, steps: Sequence[Sequence[Step]]) -> dict[Execution, set[Execution]]:
    """For each execution of an instruction that is not made for a barrier: all such ones that are behind it.

    Asserts that nothing hangs.
    """
    runs = [in_run(program, each) for each in steps]
    at_row = {int(row): at for at, row in enumerate(program.barriers.instruction)}
    title: list[Execution] = []
    hidden: set[int] = set()
    meets: dict[int, tuple[int, frozenset[int], int]] = {}
    base = [sum(len(run.engine) for run in runs[:core]) for core in range(len(runs))]
    met: dict[object, int] = defaultdict(int)
    seen: dict[object, int] = defaultdict(int)
    for core, each in enumerate(steps):
        for step in each:
            node = len(title)
            name = program.instruction_name(step.row)
            title.append((core, name, seen[core, name]))
            seen[core, name] += 1
            if step.row in at_row:
                key = (int(program.instructions.engine[step.row]), participants(program, at_row[step.row]))
                meets[node] = (*key, met[core, key])
                met[core, key] += 1
            if step.row in at_row or "barrier" in program.instruction_attrs(step.row):
                hidden.add(node)
    earlier = []
    for core, run in enumerate(runs):
        for at, engine in enumerate(run.engine):
            fences = engine == Engine.ALL
            earlier.append(
                {base[core] + other for other in range(at) if fences or run.engine[other] in (engine, Engine.ALL)}
            )
        for at, deciders in _decided(program, steps[core]):
            for node in range(base[core] + at, base[core] + len(run.engine)):
                earlier[node].update(base[core] + other for other in deciders)
    members = defaultdict(list)
    for node, meeting in meets.items():
        members[meeting].append(node)
    for meeting, nodes in members.items():
        assert len(nodes) == len(meeting[1]), "somebody does not come"

    def everything_but(blocked: int) -> set[int]:
        done: set[int] = set()
        started: set[int] = set()
        arrived: set[int] = set()
        value: dict[tuple[int, str], int] = defaultdict(int)
        moved = True
        while moved:
            moved = False
            for core, run in enumerate(runs):
                for at in range(len(run.engine)):
                    node = base[core] + at
                    if node in started or not done >= earlier[node]:
                        continue
                    if not done.issuperset(base[core] + other for other in run.deps[at]):
                        continue
                    if any(value[core, name] < needed for name, needed in run.needs[at]):
                        continue
                    if node in meets:
                        moved |= node not in arrived
                        arrived.add(node)
                        if not arrived.issuperset(members[meets[node]]):
                            continue
                    started.add(node)
                    moved = True
                    if node != blocked:
                        done.add(node)
                        for name, added in run.adds[at]:
                            value[core, name] += added
                        for other, name, added in run.remote[at]:
                            value[other, name] += added
        return started

    every = set(range(len(title)))
    assert everything_but(NONE) == every, "it hangs"
    return {
        title[node]: {title[other] for other in every - everything_but(node) - hidden}
        for node in sorted(every - hidden)
    }


def _decided(program: Program, steps: Sequence[Step]) -> Iterator[tuple[int, list[int]]]:
    """(position, positions before it): from there on everything waits for those, which write what a branch reads."""
    writers: dict[int, set[int]] = defaultdict(set)
    for at in np.flatnonzero(program.accesses.write).tolist():
        writers[int(program.accesses.location[at])].add(int(program.accesses.instruction[at]))
    block = [int(program.instructions.block[step.row]) for step in steps]
    begin = 0
    for at in range(1, len(steps) + 1):
        if at < len(steps) and block[at] == block[begin] and steps[at].turns == steps[begin].turns:
            continue
        cond = int(program.blocks.cond[block[begin]])
        deciders = [other for other in range(begin, at) if steps[other].row in writers[cond]]
        if cond != NONE and deciders and at < len(steps):
            yield at, deciders
        begin = at


def behind(run: Run) -> list[set[int]]:
    """For each position: those that cannot start when it never completes. Asserts that nothing hangs."""
    positions = range(len(run.engine))
    earlier = [
        {
            other
            for other in range(at)
            if run.engine[other] == run.engine[at] or Engine.ALL in (run.engine[other], run.engine[at])
        }
        for at in positions
    ]
    found = []
    for blocked in [None, *positions]:
        done: set[int] = set()
        started: set[int] = set()
        value: dict[str, int] = defaultdict(int)
        while True:
            ready = [
                at
                for at in positions
                if at not in started
                and done >= earlier[at]
                and done.issuperset(run.deps[at])
                and all(value[name] >= needed for name, needed in run.needs[at])
            ]
            if not ready:
                break
            started.update(ready)
            for at in ready:
                if at != blocked:
                    done.add(at)
                    for name, added in run.adds[at]:
                        value[name] += added
        if blocked is None:
            assert started == set(positions), "it hangs"
        else:
            found.append(set(positions) - started)
    return found
