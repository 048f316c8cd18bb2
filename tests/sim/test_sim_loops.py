"""Loops: how often they run and what they compute, what is assumed where nobody knows, and what is refused."""

import numpy as np
import pytest
from tests.sim.sim_programs import INT, NESTED, count, counting, program, refusal, vector

import haulout
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.sim import ScheduleReport, compare_schedules, simulate
from haulout.sim.events.schedules import parse_schedule

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


# -- what runs when nobody knows, and what is refused ----------------------------------------------------------------


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
    diagnostic = refusal(program(text), inputs=count(1), max_instructions=1000)
    assert "1,000 instructions and do not end: ^loop in iteration 500" in diagnostic.message
    assert "max_instructions" in diagnostic.help[0]
    empty = "mloc %go dram.local size=1 kind=input\nblock ^a -> ^b, ^c cond=go:\nblock ^b -> ^a:\nblock ^c:"
    always = {"go": np.ones(1, np.uint8)}
    assert "do not end" in refusal(program(empty), inputs=always, max_instructions=99).message
    assert "do not end" in refusal(program(empty, empty), inputs=always, max_instructions=99).message
    # Straight programs are not bounded: they end.
    straight = program("mloc %y dram.local size=4 kind=output\n%i = memset @dma0 () -> (%y) value=0")
    assert not simulate(straight, max_instructions=0).diagnostics


def test_a_wrong_trip_is_refusal() -> None:
    assert (
        "has trip=3, but its branch leaves the loop after 2"
        in refusal(program(counting(trip="trip=3")), inputs=count(2)).message
    )
    assert "enters the body once more after 3" in refusal(program(counting(trip="trip=3")), inputs=count(4)).message


@pytest.mark.parametrize(
    ("blocks", "at"),
    [
        ("a>b,c b c", "^a"),
        ("a>b b>b,c:cond=x,trip=3 c", "^b"),
        ("a>c,b:cond=x b c>a", "^a"),
        ("a>b b>a", "^b"),
        ("a>b,c:cond=x,divergent=true b>a c", "^a"),
        ("a>b,c:cond=x b>c,a:cond=x c", "^a"),
        ("a>b,d:cond=x b>a c>d d", "^b"),
        ("z>a:trip=2 a>b,c:cond=x b>a c", "^z"),
        ("z>a:divergent=true a>b,c:cond=x b>a c", "^z"),
        ("a>b,c:cond=x b>d c>e d>e e", "^c"),
        ("a>b,c:cond=x b>a c>d,e:cond=x d>e e>c", "^e"),
        ("a>b,c:cond=x b>c c>d,e:cond=x d>c e", "^c"),
        ("a>b,c:cond=x b c", "^a"),
        ("a>b,d:cond=x b>c,d:cond=x c>d d>a e", "^b"),
        ("a>b,c:cond=x b>e c>d,e:cond=x d>c e", "^c"),
    ],
)
def test_other_control_flow_is_not_supported(blocks: str, at: str) -> None:
    """Blocks are written `name>successors:attributes`."""
    lines = ["mloc %x dram.local size=1 kind=input"]
    for block in blocks.split():
        shape, _, attrs = block.partition(":")
        name, _, leads = shape.partition(">")
        arrow = " -> " + ", ".join(f"^{each}" for each in leads.split(",")) if leads else ""
        lines.append(f"block ^{name}{arrow} {attrs.replace(',', ' ')}:")
    diagnostic = refusal(program("\n".join(lines)))
    assert (diagnostic.code, diagnostic.labels[0].message) == ("bad-input", f"{at} on core 0")
    assert diagnostic.span is not None and diagnostic.span.line > 4


def test_cores_have_equal_loops() -> None:
    loop = "mloc %x dram.local size=1 kind=input\nblock ^a -> ^b, ^c cond=x {}:\nblock ^b -> ^a:\nblock ^c:"
    straight = "block ^a:"
    for one, other in (
        (loop.format(""), loop.format("trip=1")),
        (loop.format(""), straight),
        (straight, loop.format("")),
    ):
        assert refusal(program(one, other)).labels[0].message == "^a on core 1"


@pytest.mark.parametrize(
    ("behind", "body", "at"),
    [
        ("%out = nop @sync () -> () deps=[step]", "", "%out"),
        ("%out = nop @sync () -> ()", "%x = nop @sync () -> () deps=[out]", "%x"),
    ],
)
def test_dependences_on_what_need_not_have_run_are_refused(behind: str, body: str, at: str) -> None:
    diagnostic = refusal(program(counting(body=body, behind=behind)), inputs=count(1))
    assert (diagnostic.code, diagnostic.labels[0].message) == ("bad-input", f"{at} on core 0")


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
