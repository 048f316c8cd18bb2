"""Loops: how often they run, what an iteration waits for, operands that move, and what is refused."""

from typing import Any

import numpy as np
import pytest
from tests.sim.sim_programs import constant, program, vector

import haulout
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.sim import ScheduleReport, compare_schedules, simulate
from haulout.sim.schedules import parse_schedule
from haulout.support.diagnostics import Diagnostic, HauloutError

INT = "dtype=s32 shape=[]"
COUNTER = f"""
    {constant("zero", 0)}
    {constant("one", 1)}
    mloc %n dram.local size=4 kind=input {INT}
    mloc %i dram.local size=4 {INT}
    mloc %go dram.local size=1 dtype=pred shape=[]
"""
"""Locations of a loop from 0 to n."""


def counting(header: str = "", body: str = "", behind: str = "", trip: str = "", locations: str = "") -> str:
    """One core that counts %i up to %n in a loop on engine vector; `header` stands behind the comparison."""
    return f"""
        {COUNTER}
        {locations}
        block ^entry -> ^loop:
        %start = dma_copy @vector (%zero) -> (%i)
        block ^loop -> ^body, ^end cond=go {trip}:
        %test = compare @vector (%i, %n) -> (%go) direction=LT
        {header}
        block ^body -> ^loop:
        %step = add @vector (%i, %one) -> (%i)
        {body}
        block ^end:
        {behind}
    """


def count(value: int) -> dict[str, Any]:
    return {"n": np.int32(value)}


def refused(text: Program, code: str = "bad-input", inputs: Any = None, **options: Any) -> Diagnostic:
    with pytest.raises(HauloutError) as caught:
        simulate(text, inputs, **options)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    return diagnostic


# -- how often -------------------------------------------------------------------------------------------------------

TRIANGLE = counting(
    body="%acc = add @vector (%s, %i) -> (%s)",
    behind="%out = dma_copy @vector (%s) -> (%y)",
    locations=f"mloc %s dram.local size=4 kind=inout {INT}\nmloc %y dram.local size=4 kind=output {INT}",
)


@pytest.mark.parametrize("n", [0, 1, 2, 17])
@pytest.mark.parametrize("schedule", ["list", "random:3", "slowest:0:vector", "slowest:0:branch"])
def test_values_decide_how_often_a_loop_runs(n: int, schedule: str) -> None:
    result = simulate(program(TRIANGLE), count(n) | {"s": np.int32(100)}, schedule=schedule)
    assert result.outputs["nc0/y"] == 100 + n * (n + 1) // 2
    assert not result.diagnostics
    assert result.statistics.instructions == 1 + (n + 1) + 2 * n + 1
    assert result.statistics.events == result.statistics.instructions + n + 1


def test_the_first_element_of_any_type_decides() -> None:
    text = f"""
        mloc %go sbuf size=8 kind=input dtype=f32 shape=[2] parts=2
        {vector("x", attrs="kind=input")}
        {vector("y", attrs="kind=output")}
        block ^loop -> ^body, ^end cond=go:
        block ^body -> ^loop:
        %zero = subtract @vector (%go, %go) -> (%go)
        %copy = dma_copy @dma0 (%x) -> (%y)
        block ^end:
    """
    inputs = {"x": np.arange(4, dtype=np.float32)}
    runs = simulate(program(text), inputs | {"go": np.array([0.5, 0], np.float32)})
    assert runs.outputs["nc0/y"].tolist() == [0, 1, 2, 3]
    skips = simulate(program(text), inputs | {"go": np.array([0, 0.5], np.float32)})
    assert [each.code for each in skips.diagnostics] == ["output-not-written"]


def test_a_condition_that_nobody_wrote_is_an_uninitialized_read_of_the_branch() -> None:
    text = counting().replace("%test = compare @vector (%i, %n) -> (%go) direction=LT", "")
    (diagnostic,) = simulate(program(text), count(1)).diagnostics
    assert diagnostic.code == "uninitialized-read" and "%go" in diagnostic.message
    assert diagnostic.labels[0].message == "the branch of ^loop on core 0"


NESTED = f"""
    {COUNTER}
    mloc %m dram.local size=4 kind=input {INT}
    mloc %j dram.local size=4 {INT}
    mloc %in dram.local size=1 dtype=pred shape=[]
    mloc %t dram.local size=4 {INT}
    mloc %s dram.local size=4 kind=inout {INT}
    block ^entry -> ^outer:
    %start = dma_copy @vector (%zero) -> (%i)
    block ^outer -> ^setup, ^end cond=go:
    %test = compare @vector (%i, %n) -> (%go) direction=LT
    block ^setup -> ^inner:
    %restart = dma_copy @vector (%zero) -> (%j)
    block ^inner -> ^deep, ^latch cond=in:
    %again = compare @vector (%j, %m) -> (%in) direction=LT
    block ^deep -> ^inner:
    %product = multiply @vector (%i, %j) -> (%t)
    %acc = add @vector (%s, %t) -> (%s)
    %down = add @vector (%j, %one) -> (%j)
    block ^latch -> ^outer:
    %step = add @vector (%i, %one) -> (%i)
    block ^end:
"""


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (3, 4)])
def test_nested_loops_start_anew(n: int, m: int) -> None:
    result = simulate(program(NESTED), count(n) | {"m": np.int32(m), "s": np.int32(0)})
    assert result.outputs["nc0/s"] == sum(i * j for i in range(n) for j in range(m))
    assert compare_schedules(program(NESTED), count(n) | {"m": np.int32(m), "s": np.int32(0)}, values=True).agrees


def test_a_loop_computes_what_plain_numpy_does() -> None:
    """Power iteration: a matrix is applied and scaled until the count is reached."""
    body = """
        %apply = dot @pe (%a, %v) -> (%w) lhs_contracting=[1] rhs_contracting=[0] carried=[scale] deps=[test]
        %most = reduce @vector (%w, %low) -> (%peak) dims=[0] op=maximum deps=[apply]
        %wide = broadcast @vector (%peak) -> (%peaks) dims=[]
        %scale = divide @vector (%w, %peaks) -> (%v)
    """
    locations = f"""
        mloc %a dram.local size=64 kind=input dtype=f32 shape=[4,4]
        {vector("v", attrs="kind=inout")}
        {vector("w")}
        {vector("peaks")}
        mloc %peak dram.local size=4 dtype=f32 shape=[]
        mloc %low dram.local size=4 kind=const dtype=f32 shape=[] data="AACA/w=="
    """
    text = program(counting(body=body, locations=locations))
    generator = np.random.default_rng(0)
    a, v = generator.random((4, 4), np.float32), generator.random(4, np.float32)
    inputs = count(9) | {"a": a, "v": v}
    for _ in range(9):
        w = a @ v
        v = w / w.max()
    np.testing.assert_allclose(simulate(text, inputs).outputs["nc0/v"], v, rtol=1e-5)
    assert compare_schedules(text, inputs, values=True).agrees


# -- order -----------------------------------------------------------------------------------------------------------


def pipeline(load: str = "", use: str = "", trip: str = "trip=3", header: str = "") -> Program:
    """Each iteration loads into one buffer on a queue and adds it up on an engine."""
    locations = "\n".join(vector(name, attrs=attrs) for name, attrs in (("x", "kind=input"), ("b", "")))
    return program(
        counting(
            header=header,
            body=f"%load = dma_copy @dma0 (%x) -> (%b) {load}\n%use = add @act (%s, %b) -> (%s) {use}",
            trip=trip,
            locations=f"{locations}\n{vector('s', attrs='kind=inout')}",
        )
    )


PIPELINE = count(3) | {"x": np.ones(4, np.float32), "s": np.zeros(4, np.float32)}


def test_iterations_wait_by_carried_dependences() -> None:
    text = pipeline("carried=[use]", "deps=[load]")
    assert compare_schedules(text, PIPELINE, values=True).agrees
    for seed in range(5):
        assert simulate(text, PIPELINE, schedule=f"random:{seed}").outputs["nc0/s"].tolist() == [3] * 4


@pytest.mark.parametrize(
    ("load", "use", "reader", "writers"),
    [
        ("", "deps=[load]", "%use", {"%load"}),
        ("carried=[use]", "", "%use", {"%load"}),
        ("carried=[use]", "carried=[load]", "%use", {"%load"}),
    ],
)
def test_a_missing_dependence_between_iterations_is_found(
    load: str, use: str, reader: str, writers: set[str]
) -> None:
    report = compare_schedules(pipeline(load, use))
    assert {each.code for each in report.diagnostics} == {"missing-dependence"}
    says = [each.message for each in report.diagnostics] + [
        label.message for each in report.diagnostics for label in each.labels
    ]
    assert any(reader in line and "of ^loop)" in line for line in says)
    assert any(writer in line for writer in writers for line in says)


def test_iterations_of_writer_and_reader_are_named() -> None:
    report = compare_schedules(pipeline("", "deps=[load]"), schedules=["list", "slowest:0:act"])
    (difference,) = report.differences
    assert (difference.access.around, difference.expected.around, difference.found.around) == ((0,), (0,), (2,))
    (diagnostic,) = report.diagnostics
    assert "what %use on core 0 (iteration 0 of ^loop) reads of %b depends" in diagnostic.message
    assert [label.message for label in diagnostic.labels] == [
        "%use on core 0",
        "under `list` %load on core 0 (iteration 0 of ^loop) has written it before",
        "under `slowest:0:act` %load on core 0 (iteration 2 of ^loop) has written it before",
    ]


def test_one_iteration_needs_nothing_of_the_next() -> None:
    assert compare_schedules(pipeline("", "deps=[load]", "trip=1")).agrees


def test_a_body_starts_only_when_the_branch_is_decided() -> None:
    """Nothing but the branch orders the write of %b in the header's engine before the load."""
    assert compare_schedules(pipeline("carried=[use]", "deps=[load]", header="")).agrees
    # Written on another engine than the condition, it is not ordered.
    behind = pipeline("carried=[use]", "deps=[load]", header="%fill = memset @pool () -> (%b) value=0 carried=[use]")
    assert not compare_schedules(behind).agrees
    waits = pipeline(
        "carried=[use]", "deps=[load,fill]", header="%fill = memset @pool () -> (%b) value=0 carried=[use]"
    )
    assert not compare_schedules(waits).agrees  # %load itself does not wait
    both = pipeline(
        "carried=[use] deps=[fill]", "deps=[load]", header="%fill = memset @pool () -> (%b) value=0 carried=[use]"
    )
    assert compare_schedules(both).agrees


def test_the_first_iteration_waits_for_nothing_of_the_run_before() -> None:
    """An inner loop starts anew: its first load does not wait for the last use of the outer iteration before."""

    def text(load: str) -> Program:
        body = f"%load = dma_copy @dma0 (%x) -> (%b) {load}\n%use = add @act (%b, %b) -> (%y) deps=[load]"
        names = (("x", "kind=input"), ("b", ""), ("y", "kind=output"))
        locations = "\n".join(vector(name, attrs=attrs) for name, attrs in names)
        changed = NESTED.replace("%acc = add @vector (%s, %t) -> (%s)", body)
        return program(changed.replace("block ^entry", f"{locations}\nblock ^entry"))

    inputs = {"x": np.ones(4, np.float32), "m": np.int32(2), "s": np.int32(0)}
    assert compare_schedules(text("carried=[use]"), inputs | count(1)).agrees
    report = compare_schedules(text("carried=[use]"), inputs | count(2))
    assert any("(iteration 0 of ^outer, 1 of ^inner)" in each.message for each in report.diagnostics)


def test_what_stands_behind_a_loop_waits_for_its_header() -> None:
    """A join: a nop in the header that waits for the iteration before; it reads and writes nothing."""

    def text(join: str, deps: str) -> Program:
        return program(
            counting(
                header=join,
                body="%acc = add @act (%s, %i) -> (%s) deps=[step]",
                behind=f"%out = dma_copy @dma0 (%s) -> (%y) {deps}",
                locations=f"mloc %s dram.local size=4 kind=inout {INT}\nmloc %y dram.local size=4 kind=output {INT}",
            ).replace(
                "%step = add @vector (%i, %one) -> (%i)", "%step = add @vector (%i, %one) -> (%i) carried=[acc]"
            )
        )

    inputs = count(3) | {"s": np.int32(0)}
    join = "%join = nop @sync () -> () carried=[acc]"
    clean = text(join, "deps=[join]")
    assert compare_schedules(clean, inputs).agrees
    for schedule in ("list", "slowest:0:act", "slowest:0:sync"):
        assert simulate(clean, inputs, schedule=schedule).outputs["nc0/y"] == 6
    assert not compare_schedules(text(join, ""), inputs).agrees
    assert not compare_schedules(text("%join = nop @sync () -> ()", "deps=[join]"), inputs).agrees
    # Nothing runs: then there is nothing to wait for.
    assert compare_schedules(text(join, ""), count(0) | {"s": np.int32(0)}).agrees


def buffers(load: str, use: str, wait: str, modulus: int = 2) -> Program:
    """Tiles of x go through a buffer; `free` stands behind the use of the iteration before."""
    return program(
        counting(
            body=f"""
                %load = dma_copy @dma0 (%x[0:16]) -> (%b[0:16]) carried=[{wait}] step=[[0,loop,16,0],[1,loop,{load}]]
                %free = nop @act () -> ()
                %use = dma_copy @act (%b[0:16]) -> (%y[0:16]) deps=[load] step=[[0,loop,{use}],[1,loop,16,0]]
            """,
            locations=f"""
                mloc %x dram.local size=96 kind=input dtype=u8 shape=[96]
                mloc %b sbuf size={16 * modulus} dtype=u8 shape=[{16 * modulus}]
                mloc %y dram.local size=96 kind=output dtype=u8 shape=[96]
            """,
        )
    )


BYTES = np.arange(96, dtype=np.uint8)


def test_operands_move_with_the_iterations() -> None:
    """With two buffers a load waits for the use two iterations earlier: for `free` of the one before."""
    text = buffers("16,2", "16,2", "free")
    inputs = count(6) | {"x": BYTES}
    assert simulate(text, inputs).outputs["nc0/y"].tolist() == BYTES.tolist()
    assert compare_schedules(text, inputs, values=True).agrees
    assert compare_schedules(buffers("16,2", "16,2", "use"), inputs).agrees


def test_double_buffering_that_is_broken_is_found() -> None:
    inputs = count(6) | {"x": BYTES}
    assert not compare_schedules(buffers("16,2", "16,2", "step"), inputs).agrees  # waits for no use
    one_buffer = compare_schedules(buffers("0,2", "0,2", "free"), inputs)
    assert not one_buffer.agrees  # the buffer of the iteration before is still in use
    late = buffers("16,2", "16,3", "use", modulus=3)
    assert [each.code for each in simulate(late, inputs).diagnostics] == ["uninitialized-read"]


def test_two_iterations_do_not_touch_what_moves_apart() -> None:
    """Without modulus each iteration has bytes of its own; waiting is not needed."""
    text = buffers("16,0", "16,0", "step", modulus=6)
    assert compare_schedules(text, count(6) | {"x": BYTES}, values=True).agrees


def test_steps_of_nested_loops_add_up() -> None:
    text = NESTED.replace(
        "%acc = add @vector (%s, %t) -> (%s)",
        "%acc = add @vector (%s, %t) -> (%s)\n"
        "%put = dma_copy @vector (%t) -> (%y[0:4]) step=[[1,outer,16,0],[1,inner,4,0]]",
    ).replace("block ^entry", "mloc %y dram.local size=48 kind=output dtype=s32 shape=[3,4]\nblock ^entry")
    inputs = count(3) | {"m": np.int32(4), "s": np.int32(0)}
    expected = [[i * j for j in range(4)] for i in range(3)]
    for schedule in ("list", "random:1"):
        assert simulate(program(text), inputs, schedule=schedule).outputs["nc0/y"].tolist() == expected
    backwards = (
        text.replace("[0:4]) step", "[44:48]) step").replace("16,0", "-16,0").replace("inner,4,0", "inner,-4,0")
    )
    found = simulate(program(backwards), inputs).outputs["nc0/y"]
    assert found.ravel().tolist() == [i * j for i in range(3) for j in range(4)][::-1]


def test_a_step_out_of_its_location_is_refused_when_it_is_taken() -> None:
    text = buffers("16,2", "16,2", "use")
    assert simulate(text, count(6) | {"x": BYTES}).diagnostics == ()
    diagnostic = refused(text, "out-of-bounds", count(7) | {"x": BYTES})
    assert "iteration 6" in diagnostic.message and "96 bytes" in diagnostic.message
    foreign = program(counting(body="%put = memset @dma0 () -> (%i[0:1]) value=0 step=[[0,entry,1,2]]"))
    assert "not the header of a loop around it" in refused(foreign, inputs=count(1)).message


# -- cores -----------------------------------------------------------------------------------------------------------


def exchange(meet: str, again: str = "") -> Program:
    """Two cores hand their numbers to each other in every iteration."""
    return program(
        *(
            counting(
                body=f"""
                    %put = add @vector (%v, %i) -> (%mine)
                    {meet}
                    %get = dma_copy @vector (%theirs) -> (%v)
                    {again}
                """,
                locations=f"""
                    mloc %v dram.local size=4 kind=inout {INT}
                    mloc %mine dram.shared size=4 {INT}
                    mloc %theirs dram.shared size=4 {INT} remote=[mine,{1 - core}]
                """,
            )
            for core in (0, 1)
        )
    )


MEET = "%meet = core_barrier @all () -> () name=m"
AGAIN = "%done = core_barrier @all () -> () name=d"


def test_barriers_meet_anew_in_every_iteration() -> None:
    text = exchange(MEET, AGAIN)
    inputs = count(3) | {"nc0/v": np.int32(10), "nc1/v": np.int32(20)}
    result = simulate(text, inputs)
    assert [result.outputs[f"nc{core}/v"].item() for core in (0, 1)] == [20 + 6, 10 + 6]
    assert result.statistics.barriers == 6
    assert compare_schedules(text, inputs, values=True).agrees
    assert not compare_schedules(exchange(MEET), inputs).agrees  # the next put overtakes the other's get
    assert {each.code for each in compare_schedules(exchange(AGAIN), inputs).diagnostics} == {"cross-core-race"}


def test_exchanges_meet_anew_in_every_iteration() -> None:
    def core(me: int) -> str:
        return counting(
            body=f"""
                %go = sendrecv @dma0 (%v) -> (%w) to={1 - me} from={1 - me} tag=t carried=[keep]
                %keep = add @vector (%w, %i) -> (%v) deps=[go]
            """,
            locations=f"mloc %v dram.local size=4 kind=inout {INT}\nmloc %w dram.local size=4 {INT}",
        )

    text = program(core(0), core(1))
    inputs = count(3) | {"nc0/v": np.int32(10), "nc1/v": np.int32(20)}
    for schedule in ("list", "random:2", "slowest:1:dma0"):
        outputs = simulate(text, inputs, schedule=schedule).outputs
        assert [outputs[f"nc{core}/v"].item() for core in (0, 1)] == [26, 16]
    assert compare_schedules(text, inputs, values=True).agrees


def test_cores_that_take_different_branches_are_stopped() -> None:
    text = program(counting(), counting())
    diagnostic = refused(text, "barrier-mismatch", {"nc0/n": np.int32(2), "nc1/n": np.int32(3)})
    assert "cores take different branches at ^loop, in iteration 2" in diagnostic.message
    assert [label.message for label in diagnostic.labels] == ["core 0 leaves the loop", "core 1 enters the body"]
    assert all(label.span is not None for label in diagnostic.labels)


def test_a_condition_that_another_core_writes_is_a_race_of_the_branch() -> None:
    def text(meet: str) -> Program:
        first = """
            mloc %x dram.local size=1 kind=input dtype=u8 shape=[]
            mloc %go dram.shared size=1 kind=inout dtype=u8 shape=[]
        """
        second = """
            mloc %x dram.local size=1 kind=input dtype=u8 shape=[]
            mloc %go dram.shared size=1 remote=[go,0] dtype=u8 shape=[]
        """
        blocks = """
            block ^entry -> ^loop:
            {put}
            {meet}
            block ^loop -> ^body, ^end cond=go trip=0:
            block ^body -> ^loop:
            block ^end:
        """
        put = "%put = dma_copy @dma0 (%x) -> (%go)"
        return program(first + blocks.format(put="", meet=meet), second + blocks.format(put=put, meet=meet))

    zero = {name: np.zeros((), np.uint8) for name in ("x", "go")}
    report = compare_schedules(text(""), zero)
    assert {each.code for each in report.diagnostics} == {"cross-core-race"}
    assert any("the branch of ^loop on core 0" in each.message for each in report.diagnostics)
    assert "slowest:0:branch" in report.schedules
    assert compare_schedules(text("%meet = core_barrier @all () -> () name=m"), zero).agrees


def test_a_branch_that_strays_under_a_schedule_is_reported() -> None:
    """The header's comparison reads %i, which another engine counts up without a dependence."""
    text = program(counting().replace("%step = add @vector", "%step = add @act"))
    report = compare_schedules(text, count(2), values=True)
    assert {each.code for each in report.diagnostics} == {"missing-dependence"}
    (diagnostic,) = simulate(text, count(2), schedule="slowest:0:act").diagnostics
    assert diagnostic.code == "missing-dependence"
    assert "the branch of ^loop on core 0 (iteration 2 of ^loop) enters the body" in diagnostic.message


# -- what runs when nobody knows, and what is refused ----------------------------------------------------------------


def test_an_unknown_trip_is_taken_from_the_values() -> None:
    text = pipeline("", "deps=[load]", trip="")
    assert compare_schedules(text, PIPELINE | count(1)).agrees
    report = compare_schedules(text, PIPELINE | count(2))
    assert not report.agrees and report.assumed == ()


@pytest.mark.parametrize(
    ("trip", "agrees", "assumed"), [("", False, ("^loop",)), ("trip=0", True, ()), ("trip=1", True, ())]
)
def test_programs_that_cannot_be_executed_are_compared_with_assumed_trips(
    trip: str, agrees: bool, assumed: tuple[str, ...]
) -> None:
    text = counting(
        body="%load = frobnicate @dma0 (%x) -> (%b)\n%use = frobnicate @act (%b) -> (%x) deps=[load]",
        trip=trip,
        locations=f"{vector('x', attrs='kind=inout')}\n{vector('b')}",
    )
    report: ScheduleReport = compare_schedules(program(text))
    assert report.agrees == agrees and report.assumed == assumed


def test_a_loop_that_does_not_end_is_stopped() -> None:
    text = counting().replace("%step = add @vector (%i, %one) -> (%i)", "")
    diagnostic = refused(program(text), inputs=count(1), max_instructions=1000)
    assert "1,000 instructions and do not end: ^loop in iteration 500" in diagnostic.message
    assert "max_instructions" in diagnostic.help[0]
    empty = "mloc %go dram.local size=1 kind=input\nblock ^a -> ^b, ^c cond=go:\nblock ^b -> ^a:\nblock ^c:"
    always = {"go": np.ones(1, np.uint8)}
    assert "do not end" in refused(program(empty), inputs=always, max_instructions=99).message
    assert "do not end" in refused(program(empty, empty), inputs=always, max_instructions=99).message
    # Straight programs are not bounded: they end.
    straight = program("mloc %y dram.local size=4 kind=output\n%i = memset @dma0 () -> (%y) value=0")
    assert not simulate(straight, max_instructions=0).diagnostics


def test_a_wrong_trip_is_refused() -> None:
    assert (
        "says trip=3, but its branch leaves the loop after 2"
        in refused(program(counting(trip="trip=3")), inputs=count(2)).message
    )
    assert "enters the body once more after 3" in refused(program(counting(trip="trip=3")), inputs=count(4)).message


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ("block ^a -> ^b, ^c:\nblock ^b:\nblock ^c:", "^a: it has two successors and no cond"),
        ("block ^a -> ^b, ^d cond=x:\nblock ^b -> ^c:\nblock ^c -> ^d:\nblock ^d:", "^c: the last block of a loop"),
        ("block ^a -> ^b:\nblock ^b -> ^b, ^c cond=x trip=3:\nblock ^c:", "^b: its successors are not"),
        ("block ^a -> ^c, ^b cond=x:\nblock ^b:\nblock ^c -> ^a:", "^a: its successors are not"),
        ("block ^a -> ^b:\nblock ^b -> ^a:", "^b: the last block leads to another one"),
        ("block ^a -> ^b, ^c cond=x divergent=true:\nblock ^b -> ^a:\nblock ^c:", "^a: cores may take different"),
        ("block ^a -> ^b, ^c cond=x:\nblock ^b -> ^c, ^a cond=x:\nblock ^c:", "^b: its successors are not"),
        ("block ^a -> ^b, ^d cond=x:\nblock ^b -> ^a:\nblock ^c -> ^d:\nblock ^d:", "^b: it does not lead"),
        ("block ^z -> ^a trip=2:\nblock ^a -> ^b, ^c cond=x:\nblock ^b -> ^a:\nblock ^c:", "^z: cond and trip"),
    ],
)  # fmt: skip
def test_other_control_flow_is_not_supported(blocks: str, says: str) -> None:
    with pytest.raises(HauloutError, match="not supported yet") as caught:
        simulate(program(f"mloc %x dram.local size=1 kind=input\n{blocks}"))
    (diagnostic,) = caught.value.diagnostics
    assert says in diagnostic.message
    assert diagnostic.span is not None and diagnostic.span.line > 4


def test_cores_have_equal_loops() -> None:
    loop = "mloc %x dram.local size=1 kind=input\nblock ^a -> ^b, ^c cond=x {}:\nblock ^b -> ^a:\nblock ^c:"
    straight = "block ^a:"
    assert "core 0 has other loops" in refused(program(loop.format(""), loop.format("trip=1"))).message
    assert "core 0 has other loops" in refused(program(loop.format(""), straight)).message
    assert "core 0 has other loops" in refused(program(straight, loop.format(""))).message


@pytest.mark.parametrize(
    ("behind", "body", "says"),
    [
        (
            "%out = nop @sync () -> () deps=[step]",
            "",
            "waits for %step, which stands in a loop that may not have run",
        ),
        ("%out = nop @sync () -> ()", "%x = nop @sync () -> () deps=[out]", "waits for %out, which stands behind it"),
    ],
)
def test_dependences_on_what_need_not_have_run_are_refused(behind: str, body: str, says: str) -> None:
    assert says in refused(program(counting(body=body, behind=behind)), inputs=count(1)).message


def test_the_line_of_branches_is_a_queue() -> None:
    assert str(parse_schedule("slowest:1:branch")) == "slowest:1:branch"


# -- compiled --------------------------------------------------------------------------------------------------------

COLLECTIVE = """
bir 1
program "loop" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %zero dram.local size=4 kind=const dtype=s32 shape=[] data="AAAAAA=="
    mloc %one dram.local size=4 kind=const dtype=s32 shape=[] data="AQAAAA=="
    mloc %n dram.local size=4 kind=input dtype=s32 shape=[]
    mloc %i dram.local size=4 dtype=s32 shape=[]
    mloc %go dram.local size=1 dtype=pred shape=[]
    mloc %v dram.local size=16 kind=inout dtype=f32 shape=[4]
    mloc %sum dram.local size=16 dtype=f32 shape=[4]
    mloc %own dram.local size=16 kind=input dtype=f32 shape=[4]
    block ^entry -> ^loop:
      %start = dma_copy @dma0 (%zero) -> (%i) seq=0
    block ^loop -> ^body, ^end cond=go TRIP:
      %test = compare @vector (%i, %n) -> (%go) seq=1 direction=LT
    block ^body -> ^loop:
      %reduce = all_reduce @pool (%v) -> (%sum) seq=2 op=add groups=[[0,1]]
      %next = add @vector (%sum, %own) -> (%v) seq=3
      %step = add @act (%i, %one) -> (%i) seq=4
    block ^end:
      %last = all_reduce @pool (%v) -> (%v) seq=5 op=maximum groups=[[0,1]]
  }
}
"""


def collective(trip: str = "") -> Program:
    core = COLLECTIVE.strip().replace("TRIP", trip)
    module = core[core.index("module") :].replace("@nc0 core=0", "@nc1 core=1")
    return parse_bir(f"{core}\n{module}\n", "loop.bir")


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("trip", ["", "known"])
def test_collectives_in_bodies_compile_to_what_every_schedule_computes(n: int, trip: str) -> None:
    compiled = haulout.compile(collective(f"trip={n}" if trip else "")).program
    own = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], np.float32)
    inputs = count(n) | {"v": np.ones(4, np.float32), "nc0/own": own[0], "nc1/own": own[1]}
    v = np.ones((2, 4), np.float32)
    for _ in range(n):
        v = v.sum(0) + own
    outputs = simulate(compiled, inputs).outputs
    np.testing.assert_array_equal(outputs["nc0/v"], v.max(0))
    report = compare_schedules(compiled, inputs, values=True)
    assert report.agrees, report.diagnostics
    report = compare_schedules(compiled, inputs, ["list", *(f"random:{seed}" for seed in range(10))], values=True)
    assert report.agrees, report.diagnostics
