"""The two tiers are all tests, only properties are in both, and the short one has every kind of test."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.test_contributing import section
from tests.test_docs import ROOT

pytestmark = pytest.mark.long("30 s: three collections of all tests")


def collected(*options: str) -> set[str]:
    """The tests that pytest selects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_tiers() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    short, rest = (collected("-m", words) for words in re.findall(r'\$\(PYTEST\) -m "([^"]+)"', makefile))
    properties = collected("-m", "property")
    assert short | rest == collected()
    assert short & rest == properties & short != set()
    assert len(rest - short) > 100
    for folder in ["tests/test_docs.py", *re.findall(r"\| `(tests/\w+)` \|", section("Run the tests"))]:
        assert any(test.startswith(folder) for test in short), folder
