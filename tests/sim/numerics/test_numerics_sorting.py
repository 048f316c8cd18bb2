"""`sort` against Python's own, and the total order of floats against the list of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.types import type_of
from haulout.support.diagnostics import HauloutError

FIRST_THEN_SECOND = {
    "body": [
        ["compare", "pred", [0, 1], "LT"],
        ["compare", "pred", [0, 1], "EQ"],
        ["compare", "pred", [2, 3], "GT"],
        ["and", "pred", [7, 8]],
        ["or", "pred", [6, 9]],
    ],
    "results": [10],
}
"""Of three arrays: by the first, rising; among equal ones by the second, falling."""
BY_FIRST = {"body": [["compare", "pred", [0, 1], "LT"]]}


def sort(attrs: dict[str, Any], *arrays: np.ndarray) -> list[np.ndarray]:
    return evaluate("sort", attrs, arrays, [type_of(array) for array in arrays])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_several_arrays_are_sorted_together_and_equal_ones_keep_their_places(rows: list[tuple[int, int]]) -> None:
    places = np.arange(len(rows), dtype=np.int32)
    first, second = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    found = sort({"dim": 0, **FIRST_THEN_SECOND}, first, second, places)
    expected = sorted(places.tolist(), key=lambda place: (rows[place][0], -rows[place][1]))
    assert found[2].tolist() == expected
    assert found[0].tolist() == first[expected].tolist()
    found = sort({"dim": 0, **BY_FIRST, "results": [6]}, first, second, places)
    assert found[2].tolist() == sorted(places.tolist(), key=lambda place: rows[place][0])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_each_line_along_the_dimension_by_itself(dim: int) -> None:
    array = np.random.default_rng(0).normal(size=(5, 6, 7)).astype(np.float32)
    (found,) = sort({"dim": dim, **BY_FIRST, "results": [2]}, array)
    assert np.array_equal(found, np.sort(array, dim))


def test_a_long_line_takes_few_comparisons() -> None:
    array = np.random.default_rng(0).permutation(50_000).astype(np.float32)
    (found,) = sort({"dim": 0, **BY_FIRST, "results": [2]}, array)
    assert np.array_equal(found, np.arange(50_000))


def test_the_total_order() -> None:
    for name in ("f32", "f64", "f16", "bf16"):
        rising = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float64).astype(NUMPY[name])
        places = range(len(rising))
        left, right = np.array([(a, b) for a, b in product(places, places)]).T
        output = [TensorType(NUMPY["pred"], left.shape)]
        for direction, expected in (("LT", left < right), ("EQ", left == right), ("GE", left >= right)):
            attrs = {"direction": f"{direction}_TOTAL"}
            (found,) = evaluate("compare", attrs, [rising[left], rising[right]], output)
            assert np.array_equal(found, expected), name
        mixed = np.random.default_rng(0).permutation(rising)
        (found,) = sort({"dim": 0, "body": [["compare", "pred", [0, 1], "LT_TOTAL"]], "results": [2]}, mixed)
        assert found.tobytes() == rising.tobytes()


def test_a_comparison_that_is_no_order_is_refused() -> None:
    array = np.array([2, np.nan, 3, 0], np.float32)  # what is less than NaN, and what is greater?
    with pytest.raises(HauloutError, match="does not order these elements"):
        sort({"dim": 0, **BY_FIRST, "results": [2]}, array)


@pytest.mark.parametrize(
    ("attrs", "arrays", "expected"),
    [
        ({"dim": 1, **BY_FIRST, "results": [2]}, [np.zeros(3)], "a rank 1 array has no dimension 1"),
        ({**BY_FIRST, "results": [2]}, [np.zeros(3)], "attribute `dim` is missing"),
        ({"dim": 0}, [np.zeros(3)], "attribute `op` is missing, and so is `body`"),
        ({"dim": 0, **BY_FIRST, "results": [4]}, [np.zeros(3), np.zeros(4)], "differ in shape"),
        ({"dim": 0, **BY_FIRST, "results": [2, 2]}, [np.zeros(3)], "expected 1 of the numbers"),
    ],
)
def test_what_does_not_fit_is_refused(attrs: Any, arrays: list[np.ndarray], expected: str) -> None:
    with pytest.raises(HauloutError) as caught:
        sort(attrs, *arrays)
    assert expected in caught.value.diagnostics[0].message
