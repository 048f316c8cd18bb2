"""Witness schedules: each is replayed, and what they say of the bytes is compared with a plain look at all writes."""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.checker.generate import Shape, random_program
from tests.checker.semaphore_programs import Event, SemaphoreJudge, random_semaphores
from tests.checker.snippets import findings

from haulout.checker.explain.evidence import Evidence
from haulout.checker.model import Function, Model, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import Graph, build_graph
from haulout.checker.order.happens_before import build_order, schedule_accesses
from haulout.checker.order.sendrecv import find_sendrecvs
from haulout.checker.proofs import sweep
from haulout.checker.proofs.conflicts import find_conflicts
from haulout.checker.proofs.extents import find_extents
from haulout.checker.proofs.storage_map import physical_map
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.support.jit import interpreted
from haulout.support.render import render_json

UNORDERED = (sweep.RACE, sweep.POSSIBLE_RACE, sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE)


def evidence_of(program: Program) -> tuple[Evidence, list[tuple[int, int]]] | None:
    """Its evidence and its unordered pairs; None when there is no order to judge by."""
    (function,) = functions(program)
    assert isinstance(function, Function)
    model = function.straight()
    barriers, sendrecvs = find_barriers(model), find_sendrecvs(model)
    if check_barriers(model, barriers) or len(sendrecvs.unpaired):
        return None
    graph = build_graph(model, barriers, sendrecvs)
    if len(graph.order) < graph.nodes:
        return None
    order = build_order(model, graph, barriers, sendrecvs, model.time)
    extents = find_extents(model, physical_map(model))
    pairs = []
    for each in find_conflicts(model, order, extents, schedule_accesses(model, graph)):
        if each.kind in UNORDERED:
            pairs += list(zip(each.first.tolist(), each.second.tolist(), strict=True))
    return Evidence(model, graph, order, extents), pairs


def replay(graph: Graph, nodes: list[int], ends: list[int]) -> None:
    """Every step comes after all that it needs; then the ends could come, and have not."""
    before: dict[int, set[int]] = {}
    for node in range(graph.nodes):
        for other in graph.successors[graph.starts[node] : graph.starts[node + 1]].tolist():
            before.setdefault(other, set()).add(node)
    done: set[int] = set()
    for node in nodes:
        assert before.get(node, set()) <= done
        done.add(node)
    assert len(done) == len(nodes)
    for end in ends:
        assert end not in done
        assert before.get(end, set()) <= done


def touched(model: Model, access: int) -> tuple[int, set[int]]:
    """Owner and bytes of an access of a program without addresses."""
    pattern = model.program.pattern(int(model.pattern[access]))
    size = int(model.program.locations.size[model.location[access]])
    bytes_ = set(range(size)) if pattern is None else set(pattern.bytes().tolist())
    return int(model.owners()[model.location[access]]), bytes_


def last_writer(model: Model, ranks: dict[int, int], first: int, second: int, node: list[int]) -> int:
    """The write of the schedule that comes last, of those of bytes of the pair."""
    owner, wanted = touched(model, first)
    wanted &= touched(model, second)[1]
    found, latest = NONE, -1
    for access in range(len(model.access)):
        where, bytes_ = touched(model, access)
        rank = ranks.get(node[access], -1)
        if model.write[access] and where == owner and bytes_ & wanted and rank > latest:
            found, latest = access, rank
    return found


@pytest.mark.parametrize("seed", range(40))
def test_witnesses_replay(seed: int) -> None:
    random = Random(seed)
    shape = Shape(allocated=0, unknown=0, broken=0, orderly=0.5 * (seed % 2), slip=1.0)
    some = 0
    with interpreted():
        while some < 5:
            program = random_program(random, shape)
            made = evidence_of(program)
            if made is None or not made[1] or (program.locations.address != NONE).any():
                continue
            some += 1
            evidence, pairs = made
            for first, second in pairs:
                witness = evidence.witnesses.find(first, second)
                node = evidence.order.node.tolist()
                ends = [node[first], node[second]]
                replay(evidence.graph, witness.nodes.tolist(), ends)
                by_core = evidence._by_core(witness.nodes).tolist()
                assert sorted(by_core) == sorted(witness.nodes.tolist())
                replay(evidence.graph, by_core, ends)
                # Nothing runs that neither needs.
                needed = set(ends)
                for step in reversed(witness.nodes.tolist()):
                    following = evidence.graph.successors[
                        evidence.graph.starts[step] : evidence.graph.starts[step + 1]
                    ]
                    assert needed & set(following.tolist())
                    needed.add(step)
                ranks = {step: at for at, step in enumerate(witness.nodes.tolist())}
                expected = last_writer(evidence.model, ranks, first, second, node)
                found = evidence._last_writer(witness)
                assert (found == NONE) == (expected == NONE)
                assert found == NONE or node[found] == node[expected]


def fulfilled(judge: SemaphoreJudge, row: int, done: set[Event], count: dict[tuple[int, str], int]) -> bool:
    """True if an instruction may start."""
    ready = all(each in done for each in judge.after["in", row])
    return ready and all(count.get(name, 0) >= value for name, value in judge.needs[row])


@pytest.mark.parametrize("seed", range(20))
def test_witnesses_replay_with_semaphores(seed: int) -> None:
    """By the judge's events and counts, not by the checker's graph."""
    random = Random(seed)
    some = 0
    with interpreted():
        while some < 5:
            program = random_semaphores(random)
            made = evidence_of(program)
            if made is None or not made[1]:
                continue
            some += 1
            evidence, pairs = made
            judge = SemaphoreJudge(program)
            for first, second in pairs:
                witness = evidence.witnesses.find(first, second)
                done: set[Event] = set()
                count: dict[tuple[int, str], int] = {}
                for node in witness.nodes.tolist():
                    entered = [row for row in range(judge.count) if evidence.graph.enter[row] == node]
                    left = [row for row in range(judge.count) if evidence.graph.leave[row] == node]
                    assert all(fulfilled(judge, row, done, count) for row in entered)
                    done |= {("in", row) for row in entered}
                    assert all(each in done for row in left for each in judge.after["out", row])
                    done |= {("out", row) for row in left}
                    for row in left:
                        for name, value in judge.adds[row]:
                            count[name] = count.get(name, 0) + value
                for access in (first, second):
                    row = int(evidence.model.instruction[access])
                    assert ("out", row) not in done
                    assert ("in", row) in done or fulfilled(judge, row, done, count)


WRITER = """
    mloc %x dram.local size=64 kind=input
    mloc %s dram.shared size=64
    {}
    %w = dma_copy @dma0 (%x) -> (%s)
"""
READER = """
    mloc %s dram.shared size=64 remote=[s,0]
    mloc %out dram.local size=64 kind=output
    {}
    %r = copy @vector (%s) -> (%out)
"""


def test_witnesses_are_in_the_json() -> None:
    (finding,) = findings(WRITER.format(""), READER.format(""))
    (each,) = json.loads(render_json([finding]))["diagnostics"]
    assert any("witness: %r on core 1 may start" in note for note in each["notes"])
