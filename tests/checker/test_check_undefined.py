"""Undefined bytes: where they may go, against programs that are carried out (`undefined_programs.py`)."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from tests.checker.snippets import codes, findings
from tests.checker.undefined_programs import Place, Step, harmful, program_of, random_steps, values

from haulout.checker import check_program
from haulout.support.diagnostics import Severity


def _told(steps: list[Step]) -> dict[str, int]:
    """Locations that the checker blames, and the first read that does harm."""
    found = {}
    for each in check_program(program_of(steps)):
        if each.code != "uninitialized-read":
            continue
        assert each.severity is Severity.ERROR
        match = re.match(r"%i(\d+) on core 0 reads bytes \d+:\d+ of %(\w+), which nothing has written", each.message)
        assert match is not None, each.message
        found[match[2]] = int(match[1])
    return found


def _first_harmful(steps: list[Step], place: Place) -> int:
    return next(number for number in range(len(steps)) if harmful(steps, place, number + 1))


@pytest.mark.parametrize("way", ["few", "many"])
def test_agrees_with_programs_that_are_carried_out(way: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        steps = random_steps(Random(f"{way} {seed}"), 14 if way == "few" else 40)
        if not steps:
            continue
        places = {view.place for step in steps for view in (*step.reads, *step.writes)}
        wanted = {place.name: _first_harmful(steps, place) for place in places if harmful(steps, place)}
        assert _told(steps) == wanted
        # Whatever memory held before, nothing else is seen of a program without such reads.
        if not wanted:
            assert values(steps, 1) == values(steps, 2) == values(steps, 3)
        seen["harmful" if wanted else "harmless"] += 1
        seen["visible"] += values(steps, 1) != values(steps, 2)
    assert min(seen["harmful"], seen["visible"], seen["harmless"]) > 20


# -- single cases ----------------------------------------------------------------------------------------------------

PADDED = """
    mloc %t dram.local size=64 dtype=f32 shape=[16]
    mloc %u dram.local size=64 dtype=f32 shape=[16]
    mloc %y dram.local size=32 dtype=f32 shape=[8] kind=output
    %some = memset @dma0 () -> (%t[0:32]) value=0
    %all = {op} @vector (%t, %t) -> (%u) deps=[some]
    %out = dma_copy @dma1 (%u[{part}]) -> (%y) deps=[all]
"""


@pytest.mark.parametrize(
    ("op", "part", "harm"),
    [
        ("multiply", "0:32", False),
        ("multiply", "4:36", True),
        ("dot", "0:32", True),
        ("never_heard_of", "0:32", True),
    ],
)
def test_what_an_operation_is_known_to_keep_apart(op: str, part: str, harm: bool) -> None:
    assert codes(PADDED.format(op=op, part=part)) == (["uninitialized-read"] if harm else [])


def test_the_way_is_told() -> None:
    (found,) = findings(PADDED.format(op="multiply", part="4:36"))
    assert found.message == "%all on core 0 reads bytes 32:64 of %t, which nothing has written"
    assert "it reaches %y, through %u" in found.notes


def test_what_is_overwritten_in_the_end_does_no_harm() -> None:
    core = PADDED.format(op="multiply", part="4:36") + "    %late = memset @dma1 () -> (%y{}) value=0\n"
    assert codes(core.format("[0:32]")) == []
    assert codes(core.format("[0:28]")) == ["uninitialized-read"]
    assert codes(core.format("[?]")) == ["uninitialized-read"]


@pytest.mark.parametrize(
    "use",
    [
        "%use = nop @vector (%u[{}]) -> () deps=[all]",
        "%use = gather @vector (%x, %u[{}]) -> (%z) deps=[all]",
        "%use = dynamic_slice @vector (%x, %u[{}]) -> (%z) deps=[all] sizes=[1]",
        "%use = dma_copy @vector (%u[{}]) -> (%x[?]) deps=[all]",
        "%use = nki.dma_copy @vector (%x, %u[{}]) -> (%z) deps=[all] "
        "args=[[dst,[2],i32,[1,16],[16,1]],[src,[0],i32,[1,16],[16,1],[[[1],i32,[1,1],[1,1]],true,16,1]]]",
        "%use = nki.local_gather @pool (%x, %u[{}]) -> (%z) deps=[all] "
        "args=[[dst,[2],i32,[16],[1]],[src_buffer,[0],i32,[16],[1]],[index,[1],i32,[1],[1]]]",
        "%use = all_reduce @vector (%u[{}]) -> (%z[0:4]) deps=[all] op=add",
        "%use = nki.all_gather_v @vector (%u[{}]) -> (%z[0:4]) deps=[all]",
    ],
)
def test_effects_indices_and_collectives_see_it(use: str) -> None:
    core = PADDED.format(op="multiply", part="0:32") + "mloc %x dram.local size=64 kind=inout\n"
    core += "mloc %z dram.local size=64\n"
    assert codes(core + use.format("28:32")) == []
    assert codes(core + use.format("32:36")) == ["uninitialized-read"]


def test_it_goes_through_a_meeting() -> None:
    send = """
        mloc %t dram.local size=64
        mloc %s dram.local size=64
        %some = memset @dma0 () -> (%t[0:32]) value=0
        %send = sendrecv @dma0 (%t) -> (%s) to=1 from=1
    """
    receive = send + "mloc %y dram.local size=32 kind=output\n%out = dma_copy @dma0 (%s[{}]) -> (%y)"
    receive = receive.replace("to=1 from=1", "to=0 from=0")
    assert codes(send, receive.format("0:32")) == []
    (found,) = findings(send, receive.format("16:48"))
    assert found.message == "%send on core 0 reads bytes 32:64 of %t, which nothing has written"
    assert "it reaches %y, through %s" in found.notes


LOOP = """
    mloc %n dram.local size=4 dtype=s32 shape=[1] kind=input
    mloc %a dram.local size=8
    mloc %b dram.local size=8
    mloc %c dram.local size=8
    mloc %d dram.local size=8
    mloc %y dram.local size=8 kind=output
    block ^entry -> ^head:
      %zero = memset @dma0 () -> (%b) value=0
      %zero2 = memset @dma0 () -> (%c) value=0
      %zero3 = memset @dma0 () -> (%d) value=0
      %first = memset @dma0 () -> (%y) value=0
    block ^head -> ^body, ^end {count}:
    block ^body -> ^head:
      %m1 = dma_copy @dma0 (%d) -> (%{last})
      %m2 = dma_copy @dma0 (%c) -> (%d)
      %m3 = dma_copy @dma0 (%b) -> (%c)
      %m4 = dma_copy @dma0 (%a) -> (%b)
    block ^end:
      %m5 = memset @dma0 () -> (%b) value=0
"""


@pytest.mark.parametrize("count", ["trip=9 cond=n", "cond=n"])
def test_later_iterations_may_bring_it_out(count: str) -> None:
    (found,) = findings(LOOP.format(count=count, last="y"))
    assert (found.code, found.severity) == ("uninitialized-read", Severity.WARNING)
    assert "it reaches %y, through %b, %c, %d" in found.notes
    assert codes(LOOP.format(count=count, last="b")) == []


def test_a_condition_sees_it() -> None:
    core = """
        mloc %t dram.local size=8 dtype=s32 shape=[2]
        mloc %go dram.local size=8 dtype=s32 shape=[2]
        block ^entry -> ^left, ^right cond=go:
          %some = memset @dma0 () -> (%t[{}]) value=0
          %all = negate @dma0 (%t) -> (%go)
        block ^left -> ^end:
        block ^right -> ^end:
        block ^end:
    """
    assert codes(core.format("0:4")) == []
    (found,) = findings(core.format("4:8"))
    assert found.code == "uninitialized-read" and any("decides the branch" in note for note in found.notes)


def test_equal_fills_excuse_no_read() -> None:
    owner = """
        mloc %t dram.shared size=64
        mloc %y dram.local size=8 kind=output
        %w = memset @dma0 () -> (%t[0:32]) value=0
        %meet = core_barrier @all () -> () name="m"
        %r = dma_copy @dma0 (%t[{}]) -> (%y)
    """
    other = """
        mloc %t dram.shared size=64 remote=[t,0]
        %w = memset @dma0 () -> (%t[0:32]) value=0
        %meet = core_barrier @all () -> () name="m"
    """
    assert codes(owner.format("0:8"), other) == ["benign-duplicate-write"]
    assert codes(owner.format("32:40"), other) == ["benign-duplicate-write", "uninitialized-read"]
