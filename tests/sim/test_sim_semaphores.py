"""Semaphores: what a wait waits for, signals to other cores and their delay, and what hangs is told."""

from typing import Any

import numpy as np
import pytest
from tests.sim.sim_programs import COUNTER, INT, count, program, refusal, vector
from tests.sim.test_sim_loop_order import PIPELINE, pipeline

from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.sim import ScheduleReport, compare_schedules, reference, simulate
from haulout.sim.flow.visits import Visits
from haulout.sim.plan import Plan, Prepared
from haulout.support.diagnostics import HauloutError

XAY = "\n".join(vector(name, attrs=attrs) for name, attrs in (("x", "kind=input"), ("a", ""), ("y", "kind=output")))
ONES = {"x": np.ones(4, np.float32)}


def one_core(put: str, get: str, more: str = "") -> Program:
    """A copy on a queue and its use on an engine."""
    return program(
        f"{XAY}\n%put = dma_copy @dma0 (%x) -> (%a) {put}\n%get = add @vector (%a, %a) -> (%y) {get}\n{more}"
    )


@pytest.mark.parametrize(
    ("put", "get", "agrees"),
    [
        ("signal=[[s,1]]", "wait=[[s,1]]", True),
        ("signal=[[s,5]]", "wait=[[s,3]]", True),
        ("signal=[[s,2],[t,1]]", "wait=[[s,2],[t,1]]", True),
        ("signal=[[s,1]]", "wait_back=[[s,0]]", True),
        ("signal=[[s,1]]", "", False),
        ("signal=[[s,1]]", "wait=[[s,0]]", False),
        ("signal=[[s,1]]", "wait_back=[[s,1]]", False),
        ("signal=[[s,1]]", "wait_back=[[t,0]]", False),
        ("", "wait_back=[[s,0]]", False),
    ],
)
def test_a_wait_waits_for_the_signal_that_it_needs(put: str, get: str, agrees: bool) -> None:
    text = one_core(put, get)
    assert compare_schedules(text).agrees == agrees
    if agrees:
        for schedule in ("list", "random:1", "slowest:0:dma0"):
            assert simulate(text, ONES, schedule=schedule).outputs["nc0/y"].tolist() == [2] * 4


@pytest.mark.parametrize(("need", "agrees"), [(1, False), (2, True)])
def test_of_several_signallers_a_wait_needs_one_only_when_the_others_do_not_suffice(need: int, agrees: bool) -> None:
    """Another queue signals the same semaphore; who comes first is not known."""
    other = "%other = nop @dma1 () -> () signal=[[s,1]]"
    assert compare_schedules(one_core("signal=[[s,1]]", f"wait=[[s,{need}]]", other)).agrees == agrees


def test_a_signal_counts_when_the_exchange_is_complete() -> None:
    def text(wait: str) -> Program:
        return program(
            f"{XAY}\n%go = sendrecv @dma0 () -> (%a) from=1 tag=t signal=[[s,1]]\n"
            f"%get = add @vector (%a, %a) -> (%y) {wait}",
            f"{XAY}\n%go = sendrecv @dma0 (%x) -> () to=0 tag=t\n%own = dma_copy @act (%x) -> (%y)",
        )

    assert compare_schedules(text("wait=[[s,1]]")).agrees
    assert not compare_schedules(text("")).agrees


def test_a_barrier_waits_and_signals_for_each_of_its_cores() -> None:
    """Both cores' copies are complete when the barrier on one engine is passed, and what waits for it sees that."""

    def core(me: int, wait: str, signal: str) -> str:
        return f"""
            {vector("x", attrs="kind=input")}
            {vector(f"s{me}", "dram.shared")}
            {vector(f"s{1 - me}", "dram.shared", f"remote=[s{1 - me},{1 - me}]")}
            {vector("y", attrs="kind=output")}
            %put = dma_copy @dma0 (%x) -> (%s{me}) signal=[[put,1]]
            %meet = core_barrier @pool () -> () name=m {wait} {signal}
            %get = dma_copy @dma1 (%s{1 - me}) -> (%y) wait=[[met,1]]
        """

    wait, signal = "wait=[[put,1]]", "signal=[[met,1]]"
    assert compare_schedules(program(core(0, wait, signal), core(1, wait, signal))).agrees
    assert not compare_schedules(program(core(0, wait, signal), core(1, "", signal))).agrees
    assert not compare_schedules(program(core(0, "", signal), core(1, wait, signal))).agrees


def two_cores(put: str, get: str, first: str = "", second: str = "") -> Program:
    """Core 0 puts into a shared location, core 1 gets it."""
    return program(
        f"{vector('x', attrs='kind=input')}\n{vector('s', 'dram.shared')}\n"
        f"%put = dma_copy @dma0 (%x) -> (%s) {put}\n{first}",
        f"{vector('s', 'dram.shared', 'remote=[s,0]')}\n{vector('y', attrs='kind=output')}\n"
        f"%get = add @vector (%s, %s) -> (%y) {get}\n{second}",
    )


def test_a_signal_to_another_core_orders_what_comes_before_it() -> None:
    text = two_cores("remote_signal=[[1,full,1]]", "wait=[[full,1]]")
    result = simulate(text, ONES)
    assert result.outputs["nc1/y"].tolist() == [2] * 4
    assert (result.statistics.instructions, result.statistics.events) == (2, 3)
    assert compare_schedules(text, ONES, ["list", *(f"random:{seed}" for seed in range(5))], values=True).agrees
    assert compare_schedules(text).agrees
    assert {each.code for each in compare_schedules(two_cores("", "")).diagnostics} == {"cross-core-race"}
    # A semaphore of the same name on the own core is another one.
    assert "reaches 0" in refusal(two_cores("signal=[[full,1]]", "wait=[[full,1]]"), "deadlock").message


def test_signals_of_one_core_to_another_may_overtake_each_other() -> None:
    """Two puts signal the same semaphore in turn; the first delivery may be the second's."""
    other = "%other = nop @dma1 () -> () remote_signal=[[1,full,1]]"
    for need, agrees in ((1, False), (2, True)):
        text = two_cores("remote_signal=[[1,full,1]]", f"wait=[[full,{need}]]", other)
        assert compare_schedules(text).agrees == agrees
    # Nor does an engine keep its signals in order once they are under way.
    behind = two_cores("remote_signal=[[1,full,1]]", "wait=[[full,1]]", other.replace("dma1", "dma0"))
    assert compare_schedules(behind).agrees  # whichever comes first, %put is complete


@pytest.mark.parametrize(("cores", "drop"), [(2, False), (3, False), (3, True)])
def test_a_barrier_of_signals_is_one(cores: int, drop: bool) -> None:
    """Every core sends 1 to each other one and waits for as many; the waits look back, in loops too."""

    def core(me: int) -> str:
        others = [core for core in range(cores) if core != me]
        told = others[1:] if drop and me == 0 else others

        def fence(name: str, to: list[int]) -> str:
            sends = ",".join(f"[{other},met,1]" for other in to)
            return (
                f"%{name} = nop @vector () -> () remote_signal=[{sends}]\n"
                f"%{name}w = nop @vector () -> () wait_back=[[met,0]]"
            )

        return f"""
            {COUNTER}
            mloc %v dram.local size=4 kind=inout {INT}
            mloc %mine dram.shared size=4 {INT}
            mloc %theirs dram.shared size=4 {INT} remote=[mine,{(me + 1) % cores}]
            block ^entry -> ^loop:
            %start = dma_copy @vector (%zero) -> (%i)
            block ^loop -> ^body, ^end cond=go:
            %test = compare @vector (%i, %n) -> (%go) direction=LT
            block ^body -> ^loop:
            %step = add @vector (%i, %one) -> (%i)
            %put = add @vector (%v, %i) -> (%mine)
            {fence("full", told)}
            %get = dma_copy @vector (%theirs) -> (%v)
            {fence("free", others)}
            block ^end:
        """

    text = program(*(core(me) for me in range(cores)))
    inputs = count(3) | {f"nc{me}/v": np.int32(10 * me) for me in range(cores)}
    if drop:
        diagnostic = refusal(text, "deadlock", inputs)
        assert "wait" in diagnostic.message
        return
    for schedule in ("list", *(f"random:{seed}" for seed in range(4))):
        outputs = simulate(text, inputs, schedule=schedule).outputs
        assert [outputs[f"nc{me}/v"] for me in range(cores)] == [10 * ((me + 3) % cores) + 6 for me in range(cores)]
    assert compare_schedules(text, inputs, values=True).agrees


def test_credits_let_a_producer_run_ahead() -> None:
    """Two buffers between cores; the k-th send waits until all tiles but the one before it have been taken.

    `wait_back` counts what the own core issues, so each side also signals what it waits for: one for every tile.
    """

    def core(header: str, body: str) -> str:
        return f"""
            {COUNTER}
            {header}
            block ^entry -> ^loop:
            %start = dma_copy @vector (%zero) -> (%i)
            block ^loop -> ^body, ^end cond=go:
            %test = compare @vector (%i, %n) -> (%go) direction=LT
            block ^body -> ^loop:
            {body}
            %step = add @vector (%i, %one) -> (%i)
            block ^end:
        """

    def text(back: int) -> Program:
        buffer = "mloc %b dram.shared size=8 dtype=s32 shape=[2]"
        send = (
            "%send = dma_copy @vector (%i) -> (%b[0:4]) step=[[1,loop,4,2]] "
            f"remote_signal=[[1,full,1],[1,free,1]] wait_back=[[free,{back}]]"
        )
        take = (
            "%ask = nop @dma0 () -> () remote_signal=[[0,full,1]]\n"
            "%take = add @dma0 (%b[0:4], %s) -> (%s) step=[[0,loop,4,2]] shapes=[[],[],[]] dtypes=[s32,s32,s32] "
            "wait_back=[[full,0]] remote_signal=[[0,free,1]]"
        )
        return program(
            core(buffer, send), core(f"{buffer} remote=[b,0]\nmloc %s dram.local size=4 kind=inout {INT}", take)
        )

    inputs = count(5) | {"s": np.int32(0)}
    for back, agrees in ((0, True), (1, True), (2, False)):
        assert compare_schedules(text(back), inputs).agrees == agrees
    for schedule in ("list", "random:1", "slowest:0:vector", "slowest:1:dma0"):
        assert simulate(text(1), inputs, schedule=schedule).outputs["nc1/s"] == 10


# -- what hangs ------------------------------------------------------------------------------------------------------


def test_a_wait_that_nothing_fulfils_is_told() -> None:
    diagnostic = refusal(one_core("signal=[[s,1]]", "wait=[[s,2]]"), "deadlock")
    assert diagnostic.message == "%get on core 0 deadlocks: semaphore s of core 0 reaches 1, expected 2"
    assert [label.message for label in diagnostic.labels] == ["%get on core 0", "%put on core 0 adds to it"]
    assert all(label.span is not None for label in diagnostic.labels)
    nobody = refusal(one_core("", "wait=[[s,1]]"), "deadlock")
    assert "reaches 0" in nobody.message and len(nobody.labels) == 1


def test_waits_that_wait_for_each_other_are_a_cycle() -> None:
    diagnostic = refusal(one_core("signal=[[s,1]] wait=[[t,1]]", "wait=[[s,1]] signal=[[t,1]]"), "deadlock")
    assert "core 0: 2 waits form a cycle" in diagnostic.message
    assert sorted(label.message for label in diagnostic.labels) == [
        "%get on core 0 waits for semaphore s of core 0 to be at least 1; it is 0 until %put on core 0 is complete",
        "%put on core 0 waits for semaphore t of core 0 to be at least 1; it is 0 until %get on core 0 is complete",
    ]
    free = "%f = nop @vector () -> () remote_signal=[[0,free,1]]"
    remote = two_cores("remote_signal=[[1,full,1]] wait=[[free,1]]", "wait=[[full,1]]", "", free)
    diagnostic = refusal(remote, "deadlock")
    assert "cores 0, 1: 3 waits form a cycle" in diagnostic.message
    own = refusal(one_core("signal=[[s,1]] wait=[[s,1]]", ""), "deadlock")
    assert "core 0: 1 wait forms a cycle" in own.message


def test_a_wait_before_a_branch_that_hangs_is_told() -> None:
    """Core 1 would signal behind its branch, which waits for core 0."""

    def core(header: str, behind: str) -> str:
        return f"""
            mloc %c dram.local size=4 kind=input {INT}
            mloc %d dram.local size=4 {INT}
            block ^fork -> ^then, ^join cond=d:
            %set = dma_copy @dma0 (%c) -> (%d) {header}
            block ^then -> ^join:
            block ^join:
            {behind}
        """

    signal = "%s = nop @act () -> () remote_signal=[[{},s,1]]"
    inputs: dict[str, Any] = {"c": np.int32(0)}
    text = program(core("wait=[[s,1]]", signal.format(1)), core("wait=[[s,1]]", signal.format(0)))
    diagnostic = refusal(text, "deadlock", inputs)
    assert "waits form a cycle" in diagnostic.message
    says = "until core 1 reaches a signal after the branch of ^fork on core 1"
    assert any(says in label.message for label in diagnostic.labels)
    fine = program(core("wait=[[s,1]]", ""), core("", signal.format(0)))
    assert simulate(fine, inputs).statistics.events == 6
    meet = "%m = core_barrier @all () -> () name=m"
    meets = program(core("", meet), core("wait=[[s,1]]", meet))
    assert "reaches 0" in refusal(meets, "deadlock", inputs).message


# -- lowered ---------------------------------------------------------------------------------------------------------


def lowered(text: Program, **options: Any) -> Program:
    return LowerSync(**options).run(text, PassContext())


def without_signal(text: Program, at: int) -> Program:
    signals = np.flatnonzero(~text.semaphores.wait)
    return text.replace(semaphores=text.semaphores.take(np.arange(len(text.semaphores)) != signals[at]))


def found(text: Program, inputs: Any) -> bool:
    """Whether the program hangs or depends on the schedule."""
    try:
        report: ScheduleReport = compare_schedules(text, inputs)
    except HauloutError as error:
        assert [each.code for each in error.diagnostics] == ["deadlock"]
        return True
    return not report.agrees


@pytest.mark.parametrize("trip", ["trip=3", ""])
@pytest.mark.parametrize("semaphores", [1, 32])
def test_lowered_loops_run_as_before(trip: str, semaphores: int) -> None:
    text = pipeline("carried=[use]", "deps=[load]", trip)
    low = lowered(text, semaphores=semaphores)
    assert not len(low.dependences) and len(low.semaphores)
    for schedule in ("list", "random:1", "slowest:0:act", "slowest:0:dma0"):
        assert simulate(low, PIPELINE, schedule=schedule).outputs["nc0/s"].tolist() == [3] * 4
    assert compare_schedules(low, PIPELINE, values=True).agrees


@pytest.mark.parametrize("at", [0, 1])
def test_a_lowered_loop_needs_every_signal(at: int) -> None:
    low = lowered(pipeline("carried=[use]", "deps=[load]"))
    assert int((~low.semaphores.wait).sum()) == 2
    assert not found(low, PIPELINE)
    assert found(without_signal(low, at), PIPELINE)


@pytest.mark.parametrize("ahead", ["%w = nop @act () -> () signal=[[s,1]] wait_back=[[s,0]]", ""])
def test_a_core_that_stays_behind_leaves_little_pending(ahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One core waits for ever at a barrier in a loop; the other one goes round it again and again."""
    longest = []
    plan = reference.plan_visits

    def watched(prepared: Prepared, visits: Visits, *rest: Any) -> Plan:
        longest.append(len(visits))
        return plan(prepared, visits, *rest)

    monkeypatch.setattr(reference, "plan_visits", watched)
    loop = "mloc %c dram.local size=1 kind=input\nblock ^a -> ^b, ^z cond=c:\nblock ^b -> ^a:\n{}\nblock ^z:"
    text = program(loop.format('%m = core_barrier @all () -> () name="m"'), loop.format(ahead))
    with pytest.raises(HauloutError, match="do not end"):
        simulate(text, {"c": np.ones(1, np.uint8)}, max_instructions=200)
    assert len(longest) > 50
    assert max(longest) <= 4
