"""The HLO front end: XLA's text, after SPMD partitioning, into a program. It does not depend on JAX or XLA.

program = load_hlo("decoder.n4.hlo")
"""

from __future__ import annotations

from pathlib import Path

from haulout.frontends.hlo.lower import lower
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.parser import parse_hlo, read_hlo
from haulout.ir.program import Program


def load_hlo(path: str | Path) -> Program:
    """Read, parse and lower an HLO file. Raises `HauloutError` when any of it fails."""
    return lower(read_hlo(path))


__all__ = ["HloModule", "load_hlo", "lower", "parse_hlo", "read_hlo"]
