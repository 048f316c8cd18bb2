"""Models of images and a solver, written for one device: a residual net, a UNet with attention, conjugate gradients.

Every function below makes a `Model`, small for `examples/split` or large for `benchmarks/split.py`.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import example_arrays
import jax
import jax.numpy as jnp
import numpy as np
from example_program import Arg
from jax import lax
from split_program import Model, trained

__all__ = ["conjugate_gradients", "resnet", "unet"]

Tree = dict[str, Any]
GROUPS, HEADS = 4, 4


def _kernel(size: int, inside: int, outside: int) -> Arg:
    return Arg((size, size, inside, outside), scale=(size * size * inside) ** -0.5)


def _conv(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)


# --- a residual net


def _batch_norm(x: jax.Array, p: Tree, train: bool) -> jax.Array:
    """Training takes mean and variance from the batch; otherwise they are part of gain and bias."""
    if train:
        x = x - x.mean((0, 1, 2))
        x = x * lax.rsqrt((x**2).mean((0, 1, 2)) + 1e-5)
    return x * p["gain"] + p["bias"]


def _resnet(params: Tree, x: jax.Array, train: bool) -> jax.Array:
    def layer(x: jax.Array, p: Tree, stride: int = 1) -> jax.Array:
        return _batch_norm(_conv(x, p["kernel"], stride), p, train)

    x = jax.nn.relu(layer(x, params["stem"]))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    for block in params["blocks"]:
        stride = 2 if "short" in block else 1
        y = layer(jax.nn.relu(layer(x, block["a"], stride)), block["b"])
        x = jax.nn.relu(y + (_conv(x, block["short"], stride) if "short" in block else x))
    return x.mean((1, 2)) @ params["classes"]


def _layer(inside: int, outside: int) -> Tree:
    gain, bias = Arg((outside,), mean=1.0, scale=0.1), Arg((outside,), scale=0.1)
    return {"kernel": _kernel(3, inside, outside), "gain": gain, "bias": bias}


def resnet(*, train: bool = False, large: bool = False) -> Model:
    """Blocks of two convolutions around which the input is carried; every block but the first halves the image."""
    batch, size, channels, count = (8, 64, 32, 3) if large else (8, 8, 8, 2)
    blocks, now = [], channels
    for at in range(count):
        wide = channels * 2**at
        block: Tree = {"a": _layer(now, wide), "b": _layer(wide, wide)}
        if at:
            block["short"] = _kernel(1, now, wide)
        blocks.append(block)
        now = wide
    params = {"stem": _layer(3, channels), "blocks": blocks, "classes": Arg((now, 16), scale=now**-0.5)}
    x = Arg((batch, size, size, 3))
    if not train:
        return Model(lambda params, x: _resnet(params, x, train=False), (params, x), (1,))

    def loss(params: Tree, x: jax.Array, wanted: jax.Array) -> jax.Array:
        logits = jax.nn.log_softmax(_resnet(params, x, train=True))
        return -jnp.take_along_axis(logits, wanted[:, None], axis=-1).mean()

    return trained(loss, params, (x, Arg((batch,), dtype=jnp.int32)))


# --- a step of diffusion


def _group_norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    batch, high, wide, channels = x.shape
    y = x.reshape(batch, high, wide, GROUPS, channels // GROUPS)
    y = y - y.mean((1, 2, 4), keepdims=True)
    return (y * lax.rsqrt((y**2).mean((1, 2, 4), keepdims=True) + 1e-5)).reshape(x.shape) * gain


def _block(p: Tree, x: jax.Array, time: jax.Array) -> jax.Array:
    y = _conv(jax.nn.silu(_group_norm(x, p["gain1"])), p["kernel1"]) + (jax.nn.silu(time) @ p["time"])[:, None, None]
    y = _conv(jax.nn.silu(_group_norm(y, p["gain2"])), p["kernel2"])
    return y + (_conv(x, p["short"]) if "short" in p else x)


def _self_attention(p: Tree, x: jax.Array) -> jax.Array:
    batch, high, wide, channels = x.shape
    rows = _group_norm(x, p["gain"]).reshape(batch, high * wide, channels)
    q, k, v = ((rows @ p[name]).reshape(batch, high * wide, HEADS, -1) for name in ("wq", "wk", "wv"))
    score = jnp.einsum("bqhf,bkhf->bhqk", q, k) * (channels // HEADS) ** -0.5
    mixed = jnp.einsum("bhqk,bkhf->bqhf", jax.nn.softmax(score, axis=-1), v)
    return x + (mixed.reshape(batch, high * wide, channels) @ p["wo"]).reshape(x.shape)


def _unet(params: Tree, x: jax.Array, time: jax.Array) -> jax.Array:
    angle = time[:, None] * jnp.exp(-jnp.arange(8) / 2.0)
    time = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1) @ params["embedding"]
    high = _block(params["down"], _conv(x, params["in"]), time)
    low = _block(params["middle1"], _conv(high, params["halve"], 2), time)
    low = _block(params["middle2"], _self_attention(params["attention"], low), time)
    up = jnp.repeat(jnp.repeat(low, 2, axis=1), 2, axis=2)
    return _conv(_block(params["up"], jnp.concatenate([up, high], axis=-1), time), params["out"])


def unet(*, large: bool = False) -> Model:
    """Two images, one level down and up again, attention between all places of the lower level."""
    batch, size, channels = (2, 32, 64) if large else (2, 8, 8)
    deep, code = 2 * channels, 2 * channels

    def block(inside: int, outside: int) -> Tree:
        made = {
            "gain1": Arg((inside,), mean=1.0, scale=0.1),
            "kernel1": _kernel(3, inside, outside),
            "time": Arg((code, outside), scale=code**-0.5),
            "gain2": Arg((outside,), mean=1.0, scale=0.1),
            "kernel2": _kernel(3, outside, outside),
        }
        return made if inside == outside else made | {"short": _kernel(1, inside, outside)}

    products = {name: Arg((deep, deep), scale=deep**-0.5) for name in ("wq", "wk", "wv", "wo")}
    params = {
        "embedding": Arg((16, code), scale=0.25),
        "in": _kernel(3, 4, channels),
        "down": block(channels, channels),
        "halve": _kernel(3, channels, channels),
        "middle1": block(channels, deep),
        "attention": {"gain": Arg((deep,), mean=1.0, scale=0.1), **products},
        "middle2": block(deep, deep),
        "up": block(deep + channels, channels),
        "out": _kernel(3, channels, 4),
    }
    tensor = {
        "in": 3,
        "kernel1": 3,
        "kernel2": 3,
        "halve": 3,
        "short": 3,
        "time": 1,
        "wq": 1,
        "wk": 1,
        "wv": 1,
        "wo": 0,
    }
    return Model(_unet, (params, Arg((batch, size, size, 4)), Arg((batch,))), (1, 2), tensor)


# --- a solver


class _Definite(Arg):
    """A symmetric matrix whose eigenvalues lie between about 0.3 and 1.7."""

    def values(self, seed: int, key: str) -> example_arrays.Array:
        size = self.shape[0]
        drawn = super().values(seed, key) / (4 * size**0.5)
        return (drawn + drawn.T + np.eye(size)).astype(self.dtype)


def _solve(params: Tree) -> tuple[jax.Array, jax.Array]:
    matrix, wanted = params["matrix"], params["wanted"]

    def goes_on(state: tuple[jax.Array, ...]) -> jax.Array:
        return (state[0] < 50) & (state[4] > 1e-6)

    def advance(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        count, x, rest, way, before = state
        product = matrix @ way
        far = before / (way @ product)
        rest = rest - far * product
        now = rest @ rest
        return count + 1, x + far * way, rest, rest + now / before * way, now

    start = (jnp.int32(0), jnp.zeros_like(wanted), wanted, wanted, wanted @ wanted)
    count, x, *_ = lax.while_loop(goes_on, advance, start)
    return x, count


def conjugate_gradients(*, large: bool = False) -> Model:
    """Conjugate gradients for a positive definite matrix; they stop when the rest is small."""
    size = 2048 if large else 32
    params = {"matrix": _Definite((size, size)), "wanted": Arg((size,))}
    return Model(_solve, (params,), tensor={"matrix": 0})
