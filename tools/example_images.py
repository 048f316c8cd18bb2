"""A convolutional network whose images are split by rows: neighbours exchange the rows they both need (halos)."""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import jax
import jax.numpy as jnp
from example_program import Arg, Example, Program, line
from jax import lax
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]

CLASSES = 5


def _network(params: dict[str, jax.Array], image: jax.Array) -> jax.Array:
    def convolve(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)

    x = jax.nn.relu(convolve(image, params["first"], 1))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    x = jax.nn.relu(convolve(x, params["second"], 2) + params["bias"])
    return x.mean((1, 2)) @ params["head"]


def _train(
    params: dict[str, jax.Array], image: jax.Array, label: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    def loss(params: dict[str, jax.Array]) -> jax.Array:
        logs = jax.nn.log_softmax(_network(params, image))
        return -jnp.take_along_axis(logs, label[:, None], axis=1).mean()

    error, slope = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda value, change: value - 0.1 * change, params, slope), error


def _params() -> dict[str, Arg]:
    return {
        "first": Arg((3, 3, 3, 8), scale=0.3),
        "second": Arg((3, 3, 8, 8), scale=0.2),
        "bias": Arg((8,), scale=0.1),
        "head": Arg((8, CLASSES), scale=0.5),
    }


def _image() -> Arg:
    return Arg((2, 16, 8, 3), P(None, "core"))


def conv_spatial_fwd(cores: int) -> Program:
    """The network's scores."""
    return Program(_network, (_params(), _image()), line(cores), out=P())


def conv_spatial_train(cores: int) -> Program:
    """A step of gradient descent; the gradient of the maximum pool is a select-and-scatter."""
    label = Arg((2,), dtype=jnp.int32, high=CLASSES)
    params = _params()
    return Program(_train, (params, _image(), label), line(cores), out=P(), donate=(0,))


EXAMPLES = (
    Example("conv_spatial_fwd", (2,), conv_spatial_fwd),
    Example("conv_spatial_train", (2, 4), conv_spatial_train),
)
