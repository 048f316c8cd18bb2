"""Settings of all tests: machines are noisy, so no deadlines; the same examples on every run; two tiers.

The short tier (`make test`) is every test that is not `long`, with a tenth of the examples of each property. The rest
(`make test-rest`) is the long tests, and the properties again with all their examples. Two marks make a test long:

    @pytest.mark.long("20 s")        the test runs in the rest only
    @pytest.mark.thin(8, "70 s")     every eighth case of it, from the first on, stays in the short tier

Both say what the test, or all its cases, cost in CPU time. Without `-m` everything runs.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

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
    """Before `-m` selects: mark the properties, and as long the cases that `thin` leaves out."""
    cases: Counter[str] = Counter()
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
        for mark in item.iter_markers("thin"):
            function = item.nodeid.partition("[")[0]
            if cases[function] % mark.args[0]:
                item.add_marker("long")
            cases[function] += 1
