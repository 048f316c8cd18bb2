"""lower_sync's contract: what it refuses, what it says, and how much it may use."""

from __future__ import annotations

from random import Random

import pytest

from haulout import HauloutError, Program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import add_dependences
from haulout.ir.enums import Engine
from haulout.ir.schema import Dependences
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import check_sound, verify
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import parse_pipeline, standard_pipeline
from haulout.passes.sync.read_back import guaranteed_order
from haulout.passes.sync.rendezvous_order import lists_agree
from haulout.passes.sync.semaphores import waits_of
from haulout_generators.programs import random_program

LOOP = """bir 1
program "loop" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input
    mloc %p dram.local size=1
    mloc %out dram.local size=64 kind=output
    block ^entry -> ^head:
      %first = copy @pe (%x) -> (%out)
    block ^head -> ^body, ^behind cond=p:
      %decide = copy @act (%x[0:1]) -> (%p)
    block ^body -> ^head:
      %work = copy @dma0 (%x) -> (%out)
    block ^behind:
      %last = copy @pool (%x) -> (%out) DEPS
  }
}
"""


def lower(program: Program, **options: object) -> tuple[Program, PassContext]:
    context = PassContext()
    return PassManager([LowerSync(**options)]).run(program, context), context  # type: ignore[arg-type]


def refusal(program: Program, **options: object) -> str:
    with pytest.raises(HauloutError) as caught:
        lower(program, **options)
    return str(caught.value.diagnostics[0])


def two_engines(cores: int = 1) -> Program:
    build = ProgramBuilder("two", cores)
    for core in range(cores):
        block = build.block(build.function(build.module(f"nc{core}", core), "main"), "entry")
        a = build.instruction(block, "a", "op", Engine.PE)
        b = build.instruction(block, "b", "op", Engine.ACT)
        build.instruction(block, "c", "op", Engine.VECTOR, deps=[a, b])
    return build.freeze()


def test_nothing_to_do_changes_nothing() -> None:
    build = ProgramBuilder("none", 1)
    build.instruction(build.block(build.function(build.module("nc0", 0), "main"), "entry"), "a", "op", Engine.PE)
    program = build.freeze()
    assert lower(program)[0] is program


def test_a_program_with_semaphores_is_refused() -> None:
    program, _ = lower(two_engines())
    again = add_dependences(program, Dependences.make(1, instruction=[2], producer=[0]))
    assert "has semaphores already" in refusal(again)


def test_a_second_run_has_nothing_to_do() -> None:
    program, _ = lower(two_engines())
    assert lower(program)[0] is program


def test_no_semaphores_are_too_few() -> None:
    message = refusal(two_engines(), semaphores=0)
    assert "too-few-semaphores" in message
    assert "waits for 2 engines and has 0" in message


def test_each_core_has_its_own() -> None:
    program, context = lower(two_engines(3))
    assert context.counters["lower_sync"]["semaphores"] == 2
    assert len(program.semaphores) == 3 * 4


def test_options_in_the_pipeline_text() -> None:
    assert parse_pipeline("lower_sync{semaphores=3 relative_waits=false}") == [LowerSync(3, False)]
    for wrong in ("semaphores=x", "semaphores=true", "semaphores=-1"):
        with pytest.raises(HauloutError):
            parse_pipeline(f"lower_sync{{{wrong}}}")


def test_it_is_not_in_the_standard_pipeline() -> None:
    """Dependences are what a compiled program is read and judged by; semaphores are for a machine."""
    assert "lower_sync" not in [each.name for each in standard_pipeline()]


@pytest.mark.parametrize(
    "edge, message",
    [
        ("deps=[work]", "does not run whenever it does"),
        ("carried=[work]", "a loop that is not around both"),
    ],
)
def test_edges_without_a_meaning_are_refused(edge: str, message: str) -> None:
    assert message in refusal(parse_bir(LOOP.replace("DEPS", edge)))


def test_behind_a_loop_its_header_is_waited_for() -> None:
    program, _ = lower(parse_bir(LOOP.replace("DEPS", "deps=[first,decide]")))
    waits = sorted((program.strings[w.name], w.value, w.back) for w in waits_of(program))
    assert waits == [("done.act", 0, True), ("done.pe", 1, False)]


def test_behind_a_loop_of_known_trips_a_constant_will_do() -> None:
    """The header runs once more than the body."""
    text = LOOP.replace("DEPS", "deps=[decide]").replace("cond=p", "trip=4 cond=p")
    program, _ = lower(parse_bir(text))
    assert [(w.value, w.back) for w in waits_of(program)] == [(5, False)]


def test_a_malformed_wait_back_is_refused() -> None:
    for value in ("[[s]]", "[[s,-1]]", "3", "[[s,true]]"):
        with pytest.raises(HauloutError, match=r"wait_back: expected|a wait for -1"):
            check_sound(parse_bir(LOOP.replace("DEPS", f"wait_back={value}")))


def test_other_attributes_stay() -> None:
    program = parse_bir(LOOP.replace("DEPS", "deps=[decide] dims=[0]"))
    lowered, _ = lower(program)
    assert "dims=[0] wait_back=[[done.act,0]]" in print_bir(lowered)
    assert verify(lowered) == []


# -- cores with rendezvous in different orders ----------------------------------------------------------------------


def crossed(kind: str) -> Program:
    """Core 0 meets first on pe, core 1 on act; no run hangs, since the engines do not wait for each other."""
    build = ProgramBuilder("crossed", 2)
    for core in range(2):
        block = build.block(build.function(build.module(f"nc{core}", core), "main"), "entry")
        order = (Engine.PE, Engine.ACT) if core == 0 or kind == "equal" else (Engine.ACT, Engine.PE)
        met = []
        for engine in order:
            name = f"on_{engine.text}"
            if kind == "sendrecv":
                met.append(build.sendrecv(block, name, engine, to=1 - core, source=1 - core, tag=name))
            else:
                met.append(build.barrier(block, name, name, engine=engine))
        for engine, producer in zip((Engine.VECTOR, Engine.POOL), met, strict=True):
            build.instruction(block, f"c_{engine.text}", "op", engine, deps=[producer])
    return build.freeze()


@pytest.mark.parametrize("kind", ["barrier", "sendrecv"])
def test_signals_do_not_follow_one_another_where_that_could_hang(kind: str) -> None:
    program = crossed(kind)
    assert not lists_agree(program)
    assert "rendezvous in different orders" in refusal(program, semaphores=1)
    assert len(guaranteed_order(lower(program, semaphores=2)[0])) == 4


def test_where_the_cores_meet_in_one_order_they_may() -> None:
    program = crossed("equal")
    assert lists_agree(program)
    assert lower(program, semaphores=1)[1].counters["lower_sync"]["chained"] == 2


def test_barriers_of_all_engines_and_all_cores_are_in_one_order() -> None:
    for seed in range(5):
        program = random_program(Random(seed), fences=0.3)
        assert lists_agree(program)


@pytest.mark.parametrize("swapped", [False, True])
def test_meetings_in_a_loop_are_compared_block_by_block(swapped: bool) -> None:
    def module(core: int, first: str, second: str) -> str:
        return f"""module @nc{core} core={core} {{
  func @main {{
    mloc %x dram.local size=64 kind=input
    mloc %p dram.local size=1
    mloc %out dram.local size=64 kind=output
    block ^entry -> ^head:
    block ^head -> ^body, ^behind cond=p:
      %decide = copy @act (%x[0:1]) -> (%p)
    block ^body -> ^head:
      %{first} = core_barrier @{first} () -> () name="{first}"
      %{second} = core_barrier @{second} () -> () name="{second}"
      %use = copy @dma0 (%x) -> (%out) deps=[{first}]
    block ^behind:
  }}
}}
"""

    lines = ("vector", "pool") if swapped else ("pool", "vector")
    text = 'bir 1\nprogram "meet" lnc=2\n' + module(0, "pool", "vector") + module(1, *lines)
    program, context = lower(parse_bir(text))
    assert bool(len(program.dependences)) == swapped
    assert [each.code for each in context.diagnostics] == ["kept-dependences"] * (2 * swapped)


@pytest.mark.parametrize("divergent", [False, True])
@pytest.mark.parametrize("engine", ["all", "pool"])
def test_meetings_where_cores_may_take_different_arms(engine: str, divergent: bool) -> None:
    """Full barriers of equal number do; others are taken not to agree, and edges stay."""
    text = 'bir 1\nprogram "arms" lnc=2\n' + "".join(
        f"""module @nc{core} core={core} {{
  func @main {{
    mloc %x dram.local size=64 kind=input
    mloc %p dram.local size=1 kind=input
    mloc %out dram.local size=64 kind=output
    block ^fork -> ^then, ^else cond=p{" divergent=true" if divergent else ""}:
    block ^then -> ^join:
      %a = core_barrier @{engine} () -> () name="m"
    block ^else -> ^join:
      %b = core_barrier @{engine} () -> () name="m"
    block ^join:
      %c = core_barrier @vector () -> () name="end"
  }}
}}
"""
        for core in range(2)
    )
    program = parse_bir(text)
    assert lists_agree(program) == (engine == "all" or not divergent)
