"""Convolutions piece by piece: where the pieces are cut changes nothing. Sums of whole numbers are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from haulout.sim.numerics import im2col
from haulout.sim.numerics.convolution import convolution
from haulout.sim.numerics.types import TensorType

CASES = {
    "image": ((3, 5, 4, 2), (3, 3, 2, 3), "b01f_01io->b01f", {"pad_low": [1, 1], "pad_high": [1, 1]}, (3, 5, 4, 3)),
    "strided": ((2, 7, 6, 2), (2, 3, 2, 3), "b01f_01io->b01f", {"stride": [2, 3], "pad_high": [1, 0]}, (2, 4, 2, 3)),
    "spread": (
        (2, 2, 3, 4),
        (3, 2, 2, 1),
        "bf01_oi01->bf01",
        {"lhs_dilate": [2, 1], "rhs_dilate": [1, 2]},
        (2, 3, 4, 4),
    ),
    "groups": ((2, 4, 5, 6), (3, 2, 2, 6), "b01f_01io->b01f", {"feature_groups": 3}, (2, 2, 4, 6)),
    "few positions": ((2, 5, 5, 3), (2, 4, 4, 3), "f01b_i01o->01bf", {}, (2, 2, 3, 3)),
    "a line": ((2, 6, 3), (3, 3, 2), "b0f_0io->b0f", {"pad_low": [2]}, (2, 6, 2)),
    "no space": ((3, 4), (4, 2), "bf_io->bf", {}, (3, 2)),
    "no batch": ((0, 6, 3), (3, 3, 2), "b0f_0io->b0f", {}, (0, 4, 2)),
    "no features": ((2, 6, 0), (3, 0, 2), "b0f_0io->b0f", {}, (2, 4, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_of_any_size_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, labels, more, out = CASES[name]
    rng = np.random.default_rng(0)
    operands = [rng.integers(-4, 5, shape).astype(np.float32) for shape in (left, right)]
    taps = [right[labels.split("_")[1].index(str(dim))] for dim in range(len(left) - 2)]
    attrs: dict[str, Any] = {"dim_labels": labels, "size": taps, **more}
    found = []
    for size in (1, 200, 1 << 20):
        monkeypatch.setattr(im2col, "PIECE", size)
        (result,) = convolution(attrs, operands, [TensorType(np.dtype(np.float32), out)])
        found.append(result)
    assert found[0].shape == out
    assert found[0].any() or not found[0].size or "no " in name
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
