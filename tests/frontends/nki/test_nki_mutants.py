"""The examples without one barrier or exchange each: which of the two judges sees it."""

from __future__ import annotations

import pytest
from tools.nki_mutants import EXAMPLES, Verdict, example, mutants


def _verdicts(name: str) -> list[Verdict]:
    return list(mutants(example(name)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_simulator_sees_that_a_meeting_is_missing(name: str) -> None:
    found = _verdicts(name)
    assert found
    assert all(each.schedule or each.values for each in found)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "two_rounds"])
def test_the_checker_sees_it_too(name: str) -> None:
    assert all(each.check for each in _verdicts(name))


def test_only_the_numbers_show_a_second_exchange_that_is_missing() -> None:
    """Its buffer holds what the first one has delivered, so no order is wrong and no byte is unwritten."""
    first, second = _verdicts("two_rounds")
    assert first.check and first.schedule
    assert second.values and not second.check and not second.schedule
