"""A thread a queue: what dependences, barriers and semaphores order is ordered, and nothing else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.runtime.programs import placed
from tests.runtime.test_run import SOURCES, WAYS, refusal, values_of
from tests.sim.sim_programs import NESTED, count, counting, vector

import haulout
from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout.report.timeline import run_trace
from haulout.runtime.lines import Line
from haulout.runtime.prepare import _Binder
from haulout.sim.steps.make import Step
from haulout_generators.branch_programs import random_branch_program, random_inputs

Slow = Callable[[int], None]


def outputs(program: Program, given: Any = None) -> dict[str, list[Any]]:
    return {name: value.tolist() for name, value in haulout.run(program, given, queues=True).outputs.items()}


def expect_same(program: Program, given: Any = None) -> None:
    wanted = haulout.simulate(program, given).outputs
    found = haulout.run(program, given, queues=True).outputs
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A function that lets one engine or queue take a while for each instruction."""
    compute = _Binder._compute

    def choose(engine: int) -> None:
        def slowed(self: _Binder, line: Line, row: int) -> Step:
            step = compute(self, line, row)

            def run() -> None:
                time.sleep(0.005)
                step()

            return run if line.engine == engine else step

        monkeypatch.setattr(_Binder, "_compute", slowed)

    return choose


@pytest.mark.thin(20, "1 s each")
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_bits_are_those_of_the_simulator(name: str) -> None:
    source = SOURCES[name]
    fences, sync = WAYS[(sorted(SOURCES).index(name) + 1) % len(WAYS)]
    expect_same(haulout.compile(source, fences=fences, sync=sync).program, values_of(source))


@pytest.mark.parametrize("seed", range(4))
def test_branches_that_cores_decide_for_themselves(seed: int) -> None:
    rng = Random(f"queues {seed}")
    source = random_branch_program(rng, cores=2, divergent=0.3)
    expect_same(haulout.compile(source, sync=rng.choice(("edges", "all"))).program, random_inputs(rng, source))


@pytest.mark.parametrize(
    ("text", "given"),
    [(counting(), count(5)), (NESTED, {"n": np.int32(3), "m": np.int32(4), "s": np.int32(0)})],
)
def test_conditions_are_read_from_the_arena(text: str, given: Any) -> None:
    expect_same(placed(text), given)


# -- what list order cannot run --------------------------------------------------------------------------------------


def test_barriers_that_are_crossed_on_two_engines() -> None:
    one, two = '%a = core_barrier @pe () -> () name="a"', '%b = core_barrier @act () -> () name="b"'
    crossed = placed(f"{one}\n{two}", f"{two}\n{one}")
    refusal(crossed, "deadlock")
    assert haulout.run(crossed, queues=True).instructions == 4


def test_a_wait_that_the_list_has_before_its_signal() -> None:
    made = placed("%w = nop @act () -> () wait=[[s,1]]\n%t = nop @pool () -> () signal=[[s,1]]")
    refusal(made, "deadlock")
    haulout.run(made, queues=True)


# -- order inside a core ---------------------------------------------------------------------------------------------

LOOP = """
    mloc %b dram.local size=4 dtype=s32 shape=[]
    mloc %s dram.local size=4 kind=inout dtype=s32 shape=[]
"""


def pipeline(load: str, use: str) -> Program:
    """Each iteration puts its number into %b on a queue, and adds %b to %s on an engine."""
    body = f"%load = copy @dma0 (%i) -> (%b) deps=[test] {load}\n%use = add @pool (%s, %b) -> (%s) {use}"
    text = counting(body=body, locations=LOOP).replace("%step = add @vector (%i, %one) -> (%i)", "")
    step = "%step = add @vector (%i, %one) -> (%i) deps=[load]"
    return placed(text.replace("block ^end:", f"{step}\nblock ^end:"))


GIVEN = {"n": np.int32(6), "s": np.int32(0)}


@pytest.mark.parametrize("engine", [Engine.DMA0, Engine.POOL, Engine.VECTOR])
def test_dependences_hold_whoever_is_slow(engine: Engine, slow: Slow) -> None:
    slow(engine)
    assert outputs(pipeline("carried=[use]", "deps=[load]"), GIVEN) == {"nc0/s": 15}


@pytest.mark.parametrize(("load", "use", "engine"), [("", "deps=[load]", Engine.POOL), ("", "", Engine.DMA0)])
def test_nothing_else_orders_queues(load: str, use: str, engine: Engine, slow: Slow) -> None:
    slow(engine)
    assert outputs(pipeline(load, use), GIVEN) != {"nc0/s": 15}


def test_a_fence_waits_for_all_queues_of_its_core(slow: Slow) -> None:
    slow(Engine.DMA0)
    locations = "\n".join([vector("x", attrs="kind=input"), vector("y"), vector("z", attrs="kind=output")])
    fence = '%f = core_barrier @all () -> () name="f"'
    made = placed(f"{locations}\n%a = copy @dma0 (%x) -> (%y)\n{fence}\n%b = copy @pool (%y) -> (%z)", fence)
    assert outputs(made, {"x": np.ones(4, np.float32)}) == {"nc0/z": [1.0] * 4}


def test_exchanges_meet_by_their_place_in_the_lists(slow: Slow) -> None:
    """The second one of core 0 is ready first, but it is not the first that core 1 receives."""
    slow(Engine.DMA0)
    send = "\n".join([vector("x", attrs="kind=input"), vector("y"), vector("z", attrs="kind=input")])
    receive = "\n".join([vector("p", attrs="kind=output"), vector("q", attrs="kind=output")])
    made = placed(
        f"{send}\n%c = copy @dma0 (%x) -> (%y)\n%s = sendrecv @dma0 (%y) -> () to=1 tag=t\n"
        "%t = sendrecv @dma1 (%z) -> () to=1 tag=t",
        f"{receive}\n%r = sendrecv @dma0 () -> (%p) from=0 tag=t\n%u = sendrecv @dma1 () -> (%q) from=0 tag=t",
    )
    ones, twos = np.ones(4, np.float32), np.full(4, 2, np.float32)
    assert outputs(made, {"x": ones, "z": twos}) == {"nc1/p": [1.0] * 4, "nc1/q": [2.0] * 4}


def test_wait_back_counts_what_the_list_has_before_it(slow: Slow) -> None:
    """The wait is for the signal of the slow copy, in every iteration."""
    slow(Engine.DMA0)
    body = (
        "%load = copy @dma0 (%i) -> (%b) deps=[test] carried=[use] signal=[[s,1]]\n"
        "%use = add @pool (%s, %b) -> (%s) wait_back=[[s,0]]"
    )
    text = counting(body="", locations=LOOP).replace("%step = add", f"{body}\n%step = add", 1)
    text = text.replace(
        "%step = add @vector (%i, %one) -> (%i)", "%step = add @vector (%i, %one) -> (%i) deps=[load]"
    )
    assert outputs(placed(text), GIVEN) == {"nc0/s": 15}


# -- errors ----------------------------------------------------------------------------------------------------------


def test_a_deadlock_names_the_queues_that_wait() -> None:
    made = placed(
        "%w = nop @act () -> () wait=[[s,1]]\n%v = nop @pe () -> () deps=[w]\n%u = nop @pool () -> ()",
        "%w = nop @dma0 () -> () wait=[[s,1]]\n%t = nop @dma0 () -> () remote_signal=[[0,s,1]]",
    )
    found = refusal(made, "deadlock", queues=True)
    assert "core 0 act waits for semaphore s of core 0 to be at least 1" in found.message
    assert "core 0 pe waits for %w on core 0" in found.message
    assert "core 1 dma0 waits for semaphore s of core 1" in found.message
    assert "pool" not in found.message
    assert len(found.labels) == 3


def test_a_fence_without_partner_is_one_wait_of_all_queues() -> None:
    made = placed('%a = nop @act () -> ()\n%b = nop @pe () -> ()\n%f = core_barrier @all () -> () name="f"', "")
    found = refusal(made, "deadlock", queues=True)
    assert found.message == "no core can go on: core 0 pe, act waits for barrier 'f', core 1 is at its end"
    assert len(found.labels) == 1


def test_queues_that_wait_for_a_branch_are_named() -> None:
    made = placed(
        counting(header="%w = nop @pool () -> () wait=[[s,1]]").replace("-> (%go)", "-> (%go) wait=[[s,1]]")
    )
    found = refusal(made, "deadlock", count(3), queues=True)
    assert "core 0 branch waits for %test on core 0" in found.message


def test_barriers_of_different_names_are_a_mismatch() -> None:
    work = "%p = nop @pe () -> ()\n%q = nop @pool () -> ()\n"
    made = placed(*(f'{work}%m = core_barrier @all () -> () name="{name}"' for name in "ab"))
    assert "'a' on core 0, 'b' on core 1" in refusal(made, "barrier-mismatch", queues=True).message


def test_a_defect_in_one_queue_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    compute = _Binder._compute
    monkeypatch.setattr(
        _Binder,
        "_compute",
        lambda self, line, row: broken if line.engine == Engine.POOL else compute(self, line, row),
    )
    with pytest.raises(ZeroDivisionError):
        haulout.run(pipeline("carried=[use]", "deps=[load]"), GIVEN, queues=True)
    assert threading.active_count() == 1


def test_loops_that_do_not_end_are_ended() -> None:
    found = refusal(placed(counting()), "bad-input", count(10**6), max_instructions=1000, queues=True)
    assert "do not end" in found.message


def test_the_trace_has_a_thread_a_queue() -> None:
    source = Path(SOURCES["mlp_tp.n2"])
    program = haulout.compile(source).program
    result = haulout.run(program, values_of(source), trace=True, queues=True)
    events = json.loads(run_trace(program, result.spans))["traceEvents"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert {process for process, _ in names} == {1, 2}
    assert len(names) > 2
    engines = {
        event["name"]: names[event["pid"], event["tid"]] for event in events if event.get("cat") == "instruction"
    }
    for row in range(len(program.instructions)):
        text = engines.get(program.instruction_name(row))
        assert text is None or text == Engine(int(program.instructions.engine[row])).text
