"""A run of branch and bound whose first steps were tried in plain Python is the run that a loaded kernel makes."""

from __future__ import annotations

import pytest
from tests.packing.generators import random_problem

from haulout.packing import capacity_search
from haulout.packing.branch_and_bound import _scan_search
from haulout.packing.capacity_search import CapacitySearch
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import canonical
from haulout.support.jit import njit


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("visits", [0, 1_500, 10**9])
def test_a_part_in_plain_python_changes_nothing(seed: int, visits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = canonical(random_problem(40, seed))
    found = []
    for limit in (0, visits):
        kernel = njit(_scan_search.py_func)
        monkeypatch.setattr(capacity_search, "_scan_search", kernel)
        monkeypatch.setattr(capacity_search, "_MAX_PLAIN_VISITS", limit)
        monkeypatch.setattr(capacity_search, "_MAX_PLAIN_VISITS_AT_FIRST", 0)
        state = Incumbent(instance, instance.bound, instance.bound)
        search = CapacitySearch(state)
        answers = [search.ask(instance.bound, 60) for _ in range(4)]
        assert kernel.is_ready or limit == 10**9
        placed = None if state.offset is None else state.offset.tolist()
        found.append((answers, state.work, state.bound, placed, search.weight.tolist()))
    assert found[0] == found[1]
