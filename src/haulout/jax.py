"""JAX programs for several cores: `lower` a function to a program, or `partition` it to HLO text. Extra: `jax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from haulout.frontends.hlo import from_jax
from haulout.frontends.hlo.from_jax import partition
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter

__all__ = ["lower", "partition", "split_axis"]


def lower(
    fn: Callable[..., Any],
    *specs: Any,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    lnc: int | None = None,
) -> Program:
    """The program of a JAX function, on as many cores as its mesh has devices, or cloned over `lnc` cores.

    With `lnc` XLA partitions nothing: `haulout.compile` divides the work itself, and shardings of arguments, of
    results and by `with_sharding_constraint` only ask for cuts, as `split_axis` does. A mesh then names axes, and its
    size does not matter. The other arguments, and the errors, are those of `partition` and of the HLO front end.
    Without `lnc`, warns if there is a mesh but no sharded argument: XLA then gives all of the work to every core.
    """
    program = from_jax.lower(
        fn,
        *specs,
        divide=lnc is not None,
        mesh=mesh,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        donate_argnums=donate_argnums,
        static_argnums=static_argnums,
    )
    return program if lnc in (None, 1) else LncSplitter(cores=lnc or 1).run(program, PassContext())


def split_axis(axis: int) -> AbstractContextManager[None]:
    """A scope whose operations the cores are to divide along a dimension of their results.

        with haulout.jax.split_axis(0):
            hidden = jax.nn.gelu(x @ w)

    `axis` counts from the end if it is negative. Operations whose results have no such dimension are free. It is
    `jax.named_scope("haulout.split(axis=0)")`, so it takes part in no computation, and its derivatives are free.
    Raises `bad-input` if JAX is not installed.
    """
    return from_jax.named_scope(f"haulout.split(axis={int(axis)})")
