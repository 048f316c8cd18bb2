"""One step of decoding, as an inference server runs it: a token in, logits out, caches of keys and values updated.

The caches are donated, and their heads are split over the cores.  `kv_decode` has its layers one after the other,
each with caches of its own, stacks of one layer; `kv_decode_scan` walks over stacked layers, and writes into stacked
caches.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg, Example, Program, line
from jax import lax
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]

Tree = dict[str, Any]
LAYERS, WIDTH, HIDDEN, HEADS, HEAD, VOCABULARY = 2, 16, 32, 8, 4, 32
BATCH, ROOM = 2, 8
"""Sequences, and positions of the caches."""


def _norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def _turned(x: jax.Array, position: jax.Array) -> jax.Array:
    """Rotary embedding of [batch, heads, 1, head] at one position."""
    rate = 1.0 / 100.0 ** (jnp.arange(HEAD // 2) / (HEAD // 2))
    angle = position.astype(jnp.float32) * rate
    low, high = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([low * cosine - high * sine, low * sine + high * cosine], -1)


def _attend(
    p: Tree, x: jax.Array, keys: jax.Array, values: jax.Array, position: jax.Array, index: Any
) -> tuple[jax.Array, ...]:
    """Attention to all positions up to this one; and the stacked caches with this one, in layer `index`."""
    q, k, v = (jnp.einsum("bw,whf->bhf", x, p[name])[:, :, None, :] for name in ("wq", "wk", "wv"))
    at = (index, 0, 0, position, 0)
    keys = lax.dynamic_update_slice(keys, _turned(k, position)[None], at)
    values = lax.dynamic_update_slice(values, v[None], at)
    score = jnp.einsum("bhqf,bhtf->bhqt", _turned(q, position), keys[index]) / HEAD**0.5
    weight = jax.nn.softmax(jnp.where(jnp.arange(ROOM) <= position, score, -1e9), axis=-1)
    mixed = jnp.einsum("bhqt,bhtf->bhf", weight, values[index])
    return jnp.einsum("bhf,hfw->bw", mixed, p["wo"]), keys, values


def _layer(
    p: Tree, x: jax.Array, keys: jax.Array, values: jax.Array, position: jax.Array, index: Any = 0
) -> tuple[jax.Array, ...]:
    mixed, keys, values = _attend(p, _norm(x, p["g1"]), keys, values, position, index)
    x = x + mixed
    hidden = _norm(x, p["g2"])
    return x + (jax.nn.silu(hidden @ p["gate"]) * (hidden @ p["up"])) @ p["down"], keys, values


def _decode(p: Tree, caches: Tree, token: jax.Array, position: jax.Array) -> tuple[jax.Array, Tree]:
    x = p["embedding"][token]
    keys, values = list(caches["keys"]), list(caches["values"])
    for index, layer in enumerate(p["layers"]):
        x, keys[index], values[index] = _layer(layer, x, keys[index], values[index], position)
    return _norm(x, p["gain"]) @ p["head"], {"keys": keys, "values": values}


def _decode_scan(p: Tree, caches: Tree, token: jax.Array, position: jax.Array) -> tuple[jax.Array, Tree]:
    def step(state: Any, layer: tuple[Tree, jax.Array]) -> tuple[Any, None]:
        x, keys, values = state
        return _layer(layer[0], x, keys, values, position, layer[1]), None

    state = (p["embedding"][token], caches["keys"], caches["values"])
    (x, keys, values), _ = lax.scan(step, state, (p["layers"], jnp.arange(LAYERS)))
    return _norm(x, p["gain"]) @ p["head"], {"keys": keys, "values": values}


def _layer_args(stacked: bool) -> Tree:
    def arg(shape: tuple[int, ...], *spec: str | None, **values: Any) -> Arg:
        return Arg((LAYERS, *shape), P(None, *spec), **values) if stacked else Arg(shape, P(*spec), **values)

    heads = {name: arg((WIDTH, HEADS, HEAD), None, "core", None, scale=0.3) for name in ("wq", "wk", "wv")}
    return {
        **heads,
        "wo": arg((HEADS, HEAD, WIDTH), "core", None, None, scale=0.2),
        "gate": arg((WIDTH, HIDDEN), None, "core", scale=0.3),
        "up": arg((WIDTH, HIDDEN), None, "core", scale=0.3),
        "down": arg((HIDDEN, WIDTH), "core", None, scale=0.2),
        "g1": arg((WIDTH,), None, mean=1.0, scale=0.1),
        "g2": arg((WIDTH,), None, mean=1.0, scale=0.1),
    }


def _program(cores: int, stacked: bool) -> Program:
    shape, spec = (BATCH, HEADS, ROOM, HEAD), P(None, None, "core", None, None)
    cache: Any = Arg((LAYERS, *shape), spec) if stacked else [Arg((1, *shape), spec)] * LAYERS
    parameters = {
        "embedding": Arg((VOCABULARY, WIDTH), P()),
        "layers": _layer_args(stacked) if stacked else [_layer_args(stacked)] * LAYERS,
        "gain": Arg((WIDTH,), P(), mean=1.0, scale=0.1),
        "head": Arg((WIDTH, VOCABULARY), P(None, "core"), scale=0.3),
    }
    args = (
        parameters,
        {"keys": cache, "values": cache},
        Arg((BATCH,), P(), jnp.int32, high=VOCABULARY),
        Arg((), P(), jnp.int32, low=5, high=6),
    )
    kept = spec if stacked else [spec] * LAYERS
    out = (P(None, "core"), {"keys": kept, "values": kept})
    return Program(_decode_scan if stacked else _decode, args, line(cores), out, donate=(1,))


def kv_decode(cores: int) -> Program:
    """A decoder of two layers with rotary positions and gated units: one token, caches updated in place."""
    return _program(cores, stacked=False)


def kv_decode_scan(cores: int) -> Program:
    """The same with stacked layers, in a loop."""
    return _program(cores, stacked=True)


EXAMPLES = (
    Example("kv_decode", (2, 4, 8), kv_decode),
    Example("kv_decode_scan", (4,), kv_decode_scan),
)
