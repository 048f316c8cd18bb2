"""One test a `.bir` file of this folder: its RUN lines, as functions; and through `lit`, as processes."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.filecheck.run_line import failure_of, run_lines

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.bir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_file(path: Path, tmp_path: Path) -> None:
    lines = run_lines(path)
    assert lines, f"{path} has no RUN line"
    assert "CHECK" in path.read_text()
    for line in lines:
        failure = failure_of(line, path, tmp_path)
        assert failure is None, failure


def test_runner_can_fail(tmp_path: Path) -> None:
    """A runner that accepts everything would prove nothing."""
    text = (FOLDER / "build_fdeps.bir").read_text()
    path = tmp_path / "wrong.bir"
    path.write_text(text + "\n# CHECK: this is never printed\n")
    assert failure_of(run_lines(path)[0], path, tmp_path) is not None
    path.write_text(text)
    assert failure_of(run_lines(path)[0], path, tmp_path) is None
    assert failure_of("not " + run_lines(path)[0], path, tmp_path) is not None


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        pytest.param(["--filter", "build_fdeps|unresolved"], 2, id="every form of command"),
        pytest.param([], len(FILES), id="all", marks=pytest.mark.long("60 s: two processes a file")),
    ],
)
def test_lit_runs_them(chosen: list[str], count: int) -> None:
    """The same files through `lit`."""
    pytest.importorskip("lit")
    done = subprocess.run(
        [sys.executable, "-c", "from lit.main import main; main()", "-v", *chosen, str(FOLDER)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS: ") == count, done.stdout
