"""RUN lines without a shell and without a process: what `lit` would start, called as functions.

    # RUN: [not] haulout ARGS [2>&1] | filecheck ARGS

`%s` is the file, `%S` its folder, `%t` a scratch path; `not` says that the command must fail; filecheck reads the
command's stdout, with `2>&1` (findings of `opt`) its stderr behind it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from haulout.cli.main import main

_RUN = re.compile(r"#\s*RUN:\s*(.*)")


def run_lines(path: Path) -> list[str]:
    """The RUN lines of a file."""
    return [match.group(1).strip() for line in path.read_text().splitlines() if (match := _RUN.match(line))]


def failure_of(line: str, path: Path, scratch: Path) -> str | None:
    """Why a RUN line fails, None when it succeeds."""
    line = line.replace("%s", shlex.quote(str(path))).replace("%S", str(path.parent))
    words = shlex.split(line.replace("%t", shlex.quote(str(scratch))))
    bar = words.index("|")
    command, check = words[:bar], words[bar + 1 :]
    must_fail = command[0] == "not"
    command = command[1:] if must_fail else command
    both = command[-1] == "2>&1"
    command = command[:-1] if both else command
    if command[0] != "haulout" or check[0] != "filecheck":
        return f"this runner knows `[not] haulout ... [2>&1] | filecheck ...` only: {line}"
    result = CliRunner().invoke(main, command[1:])
    if result.exit_code not in ((1, 2) if must_fail else (0,)):
        return f"exit status {result.exit_code}: {line}\n{result.output}"
    options = parse_argv_options(check)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        printed = result.stdout + (result.stderr if both else "")
        source = FInput("<output of haulout>", printed)
        status = Matcher(options, source, Parser.from_opts(options)).run()
    return None if status == 0 else f"{line}\n{said.getvalue()}\n{printed}"
