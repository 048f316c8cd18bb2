"""Markdown test suites: prose, programs, commands, and what must be said about them.

    ## A title: `haulout check case.bir` exits 1

    ```bir
    bir 1
    ...
    ```

    ```text
    error[cross-core-race]: %sum on core 0 reads
    case.bir:9
    ```

A heading names the command and its status. Every fenced block that follows is a file, `case.SUFFIX`; the `text` block
lists lines that the command must print, in this order: each is part of a line of stdout, blanks counted once. A line
that starts with `!` must not be printed at all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from haulout.cli.main import main

_HEADING = re.compile(r"## (?P<title>.*): `haulout (?P<command>.*)` exits (?P<status>\d)\Z")
_FENCE = re.compile(r"```(\w*)\Z")


@dataclass
class Case:
    title: str
    command: list[str]
    status: int
    place: str
    files: dict[str, str] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)


def cases(path: Path) -> Iterator[Case]:
    """The cases of a suite."""
    current: Case | None = None
    block: list[str] | None = None
    language = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if block is None and (heading := _HEADING.match(line)):
            if current is not None:
                yield current
            command = shlex.split(heading["command"])
            current = Case(heading["title"], command, int(heading["status"]), f"{path.name}:{number}")
        elif fence and block is None:
            assert current is not None, f"{path.name}:{number}: a block before the first heading"
            block, language = [], fence[1]
        elif fence and block is not None:
            assert current is not None
            if language == "text":
                current.expected += block
            else:
                current.files[f"case.{language}"] = "\n".join(block) + "\n"
            block = None
        elif block is not None:
            block.append(line)
        else:
            assert not line.startswith("## "), f"{path.name}:{number}: no command and status in {line!r}"
    assert block is None, f"{path.name}: a block is not closed"
    if current is not None:
        yield current


def run(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints; its status must be the one of the heading."""
    for name, text in case.files.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, case.command)
    assert result.exit_code == case.status, f"{case.place}: exits {result.exit_code}\n{result.output}"
    assert "Traceback" not in result.output
    return result.stdout


def missing(expected: list[str], output: str) -> str | None:
    """The first expected line that is not there, in order, or the first that must not be there; None: all is well."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    at = 0
    for line in expected:
        wanted = " ".join(line.removeprefix("!").split())
        if line.startswith("!"):
            if any(wanted in each for each in lines):
                return line
            continue
        if not wanted:
            continue
        found = next((index for index in range(at, len(lines)) if wanted in lines[index]), None)
        if found is None:
            return line
        at = found + (1 if lines[found].count(wanted) == 1 else 0)
    return None
