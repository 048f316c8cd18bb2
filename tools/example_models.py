"""Small networks, split over cores the ways large ones are: the partitioner finds the collectives by itself.

Tensor, sequence and fully-sharded data parallel layers, a decoder block with its training step, a two-layer language
model whose vocabulary is split, and a mixture of experts.  Sizes are the smallest that still give each core
something to do.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg, Example, Program, cube, line
from jax import lax
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]

Tree = dict[str, Any]
WIDTH, HIDDEN, HEADS, LENGTH, BATCH, VOCABULARY = 16, 32, 4, 8, 4, 32


# --- perceptrons


def _mlp(x: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> jax.Array:
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


def _mlp_args(x: P, dtype: Any = jnp.float32) -> tuple[Arg, ...]:
    return (
        Arg((8, WIDTH), x, dtype),
        Arg((WIDTH, HIDDEN), P(None, "core"), dtype, scale=0.3),
        Arg((HIDDEN,), P("core"), dtype, scale=0.1),
        Arg((HIDDEN, WIDTH), P("core", None), dtype, scale=0.2),
        Arg((WIDTH,), P(), dtype, scale=0.1),
    )


def mlp_tp(cores: int) -> Program:
    """Tensor parallel: the hidden layer is split, one all-reduce."""
    return Program(_mlp, _mlp_args(P()), line(cores), out=P())


def mlp_tp_bf16(cores: int) -> Program:
    """The same in bf16."""
    return Program(_mlp, _mlp_args(P(), jnp.bfloat16), line(cores), out=P())


def mlp_sp_tp(cores: int) -> Program:
    """Sequence parallel outside, tensor parallel inside: all-gather in, reduce-scatter out."""
    return Program(_mlp, _mlp_args(P("core", None)), line(cores), out=P("core", None))


# --- decoder


def _norm(x: jax.Array, gain: jax.Array, bias: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def _attention(p: Tree, x: jax.Array) -> jax.Array:
    batch, length, width = x.shape
    qkv = jnp.einsum("btd,dcf->cbtf", x, p["wqkv"]) + p["bqkv"][:, None, None, :]
    q, k, v = qkv.reshape(3, batch, length, HEADS, width // HEADS)
    score = jnp.einsum("bqhf,bkhf->bhqk", q, k) / (width // HEADS) ** 0.5
    past = jnp.arange(length)[:, None] >= jnp.arange(length)
    weight = jax.nn.softmax(jnp.where(past, score, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bkhf->bqhf", weight, v).reshape(batch, length, width)
    result: jax.Array = mixed @ p["wo"] + p["bo"]
    return result


def _block(p: Tree, x: jax.Array) -> jax.Array:
    x = x + _attention(p, _norm(x, p["g1"], p["c1"]))
    return x + _mlp(_norm(x, p["g2"], p["c2"]), p["w1"], p["b1"], p["w2"], p["b2"])


def _block_args(tensor: str | None, data: str | None) -> Tree:
    """The parameters of a block, split over `tensor` (heads, hidden units) or over `data` (whatever comes first)."""
    return {
        "g1": Arg((WIDTH,), P(data), scale=0.1, mean=1.0),
        "c1": Arg((WIDTH,), P(data), scale=0.1),
        "wqkv": Arg((WIDTH, 3, WIDTH), P(data, None, tensor), scale=0.3),
        "bqkv": Arg((3, WIDTH), P(None, tensor or data), scale=0.1),
        "wo": Arg((WIDTH, WIDTH), P(tensor or data, None), scale=0.3),
        "bo": Arg((WIDTH,), P(data), scale=0.1),
        "g2": Arg((WIDTH,), P(data), scale=0.1, mean=1.0),
        "c2": Arg((WIDTH,), P(data), scale=0.1),
        "w1": Arg((WIDTH, HIDDEN), P(data, tensor), scale=0.3),
        "b1": Arg((HIDDEN,), P(tensor or data), scale=0.1),
        "w2": Arg((HIDDEN, WIDTH), P(tensor or data, None), scale=0.2),
        "b2": Arg((WIDTH,), P(data), scale=0.1),
    }


def _is_arg(node: Any) -> bool:
    return isinstance(node, Arg)


def _spec_tree(args: Any) -> Any:
    return jax.tree.map(lambda arg: arg.spec, args, is_leaf=_is_arg)


def _data_and_tensor(cores: int) -> dict[str, int]:
    return {"data": 1 if cores == 2 else 2, "tensor": 2 if cores == 2 else cores // 2}


def _tokens() -> Arg:
    return Arg((BATCH, LENGTH, WIDTH), P("data"))


def _train(params: Tree, x: jax.Array, target: jax.Array) -> tuple[Tree, jax.Array]:
    def loss(params: Tree) -> jax.Array:
        return ((_block(params, x) - target) ** 2).mean()

    error, slope = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda value, change: value - 0.1 * change, params, slope), error


def decoder_fwd(cores: int) -> Program:
    """One decoder block, heads and hidden units split, the batch split over the rest."""
    args = (_block_args("tensor", None), _tokens())
    return Program(_block, args, cube(**_data_and_tensor(cores)), out=P("data"))


def decoder_train(cores: int) -> Program:
    """A step of gradient descent for it; parameters are donated, so they are updated in place."""
    params = _block_args("tensor", None)
    args = (params, _tokens(), _tokens())
    return Program(_train, args, cube(**_data_and_tensor(cores)), (_spec_tree(params), P()), donate=(0,))


def decoder_train_fsdp(cores: int) -> Program:
    """The same step with every parameter split over the cores, and gathered before it is used."""
    params = _block_args(None, "data")
    args = (params, _tokens(), _tokens())
    return Program(_train, args, line(cores, "data"), (_spec_tree(params), P()), donate=(0,))


def gpt_fwd(cores: int) -> Program:
    """Two blocks between an embedding and its transpose, both split by vocabulary."""

    def forward(params: Tree, tokens: jax.Array) -> Any:
        x = params["embedding"][tokens] + params["place"]
        for layer in params["layers"]:
            x = _block(layer, x)
        return _norm(x, params["gain"], params["bias"]) @ params["embedding"].T

    params = {
        "embedding": Arg((VOCABULARY, WIDTH), P("tensor", None)),
        "place": Arg((LENGTH, WIDTH)),
        "layers": [_block_args("tensor", None) for _ in range(2)],
        "gain": Arg((WIDTH,), mean=1.0, scale=0.1),
        "bias": Arg((WIDTH,), scale=0.1),
    }
    tokens = Arg((BATCH, LENGTH), P("data"), jnp.int32, high=VOCABULARY)
    out = P("data", None, "tensor")
    return Program(forward, (params, tokens), cube(**_data_and_tensor(cores)), out)


# --- mixture of experts, split by the partitioner

EXPERTS, PLACES = 4, 8


def moe_gspmd(cores: int) -> Program:
    """Top-2 routing with capacity and its gradient: tokens are split by group, experts by number."""
    mesh = line(cores)

    def split(x: jax.Array, *spec: str | None) -> Any:
        return lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, P(*spec)))

    def loss(params: Tree, x: jax.Array) -> jax.Array:
        gate = jax.nn.softmax(jnp.einsum("gtd,de->gte", x, params["router"]))
        weight, expert = lax.top_k(gate, 2)
        chosen = jax.nn.one_hot(expert, EXPERTS)
        place = jnp.cumsum(chosen.sum(2), axis=1)[:, :, None, :] * chosen - chosen
        kept = chosen * (place < PLACES)
        seat = jax.nn.one_hot((place * kept).sum(-1).astype(jnp.int32), PLACES)
        combine = jnp.einsum("gtk,gtke,gtkc->gtec", weight, kept, seat)
        sent = split(jnp.einsum("gtec,gtd->egcd", (combine > 0).astype(x.dtype), x), "core")
        hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, params["up"]))
        back = split(jnp.einsum("egcf,efd->egcd", hidden, params["down"]), None, "core")
        return (jnp.einsum("gtec,egcd->gtd", combine, back) ** 2).mean()

    params = {
        "router": Arg((WIDTH, EXPERTS), scale=0.5),
        "up": Arg((EXPERTS, WIDTH, HIDDEN), P("core"), scale=0.3),
        "down": Arg((EXPERTS, HIDDEN, WIDTH), P("core"), scale=0.3),
    }
    x = Arg((4, LENGTH, WIDTH), P("core"))
    return Program(jax.value_and_grad(loss), (params, x), mesh, (P(), _spec_tree(params)))


EXAMPLES = (
    Example("mlp_tp", (2, 4, 8), mlp_tp),
    Example("mlp_tp_bf16", (2,), mlp_tp_bf16),
    Example("mlp_sp_tp", (2, 4), mlp_sp_tp),
    Example("decoder_fwd", (2,), decoder_fwd),
    Example("decoder_train", (2, 4), decoder_train),
    Example("decoder_train_fsdp", (4,), decoder_train_fsdp),
    Example("gpt_fwd", (4,), gpt_fwd),
    Example("moe_gspmd", (4,), moe_gspmd),
)
