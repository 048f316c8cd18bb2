"""`haulout opt`: what is printed and where, passes of others, and reproducers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import haulout

SMALL = """\
bir 1
program "small" lnc=1
module @nc0 core=0 {
  func @f {
    mloc %x dram.local size=64 kind=input
    mloc %y dram.local size=64 kind=output
    block ^entry:
      %get = dma_copy @dma1 (%x) -> (%y)
  }
}
"""
PASSES = '''\
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.passes.base import Pass


@dataclass(frozen=True)
class Rename(Pass):
    """Give the program another name."""

    name: ClassVar[str] = "rename"
    to: str = "renamed"

    def run(self, program, context):
        return program.replace(name=self.to)


@dataclass(frozen=True)
class Idle(Pass):
    """Change nothing."""

    name: ClassVar[str] = "idle"

    def run(self, program, context):
        return program


@dataclass(frozen=True)
class Breaks(Pass):
    """Make an operand of a location that does not exist."""

    name: ClassVar[str] = "breaks"
    row: int = 999

    def run(self, program, context):
        return program.replace(accesses=program.accesses.replace(location=np.full(len(program.accesses), self.row)))


@dataclass(frozen=True)
class Crashes(Pass):
    """Divide by zero."""

    name: ClassVar[str] = "crashes"

    def run(self, program, context):
        return 1 / 0
'''


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    program, passes = tmp_path / "small.bir", tmp_path / "mine.py"
    program.write_text(SMALL)
    passes.write_text(PASSES)
    return str(program), str(passes)


def test_passes_of_a_file_run_with_their_options(files: tuple[str, str]) -> None:
    done = haulout("opt", files[0], "--load", files[1], "--passes", 'rename{to="a b"}')
    assert done.status == 0
    assert done.stdout == SMALL.replace('"small"', '"a b"')


def test_what_is_printed_goes_to_stderr(files: tuple[str, str]) -> None:
    run = ("opt", files[0], "--load", files[1], "-q", "--passes", "idle,rename,idle")
    renamed = SMALL.replace('"small"', '"renamed"')
    changed = haulout(*run, "--print-after-changed")
    assert (changed.stdout, changed.stderr) == (renamed, f"# after rename\n{renamed}\n")
    after = haulout(*run, "--print-after-all").stderr
    assert [line for line in after.splitlines() if line.startswith("# after")] == [
        f"# after {name}" for name in ("idle", "rename", "idle")
    ]
    assert haulout(*run, "--print-before", "rename").stderr == f"# before rename\n{SMALL}\n"
    assert haulout(*run, "--print-before-all").stderr.count("# before") == 3
    times = haulout(*run, "--timing").stderr.splitlines()
    assert [line.split()[-1] for line in times[-1:]] == ["passes"]
    assert sorted(line.split()[-1] for line in times[:-1]) == ["idle", "idle", "rename"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--print-after", "renam"], "no pass is named 'renam'"),
        (["--print-before", "none"], "no pass is named 'none'"),
        (["--passes", "renam"], "did you mean rename?"),
        (["--load", "absent.py"], "cannot read absent.py: No such file or directory"),
        (["--load", "MINE"], "a pass is named 'rename' already"),
    ],
)
def test_unknown_names_are_refused(files: tuple[str, str], arguments: list[str], message: str) -> None:
    given = [files[1] if each == "MINE" else each for each in arguments]
    done = haulout("opt", files[0], "--load", files[1], *given)
    assert done.status == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\n", "defines no pass"), ("\n1 / 0\n", "mine.py:2: ZeroDivisionError"), ("(\n", "SyntaxError")],
)
def test_a_file_that_cannot_be_loaded_is_refused(files: tuple[str, str], text: str, message: str) -> None:
    Path(files[1]).write_text(text)
    done = haulout("opt", files[0], "--load", files[1])
    assert done.status == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("breaks{row=77}", "breaks made a program that is not sound"),
        ("crashes", "crashes crashed: ZeroDivisionError"),
    ],
)
def test_a_pass_that_breaks_the_program_leaves_a_reproducer(
    files: tuple[str, str], tmp_path: Path, broken: str, message: str
) -> None:
    out = tmp_path / "out"
    run = ("--load", files[1], "-q")
    done = haulout("opt", files[0], *run, "--passes", f"rename,{broken}", "--reproducer", str(out))
    assert done.status == 3
    assert message in done.stderr
    (path,) = out.iterdir()
    assert f"haulout opt {path} --load {files[1]}\n" in done.stderr
    assert path.read_text().startswith(f"# passes: {broken}\nbir 1\n")
    # The file alone says what to run.
    again = haulout("opt", str(path), *run)
    assert again.status == 3
    assert message in again.stderr
