"""Running the command in this process: status, stdout and stderr apart, as a shell sees them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from haulout.cli.main import main

ROOT = Path(__file__).parents[2]
RACE = ROOT / "examples" / "race" / "sum_race.bir"
FIXED = ROOT / "examples" / "race" / "sum_fixed.bir"
HLO = ROOT / "examples" / "jax" / "mlp_tp.n2.hlo"
CHEAP_FENCES = ROOT / "tests" / "filecheck" / "cheap_fences.toml"
"""A machine on which small programs are divided."""


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str


def haulout(*arguments: str | Path) -> Outcome:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    # Nothing but an exit status may leave a command.
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def map_data(page: str) -> Any:
    """What the script of a memory map unpacks; no character of it can end the element."""
    packed = re.search(r'id="data">([A-Za-z0-9+/=]*)</script>', page)[1]  # type: ignore[index]
    return json.loads(zlib.decompress(base64.b64decode(packed)))
