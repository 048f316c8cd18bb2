"""Settings of all tests: machines are noisy, so no deadlines; the same examples on every run; two tiers.

The short tier (`make test`) is every test that is not `long`: at most three cases of each parametrised test, evenly
spread, and a tenth of the examples of each property. The rest (`make test-rest`) is the long tests, and the
properties again with all their examples. Two marks make a test long:

    @pytest.mark.long("20 s")        the test runs in the rest only
    @pytest.mark.thin(8, "70 s")     every eighth case of it, from the first on, may be in the short tier

Both say what the test, or all its cases, cost in CPU time. Without `-m` everything runs.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

MAX_SHORT_CASES = 3
"""Of each parametrised test, in the short tier."""

settings.register_profile(
    "all",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("short", settings.get_profile("all"), max_examples=10)
settings.load_profile("all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` selects: mark the properties, and as long the cases that the short tier leaves out."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
        cases[item.nodeid.partition("[")[0]].append(item)
    for of_function in cases.values():
        thin = max((mark.args[0] for mark in of_function[0].iter_markers("thin")), default=1)
        step = max(thin, len(of_function) / MAX_SHORT_CASES, 1)
        kept = {int(number * step) for number in range(MAX_SHORT_CASES)}
        for number, item in enumerate(of_function):
            if number not in kept:
                item.add_marker("long")
