"""Barriers and meetings: mismatches, cycles, and what they order."""

from __future__ import annotations

from tests.checker.snippets import codes, findings, program, told

from haulout.checker import check_program
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.manager import PassManager
from haulout.sim import compare_schedules


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


def test_barriers_of_different_engines_are_sequences_of_their_own() -> None:
    """The order in which a core's list has barriers of two engines says nothing; one that dependences make does."""

    def side(first: str, second: str, wait: str = "") -> str:
        engines = {"A": "act", "B": "pool"}
        lines = [f'%{each} = core_barrier @{engines[each]} () -> () name="{each}"' for each in (first, second)]
        return lines[0] + "\n" + lines[1] + wait

    cores = side("A", "B"), side("B", "A")
    assert codes(*cores) == []
    assert compare_schedules(program(*cores)).agrees
    lowered = PassManager([LowerBarriers()]).run(program(*cores), PassContext())
    assert len(lowered.barriers) == 0
    assert check_program(lowered) == []
    assert codes(side("A", "B", " deps=[A]"), side("B", "A", " deps=[B]")) == ["deadlock"]
    assert codes(side("A", "B"), side("B", "A").replace("pool", "act")) == ["barrier-mismatch"]
