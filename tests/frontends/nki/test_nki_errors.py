"""What a kernel raises, prints and names: a finding at its line, whatever it is; the process goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command import Outcome, haulout
from tests.frontends.nki.nki_kernels import HEADER

RAISED = {
    "raise ValueError('\\udcff\\x1b[31m [/red]')": "ValueError: \\xff\N{REPLACEMENT CHARACTER}[31m [/red]",
    "raise SystemExit(0)": "SystemExit: 0",
    "exit()": "SystemExit: None",
    "raise type('Odd', (BaseException,), {})": "Odd: Odd",
    "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})": "Mute: <Mute without text>",
    "raise MemoryError": "MemoryError: MemoryError",
    "f = lambda: f(); f()": "RecursionError: maximum recursion depth exceeded",
    "x = nl.ndarray((1 << 40, 1 << 40), dtype=nl.float32)": "has more than 2**62 bytes",
    "x = nl.ndarray((4,), dtype=nl.float32, name='a\\nb')": "invalid name 'a\\nb'",
    "x = nl.ndarray((4,), dtype=nl.float32, name='\\udcff')": "invalid name '\\udcff'",
    "x = nl.ndarray((4,), dtype=nl.float32, name=7)": "invalid name 7",
}


def check(folder: Path, body: str, *options: str, before: str = "") -> Outcome:
    """`haulout check` of a kernel with these lines."""
    path = folder / "kernels.py"
    path.write_text(HEADER + before + "\n\ndef kernel(x):\n    " + body + "\n    return x\n", "utf-8")
    return haulout("check", f"{path}::kernel", "--arg", "x=f32[4]", *options)


@pytest.mark.parametrize("body", RAISED)
def test_raised(body: str, tmp_path: Path) -> None:
    found = check(tmp_path, body)
    assert found.status == 1
    assert found.stdout.startswith("error[kernel-error]: ")
    assert RAISED[body] in found.stdout.splitlines()[0]
    assert f"{tmp_path}/kernels.py:9" in found.stdout
    for style in ("json", "sarif"):
        assert json.loads(check(tmp_path, body, "--format", style).stdout)


@pytest.mark.parametrize("body", [body for body in RAISED if not body.startswith("x =")])
def test_raised_while_the_file_is_imported(body: str, tmp_path: Path) -> None:
    found = check(tmp_path, "pass", before=body)
    assert found.status == 2
    assert found.stdout.startswith("error[bad-input]: kernels.py cannot be imported: ")
    assert RAISED[body] in found.stdout.splitlines()[0]
    assert f"{tmp_path}/kernels.py:6" in found.stdout


@pytest.mark.parametrize(("text", "line"), [("def kernel(x:\n", 1), ("x = 1\n  y = 2\n", 2), ("x = '\0'\n", 1)])
def test_no_python(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(text)
    found = haulout("check", f"{path}::kernel")
    assert found.status == 2
    assert found.stdout.startswith("error[bad-input]: ")
    assert f"{path}:{line}" in found.stdout or "null bytes" in found.stdout


def test_stdout_is_for_findings(tmp_path: Path) -> None:
    """What a kernel prints is not among them, and it may close what it prints to."""
    found = check(
        tmp_path, "print('\\udcff'); import sys; sys.stdout.close()", "--format", "json", before="print('x')"
    )
    assert json.loads(found.stdout)["diagnostics"] == []
    assert found.status == 0
