"""Order in a program with loops and branches by brute force: every run's graph, every pair of accesses.

A pair is named as the claims of `checker/flow` name it: the two operands, the level of the loop whose iterations tell
them apart, and how many iterations lie between, 2 for more. Level 0 is the function, and an iteration of a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from haulout.checker.flow.claims import scan_claims
from haulout.checker.flow.counts import Trust, chains, less_trust
from haulout.checker.flow.follow import MOST, Followed
from haulout.checker.flow.graph import Open, Queries
from haulout.checker.flow.pairs import Touches, find_touches
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text
from haulout.checker.flow.waits import find_graph
from haulout.checker.model import Model, Runs
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import build_graph
from haulout.checker.order.sendrecv import check_sendrecvs, find_sendrecvs
from haulout.checker.paths.runs import Path, Run, every_run, walk
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ints

Pair = tuple[int, int, int, int]
"""(First, second, level, lag); an operand of a branch is -1 less its block."""
_MOST = 1 << 18


@dataclass(frozen=True)
class Seen:
    """The pairs of accesses on two lines in all runs."""

    pairs: set[Pair]
    unordered: set[Pair]
    runs: int


def follow_all(text: Text, most: int = MOST) -> Followed | None:
    """The pairs that the claims leave open, to be followed; None: semaphores give no order that is known."""
    touches, trust = find_touches(text), Trust()
    accesses = len(touches.event)
    while True:
        graph = find_graph(text, trust)
        if isinstance(graph, Refusal):
            return None
        found = scan_claims(graph, _all_pairs(text, touches), _MOST)
        assert found.total <= _MOST
        columns = [each[: found.total] for each in (found.first, found.second, found.level, found.lag)]
        signals = columns[0] >= accesses
        less = less_trust(
            text, trust, _rows([each[signals] - accesses for each in columns[:2]], columns[2:], signals)
        )
        if less == trust:
            kept = [each[~signals] for each in columns]
            pairs = Open(len(kept[0]), kept[0], kept[1], kept[2], kept[3], found.walks)
            return Followed(text, graph, touches.event, pairs, most)
        trust = less


def pairs_of(text: Text, followed: Followed) -> list[Pair]:
    """The pairs that are followed, by name."""
    name, found = _names(text.model), followed.pairs
    return list(
        zip(*(each.tolist() for each in (name[found.first], name[found.second], found.level, found.lag)), strict=True)
    )


def _rows(sides: list[Ints], more: list[Ints], chosen: Bools) -> list[Pair]:
    columns = [each.tolist() for each in (*sides, *(each[chosen] for each in more))]
    return list(zip(*columns, strict=True))


def all_pairs_of_runs(runs: Runs, most: int, taken: Mapping[tuple[int, int], int] | None = None) -> Seen | None:
    """Every run with up to three iterations of loops of unknown count; None: too many, or some run is stuck. Only
    runs in which forks take an arm that is given for (block, core or NONE) count.
    """
    structure, cores = runs.flow.structure, len(runs.flow.functions)
    copies = run_copies(runs)
    every = list(islice(every_run(structure, copies, cores, most), most + 1))
    if len(every) > most:
        return None
    chosen = [run for run in every if _takes(runs, run, taken or {})]
    seen = Seen(set(), set(), len(chosen))
    for run in chosen:
        if not judge_run(runs, copies, run, seen):
            return None
    return seen


def _takes(runs: Runs, run: Run, given: Mapping[tuple[int, int], int]) -> bool:
    """Whether forks of a run take the arms that are given."""
    structure = runs.flow.structure
    for place, arms in run.taken:
        block = run.executions[place][0]
        divergent = structure.forks[structure.fork_at[block]].divergent
        for core, arm in enumerate(arms):
            if arm != NONE and given.get((block, core if divergent else NONE), arm) != arm:
                return False
    return True


def run_copies(runs: Runs) -> dict[int, Copies]:
    """All iterations of loops of constant trip count, up to three of others."""
    loops = runs.flow.structure.loops.values()
    return {loop.header: Copies(3, 2) if loop.trip == NONE else Copies(loop.trip) for loop in loops}


def run_of(runs: Runs, copies: dict[int, Copies], path: Path) -> Run:
    """The run of a path."""
    return walk(runs.flow.structure, copies, len(runs.flow.functions), runs.narrowed.follow(path))


def judge_run(runs: Runs, copies: dict[int, Copies], run: Run, seen: Seen) -> bool:
    """Add the pairs of one run; False: it is stuck."""
    structure = runs.flow.structure
    model = runs.model(run, copies)
    barriers, exchanges = find_barriers(model), find_sendrecvs(model)
    if check_barriers(model, barriers) or check_sendrecvs(model, exchanges):
        return False
    graph = build_graph(model, barriers, exchanges)
    if len(graph.order) < graph.nodes:
        return False
    later = [0] * graph.nodes
    for node in graph.order.tolist()[::-1]:
        for other in graph.successors[graph.starts[node] : graph.starts[node + 1]].tolist():
            later[node] |= later[other] | 1 << other
    node = np.where(model.write, graph.leave[model.instruction], graph.enter[model.instruction]).tolist()
    assert model.unrolled is not None
    places = model.unrolled.execution[model.rows[model.instruction]].tolist()
    name, queue = _names(model).tolist(), model.queue[model.instruction].tolist()
    core = model.core[model.instruction].tolist()
    for j in range(len(name)):
        for i in range(j):
            if queue[i] == queue[j]:
                continue
            level, turns = 0, 0
            one, other = (run.executions[places[at]] for at in (i, j))
            around = (structure.loops_around(block) for block, _ in (one, other))
            for loop, same, k, m in zip(*around, one[1], other[1], strict=False):
                apart = core[i] != core[j] and structure.divergent_fork(structure.loops[loop].header) != NONE
                if loop != same or apart:  # cores that choose for themselves share no iteration
                    break
                level, turns = level + 1, m - k
                if turns:
                    break
            first, second = (j, i) if turns < 0 else (i, j)
            pair = name[first], name[second], level, min(abs(turns), 2)
            seen.pairs.add(pair)
            before = later[node[first]] >> node[second] & 1
            after = turns == 0 and later[node[second]] >> node[first] & 1
            if not (before or after):
                seen.unordered.add(pair)
    return True


def turned(pair: Pair) -> Pair:
    """The same pair in the other order, in one iteration; between iterations there is one order only."""
    first, second, level, lag = pair
    return pair if lag else (second, first, level, lag)


def _names(model: Model) -> Ints:
    unrolled = model.unrolled
    assert unrolled is not None
    origin = unrolled.access_origin[model.access].astype(np.int64)
    return np.where(origin == NONE, -1 - unrolled.block[model.rows[model.instruction]], origin)


def _all_pairs(text: Text, touches: Touches) -> Queries:
    """Questions as if all accesses were writes to one place, and all signals of a semaphore to another."""
    semaphore, signal = chains(text)
    event = np.append(touches.event, signal)
    key = np.append(np.zeros(len(touches.event), np.int64), 1 + semaphore)
    count, by_event = len(event), np.argsort(event, kind="stable")
    line, position = text.events.line[event], text.events.position[event]
    order = np.lexsort((position, line, key))
    sorted_line, sorted_key = line[order], key[order]
    new = (sorted_line[1:] != sorted_line[:-1]) | (sorted_key[1:] != sorted_key[:-1])
    first = np.flatnonzero(np.append(True, new)[:count])
    groups = (
        np.searchsorted(sorted_key[first], np.arange(text.operations.semaphores + 2)),
        sorted_line[first].astype(np.int32),
        np.append(first, count).astype(np.int64),
        position[order].astype(np.int32),
        order.astype(np.int32),
    )
    return Queries(
        np.searchsorted(event[by_event], np.arange(len(text.events.line) + 1)),
        by_event.astype(np.int32),
        np.ones(count, bool),
        np.arange(count + 1),
        key.astype(np.int32),
        *groups,
        *groups,
    )
