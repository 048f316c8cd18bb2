"""What an example program is: a JAX function, its arguments with shapes and shardings, and a mesh of cores."""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import example_arrays
import jax
import jax.numpy as jnp
import numpy as np
from example_arrays import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

__all__ = ["ROWS", "Arg", "Example", "Program", "cube", "line", "manual", "split"]


@dataclass(frozen=True)
class Arg:
    """One array argument: global shape, how it is split, and how its values are drawn.

    Floats are normal with standard deviation `scale`, about `mean`; integers are uniform in [`low`, `high`).
    """

    shape: tuple[int, ...]
    spec: P = P()
    dtype: Any = jnp.float32
    scale: float = 1.0
    mean: float = 0.0
    low: int = 0
    high: int = 8

    def values(self, seed: int, key: str) -> Array:
        """The global array for this seed and key."""
        dtype = np.dtype(self.dtype)
        random = example_arrays.generator(seed, key)
        if dtype == np.bool_:
            return random.random(self.shape) < 0.7
        if dtype.kind in "iu":
            return random.integers(self.low, self.high, self.shape).astype(dtype)
        return (self.mean + self.scale * random.standard_normal(self.shape)).astype(dtype)


@dataclass(frozen=True)
class Program:
    """A function of `args` (pytrees of `Arg`) over `mesh`; `out` has the outputs' specs, when they are prescribed."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    mesh: Mesh
    out: Any = None
    donate: tuple[int, ...] = ()

    def sharding(self, spec: P) -> NamedSharding:
        """The spec on this program's mesh."""
        return NamedSharding(self.mesh, spec)


@dataclass(frozen=True)
class Example:
    """A named program and the numbers of cores it is made for, unless others are asked for."""

    name: str
    cores: tuple[int, ...]
    build: Callable[[int], Program]


def line(cores: int, axis: str = "core") -> Mesh:
    """All cores along one axis; core k is device k."""
    return Mesh(np.array(jax.devices()[:cores]), (axis,))


def cube(**axes: int) -> Mesh:
    """A mesh with the given axes, the last one running fastest over the core numbers."""
    cores = math.prod(axes.values())
    return Mesh(np.array(jax.devices()[:cores]).reshape(tuple(axes.values())), tuple(axes))


def manual(fn: Callable[..., Any], mesh: Mesh, ins: Any, outs: Any) -> Callable[..., Any]:
    """`fn` written for one core, run on every core of the mesh: its collectives are the program's."""
    mapped: Callable[..., Any] = jax.shard_map(fn, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
    return mapped


ROWS = P("core")
"""The first dimension is split, over the cores of a line."""


def split(fn: Callable[..., Any], *args: Arg, outs: Any = ROWS) -> Callable[[int], Program]:
    """`fn` on every core of a line; the dimension of an argument that is split has the extent that one core has."""

    def build(cores: int) -> Program:
        mesh = line(cores)

        def whole(arg: Arg) -> Arg:
            """The argument of all cores together."""
            parts = zip(arg.shape, (*arg.spec, *[None] * len(arg.shape)), strict=False)
            return replace(arg, shape=tuple(extent * cores if axis else extent for extent, axis in parts))

        specs = tuple(arg.spec for arg in args)
        return Program(manual(fn, mesh, specs, outs), tuple(map(whole, args)), mesh)

    return build
