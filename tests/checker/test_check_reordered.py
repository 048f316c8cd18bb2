"""What may move, and what the checker says of a program in which more has moved than may."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checker.snippets import program

from haulout.checker import check_reordered
from haulout.ir.builder import reorder_instructions
from haulout.ir.program import Program
from haulout.ir.schema import Ids

LEFT = """
    mloc %s dram.shared size=8
    mloc %a dram.local size=8 kind=output
    mloc %b dram.local size=8 kind=output
    %w = iota @act () -> (%s) seq=0
    %x = iota @act () -> (%a[0:4]) seq=1
    %y = iota @act () -> (%a[4:8]) seq=2
    %z = iota @act () -> (%b) seq=3
    %o = copy @act (%b) -> (%a[0:4]) seq=4
"""
RIGHT = """
    mloc %s dram.shared size=8 remote=[s,0]
    mloc %c dram.local size=8 kind=output
    %r = copy @act (%s) -> (%c) seq=5
"""


def moved(source: Program, order: list[int], seq: list[int]) -> tuple[Program, Ids]:
    """The rows in another order, with the `seq` given for the new places."""
    origin = np.array(order, np.int32)
    rows = source.instructions.take(origin).replace(seq=np.array(seq))
    position = np.argsort(origin).astype(np.int32)
    return reorder_instructions(source.replace(instructions=rows), position), origin


def codes(source: Program, after: Program, origin: Ids) -> list[str]:
    return [each.subject.kind for each in check_reordered(source, after, origin) if each.subject is not None]


@pytest.mark.parametrize(
    ("order", "seq", "kinds"),
    [
        ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], []),
        ([0, 2, 1, 3, 4, 5], [0, 1, 2, 3, 4, 5], []),  # bytes 0:4 and 4:8
        ([3, 2, 1, 0, 4, 5], [0, 1, 2, 3, 4, 5], []),
        ([0, 4, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5], ["moved conflict"]),  # %o reads %b, which %z writes
        ([0, 2, 3, 4, 1, 5], [0, 1, 2, 3, 4, 5], ["moved conflict"]),  # %o writes bytes of %x
        ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0], ["moved conflict"]),  # the other core reads before the write
        ([0, 1, 2, 3, 4, 5], [1, 1, 2, 3, 4, 1], ["moved conflict"]),  # and at the time of the write: no order
        ([0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 1], []),
    ],
)
def test_conflicts_keep_their_order(order: list[int], seq: list[int], kinds: list[str]) -> None:
    source = program(LEFT, RIGHT)
    assert codes(source, *moved(source, order, seq)) == kinds


def test_a_conflict_without_order_may_not_get_one() -> None:
    source = program(LEFT, RIGHT)
    rows = source.instructions
    tied = source.replace(instructions=rows.replace(seq=np.array([5, 6, 7, 8, 9, 5])))
    every = np.arange(len(rows), dtype=np.int32)
    for seq in ([0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9, 0]):
        later = tied.replace(instructions=rows.replace(seq=np.array(seq)))
        assert codes(tied, later, every) == ["moved conflict"]
    assert codes(tied, tied, every) == []


def test_nothing_else_may_change() -> None:
    source = program(LEFT, RIGHT)
    after, origin = moved(source, [0, 2, 1, 3, 4, 5], [0, 1, 2, 3, 4, 5])
    engine = after.instructions.engine.copy()
    engine[1] += 1
    write = after.accesses.write.copy()
    write[0] = False
    for changed in (
        after.replace(instructions=after.instructions.replace(engine=engine)),
        after.replace(accesses=after.accesses.replace(write=write)),
        after.replace(locations=after.locations.replace(size=after.locations.size + 1)),
    ):
        assert codes(source, changed, origin) == ["changed program"]
    assert codes(source, after, origin[[0, 2, 1, 3, 4, 5]]) == ["changed program"]
    assert codes(source, after, np.zeros(6, np.int32)) == ["changed program"]


def test_a_program_with_addresses_is_refused() -> None:
    source = program(LEFT.replace("%b dram.local size=8", "%b dram.local size=8 address=64"), RIGHT)
    every = np.arange(len(source.instructions), dtype=np.int32)
    assert codes(source, source, every) == ["changed program"]


def test_blocks_of_a_loop_are_compared_one_by_one() -> None:
    core = """
        mloc %a dram.local size=8
        mloc %b dram.local size=8
        block ^entry -> ^body:
        %p = iota @act () -> (%a) seq=0
        %q = iota @act () -> (%b) seq=1
        block ^body -> ^body, ^done trip=4:
        %r = copy @act (%a) -> (%b) seq=2
        %s = copy @act (%b) -> (%a) seq=3
        block ^done:
        %t = copy @act (%a) -> (%b) seq=4
    """
    source = program(core)
    assert codes(source, *moved(source, [1, 0, 2, 3, 4], [0, 1, 2, 3, 4])) == []
    assert codes(source, *moved(source, [0, 1, 3, 2, 4], [0, 1, 2, 3, 4])) == ["moved conflict"]
