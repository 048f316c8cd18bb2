"""The makespan, against a recursion over the program as a graph, and against cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.test_dependences import ordered
from tests.tiers import examples

from haulout.analysis.durations import durations
from haulout.analysis.makespan import ASSUMED_TRIP, Estimate, Estimator, makespan
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout.target import load_target
from haulout_generators.programs import random_program

# An instruction of 4 bytes on `vector` takes one microsecond for each of its operands, whatever the other rates.
TARGET = replace(
    load_target("generic"),
    engines=tuple(replace(each, issue_us=0.0, gbytes_per_s=4e-3) for each in load_target("generic").engines),
    dram_gbytes_per_s=1e9,
    barrier_us=10.0,
    barrier_per_core_us=1.0,
    sendrecv_us=5.0,
    branch_us=2.0,
)


def by_recursion(program: Program) -> tuple[float, list[float]]:
    """End of the last instruction, and the waits of each core; `all` fences of all cores only."""
    time = durations(program, TARGET).tolist()
    core, engine = program.instruction_core.tolist(), program.instructions.engine.tolist()
    fences = fence_rows(program).tolist()
    rows = range(len(core))
    of_core = {each: [row for row in fences if core[row] == each] for each in range(program.lnc)}
    deps: dict[int, list[int]] = {row: [] for row in rows}
    for row, producer in zip(
        program.dependences.instruction.tolist(), program.dependences.producer.tolist(), strict=True
    ):
        deps[row].append(producer)

    @cache
    def arrival(row: int) -> float:
        return max([0.0, *(end(other) for other in rows if other < row and core[other] == core[row])])

    @cache
    def end(row: int) -> float:
        if row in fences:
            index = of_core[core[row]].index(row)
            return max(arrival(rows[index]) for rows in of_core.values()) + TARGET.barrier(program.lnc)
        before = [
            other
            for other in rows
            if other < row and core[other] == core[row] and (engine[other] == engine[row] or other in fences)
        ]
        return max([0.0, *(end(other) for other in [*before, *deps[row]])]) + time[row]

    waits = [sum(end(row) - arrival(row) for row in mine) for mine in of_core.values()]
    return max([0.0, *(end(row) for row in rows)]), waits


@settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_straight_programs_take_their_longest_path(rng: Random) -> None:
    program = ordered(random_program(rng))
    program = ExtendSharedLifetimes(fences=rng.choice(["minimal", "bracket"])).run(program, PassContext())  # type: ignore[arg-type]
    longest, waits = by_recursion(program)
    found = makespan(program, TARGET)
    assert found.makespan == pytest.approx(longest)
    assert found.waited.tolist() == pytest.approx(waits)
    assert found.busy.sum() == pytest.approx(durations(program, TARGET).sum())
    assert 0.0 <= found.balance <= 1.0


def core(number: int, body: str, blocks: str = "") -> str:
    return f"""module @nc{number} core={number} {{
  func @main {{
    mloc %a dram.local size=4 kind=inout dtype=s32 shape=[]
    mloc %c dram.local size=4 kind=inout dtype=s32 shape=[]
    block ^entry{blocks}:
{body}
  }}
}}
"""


def estimate(*bodies: str, blocks: str = "") -> Estimate:
    text = f'bir 1\nprogram "p" lnc={len(bodies)}\n' + "".join(
        core(number, body, blocks) for number, body in enumerate(bodies)
    )
    return makespan(parse_bir(text), TARGET)


WORK = "%{0} = copy @{1} (%a) -> (%a)"  # two microseconds


def work(name: str, engine: str = "vector", more: str = "") -> str:
    return f"{WORK.format(name, engine)} {more}\n"


def test_engines_run_side_by_side_and_dependences_hold_them_back() -> None:
    assert estimate(work("x") + work("y", "act")).makespan == 2.0
    assert estimate(work("x") + work("y", "act", "deps=[x]")).makespan == 4.0
    assert estimate(work("x") + work("y")).makespan == 4.0


def test_a_fence_waits_for_the_slowest_core_and_the_others_idle() -> None:
    fence = '%f = core_barrier @all () -> () name="f"\n'
    found = estimate(work("x") + work("y") + work("z") + fence + work("w", "act"), work("x") + fence)
    assert found.makespan == 6.0 + 11.0 + 2.0
    assert found.waited.tolist() == [11.0, 15.0]
    assert found.arrival.tolist() == [[6.0, 2.0]]
    assert found.done.tolist() == [17.0]
    assert found.balance == pytest.approx(4 / 6)
    assert found.busy[0, Engine.VECTOR] == 6.0
    assert found.busy[0, Engine.ACT] == 2.0


def test_a_barrier_of_one_engine_holds_that_engine_alone() -> None:
    meet = '%m = core_barrier @act () -> () name="m"\n'
    found = estimate(work("x") + meet + work("y", "act"), work("x", "act") + work("z", "act") + meet)
    assert found.makespan == 4.0 + 11.0 + 2.0
    assert not len(found.done)


def test_barriers_of_a_subset_meet_by_their_line() -> None:
    meet = '%m = core_barrier @all () -> () name="m" cores=[0,2]\n'
    found = estimate(work("x") + meet, work("x") + work("y"), meet + work("x"))
    assert found.makespan == 2.0 + 11.0 + 2.0
    assert found.waited.tolist() == [11.0, 0.0, 13.0]


def test_an_exchange_waits_for_its_partners() -> None:
    found = estimate(
        work("x") + work("y") + "%s = sendrecv @vector (%a) -> (%c) to=1 from=1\n",
        "%s = sendrecv @vector (%a) -> (%c) to=0 from=0\n" + work("z"),
    )
    assert found.makespan == 4.0 + 5.0 + 2.0
    assert found.waited.tolist() == [5.0, 9.0]


@pytest.mark.parametrize("trip", [0, 1, 3, None])
def test_a_loop_counts_one_iteration_as_often_as_it_runs(trip: int | None) -> None:
    known = "" if trip is None else f" trip={trip}"
    body = f"""      %before = copy @vector (%a) -> (%a)
    block ^head -> ^body, ^behind cond=c{known}:
      %test = copy @act (%a) -> (%c)
    block ^body -> ^head:
      %f = core_barrier @all () -> () name="f"
      %one = copy @vector (%a) -> (%a)
    block ^behind:
      %after = copy @vector (%a) -> (%a)"""
    found = estimate(body, body, blocks=" -> ^head")
    times = ASSUMED_TRIP if trip is None else trip
    header = 2.0 + 2.0  # the condition, and the branch behind it
    assert found.makespan == 2.0 + times * (header + 11.0 + 2.0) + header + 2.0
    assert found.waited.tolist() == [times * 11.0] * 2
    assert found.assumed == (1 if trip is None else 0)


@pytest.mark.parametrize("longer", ["then", "else"])
@pytest.mark.parametrize("arms", [1, 2])
def test_of_two_arms_the_longer_counts(longer: str, arms: int) -> None:
    long, short = work("p") + work("q") + work("r"), work("s")
    one, two = (long, short) if longer == "then" else (short, long)
    second = f"    block ^else -> ^join:\n{two.replace('%', '%e')}".replace("%ea", "%a")
    body = f"""      %test = copy @act (%a) -> (%c)
    block ^then -> ^join:
{one}{second if arms == 2 else ""}    block ^join:
      %after = copy @vector (%a) -> (%a)"""
    found = estimate(body, blocks=f" -> ^then, ^{'else' if arms == 2 else 'join'} cond=c")
    arm = 6.0 if longer == "then" or arms == 2 else 2.0
    assert found.makespan == 2.0 + 2.0 + arm + 2.0
    assert found.busy[0, Engine.VECTOR] == arm + 2.0


@pytest.mark.parametrize("seed", range(20))
def test_cores_that_wait_in_a_circle_end_all_the_same(seed: int) -> None:
    rng = Random(seed)
    names = ["a", "b", "c", "d"]
    bodies = []
    for _ in range(3):
        rng.shuffle(names)
        lines = [f'%{name} = core_barrier @{rng.choice(("pe", "act"))} () -> () name="{name}"' for name in names]
        lines += [f"%s{k} = sendrecv @pool (%a) -> (%c) to={k}" for k in range(rng.randint(0, 2))]
        bodies.append("\n".join(lines[rng.randint(0, 2) :]) + "\n" + work("x"))
    assert np.isfinite(estimate(*bodies).makespan)


@settings(max_examples=examples(30))
@given(st.randoms(use_true_random=False))
def test_fences_that_are_only_given_count_as_if_they_stood_there(rng: Random) -> None:
    program = ordered(random_program(rng))
    fenced = ExtendSharedLifetimes().run(program, PassContext())
    rows = fence_rows(fenced)
    per_core = np.array([rows[fenced.instruction_core[rows] == core] for core in range(fenced.lnc)]).T
    # Fence k of a core has k fences and the cores before it in front of it.
    given_rows = per_core - np.arange(len(per_core))[:, None] - np.arange(fenced.lnc) * len(per_core)
    found = Estimator(program, TARGET).estimate(given_rows.astype(np.int32))
    assert found.makespan == pytest.approx(makespan(fenced, TARGET).makespan)
