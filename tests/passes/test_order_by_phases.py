"""Which order is kept, and where nothing may move."""

from __future__ import annotations

import pytest

import haulout
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes import order_by_phases
from haulout.passes.base import PassContext
from haulout.passes.order_by_phases import OrderByPhases
from haulout.support.diagnostics import HauloutError
from haulout.target import Target

TEXT = """
bir 1
program "three exchanges" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=65536 kind=input
    mloc %a dram.shared size=64
    mloc %b dram.shared size=64 remote=[b,1]
    mloc %c dram.shared size=64
    mloc %out dram.local size=64 kind=output
    block ^only:
      %write_a = dma_copy @dma0 (%x[0:64]) -> (%a) seq=0
      %read_b = dma_copy @dma0 (%b) -> (%out) seq=3
      %write_c = dma_copy @dma0 (%x[0:64]) -> (%c) seq=4
  }
}
module @nc1 core=1 {
  func @main {
    mloc %x dram.local size=65536 kind=input
    mloc %a dram.shared size=64 remote=[a,0]
    mloc %b dram.shared size=64
    mloc %c dram.shared size=64 remote=[c,0]
    mloc %y dram.local size=64 kind=output
    mloc %z dram.local size=64 kind=output
    block ^only:
      %read_a = dma_copy @dma0 (%a) -> (%y) seq=1
      %write_b = dma_copy @dma0 (%x[0:64]) -> (%b) seq=2
      %read_c = dma_copy @dma0 (%c) -> (%z) seq=5
  }
}
"""


def names(program: Program) -> list[str]:
    return [program.instruction_name(row) for row in range(len(program.instructions))]


GIVEN = ["write_a", "read_b", "write_c", "read_a", "write_b", "read_c"]
MOVED = ["write_a", "write_c", "read_b", "write_b", "read_a", "read_c"]
TWO = ["write_a", "read_b", "write_c", "write_b", "read_a", "read_c"]
"""With two fences."""


def order(text: str, **options: int) -> list[str]:
    program = parse_bir(text)
    context = PassContext()
    result = OrderByPhases(**options).run(program, context)  # type: ignore[arg-type]
    assert (result is program) == (context.counters["order_by_phases"]["moved"] == 0)
    assert np_sorted(result)
    return names(result)


def np_sorted(program: Program) -> bool:
    seq, core = program.instructions.seq, program.instruction_core
    return all(seq[at] <= seq[at + 1] for at in range(len(seq) - 1) if core[at] == core[at + 1])


def test_writes_come_before_the_fence_that_all_of_them_need() -> None:
    assert order(TEXT) == MOVED
    result = haulout.compile(parse_bir(TEXT))
    assert result.proved
    assert result.report.barriers == 1
    assert result.report.counters["order_by_phases"] == {"moved": 4, "fences_before": 3, "fences_after": 1}


def test_the_policy_bracket_keeps_the_lists() -> None:
    result = haulout.compile(parse_bir(TEXT), fences="bracket")
    assert "order_by_phases" not in result.report.counters
    assert [each for each in names(result.program) if each in GIVEN] == GIVEN


def test_a_second_run_moves_nothing() -> None:
    once = OrderByPhases().run(parse_bir(TEXT), PassContext())
    assert OrderByPhases().run(once, PassContext()) is once
    assert print_bir(parse_bir(print_bir(once))) == print_bir(once)


def test_storage_may_grow_with_the_time_that_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    # One fence holds all three buffers at once, three fences two at a time; two are faster, and between them.
    large = TEXT.replace("dram.shared size=64", "dram.shared size=65536")
    large = large.replace("(%x[0:64])", "(%x)").replace("%out dram.local size=64", "%out dram.local size=65536")
    large = large.replace("%y dram.local size=64", "%y dram.local size=65536")
    large = large.replace("%z dram.local size=64", "%z dram.local size=65536")
    assert order(large) == TWO
    monkeypatch.setattr(order_by_phases, "ROOM_FOR_TIME", 0.0)
    assert order(large) == GIVEN


def test_the_next_order_is_compiled_where_the_best_one_promised_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = OrderByPhases._compiled
    seen: list[list[str]] = []

    def slow_if_moved(self: OrderByPhases, program: Program, target: Target) -> object:
        made = compiled(self, program, target)
        seen.append(names(program))
        return made._replace(makespan=2 * made.makespan) if made is not None and names(program) == MOVED else made

    monkeypatch.setattr(OrderByPhases, "_compiled", slow_if_moved)
    assert order(TEXT) == TWO
    assert seen == [GIVEN, MOVED, TWO]


def test_an_order_that_does_not_fit_is_not_taken() -> None:
    needed = haulout.compile(parse_bir(TEXT)).report.total_peak_bytes
    assert order(TEXT, capacity=needed) == MOVED
    # Two fences, and less storage.
    assert order(TEXT, capacity=needed - 64) == TWO
    assert order(TEXT, capacity=needed - 128) == GIVEN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" seq=0", ""),  # without seq
        ("seq=0", "seq=9"),  # seq falls along the list
        ("%y dram.local size=64", "%y dram.local size=64 address=0"),
        ("seq=1\n", "seq=0\n"),  # a race by construction
        ("remote=[c,0]", "remote=[nothing,0]"),
    ],
)
def test_nothing_moves_where_the_order_is_not_known(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    program = parse_bir(changed)
    assert OrderByPhases().run(program, PassContext()) is program


def test_nothing_moves_around_a_barrier_of_the_user() -> None:
    barrier = '%%meet = core_barrier @all () -> () name="meet" seq=%s\n      '
    text = TEXT.replace("%read_b =", barrier % 3 + "%read_b =").replace("%read_a =", barrier % 1 + "%read_a =")
    program = parse_bir(text)
    assert OrderByPhases().run(program, PassContext()) is program


def test_a_wrong_order_is_a_defect_not_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    sort = order_by_phases.sorted_by_time
    monkeypatch.setattr(
        order_by_phases, "sorted_by_time", lambda program, segment, time: sort(program, segment, -time)
    )
    monkeypatch.setattr(order_by_phases, "WORSE", 1e9)
    monkeypatch.setattr(order_by_phases, "ROOM", 1e9)
    monkeypatch.setattr(order_by_phases, "GAIN", 1e9)
    monkeypatch.setattr(order_by_phases, "PROMISE", 1e9)
    with pytest.raises(HauloutError, match="changed the order of a conflict"):
        OrderByPhases().run(parse_bir(TEXT), PassContext())
