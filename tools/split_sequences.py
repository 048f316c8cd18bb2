"""Models of sequences, written for one device: GPT, a mixture of experts, a state-space and a recurrent net.

Every function below makes a `Model`, small for `examples/split` or large for `benchmarks/split.py`.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg
from jax import lax
from split_program import Model, trained

__all__ = ["gpt", "moe", "rnn", "state_space"]

Tree = dict[str, Any]


def _weight(*shape: int) -> Arg:
    """A parameter whose product with a row of unit variance has unit variance."""
    return Arg(shape, scale=shape[-2] ** -0.5)


def _bias(size: int) -> Arg:
    return Arg((size,), scale=0.1)


def _gain(size: int) -> Arg:
    return Arg((size,), mean=1.0, scale=0.1)


def _cross_entropy(logits: jax.Array, wanted: jax.Array) -> jax.Array:
    found = jnp.take_along_axis(jax.nn.log_softmax(logits), wanted[..., None], axis=-1)
    return -found.mean()


def _norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain


# --- a transformer


def _attention(layer: Tree, x: jax.Array, heads: int) -> jax.Array:
    batch, length, width = x.shape
    q, k, v = (x @ layer[name] for name in ("wq", "wk", "wv"))
    q, k, v = (each.reshape(batch, length, heads, width // heads) for each in (q, k, v))
    score = jnp.einsum("bqhf,bkhf->bhqk", q, k) * (width // heads) ** -0.5
    past = jnp.tril(jnp.ones((length, length), bool))
    share = jax.nn.softmax(jnp.where(past, score, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhf->bqhf", share, v).reshape(batch, length, width) @ layer["wo"]


def _gpt(params: Tree, tokens: jax.Array, heads: int) -> jax.Array:
    x = params["embedding"][tokens] + params["place"]
    for layer in params["layers"]:
        x = x + _attention(layer, _norm(x, layer["gain1"]), heads)
        hidden = jax.nn.gelu(_norm(x, layer["gain2"]) @ layer["up"] + layer["up_bias"])
        x = x + hidden @ layer["down"] + layer["down_bias"]
    return _norm(x, params["gain"]) @ params["embedding"].T


def gpt(batch: int, *, train: bool = False, large: bool = False) -> Model:
    """A decoder with a tied embedding; one sequence is split by heads and hidden units."""
    layers, width, heads, length, words = (4, 256, 8, 256, 1024) if large else (1 if train else 2, 16, 8, 8, 32)
    layer = {
        "gain1": _gain(width),
        **{name: _weight(width, width) for name in ("wq", "wk", "wv", "wo")},
        "gain2": _gain(width),
        "up": _weight(width, 4 * width),
        "up_bias": _bias(4 * width),
        "down": _weight(4 * width, width),
        "down_bias": _bias(width),
    }
    params = {
        "embedding": Arg((words, width), scale=0.5),
        "place": Arg((length, width), scale=0.5),
        "layers": [layer] * layers,
        "gain": _gain(width),
    }
    tensor = {"embedding": 0, "wq": 1, "wk": 1, "wv": 1, "wo": 0, "up": 1, "up_bias": 0, "down": 0}
    tokens = Arg((batch, length), dtype=jnp.int32, high=words)
    if not train:
        return Model(lambda params, tokens: _gpt(params, tokens, heads), (params, tokens), (1,), tensor)

    def loss(params: Tree, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
        return _cross_entropy(_gpt(params, tokens, heads), wanted)

    return trained(loss, params, (tokens, tokens), tensor=tensor)


# --- a mixture of experts

CHOSEN = 2
"""Experts for each token."""


def _routed(params: Tree, rows: jax.Array, seats: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """For each row and choice: share and number of the expert, and the seat of the row there (or too high)."""
    count = params["router"].shape[1]
    share, expert = lax.top_k(jax.nn.softmax(rows @ params["router"]), CHOSEN)
    share = share / share.sum(-1, keepdims=True)
    taken = jax.nn.one_hot(expert.T.reshape(-1), count, dtype=jnp.int32)  # all first choices, then all second ones
    seat = ((jnp.cumsum(taken, 0) - 1) * taken).sum(-1).reshape(CHOSEN, -1).T
    return jnp.where(seat < seats, share, 0), expert, seat


def _experts(params: Tree, sent: jax.Array) -> jax.Array:
    hidden = jax.nn.silu(jnp.einsum("esd,edf->esf", sent, params["up"]))
    return jnp.einsum("esf,efd->esd", hidden, params["down"])


def _moe_by_products(params: Tree, rows: jax.Array, seats: int) -> jax.Array:
    """Rows go to their seats and back by products with one-hot arrays."""
    share, expert, seat = _routed(params, rows, seats)
    places = jax.nn.one_hot(expert, params["router"].shape[1])[..., None] * jax.nn.one_hot(seat, seats)[:, :, None]
    combine = jnp.einsum("nk,nkes->nes", share, places)
    sent = jnp.einsum("nes,nd->esd", (combine > 0).astype(rows.dtype), rows)
    return jnp.einsum("nes,esd->nd", combine, _experts(params, sent))


def _moe_by_index(params: Tree, rows: jax.Array, seats: int) -> jax.Array:
    """Rows go to their seats by a scatter and back by a gather; one without a seat is dropped."""
    share, expert, seat = _routed(params, rows, seats)
    count, width = params["router"].shape[1], rows.shape[1]
    row = jnp.where(seat < seats, expert * seats + seat, count * seats)
    sent = jnp.zeros((count * seats, width), rows.dtype)
    for choice in range(CHOSEN):
        sent = sent.at[row[:, choice]].set(rows, mode="drop", unique_indices=True)
    back = _experts(params, sent.reshape(count, seats, width)).reshape(-1, width)
    return (share[..., None] * back.at[row].get(mode="fill", fill_value=0)).sum(1)


def moe(*, by_index: bool, train: bool = False, large: bool = False) -> Model:
    """One layer with experts that have seats for twice the mean number of rows."""
    batch, length, width, experts, hidden = (8, 128, 256, 8, 1024) if large else (8, 4, 16, 8, 16)
    seats = 2 * CHOSEN * batch * length // experts // 2
    layer = _moe_by_index if by_index else _moe_by_products
    params = {
        "router": _weight(width, experts),
        "up": _weight(experts, width, hidden),
        "down": _weight(experts, hidden, width),
    }
    x = Arg((batch, length, width))

    def forward(params: Tree, x: jax.Array) -> jax.Array:
        return x + layer(params, x.reshape(-1, width), seats).reshape(x.shape)

    tensor = {"up": 0, "down": 0}
    if not train:
        return Model(forward, (params, x), (1,), tensor)

    def loss(params: Tree, x: jax.Array, wanted: jax.Array) -> jax.Array:
        return ((forward(params, x) - wanted) ** 2).mean()

    return trained(loss, params, (x, x), tensor=tensor)


# --- states along a sequence


def _selective(params: Tree, x: jax.Array, associative: bool) -> jax.Array:
    """A layer whose diagonal state decays by a factor that depends on the input; a gate on its output."""
    inside, gate = x @ params["inside"], jax.nn.silu(x @ params["gate"])
    step = jax.nn.softplus(x @ params["step"] + params["step_bias"])
    decay = jnp.exp(-step[..., None] * jnp.exp(params["rate"]))  # batch, time, channel, state
    enter = (step * inside)[..., None] * (x @ params["enter"])[:, :, None, :]
    leave = x @ params["leave"]
    if associative:

        def joined(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            return a[0] * b[0], a[1] * b[0] + b[1]

        states = lax.associative_scan(joined, (decay, enter), axis=1)[1]
        y = jnp.einsum("btcs,bts->btc", states, leave)
    else:

        def advance(state: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            decay, enter, leave = now
            state = state * decay + enter
            return state, jnp.einsum("bcs,bs->bc", state, leave)

        times = tuple(each.swapaxes(0, 1) for each in (decay, enter, leave))
        y = lax.scan(advance, jnp.zeros_like(enter[:, 0]), times)[1].swapaxes(0, 1)
    return x + ((y + params["skip"] * inside) * gate) @ params["out"]


def state_space(*, associative: bool = False, train: bool = False, large: bool = False) -> Model:
    """A selective state-space layer, its states in a loop or by an associative scan."""
    batch, length, width, inner, states = (8, 128, 128, 256, 16) if large else (8, 6, 8, 16, 4)
    params = {
        **{name: _weight(width, inner) for name in ("inside", "gate", "step")},
        "step_bias": _bias(inner),
        "rate": Arg((inner, states), scale=0.3),
        "enter": _weight(width, states),
        "leave": _weight(width, states),
        "skip": _gain(inner),
        "out": _weight(inner, width),
    }
    tensor = {"inside": 1, "gate": 1, "step": 1, "step_bias": 0, "rate": 0, "skip": 0, "out": 0}
    x = Arg((batch, length, width))
    if not train:
        return Model(lambda params, x: _selective(params, x, associative), (params, x), (1,), tensor)

    def loss(params: Tree, x: jax.Array, wanted: jax.Array) -> jax.Array:
        return ((_selective(params, x, associative) - wanted) ** 2).mean()

    return trained(loss, params, (x, x), tensor=tensor)


def rnn(batch: int, *, large: bool = False) -> Model:
    """A recurrent net with gates: every step multiplies the state by a matrix."""
    length, width = (128, 512) if large else (6, 16)
    names = ("update", "reset", "new")
    params = {f"{name}_in": _weight(width, width) for name in names}
    params |= {f"{name}_state": _weight(width, width) for name in names}
    params["out"] = _weight(width, width)
    x = Arg((batch, length, width))

    def forward(params: Tree, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        inputs = tuple((x @ params[f"{name}_in"]).swapaxes(0, 1) for name in names)

        def cell(state: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            update = jax.nn.sigmoid(now[0] + state @ params["update_state"])
            reset = jax.nn.sigmoid(now[1] + state @ params["reset_state"])
            new = jnp.tanh(now[2] + reset * (state @ params["new_state"]))
            state = (1 - update) * state + update * new
            return state, state

        last, states = lax.scan(cell, jnp.zeros_like(x[:, 0]), inputs)
        return states.swapaxes(0, 1) @ params["out"], last

    return Model(forward, (params, x), (1,), dict.fromkeys(params, 1) | {"out": 0})
