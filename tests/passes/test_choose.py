"""Placements of equal count: all are correct, the fastest is taken, and it is near the best there is."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.test_dependences import ordered
from tests.brute import conflicts, longest_chain, unordered
from tests.tiers import examples

import haulout
from haulout.analysis.durations import durations
from haulout.analysis.makespan import makespan
from haulout.analysis.phases import phases
from haulout.analysis.straightline import fence_rows
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.passes.fences import choose
from haulout.passes.fences.choose import Choice, choose_slots
from haulout.passes.fences.slots import cut_slots, insert_fences
from haulout.target import load_target
from haulout_generators.programs import random_program

TARGET = load_target("generic")


def chosen(program: Program) -> Choice:
    found = phases(program, fence_rows(program))
    names = [f"f{k}" for k in range(int(found.needed.sum()))]
    return choose_slots(program, found, names, "test", TARGET)


@settings(max_examples=examples(100))
@given(st.randoms(use_true_random=False), st.sampled_from([0.0, 0.2]))
def test_every_placement_looked_at_is_correct_and_estimated_as_built(rng: Random, fences: float) -> None:
    program = ordered(random_program(rng, fences=fences, steps=16))
    built: list[Program] = []

    def keep(before: Program, *arguments: object) -> object:
        slots = cut_slots(before, *arguments)  # type: ignore[arg-type]
        built.append(insert_fences(before, slots, "test"))
        return slots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "cut_slots", keep)
        found = phases(program, fence_rows(program))
        names = [f"f{k}" for k in range(int(found.needed.sum()))]
        # With a capacity every placement is built.
        choice = choose_slots(program, found, names, "test", TARGET, fits=lambda program: True)
    assert len(built) == len(choice.makespans) + 1
    for each, estimate in zip(built, choice.makespans.values(), strict=False):
        assert unordered(each) == []
        count = len(fence_rows(each)) // program.lnc - len(fence_rows(program)) // program.lnc
        assert count == int(found.needed.sum())
        assert makespan(each, TARGET).makespan == pytest.approx(estimate)
    taken = choice.makespans[choice.rule]
    assert makespan(choice.program, TARGET).makespan == pytest.approx(taken)
    assert taken <= min(choice.makespans.values()) + 1e-3  # a nanosecond is no difference


def best_of_all(program: Program, fences: int) -> float:
    """The shortest makespan of two cores over all places of so many fences that order every conflict."""
    core, seq = program.instruction_core.tolist(), program.instructions.seq.tolist()
    middle = core.index(1) if 1 in core else len(core)
    ends = (middle, len(core))
    clash = [(min((seq[a], a), (seq[b], b))[1], max((seq[a], a), (seq[b], b))[1]) for a, b, _ in conflicts(program)]
    clash = [(a, b) for a, b in clash if core[a] != core[b]]
    time, engine = durations(program, TARGET).tolist(), program.instructions.engine.tolist()
    deps = list(zip(program.dependences.instruction.tolist(), program.dependences.producer.tolist(), strict=True))

    def phase(begin: int, end: int) -> float:
        done: dict[int, float] = {}
        line: dict[int, float] = {}
        for row in range(begin, end):
            start = max([line.get(engine[row], 0.0), *(done.get(p, 0.0) for r, p in deps if r == row)])
            done[row] = line[engine[row]] = start + time[row]
        return max(done.values(), default=0.0)

    length = {
        (begin, end): phase(begin, end)
        for first, last in ((0, middle), (middle, len(core)))
        for begin in range(first, last + 1)
        for end in range(begin, last + 1)
    }

    def allowed(begin: tuple[int, int], end: tuple[int, int]) -> bool:
        """Whether nothing in the phase must follow what stands behind the fence before it."""
        return not any(begin[core[b]] <= b < end[core[b]] and a >= begin[core[a]] for a, b in clash)

    places = list(product(range(middle + 1), range(middle, len(core) + 1)))
    cost = {(0, middle): 0.0}
    for step in range(fences + 1):
        price = TARGET.barrier(2) if step < fences else 0.0
        after: dict[tuple[int, int], float] = {}
        for begin, spent in cost.items():
            for end in places if step < fences else [ends]:
                if end[0] < begin[0] or end[1] < begin[1] or not allowed(begin, end):
                    continue
                total = spent + max(length[begin[0], end[0]], length[begin[1], end[1]]) + price
                after[end] = min(after.get(end, np.inf), total)
        cost = after
    return cost[ends]


def test_the_choice_is_near_the_best_of_all_placements() -> None:
    taken = best = source = 0.0
    hits = 0
    for seed in range(30):
        program = ordered(random_program(Random(seed), cores=2, steps=9))
        fences = longest_chain(program)
        choice = chosen(program)
        optimum = best_of_all(program, fences)
        mine = min(choice.makespans.values())
        assert mine >= optimum - 1e-6
        hits += mine <= optimum + 1e-6
        taken, best, source = taken + mine, best + optimum, source + choice.makespans["source"]
    assert hits >= 28
    assert taken <= 1.01 * best
    assert source > 1.03 * best


UNEVEN = """bir 1
program "uneven" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=4 kind=inout dtype=s32 shape=[]
    mloc %big dram.local size=400000 kind=inout dtype=s32 shape=[100000]
    mloc %s dram.shared size=4 dtype=s32 shape=[]
    block ^entry:
      %put = copy @vector (%x) -> (%s) seq=0
      %busy = negate @vector (%big) -> (%big) seq=9
  }
}
module @nc1 core=1 {
  func @main {
    mloc %s dram.shared size=4 dtype=s32 shape=[] remote=[s,0]
    mloc %big dram.local size=400000 kind=inout dtype=s32 shape=[100000]
    mloc %out dram.local size=4 kind=output dtype=s32 shape=[]
    block ^entry:
      %busy = negate @vector (%big) -> (%big) seq=1
      %get = copy @vector (%s) -> (%out) seq=2
  }
}
"""
"""Core 1 works first and meets then, core 0 meets first and works then: in source order one waits for the other."""


def test_what_a_core_would_wait_it_works() -> None:
    result = haulout.compile(parse_bir(UNEVEN))
    assert result.ok
    report = result.report
    assert report.barriers == 1
    assert report.placement == "earliest"
    source, taken = report.makespans_us["source"], report.makespans_us["earliest"]
    busy = durations(result.program, TARGET).max()
    assert source == pytest.approx(2 * busy, rel=0.3)
    assert taken == pytest.approx(busy, rel=0.3)
    assert report.estimated_makespan_us == taken
    assert "lowered" not in report.makespans_us  # it had no barriers


def test_without_a_difference_fences_stand_at_source_time() -> None:
    # Only the queue matters: the other engines are done long before, wherever the fence stands among their work.
    lines = UNEVEN.replace("seq=9", "seq=1").replace("size=400000", "size=4").replace("shape=[100000]", "shape=[]")
    slow = lines.replace("copy @vector (%x)", "dma_copy @dma0 (%x)").replace("negate @vector", "negate @act")
    report = haulout.compile(parse_bir(slow)).report
    assert len(report.makespans_us) > 1
    assert report.placement == "source"
    assert report.makespans_us["source"] == min(report.makespans_us.values())


def test_the_target_decides_what_is_fast() -> None:
    generic, other = (haulout.compile(parse_bir(UNEVEN), target=name).report for name in ("generic", "trainium"))
    assert (generic.target, other.target) == ("generic", "trainium")
    assert generic.estimated_makespan_us != other.estimated_makespan_us
    assert (
        generic.to_json().partition("timings")[0]
        == haulout.compile(parse_bir(UNEVEN)).report.to_json().partition("timings")[0]
    )
