"""Output is written whole or not at all, and the same input gives the same bytes in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, haulout

from haulout.support import staging


def test_folders_are_made(tmp_path: Path) -> None:
    assert haulout("compile", FIXED, "-o", tmp_path / "a" / "b").status == 0
    names = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert {"program.bir", "report.json"} <= names
    # Nothing half-written stays behind.
    assert not [name for name in names if name.startswith(".")]


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    for command in (("compile", FIXED, "-o", taken), ("opt", FIXED, "-o", taken / "x.bir")):
        result = haulout(*command)
        assert result.status == 2
        assert result.stdout.startswith("error[bad-input]: cannot write ")
    assert haulout("simulate", FIXED, "-o", taken / "x.npz").status == 2
    assert list(tmp_path.iterdir()) == [taken]
    assert taken.read_text() == "a file, not a folder"


def test_a_folder_where_a_file_should_go(tmp_path: Path) -> None:
    """The last of the files cannot be written: the others are not either."""
    (tmp_path / "report.json").mkdir()
    (tmp_path / "program.bir").write_text("before")
    result = haulout("compile", FIXED, "-o", tmp_path)
    assert result.status == 2
    assert "report.json" in result.stdout
    assert (tmp_path / "program.bir").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.bir", "report.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert haulout("compile", FIXED, "-o", tmp_path).status == 2
    tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status"), [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)]
)
def test_a_write_that_breaks_off(
    error: BaseException, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays as it was, whole."""
    path = tmp_path / "x.bir"
    path.write_text("before")
    opened = os.fdopen

    class Breaking:
        def __init__(self, *args: object, **options: object) -> None:
            self.file = opened(*args, **options)  # type: ignore[call-overload]

        def __enter__(self) -> "Breaking":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            raise error

    monkeypatch.setattr(staging.os, "fdopen", Breaking)
    assert haulout("opt", FIXED, "-o", path).status == status
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.bir"
    path.write_text("a long text that is longer than what replaces it\n" * 1000)
    assert haulout("opt", FIXED, "-o", path).status == 0
    assert path.read_text() == haulout("opt", FIXED).stdout
    # As a shell would have made it.
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_same_bytes_in_every_process(tmp_path: Path) -> None:
    made = []
    for seed in ("0", "1", "4242"):
        out = tmp_path / seed
        command = "from haulout.cli.main import main; main()"
        subprocess.run(
            [sys.executable, "-c", command, "compile", str(HLO), "-o", str(out), "--quiet"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        report = (out / "report.json").read_text()
        made.append(((out / "program.bir").read_bytes(), report[: report.index('"timings"')]))
    assert made[0] == made[1] == made[2]


def test_compiling_again(tmp_path: Path) -> None:
    """A compiled program is input as any other: it keeps its placements and needs no more fences."""
    assert haulout("compile", HLO, "-o", tmp_path / "one").status == 0
    assert haulout("compile", tmp_path / "one" / "program.bir", "-o", tmp_path / "two").status == 0
    first, second = ((tmp_path / name / "program.bir").read_text().splitlines() for name in ("one", "two"))
    assert [line for line in first if "mloc" in line] == [line for line in second if "mloc" in line]
    assert [line for line in first if "core_barrier" in line] == [line for line in second if "core_barrier" in line]
    assert len(first) == len(second)


def test_read_only_input_and_same_output(tmp_path: Path) -> None:
    """Output over its own input: the input was read before anything was written."""
    path = tmp_path / "program.bir"
    path.write_bytes(FIXED.read_bytes())
    assert haulout("compile", path, "-o", tmp_path).status == 0
    assert haulout("check", path).status == 0
    assert haulout("opt", path, "-o", path).status == 0
    assert haulout("check", path).status == 0
