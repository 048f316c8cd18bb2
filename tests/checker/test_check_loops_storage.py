"""Loops: storage that tensors of a body share, the source's order, and which shapes of blocks are loops."""

from __future__ import annotations

import pytest
from tests.checker.loop_snippets import START, core, loop
from tests.checker.snippets import codes, findings, program, sides, subject

from haulout.checker.proofs import extents
from haulout.support.diagnostics import HauloutError

# -- storage ---------------------------------------------------------------------------------------------------------

TURNS = """
    mloc %go dram.local size=1 kind=input dtype=pred shape=[]
    mloc %a dram.local size=64 align=32 address=0
    mloc %b dram.local size=64 align=32 address={}
    block ^entry -> ^loop:
    {}
    block ^loop -> ^body, ^done trip=3 cond=go:
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
    assert (subject(wrong).kind, sides(wrong)) == ("shared bytes", ["v@0", "t@0"])
    assert codes(TURNS.format(64, "", "", "%t = copy @act (%a) -> ()")) == []
    assert codes(TURNS.format(32, "", "", "%t = copy @act (%a[0:32]) -> ()")) == []
    assert codes(TURNS.format(32, "", "", "%t = copy @act (%a[0:33]) -> ()")) == ["overlapping-storage"]


def test_a_value_carried_around_the_back_edge_keeps_its_bytes() -> None:
    carried = TURNS.replace("%w = iota @act () -> (%a)\n    %r = copy @act (%a) -> ()", "%w = copy @act (%a) -> (%a)")
    start = "%i = iota @act () -> (%a)"
    assert codes(carried.format(64, start, "", "")) == []
    (wrong,) = findings(carried.format(0, start, "", ""))
    assert wrong.code == "overlapping-storage"
    assert (subject(wrong).kind, sides(wrong)) == ("shared bytes", ["v@0", "w@0"])


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


OUTPUT = """
    mloc %go dram.local size=1 kind=input dtype=pred shape=[]
    mloc %a dram.local size=64 align=32 address=0
    mloc %o dram.local size=64 align=32 address={} kind=output{}
    block ^entry -> ^loop:
    {}
    block ^loop -> ^body, ^done trip=3 cond=go:
    block ^body -> ^loop:
    {}
    %w = iota @act () -> (%a)
    %r = copy @act (%a) -> ()
    block ^done:
    {}
"""


def test_an_output_takes_the_bytes_of_what_a_loop_has_left() -> None:
    write = "%v = iota @act () -> (%o)"
    assert codes(OUTPUT.format(0, "", "", "", write)) == []
    assert codes(OUTPUT.format(0, " partial=true", "", "", write)) == ["overlapping-storage"]
    for early in ((write, "", ""), ("", write, "")):
        (wrong,) = findings(OUTPUT.format(0, "", *early))
        assert wrong.code == "overlapping-storage"
        assert (subject(wrong).kind, sides(wrong)) == ("shared bytes", ["v@0", "w@0"])
        assert codes(OUTPUT.format(64, "", *early)) == []
        assert codes(OUTPUT.format(32, "", *early)) == ["overlapping-storage"]


def test_one_instruction_does_not_turn_one_tensor_into_another_in_place() -> None:
    text = TURNS.format(0, "", "", "").replace("%v = iota @act () -> (%b)", "%v = copy @act (%a) -> (%b)")
    (wrong,) = findings(text)
    assert (subject(wrong).kind, sides(wrong)) == ("shared bytes", ["v@0", "v@0"])


def test_storage_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extents, "MAX_RUNS", 2)
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
    assert codes(text(0, (2, 2)), text(1, (2, 2))) == ["unfaithful-order"]  # ordered, but not by their time
    turned = text(0, (2, 2)).replace("seq=2\n", "seq=4\n", 1).replace('"b0" seq=2', '"b0" seq=4')
    (wrong,) = findings(turned, text(1, (2, 3)).replace('"b0" seq=2', '"b0" seq=3'))
    assert wrong.code == "unfaithful-order"


# -- shapes ----------------------------------------------------------------------------------------------------------

LOOP_ENDS = "block ^body -> ^loop:\nblock ^end:"
NOT_NESTED = {
    "no cond": (f"block ^loop -> ^body, ^end trip=3:\n{LOOP_ENDS}", "^loop"),
    "cond without a choice": ("block ^entry -> ^end cond=go:\nblock ^end:", "^entry"),
    "three ways": (
        "block ^a -> ^b, ^c, ^d:\nblock ^b -> ^d:\nblock ^c -> ^d:\nblock ^d:",
        "^a",
    ),
    "back to itself": (
        "block ^entry -> ^loop:\nblock ^loop -> ^loop, ^end cond=go:\nblock ^end:",
        "^loop",
    ),
    "turned": (
        f"block ^entry -> ^loop:\nblock ^loop -> ^end, ^body trip=3 cond=go:\n{LOOP_ENDS}",
        "^loop",
    ),
    "no way out": ("block ^entry -> ^body:\nblock ^body -> ^entry:", "^body"),
    "early return": (
        "block ^entry -> ^loop:\nblock ^loop -> ^body, ^end cond=go:\nblock ^body:\nblock ^end:",
        "^loop",
    ),
    "returns in a body": (
        "block ^loop -> ^a, ^end cond=go:\nblock ^a:\nblock ^b -> ^loop:\nblock ^end:",
        "^a",
    ),
    "leaves twice": (
        "block ^loop -> ^a, ^end cond=go:\nblock ^a -> ^b, ^end cond=go:\nblock ^b -> ^loop:\nblock ^end:",
        "^a",
    ),
    "crossed": (
        "block ^one -> ^two, ^end cond=go:\nblock ^two -> ^a, ^b cond=go:\nblock ^a -> ^one:\nblock ^b -> ^two:\n"
        "block ^end:",
        "^one",
    ),
    "divergent trips": (
        f"block ^loop -> ^body, ^end cond=go divergent=true:\n{LOOP_ENDS}",
        "^loop",
    ),
    "trip of a fork": (
        "block ^f -> ^a, ^j cond=go trip=1:\nblock ^a -> ^j:\nblock ^j:",
        "^f",
    ),
    "a shared tail": (
        "block ^f -> ^a, ^b cond=go:\nblock ^a -> ^c:\nblock ^b -> ^c, ^d cond=go:\nblock ^c -> ^d:\nblock ^d:",
        "^b",
    ),
    "an arm that leads elsewhere": (
        "block ^f -> ^a, ^b cond=go:\nblock ^a -> ^d:\nblock ^b -> ^c:\nblock ^c -> ^e:\nblock ^d -> ^e:\nblock ^e:",
        "^c",
    ),
    "a join that is a header": (
        f"block ^f -> ^a, ^loop cond=go:\nblock ^a -> ^loop:\nblock ^loop -> ^body, ^end cond=go:\n{LOOP_ENDS}",
        "^loop",
    ),
    "a loop that ends its arm": (
        f"block ^f -> ^loop, ^end cond=go:\nblock ^loop -> ^body, ^end cond=go:\n{LOOP_ENDS}",
        "^f",
    ),
}


@pytest.mark.parametrize("name", NOT_NESTED)
def test_other_shapes_are_not_supported(name: str) -> None:
    text, block = NOT_NESTED[name]
    (wrong,) = findings(core(text), core(text))
    assert wrong.code == "bad-input"
    assert wrong.message.startswith(f"unsupported control flow: block {block} ")
    assert wrong.span is not None
    with pytest.raises(HauloutError) as refused:  # the passes refuse the same
        _ = program(core(text), core(text)).structure
    assert refused.value.diagnostics[0].message == wrong.message


def test_all_cores_have_the_same_loops() -> None:
    text = core(START, loop())
    assert codes(text, text) == []
    assert codes(text, text.replace("loop", "other")) == []
    (trips,) = findings(text, text.replace("trip=4", "trip=5"))
    assert trips.code == "bad-input" and trips.labels[0].message == "^loop on core 1"
    assert codes(text, "block ^entry:") == ["bad-input"]
    longer = text.replace("block ^loop_body -> ^loop:", "block ^loop_body -> ^more:\nblock ^more -> ^loop:")
    assert codes(text, longer) == ["bad-input"]
