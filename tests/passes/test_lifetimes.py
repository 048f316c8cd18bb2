"""Storage while its owner does nothing: other cores are at work in epochs that are empty on the owner's list."""

from random import Random

import numpy as np
import pytest

import haulout
from haulout.analysis.lifetimes import lifetimes
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.text import parse_bir
from haulout.passes.coloring_allocator_dram_shared import Partitions
from haulout.passes.pipeline import Fences
from haulout_generators.programs import random_program


@pytest.mark.parametrize("trailing", [False, True], ids=["between fences", "behind the last fence"])
def test_remote_accesses_in_an_epoch_without_rows_of_the_owner(trailing: bool) -> None:
    """Core 1 moves %a to %b, both of core 0, while core 0 waits: they, and core 0's own %x, are live at one time."""
    build = ProgramBuilder("asleep", 2)
    owner = build.function(build.module("nc0", 0), "main")
    build.location(owner, "x", Space.DRAM_LOCAL, 64, kind=Kind.INOUT)
    for name in "ab":
        build.location(owner, name, Space.DRAM_SHARED, 64)
    entry = build.block(owner, "entry")
    build.barrier(entry, "m0", "m0")
    if not trailing:
        build.barrier(entry, "m1", "m1")
    other = build.function(build.module("nc1", 1), "main")
    views = [build.location(other, name, Space.DRAM_SHARED, 64, remote=(name, 0)) for name in "ab"]
    out = build.location(other, "out", Space.DRAM_LOCAL, 64, kind=Kind.OUTPUT)
    entry = build.block(other, "entry")
    build.barrier(entry, "m0", "m0")
    build.instruction(entry, "fill", "memset", Engine.DMA0, [], [views[0]])
    build.instruction(entry, "move", "dma_copy", Engine.DMA0, [views[0]], [views[1]])
    build.instruction(entry, "get", "dma_copy", Engine.DMA0, [views[1]], [out])
    if not trailing:
        build.barrier(entry, "m1", "m1")
    program = build.freeze()
    life = lifetimes(program)
    assert np.all(life.end[:3] > life.begin[:3])
    assert life.begin[:3].max() < life.end[:3].min()
    # Through the front door `localize_shared_memory` moves both to core 1; without it they stay.
    assert haulout.compile(program).ok


@pytest.mark.thin(7, "20 s")
@pytest.mark.parametrize("fences", ["minimal", "bracket"])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_compile_to_a_proof(seed: int, fences: Fences) -> None:
    result = haulout.compile(random_program(Random(seed)), fences=fences)
    assert result.ok, "\n".join(map(str, result.diagnostics))


OUTPUT = """bir 1
program "an output" lnc=1
module @nc0 core=0 {{
  func @main {{
    mloc %t dram.local size=8
    mloc %y dram.local size=8 kind=output{attrs}
    mloc %never dram.local size=8 kind=output
    block ^entry:
      %a = memset @act () -> (%t) seq=0
      %b = copy @act (%t) -> ({target}) seq=1
      %c = nop @sync () -> () seq=2
  }}
}}
"""


@pytest.mark.parametrize(
    ("attrs", "target", "held"),
    [("", "%y", (1, 4)), ("", "%y[0:4]", (1, 4)), (" partial=true", "%y", (0, 4)), ("", "", (0, 4))],
    ids=["whole", "a piece", "partial", "no access"],
)
def test_an_output_is_live_from_its_first_access(attrs: str, target: str, held: tuple[int, int]) -> None:
    life = lifetimes(parse_bir(OUTPUT.format(attrs=attrs, target=target)))
    assert (life.begin[1], life.end[1]) == held
    assert (life.begin[2], life.end[2]) == (0, 4)


@pytest.mark.parametrize("partitions", ["proportional", "equal", "joint"])
def test_an_output_takes_the_bytes_of_what_is_dead_before_it(partitions: Partitions) -> None:
    text = OUTPUT.format(attrs="", target="%t").replace("    mloc %never dram.local size=8 kind=output\n", "")
    text = text.replace("%c = nop @sync () -> () seq=2", "%c = memset @act () -> (%y) seq=2")
    result = haulout.compile(parse_bir(text), partitions=partitions)
    assert result.proved
    assert result.program.locations.address.tolist() == [0, 0]


def test_an_output_of_a_loop_is_live_from_its_start_to_the_end() -> None:
    text = LOOP.format(other="%x").replace(
        "    block ^end:\n  }", "    block ^end:\n      %z = nop @sync () -> () seq=5\n  }", 1
    )
    output, internal = (lifetimes(parse_bir(each)) for each in (text, text.replace(" kind=output", "")))
    assert (output.begin[2], output.end[2]) == (0, 7)
    assert (internal.begin[2], internal.end[2]) == (3, 4)


LOOP = """bir 1
program "arms in a loop" lnc=2
module @nc0 core=0 {{
  func @main {{
    mloc %c dram.local size=1 kind=input
    mloc %x dram.local size=8
    mloc %y dram.local size=8 kind=output
    block ^entry -> ^header:
    block ^header -> ^fork, ^end cond=c:
      %h = nop @sync () -> () seq=0
    block ^fork -> ^then, ^else cond=c:
    block ^then -> ^join:
      %t = memset @act () -> (%x) seq=1
    block ^else -> ^join:
      %e = memset @act () -> ({other}) seq=2
    block ^join -> ^header:
      %j = dma_copy @dma0 (%x) -> (%y) seq=3
      %k = nop @sync () -> () seq=4
    block ^end:
  }}
}}
module @nc1 core=1 {{
  func @main {{
    mloc %c dram.local size=1 kind=input
    block ^entry -> ^header:
    block ^header -> ^fork, ^end cond=c:
    block ^fork -> ^then, ^else cond=c:
    block ^then -> ^join:
    block ^else -> ^join:
    block ^join -> ^header:
    block ^end:
  }}
}}
"""


@pytest.mark.parametrize(("other", "held"), [("%x", (1, 4)), ("%y", (0, 5)), ("%x[0:7]", (0, 5))])
def test_a_value_lives_around_the_loop_unless_both_arms_write_all_of_it(other: str, held: tuple[int, int]) -> None:
    program = parse_bir(LOOP.format(other=other))
    life = lifetimes(program)
    assert (life.begin[1], life.end[1]) == held


ATOM = """bir 1
program "fences in a divergent branch" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %s dram.shared size=8
    mloc %x dram.local size=8
    block ^fork -> ^then, ^else cond=c divergent=true:
      %a = nop @sync () -> () seq=0
    block ^then -> ^join:
      %b1 = core_barrier @all () -> () name="one" seq=1
      %b2 = core_barrier @all () -> () name="two" seq=3
    block ^else -> ^join:
      %b3 = core_barrier @all () -> () name="one" seq=1
      %w = memset @act () -> (%x) seq=2
      %b4 = core_barrier @all () -> () name="two" seq=3
    block ^join:
      %z = nop @sync () -> () seq=4
  }
}
module @nc1 core=1 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %s dram.shared size=8 remote=[s,0]
    block ^fork -> ^then, ^else cond=c divergent=true:
    block ^then -> ^join:
      %b1 = core_barrier @all () -> () name="one" seq=1
      %r = memset @act () -> (%s) seq=2
      %b2 = core_barrier @all () -> () name="two" seq=3
    block ^else -> ^join:
      %b3 = core_barrier @all () -> () name="one" seq=1
      %b4 = core_barrier @all () -> () name="two" seq=3
    block ^join:
  }
}
"""


def test_where_another_core_is_in_a_divergent_branch_tells_nothing_of_the_owner() -> None:
    """Core 1 writes %s between fences of its then arm, while core 0 uses %x between those of its else arm."""
    life = lifetimes(parse_bir(ATOM))
    assert life.begin[1] < life.end[2]
    assert life.begin[2] < life.end[1]


def test_without_seq_the_order_on_two_cores_is_not_known() -> None:
    """Core 1 reads what core 0 wrote an iteration ago, before core 0 writes it anew; the text has it last."""
    program = parse_bir(NO_SEQ)
    life = lifetimes(program)
    assert (life.begin[1], life.end[1]) == (0, 5)


NO_SEQ = """bir 1
program "no common time" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %s dram.shared size=8
    block ^header -> ^body, ^end cond=c:
    block ^body -> ^header:
      %b0 = core_barrier @all () -> () name="zero"
      %b1 = core_barrier @all () -> () name="one"
      %w = memset @act () -> (%s)
      %b2 = core_barrier @all () -> () name="two"
      %n = nop @sync () -> ()
    block ^end:
  }
}
module @nc1 core=1 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %s dram.shared size=8 remote=[s,0]
    mloc %y dram.local size=8 kind=output
    block ^header -> ^body, ^end cond=c:
    block ^body -> ^header:
      %b0 = core_barrier @all () -> () name="zero"
      %r = dma_copy @act (%s) -> (%y)
      %b1 = core_barrier @all () -> () name="one"
      %b2 = core_barrier @all () -> () name="two"
    block ^end:
  }
}
"""
