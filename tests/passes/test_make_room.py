"""Each part of an operation has a time of its own: an update that becomes two copies, a collective its phases."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import PassContext
from haulout.passes.fold_constants import FoldConstants
from haulout.passes.make_room import make_room
from haulout.support.diagnostics import HauloutError

CORE = """
module @nc{core} core={core} {{
  func @main {{
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]
    mloc %piece dram.local size=16 kind=input dtype=f32 shape=[4]
    mloc %at dram.local size=4 kind=const dtype=s32 shape=[] data="CAAAAA=="
    mloc %y dram.local size=64 dtype=f32 shape=[16]
    mloc %z dram.local size=64 kind=output dtype=f32 shape=[16]
    block ^e:
{body}
  }}
}}"""
UPDATE = "%y = dynamic_update_slice @dma1 (%x, %piece, %at) -> (%y) seq=5"
USE = "%z = negate @vector (%y) -> (%z) seq=6"


def program(*cores: str) -> Program:
    """A program; each core's instructions."""
    text = f'bir 1\nprogram "p" lnc={len(cores)}'
    return parse_bir(text + "".join(CORE.format(core=core, body=body) for core, body in enumerate(cores)) + "\n")


def times(made: Program, core: int = 0) -> dict[str, int]:
    """The `seq` of each instruction of a core."""
    rows = np.flatnonzero(made.instruction_core == core).tolist()
    return {made.instruction_name(row): int(made.instructions.seq[row]) for row in rows}


def test_an_update_is_two_copies_at_two_times_on_all_cores() -> None:
    made = FoldConstants().run(program(f"{UPDATE}\n{USE}", USE.replace("(%y)", "(%x)", 1)), PassContext())
    assert times(made) == {"y": 5, "y.update": 6, "z": 7}
    assert times(made, 1) == {"z": 7}


def test_what_shares_the_time_of_an_update_follows_its_place_in_the_list() -> None:
    other = "%{} = negate @vector (%x) -> (%{}) seq=5"
    body = "\n".join([other.format("before", "z"), UPDATE, other.format("behind", "z"), USE])
    assert times(FoldConstants().run(program(body), PassContext())) == {
        "before": 5,
        "y": 5,
        "y.update": 6,
        "behind": 6,
        "z": 7,
    }


def test_without_seq_there_is_none() -> None:
    body = f"{UPDATE}\n{USE}".replace(" seq=5", "").replace(" seq=6", " deps=[y]")
    assert set(times(FoldConstants().run(program(body), PassContext())).values()) == {-1}


def test_an_update_by_the_array_that_it_overwrites_stays() -> None:
    """Its copy of the whole would be gone before it is read."""
    text = print_bir(program(UPDATE.replace("%piece", "%y")))
    text = text.replace(
        "size=64 dtype=f32 shape=[16]\n    mloc %z", "size=64 kind=inout dtype=f32 shape=[16]\n    mloc %z"
    )
    made = FoldConstants().run(parse_bir(text), PassContext())
    assert times(made) == {"y": 5}


def test_two_wide_ones_of_one_time_take_their_values_one_after_the_other() -> None:
    body = "\n".join(f"%i{k} = nop @sync () -> () seq={seq}" for k, seq in enumerate((1, 2, 2, 2, 2, 3)))
    made = make_room(program(body, body), np.array([False, True, False, True, False, False] * 2), 3)
    assert list(times(made).values()) == [1, 2, 4, 5, 7, 8]
    assert times(made) == times(made, 1)


def test_times_that_leave_no_room_are_refused() -> None:
    body = f"{UPDATE}\n{USE}".replace("seq=6", f"seq={2**63 - 1}")
    with pytest.raises(HauloutError, match="leaves no room for the parts of operations"):
        FoldConstants().run(program(body), PassContext())


def test_a_compiled_update_is_proved_and_its_halves_cannot_be_swapped() -> None:
    result = haulout.compile(program(f"{UPDATE}\n{USE}"))
    assert result.ok
    lines = print_bir(result.program).splitlines()
    first = next(at for at, line in enumerate(lines) if line.strip().startswith("%y = dma_copy"))
    assert lines[first + 1].strip().startswith("%y.update = dma_copy")
    # The instructions change places, the times stay where they were, as a mutant of the list would have it.
    swapped = [lines[first + 1].replace("seq=6", "seq=5"), lines[first].replace("seq=5", "seq=6")]
    text = "\n".join([*lines[:first], *swapped, *lines[first + 2 :]])
    found = check_program(parse_bir(text), source=result.program)
    assert {each.code for each in found} >= {"unfaithful-order"}
    # With one time for both, the swap would not show: so one time is refused, in either order.
    for parts in (lines[first : first + 2], lines[first + 1 : first - 1 : -1]):
        together = [part.replace("seq=6", "seq=5") for part in parts]
        text = "\n".join([*lines[:first], *together, *lines[first + 2 :]])
        assert "unfaithful-order" in {each.code for each in check_program(parse_bir(text))}
