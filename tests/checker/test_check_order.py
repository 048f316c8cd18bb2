"""Races and missing dependences: a smallest program that has one, and its twin that does not."""

from __future__ import annotations

import pytest
from tests.checker.snippets import codes, findings, told

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


def test_a_barrier_orders_a_write_before_a_read() -> None:
    assert codes(*pair('%b = core_barrier @all () -> () name="b"')) == []


def test_without_a_barrier_it_is_a_race() -> None:
    (race,) = findings(*pair(""))
    assert (race.code, race.severity) == ("cross-core-race", Severity.ERROR)
    assert [str(label.span) for label in race.labels] == ["snippet.bir:16", "snippet.bir:8"]
    text = told(race)
    assert "%r on core 1 reads %s and %w on core 0 writes it, in either order" in text
    assert "64 bytes in common, 0:64" in text
    assert "a read and a write" in text
    assert "cause: no barrier of both cores stands between %w on core 0 and %r on core 1" in text
    assert race.help == ("put a core_barrier @all on every core: after %w on core 0, before %r on core 1",)


@pytest.mark.parametrize("seqs", [(0, 1), (1, 0), (1, 1)])
def test_seq_says_which_of_two_should_come_first(seqs: tuple[int, int]) -> None:
    left, right = pair("")
    left, right = left.replace("-> (%s)", f"-> (%s) seq={seqs[0]}"), right.replace("(%out)", f"(%out) seq={seqs[1]}")
    (race,) = findings(left, right)
    text = told(race)
    if seqs[0] < seqs[1]:
        assert "%r on core 1 reads %s while %w on core 0 may still write it" in text
        assert "read after write" in text
        assert "cause: no barrier of both cores stands after %w and before %r" in text
        assert "the other way round" not in text
    elif seqs[0] > seqs[1]:
        assert "%w on core 0 writes %s while %r on core 1 may still read it" in text
        assert "write after read" in text
    else:
        assert "in either order" in text
        assert "both have seq=1" in text


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
    assert "a read and a write" in told(war[0])
    assert "two writes" in told(waw[0])


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
        %r = copy @act (%s) -> ()
        %j = memset @act () -> (%s) value=0
    """
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%i = memset @act () -> (%s) value=0"
    assert codes(left, right) == ["benign-duplicate-write", "cross-core-race"]
    unread = left.replace("%r = copy @act (%s) -> ()", "")
    assert codes(unread, right) == ["benign-duplicate-write"]


def test_equal_seq_is_a_race_by_construction() -> None:
    left = "mloc %s dram.shared size=8 kind=inout\n%i = memset @act () -> (%s) value=1 seq=4"
    right = "mloc %s dram.shared size=8 remote=[s,0]\n%i = memset @act () -> (%s) value=2 seq=4"
    (race,) = findings(left, right)
    assert "both have seq=4" in told(race)


@pytest.mark.parametrize("space", ["dram.local", "sbuf", "psum"])
def test_a_missing_dependence_in_every_space(space: str) -> None:
    core = f"""
        mloc %a {space} size=8
        %w = iota @pool () -> (%a)
        %r = copy @act (%a) -> () {{}}
    """
    (wrong,) = findings(core.format(""))
    assert wrong.code == "missing-dependence"
    assert wrong.help == ("add deps=[w] to %r on core 0",)
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
