"""The options of a function that was given as `jax.jit(f, ...)`.

A jitted function that is traced inside of another `jit` loses its donation, and its static arguments become tracers.
So the function inside is traced, with the options of the `jit` around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from haulout.support.diagnostics import bad_input

_SHARDINGS = ("in_shardings", "out_shardings")
_NUMBERS = ("donate_argnums", "static_argnums")


def jit_options(fn: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function to trace, and its options: those of the `jit` around it, unless another one is `given`.

    What is None is not given. Of a `jit` in a `jit` the inner options count as in JAX: while it is traced.
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    if not hasattr(fn, "trace") or not hasattr(fn, "__wrapped__"):
        return fn, chosen
    info = getattr(fn, "_jit_info", None)
    if info is None or not all(hasattr(info, f"{key}_treedef") for key in _SHARDINGS):
        bad_input(
            "the options of this jax.jit cannot be read with this version of JAX",
            help=["pass the function itself, and the options to haulout.jax"],
        )
    found = {key: tuple(getattr(info, key)) for key in _NUMBERS}
    for key in _SHARDINGS:
        leaves = [None if _is_unspecified(leaf) else leaf for leaf in getattr(info, f"{key}_leaves")]
        if any(leaf is not None for leaf in leaves):
            found[key] = getattr(info, f"{key}_treedef").unflatten(leaves)
    return fn.__wrapped__, {**found, **chosen}


def _is_unspecified(leaf: Any) -> bool:
    """Whether it stands for a sharding that is left to XLA."""
    return type(leaf).__name__ == "UnspecifiedValue"
