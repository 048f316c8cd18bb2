"""The source's order, and programs that are not understood."""

from __future__ import annotations

import pytest
from tests.checker.loop_snippets import FORK, branch, core
from tests.checker.snippets import bir, codes, findings, program

from haulout.checker import check_program
from haulout.ir.text import parse_bir
from haulout.support.diagnostics import Severity


def test_a_pair_ordered_against_seq_is_unfaithful() -> None:
    left = """
        mloc %s dram.shared size=8 kind=inout
        %w = iota @act () -> (%s) seq={}
        %b = core_barrier @all () -> () seq=5 name="b"
    """
    right = """
        mloc %s dram.shared size=8 remote=[s,0]
        %b = core_barrier @all () -> () seq={} name="b"
        %r = copy @act (%s) -> () seq={}
    """
    assert codes(left.format(1), right.format(2, 3)) == []
    (wrong,) = findings(left.format(4), right.format(2, 3))
    assert wrong.code == "unfaithful-order"
    assert "(seq 4 and 3)" in wrong.message


def test_seq_may_not_fall_along_the_list() -> None:
    core = """
        block ^one -> ^two:
        %a = iota @act () -> () seq={}
        block ^two:
        %b = iota @act () -> () seq=3
    """
    assert codes(core.format(2)) == []
    assert codes(core.format(4)) == ["unfaithful-order"]


SOURCE = (
    'mloc %s dram.shared size=8 kind=inout\n%w = iota @act () -> (%s)\n%b = core_barrier @all () -> () name="b"',
    'mloc %s dram.shared size=8 remote=[s,0]\n%b = core_barrier @all () -> () name="b"\n%r = copy @act (%s) -> ()',
)
TURNED = (
    'mloc %s dram.shared size=8 kind=inout\n%b = core_barrier @all () -> () name="b"\n%w = iota @act () -> (%s)',
    'mloc %s dram.shared size=8 remote=[s,0]\n%r = copy @act (%s) -> ()\n%b = core_barrier @all () -> () name="b"',
)


def test_without_seq_the_source_program_gives_the_order() -> None:
    assert check_program(program(*SOURCE), source=program(*SOURCE)) == []
    assert check_program(program(*TURNED)) == []
    (wrong,) = check_program(program(*TURNED), source=program(*SOURCE))
    assert wrong.code == "unfaithful-order"


def test_a_source_that_orders_nothing_asks_for_nothing() -> None:
    free = tuple(
        core.replace('%b = core_barrier @all () -> () name="b"', "%b = iota @pe () -> ()") for core in SOURCE
    )
    for compiled in (SOURCE, TURNED):
        assert check_program(program(*compiled), source=program(*free)) == []


def test_seq_must_rise_as_the_source_s_does() -> None:
    cores = "%a = iota @act () -> () seq={}\n%b = iota @act () -> () seq={}"
    source = program(cores.format(0, 1), cores.format(0, 1))
    assert check_program(program(cores.format(0, 4), cores.format(1, 5)), source=source) == []
    (wrong,) = check_program(program(cores.format(0, 4), cores.format(4, 5)), source=source)
    assert wrong.code == "unfaithful-order"


LOOP = """
    block ^entry -> ^body:
    %a = iota @act () -> ()
    block ^body -> ^body, ^done trip=4:
    %b = iota @act () -> ()
    block ^done:
    %c = iota @act () -> ()
"""


def test_control_flow_is_said_once_with_block_and_place() -> None:
    (wrong,) = findings(LOOP, LOOP)
    assert wrong.code == "bad-input"
    assert wrong.labels[0].message == "^body on core 0"
    assert str(wrong.span) == "snippet.bir:7"


def test_a_block_that_is_not_reached_and_a_loop_without_exit() -> None:
    assert codes(LOOP.replace("^body -> ^body, ^done trip=4", "^body")) == ["bad-input"]
    assert codes(LOOP.replace("^body, ^done trip=4", "^entry")) == ["bad-input"]


def test_blocks_that_form_a_chain_are_one_list_in_whatever_order_they_stand() -> None:
    core = """
        block ^entry -> ^last:
        %w = iota @act () -> (%a)
        block ^end:
        %v = copy @act (%a) -> ()
        block ^last -> ^end:
        %r = copy @act (%a) -> ()
    """
    assert codes("mloc %a dram.local size=8\n" + core) == []
    turned = core.replace("%w = iota @act () -> (%a)", "%q = iota @act () -> ()")
    turned = turned.replace("%v = copy @act (%a) -> ()", "%v = iota @act () -> (%a)")
    assert codes("mloc %a dram.local size=8\n" + turned) == ["uninitialized-read"]


def test_a_dependence_on_something_later_in_the_chain() -> None:
    core = """
        block ^entry -> ^last:
        %a = iota @act () -> () deps=[b]
        block ^last:
        %b = iota @pool () -> ()
    """
    (wrong,) = findings(core)
    assert (wrong.code, wrong.message) == ("bad-input", "it waits for %b, which stands behind it")


def test_every_function_is_checked() -> None:
    text = bir("mloc %a dram.local size=8\n%r = copy @act (%a) -> ()")
    body = text.split("module @nc0 core=0 {\n")[1].rsplit("}\n", 1)[0]
    twice = text.replace(body, body.replace("func @main", "func @first") + body)
    assert [each.code for each in check_program(parse_bir(twice))] == ["uninitialized-read"] * 2


def test_at_most_fifty_findings() -> None:
    cores = "\n".join(f"mloc %a{k} dram.local size=8\n%r{k} = copy @act (%a{k}) -> ()" for k in range(70))
    found = findings(cores)
    assert 0 < len(found) <= 50


def test_a_source_with_other_branches_is_said_not_to_be_compared() -> None:
    def text(*arms: str) -> str:
        return core(FORK, branch(*arms))

    compiled, source = program(text("%t = nop @act () -> ()")), program(text("%t = nop @act () -> ()", ""))
    assert check_program(compiled, source=compiled) == []
    (said,) = check_program(compiled, source=source)
    assert (said.code, said.severity) == ("unfaithful-order", Severity.WARNING)
    assert said.message == "the source has other loops or branches in @main: its order was not compared"


HALVES = """
    mloc %x dram.local size=64 kind=input
    mloc %piece dram.local size=16 kind=input
    mloc %y dram.local size=64 kind=output
    %{first} = {one} seq={times[0]}
    %{second} = {other} seq={times[1]} {wait}
"""
WHOLE, PIECE = "dma_copy @dma0 (%x) -> (%y)", "dma_copy @dma0 (%piece) -> (%y[16:32])"


def halves(one: str, other: str, times: tuple[int, int] = (7, 7), wait: str = "") -> str:
    """Two instructions at two times."""
    return HALVES.format(first="a", second="b", one=one, other=other, times=times, wait=wait)


def test_the_parts_of_an_operation_need_a_seq_each() -> None:
    """With one `seq` nothing says which half comes first: the right order is refused as the swapped one is."""
    assert codes(halves(WHOLE, PIECE, (7, 8))) == []
    for one, other in ((WHOLE, PIECE), (PIECE, WHOLE)):
        (wrong,) = findings(halves(one, other))
        assert (wrong.code, wrong.severity) == ("unfaithful-order", Severity.ERROR)
        assert "after %a on core 0 writes it, but both have seq=7, which is no order" in wrong.message


@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [
        (WHOLE, "copy @vector (%y) -> ()", True),  # on another engine, with a dependence
        ("copy @dma0 (%y[?]) -> ()", PIECE, True),
        ("dma_copy @dma0 (%y[0:16]) -> (%y[48:64])", "dma_copy @dma0 (%y[16:32]) -> (%y[16:32])", False),
        ("dma_copy @dma0 (%x[0:16]) -> (%y[0:16])", "dma_copy @dma0 (%x) -> (%y[16:64])", False),
        ("dma_copy @dma0 (%x[0:16]) -> (%y[0;32x2;16])", "dma_copy @dma0 (%x[0:16]) -> (%y[16;32x2;16])", False),
        ("memset @dma0 () -> (%y) value=0", "memset @dma0 () -> (%y[0:32]) value=0", True),
        ("memset @dma0 () -> (%y) value=0", "memset @dma0 () -> (%y[0:32]) value=1", True),
    ],
)
def test_equal_times_are_an_order_of_nothing_that_conflicts(one: str, other: str, wrong: bool) -> None:
    text = halves(one, other, wait="deps=[a]").replace("kind=output", "kind=inout")
    assert ("unfaithful-order" in codes(text)) == wrong


def test_a_read_that_the_next_instruction_reads_too_is_not_forgotten() -> None:
    """%b reads what %a reads, then writes it: it is %a's read that must come first."""
    text = halves("copy @dma0 (%y) -> ()", "copy @dma0 (%y) -> (%y)").replace("kind=output", "kind=inout")
    assert codes(text) == ["unfaithful-order"]
    assert codes(text.replace("seq=7 \n", "seq=8 \n")) == []


def test_equal_times_across_blocks_and_cores_are_no_order() -> None:
    text = """
        mloc %y dram.local size=64 kind=inout
        block ^one -> ^two:
        %a = memset @dma0 () -> (%y) value=1 seq=3
        block ^two:
        %b = memset @dma0 () -> (%y) value=2 seq={}
    """
    assert codes(text.format(4)) == []
    assert codes(text.format(3)) == ["unfaithful-order"]
    left = """
        mloc %s dram.shared size=8 kind=inout
        %w = iota @act () -> (%s) seq=1
        %b = core_barrier @all () -> () name="b" seq=1
    """
    right = """
        mloc %s dram.shared size=8 remote=[s,0]
        %b = core_barrier @all () -> () name="b" seq=1
        %r = copy @act (%s) -> () seq={}
    """
    assert codes(left, right.format(2)) == []
    assert codes(left, right.format(1)) == ["unfaithful-order"]


def test_arms_that_never_run_together_may_share_their_times() -> None:
    text = """
        mloc %y dram.local size=64 kind=output
        mloc %c dram.local size=4 kind=input
        block ^fork -> ^then, ^else cond=c:
        block ^then -> ^join:
        %a = memset @dma0 () -> (%y) value=1 seq=3
        block ^else -> ^join:
        %b = memset @dma0 () -> (%y) value=2 seq=3
        block ^join:
    """
    assert codes(text) == []
