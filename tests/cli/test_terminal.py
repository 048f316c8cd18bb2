"""What a terminal shows: colours and none, narrow tables, carets, completion, `python -m haulout`, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, RACE, ROOT, haulout

from haulout.report.tables import format_bytes

pty = pytest.importorskip("pty")

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def terminal(*arguments: str | Path, **variables: str) -> str:
    """stdout of a command that runs on a terminal, without the terminal's carriage returns."""
    unset = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI")
    env = {key: value for key, value in os.environ.items() if key not in unset}
    env |= {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-m", "haulout", *map(str, arguments)]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env, cwd=ROOT
    ) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert process.returncode in (0, 1)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_colours_on_a_terminal_only() -> None:
    piped = haulout("check", RACE).stdout
    assert "\x1b" not in piped
    shown = terminal("check", RACE)
    assert "\x1b[1;31merror[cross-core-race]:\x1b[0m" in shown
    assert ANSI.sub("", shown) == piped
    assert terminal("check", RACE, NO_COLOR="1") == piped
    assert terminal("check", RACE, TERM="dumb") == piped
    assert "\x1b" not in terminal("check", RACE, "--format", "json")


def test_a_name_cannot_colour(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[35mred.bir"
    path.write_bytes(RACE.read_bytes())
    assert "\x1b[35m" not in terminal("check", path)


def test_tables_on_a_narrow_terminal(tmp_path: Path) -> None:
    wide = terminal("compile", HLO, "-q", "-o", tmp_path / "out", COLUMNS="100", NO_COLOR="1")
    narrow = terminal("compile", HLO, "-q", "-o", tmp_path / "out", COLUMNS="24", NO_COLOR="1")
    assert "\x1b" not in wide + narrow
    assert re.search(r"core .* instructions .* peak DRAM", wide)
    for core in json.loads((tmp_path / "out" / "report.json").read_text())["cores"]:
        begin = narrow.index(f"- core: {core['core']}\n")
        lines = narrow[begin:].splitlines()[1:6]
        assert lines[:2] == [f"  instructions: {core['instructions']:,}", f"  barriers: {core['barriers']}"]
        assert lines[2] == f"  peak DRAM: {format_bytes(core['peak_bytes'])}"
        assert lines[2].removeprefix("  peak DRAM: ") in wide


def _carets(text: str) -> list[str]:
    """What the carets of findings are below."""
    lines = text.splitlines()
    found = []
    for above, line in pairwise(lines):
        if match := re.match(r"( +\|[ \t]*)(\^+)", line):
            found.append(above[len(match[1]) : len(match[1]) + len(match[2])])
    return found


PROGRAM = """bir 1
program "carets" lnc=1
module @nc0 core=0 {{
  func @main {{
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]
    mloc %"an odd name" dram.local size=64 dtype=f32 shape=[16]
    mloc %out dram.local size=64 kind=output dtype=f32 shape=[16]
    block ^entry:
\t  %w = dma_copy @dma0 (%x) -> (%"an odd name"){attrs}
      %r = add @vector (%x, %"an odd name" [0:64]) -> (%out [0:64])
  }}
}}
"""


def test_carets_are_below_the_operands(tmp_path: Path) -> None:
    assert _carets(haulout("check", RACE).stdout) == ["%part1", "%part1"]
    path = tmp_path / "p.bir"
    path.write_text(PROGRAM.format(attrs=""))
    outcome = haulout("check", path)
    assert "missing-dependence" in outcome.stdout
    assert _carets(outcome.stdout) == ['%"an odd name" [0:64]', '%"an odd name"']


def test_a_long_line_is_shown_around_the_caret(tmp_path: Path) -> None:
    path = tmp_path / "p.bir"
    path.write_text(
        PROGRAM.format(attrs="")
        .replace(" -> (%out", " " * 900 + " -> (%out")
        .replace("(%x, %", "(%x," + " " * 900 + "%")
    )
    outcome = haulout("check", path)
    assert _carets(outcome.stdout)[0] == '%"an odd name" [0:64]'
    assert max(map(len, outcome.stdout.splitlines())) < 600


def test_no_column_where_the_file_has_changed(tmp_path: Path) -> None:
    from haulout import api
    from haulout.ir.text.columns import with_columns

    path = tmp_path / "race.bir"
    path.write_text(RACE.read_text())
    checked = api.check_source(path)
    assert checked.program is not None
    path.write_text("\n".join("" for _ in range(40)))
    (finding,) = with_columns(checked.diagnostics, checked.program)
    assert [label.span.column for label in finding.labels if label.span] == [0, 0]
    path.unlink()
    assert with_columns(checked.diagnostics, checked.program) == checked.diagnostics


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    code = "import sys; sys.argv[0] = 'haulout'; from haulout_start import start; start()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(**variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env=env | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "haulout" in run(_HAULOUT_COMPLETE=f"{shell}_source")
    words = {"COMP_WORDS": "haulout ch", "COMP_CWORD": "ch" if shell == "fish" else "1"}
    assert "check" in run(_HAULOUT_COMPLETE=f"{shell}_complete", **words)
    docs = (ROOT / "docs" / "ci.md").read_text()
    assert f"_HAULOUT_COMPLETE={shell}_source haulout" in docs


def test_reduce_and_plan_write_what_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from haulout.checker import check_program

    calls = 0

    def check(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return check_program(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("haulout.cli.reduce.check_program", check)
    outcome = haulout("reduce", RACE, "--code", "cross-core-race", "-o", tmp_path / "small.bir")
    assert outcome.status == 0
    assert "interrupted: the smallest program found until then" in outcome.stderr
    assert "error[cross-core-race]" in haulout("check", tmp_path / "small.bir").stdout

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    problem = tmp_path / "p.csv"
    problem.write_text("id,lower,upper,size\nx,0,4,64\ny,2,6,128\n")
    monkeypatch.setattr("haulout.cli.plan._report", interrupt)
    outcome = haulout("plan", problem, "-o", tmp_path / "placed.csv")
    assert outcome.status == 0
    assert "interrupted: the best placement found until then" in outcome.stdout
    assert (tmp_path / "placed.csv").read_text().count("\n") == 3
    assert haulout("check", FIXED).status == 0
