"""What a program of one device is: a JAX function, its arguments, and the ways in which a user would shard it.

The examples in `examples/split` and the larger programs of `benchmarks/split.py` are of this kind. The ways are for
comparison with XLA alone: what haulout compiles has no mesh and no sharding.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import example_arrays
import jax
import jax.numpy as jnp
from example_program import Arg
from jax.sharding import PartitionSpec as P

__all__ = ["Model", "adam", "is_arg", "specs_of", "state_of", "trained", "values_of"]

Tree = Any


@dataclass(frozen=True)
class Model:
    """A function of `args`, pytrees of `Arg`; the first is the parameters.

    `data`: numbers of the arguments whose first dimension is the batch. `tensor`: the dimension of a parameter that a
    user would split over devices that share the work of one sequence or image, by the last name in its path.
    """

    fn: Callable[..., Any]
    args: tuple[Tree, ...]
    data: tuple[int, ...] = ()
    tensor: Mapping[str, int] = field(default_factory=dict)
    donate: tuple[int, ...] = ()

    @property
    def batch(self) -> int:
        """The extent of the batch; 1 if there is none."""
        return int(jax.tree.leaves(self.args[self.data[0]], is_leaf=is_arg)[0].shape[0]) if self.data else 1

    def ways(self, devices: int) -> Iterator[tuple[str, dict[str, int], tuple[Tree, ...]]]:
        """Shardings that a user would try: their name, the mesh, and specs of all arguments.

        The batch over all devices, with the parameters on each or cut (and gathered where they are used); the
        parameters by `tensor`; and, if the batch is too small for all devices, both.
        """
        rows = math.gcd(self.batch, devices)
        if rows == devices > 1 or devices == 1:
            mesh = {"data": devices, "core": 1}
            yield "batch", mesh, self._specs(lambda name, shape: P())
            yield "batch, parameters cut", mesh, self._specs(lambda name, shape: _first(shape, devices))
        if self.tensor and devices > 1:
            for count in {1, rows} - {devices}:
                name = "tensor" if count == 1 else "batch and tensor"
                parts = devices // count
                along = self._specs(lambda name, shape, parts=parts: _along(shape, self.tensor.get(name), parts))
                yield name, {"data": count, "core": parts}, along

    def _specs(self, parameter: Callable[..., P]) -> tuple[Tree, ...]:
        def spec(path: Any, arg: Arg) -> P:
            if path[0].idx in self.data:
                return P("data")
            keys = [each.key for each in path if isinstance(each, jax.tree_util.DictKey)]
            return parameter(keys[-1] if keys else "", arg.shape)

        specs: tuple[Tree, ...] = jax.tree_util.tree_map_with_path(spec, self.args, is_leaf=is_arg)
        return specs


def _first(shape: tuple[int, ...], devices: int) -> P:
    """Cut the first dimension that is large enough and divides evenly; P() if there is none."""
    at = next((at for at, extent in enumerate(shape) if extent >= devices and extent % devices == 0), None)
    return P() if at is None else P(*[None] * at, "data")


def _along(shape: tuple[int, ...], at: int | None, parts: int) -> P:
    """Cut the dimension `at`, if it divides evenly."""
    return P() if at is None or shape[at] % parts else P(*[None] * at, "core")


def is_arg(node: Any) -> bool:
    """Whether a node of a tree is an argument."""
    return isinstance(node, Arg)


def specs_of(model: Model) -> tuple[Tree, ...]:
    """Shapes and dtypes of the arguments."""
    specs: tuple[Tree, ...] = jax.tree.map(
        lambda arg: jax.ShapeDtypeStruct(arg.shape, arg.dtype), model.args, is_leaf=is_arg
    )
    return specs


def values_of(model: Model, name: str, seed: int) -> list[example_arrays.Array]:
    """The leaves of the arguments, drawn from the seed and the path of each."""
    leaves = jax.tree_util.tree_leaves_with_path(model.args, is_leaf=is_arg)
    return [arg.values(seed, name + jax.tree_util.keystr(path)) for path, arg in leaves]


def adam(params: Tree, first: Tree, second: Tree, slope: Tree) -> tuple[Tree, Tree, Tree]:
    """A step of Adam: parameters, first and second moments."""
    first = jax.tree.map(lambda mean, g: 0.9 * mean + 0.1 * g, first, slope)
    second = jax.tree.map(lambda square, g: 0.99 * square + 0.01 * g * g, second, slope)
    params = jax.tree.map(lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-6), params, first, second)
    return params, first, second


def state_of(params: Tree) -> tuple[Tree, Tree]:
    """The moments that Adam keeps of `params`; the second is positive."""
    first = jax.tree.map(lambda arg: Arg(arg.shape, scale=0.1), params, is_leaf=is_arg)
    second = jax.tree.map(lambda arg: Arg(arg.shape, mean=1.0, scale=0.1), params, is_leaf=is_arg)
    return first, second


def trained(loss: Callable[..., jax.Array], params: Tree, batch: tuple[Arg, ...], **more: Any) -> Model:
    """A step of training with Adam; parameters and moments are donated. `loss` is a function of params and batch."""

    def step(params: Tree, first: Tree, second: Tree, *data: jax.Array) -> tuple[Tree, Tree, Tree, jax.Array]:
        error, slope = jax.value_and_grad(loss)(params, *data)
        return *adam(params, first, second, slope), error

    args = (params, *state_of(params), *batch)
    return Model(step, args, tuple(range(3, len(args))), donate=(0, 1, 2), **more)
