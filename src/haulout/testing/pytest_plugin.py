"""The pytest plugin: check or simulate a kernel in one line.

    def test_fused_mlp(nki_check):
        nki_check("kernels.py::fused_mlp", x="bf16[4,1,1024]", k=4)

    def test_sum(nki_simulate):
        np.testing.assert_allclose(nki_simulate("kernels.py::total", x=x), x.sum(axis=0), rtol=1e-5)

`nki_check` fails the test with the report that `haulout check` prints. `nki_simulate` gives the array that the kernel
returns, or a tuple of arrays, and fails the test if a read depends on the schedule (`schedule="all"`, the default).
Arguments are arrays, specs or plain values; a string is parsed as on the command line. A relative file is searched in
the folder of the test, then in the current folder. `allow` lists codes that do not fail the test.
`--nki-barrier-scope` sets the interpretation of `core_barrier` for all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from haulout.frontends.nki.arguments import parse_value
from haulout.nki import BarrierScope, CheckedKernel, Kernel, check_kernel, simulate_kernel
from haulout.support.diagnostics import HauloutError, Severity
from haulout.support.render import render_text


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--nki-barrier-scope`."""
    parser.getgroup("haulout").addoption(
        "--nki-barrier-scope",
        choices=("data", "global"),
        default="data",
        help="the accesses that core_barrier orders in nki_check: of its tensor, as documented, or all",
    )


@pytest.fixture
def nki_check(request: pytest.FixtureRequest) -> Callable[..., CheckedKernel]:
    """Check a kernel; the test fails with the report when there is an error or a warning."""
    folder = request.path.parent
    default: BarrierScope = request.config.getoption("--nki-barrier-scope")

    def run(
        kernel: Kernel,
        *,
        lnc: int = 2,
        barrier_scope: BarrierScope | None = None,
        allow: Collection[str] = (),
        **arguments: Any,
    ) -> CheckedKernel:
        __tracebackhide__ = True
        try:
            kernel, values = _located(kernel, arguments, folder)
            found = check_kernel(kernel, values, lnc=lnc, barrier_scope=barrier_scope or default)
        except HauloutError as error:
            pytest.fail(render_text(error.diagnostics), pytrace=False)
        serious = [each for each in found.diagnostics if each.severity > Severity.NOTE and each.code not in allow]
        if serious:
            pytest.fail(render_text(serious), pytrace=False)
        return found

    return run


@pytest.fixture
def nki_simulate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Simulate a kernel: the arrays that it returns; the test fails with the report when there is an error."""
    folder = request.path.parent
    default: BarrierScope = request.config.getoption("--nki-barrier-scope")

    def run(
        kernel: Kernel,
        *,
        lnc: int = 2,
        barrier_scope: BarrierScope | None = None,
        schedule: str = "all",
        target: str = "gen3",
        allow: Collection[str] = (),
        **arguments: Any,
    ) -> Any:
        __tracebackhide__ = True
        try:
            kernel, values = _located(kernel, arguments, folder)
            scope = barrier_scope or default
            found = simulate_kernel(kernel, values, lnc=lnc, barrier_scope=scope, schedule=schedule, target=target)
        except HauloutError as error:
            pytest.fail(render_text(error.diagnostics), pytrace=False)
        errors = [each for each in found.diagnostics if each.severity is Severity.ERROR and each.code not in allow]
        if errors:
            pytest.fail(render_text(errors), pytrace=False)
        return found.returned[0] if len(found.returned) == 1 else found.returned

    return run


def _located(kernel: Kernel, arguments: Mapping[str, Any], folder: Path) -> tuple[Kernel, dict[str, Any]]:
    """A kernel whose file is searched in the folder of the test first, and its arguments, strings parsed."""
    if isinstance(kernel, str):
        file, _, name = kernel.rpartition("::")
        beside = folder / file
        kernel = f"{beside if beside.exists() else Path(file)}::{name}"
    values = {
        name: parse_value(value, f"argument {name}", folder) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    return kernel, values
