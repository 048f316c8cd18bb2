"""Witness schedules: each is replayed, and what they say of the bytes is compared with a plain look at all writes."""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.checker.generate import Shape, random_program
from tests.checker.semaphore_programs import Event, SemaphoreJudge, random_semaphores
from tests.checker.snippets import findings, told

from haulout.checker import check_program
from haulout.checker.explain.evidence import Evidence
from haulout.checker.model import Function, Model, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import Graph, build_graph
from haulout.checker.order.happens_before import build_order, events
from haulout.checker.order.sendrecv import find_meetings
from haulout.checker.proofs import sweep
from haulout.checker.proofs.conflicts import find_conflicts
from haulout.checker.proofs.extents import find_regions
from haulout.checker.proofs.storage_map import physical_map
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.support.jit import interpreted
from haulout.support.render import render_json

UNORDERED = (sweep.RACE, sweep.POSSIBLE_RACE, sweep.DEPENDENCE, sweep.POSSIBLE_DEPENDENCE)


def evidence_of(program: Program) -> tuple[Evidence, list[tuple[int, int]]] | None:
    """Its evidence and its unordered pairs; None when there is no order to judge by."""
    (function,) = functions(program)
    assert isinstance(function, Function)
    model = function.straight()
    barriers, meetings = find_barriers(model), find_meetings(model)
    if check_barriers(model, barriers) or len(meetings.lonely):
        return None
    graph = build_graph(model, barriers, meetings)
    if len(graph.order) < graph.nodes:
        return None
    order = build_order(model, graph, barriers, meetings, model.time)
    regions = find_regions(model, physical_map(model))
    pairs = []
    for each in find_conflicts(model, order, regions, events(model, graph)):
        if each.kind in UNORDERED:
            pairs += list(zip(each.first.tolist(), each.second.tolist(), strict=True))
    return Evidence(model, graph, order, regions), pairs


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
    """Whether an instruction may start."""
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


def race(left: str = "", right: str = "") -> str:
    found = [each for each in findings(WRITER.format(left), READER.format(right)) if each.code == "cross-core-race"]
    return "\n".join(told(each) for each in found)


def test_bytes_that_nothing_has_written() -> None:
    text = race()
    assert "witness: %r on core 1 may start while %w on core 0 has not completed, whatever else runs" in text
    assert "%r on core 1 reads what %w on core 0 writes, or bytes that nothing has written yet" in text


def test_what_is_read_instead_of_what_should_be() -> None:
    timed = [text.format("").replace(")\n", f") seq={seq}\n") for seq, text in enumerate((WRITER, READER))]
    (finding,) = [each for each in findings(*timed) if each.code == "cross-core-race"]
    assert "%r then reads bytes that nothing has written yet" in told(finding)


def test_stale_bytes_and_who_wrote_them() -> None:
    init = '%init = iota @dma0 () -> (%s[0:32])\n%b = core_barrier @all () -> () name="b"'
    meet = '%b = core_barrier @all () -> () name="b"\n%d = iota @pe () -> (%out)'
    text = race(init, meet)
    assert "witness: core 0 runs %init; cores 0, 1 meet at %b; then %r on core 1 may start" in text
    assert "%r on core 1 reads what %w on core 0 writes, or bytes that %init on core 0 wrote" in text
    other = race(init.replace("(%s[0:32])", "(%x[0:32])"), meet)
    assert "%r on core 1 reads what %w on core 0 writes, or bytes that nothing has written yet" in other


def test_a_write_that_comes_too_early() -> None:
    (finding,) = findings(
        """
    mloc %x dram.local size=64 kind=inout
    %r = copy @act (%x) -> ()
    %w = iota @vector () -> (%x)
    """
    )
    assert "%r may then read what %w writes; it should read bytes of %x as they were at the start" in told(finding)


def test_two_writes_in_any_order() -> None:
    (finding,) = findings(
        """
    mloc %x dram.local size=64 kind=inout
    %a = iota @act () -> (%x)
    %b = memset @vector () -> (%x) value=1
    """
    )
    assert "the bytes may end as %a leaves them, not %b" in told(finding)


def test_long_schedules_are_cut_in_the_middle() -> None:
    many = "\n".join(f"%i{at} = copy @vector (%s) -> (%out)" for at in range(20))
    (line,) = [each for each in race("", many.replace("(%s)", "(%out)")).splitlines() if "witness" in each]
    assert line == (
        "witness: core 1 runs %i0, %i1, %i2; ... 14 more steps ...; core 1 runs %i17, %i18, %i19; then %r on core 1 "
        "may start while %w on core 0 has not completed"
    )


def test_steps_stay_on_one_core_as_long_as_they_can() -> None:
    left = "\n".join(f"%a{at} = iota @dma0 () -> (%s)" for at in range(2))
    right = "\n".join(f"%c{at} = copy @vector (%out) -> (%out)" for at in range(2))
    assert "core 0 runs %a0, %a1; core 1 runs %c0, %c1; then" in race(left, right)


def test_iterations_of_loops_are_told() -> None:
    text = """bir 1
program "p" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=inout
    mloc %p dram.local size=1 kind=input
    block ^head -> ^body, ^end cond=p:
    block ^body -> ^head:
      %r = copy @act (%x) -> ()
      %w = iota @vector () -> (%x) deps=[r]
    block ^end:
  }
}
"""
    (finding,) = check_program(parse_bir(text, "p.bir"))
    text = "core 0 runs %r (iteration 0); then %r (iteration 1) may start while %w (iteration 0) has not completed"
    assert f"witness: {text}" in finding.notes


def test_other_pairs_that_a_fix_orders() -> None:
    left = "%u = dma_copy @dma0 (%x) -> (%s[0:64])\n%v = dma_copy @dma1 (%x) -> (%s)"
    found = findings(WRITER.format(left), READER.format(""))
    (finding,) = [each for each in found if each.code == "cross-core-race"]
    assert "stands for" in told(finding)
    # Nothing says whether %r comes first or the writes do; if it does, it reads what nothing has written. The writes
    # are equal copies, so behind the barrier nothing sees which of them was last.
    assert finding.help[0] == (
        "put a core_barrier @all on every core: after %w on core 0, before %r on core 1; it orders 3 pairs, and 1 "
        "more leave the same bytes in every order then"
    )
    (alone,) = [each for each in findings(*(WRITER.format(""), READER.format(""))) if each.code == "cross-core-race"]
    assert "it orders" not in alone.help[0]


def test_witnesses_are_in_the_json() -> None:
    (finding,) = findings(WRITER.format(""), READER.format(""))
    (each,) = json.loads(render_json([finding]))["diagnostics"]
    assert any("witness: %r on core 1 may start" in note for note in each["notes"])
