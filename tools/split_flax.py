"""GPT-2 as Hugging Face wrote it in Flax, for one device. Needs `flax` and `transformers<5` beside JAX; no weights.

Parameters are drawn like those of the other models, so nothing is loaded.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg
from split_program import Model, trained

__all__ = ["gpt2"]


def _parameter(path: Any, shape: Any) -> Arg:
    """Gains of norms about 1; rows of weights, the first dimension of which is that of the result, of unit size."""
    if path[-1].key == "scale":
        return Arg(shape.shape, mean=1.0, scale=0.1)
    return Arg(shape.shape, scale=0.1 if len(shape.shape) == 1 else shape.shape[-1] ** -0.5)


def gpt2(*, train: bool = False, large: bool = False) -> Model:
    """The forward pass with the head of a language model, or a step of training with Adam."""
    layers, width, heads, length, words = (4, 256, 8, 256, 1024) if large else (1 if train else 2, 16, 8, 8, 32)
    sizes = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": length, "vocab_size": words}
    config = import_module("transformers").GPT2Config(**sizes)
    module = import_module("transformers.models.gpt2.modeling_flax_gpt2")
    model = module.FlaxGPT2LMHeadModel(config, input_shape=(1, length), _do_init=False)
    shapes = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), (1, length)))
    params = jax.tree_util.tree_map_with_path(_parameter, shapes)
    tokens = Arg((8, length), dtype=jnp.int32, high=words)

    def forward(params: Any, tokens: jax.Array) -> jax.Array:
        logits: jax.Array = model(tokens, params=params).logits
        return logits

    if not train:
        return Model(forward, (params, tokens), (1,))

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        found = jax.nn.log_softmax(forward(params, tokens)[:, :-1])
        return -jnp.take_along_axis(found, tokens[:, 1:, None], axis=-1).mean()

    return trained(loss, params, (tokens,))
