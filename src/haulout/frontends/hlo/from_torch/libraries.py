"""PyTorch, JAX and torchax, imported when they are needed. Extra: `torch`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from haulout.support.diagnostics import bad_input


class Libraries(NamedTuple):
    """What the front end for PyTorch needs of others."""

    torch: ModuleType
    jax: ModuleType
    torchax: ModuleType


def libraries() -> Libraries:
    """The libraries, with the lowerings of torchax in its registry. Raises `bad-input` if one cannot be imported."""
    try:
        torch, jax, torchax = (import_module(name) for name in ("torch", "jax", "torchax"))
        for name in ("torchax.decompositions", "torchax.ops.ops_registry"):
            import_module(name)
    except ImportError as error:
        bad_input(
            f"haulout.torch needs PyTorch, JAX and torchax, one of which cannot be imported: {error}",
            help=["pip install --pre 'haulout[torch]'; install a torch for CPUs first, if that is wanted"],
        )
    torchax.default_env()
    return Libraries(torch, jax, torchax)
