"""Order in loops: what an iteration waits for, operands that move, and cores that meet in every iteration."""

import numpy as np
import pytest
from tests.sim.sim_programs import INT, NESTED, count, counting, program, refusal, vector

from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate


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


def test_an_unknown_trip_is_taken_from_the_values() -> None:
    text = pipeline("", "deps=[load]", trip="")
    assert compare_schedules(text, PIPELINE | count(1)).agrees
    report = compare_schedules(text, PIPELINE | count(2))
    assert not report.agrees and report.assumed == ()


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
    diagnostic = refusal(text, "out-of-bounds", count(7) | {"x": BYTES})
    assert "iteration 6" in diagnostic.message and "96 bytes" in diagnostic.message
    foreign = program(counting(body="%put = memset @dma0 () -> (%i[0:1]) value=0 step=[[0,entry,1,2]]"))
    assert "the header of its step is not that of a loop around it" in refusal(foreign, inputs=count(1)).message


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
    diagnostic = refusal(text, "barrier-mismatch", {"nc0/n": np.int32(2), "nc1/n": np.int32(3)})
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
