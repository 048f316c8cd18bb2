"""Kernels of nki-library compute what NumPy, and the library's own references, say; from a checkout, unmodified.

The cases and formulas are in `tools/nki_numbers.py`. The library's references need torch; without it those tests are
skipped.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tools.nki_cases import VARIABLE, library_folder
from tools.nki_coverage import without
from tools.nki_numbers import NUMBERS, Numbers, difference

from haulout.nki.kernel_simulation import simulate_trace

pytestmark = pytest.mark.skipif(library_folder() is None, reason=f"{VARIABLE} names no checkout of nki-library")

BY_TITLE = {each.title: each for each in NUMBERS}
RIGHT = [each for each in NUMBERS if not each.defect]
WRONG = [each for each in NUMBERS if each.defect]


def _name(each: Numbers) -> str:
    return each.title


@pytest.mark.parametrize("each", RIGHT, ids=_name)
def test_a_kernel_computes_its_formula(each: Numbers) -> None:
    given = each.given()
    found = each.simulate(given)
    assert found.ok, [finding.message for finding in found.diagnostics]
    wanted = each.formula(given)
    assert wanted
    for got, want in zip(each.compared(found), wanted, strict=True):
        assert np.isfinite(np.asarray(got, np.float64)).all()
        assert difference(got, want) <= each.tolerance


@pytest.mark.parametrize("each", [each for each in RIGHT if each.torch], ids=_name)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the library's references need torch")
def test_a_kernel_computes_the_library_s_own_reference(each: Numbers) -> None:
    given = each.given()
    found = each.simulate(given)
    wanted = each.reference(given)
    assert wanted
    for got, want in zip(each.compared(found), wanted, strict=True):
        assert difference(got, want) <= each.tolerance


@pytest.mark.parametrize(
    ("title", "exchange"),
    [("mlp_tkg", 0), ("mlp_tkg", 1), *(("moe_tkg (all experts)", at) for at in range(4)), ("bwmm_shard_on_I", 2)],
)
def test_an_exchange_that_is_left_out_changes_the_numbers(title: str, exchange: int) -> None:
    """Also where its buffer holds what an earlier exchange has delivered, so that nothing is unwritten."""
    each = BY_TITLE[title]
    given = each.given()
    found = simulate_trace(without(each.trace(given), "sendrecv", exchange))
    off = [difference(got, want) for got, want in zip(each.compared(found), each.formula(given), strict=True)]
    assert max(off) > 0.5


@pytest.mark.parametrize(
    "title", ["rmsnorm_tkg", "router_topk", "mlp_tkg", "attention_cte", "dynamic_elementwise_add"]
)
def test_a_kernel_does_not_depend_on_the_schedule(title: str) -> None:
    found = BY_TITLE[title].simulate(BY_TITLE[title].given(), schedule="all")
    assert found.ok and found.schedules > 5


@pytest.mark.parametrize("each", WRONG, ids=_name)
def test_a_published_defect_shows_in_the_numbers(each: Numbers) -> None:
    given = each.given()
    found = each.simulate(given)
    assert any(
        difference(got, want) > max(each.tolerance, 0.1)
        for got, want in zip(each.compared(found), each.formula(given), strict=True)
    )
