"""What the HLO front end offers: a file, or text that was parsed, as a program."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from haulout.frontends.hlo.lower import lower
from haulout.frontends.hlo.parser import read_hlo
from haulout.ir.program import Program


def load_hlo(path: str | Path, *, replicated: Collection[str] = ()) -> Program:
    """Read, parse and lower an HLO file; all cores get equal bytes for the parameters named in `replicated`.

    Raises `HauloutError` when any of it fails.
    """
    return lower(read_hlo(path), replicated=replicated)
