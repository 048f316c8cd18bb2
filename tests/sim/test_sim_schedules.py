"""What may overtake what: barriers of all kinds, exchanges, races found by shadow, deadlocks named."""

from typing import Any

import numpy as np
import pytest
from tests.sim.sim_programs import program, vector

from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate
from haulout.sim.events.schedules import parse_schedule
from haulout.support.diagnostics import HauloutError


def producer_and_consumer(producer: str, consumer: str) -> Program:
    """Core 0 puts x into a shared buffer, core 1 reads it."""
    return program(
        f"""
        {vector("x", attrs="kind=input")}
        {vector("part", "dram.shared")}
        {producer}
        """,
        f"""
        {vector("part", "dram.shared", "remote=[part,0]")}
        {vector("y", attrs="kind=output")}
        {consumer}
        """,
    )


PUT = "%put = dma_copy @dma0 (%x) -> (%part)"
GET = "%get = add @vector (%part, %part) -> (%y)"
ALL = "%meet = core_barrier @all () -> () name=m"

RACES = {
    "no barrier": (PUT, GET),
    "one engine waits for no other": (f"{PUT}\n%meet = core_barrier @vector () -> () name=m",
                                      f"%meet = core_barrier @vector () -> () name=m\n{GET}"),
    "a barrier on the consumer's other engine": (f"{PUT}\n%meet = core_barrier @pe () -> () name=m deps=[put]",
                                                 f"%meet = core_barrier @pe () -> () name=m\n{GET}"),
    "the barrier comes too early": (f"{ALL}\n{PUT}", f"{ALL}\n{GET}"),
    "the barrier comes too late": (f"{PUT}\n{ALL}", f"{GET}\n{ALL}"),
}  # fmt: skip
CLEAN = {
    "all barrier": (f"{PUT}\n{ALL}", f"{ALL}\n{GET}"),
    "one engine with a dependence on the copy": (f"{PUT}\n%meet = core_barrier @vector () -> () name=m deps=[put]",
                                                 f"%meet = core_barrier @vector () -> () name=m\n{GET}"),
    "a dependence on the barrier": (f"{PUT}\n%meet = core_barrier @pe () -> () name=m deps=[put]",
                                    f"%meet = core_barrier @pe () -> () name=m\n{GET} deps=[meet]"),
    "a barrier on the copy's own queue": (f"{PUT}\n%meet = core_barrier @dma0 () -> () name=m",
                                          f"%meet = core_barrier @dma0 () -> () name=m\n{GET} deps=[meet]"),
}  # fmt: skip


@pytest.mark.parametrize("case", RACES)
def test_races_show_in_shadow_and_in_values(case: str) -> None:
    text = producer_and_consumer(*RACES[case])
    report = compare_schedules(text, {"x": np.ones(4, np.float32)}, values=True)
    assert not report.agrees
    assert {each.code for each in report.diagnostics} == {"cross-core-race"}
    assert ("nc1/y") in {output for _, output in report.unequal_outputs}
    # A number that happens to be what the memory held does not hide it.
    blind = compare_schedules(text, {"x": np.zeros(4, np.float32)}, values=True)
    assert not blind.unequal_outputs and blind.differences


@pytest.mark.parametrize("case", CLEAN)
def test_with_the_right_order_all_schedules_agree(case: str) -> None:
    text = producer_and_consumer(*CLEAN[case])
    report = compare_schedules(text, {"x": np.ones(4, np.float32)}, values=True)
    assert report.agrees and not report.diagnostics
    schedules = ["list", *(f"random:{seed}" for seed in range(20))]
    assert compare_schedules(text, schedules=schedules, values=True).agrees


def test_a_report_names_reader_and_writers_with_their_lines() -> None:
    report = compare_schedules(producer_and_consumer(*RACES["no barrier"]))
    (diagnostic,) = report.diagnostics
    assert "what %get on core 1 reads of %part depends on the schedule" in diagnostic.message
    said = [label.message for label in diagnostic.labels]
    assert said == [
        "%get on core 1",
        "under `list` nothing has written it before",
        "under `slowest:1:vector` %put on core 0 has written it before",
    ] or said == [
        "%get on core 1",
        "under `list` %put on core 0 has written it before",
        "under `slowest:0:dma0` nothing has written it before",
    ]
    assert [label.span.line for label in diagnostic.labels if label.span] == [16, 8]


def test_a_report_tells_given_contents_from_none() -> None:
    text = program(f"""
        {vector("x", attrs="kind=input")}
        {vector("y", attrs="kind=inout")}
        %one = dma_copy @dma0 (%x) -> (%y)
        %two = dma_copy @dma1 (%x) -> (%y)
    """)
    said = [label.message for each in compare_schedules(text).diagnostics for label in each.labels]
    assert any(message.endswith("it still holds what it held at the start") for message in said)


def test_unordered_engines_of_one_core_are_a_missing_dependence() -> None:
    def one_core(deps: str) -> Program:
        return program(f"""
            {vector("x", attrs="kind=input")}
            {vector("a")}
            {vector("y", attrs="kind=output")}
            %load = dma_copy @dma0 (%x) -> (%a)
            %use = add @vector (%a, %a) -> (%y) {deps}
        """)

    assert {each.code for each in compare_schedules(one_core("")).diagnostics} == {"missing-dependence"}
    assert compare_schedules(one_core("deps=[load]")).agrees


def test_disjoint_bytes_do_not_conflict() -> None:
    """Even and odd elements of one shared location, written by two cores without any order."""

    def core(me: int) -> str:
        remote = "" if me == 0 else "remote=[s,0]"
        return f"""
            {vector("x", attrs="kind=input")}
            mloc %s dram.shared size=32 {remote}
            %put = dma_copy @dma0 (%x) -> (%s[{4 * me};8x4;4])
        """

    assert compare_schedules(program(core(0), core(1))).agrees
    assert not compare_schedules(program(core(0), core(1).replace("s[4;", "s[0;"))).agrees


def test_writes_that_nobody_reads_race_too() -> None:
    def core(me: int) -> str:
        remote = "" if me == 0 else "remote=[s,0]"
        return f"""
            {vector("x", attrs="kind=input")}
            {vector("s", "dram.shared", remote)}
            %put = dma_copy @dma0 (%x) -> (%s)
        """

    (diagnostic,) = compare_schedules(program(core(0), core(1))).diagnostics
    assert diagnostic.code == "cross-core-race"
    assert "overwrites of %s" in diagnostic.message


def test_storage_shared_after_allocation_races_by_address() -> None:
    """Two locations of two cores at one address, without a barrier between their uses."""

    def core(me: int, address: int) -> str:
        return f"""
            {vector("x", attrs=f"kind=input address={4096 * (me + 1)}")}
            {vector("a", attrs=f"address={address}")}
            {vector("y", attrs=f"kind=output address={4096 * (me + 1) + 64}")}
            %put = dma_copy @dma0 (%x) -> (%a)
            %get = dma_copy @dma0 (%a) -> (%y)
        """

    assert compare_schedules(program(core(0, 0), core(1, 64))).agrees
    assert not compare_schedules(program(core(0, 0), core(1, 0))).agrees


BUFFERS = f"""
    {vector("x", attrs="kind=input")}
    {vector("y", attrs="kind=output")}
"""


def ring(cores: int) -> Program:
    """Every core sends its x to the next and receives the previous one's."""
    return program(
        *(
            f"{BUFFERS}\n%go = sendrecv @dma0 (%x) -> (%y) to={(me + 1) % cores} from={(me - 1) % cores} tag=ring"
            for me in range(cores)
        )
    )


@pytest.mark.parametrize("cores", [2, 3, 5])
@pytest.mark.parametrize("schedule", ["list", "random:3", "slowest:0:dma0"])
def test_an_exchange_moves_what_was_read_on_arrival(cores: int, schedule: str) -> None:
    values = {f"nc{core}/x": np.full(4, core, np.float32) for core in range(cores)}
    outputs = simulate(ring(cores), values, schedule=schedule).outputs
    assert [outputs[f"nc{core}/y"][0] for core in range(cores)] == [(core - 1) % cores for core in range(cores)]
    assert compare_schedules(ring(cores)).agrees


def test_an_exchange_orders_what_follows_it_but_not_the_sender_s_source() -> None:
    """A later write to the source is ordered on the same queue, on another it is not."""
    sender = f"{BUFFERS}\n%go = sendrecv @dma0 (%x) -> () to=1 tag=t\n%after = memset @dma0 () -> (%x) value=0"
    receiver = f"{BUFFERS}\n%go = sendrecv @dma0 () -> (%y) from=0 tag=t"
    assert compare_schedules(program(sender, receiver)).agrees
    hasty = sender.replace("memset @dma0", "memset @dma1")
    assert not compare_schedules(program(hasty, receiver)).agrees


def test_the_kth_exchange_meets_the_kth() -> None:
    sender = """
        mloc %x dram.local size=2 kind=input dtype=u8 shape=[2]
        %one = sendrecv @dma0 (%x[0:1]) -> () to=1 tag=a
        %two = sendrecv @dma1 (%x[1:2]) -> () to=1 tag=b
        %three = sendrecv @dma0 (%x[1:2]) -> () to=1 tag=a
    """
    receiver = """
        mloc %y dram.local size=3 kind=output dtype=u8 shape=[3]
        %b = sendrecv @dma1 () -> (%y[2:3]) from=0 tag=b
        %one = sendrecv @dma0 () -> (%y[0:1]) from=0 tag=a
        %two = sendrecv @dma0 () -> (%y[1:2]) from=0 tag=a
    """
    found = simulate(program(sender, receiver), {"x": np.array([5, 7], np.uint8)}).outputs["nc1/y"]
    assert found.tolist() == [5, 7, 7]


def barriers(*cores: str) -> Program:
    """Cores that only meet: `name@engine:cores`, separated by spaces."""
    texts = []
    for core in cores:
        rows = []
        for number, word in enumerate(core.split()):
            name, _, rest = word.partition("@")
            engine, _, members = rest.partition(":")
            cores_attr = f"cores=[{members}]" if members else ""
            rows.append(f"%b{number} = core_barrier @{engine or 'all'} () -> () name={name} {cores_attr}")
        texts.append("\n".join(rows))
    return program(*texts)


def fails(text: Program, code: str) -> Any:
    with pytest.raises(HauloutError) as caught:
        simulate(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    return diagnostic


def test_barriers_with_other_names_do_not_match() -> None:
    diagnostic = fails(barriers("a b c", "a c b"), "barrier-mismatch")
    assert "barrier 1 of cores 0, 1 on line all is 'b' on core 0, 'c' on core 1" in diagnostic.message
    assert diagnostic.notes == ("core 0: a, b, c", "core 1: a, c, b")
    assert len(diagnostic.labels) == 2


def test_a_barrier_that_one_core_lacks_does_not_match() -> None:
    assert "'b' on core 0, missing on core 1" in fails(barriers("a b", "a"), "barrier-mismatch").message
    assert "missing on core 0" in fails(barriers("a@pe", "a@pe a@pe"), "barrier-mismatch").message
    assert "which does not include it" in fails(barriers("a", "a", "a b@all:0,1"), "barrier-mismatch").message


def test_barriers_of_subsets_and_of_lines_are_counted_apart() -> None:
    meets = barriers("s@all:0,1 v@vector e", "v@vector s@all:0,1 e", "v@vector e")
    with pytest.raises(HauloutError):  # v and s stand in opposite orders: s fences v on both cores
        simulate(meets)
    apart = barriers("s@pe:0,1 v@vector e", "v@vector s@pe:0,1 e", "v@vector e")
    assert simulate(apart).statistics.barriers == 3


def test_opposite_orders_of_overlapping_groups_are_a_deadlock() -> None:
    diagnostic = fails(barriers("x@all:0,1,2 y@all:0,1,3", "y@all:0,1,3 x@all:0,1,2", "x@all:0,1,2", "y@all:0,1,3"),
                       "deadlock")  # fmt: skip
    assert "cores 0, 1: 2 waits form a cycle" in diagnostic.message
    assert sorted(label.message for label in diagnostic.labels) == [
        "%b1 on core 0 comes after %b0 on core 0 on line all, which forms a barrier with %b1 on core 1",
        "%b1 on core 1 comes after %b0 on core 1 on line all, which forms a barrier with %b1 on core 0",
    ]


def test_an_exchange_without_partner_is_a_deadlock() -> None:
    lonely = program(f"{BUFFERS}\n%go = sendrecv @dma0 (%x) -> () to=1 tag=t", BUFFERS)
    assert "tagged 't' has no partner on core 1" in fails(lonely, "deadlock").message


def test_crossed_exchanges_on_one_queue_are_a_deadlock() -> None:
    """Each core first waits for what the other sends second."""

    def core(other: int, first: str, second: str) -> str:
        return f"""
            {BUFFERS}
            %one = sendrecv @dma0 (%x) -> () to={other} tag={first}
            %two = sendrecv @dma0 () -> (%y) from={other} tag={second}
        """

    diagnostic = fails(program(core(1, "a", "b"), core(0, "b", "a")), "deadlock")
    assert any("waits for the arrival of" in label.message for label in diagnostic.labels)


@pytest.mark.parametrize("text", ["list", "random:7", "slowest:1:dma3"])
def test_schedules_are_written_as_they_are_read(text: str) -> None:
    assert str(parse_schedule(text)) == text


@pytest.mark.parametrize(
    "text", ["", "fast", "random:x", "slowest", "slowest:0", "slowest:0:dma99", "slowest:a:pe", "slowest:0:all"]
)
def test_unknown_schedules_are_refused(text: str) -> None:
    with pytest.raises(HauloutError, match="unknown schedule"):
        parse_schedule(text)


def test_schedules_name_cores_that_there_are() -> None:
    with pytest.raises(HauloutError, match="no core 2"):
        simulate(ring(2), schedule="slowest:2:dma0")
