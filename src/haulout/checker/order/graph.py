"""The fused graph: the instructions of all cores, with one node for each rendezvous.

A node is an instruction, named by its number; the participants of one rendezvous share the node of the first of
them. A `sendrecv` has two: it arrives at its own, it completes at an extra one behind all instructions. So every
instruction is entered at one node and left at one. Its reads happen where it is entered, its writes where it is
left.

Edges, from "complete" to "may start": engine order, dependences, everything before a barrier on `all` to it and from
it to everything after it, a branch to everything after it, arrivals to completions, and what waits of semaphores are
behind (`counting.py`). A topological order of the graph is a schedule; where there is none, the cycle is the
deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.semaphore_counts import Counting, Fused, find_counting
from haulout.checker.order.semaphores import Counts, check_outrun, check_reachable, find_counts
from haulout.checker.order.sendrecv import Meetings
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity, Subject
from haulout.support.jit import njit

_SHOWN = 12
"""Steps of a cycle that are listed."""


@dataclass(slots=True)
class Graph:
    """Nodes, successors, and a topological order of as many nodes as have one."""

    enter: Ids
    """Instruction -> the node where it starts."""
    leave: Ids
    """Instruction -> the node where it is complete."""
    nodes: int
    starts: Ints
    successors: Ids
    """Node v is followed by `successors[starts[v]:starts[v + 1]]`."""
    order: Ids
    """Nodes in a topological order; fewer than `nodes` when there is a cycle."""
    counts: Counts
    counting: Counting | None
    """What its semaphores do, when it has some."""


def build_graph(model: Model, barriers: Barriers, meetings: Meetings) -> Graph:
    """The fused graph of a model whose barriers agree and whose meetings have their partners."""
    count = len(model.rows)
    enter = np.arange(count, dtype=np.int32)
    # Group by rendezvous (line, index): its node is its first instruction.
    key = barriers.line.astype(np.int64) * (count + 1) + barriers.index
    _, first, rendezvous = np.unique(key, return_index=True, return_inverse=True)
    enter[barriers.instruction] = barriers.instruction[first[rendezvous]]
    leave = enter.copy()
    leave[meetings.instruction] = count + np.arange(len(meetings.instruction), dtype=np.int32)
    nodes = count + len(meetings.instruction)

    before, after = _scan_lines(
        model.core_starts, model.queue, model.is_fence, model.is_branch, len(model.queue_core)
    )
    waits = np.repeat(np.arange(count, dtype=np.int32), np.diff(model.producer_starts))
    arrives, completes = meetings.instruction[meetings.arrives], meetings.instruction[meetings.completes]
    source = np.concatenate([leave[before], leave[model.producer], enter[meetings.instruction], enter[arrives]])
    target = np.concatenate([enter[after], enter[waits], leave[meetings.instruction], leave[completes]])
    starts, successors = _scan_successors(source, target, nodes)
    counts = find_counts(model)
    if not counts:
        return Graph(enter, leave, nodes, starts, successors, _scan_topological(starts, successors), counts, None)
    fused = Fused(enter, leave, model.queue, meetings.instruction, source, target, starts, successors)
    counting = find_counting(fused, counts)
    come = np.where(counting.arrival, enter[counting.producer], leave[counting.producer])
    source, target = np.append(source, come), np.append(target, enter[counting.instruction])
    starts, successors = _scan_successors(source, target, nodes)
    return Graph(enter, leave, nodes, starts, successors, counting.schedule, counts, counting)


@njit
def _scan_lines(core_starts: Ints, queue: Ids, fence: Bools, branch: Bools, queues: int) -> tuple[Ids, Ids]:
    """Order of the lines of each core as pairs (before, after): engine order, fences against all queues, branches
    before all that follows.
    """
    count = len(queue)
    before = np.empty(4 * count, np.int32)
    after = np.empty(4 * count, np.int32)
    last = np.full(queues, -1, np.int32)
    pairs = 0
    for core in range(len(core_starts) - 1):
        newest_fence = -1
        newest_branch = -1  # behind the newest fence
        for i in range(core_starts[core], core_starts[core + 1]):
            previous = last[queue[i]]
            if fence[i]:
                # Only what came after the fence before needs an edge of its own.
                for q in range(queues):
                    if last[q] >= core_starts[core] and last[q] >= newest_fence:
                        before[pairs], after[pairs] = last[q], i
                        pairs += 1
                newest_fence, newest_branch = i, -1
            else:
                if previous > newest_fence:
                    before[pairs], after[pairs] = previous, i
                    pairs += 1
                elif newest_fence >= 0 and newest_branch < 0:
                    before[pairs], after[pairs] = newest_fence, i
                    pairs += 1
                if newest_branch > previous:
                    before[pairs], after[pairs] = newest_branch, i
                    pairs += 1
                if branch[i]:
                    newest_branch = i
            last[queue[i]] = i
    return before[:pairs].copy(), after[:pairs].copy()


@njit
def _scan_successors(source: Ids, target: Ids, nodes: int) -> tuple[Ints, Ids]:
    """Edges to adjacency lists, by counting; edges of one node keep their order."""
    starts = np.zeros(nodes + 1, np.int64)
    for e in range(len(source)):
        starts[source[e] + 1] += 1
    for v in range(nodes):
        starts[v + 1] += starts[v]
    fill = starts[:-1].copy()
    successors = np.empty(len(source), np.int32)
    for e in range(len(source)):
        successors[fill[source[e]]] = target[e]
        fill[source[e]] += 1
    return starts, successors


@njit
def _scan_topological(starts: Ints, successors: Ids) -> Ids:
    """Kahn's algorithm, first come first served: every node after its predecessors; a cycle's nodes are left out."""
    nodes = len(starts) - 1
    missing = np.zeros(nodes, np.int32)
    for e in range(len(successors)):
        missing[successors[e]] += 1
    order = np.empty(nodes, np.int32)
    done = 0
    for v in range(nodes):
        if missing[v] == 0:
            order[done] = v
            done += 1
    at = 0
    while at < done:
        v = order[at]
        at += 1
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            missing[w] -= 1
            if missing[w] == 0:
                order[done] = w
                done += 1
    return order[:done].copy()


# -- deadlock --------------------------------------------------------------------------------------------------------


def check_acyclic(model: Model, graph: Graph, barriers: Barriers, meetings: Meetings) -> list[Diagnostic]:
    """`deadlock`: waits for more than is ever signalled, or for more and more; else the cycle of waits, if any."""
    if len(graph.order) == graph.nodes:
        return check_outrun(model, graph.counts)
    if short := check_reachable(model, graph.counts):
        return short
    cycle = _cycle(graph)
    members = _members(model, barriers, meetings)
    steps = []
    labels = []
    for here, there in pairwise([*cycle, cycle[0]]):
        first, second, why = _step(model, graph, members, here, there)
        steps.append(f"{second} waits for {first}: {why}")
    turns = [node for node in cycle if len(members.get(node, ())) > 1] or cycle
    for node in turns[:_SHOWN]:
        labels += [model.label(instruction) for instruction in members.get(node, [node])]
    shown = steps if len(steps) <= _SHOWN else [*steps[:_SHOWN], f"... and {len(steps) - _SHOWN} more steps"]
    cores = sorted({int(model.core[i]) for node in cycle for i in members.get(node, [node])})
    message = f"cores {cores} wait for each other for ever: {len(steps)} waits form a cycle"
    if len(cores) == 1:
        message = f"core {cores[0]} waits for itself for ever: {len(steps)} waits form a cycle"
    help_text = "meet in the same order on all cores, or drop one of the waits"
    entities = tuple(model.instruction_entity(i) for node in cycle for i in members.get(node, [node]))
    subject = Subject("cycle of waits", model.function, entities, cores=tuple(cores))
    return [Diagnostic("deadlock", Severity.ERROR, message, tuple(labels), tuple(shown), (help_text,), subject)]


def _cycle(graph: Graph) -> list[int]:
    """The nodes of one short cycle, in the order of the waits."""
    stuck = np.ones(graph.nodes, bool)
    stuck[graph.order] = False
    source = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.starts))
    edges = stuck[source] & stuck[graph.successors]
    before: dict[int, list[int]] = {}
    for v, w in zip(source[edges].tolist(), graph.successors[edges].tolist(), strict=True):
        before.setdefault(w, []).append(v)
    for signal, wait in _unmet(graph):
        if stuck[graph.leave[signal]]:
            before.setdefault(int(graph.enter[wait]), []).append(int(graph.leave[signal]))
    # Every stuck node waits for a stuck one: going back from any of them ends on a cycle.
    node, seen = min(before), set()
    while node not in seen:
        seen.add(node)
        node = before[node][0]
    # Breadth first, from that node back to itself: the shortest cycle through it.
    next_of: dict[int, int] = {}
    front = [node]
    while node not in next_of:
        behind = []
        for w in front:
            for v in before.get(w, []):
                if v not in next_of:
                    next_of[v] = w
                    behind.append(v)
        front = behind
    cycle = [node]
    while (following := next_of[cycle[-1]]) != node:
        cycle.append(following)
    return cycle


def _unmet(graph: Graph) -> Iterator[tuple[int, int]]:
    """(A signal of it, a wait) for the waits whose count is not reached."""
    if graph.counting is None:
        return
    counts = graph.counts
    for at in np.flatnonzero(counts.value > graph.counting.reached[counts.wait_for]).tolist():
        for signal in counts.signal[counts.signal_to == counts.wait_for[at]].tolist():
            yield signal, int(counts.wait[at])


def _members(model: Model, barriers: Barriers, meetings: Meetings) -> dict[int, list[int]]:
    """Node -> the instructions that stand for it, where that is not the instruction of the node's number."""
    members: dict[int, list[int]] = {}
    key = barriers.line.astype(np.int64) * (len(model.rows) + 1) + barriers.index
    order = np.argsort(key, kind="stable")
    first = 0
    for at, row in enumerate(order.tolist()):
        if at == 0 or key[row] != key[order[at - 1]]:
            first = int(barriers.instruction[row])
        members.setdefault(first, []).append(int(barriers.instruction[row]))
    for extra, instruction in enumerate(meetings.instruction.tolist()):
        members[len(model.rows) + extra] = [instruction]
    return members


def _step(model: Model, graph: Graph, members: dict[int, list[int]], here: int, there: int) -> tuple[str, str, str]:
    """Two neighbours on a cycle, named on the core where one waits for the other, and why it does."""
    best = _step_of_counts(graph, members.get(here, [here]), members.get(there, [there]))
    for first in members.get(here, [here]):
        for second in members.get(there, [there]):
            if model.core[first] != model.core[second]:
                continue
            begin, end = model.producer_starts[second], model.producer_starts[second + 1]
            if first in model.producer[begin:end].tolist():
                best = best or (first, second, "a dependence")
            elif first < second and model.queue[first] == model.queue[second]:
                best = best or (first, second, "it stands before it on its engine")
            elif first < second and model.is_branch[first]:
                best = best or (first, second, "it stands behind that branch")
            elif first < second and (model.is_fence[first] or model.is_fence[second]):
                best = best or (first, second, "a barrier on all engines stands between")
    if best is None:  # only a meeting leads from core to core without a shared node, or from itself to itself
        first, second = members.get(here, [here])[0], members.get(there, [there])[0]
        best = (first, second, "a sendrecv completes when its partners have arrived")
    first, second, why = best
    return (
        f"{model.name(first)} on core {model.core[first]}",
        f"{model.name(second)} on core {model.core[second]}",
        why,
    )


def _step_of_counts(graph: Graph, here: list[int], there: list[int]) -> tuple[int, int, str] | None:
    """A signal and a wait that needs it, and what the count comes to; None when there are none."""
    if graph.counting is None:
        return None
    counts = graph.counts
    for at in np.flatnonzero(np.isin(counts.wait, there)).tolist():
        semaphore = int(counts.wait_for[at])
        reached = int(graph.counting.reached[semaphore])
        signals = counts.signal[(counts.signal_to == semaphore) & np.isin(counts.signal, here)]
        if len(signals) and counts.value[at] > reached:
            why = f"it signals {counts.title(semaphore)}, which must be {counts.value[at]} and comes to {reached}"
            return int(signals[0]), int(counts.wait[at]), why
    return None
