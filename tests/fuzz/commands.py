"""A mutant through a command, as a user sees it: the exit status, what was printed, what stays on disk.

A command must end with 0, 1 or 2 within a bound of time and memory, and leave whole files or none.
"""

from __future__ import annotations

import json
import shutil
import traceback
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner
from tests.fuzz.sources import sources
from tests.fuzz.victim import bounds

from haulout.cli.main import main

CLASSES = ("clean", "findings", "refused", "kernel hangs", "memory", "timeout", "exit 3", "exception", "half-written")
"""How a mutant ends. From `timeout` on it is a defect; `kernel hangs` is a loop of the mutant's own Python; `memory`
is the finding `out-of-memory`."""
DEFECTS = frozenset(CLASSES[5:])
_STATUS = {0: "clean", 1: "findings", 2: "refused"}


@dataclass(frozen=True)
class Outcome:
    """How a mutant ended, whether its command came to its last stage, and for a defect what was seen."""

    ended: str
    reached: bool
    command: str
    seen: str = ""


def run_mutant(kind: str, number: int, folder: Path, seconds: float = 60) -> Outcome:
    """Make mutant `number` of a kind in `folder`, which is emptied before, and run its command."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pool = sources(kind)
    source = pool[number % len(pool)]
    template = source.commands[number // len(pool) % len(source.commands)]
    mutant, out, crashes = folder / source.name, folder / "out", folder / "crashes"
    crashes.mkdir()
    mutant.write_bytes(source.mutate(source.data, number))
    out.mkdir()
    words = [word.format(mutant, out=out) for word in template.split(" ")]
    command = " ".join(words)
    try:
        with bounds(seconds) as stopped, patch("tempfile.tempdir", str(crashes)):
            result = CliRunner().invoke(main, words)
    except BaseException as error:
        return Outcome("exception", False, command, "".join(traceback.format_exception(error)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Outcome("exception", False, command, "".join(traceback.format_exception(result.exception)))
    text = result.stdout + result.stderr
    if "Traceback (most recent call last)" in text:
        return Outcome("exception", False, command, text)
    if stopped:
        own = stopped[0][-1].filename == str(mutant)
        return Outcome("kernel hangs" if own else "timeout", False, command, "".join(stopped[0].format()))
    if result.exit_code not in _STATUS:
        crash = "".join(path.read_text() for path in crashes.iterdir())
        return Outcome("exit 3", False, command, f"status {result.exit_code}\n{text}\n{crash}")
    if broken := _half_written(folder, mutant):
        return Outcome("half-written", False, command, f"{broken}\n{text}")
    if "out-of-memory" in text:
        return Outcome("memory", False, command, text)
    # What is written comes last; what only prints, sums up; findings in other forms than text are all there is.
    written = any(out.iterdir()) or "-o" not in words
    reached = result.exit_code in (0, 1) and written and "kernel-error" not in text
    return Outcome(_STATUS[result.exit_code], reached, command)


def _half_written(folder: Path, mutant: Path) -> str:
    """What is on disk that should not be; empty when all is well."""
    for path in folder.rglob("*"):
        if path.is_dir() or path == mutant or "__pycache__" in path.parts:
            continue
        data = path.read_bytes()
        try:
            whole = {
                ".bir": lambda data: data.startswith((b"bir 1\n", b"# pass:")) and data.endswith(b"}\n"),
                ".json": lambda data: bool(json.loads(data)),
                ".html": lambda data: data.rstrip().endswith(b"</html>"),
                ".csv": lambda data: data.endswith(b"\n"),
                ".npz": lambda data, path=path: zipfile.ZipFile(path).testzip() is None,
            }[path.suffix](data)
        except Exception as error:
            return f"{path}: {error!r}"
        if not whole:
            return f"{path} is not whole"
    made = {path.name for path in (folder / "out").iterdir()}
    compiled = {"program.bir", "report.json", "memory.html"}
    if made & compiled - {"program.bir"} and not compiled <= made:
        return f"of three files, {sorted(made)}"
    return ""
