"""Files that processes write: into a stdout that a shell opened, at the same time, and until they are killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def test_a_dash_that_a_full_or_closed_stdout_refuses() -> None:
    command = "import sys; from haulout.support.files import write_text\ntry: write_text('-', 'x')\n"
    command += "except Exception as error: print(error, file=sys.stderr); import os; os._exit(5)"
    for where, told in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        done = subprocess.run(
            ["sh", "-c", f'"$0" -c "$1" {where}', sys.executable, command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (5, f"error[bad-input]: cannot write to stdout: {told}\n")


@pytest.mark.parametrize("path", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link", "log"])
@pytest.mark.parametrize("mode", [">", ">>"])
def test_every_name_of_stdout(path: str, mode: str, tmp_path: Path) -> None:
    """The file that stdout is gets the text behind what was printed; nothing that is printed later is lost."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "log").write_text("old ")
    command = "import sys; from haulout.support.files import write_text\n"
    command += "print('one', end=' '); write_text(sys.argv[1], 'two '); print('three', end='')"
    shell = f'"$0" -c "$1" {path} {mode} log'
    subprocess.run(["sh", "-c", shell, sys.executable, command], cwd=tmp_path, check=True)
    assert (tmp_path / "log").read_text() == ("old " if mode == ">>" else "") + "one two three"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "log"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="a staged file has a name here")
def test_a_process_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    command = (
        "import sys, time; from pathlib import Path; from haulout.support import files, staging\n"
        "def wait(*_): print('written', flush=True); time.sleep(600)\n"
        "staging._keep_mode = wait\n"
        "files.write_bytes(Path(sys.argv[1]), b'x' * 1_000_000)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", command, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "written\n"
    child.kill()
    child.wait()
    child.stdout.close()
    assert list(tmp_path.iterdir()) == []


def test_runs_into_one_folder_never_mix(tmp_path: Path) -> None:
    """The holder of the lock sees the three files of one run."""
    command = (
        "import sys; from pathlib import Path; from haulout.support.files import write_files\n"
        "folder, tag = Path(sys.argv[1]), sys.argv[2]\n"
        "for turn in range(80):\n"
        "    write_files({folder / name: f'{tag}{turn}'.encode() for name in 'abc'})\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", command, str(tmp_path), tag]) for tag in "xy"]
    descriptor = os.open(tmp_path, os.O_RDONLY)
    seen: set[str] = set()
    while any(run.poll() is None for run in runs):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        texts = {each.read_text() for each in tmp_path.iterdir() if not each.name.startswith(".")}
        assert len(texts) <= 1
        seen |= texts
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(0.005)
    os.close(descriptor)
    assert [run.returncode for run in runs] == [0, 0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b", "c"]
    assert len({each.read_text() for each in tmp_path.iterdir()}) == 1
    assert seen
