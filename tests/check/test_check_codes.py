"""Each code: a smallest program that has it, and its twin that does not."""

from __future__ import annotations

import pytest
from tests.check.snippets import bir, codes, findings, program, told

from haulout.check import check_program
from haulout.ir.text import parse_bir
from haulout.support.diagnostics import Severity

WRITER = """
    mloc %x dram.local size=64 kind=input
    mloc %s dram.shared size=64
    %w = dma_copy @dma0 (%x) -> (%s)
    {}
"""
READER = """
    mloc %s dram.shared size=64 remote=[s,0]
    mloc %out dram.local size=64 kind=output
    {}
    %r = copy @vector (%s) -> (%out)
"""


def pair(left: str, right: str | None = None) -> tuple[str, str]:
    """Core 0 writes, core 1 reads, these lines between."""
    return WRITER.format(left), READER.format(left if right is None else right)


# -- order between cores --------------------------------------------------------------------------------------------


def test_a_barrier_orders_a_write_before_a_read() -> None:
    assert codes(*pair('%b = core_barrier @all () -> () name="b"')) == []


def test_without_a_barrier_it_is_a_race() -> None:
    (race,) = findings(*pair(""))
    assert (race.code, race.severity) == ("cross-core-race", Severity.ERROR)
    assert [str(label.span) for label in race.labels] == ["snippet.bir:16", "snippet.bir:8"]
    text = told(race)
    assert "%r on core 1 reads %s while %w on core 0 may still write it" in text
    assert "64 bytes in common, 0:64" in text
    assert "read after write" in text
    assert "cause: no barrier of both cores stands after %w and before %r" in text
    assert len(race.help) == 2


def test_a_barrier_that_does_not_wait_for_the_producer() -> None:
    cores = pair('%b = core_barrier @vector () -> () name="b"')
    (race,) = findings(*cores)
    assert "does not wait for @dma0: %w may still be in flight" in told(race)
    assert race.help[0] == "add deps=[w] to %b on core 0"
    mended = pair(
        '%b = core_barrier @vector () -> () name="b" deps=[w]', '%b = core_barrier @vector () -> () name="b"'
    )
    assert codes(*mended) == []


def test_a_barrier_that_does_not_hold_back_the_consumer() -> None:
    cores = pair('%b = core_barrier @dma0 () -> () name="b"')
    (race,) = findings(*cores)
    assert "waits for %w but does not hold back @vector, where %r runs" in told(race)
    assert race.help[0] == "add deps=[b] to %r on core 1"
    mended = cores[0], cores[1].replace("(%out)", "(%out) deps=[b]")
    assert codes(*mended) == []


def test_a_barrier_of_other_cores_orders_nothing() -> None:
    third = '%b = core_barrier @all () -> () name="b" cores=[1,2]'
    cores = (*pair("", third), third)
    assert codes(*cores) == ["cross-core-race"]


def test_a_chain_of_barriers_of_some_cores_composes() -> None:
    first, second = (f'core_barrier @all () -> () name="b{k}" cores=[{k},{k + 1}]' for k in (0, 1))
    left, right = pair(f"%b = {first}", f"%b = {second}")
    right = right.replace("[s,0]", "[s,0]")
    assert codes(left, f"%b = {first}\n%c = {second}", right) == []
    assert codes(left, f"%c = {second}\n%b = {first}", right) == ["cross-core-race"]


def test_write_after_read_and_write_after_write_are_races() -> None:
    left = "mloc %s dram.shared size=8 kind=inout\n%i = {} @act {} value=1"
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%h = iota @pool () -> ()\n%i = memset @pool () -> (%s) value=2"
    war = findings(left.format("copy", "(%s) -> ()"), right)
    waw = findings(left.format("memset", "() -> (%s)"), right)
    assert [each.code for each in war + waw] == ["cross-core-race", "cross-core-race"]
    assert "write after read" in told(war[0])
    assert "write after write" in told(waw[0])


def test_disjoint_bytes_and_interleaved_rows_do_not_conflict() -> None:
    for first, second in (("0:32", "32:64"), ("0;16x4;8", "8;16x4;8"), ("0;-8x3;4".replace("0;", "16;"), "4;8x3;4")):
        left = f"mloc %s dram.shared size=64 kind=inout\n%i = iota @act () -> (%s[{first}])"
        right = f"mloc %s dram.shared size=64 remote=[s,0]\n%i = iota @act () -> (%s[{second}])"
        assert codes(left, right) == []
        assert codes(left, right.replace(second, "7:9")) == ["cross-core-race"]


def test_what_rests_on_unknown_bytes_is_possible() -> None:
    left = "mloc %s dram.shared size=64 kind=inout\n%i = iota @act () -> (%s[?])"
    right = "mloc %s dram.shared size=64 remote=[s,0]\n%i = iota @act () -> (%s[8:16])"
    (found,) = findings(left, right)
    assert (found.code, found.severity) == ("possible-race", Severity.WARNING)


def test_a_certain_race_is_not_hidden_behind_a_possible_one() -> None:
    left = """
        mloc %s dram.shared size=64 kind=inout
        %a = iota @act () -> (%s[0:8])
        %b = iota @act () -> (%s[?])
    """
    right = "mloc %s dram.shared size=64 remote=[s,0]\n%i = iota @act () -> (%s[4:16])"
    assert codes(left, right) == ["cross-core-race", "possible-race"]


def test_a_race_is_found_behind_many_pieces_that_do_not_conflict() -> None:
    pieces = "\n".join(f"%i{k} = iota @act () -> (%s[{2 * k};1000x8;2])" for k in range(400))
    left = f"mloc %s dram.shared size=8000 kind=inout\n{pieces}"
    right = "mloc %s dram.shared size=8000 remote=[s,0]\n%i = iota @act () -> (%s[{};1000x8;1])"
    assert codes(left, right.format(801)) == []
    (race,) = findings(left, right.format(3))
    assert "%i1 on core 0" in told(race)


def test_fills_with_zeros_on_two_cores_are_benign() -> None:
    left = "mloc %s dram.shared size=8 kind=output\n%i = memset @act () -> (%s) value={}"
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%i = memset @act () -> (%s) value=0"
    (note,) = findings(left.format(0), right)
    assert (note.code, note.severity) == ("benign-duplicate-write", Severity.NOTE)
    assert codes(left.format(1), right) == ["cross-core-race"]


def test_a_benign_fill_does_not_hide_what_came_before_it() -> None:
    left = """
        mloc %s dram.shared size=8 kind=output
        %i = iota @act () -> (%s)
        %j = memset @act () -> (%s) value=0
    """
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%i = memset @act () -> (%s) value=0"
    assert codes(left, right) == ["benign-duplicate-write", "cross-core-race"]


def test_equal_seq_is_a_race_by_construction() -> None:
    left = "mloc %s dram.shared size=8 kind=inout\n%i = iota @act () -> (%s) seq=4"
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%i = iota @act () -> (%s) seq=4"
    (race,) = findings(left, right)
    assert "both have seq=4" in told(race)


# -- sendrecv -------------------------------------------------------------------------------------------------------


def exchange(after: str = "", tag: str = "t") -> tuple[str, str]:
    left = f"""
        mloc %a dram.shared size=8 kind=inout
        %i = iota @act () -> (%a)
        %m = sendrecv @act () -> () to=1 tag="{tag}"
    """
    right = f"""
        mloc %a dram.shared size=8 remote=[a,0]
        %m = sendrecv @pool () -> () from=0 tag="t"
        %r = copy @pool (%a) -> () {after}
    """
    return left, right


def test_a_meeting_orders_what_comes_before_an_arrival_and_what_follows_a_completion() -> None:
    assert codes(*exchange()) == []
    left, right = exchange()
    assert codes(left, right.replace("copy @pool", "copy @act")) == ["cross-core-race"]


def test_a_source_is_read_before_its_own_arrival_is_over() -> None:
    left = "mloc %a dram.shared size=8 kind=inout\n%m = sendrecv @act (%a) -> () to=1"
    right = "mloc %a dram.shared size=8 remote=[a,0]\n%m = sendrecv @act () -> () from=0\n%w = iota @act () -> (%a)"
    assert codes(left, right) == []


def test_a_destination_is_written_only_when_it_completes() -> None:
    left = "mloc %a dram.shared size=8 kind=inout\n%m = sendrecv @act () -> (%a) from=1"
    right = "mloc %a dram.shared size=8 remote=[a,0]\n{}%m = sendrecv @act () -> () to=0\n{}"
    before, after = right.format("%r = copy @act (%a) -> ()\n", ""), right.format("", "%r = copy @act (%a) -> ()")
    assert codes(left, before) == []
    assert codes(left, after) == ["cross-core-race"]


def test_a_meeting_without_a_partner_is_a_deadlock() -> None:
    found = findings(*exchange(tag="u"))
    assert [each.code for each in found] == ["deadlock", "deadlock"]
    assert "core 1 has no sendrecv from=0 left to meet it" in found[0].message


# -- barriers and cycles --------------------------------------------------------------------------------------------


def barriers(*names: str, engine: str = "all", cores: str = "") -> str:
    return "\n".join(f'%b{k} = core_barrier @{engine} () -> () name="{n}" {cores}' for k, n in enumerate(names))


def test_names_must_agree_index_by_index() -> None:
    (wrong,) = findings(barriers("p", "X", "q", "r"), barriers("p", "Y", "q", "r"))
    assert wrong.code == "barrier-mismatch"
    shown = [line.split() for line in wrong.notes]
    assert shown[2] == ["1", "X", "%b1", "<>", "Y", "%b1"]
    assert shown[1] == ["0", "p", "%b0", "p", "%b0"]


def test_an_inverted_order_is_said_to_be_one() -> None:
    (wrong,) = findings(barriers("X", "Y"), barriers("Y", "X"))
    assert "the order is inverted" in told(wrong)


def test_a_barrier_that_only_one_core_reaches() -> None:
    (wrong,) = findings(barriers("a", "b"), barriers("a"))
    assert "core 0 waits at barrier b, barrier 1 on @all; core 1 has no more than 1 there" in wrong.message


def test_participants_must_agree() -> None:
    three = barriers("a", cores="cores=[0,1]"), barriers("a"), barriers("a")
    assert set(codes(*three)) == {"barrier-mismatch"}


def test_a_barrier_on_a_core_that_is_no_participant() -> None:
    assert codes(barriers("a", cores="cores=[1]"), barriers("a", cores="cores=[1]")) == ["barrier-mismatch"]


def test_lines_are_matched_apart() -> None:
    left, right = barriers("v", engine="vector"), barriers("a").replace("b0", "c0")
    assert codes(f"{left}\n{right}", f"{right}\n{left}") == ["deadlock"]
    assert codes(f"{left}\n{right}", f"{left}\n{right}") == []
    assert codes(left, barriers("v", engine="pool")) == ["barrier-mismatch"]


def test_indices_must_rise_along_a_line() -> None:
    line = '%b{0} = core_barrier @all () -> () name="b" index={1}'
    rising, falling = (f"{line.format(0, a)}\n{line.format(1, b)}" for a, b in ((0, 1), (1, 0)))
    assert codes(rising, rising) == []
    assert codes(falling, falling) == ["barrier-mismatch"]


def test_the_cycle_of_a_deadlock_is_shown() -> None:
    vector = '%{} = core_barrier @vector () -> () name="x" {}'
    pool = '%{} = core_barrier @pool () -> () name="y" {}'
    left = f"{vector.format('x', '')}\n{pool.format('y', 'deps=[x]')}"
    right = f"{pool.format('y', '')}\n{vector.format('x', 'deps=[y]')}"
    (wrong,) = findings(left, right)
    assert wrong.code == "deadlock"
    assert sorted(wrong.notes) == [
        "%x on core 1 waits for %y on core 1: a dependence",
        "%y on core 0 waits for %x on core 0: a dependence",
    ]
    assert codes(left, f"{vector.format('x', '')}\n{pool.format('y', 'deps=[x]')}") == []


def test_a_deadlock_between_a_meeting_and_a_barrier() -> None:
    meet = "%m = sendrecv @act () -> () {}"
    fence = '%b = core_barrier @all () -> () name="b"'
    left = f"{meet.format('to=1')}\n{fence}"
    right = f"{fence}\n{meet.format('from=0')}"
    (wrong,) = findings(left, right)
    assert wrong.code == "deadlock"
    assert "a sendrecv completes when its partners have arrived" in told(wrong)


# -- order inside a core ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["dram.local", "sbuf", "psum"])
def test_a_missing_dependence_in_every_space(space: str) -> None:
    core = f"""
        mloc %a {space} size=8
        %w = iota @pool () -> (%a)
        %r = copy @act (%a) -> () {{}}
    """
    (wrong,) = findings(core.format(""))
    assert wrong.code == "missing-dependence"
    assert wrong.help[0].startswith("add w to the deps of %r")
    assert codes(core.format("deps=[w]")) == []
    assert codes(core.format("").replace("@act", "@pool")) == []


def test_dependences_chain_through_other_engines() -> None:
    core = """
        mloc %a dram.local size=8
        %w = iota @pool () -> (%a)
        %m = iota @vector () -> () deps=[w]
        %n = iota @vector () -> ()
        %r = copy @act (%a) -> () deps=[n]
    """
    assert codes(core) == []
    assert codes(core.replace("deps=[w]", "")) == ["missing-dependence"]


def test_order_inside_a_core_may_come_through_another_core() -> None:
    left = """
        mloc %a dram.local size=8
        %w = iota @pool () -> (%a)
        %x = core_barrier @pool () -> () name="x"
        %y = core_barrier @act () -> () name="y"
        %r = copy @act (%a) -> ()
    """
    right = """
        %x = core_barrier @pool () -> () name="x"
        %y = core_barrier @act () -> () name="y" {}
    """
    assert codes(left, right.format("deps=[x]")) == []
    assert codes(left, right.format("")) == ["missing-dependence"]


# -- values ----------------------------------------------------------------------------------------------------------


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
    assert "%r on core 0 reads bytes 32:40 of %a, which nothing has written" in wrong.message


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
    assert "byte 31 of 64 is never written" in wrong.message
    (never,) = findings("mloc %a dram.local size=64 kind=output\n%w = iota @act () -> ()")
    assert never.code == "output-not-written"
    (maybe,) = findings(core.format("?"))
    assert maybe.severity == Severity.WARNING


# -- storage ---------------------------------------------------------------------------------------------------------

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
    assert any("shares storage with %a" in told(each) for each in found)


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
    assert "%a is touched from %w on core 0 to %r on core 0" in told(wrong)


@pytest.mark.parametrize("kind", ["input", "output", "inout", "const"])
def test_what_comes_from_outside_lives_in_the_whole_function(kind: str) -> None:
    core = f"""
        mloc %a dram.local size=64 address=0 kind={kind}
        mloc %b dram.local size=64 address=0
        %w = iota @act () -> (%b)
    """
    assert "overlapping-storage" in codes(core)
    assert "overlapping-storage" not in codes(core.replace("address=0 kind", "address=64 kind"))


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
    assert "partitions of core 0 (0x0:0xc0) and core 1 (0x40:0x100) overlap" in wrong.message


def test_addresses_are_aligned() -> None:
    text = bir("mloc %a dram.local size=64 address=32\n%w = iota @act () -> (%a)")
    assert [each.code for each in check_program(parse_bir(text))] == ["misaligned-storage"]


def test_capacity_counts_the_bytes_of_all_cores() -> None:
    core = "mloc %a dram.local size=64 address={}\n%w = iota @act () -> (%a)"
    cores = core.format(0), core.format(1024)
    assert codes(*cores, attrs="capacity=128") == []
    (wrong,) = findings(*cores, attrs="capacity=127")
    assert wrong.code == "over-capacity"
    assert "occupies 128 bytes of DRAM, its capacity is 127" in wrong.message


def test_views_lie_on_their_owners() -> None:
    owner = "mloc %a dram.shared size=64 address=128 kind=inout\n%w = iota @act () -> ()"
    view = "mloc %v dram.shared size=64 remote=[a,0] {}\n%w = iota @act () -> ()"
    assert codes(owner, view.format("address=128")) == []
    for wrong in ("", "address=192", "address=128 bank=1", "address=128 partition=2"):
        assert codes(owner, view.format(wrong)) == ["view-mismatch"]
    text = bir(owner, view.format("").replace("[a,0]", "[b,0]"))
    assert [each.code for each in check_program(parse_bir(text))] == ["unresolved-remote"]


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


# -- the source's order ----------------------------------------------------------------------------------------------


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


# -- what is not understood ------------------------------------------------------------------------------------------

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
    assert "not supported yet: control flow (block ^body of core 0" in wrong.message
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


def test_semaphores_are_not_understood_yet() -> None:
    (wrong,) = findings("%a = iota @act () -> () signal=[[s,1]]")
    assert (wrong.code, wrong.message) == ("bad-input", "not supported yet: semaphores")


def test_every_function_is_checked() -> None:
    text = bir("mloc %a dram.local size=8\n%r = copy @act (%a) -> ()")
    body = text.split("module @nc0 core=0 {\n")[1].rsplit("}\n", 1)[0]
    twice = text.replace(body, body.replace("func @main", "func @first") + body)
    assert [each.code for each in check_program(parse_bir(twice))] == ["uninitialized-read"] * 2


def test_at_most_fifty_findings() -> None:
    cores = "\n".join(f"mloc %a{k} dram.local size=8\n%r{k} = copy @act (%a{k}) -> ()" for k in range(70))
    found = findings(cores)
    assert 0 < len(found) <= 50
