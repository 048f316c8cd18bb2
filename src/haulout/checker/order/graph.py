"""The fused graph: the instructions of all cores, with one node for each rendezvous.

A node is an instruction, named by its number. The participants of one rendezvous share the node of the first of them.
A `sendrecv` has two nodes: it arrives at its own and completes at an extra one, numbered after all instructions. So
every instruction has one node where it starts (`enter`) and one where it is complete (`leave`). It reads at the first
and writes at the second.

Edges lead from "complete" to "may start": engine order, dependences, everything before a barrier on `all` to the
barrier and the barrier to everything after it, a branch to everything after it, arrivals to completions, and signals
to the waits that need them (`semaphore_order.py`). A topological order of the graph is a schedule. Without one, the
cycle is the deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.schedule import schedule_without, shortest_cycle
from haulout.checker.order.semaphore_order import Fused, SemaphoreOrder, find_semaphore_order
from haulout.checker.order.semaphores import Semaphores, check_outrun, check_reachable, find_semaphores
from haulout.checker.order.sendrecv import SendRecvs
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity, Subject
from haulout.support.jit import njit

_MAX_STEPS = 12
"""Waits of a cycle that are listed."""


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
    semaphores: Semaphores
    semaphore_order: SemaphoreOrder | None
    """The order that its semaphores give; None without semaphores."""


def build_graph(model: Model, barriers: Barriers, sendrecvs: SendRecvs) -> Graph:
    """The fused graph of a model whose barriers agree and whose `sendrecv`s are all paired."""
    count = len(model.rows)
    enter = np.arange(count, dtype=np.int32)
    # Group by rendezvous (line, index): its node is its first instruction.
    key = barriers.chain.astype(np.int64) * (count + 1) + barriers.index
    _, first, rendezvous = np.unique(key, return_index=True, return_inverse=True)
    enter[barriers.instruction] = barriers.instruction[first[rendezvous]]
    leave = enter.copy()
    leave[sendrecvs.instruction] = count + np.arange(len(sendrecvs.instruction), dtype=np.int32)
    nodes = count + len(sendrecvs.instruction)

    before, after = _scan_core_order(
        model.core_starts, model.queue, model.is_fence, model.is_branch, len(model.queue_core)
    )
    waits = np.repeat(np.arange(count, dtype=np.int32), np.diff(model.producer_starts))
    arrives, completes = sendrecvs.instruction[sendrecvs.arrives], sendrecvs.instruction[sendrecvs.completes]
    source = np.concatenate([leave[before], leave[model.producer], enter[sendrecvs.instruction], enter[arrives]])
    target = np.concatenate([enter[after], enter[waits], leave[sendrecvs.instruction], leave[completes]])
    starts, successors = _scan_successors(source, target, nodes)
    semaphores = find_semaphores(model)
    if not semaphores:
        nothing = np.zeros(0, np.int32)
        schedule, _ = schedule_without(enter, leave, starts, successors, semaphores, nothing)
        return Graph(enter, leave, nodes, starts, successors, schedule, semaphores, None)
    fused = Fused(enter, leave, model.queue, sendrecvs.instruction, source, target, starts, successors)
    found = find_semaphore_order(fused, semaphores)
    begins = np.where(found.arrival, enter[found.producer], leave[found.producer])
    source, target = np.append(source, begins), np.append(target, enter[found.instruction])
    starts, successors = _scan_successors(source, target, nodes)
    return Graph(enter, leave, nodes, starts, successors, found.schedule, semaphores, found)


@njit
def _scan_core_order(core_starts: Ints, queue: Ids, fence: Bools, branch: Bools, queues: int) -> tuple[Ids, Ids]:
    """The order inside each core as pairs (before, after): engine order, fences against all queues, branches before
    all that follows.
    """
    count = len(queue)
    before = np.empty(4 * count, np.int32)
    after = np.empty(4 * count, np.int32)
    last = np.full(queues, -1, np.int32)
    pairs = 0
    for core in range(len(core_starts) - 1):
        newest_fence = -1
        newest_branch = -1  # since the newest fence
        for i in range(core_starts[core], core_starts[core + 1]):
            previous = last[queue[i]]
            if fence[i]:
                # Only instructions after the previous fence need an edge of their own.
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


# -- deadlock --------------------------------------------------------------------------------------------------------


def check_acyclic(model: Model, graph: Graph, barriers: Barriers, sendrecvs: SendRecvs) -> list[Diagnostic]:
    """`deadlock`: waits for a count that is never reached, or else the cycle of waits."""
    if len(graph.order) == graph.nodes:
        return check_outrun(model, graph.semaphores)
    if short := check_reachable(model, graph.semaphores):
        return short
    cycle = _cycle(graph)
    members = _members(model, barriers, sendrecvs)
    steps = []
    labels = []
    for here, there in pairwise([*cycle, cycle[0]]):
        first, second, why = _step(model, graph, members, here, there)
        steps.append(f"{second} waits for {first}: {why}")
    rendezvous = [node for node in cycle if len(members.get(node, ())) > 1] or cycle
    for node in rendezvous[:_MAX_STEPS]:
        labels += [model.label(instruction) for instruction in members.get(node, [node])]
    shown = (
        steps if len(steps) <= _MAX_STEPS else [*steps[:_MAX_STEPS], f"... and {len(steps) - _MAX_STEPS} more waits"]
    )
    cores = sorted({int(model.core[i]) for node in cycle for i in members.get(node, [node])})
    who = f"core {cores[0]} deadlocks on itself" if len(cores) == 1 else f"cores {cores} deadlock"
    message = f"{who}: {len(steps)} waits form a cycle"
    help_text = "put every rendezvous in the same order on all cores, or remove one of the waits"
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
    for signal, wait in _unsatisfied(graph):
        if stuck[graph.leave[signal]]:
            before.setdefault(int(graph.enter[wait]), []).append(int(graph.leave[signal]))
    # Every stuck node waits for a stuck one, so walking back from any of them reaches a cycle.
    node, visited = min(before), set()
    while node not in visited:
        visited.add(node)
        node = before[node][0]
    cycle = shortest_cycle(node, lambda each: before.get(each, ()))
    return [node, *cycle[:0:-1]]


def _unsatisfied(graph: Graph) -> Iterator[tuple[int, int]]:
    """(Signal, wait) for each wait whose count is not reached and each signal of its semaphore."""
    if graph.semaphore_order is None:
        return
    semaphores = graph.semaphores
    for at in np.flatnonzero(semaphores.value > graph.semaphore_order.reached[semaphores.wait_for]).tolist():
        for signal in semaphores.signal[semaphores.signal_to == semaphores.wait_for[at]].tolist():
            yield signal, int(semaphores.wait[at])


def _members(model: Model, barriers: Barriers, sendrecvs: SendRecvs) -> dict[int, list[int]]:
    """Node -> its instructions, for nodes that are not just the instruction of their number."""
    members: dict[int, list[int]] = {}
    key = barriers.chain.astype(np.int64) * (len(model.rows) + 1) + barriers.index
    order = np.argsort(key, kind="stable")
    first = 0
    for at, row in enumerate(order.tolist()):
        if at == 0 or key[row] != key[order[at - 1]]:
            first = int(barriers.instruction[row])
        members.setdefault(first, []).append(int(barriers.instruction[row]))
    for extra, instruction in enumerate(sendrecvs.instruction.tolist()):
        members[len(model.rows) + extra] = [instruction]
    return members


def _step(model: Model, graph: Graph, members: dict[int, list[int]], here: int, there: int) -> tuple[str, str, str]:
    """Two neighbours on a cycle, named on the core where one waits for the other, and the reason."""
    best = _step_of_semaphores(graph, members.get(here, [here]), members.get(there, [there]))
    for first in members.get(here, [here]):
        for second in members.get(there, [there]):
            if model.core[first] != model.core[second]:
                continue
            begin, end = model.producer_starts[second], model.producer_starts[second + 1]
            if first in model.producer[begin:end].tolist():
                best = best or (first, second, "a dependence")
            elif first < second and model.queue[first] == model.queue[second]:
                best = best or (first, second, "it comes first on the same engine")
            elif first < second and model.is_branch[first]:
                best = best or (first, second, "it comes after that branch")
            elif first < second and (model.is_fence[first] or model.is_fence[second]):
                best = best or (first, second, "a barrier on all engines orders them")
    if best is None:  # only a sendrecv leads from core to core without a shared node, or from itself to itself
        first, second = members.get(here, [here])[0], members.get(there, [there])[0]
        best = (first, second, "a sendrecv completes when its partners have arrived")
    first, second, why = best
    return (
        f"{model.name(first)} on core {model.core[first]}",
        f"{model.name(second)} on core {model.core[second]}",
        why,
    )


def _step_of_semaphores(graph: Graph, here: list[int], there: list[int]) -> tuple[int, int, str] | None:
    """A signal, a wait that needs it, and the count that is reached; None: there is no such pair."""
    if graph.semaphore_order is None:
        return None
    semaphores = graph.semaphores
    for at in np.flatnonzero(np.isin(semaphores.wait, there)).tolist():
        semaphore = int(semaphores.wait_for[at])
        reached = int(graph.semaphore_order.reached[semaphore])
        signals = semaphores.signal[(semaphores.signal_to == semaphore) & np.isin(semaphores.signal, here)]
        if len(signals) and semaphores.value[at] > reached:
            title, value = semaphores.title(semaphore), semaphores.value[at]
            why = f"it signals {title}, which must reach {value} and reaches only {reached}"
            return int(signals[0]), int(semaphores.wait[at]), why
    return None
