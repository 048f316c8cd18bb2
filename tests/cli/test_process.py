"""The command as a process: streams that cannot be written, letters that cannot be shown, Ctrl-C at any moment."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, RACE

HAULOUT = f"{sys.executable} -m haulout"


@pytest.fixture(autouse=True)
def _children_take_ctrl_c() -> Iterator[None]:
    """A job in the background ignores Ctrl-C, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell, in which HAULOUT is the command."""
    line = command.replace("HAULOUT", HAULOUT)
    return subprocess.run(["sh", "-c", line], capture_output=True, env={**os.environ, **environment}, check=False)


def test_a_reader_that_leaves() -> None:
    """`haulout opt ... | head -1` ends quietly, and the status is that of the work."""
    done = shell(f"(HAULOUT opt {HLO} --quiet; echo $? >&2) | head -c 10")
    assert done.stdout == b"bir 1\nprog"
    assert done.stderr == b"0\n"
    assert shell(f"(HAULOUT check {RACE}; echo $? >&2) | true").stderr == b"1\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["--help", f"check {RACE}"])
def test_a_full_disk(arguments: str) -> None:
    """What was asked for is not there: an error, told once."""
    done = shell(f"HAULOUT {arguments} > /dev/full")
    assert done.returncode == 2
    assert done.stderr == b"error[bad-input]: cannot write to stdout: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["--help", f"opt {RACE}"])
def test_a_full_disk_for_messages(arguments: str) -> None:
    """Notices that cannot be written change no status: the result is there."""
    assert shell(f"HAULOUT {arguments} 2> /dev/full").returncode == 0


@pytest.mark.parametrize(("arguments", "status"), [("--help", 0), (f"check {RACE}", 1), ("check missing.bir", 2)])
def test_closed_streams(arguments: str, status: int) -> None:
    """Whoever closes a stream wants nothing from it."""
    assert shell(f"HAULOUT {arguments} >&- 2>&- <&-").returncode == status
    done = shell(f"HAULOUT {arguments} >&-")
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_a_closed_stream_is_no_output_file(tmp_path: Path) -> None:
    """A file that is opened does not become stdout, whose text would then be in it."""
    out = tmp_path / "x.bir"
    assert shell(f"HAULOUT opt -q {FIXED} -o {out} >&- 2>&-").returncode == 0
    assert out.read_bytes() == shell(f"HAULOUT opt -q {FIXED}").stdout


ENVIRONMENTS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_letters_that_cannot_be_shown(environment: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"odd\xff\xe4.bir")
    source.write_text(
        re.sub(r'program ".*?"', 'program "\N{GREEK SMALL LETTER PI}\u4e2d"', RACE.read_text()), "utf-8"
    )
    quoted = shlex.quote(str(source))
    for arguments, status in (
        (f"check {quoted}", 1),
        (f"compile -q {quoted} -o {tmp_path / 'out'}", 0),
        (f"{quoted}", 2),
    ):
        done = shell(f"HAULOUT {arguments}", **environment)
        assert done.returncode == status, done
        assert b"Traceback" not in done.stdout + done.stderr
        if status == 1:  # a byte of a name that is no letter is written as an escape
            assert b"odd\\xff\\xe4.bir" in done.stdout


SLOW = """
import signal, threading
def kernel(x):
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    while True:
        pass
"""
IN_A_DESTRUCTOR = """
import gc, signal, time
class Odd:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def kernel(x):
    odd = Odd()
    del odd
    time.sleep(60)
"""
AT_IMPORT = """
import signal
signal.raise_signal(signal.SIGINT)
def kernel(x):
    pass
"""


@pytest.mark.parametrize("text", [SLOW, IN_A_DESTRUCTOR, AT_IMPORT], ids=["running", "destructor", "import"])
def test_ctrl_c(text: str, tmp_path: Path) -> None:
    """Status 130 and one line, also where Python itself would only print a traceback and go on."""
    path = tmp_path / "kernels.py"
    path.write_text(text)
    done = shell(f"HAULOUT check {path}::kernel --arg x=f32[4]")
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")


@pytest.mark.parametrize("module", ["numba.core.compiler", "haulout.api", "haulout.cli.compile", "click.formatting"])
def test_ctrl_c_while_something_is_imported(module: str, tmp_path: Path) -> None:
    """Before the command begins, while its module is imported, and in the middle of compiling a kernel."""
    path = tmp_path / "interrupt.py"
    path.write_text(
        f"""
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["haulout", "compile", "-q", {str(FIXED)!r}, "-o", {str(tmp_path / "out")!r}]
import haulout_start
if {module!r}.startswith("numba"):
    import haulout.support.jit as jit
    jit.plain_if_small = lambda *_, **__: jit.nullcontext()
haulout_start.start()
"""
    )
    done = subprocess.run([sys.executable, str(path)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")
    assert done.stdout == b""
    assert not (tmp_path / "out").exists()


def test_interrupted_by_a_signal(tmp_path: Path) -> None:
    """From outside, while a search runs."""
    path = tmp_path / "kernels.py"
    path.write_text("import time\nprint('x')\ndef kernel(x):\n    open('begun', 'w').close()\n    time.sleep(60)\n")
    command = [sys.executable, "-m", "haulout", "check", f"{path}::kernel", "--arg", "x=f32[4]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, b"", b"interrupted\n")
