"""Branches: which arm is taken and by whom, what waits for what across arms, and what is said when cores disagree."""

from typing import Any

import numpy as np
import pytest
from tests.sim.sim_programs import COUNTER, INT, constant, count, program, refusal, vector

from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate

NUMBERS = f"""
    mloc %c dram.local size=4 kind=input {INT}
    mloc %x dram.local size=4 kind=input {INT}
    mloc %y dram.local size=4 kind=inout {INT}
"""


def values(c: int, x: int = 5, y: int = 7) -> dict[str, Any]:
    return {"c": np.int32(c), "x": np.int32(x), "y": np.int32(y)}


def choose(then: str = "", other: str = "", join: str = "", fork: str = "", attrs: str = "", more: str = "") -> str:
    """One core; both arms of a branch on %c, a block with `fork` before, `join` behind."""
    return f"""
        {NUMBERS}
        {more}
        block ^fork -> ^then, ^else cond=c {attrs}:
        {fork}
        block ^then -> ^join:
        {then}
        block ^else -> ^join:
        {other}
        block ^join:
        {join}
    """


# -- which arm -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["list", "random:3", "slowest:0:vector", "slowest:0:branch"])
@pytest.mark.parametrize(("c", "y"), [(1, 10), (-3, 10), (0, 25)])
def test_one_arm_is_taken(c: int, y: int, schedule: str) -> None:
    text = program(
        choose("%a = add @vector (%x, %x) -> (%y)", "%b = multiply @vector (%x, %x) -> (%y)\n%n = nop @act () -> ()")
    )
    result = simulate(text, values(c), schedule=schedule)
    assert result.outputs["nc0/y"] == y
    assert result.statistics.instructions == (1 if c else 2)
    assert result.statistics.events == result.statistics.instructions + 1


@pytest.mark.parametrize(("c", "y"), [(1, 25), (0, 7)])
def test_an_arm_may_be_missing(c: int, y: int) -> None:
    text = program(f"""
        {NUMBERS}
        block ^fork -> ^then, ^join cond=c:
        block ^then -> ^join:
        %b = multiply @vector (%x, %x) -> (%y)
        block ^join:
    """)
    assert simulate(text, values(c)).outputs["nc0/y"] == y


BITS = f"""
    {NUMBERS}
    {constant("two", 2)}
    mloc %n dram.local size=4 kind=input {INT}
    {COUNTER.replace("mloc %n dram.local size=4 kind=input", "mloc %unused dram.local size=4")}
    mloc %odd dram.local size=4 {INT}
    block ^entry -> ^loop:
    %start = dma_copy @vector (%zero) -> (%i)
    block ^loop -> ^test, ^end cond=go:
    %more = compare @vector (%i, %n) -> (%go) direction=LT
    block ^test -> ^count, ^skip cond=odd:
    %bit = remainder @vector (%i, %two) -> (%odd)
    block ^count -> ^sub, ^low cond=c:
    block ^sub -> ^high:
    %minus = subtract @vector (%y, %i) -> (%y)
    block ^low -> ^high:
    %plus = add @vector (%y, %i) -> (%y)
    block ^high -> ^latch:
    block ^skip -> ^inner:
    block ^inner -> ^body, ^over cond=c:
    %once = subtract @vector (%c, %c) -> (%c)
    block ^body -> ^inner:
    %never = add @vector (%y, %x) -> (%y)
    block ^over -> ^latch:
    block ^latch -> ^loop:
    %step = add @vector (%i, %one) -> (%i)
    block ^end:
"""
"""Odd numbers below n are added up, or subtracted where %c is not zero; even ones set it to zero."""


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_branches_and_loops_stand_in_each_other(n: int) -> None:
    inputs = values(1, y=100) | count(n)
    odd = [k for k in range(n) if k % 2]
    text = program(BITS)
    assert simulate(text, inputs).outputs["nc0/y"] == 100 + sum(odd)
    assert compare_schedules(text, inputs, values=True).agrees
    keeps = BITS.replace("-> (%c)", "-> (%z)").replace("^over cond=c", "^over cond=z").replace("(%c, %c)", "(%x, %x)")
    subtracts = program(keeps.replace("block ^entry", f"mloc %z dram.local size=4 {INT}\nblock ^entry"))
    assert simulate(subtracts, inputs).outputs["nc0/y"] == 100 - sum(odd)


# -- what waits for what ---------------------------------------------------------------------------------------------


def test_arms_start_when_the_branch_is_decided() -> None:
    """Only the branch stands between the write of %c on one engine and that in an arm on another."""
    fork = "%set = dma_copy @dma0 (%x) -> (%c)"
    text = program(choose("%a = dma_copy @act (%x) -> (%c)", fork=fork))
    assert compare_schedules(text, values(0)).agrees
    early = program(choose("%a = dma_copy @act (%x) -> (%y)", fork="%set = dma_copy @dma0 (%x) -> (%y)"))
    assert not compare_schedules(early, values(1)).agrees
    assert compare_schedules(early, values(0)).agrees  # the other arm does not write


def test_engines_run_ahead_over_the_join() -> None:
    """A nop at the end of each arm waits for it, and one at the join, on the same engine, stands for all of it."""

    def text(waits: str) -> Program:
        then, other = (
            f"%{name} = dma_copy @dma0 (%x) -> (%y)\n%g{name} = nop @sync () -> () {waits.format(name)}"
            for name in "ab"
        )
        join = "%join = nop @sync () -> ()\n%use = add @act (%y, %x) -> (%z) deps=[join]"
        return program(choose(then, other, join, more=f"mloc %z dram.local size=4 kind=output {INT}"))

    for c in (0, 1):
        assert compare_schedules(text("deps=[{}]"), values(c), values=True).agrees
        assert not compare_schedules(text(""), values(c)).agrees


@pytest.mark.parametrize(
    ("then", "other", "join", "at"),
    [
        ("%a = nop @sync () -> ()", "", "%j = nop @act () -> () deps=[a]", "%j"),
        ("%a = nop @sync () -> ()", "%b = nop @act () -> () deps=[a]", "", "%b"),
        ("%a = nop @sync () -> () deps=[j]", "", "%j = nop @act () -> ()", "%a"),
    ],
)
def test_dependences_on_what_need_not_have_run_are_refused(then: str, other: str, join: str, at: str) -> None:
    diagnostic = refusal(program(choose(then, other, join)), inputs=values(1))
    assert (diagnostic.code, diagnostic.labels[0].message) == ("bad-input", f"{at} on core 0")


@pytest.mark.parametrize(("table", "agrees"), [([1, 1, 1], True), ([1, 0, 1], True), ([1, 1, 0], True)])
def test_nothing_is_carried_from_an_arm_that_was_not_taken(table: list[int], agrees: bool) -> None:
    """An arm's load waits for its use of the iteration before, if there was one."""

    def text(carried: str) -> Program:
        return program(f"""
            {COUNTER}
            mloc %table dram.local size=3 kind=input dtype=u8 shape=[3]
            mloc %take dram.local size=1 dtype=u8 shape=[]
            {vector("x", attrs="kind=input")}
            {vector("b")}
            {vector("s", attrs="kind=inout")}
            block ^entry -> ^loop:
            %start = dma_copy @vector (%zero) -> (%i)
            block ^loop -> ^fork, ^end cond=go trip=3:
            %test = compare @vector (%i, %n) -> (%go) direction=LT
            block ^fork -> ^then, ^latch cond=take:
            %which = dma_copy @vector (%table[0:1]) -> (%take) step=[[0,loop,1,0]]
            block ^then -> ^latch:
            %load = dma_copy @dma0 (%x) -> (%b) {carried}
            %use = add @act (%s, %b) -> (%s) deps=[load]
            block ^latch -> ^loop:
            %step = add @vector (%i, %one) -> (%i)
            block ^end:
        """)

    inputs = count(3) | {
        "table": np.array(table, np.uint8), "x": np.ones(4, np.float32), "s": np.zeros(4, np.float32)
    }  # fmt: skip
    report = compare_schedules(text("carried=[use]"), inputs, values=True)
    assert simulate(text("carried=[use]"), inputs).outputs["nc0/s"][0] == sum(table)
    # With an iteration between that does not take the arm, nothing orders the two loads' iterations.
    assert report.agrees == (table != [1, 0, 1])
    assert not compare_schedules(text(""), inputs).agrees


# -- cores -----------------------------------------------------------------------------------------------------------


def test_cores_agree_at_a_fork_that_is_not_divergent() -> None:
    text = program(choose(), choose())
    diagnostic = refusal(text, "barrier-mismatch", {"nc0/c": np.int32(0), **values(1)})
    assert diagnostic.message == "cores take different branches at ^fork"
    assert [label.message for label in diagnostic.labels] == ["core 0 takes ^else", "core 1 takes ^then"]
    assert all(label.span is not None for label in diagnostic.labels)
    assert "divergent=true" in diagnostic.help[0]
    assert not simulate(text, values(1)).diagnostics


def exchange(me: int, then: str, other: str, attrs: str = "divergent=true", join: str = "") -> str:
    return choose(
        f"%a = add @vector (%x, %x) -> (%mine)\n{then}",
        f"%d = multiply @vector (%x, %x) -> (%mine)\n{other}",
        f"%get = dma_copy @vector (%theirs) -> (%y)\n{join}",
        attrs=attrs,
        more=f"mloc %mine dram.shared size=4 {INT}\nmloc %theirs dram.shared size=4 {INT} remote=[mine,{1 - me}]",
    )


INPUTS = {"x": np.int32(5), "nc0/x": np.int32(3), "y": np.int32(0)}


def ways(lnc: int = 2) -> list[dict[str, Any]]:
    """Inputs by which cores take their arms in every way."""
    return [
        INPUTS | {f"nc{core}/c": np.int32(way >> core & 1) for core in range(lnc)} for way in range(1 << lnc)
    ]  # fmt: skip


def test_cores_meet_by_index_in_different_arms() -> None:
    meet = "%{0} = core_barrier @all () -> () name={0}"
    text = program(*(exchange(me, meet.format("m"), meet.format("e")) for me in (0, 1)))
    for inputs in ways():
        result = simulate(text, inputs)
        sent = [int(inputs[f"nc{core}/x"] if core == 0 else 5) for core in (0, 1)]
        sent = [2 * x if inputs[f"nc{core}/c"] else x * x for core, x in enumerate(sent)]
        assert [result.outputs[f"nc{core}/y"].item() for core in (0, 1)] == sent[::-1]
        assert result.statistics.barriers == 1
        assert compare_schedules(text, inputs, values=True).agrees
        racy = program(*(exchange(me, meet.format("m").replace("all", "pe"), meet.format("e")) for me in (0, 1)))
        if inputs["nc0/c"] == inputs["nc1/c"] == 1:
            assert not compare_schedules(racy, inputs).agrees
        elif inputs["nc0/c"] != inputs["nc1/c"]:
            assert refusal(racy, "barrier-mismatch", inputs)


def test_exchanges_pair_up_across_arms() -> None:
    def core(me: int) -> str:
        go = "%{} = sendrecv @dma0 (%x) -> (%y) to={} from={} tag=t"
        return choose(
            go.format("a", 1 - me, 1 - me), f"%slow = nop @dma0 () -> ()\n{go.format('b', 1 - me, 1 - me)}",
            attrs="divergent=true",
        )  # fmt: skip

    text = program(core(0), core(1))
    for inputs in ways():
        for schedule in ("list", "random:2", "slowest:1:dma0"):
            outputs = simulate(text, inputs, schedule=schedule).outputs
            assert [outputs[f"nc{core}/y"].item() for core in (0, 1)] == [5, 3]
        assert compare_schedules(text, inputs).agrees


@pytest.mark.parametrize(
    ("then", "other", "code", "says"),
    [
        ("%m = core_barrier @all () -> () name=m", "", "barrier-mismatch", "'m' on core 0, missing on core 1"),
        ("%m = sendrecv @dma0 (%x) -> () to=1 tag=t", "", "deadlock", "tagged 't' has no partner on core 1"),
        ("%m = core_barrier @pe () -> () name=m\n%k = core_barrier @all () -> () name=k",
         "%k2 = core_barrier @all () -> () name=k\n%m2 = core_barrier @pe () -> () name=m", "deadlock", "cycle"),
    ],
)  # fmt: skip
def test_arms_that_do_not_meet_are_told(then: str, other: str, code: str, says: str) -> None:
    text = program(exchange(0, then, other), exchange(1, then, other))
    assert says in refusal(text, code, ways()[1]).message


def test_names_of_barriers_in_one_arm_must_be_equal() -> None:
    meet = "%m = core_barrier @all () -> () name={}"
    text = program(exchange(0, meet.format("a"), ""), exchange(1, meet.format("b"), ""))
    assert "'a' on core 0, 'b' on core 1" in refusal(text, "barrier-mismatch", ways()[3]).message
    late = "%m = core_barrier @all () -> () name={}"
    behind = program(exchange(0, late.format("a"), ""), exchange(1, "", "", join=late.format("b")))
    assert refusal(behind, "barrier-mismatch", ways()[3])


def test_divergent_branches_in_loops_part_and_meet_again() -> None:
    """In iteration k core 0 sends on odd k what core 1 receives in its other arm; both keep a sum."""

    def core(me: int) -> str:
        send = "%s{0} = sendrecv @dma0 (%i) -> () to={1} tag=t carried=[step] deps=[p{0}]"
        take = (
            "%t{0} = sendrecv @dma0 () -> (%w) from={1} tag=t deps=[p{0}]\n"
            "%u{0} = add @vector (%y, %w) -> (%y) deps=[t{0}]"
        )
        place = "%p{0} = nop @vector () -> ()"
        first, second = (send, take) if me == 0 else (take, send)
        return f"""
            {NUMBERS}
            {constant("two", 2)}
            {COUNTER}
            mloc %odd dram.local size=4 {INT}
            mloc %w dram.local size=4 {INT}
            block ^entry -> ^loop:
            %start = dma_copy @vector (%zero) -> (%i)
            block ^loop -> ^test, ^end cond=go:
            %more = compare @vector (%i, %n) -> (%go) direction=LT
            block ^test -> ^then, ^else cond=odd divergent=true:
            %bit = remainder @vector (%i, %two) -> (%odd)
            block ^then -> ^latch:
            {place.format(0)}
            {first.format(0, 1 - me)}
            block ^else -> ^latch:
            {place.format(1)}
            {second.format(1, 1 - me)}
            block ^latch -> ^loop:
            %step = add @vector (%i, %one) -> (%i)
            block ^end:
        """

    text = program(core(0), core(1))
    inputs = values(0, y=0) | count(6)
    outputs = simulate(text, inputs).outputs
    assert [outputs[f"nc{core}/y"].item() for core in (0, 1)] == [0 + 2 + 4, 1 + 3 + 5]
    # The step of an iteration may overtake the send of %i.
    assert not compare_schedules(text, inputs).agrees


def test_exchanges_may_meet_across_the_sections_of_a_loop() -> None:
    """Core 0 sends in the header, core 1 receives in the body: the header's last one is received behind the loop."""

    def core(header: str, body: str, behind: str) -> str:
        return f"""
            {NUMBERS}
            {COUNTER}
            block ^entry -> ^loop:
            %start = dma_copy @vector (%zero) -> (%i)
            block ^loop -> ^body, ^end cond=go:
            %test = compare @vector (%i, %n) -> (%go) direction=LT
            {header}
            block ^body -> ^loop:
            {body}
            %step = add @vector (%i, %one) -> (%i)
            block ^end:
            {behind}
        """

    take = "%{} = sendrecv @vector () -> (%y) from=0 tag=t"
    text = program(
        core("%send = sendrecv @vector (%i) -> () to=1 tag=t", "", ""),
        core("", take.format("one"), take.format("two")),
    )
    inputs = values(0) | count(3)
    for schedule in ("list", "random:1", "slowest:0:vector", "slowest:1:vector"):
        assert simulate(text, inputs, schedule=schedule).outputs["nc1/y"] == 3
    assert compare_schedules(text, inputs, values=True).agrees
    lonely = program(core("%send = sendrecv @vector (%i) -> () to=1 tag=t", "", ""), core("", take.format("one"), ""))
    assert "exchange 3 from core 0 to core 1" in refusal(lonely, "deadlock", inputs).message


# -- what nobody knows -----------------------------------------------------------------------------------------------


def test_programs_that_cannot_be_executed_are_compared_in_both_arms() -> None:
    def text(then: str, other: str) -> Program:
        load = "%{0} = frobnicate @dma0 (%x) -> (%y)\n%{0}2 = frobnicate @act (%y) -> (%x) {1}"
        return program(choose(load.format("a", then), load.format("b", other)))

    for then, other, agrees in (("deps=[a]", "deps=[b]", True), ("", "deps=[b]", False), ("deps=[a]", "", False)):
        report = compare_schedules(text(then, other))
        assert report.agrees == agrees and report.assumed == ("^fork",)


def test_a_branch_that_strays_under_a_schedule_is_reported() -> None:
    late = f"mloc %d dram.local size=4 kind=inout {INT}\nblock ^entry -> ^fork:\n%late = dma_copy @dma0 (%x) -> (%d)"
    text = program(choose().replace("cond=c", "cond=d").replace("block ^fork", f"{late}\nblock ^fork"))
    (diagnostic,) = simulate(text, values(0) | {"d": np.int32(0)}, schedule="slowest:0:dma0").diagnostics
    assert diagnostic.code == "missing-dependence"
    assert "the branch of ^fork on core 0 takes ^else, unlike under `list`" in diagnostic.message
