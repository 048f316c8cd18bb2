"""Loops: storage that tensors of a body share, the source's order, and which shapes of blocks are loops."""

from __future__ import annotations

import pytest
from tests.check.loop_snippets import START, core, loop
from tests.check.snippets import codes, findings

from haulout.check import regions

# -- storage ---------------------------------------------------------------------------------------------------------

TURNS = """
    mloc %a dram.local size=64 align=32 address=0
    mloc %b dram.local size=64 align=32 address={}
    block ^entry -> ^loop:
    {}
    block ^loop -> ^body, ^done trip=3:
    block ^body -> ^loop:
    %w = iota @act () -> (%a)
    %r = copy @act (%a) -> ()
    %v = iota @act () -> (%b)
    %s = copy @act (%b{}) -> ()
    {}
    block ^done:
"""


def test_two_tensors_of_a_body_take_turns_on_their_bytes() -> None:
    assert codes(TURNS.format(0, "", "", "")) == []
    assert codes(TURNS.format(32, "", "", "")) == []
    (wrong,) = findings(TURNS.format(0, "", "", "%t = copy @act (%a) -> ()"))
    assert wrong.code == "overlapping-storage"
    assert "%t on core 0 reads %a where %v on core 0 has written %b" in wrong.message
    assert codes(TURNS.format(64, "", "", "%t = copy @act (%a) -> ()")) == []
    assert codes(TURNS.format(32, "", "", "%t = copy @act (%a[0:32]) -> ()")) == []
    assert codes(TURNS.format(32, "", "", "%t = copy @act (%a[0:33]) -> ()")) == ["overlapping-storage"]


def test_a_value_carried_around_the_back_edge_keeps_its_bytes() -> None:
    carried = TURNS.replace("%w = iota @act () -> (%a)\n    %r = copy @act (%a) -> ()", "%w = copy @act (%a) -> (%a)")
    start = "%i = iota @act () -> (%a)"
    assert codes(carried.format(64, start, "", "")) == []
    (wrong,) = findings(carried.format(0, start, "", ""))
    assert wrong.code == "overlapping-storage"
    assert "%w on core 0 in the next iteration of ^loop reads %a where %v on core 0 has written %b" in wrong.message


def test_storage_that_is_reused_must_be_ordered() -> None:
    text = (
        TURNS.format(0, "", "", "")
        .replace("%v = iota @act", "%v = iota @dma0")
        .replace("(%b) -> ()", "(%b) -> () deps=[v]")
    )
    found = codes(text)
    assert "missing-dependence" in found
    waiting = text.replace("(%b)\n    %s", "(%b) deps=[r]\n    %s").replace(
        "%w = iota @act () -> (%a)", "%w = iota @act () -> (%a) carried=[s]"
    )
    assert codes(waiting) == []


def test_bytes_that_may_have_been_overwritten() -> None:
    unknown = TURNS.format(0, "", "", "%t = copy @act (%a[0:4]) -> ()").replace("() -> (%b)", "() -> (%b[?])")
    assert "overlapping-storage" in codes(unknown)


def test_what_is_live_for_ever_shares_nothing() -> None:
    text = TURNS.format(0, "", "", "").replace("%b dram.local size=64", "%b dram.local size=64 kind=output")
    assert codes(text) == ["overlapping-storage"]


def test_one_instruction_does_not_turn_one_tensor_into_another_in_place() -> None:
    text = TURNS.format(0, "", "", "").replace("%v = iota @act () -> (%b)", "%v = copy @act (%a) -> (%b)")
    (wrong,) = findings(text)
    assert "%v on core 0 touches %a where %v on core 0 has written %b" in wrong.message


def test_storage_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MOST_RUNS", 2)
    text = TURNS.format(0, "", "", "{}").replace(
        "%w = iota @act () -> (%a)", "%w = iota @act () -> (%a[0;4x16;2], %a[2;4x16;2])"
    )
    assert codes(text.format("")) == []
    assert codes(text.format("%t = copy @act (%a[0;8x8;1]) -> ()")) == ["overlapping-storage"]


# -- the source's order ----------------------------------------------------------------------------------------------


def test_time_is_iteration_then_seq() -> None:
    def text(number: int, seqs: tuple[int, int]) -> str:
        head = "kind=inout" if number == 0 else "remote=[s,0]"
        work = "iota @act () -> (%s)" if number == 0 else "copy @act (%s) -> ()"
        fences = [f'%b{k} = core_barrier @all () -> () name="b{k}" seq={{}}' for k in range(2)]
        body = [f"%w = {work} seq={seqs[0]}", fences[0].format(2), fences[1].format(5)]
        if number:
            body = [fences[0].format(2), f"%r = {work} seq={seqs[1]}", fences[1].format(5)]
        return core(f"mloc %s dram.shared size=64 {head}", START, loop(*body))

    assert codes(text(0, (1, 3)), text(1, (1, 3))) == []
    assert codes(text(0, (2, 2)), text(1, (2, 2))) == []
    turned = text(0, (2, 2)).replace("seq=2\n", "seq=4\n", 1).replace('"b0" seq=2', '"b0" seq=4')
    (wrong,) = findings(turned, text(1, (2, 3)).replace('"b0" seq=2', '"b0" seq=3'))
    assert wrong.code == "unfaithful-order"


# -- shapes ----------------------------------------------------------------------------------------------------------

NOT_LOOPS = {
    "two ways": "block ^entry -> ^one, ^two:\nblock ^one -> ^end:\nblock ^two -> ^end:\nblock ^end:",
    "back to itself": "block ^entry -> ^loop:\nblock ^loop -> ^loop, ^end trip=3:\nblock ^end:",
    "turned": "block ^entry -> ^loop:\nblock ^loop -> ^end, ^body trip=3:\nblock ^body -> ^loop:\nblock ^end:",
    "no way out": "block ^entry -> ^body:\nblock ^body -> ^entry:",
    "early return": "block ^entry -> ^loop:\nblock ^loop -> ^body, ^end trip=3:\nblock ^body:\nblock ^end:",
    "leaves twice": ("block ^loop -> ^a, ^end trip=3:\nblock ^a -> ^b, ^end:\nblock ^b -> ^loop:\nblock ^end:"),
    "crossed": (
        "block ^one -> ^two, ^end:\nblock ^two -> ^a, ^b:\nblock ^a -> ^one:\nblock ^b -> ^two:\nblock ^end:"
    ),
    "divergent": "block ^loop -> ^body, ^end trip=3 divergent=true:\nblock ^body -> ^loop:\nblock ^end:",
}


@pytest.mark.parametrize("name", NOT_LOOPS)
def test_other_shapes_are_not_supported(name: str) -> None:
    (wrong,) = findings(NOT_LOOPS[name], NOT_LOOPS[name])
    assert wrong.code == "bad-input"
    assert "not supported yet: control flow (block ^" in wrong.message
    assert wrong.span is not None


def test_all_cores_have_the_same_loops() -> None:
    text = core(START, loop())
    assert codes(text, text) == []
    assert codes(text, text.replace("loop", "other")) == []
    (trips,) = findings(text, text.replace("trip=4", "trip=5"))
    assert "block ^loop of core 1 begins a loop that does not run as often as loop ^loop of core 0" in trips.message
    assert codes(text, "block ^entry:") == ["bad-input"]
    longer = text.replace("block ^loop_body -> ^loop:", "block ^loop_body -> ^more:\nblock ^more -> ^loop:")
    assert codes(text, longer) == ["bad-input"]
