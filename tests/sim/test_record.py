"""Values of instructions, by name: the first and the last, and whose values are read."""

from __future__ import annotations

import numpy as np
from tests.sim.sim_programs import count, program
from tests.sim.test_sim_loops import TRIANGLE

from haulout.ir.text import parse_bir
from haulout.sim.record import record

PARTS = """bir 1
program "p" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=16 kind=input dtype=f32 shape=[4]
    mloc %y dram.local size=16 kind=output dtype=f32 shape=[4]
    block ^entry:
    %join.out0 = copy @vector (%x[0:8]) -> (%y[8:16]) seq=0 shapes=[[2],[2]]
    %join.out1 = copy @vector (%x[8:16]) -> (%y[0:8]) seq=1 shapes=[[2],[2]]
    %more = add @vector (%y, %y) -> (%y) seq=2
  }
}
"""


def test_pieces_of_one_operation() -> None:
    """What an operation was lowered to has its name, and the value is the whole location."""
    x = np.arange(4, dtype=np.float32)
    found = record(parse_bir(PARTS), {"x": x}, names={"join", "more"})
    assert list(found.values) == ["join", "more"]
    joined = found.values["join"][0]
    assert joined.pieces == 2 and joined.whole is not None
    np.testing.assert_array_equal(joined.whole, [2, 3, 0, 1])
    np.testing.assert_array_equal(found.values["more"][0].value, [4, 6, 0, 2])
    assert found.reads == {"join": {"x"}, "more": {"join"}}
    assert found.writers["y"] == {"more"}


def test_first_and_last_iteration() -> None:
    inputs = count(3) | {"s": np.int32(100)}
    first, last = (record(program(TRIANGLE), inputs, last=last) for last in (False, True))
    assert first.values["acc"][0].value.tolist() == 101
    assert last.values["acc"][0].value.tolist() == 106 == last.result.outputs["nc0/y"]
    assert "acc" in first.reads["out"]
