"""What the HLO front end offers: a file, or text that was parsed, as a program."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from haulout.frontends.hlo.donation import donated_names, with_donors
from haulout.frontends.hlo.fuse_elementwise import Fuse
from haulout.frontends.hlo.lower import lower
from haulout.frontends.hlo.parser import read_hlo
from haulout.frontends.hlo.partitioned import is_partitioned
from haulout.ir.origin import with_origin
from haulout.ir.program import Program


def load_hlo(
    path: str | Path,
    *,
    fuse: Fuse = "all",
    replicated: Collection[str] = (),
    divide: bool = False,
    cores: int | None = None,
) -> Program:
    """Read, parse and lower an HLO file; all cores get equal bytes for the parameters named in `replicated`.

    With `divide` a module that XLA has not partitioned becomes a program of one core, to be divided by haulout; else
    it is refused. `fuse` and `cores` as in `lower`. Raises `HauloutError` when any of it fails.
    """
    module = with_donors(read_hlo(path))
    whole = divide and not is_partitioned(module)
    program = lower(module, fuse=fuse, replicated=replicated, whole=whole, cores=cores)
    return with_origin(program, donated=donated_names(module, program), incomplete=module.left_out)
