"""What kernels of nki-library are documented to compute, in float64, and arrays for them; see `nki_numbers.py`.

A formula takes all arguments of a kernel by name and gives its results in order. A function `..._arrays` makes the
tensors among the arguments.
"""

# ruff: noqa: D103 - a function says what the kernel of its name is documented to compute

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = dict[str, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0, dtype: Any = BF16) -> Array:
    return (random.standard_normal(shape) * scale).astype(dtype)


def sigmoid(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-z)))


def silu(z: Array) -> Array:
    return z * sigmoid(z)


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def rms(x: Array, gamma: Array) -> Array:
    return np.asarray(x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6) * gamma)


def halves(x: Array) -> Array:
    """[tokens, hidden] as [128, tokens, hidden / 128], each half of hidden split over the partitions."""
    tokens, hidden = x.shape
    parts = [half.reshape(tokens, 128, hidden // 256).transpose(1, 0, 2) for half in np.split(x, 2, axis=1)]
    return np.concatenate(parts, axis=2)


def masked(g: Arrays) -> list[Array]:
    first = int(g["rank_id"][0, 0]) * g["E_L"]
    return [wide(g["expert_affinities"])[:, first : first + g["E_L"]]]


def flattened(g: Arrays) -> list[Array]:
    source, width = g["input_tensor"], g["f_len"]
    blocks = np.full((g["output_len"] // width, width), -1, np.int64)
    for row, first in zip(source.reshape(len(source), -1, width), g["row_offsets"], strict=True):
        for at, block in enumerate(row):
            if 0 <= first + at < len(blocks):
                blocks[first + at] = block
    return [blocks.ravel()]


def log_sum_exp(z: Array) -> Array:
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))


def cross_entropy(g: Arrays) -> list[Array]:
    z = wide(g["logits_hbm"])
    lse = log_sum_exp(z)
    return [lse - z[np.arange(len(z)), g["targets_hbm"]], lse]


def cross_entropy_arrays(random: np.random.Generator) -> Arrays:
    return {
        "logits_hbm": normal(random, 256, 2048, scale=2),
        "targets_hbm": random.integers(0, 2048, 256).astype(np.int32),
    }


def cross_entropy_backward_arrays(random: np.random.Generator) -> Arrays:
    found = cross_entropy_arrays(random)
    return found | {"lse_state_hbm": log_sum_exp(wide(found["logits_hbm"])).astype(np.float32)}


def cross_entropy_backward(g: Arrays) -> list[Array]:
    z = wide(g["logits_hbm"])
    grad = softmax(z)
    grad[np.arange(len(z)), g["targets_hbm"]] -= 1
    return [grad / len(z)]


def router(g: Arrays) -> list[Array]:
    z = wide(g["x"]) @ wide(g["w"])
    return [z, np.argsort(-z, axis=1)[:, : g["k"]], softmax(z)]


def mlp(x: Array, gate: Array, up: Array, down: Array) -> Array:
    return np.asarray((silu(x @ gate) * (x @ up)) @ down)


def mlp_tkg(g: Arrays) -> list[Array]:
    added = wide(g["hidden_tensor"]) + wide(g["fused_add_tensor"])
    x = rms(added, wide(g["normalization_weights_tensor"]))
    weights = [wide(g[f"{name}_proj_weights_tensor"]) for name in ("gate", "up", "down")]
    return [mlp(x, *weights), added]


def mlp_cte(g: Arrays) -> list[Array]:
    weights = [wide(g[f"{name}_proj_weights_tensor"]) for name in ("gate", "up", "down")]
    return [mlp(wide(g["hidden_tensor"]), *weights)]


def mlp_arrays(shape: tuple[int, ...], inner: int, more: dict[str, tuple[int, ...]]) -> Any:
    def make(random: np.random.Generator) -> Arrays:
        hidden = shape[-1]
        return {
            "hidden_tensor": normal(random, *shape),
            "gate_proj_weights_tensor": normal(random, hidden, inner, scale=hidden**-0.5),
            "up_proj_weights_tensor": normal(random, hidden, inner, scale=hidden**-0.5),
            "down_proj_weights_tensor": normal(random, inner, hidden, scale=inner**-0.5),
            **{name: normal(random, *size) for name, size in more.items()},
        }

    return make


def expert_arrays(tokens: int, hidden: int, inner: int, experts: int, block: int, blocks: int, rows: int) -> Any:
    """Blocks of tokens of one expert each; the last row of the tokens pads them."""

    def make(random: np.random.Generator) -> Arrays:
        ids = np.full((blocks, block), tokens, np.int32)
        for at in range(blocks):
            # Each expert has two blocks, which share no token.
            order = np.random.default_rng(at * experts // blocks).permutation(tokens)
            part = at % (blocks // experts)
            ids[at, : block - 8] = order[part * block : part * block + block - 8]
        states = normal(random, rows, hidden)
        states[tokens:] = 0
        return {
            "hidden_states": states,
            "expert_affinities_masked": np.abs(normal(random, (tokens + 1) * experts, 1, scale=0.5)).astype(BF16),
            "gate_up_proj_weight": normal(random, experts, hidden, 2, inner, scale=hidden**-0.5),
            "down_proj_weight": normal(random, experts, inner, hidden, scale=inner**-0.5),
            "token_position_to_id": ids.ravel(),
            "block_to_expert": (np.arange(blocks) * experts // blocks).astype(np.int32)[:, None],
        }

    return make


def summed_blocks(g: Arrays, executed: int | None = None, *, before: bool = False) -> Array:
    """The sum over blocks; `before`: affinities scale the tokens, not the results."""
    experts, tokens = (
        len(g["gate_up_proj_weight"]),
        len(g["expert_affinities_masked"]) // len(g["gate_up_proj_weight"]),
    )
    states = np.zeros((tokens, g["hidden_states"].shape[1]))
    states[: len(g["hidden_states"])] = wide(g["hidden_states"])
    affinities = wide(g["expert_affinities_masked"]).reshape(-1, experts)
    out = np.zeros_like(states)
    blocks = g["token_position_to_id"].reshape(len(g["block_to_expert"]), -1)
    for ids, expert in list(zip(blocks, g["block_to_expert"].ravel(), strict=True))[:executed]:
        gate_up = wide(g["gate_up_proj_weight"][expert])
        scale = affinities[ids, expert][:, None]
        tokens = states[ids] * scale if before else states[ids]
        found = mlp(tokens, gate_up[:, 0], gate_up[:, 1], wide(g["down_proj_weight"][expert]))
        np.add.at(out, ids, found if before else found * scale)
    return out


def moe(g: Arrays) -> list[Array]:
    return [summed_blocks(g)]


def rope(g: Arrays) -> list[Array]:
    x, cos, sin = wide(g["x_in"]), wide(g["cos"])[:, :, None], wide(g["sin"])[:, :, None]
    low, high = np.split(x, 2)
    return [np.concatenate([low * cos - high * sin, low * sin + high * cos])]


def rope_hf(g: Arrays) -> list[Array]:
    def turned(x: Array) -> Array:
        low, high = np.split(x, 2, axis=-1)
        return np.asarray(x * wide(g["cos"]) + np.concatenate([-high, low], axis=-1) * wide(g["sin"]))

    return [turned(wide(g["q"])), turned(wide(g["k"]))]


def nonzero(g: Arrays) -> list[Array]:
    x = g["input_tensor"]
    places = np.full((x.shape[1], x.shape[0]), -1)
    counts = np.zeros(x.shape[1])
    for column in range(x.shape[1]):
        found = np.flatnonzero(x[:, column])
        places[column, : len(found)], counts[column] = found, len(found)
    return [places, counts]


def counted(g: Arrays) -> list[Array]:
    found = np.flatnonzero(g["input_tensor"][0])
    count = g["input_tensor"].size
    return [np.array([[*found, *[-1] * (count - len(found)), len(found)]])]


def layer_norm(g: Arrays) -> list[Array]:
    x = wide(g["x"]).reshape(-1, g["x"].shape[-1])
    centred = x - x.mean(axis=1, keepdims=True)
    found = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-6)
    return [halves(found * wide(g["gamma"]) + wide(g["beta"]))]


def rms_norm(g: Arrays) -> list[Array]:
    return [halves(rms(wide(g["x"]).reshape(-1, g["x"].shape[-1]), wide(g["gamma"])))]


def attention(g: Arrays) -> list[Array]:
    scores = wide(g["q"]) @ wide(g["k"])
    scores = np.where(np.tri(scores.shape[1], scores.shape[2]) > 0, scores, -np.inf)
    return [softmax(scores) @ wide(g["v"])]


def attention_arrays(random: np.random.Generator) -> Arrays:
    q, k, v = ((2, 512, 128), (2, 128, 512), (2, 512, 128))
    return {
        "q": normal(random, *q, scale=128**-0.5),
        "k": normal(random, *k),
        "v": normal(random, *v),
    }


def attention_forward(g: Arrays) -> tuple[Array, Array, Array]:
    """Probabilities, output and log-sum-exp."""
    q, k, v = (wide(g[f"{name}_ref"]) for name in "qkv")
    scores = q.swapaxes(2, 3) @ k * q.shape[2] ** -0.5
    top = scores.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    p = np.exp(scores - lse)
    return p, (p @ v.swapaxes(2, 3)).swapaxes(2, 3), lse[..., 0]


def attention_bwd_arrays(random: np.random.Generator) -> Arrays:
    shape = (1, 2, 128, 512)
    found: Arrays = {f"{name}_ref": normal(random, *shape) for name in ("q", "k", "v", "dy")}
    _, o, lse = attention_forward(found)
    tiles = lse.reshape(1, 2, 4, 128).swapaxes(2, 3).astype(np.float32)
    return found | {"o_ref": o.astype(BF16), "lse_ref": np.ascontiguousarray(tiles)}


def attention_bwd(g: Arrays) -> list[Array]:
    q, k, v, dy = (wide(g[f"{name}_ref"]) for name in ("q", "k", "v", "dy"))
    p, _, _ = attention_forward(g)
    scale = q.shape[2] ** -0.5
    dp = dy.swapaxes(2, 3) @ v
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * scale
    return [k @ ds.swapaxes(2, 3), q @ ds, dy @ p]


def moe_tkg(g: Arrays) -> list[Array]:
    x = wide(g["hidden_input"])
    out = np.zeros_like(x)
    weights = [
        (wide(up), wide(down)) for up, down in zip(g["expert_gate_up_weights"], g["expert_down_weights"], strict=True)
    ]
    results = [mlp(x, up[:, 0], up[:, 1], down) for up, down in weights]
    if g["is_all_expert"]:
        return [np.sum(results, axis=0)]
    for token, chosen in enumerate(g["expert_index"]):
        for expert in chosen:
            out[token] += results[expert][token]
    return [out]


def moe_tkg_arrays(tokens: int, experts: int) -> Any:
    def make(random: np.random.Generator) -> Arrays:
        index = np.stack([random.permutation(experts)[:2] for _ in range(tokens)]).astype(np.int32)
        found = {
            "hidden_input": normal(random, tokens, 1024),
            "expert_gate_up_weights": normal(random, experts, 1024, 2, 256, scale=1 / 32),
            "expert_down_weights": normal(random, experts, 256, 1024, scale=1 / 16),
            "expert_affinities": np.abs(normal(random, tokens, 8, dtype=np.float32)),
            "expert_index": index,
        }
        return found if experts == 8 else found | {"rank_id": np.zeros((1, 1), np.uint32)}

    return make


def moe_block(g: Arrays) -> list[Array]:
    x = rms(wide(g["inp"]).reshape(-1, g["inp"].shape[-1]), wide(g["gamma"])).astype(BF16)
    logits = wide(x) @ wide(g["router_weights"])
    index = np.argsort(-logits, axis=1)[:, : g["top_k"]]
    inner = {"hidden_input": x, "expert_index": index, "is_all_expert": False}
    return [moe_tkg(g | inner)[0], logits]


def moe_block_arrays(random: np.random.Generator) -> Arrays:
    return {
        "inp": normal(random, 4, 1, 1024),
        "gamma": normal(random, 1, 1024),
        "router_weights": normal(random, 1024, 8, scale=1 / 16),
        "expert_gate_up_weights": normal(random, 8, 1024, 2, 256, scale=1 / 32),
        "expert_down_weights": normal(random, 8, 256, 1024, scale=1 / 16),
    }


def conv1d(g: Arrays) -> list[Array]:
    x, filters = wide(g["x_in"]), wide(g["filters"])
    count = x.shape[2] - len(filters) + 1
    return [np.stack([sum(f.T @ row[:, at : at + count] for at, f in enumerate(filters)) for row in x])]


def depthwise(g: Arrays) -> list[Array]:
    x, filters = wide(g["img_ref"])[:, :, 0], wide(g["filter_ref"])[:, 0, 0]
    count = x.shape[2] - filters.shape[1] + 1
    return [sum(x[:, :, at : at + count] * filters[None, :, at, None] for at in range(filters.shape[1]))]  # type: ignore[list-item]


def unquantised(found: Array) -> Array:
    """The numbers that rows of float8 stand for; the last four bytes of each are the float32 that scales it."""
    scale = np.ascontiguousarray(found[..., -4:]).view(np.float32)
    return wide(found[..., :-4]) * wide(scale)


def backward_arrays(random: np.random.Generator) -> Arrays:
    """Checkpoints of the forward pass, and the gradient of its output."""
    found = expert_arrays(512, 512, 512, 2, 256, 4, 513)(random)
    gate_up, down = [], []
    for ids, expert in zip(
        found["token_position_to_id"].reshape(4, 256), found["block_to_expert"].ravel(), strict=True
    ):
        both = np.einsum("bh,hpi->pib", wide(found["hidden_states"][ids]), wide(found["gate_up_proj_weight"][expert]))
        gate_up.append(both)
        down.append((silu(both[0]) * both[1]).T @ wide(found["down_proj_weight"][expert]))
    grad = normal(random, 513, 512)
    grad[512:] = 0
    return found | {
        "gate_up_proj_act_checkpoint_T": np.stack(gate_up).astype(BF16),
        "down_proj_act_checkpoint": np.stack(down).astype(BF16),
        "output_hidden_states_grad": grad,
    }


def backward(g: Arrays) -> list[Array]:
    """Gradients of tokens, affinities and both weights of a sum over blocks of expert(token) * affinity."""
    states, grad = wide(g["hidden_states"]), wide(g["output_hidden_states_grad"])
    affinities = wide(g["expert_affinities_masked"]).reshape(-1, 2)
    d_states, d_affinities = np.zeros_like(states), np.zeros_like(affinities)
    d_gate_up, d_down = (np.zeros(g[f"{name}_proj_weight"].shape) for name in ("gate_up", "down"))
    blocks = zip(g["token_position_to_id"].reshape(4, 256), g["block_to_expert"].ravel(), strict=True)
    for at, (ids, expert) in enumerate(blocks):
        gate, up = wide(g["gate_up_proj_act_checkpoint_T"][at]).swapaxes(1, 2)
        gate_up, down = wide(g["gate_up_proj_weight"][expert]), wide(g["down_proj_weight"][expert])
        np.add.at(d_affinities, (ids, expert), (grad[ids] * wide(g["down_proj_act_checkpoint"][at])).sum(axis=1))
        d_out = grad[ids] * affinities[ids, expert][:, None]
        d_down[expert] += (silu(gate) * up).T @ d_out
        d_inner, s = d_out @ down.T, sigmoid(gate)
        both = np.stack([d_inner * up * s * (1 + gate * (1 - s)), d_inner * silu(gate)])
        d_gate_up[expert] += np.einsum("bh,pbi->hpi", states[ids], both)
        np.add.at(d_states, ids, np.einsum("pbi,hpi->bh", both, gate_up))
    return [d_states, d_affinities, d_gate_up, d_down]


def topk_reduced(g: Arrays) -> list[Array]:
    source = g["input"]
    index = np.ascontiguousarray(source[:, -2:]).view(np.int32)[:, 0]
    return [np.stack([wide(source)[index == token, :-2].sum(axis=0) for token in range(g["T"])])]


def topk_reduce_arrays(random: np.random.Generator) -> Arrays:
    source = normal(random, 256, 514)
    index = np.full(256, 64 + 100, np.int32)
    index[random.permutation(256)[:128]] = np.repeat(np.arange(64), 2)
    source[:, -2:] = index[:, None].view(BF16)
    return {"input": source}


def cos_and_sin(random: np.random.Generator, *shape: int) -> tuple[Array, Array]:
    angles = random.uniform(0, 2 * np.pi, shape)
    return np.cos(angles).astype(BF16), np.sin(angles).astype(BF16)


def rope_arrays(random: np.random.Generator) -> Arrays:
    cos, sin = cos_and_sin(random, 64, 1, 256)
    return {"x_in": normal(random, 128, 1, 4, 256), "cos": cos, "sin": sin}


def rope_hf_arrays(random: np.random.Generator) -> Arrays:
    cos, sin = cos_and_sin(random, 256, 128)
    q, k = normal(random, 1, 4, 256, 128), normal(random, 1, 2, 256, 128)
    return {"q": q, "k": k, "q_out": np.zeros_like(q), "k_out": np.zeros_like(k), "cos": cos, "sin": sin}
