"""Inputs of cores that get equal bytes (`same=`): a contract that `simulate` verifies, shared or not."""

import numpy as np
import pytest

from haulout.ir.enums import NONE
from haulout.ir.text import parse_bir
from haulout.passes.base import PassContext
from haulout.passes.share_replicated import ShareReplicated
from haulout.sim import simulate
from haulout.support.diagnostics import HauloutError

CORE = """module @nc{0} core={0} {{
  func @main {{
    mloc %w dram.local size=64 kind=input dtype=f32 shape=[16] same=[[0,1]]
    mloc %y dram.local size=64 kind=output dtype=f32 shape=[16]
    block ^entry:
      %a = negate @act (%w) -> (%y)
  }}
}}
"""
LOCAL = parse_bir('bir 1\nprogram "same" lnc=2\n' + CORE.format(0) + CORE.format(1))
SHARED = ShareReplicated().run(LOCAL, PassContext())
ONES, TWOS = np.ones(16, np.float32), np.full(16, 2, np.float32)


def test_it_is_shared() -> None:
    assert SHARED.locations.remote_core.tolist() == [NONE, NONE, 0, NONE]


@pytest.mark.parametrize("program", [LOCAL, SHARED], ids=["local", "shared"])
@pytest.mark.parametrize("inputs", [{"w": ONES}, {"nc0/w": ONES, "nc1/w": ONES}], ids=["one", "each"])
def test_equal_inputs(program: object, inputs: dict[str, np.ndarray]) -> None:
    outputs = simulate(program, inputs).outputs  # type: ignore[arg-type]
    assert np.array_equal(outputs["nc0/y"], -ONES) and np.array_equal(outputs["nc1/y"], -ONES)


@pytest.mark.parametrize("program", [LOCAL, SHARED], ids=["local", "shared"])
def test_unequal_inputs_are_refused(program: object) -> None:
    with pytest.raises(HauloutError) as caught:
        simulate(program, {"nc0/w": ONES, "nc1/w": TWOS})  # type: ignore[arg-type]
    (finding,) = caught.value.diagnostics
    assert finding.code == "bad-input" and "'nc0/w' and 'nc1/w'" in finding.message


def test_a_wrong_type_of_a_view_is_refused() -> None:
    with pytest.raises(HauloutError, match=r"nc1/w.*f64\[16\]"):
        simulate(SHARED, {"nc0/w": ONES, "nc1/w": ONES.astype(np.float64)})


@pytest.mark.parametrize("key", ["nc0/w", "nc1/w", "w"])
def test_a_shared_input_takes_the_value_of_any_of_its_cores(key: str) -> None:
    """Whoever owns it."""
    outputs = simulate(SHARED, {key: ONES}).outputs
    assert [value.tolist() for value in outputs.values()] == [(-ONES).tolist()] * 2
