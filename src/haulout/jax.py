"""JAX programs for several cores: `lower` a function to a program, or `partition` it to HLO text. Extra: `jax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haulout.frontends.hlo import from_jax
from haulout.frontends.hlo.from_jax import partition
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter
from haulout.support.diagnostics import bad_input

__all__ = ["lower", "partition"]


def lower(fn: Callable[..., Any], *specs: Any, lnc: int | None = None, **options: Any) -> Program:
    """The program of a JAX function, on as many cores as its mesh has devices, or cloned over `lnc` cores.

    With `lnc` there is no mesh and no sharding: `haulout.compile` divides the work itself. The other arguments, and
    the errors, are those of `partition` and of the HLO front end. Warns if there is a mesh but no sharded argument:
    XLA then gives all of the work to every core.
    """
    program = from_jax.lower(fn, *specs, **options)
    if lnc is None or lnc == program.lnc:
        return program
    if program.lnc != 1:
        bad_input(f"lnc={lnc}, but the function is partitioned for {program.lnc} cores", help=["leave out the mesh"])
    return LncSplitter(cores=lnc).run(program, PassContext())
