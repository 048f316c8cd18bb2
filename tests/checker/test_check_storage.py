"""Values and storage: a smallest program with each fault, and its twin without."""

from __future__ import annotations

import pytest
from tests.checker.snippets import bir, codes, findings, sides, subject

from haulout.checker import check_program
from haulout.ir.text import parse_bir
from haulout.support.diagnostics import HauloutError, Severity


def test_bytes_are_written_before_they_are_read() -> None:
    core = """
        mloc %a dram.local size=64
        %w = iota @act () -> (%a[{}])
        %v = iota @act () -> (%a[{}])
        %r = copy @act (%a) -> ()
    """
    assert codes(core.format("0:32", "32:64")) == []
    assert codes(core.format("0;16x4;8", "8;16x4;8")) == []
    (wrong,) = findings(core.format("0:32", "40:64"))
    assert wrong.code == "uninitialized-read"
    assert (sides(wrong), [each.name for each in subject(wrong).locations]) == (["r@0"], ["a"])


def test_order_matters_for_values() -> None:
    core = "mloc %a dram.local size=8\n%r = copy @act (%a) -> ()\n%w = iota @act () -> (%a)"
    assert codes(core) == ["uninitialized-read"]
    assert codes(core.replace("size=8", "size=8 kind=input")) == []


def test_a_remote_write_counts() -> None:
    left = 'mloc %a dram.shared size=8\n%b = core_barrier @all () -> () name="b"\n%r = copy @act (%a) -> ()'
    right = (
        'mloc %v dram.shared size=8 remote=[a,0]\n%w = iota @act () -> (%v)\n%b = core_barrier @all () -> () name="b"'
    )
    assert codes(left, right) == []


def test_an_unknown_write_may_have_written() -> None:
    core = "mloc %a dram.local size=8\n%w = iota @act () -> (%a[?])\n%r = copy @act (%a) -> ()"
    (found,) = findings(core)
    assert (found.code, found.severity) == ("uninitialized-read", Severity.WARNING)


def test_another_tensor_in_the_same_storage_does_not_count() -> None:
    core = """
        mloc %a dram.local size=8 address=0
        mloc %b dram.local size=8 address=0
        %w = iota @act () -> (%a)
        %r = copy @act (%b) -> ()
    """
    assert codes(core) == ["uninitialized-read"]


def test_outputs_are_written_to_the_last_byte() -> None:
    core = "mloc %a dram.local size=64 kind=output\n%w = iota @act () -> (%a[{}])"
    assert codes(core.format("0:64")) == []
    (wrong,) = findings(core.format("0;32x2;31"))
    assert wrong.code == "output-not-written"
    assert [each.name for each in subject(wrong).locations] == ["a"]
    (never,) = findings("mloc %a dram.local size=64 kind=output\n%w = iota @act () -> ()")
    assert never.code == "output-not-written"
    (maybe,) = findings(core.format("?"))
    assert maybe.severity == Severity.WARNING


REUSE = """
    mloc %a dram.local size=64 address=0
    mloc %b dram.local size=64 address={}
    %w = iota @act () -> (%a)
    %r = copy @act (%a) -> ()
    %v = iota @pool () -> (%b) {}
"""


def test_storage_is_reused_only_after_all_of_the_old_life() -> None:
    assert codes(REUSE.format(0, "deps=[r]")) == []
    assert codes(REUSE.format(64, "")) == []
    assert codes(REUSE.format(0, "")) == ["missing-dependence", "overlapping-storage"]
    found = findings(REUSE.format(0, "deps=[w]"))
    assert {each.code for each in found} == {"missing-dependence", "overlapping-storage"}
    assert {"a", "b"} in [{place.name for place in subject(each).locations} for each in found]


def test_interleaved_lives_overlap_even_where_all_is_ordered() -> None:
    core = """
        mloc %a dram.local size=64 address=0
        mloc %b dram.local size=64 address=0
        %w = iota @act () -> (%a)
        %v = iota @act () -> (%b)
        %r = copy @act (%a) -> ()
    """
    (wrong,) = findings(core)
    assert wrong.code == "overlapping-storage"
    assert {each.name for each in subject(wrong).locations} == {"a", "b"}


@pytest.mark.parametrize("kind", ["input", "output", "inout", "const"])
def test_what_comes_from_outside_lives_in_the_whole_function(kind: str) -> None:
    core = f"""
        mloc %a dram.local size=64 address=0 kind={kind}
        mloc %b dram.local size=64 address=0
        %w = iota @act () -> (%b)
    """
    assert "overlapping-storage" in codes(core)
    assert "overlapping-storage" not in codes(core.replace("address=0 kind", "address=64 kind"))


OUTPUT = """
    mloc %a dram.local size=64 address=0
    mloc %o dram.local size=64 address={} kind={}
    {}
    {}
    {}
"""
WORK = ("%w = iota @act () -> (%a)", "%r = copy @act (%a) -> ()", "%v = iota @act () -> (%o)")


def test_an_output_is_live_from_its_first_access_to_the_end() -> None:
    first, second, output = WORK
    assert codes(OUTPUT.format(0, "output", first, second, output)) == []
    for order in ((output, first, second), (first, output, second)):
        (wrong,) = findings(OUTPUT.format(0, "output", *order))
        assert wrong.code == "overlapping-storage"
        assert {each.name for each in subject(wrong).locations} == {"a", "o"}
        assert codes(OUTPUT.format(64, "output", *order)) == []
    apart = output.replace("@act", "@pool")
    assert "overlapping-storage" in codes(OUTPUT.format(0, "output", first, second, apart))
    assert codes(OUTPUT.format(0, "output", first, second, apart + " deps=[r]")) == []


@pytest.mark.parametrize("kind", ["output partial=true", "inout"])
def test_bytes_that_the_caller_may_see_unwritten_are_never_shared(kind: str) -> None:
    assert codes(OUTPUT.format(0, kind, *WORK)) == ["overlapping-storage"]
    assert codes(OUTPUT.format(64, kind, *WORK)) == []


def test_two_outputs_never_share_bytes() -> None:
    core = """
        mloc %a dram.local size=64 address=0 kind=output
        mloc %o dram.local size=64 address={} kind=output
        %w = iota @act () -> (%a)
        %v = iota @act () -> (%o)
    """
    assert codes(core.format(64)) == []
    assert codes(core.format(0)) == ["overlapping-storage"]


def test_reuse_across_cores_needs_a_barrier() -> None:
    left = """
        mloc %a dram.shared size=64 address=0 kind=internal
        mloc %b dram.local size=64 address=0
        %w = iota @act () -> (%a)
        %x = core_barrier @all () -> () name="x"
        {}
        %v = iota @act () -> (%b)
    """
    right = """
        mloc %a dram.shared size=64 address=0 remote=[a,0]
        %x = core_barrier @all () -> () name="x"
        %r = copy @act (%a) -> ()
        {}
    """
    fence = '%y = core_barrier @all () -> () name="y"'
    assert codes(left.format(fence), right.format(fence)) == []
    assert codes(left.format(""), right.format("")) == ["cross-core-race", "overlapping-storage"]


def test_sbuf_is_a_grid() -> None:
    core = """
        mloc %a sbuf size=64 align=1 address=0 partition=0 parts=4
        mloc %b sbuf size=64 align=1 address={} partition={} parts=4
        %w = iota @act () -> (%a)
        %v = iota @act () -> (%b)
        %r = copy @act (%a) -> ()
    """
    assert codes(core.format(16, 0)) == []
    assert codes(core.format(0, 4)) == []
    assert codes(core.format(15, 0)) == ["overlapping-storage"]
    assert codes(core.format(0, 3)) == ["overlapping-storage"]


def test_sbuf_of_two_cores_is_not_one() -> None:
    core = "mloc %a sbuf size=64 address=0\n%w = iota @act () -> (%a)"
    assert codes(core, core) == []


def test_partitions_of_cores_do_not_overlap() -> None:
    core = "mloc %a dram.local size=64 address={}\nmloc %b dram.local size=64 address={}\n%w = iota @act () -> (%a)"
    assert codes(core.format(0, 64), core.format(128, 192)) == []
    (wrong,) = findings(core.format(0, 128), core.format(64, 192))
    assert (wrong.code, subject(wrong).cores) == ("overlapping-storage", (0, 1))


def test_addresses_are_aligned() -> None:
    text = bir("mloc %a dram.local size=64 address=32\n%w = iota @act () -> (%a)")
    with pytest.raises(HauloutError, match="address 32 is not a multiple of 64"):
        check_program(parse_bir(text))


def test_capacity_counts_the_bytes_of_all_cores() -> None:
    core = "mloc %a dram.local size=64 address={}\n%w = iota @act () -> (%a)"
    cores = core.format(0), core.format(1024)
    assert codes(*cores, attrs="capacity=128") == []
    (wrong,) = findings(*cores, attrs="capacity=127")
    assert wrong.code == "over-capacity"
    assert subject(wrong).kind == "capacity"


def test_views_lie_on_their_owners() -> None:
    owner = "mloc %a dram.shared size=64 address=128 kind=inout\n%w = iota @act () -> ()"
    view = "mloc %v dram.shared size=64 remote=[a,0] {}\n%w = iota @act () -> ()"
    assert codes(owner, view.format("address=128")) == []
    for wrong in ("", "address=192", "address=128 bank=1", "address=128 partition=2"):
        assert codes(owner, view.format(wrong)) == ["view-mismatch"]
    text = bir(owner, view.format("").replace("[a,0]", "[b,0]"))
    with pytest.raises(HauloutError, match="its target %b of core 0 does not exist"):
        check_program(parse_bir(text))


def test_accesses_go_where_the_view_says() -> None:
    left = """
        mloc %a dram.shared size=64 address=0 kind=inout
        mloc %c dram.local size=64 address=64 kind=inout
        %w = iota @act () -> (%c)
    """
    right = "mloc %v dram.shared size=64 remote=[a,0] address={}\n%w = iota @act () -> (%v)"
    assert codes(left, right.format(0)) == []
    assert codes(left, right.format(64)) == ["cross-core-race", "view-mismatch"]


def test_a_program_that_is_allocated_in_part() -> None:
    left = """
        mloc %a dram.shared size=64 address=0 kind=inout
        mloc %b dram.shared size=64 kind=inout
        %w = iota @act () -> (%a, %b)
    """
    right = """
        mloc %a dram.shared size=64 remote=[a,0] address=0
        mloc %b dram.shared size=64 remote=[b,0]
        %r = copy @act ({}) -> ()
    """
    assert codes(left, right.format("%a")) == ["cross-core-race"]
    assert codes(left, right.format("%b")) == ["cross-core-race"]
    assert codes(left, right.format("")) == []
