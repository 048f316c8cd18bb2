"""Small kernels as source text, for the tests of the NKI front end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import haulout.nki as hnki
from haulout.nki.kernel_check import CheckedKernel

HEADER = """\
import nki
import nki.isa as nisa
import nki.language as nl


"""


def write_kernel(folder: Path, body: str) -> str:
    """`FILE::kernel` of a file whose kernel is `body` behind the usual imports."""
    path = folder / "kernels.py"
    path.write_text(HEADER + textwrap.dedent(body))
    return f"{path}::kernel"


def line_of(kernel: str, text: str) -> int:
    """The line of the kernel's file that has `text` in it."""
    lines = Path(kernel.rpartition("::")[0]).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def checked(folder: Path, body: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> CheckedKernel:
    """The kernel, checked."""
    return hnki.check_kernel(write_kernel(folder, body), arguments or {}, **options)


def codes(found: CheckedKernel) -> list[str]:
    """Codes of the findings, worst first. Many small kernels do not read their argument; that note is left out."""
    return [each.code for each in found.diagnostics if each.code != "input-not-read"]


TWO_CORE = """
def kernel(x):
    core = nl.program_id(0)
    shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[core : core + 1, :])
    nisa.dma_copy(dst=shared[core : core + 1, :], src=mine)
    {meet}
    both = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=both, src=shared)
    nisa.dma_copy(dst=out[core : core + 1, :], src=both[core : core + 1, :])
    return out
"""
"""Each core writes a row of `shared` and reads all of it, with `{meet}` between."""
