"""`haulout.torch` without PyTorch, and the parts of it that need none."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import haulout.torch
from haulout.frontends.hlo.from_torch.patterns import by_pattern
from haulout.frontends.hlo.from_torch.placement import mesh_axes, spread
from haulout.support.diagnostics import HauloutError

NAMES = ["layers.0.attn.wq.weight", "layers.1.attn.wq.weight", "layers.0.attn.wo.weight", "head", "cache[0]"]


@pytest.mark.parametrize("absent", ["torch", "torchax"])
def test_without_the_libraries_the_extra_is_named(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    for call in (lambda: haulout.torch.lower(None, ()), lambda: haulout.torch.to_jax(None, ())):
        with pytest.raises(HauloutError, match=r"haulout\.torch needs PyTorch, JAX and torchax") as caught:
            call()
        assert any("haulout[torch]" in line for line in caught.value.diagnostics[0].help)


def test_the_first_pattern_that_matches_counts() -> None:
    found = by_pattern({"layers.1.*": "one", "layers.*.wq.weight": "q", "cache[0]": "c"}, NAMES, "parameter")
    assert found == {NAMES[0]: "q", NAMES[1]: "one", "cache[0]": "c"}


def test_every_pattern_that_decides_nothing_is_named() -> None:
    with pytest.raises(HauloutError) as caught:
        by_pattern({"layers.*": 1, "layers.0.attn.wk.weight": 2, "layers.0.*": 3}, NAMES, "parameter")
    first, second = caught.value.diagnostics
    assert "'layers.0.attn.wk.weight' matches no parameter" in first.message
    assert "layers.0.attn.wq.weight" in first.help[0]
    assert "'layers.0.*' decides no parameter" in second.message


def test_what_each_core_holds() -> None:
    value = np.arange(16).reshape(4, 4)
    axes = mesh_axes({"x": 2, "y": 2})
    rows = spread(value, (("x",), ()), axes)
    assert [each[0, 0] for each in rows] == [0, 0, 8, 8]
    columns = spread(value, ((), ("y",)), axes)
    assert [each[0].tolist() for each in columns] == [[0, 1], [2, 3], [0, 1], [2, 3]]
    both = spread(value, (("y", "x"), ()), axes)
    assert [each[0, 0] for each in both] == [0, 8, 4, 12]
    assert [each.shape for each in spread(np.array(3.0), (), axes)] == [()] * 4
