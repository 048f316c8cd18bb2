"""What kernels of nki-library compute: their arguments as arrays, and what NumPy gives for them.

A kernel runs from a checkout, as in `nki_cases.py`. A formula here says what it is documented to compute, in float64.
Where the library has a reference of its own for it, in torch, `torch` names it. Tolerances are those of the library's
tests, relative to the largest expected magnitude.

    HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_numbers.py      # a table of all
"""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tools.nki_cases import PACKAGE, TWELVE, library
from tools.nki_more_cases import MORE

from haulout.frontends.nki import Trace
from haulout.nki.kernel_simulation import SimulatedKernel, simulate_trace
from haulout.support.diagnostics import HauloutError

Array = npt.NDArray[Any]
Arrays = dict[str, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
_BY_NAME = {case.name: case for case in (*TWELVE, *MORE)}


@dataclass(frozen=True)
class Numbers:
    """A case with arrays, and what it gives."""

    name: str
    """Of a case of `nki_cases` or `nki_more_cases`."""
    make: Callable[[np.random.Generator], Arrays]
    """Its tensors; other arguments are those of the case."""
    formula: Callable[[Arrays], Sequence[Array]]
    """The results that are compared, in order."""
    tolerance: float = 2e-2
    part: Callable[[Array], Array] | None = None
    """The part of each result that is compared; None: all of it."""
    more: Arrays = field(default_factory=dict)
    """Arguments that replace those of the case."""
    torch: str = ""
    """MODULE:FUNCTION of the library's own reference."""
    torch_arguments: Callable[[Arrays], Arrays] | None = None
    label: str = ""
    """Name of a variant."""
    defect: str = ""
    """Why the published kernel does not compute it."""

    @property
    def title(self) -> str:
        """What tests and tables call it."""
        return self.label or self.name

    def given(self) -> Arrays:
        """All arguments."""
        arrays = self.make(np.random.default_rng(0))
        return {**_BY_NAME[self.name].arguments, **self.more, **arrays}

    def trace(self, given: Arrays) -> Trace:
        """The trace of the kernel."""
        return replace(_BY_NAME[self.name], arguments=given).trace()

    def simulate(self, given: Arrays, schedule: str = "list") -> SimulatedKernel:
        """Trace and run the kernel."""
        return simulate_trace(self.trace(given), schedule=schedule)

    def compared(self, found: SimulatedKernel) -> list[Array]:
        """The results that are compared."""
        return [each if self.part is None else self.part(each) for each in found.returned]

    def reference(self, given: Arrays) -> list[Array]:
        """What the library's own reference gives; needs torch."""
        with library():
            module, _, name = self.torch.partition(":")
            function = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
            arguments = {key: as_torch(value) for key, value in given.items()}
            if self.torch_arguments is not None:
                arguments = self.torch_arguments(arguments)
            parameters = inspect.signature(function).parameters
            found = function(**{key: value for key, value in arguments.items() if key in parameters})
        values = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else [found]
        return [value.detach().float().numpy() for value in values]


def as_torch(value: Any) -> Any:
    """An array as a tensor of torch, in float32 where it is a float; anything else as it is."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == BF16:
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16).float()
    return torch.from_numpy(value.astype(np.int64) if value.dtype.kind == "u" else value.copy())


def difference(got: Array, want: Array) -> float:
    """The largest difference, relative to the largest finite magnitude; infinite where shapes or NaN differ."""
    if got.size != want.size:
        return float("inf")
    one, two = got.astype(np.float64).ravel(), np.asarray(want).astype(np.float64).ravel()
    finite = np.isfinite(two)
    if not np.array_equal(np.isfinite(one), finite):
        return float("inf")
    most = np.abs(two[finite]).max(initial=0.0)
    off = np.abs(one[finite] - two[finite]).max(initial=0.0)
    return float(off / most) if most else float(off)


def _enum(kind: str, member: str) -> Any:
    """A member of an enumeration of the library."""
    return getattr(getattr(importlib.import_module(f"{PACKAGE}.core.utils.common_types"), kind), member)


# -- formulas --------------------------------------------------------------------------------------------------------


def _f(array: Array) -> Array:
    return array.astype(np.float64)


def _normal(random: np.random.Generator, *shape: int, scale: float = 1.0, dtype: Any = BF16) -> Array:
    return (random.standard_normal(shape) * scale).astype(dtype)


def _sigmoid(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-z)))


def _silu(z: Array) -> Array:
    return z * _sigmoid(z)


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _rms(x: Array, gamma: Array) -> Array:
    return np.asarray(x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6) * gamma)


def _halves(x: Array) -> Array:
    """[tokens, hidden] as [128, tokens, hidden / 128], each half of hidden split over the partitions."""
    tokens, hidden = x.shape
    parts = [half.reshape(tokens, 128, hidden // 256).transpose(1, 0, 2) for half in np.split(x, 2, axis=1)]
    return np.concatenate(parts, axis=2)


def _masked(g: Arrays) -> list[Array]:
    first = int(g["rank_id"][0, 0]) * g["E_L"]
    return [_f(g["expert_affinities"])[:, first : first + g["E_L"]]]


def _flattened(g: Arrays) -> list[Array]:
    source, width = g["input_tensor"], g["f_len"]
    blocks = np.full((g["output_len"] // width, width), -1, np.int64)
    for row, first in zip(source.reshape(len(source), -1, width), g["row_offsets"], strict=True):
        for at, block in enumerate(row):
            if 0 <= first + at < len(blocks):
                blocks[first + at] = block
    return [blocks.ravel()]


def _lse(z: Array) -> Array:
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))


def _cross_entropy(g: Arrays) -> list[Array]:
    z = _f(g["logits_hbm"])
    lse = _lse(z)
    return [lse - z[np.arange(len(z)), g["targets_hbm"]], lse]


def _cross_entropy_arrays(random: np.random.Generator) -> Arrays:
    return {
        "logits_hbm": _normal(random, 256, 2048, scale=2),
        "targets_hbm": random.integers(0, 2048, 256).astype(np.int32),
    }


def _cross_entropy_backward_arrays(random: np.random.Generator) -> Arrays:
    found = _cross_entropy_arrays(random)
    return found | {"lse_state_hbm": _lse(_f(found["logits_hbm"])).astype(np.float32)}


def _cross_entropy_backward(g: Arrays) -> list[Array]:
    z = _f(g["logits_hbm"])
    grad = _softmax(z)
    grad[np.arange(len(z)), g["targets_hbm"]] -= 1
    return [grad / len(z)]


def _router(g: Arrays) -> list[Array]:
    z = _f(g["x"]) @ _f(g["w"])
    return [z, np.argsort(-z, axis=1)[:, : g["k"]], _softmax(z)]


def _mlp(x: Array, gate: Array, up: Array, down: Array) -> Array:
    return np.asarray((_silu(x @ gate) * (x @ up)) @ down)


def _mlp_tkg(g: Arrays) -> list[Array]:
    added = _f(g["hidden_tensor"]) + _f(g["fused_add_tensor"])
    x = _rms(added, _f(g["normalization_weights_tensor"]))
    weights = [_f(g[f"{name}_proj_weights_tensor"]) for name in ("gate", "up", "down")]
    return [_mlp(x, *weights), added]


def _mlp_cte(g: Arrays) -> list[Array]:
    weights = [_f(g[f"{name}_proj_weights_tensor"]) for name in ("gate", "up", "down")]
    return [_mlp(_f(g["hidden_tensor"]), *weights)]


def _mlp_arrays(shape: tuple[int, ...], inner: int, more: dict[str, tuple[int, ...]]) -> Any:
    def make(random: np.random.Generator) -> Arrays:
        hidden = shape[-1]
        return {
            "hidden_tensor": _normal(random, *shape),
            "gate_proj_weights_tensor": _normal(random, hidden, inner, scale=hidden**-0.5),
            "up_proj_weights_tensor": _normal(random, hidden, inner, scale=hidden**-0.5),
            "down_proj_weights_tensor": _normal(random, inner, hidden, scale=inner**-0.5),
            **{name: _normal(random, *size) for name, size in more.items()},
        }

    return make


def _experts(tokens: int, hidden: int, inner: int, experts: int, block: int, blocks: int, rows: int) -> Any:
    """Blocks of tokens of one expert each; the last row of the tokens pads them."""

    def make(random: np.random.Generator) -> Arrays:
        ids = np.full((blocks, block), tokens, np.int32)
        for at in range(blocks):
            # Each expert has two blocks, which share no token.
            order = np.random.default_rng(at * experts // blocks).permutation(tokens)
            part = at % (blocks // experts)
            ids[at, : block - 8] = order[part * block : part * block + block - 8]
        states = _normal(random, rows, hidden)
        states[tokens:] = 0
        return {
            "hidden_states": states,
            "expert_affinities_masked": np.abs(_normal(random, (tokens + 1) * experts, 1, scale=0.5)).astype(BF16),
            "gate_up_proj_weight": _normal(random, experts, hidden, 2, inner, scale=hidden**-0.5),
            "down_proj_weight": _normal(random, experts, inner, hidden, scale=inner**-0.5),
            "token_position_to_id": ids.ravel(),
            "block_to_expert": (np.arange(blocks) * experts // blocks).astype(np.int32)[:, None],
        }

    return make


def _blocks(g: Arrays, executed: int | None = None, *, before: bool = False) -> Array:
    """The sum over blocks; `before`: affinities scale the tokens, not the results."""
    experts, tokens = (
        len(g["gate_up_proj_weight"]),
        len(g["expert_affinities_masked"]) // len(g["gate_up_proj_weight"]),
    )
    states = np.zeros((tokens, g["hidden_states"].shape[1]))
    states[: len(g["hidden_states"])] = _f(g["hidden_states"])
    affinities = _f(g["expert_affinities_masked"]).reshape(-1, experts)
    out = np.zeros_like(states)
    blocks = g["token_position_to_id"].reshape(len(g["block_to_expert"]), -1)
    for ids, expert in list(zip(blocks, g["block_to_expert"].ravel(), strict=True))[:executed]:
        gate_up = _f(g["gate_up_proj_weight"][expert])
        scale = affinities[ids, expert][:, None]
        tokens = states[ids] * scale if before else states[ids]
        found = _mlp(tokens, gate_up[:, 0], gate_up[:, 1], _f(g["down_proj_weight"][expert]))
        np.add.at(out, ids, found if before else found * scale)
    return out


def _moe(g: Arrays) -> list[Array]:
    return [_blocks(g)]


def _rope(g: Arrays) -> list[Array]:
    x, cos, sin = _f(g["x_in"]), _f(g["cos"])[:, :, None], _f(g["sin"])[:, :, None]
    low, high = np.split(x, 2)
    return [np.concatenate([low * cos - high * sin, low * sin + high * cos])]


def _rope_hf(g: Arrays) -> list[Array]:
    def turned(x: Array) -> Array:
        low, high = np.split(x, 2, axis=-1)
        return np.asarray(x * _f(g["cos"]) + np.concatenate([-high, low], axis=-1) * _f(g["sin"]))

    return [turned(_f(g["q"])), turned(_f(g["k"]))]


def _nonzero(g: Arrays) -> list[Array]:
    x = g["input_tensor"]
    places = np.full((x.shape[1], x.shape[0]), -1)
    counts = np.zeros(x.shape[1])
    for column in range(x.shape[1]):
        found = np.flatnonzero(x[:, column])
        places[column, : len(found)], counts[column] = found, len(found)
    return [places, counts]


def _counted(g: Arrays) -> list[Array]:
    found = np.flatnonzero(g["input_tensor"][0])
    count = g["input_tensor"].size
    return [np.array([[*found, *[-1] * (count - len(found)), len(found)]])]


def _layer_norm(g: Arrays) -> list[Array]:
    x = _f(g["x"]).reshape(-1, g["x"].shape[-1])
    centred = x - x.mean(axis=1, keepdims=True)
    found = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-6)
    return [_halves(found * _f(g["gamma"]) + _f(g["beta"]))]


def _rms_norm(g: Arrays) -> list[Array]:
    return [_halves(_rms(_f(g["x"]).reshape(-1, g["x"].shape[-1]), _f(g["gamma"])))]


def _attention(g: Arrays) -> list[Array]:
    scores = _f(g["q"]) @ _f(g["k"])
    scores = np.where(np.tri(scores.shape[1], scores.shape[2]) > 0, scores, -np.inf)
    return [_softmax(scores) @ _f(g["v"])]


def _attention_arrays(random: np.random.Generator) -> Arrays:
    q, k, v = ((2, 512, 128), (2, 128, 512), (2, 512, 128))
    return {
        "q": _normal(random, *q, scale=128**-0.5),
        "k": _normal(random, *k),
        "v": _normal(random, *v),
    }


def _attention_forward(g: Arrays) -> tuple[Array, Array, Array]:
    """Probabilities, output and log-sum-exp."""
    q, k, v = (_f(g[f"{name}_ref"]) for name in "qkv")
    scores = q.swapaxes(2, 3) @ k * q.shape[2] ** -0.5
    top = scores.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    p = np.exp(scores - lse)
    return p, (p @ v.swapaxes(2, 3)).swapaxes(2, 3), lse[..., 0]


def _attention_bwd_arrays(random: np.random.Generator) -> Arrays:
    shape = (1, 2, 128, 512)
    found: Arrays = {f"{name}_ref": _normal(random, *shape) for name in ("q", "k", "v", "dy")}
    _, o, lse = _attention_forward(found)
    tiles = lse.reshape(1, 2, 4, 128).swapaxes(2, 3).astype(np.float32)
    return found | {"o_ref": o.astype(BF16), "lse_ref": np.ascontiguousarray(tiles)}


def _attention_bwd(g: Arrays) -> list[Array]:
    q, k, v, dy = (_f(g[f"{name}_ref"]) for name in ("q", "k", "v", "dy"))
    p, _, _ = _attention_forward(g)
    scale = q.shape[2] ** -0.5
    dp = dy.swapaxes(2, 3) @ v
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * scale
    return [k @ ds.swapaxes(2, 3), q @ ds, dy @ p]


def _moe_tkg(g: Arrays) -> list[Array]:
    x = _f(g["hidden_input"])
    out = np.zeros_like(x)
    weights = [
        (_f(up), _f(down)) for up, down in zip(g["expert_gate_up_weights"], g["expert_down_weights"], strict=True)
    ]
    results = [_mlp(x, up[:, 0], up[:, 1], down) for up, down in weights]
    if g["is_all_expert"]:
        return [np.sum(results, axis=0)]
    for token, chosen in enumerate(g["expert_index"]):
        for expert in chosen:
            out[token] += results[expert][token]
    return [out]


def _moe_tkg_arrays(tokens: int, experts: int) -> Any:
    def make(random: np.random.Generator) -> Arrays:
        index = np.stack([random.permutation(experts)[:2] for _ in range(tokens)]).astype(np.int32)
        found = {
            "hidden_input": _normal(random, tokens, 1024),
            "expert_gate_up_weights": _normal(random, experts, 1024, 2, 256, scale=1 / 32),
            "expert_down_weights": _normal(random, experts, 256, 1024, scale=1 / 16),
            "expert_affinities": np.abs(_normal(random, tokens, 8, dtype=np.float32)),
            "expert_index": index,
        }
        return found if experts == 8 else found | {"rank_id": np.zeros((1, 1), np.uint32)}

    return make


def _moe_block(g: Arrays) -> list[Array]:
    x = _rms(_f(g["inp"]).reshape(-1, g["inp"].shape[-1]), _f(g["gamma"])).astype(BF16)
    logits = _f(x) @ _f(g["router_weights"])
    index = np.argsort(-logits, axis=1)[:, : g["top_k"]]
    inner = {"hidden_input": x, "expert_index": index, "is_all_expert": False}
    return [_moe_tkg(g | inner)[0], logits]


def _moe_block_arrays(random: np.random.Generator) -> Arrays:
    return {
        "inp": _normal(random, 4, 1, 1024),
        "gamma": _normal(random, 1, 1024),
        "router_weights": _normal(random, 1024, 8, scale=1 / 16),
        "expert_gate_up_weights": _normal(random, 8, 1024, 2, 256, scale=1 / 32),
        "expert_down_weights": _normal(random, 8, 256, 1024, scale=1 / 16),
    }


def _conv1d(g: Arrays) -> list[Array]:
    x, filters = _f(g["x_in"]), _f(g["filters"])
    count = x.shape[2] - len(filters) + 1
    return [np.stack([sum(f.T @ row[:, at : at + count] for at, f in enumerate(filters)) for row in x])]


def _depthwise(g: Arrays) -> list[Array]:
    x, filters = _f(g["img_ref"])[:, :, 0], _f(g["filter_ref"])[:, 0, 0]
    count = x.shape[2] - filters.shape[1] + 1
    return [sum(x[:, :, at : at + count] * filters[None, :, at, None] for at in range(filters.shape[1]))]  # type: ignore[list-item]


def _unquantised(found: Array) -> Array:
    """The numbers that rows of float8 stand for; the last four bytes of each are the float32 that scales it."""
    scale = np.ascontiguousarray(found[..., -4:]).view(np.float32)
    return _f(found[..., :-4]) * _f(scale)


def _backward_arrays(random: np.random.Generator) -> Arrays:
    """Checkpoints of the forward pass, and the gradient of its output."""
    found = _experts(512, 512, 512, 2, 256, 4, 513)(random)
    gate_up, down = [], []
    for ids, expert in zip(
        found["token_position_to_id"].reshape(4, 256), found["block_to_expert"].ravel(), strict=True
    ):
        both = np.einsum("bh,hpi->pib", _f(found["hidden_states"][ids]), _f(found["gate_up_proj_weight"][expert]))
        gate_up.append(both)
        down.append((_silu(both[0]) * both[1]).T @ _f(found["down_proj_weight"][expert]))
    grad = _normal(random, 513, 512)
    grad[512:] = 0
    return found | {
        "gate_up_proj_act_checkpoint_T": np.stack(gate_up).astype(BF16),
        "down_proj_act_checkpoint": np.stack(down).astype(BF16),
        "output_hidden_states_grad": grad,
    }


def _backward(g: Arrays) -> list[Array]:
    """Gradients of tokens, affinities and both weights of a sum over blocks of expert(token) * affinity."""
    states, grad = _f(g["hidden_states"]), _f(g["output_hidden_states_grad"])
    affinities = _f(g["expert_affinities_masked"]).reshape(-1, 2)
    d_states, d_affinities = np.zeros_like(states), np.zeros_like(affinities)
    d_gate_up, d_down = (np.zeros(g[f"{name}_proj_weight"].shape) for name in ("gate_up", "down"))
    blocks = zip(g["token_position_to_id"].reshape(4, 256), g["block_to_expert"].ravel(), strict=True)
    for at, (ids, expert) in enumerate(blocks):
        gate, up = _f(g["gate_up_proj_act_checkpoint_T"][at]).swapaxes(1, 2)
        gate_up, down = _f(g["gate_up_proj_weight"][expert]), _f(g["down_proj_weight"][expert])
        np.add.at(d_affinities, (ids, expert), (grad[ids] * _f(g["down_proj_act_checkpoint"][at])).sum(axis=1))
        d_out = grad[ids] * affinities[ids, expert][:, None]
        d_down[expert] += (_silu(gate) * up).T @ d_out
        d_inner, s = d_out @ down.T, _sigmoid(gate)
        both = np.stack([d_inner * up * s * (1 + gate * (1 - s)), d_inner * _silu(gate)])
        d_gate_up[expert] += np.einsum("bh,pbi->hpi", states[ids], both)
        np.add.at(d_states, ids, np.einsum("pbi,hpi->bh", both, gate_up))
    return [d_states, d_affinities, d_gate_up, d_down]


def _topk_reduced(g: Arrays) -> list[Array]:
    source = g["input"]
    index = np.ascontiguousarray(source[:, -2:]).view(np.int32)[:, 0]
    return [np.stack([_f(source)[index == token, :-2].sum(axis=0) for token in range(g["T"])])]


def _topk_reduce_arrays(random: np.random.Generator) -> Arrays:
    source = _normal(random, 256, 514)
    index = np.full(256, 64 + 100, np.int32)
    index[random.permutation(256)[:128]] = np.repeat(np.arange(64), 2)
    source[:, -2:] = index[:, None].view(BF16)
    return {"input": source}


def _angles(random: np.random.Generator, *shape: int) -> tuple[Array, Array]:
    angles = random.uniform(0, 2 * np.pi, shape)
    return np.cos(angles).astype(BF16), np.sin(angles).astype(BF16)


def _rope_arrays(random: np.random.Generator) -> Arrays:
    cos, sin = _angles(random, 64, 1, 256)
    return {"x_in": _normal(random, 128, 1, 4, 256), "cos": cos, "sin": sin}


def _rope_hf_arrays(random: np.random.Generator) -> Arrays:
    cos, sin = _angles(random, 256, 128)
    q, k = _normal(random, 1, 4, 256, 128), _normal(random, 1, 2, 256, 128)
    return {"q": q, "k": k, "q_out": np.zeros_like(q), "k_out": np.zeros_like(k), "cos": cos, "sin": sin}


_BLOCKS = _experts(512, 512, 256, 2, 256, 4, 513)

NUMBERS: tuple[Numbers, ...] = (
    Numbers(
        "mask_expert_affinities",
        lambda random: {
            "expert_affinities": _normal(random, 64, 16, dtype=np.float32),
            "expert_index": random.integers(0, 16, (64, 4)).astype(np.int32),
            "rank_id": np.array([[2]], np.uint32),
        },
        _masked,
        0.0,
        defect="core 1 reads its source from byte 128, where a row offset is meant",
    ),
    Numbers(
        "indexed_flatten",
        lambda random: {
            "input_tensor": random.integers(0, 99, (5, 2048)).astype(np.int32),
            "row_offsets": np.array([0, 128, 256, 384, 512], np.int32),
        },
        _flattened,
        0.0,
        more={"output_len": 5 * 2048 + 1024},
        torch="core.subkernels.indexed_flatten_torch:indexed_flatten_torch_ref",
    ),
    Numbers(
        "cross_entropy_forward",
        _cross_entropy_arrays,
        _cross_entropy,
        torch="experimental.loss.cross_entropy_torch:cross_entropy_forward_torch_ref",
        torch_arguments=lambda g: {"logits": g["logits_hbm"], "targets": g["targets_hbm"].long()},
    ),
    Numbers(
        "cross_entropy_backward",
        _cross_entropy_backward_arrays,
        _cross_entropy_backward,
        torch="experimental.loss.cross_entropy_torch:cross_entropy_backward_torch_ref",
        torch_arguments=lambda g: {"logits": g["logits_hbm"], "targets": g["targets_hbm"].long()},
    ),
    Numbers(
        "rmsnorm_tkg",
        lambda random: {"x": _normal(random, 64, 1, 2048), "gamma": _normal(random, 1, 2048)},
        _rms_norm,
        torch="core.subkernels.rmsnorm_torch:rmsnorm_tkg_torch_ref",
        torch_arguments=lambda g: {"input": g["x"], "gamma": g["gamma"], "output": None},
    ),
    Numbers(
        "layernorm_tkg",
        lambda random: {
            "x": _normal(random, 4, 1, 1024),
            "gamma": _normal(random, 1, 1024),
            "beta": _normal(random, 1, 1024),
        },
        _layer_norm,
        torch="core.subkernels.layernorm_torch:layernorm_tkg_torch_ref",
        torch_arguments=lambda g: {"input": g["x"], "gamma": g["gamma"], "beta": g["beta"], "output": None},
    ),
    Numbers(
        "qkv_cte",
        lambda random: {
            "input": _normal(random, 1, 256, 512),
            "fused_qkv_weights": _normal(random, 512, 384, scale=512**-0.5),
        },
        lambda g: [_f(g["input"]) @ _f(g["fused_qkv_weights"])],
    ),
    Numbers(
        "qkv_tkg",
        lambda random: {
            "input": _normal(random, 4, 1, 1024),
            "fused_qkv_weights": _normal(random, 1024, 768, scale=1 / 32),
        },
        lambda g: [_f(g["input"]) @ _f(g["fused_qkv_weights"])],
    ),
    Numbers(
        "router_topk",
        lambda random: {
            "x": _normal(random, 48, 512),
            "w": _normal(random, 512, 128, scale=512**-0.5),
            "router_logits": np.zeros((48, 128), BF16),
            "expert_affinities": np.zeros((48, 128), BF16),
            "expert_index": np.zeros((48, 4), np.int32),
        },
        _router,
        torch="core.router_topk.router_topk_torch:router_topk_torch_ref",
        torch_arguments=lambda g: {
            **g,
            "act_fn": _enum("RouterActFnType", "SOFTMAX"),
            "x_hbm_layout": 1,
            "x_sb_layout": 0,
        },
    ),
    Numbers(
        "mlp_tkg",
        _mlp_arrays((4, 1, 1024), 512, {"fused_add_tensor": (4, 1, 1024), "normalization_weights_tensor": (1, 1024)}),
        _mlp_tkg,
    ),
    Numbers("mlp_cte", _mlp_arrays((1, 512, 512), 512, {}), _mlp_cte),
    Numbers(
        "bwmm_shard_on_block",
        _experts(512, 512, 256, 2, 256, 4, 513),
        _moe,
        5e-2,
        part=lambda found: found[:, 0],  # of two planes, the one with the sum
    ),
    Numbers("bwmm_shard_on_H", _experts(512, 1024, 256, 2, 256, 4, 513), _moe, 5e-2),
    Numbers("bwmm_shard_on_I", _BLOCKS, lambda g: [_blocks(g, before=True)], 5e-2),
    Numbers(
        "bwmm_shard_on_I_hybrid",
        lambda random: {**_BLOCKS(random), "conditions": np.array([1, 1, 1, 1, 0], np.int32)},
        _moe,
        5e-2,
    ),
    Numbers(
        "bwmm_shard_on_I_hybrid",
        lambda random: {**_BLOCKS(random), "conditions": np.array([1, 1, 1, 0, 0], np.int32)},
        lambda g: [_blocks(g, 3)],
        5e-2,
        label="bwmm_shard_on_I_hybrid (3 of 4 blocks)",
    ),
    Numbers("moe_cte", _BLOCKS, _moe, 5e-2),
    Numbers(
        "cumsum",
        lambda random: {"x": _normal(random, 256, 2048, dtype=np.float32)},
        lambda g: [np.cumsum(_f(g["x"]), axis=1)],
        1e-3,
        torch="core.cumsum.cumsum_torch:cumsum_torch_ref",
    ),
    Numbers(
        "cascaded_max",
        lambda random: {"input_tensor": _normal(random, 8, 16384, dtype=np.float32)},
        lambda g: [g["input_tensor"].max(axis=1), g["input_tensor"].argmax(axis=1)],
        1e-5,
        torch="core.max.cascaded_max_torch:cascaded_max_torch_ref",
    ),
    Numbers("RoPE", _rope_arrays, _rope, 1e-2, torch="core.embeddings.rope_torch:rope_torch_ref"),
    Numbers(
        "rope_hf",
        _rope_hf_arrays,
        _rope_hf,
        1e-2,
        torch="core.embeddings.rope_hf_torch:rope_hf_torch_ref",
        torch_arguments=lambda g: {**g, "cos": g["cos"][None], "sin": g["sin"][None]},
    ),
    Numbers(
        "find_nonzero_indices",
        lambda random: {"input_tensor": (random.random((2048, 16)) < 0.3).astype(np.float32)},
        _nonzero,
        0.0,
        torch="core.subkernels.find_nonzero_indices_torch:find_nonzero_indices_torch_ref",
    ),
    Numbers(
        "find_nonzero_indices_with_count",
        lambda random: {"input_tensor": (random.random((1, 2048)) < 0.3).astype(np.int32)},
        _counted,
        0.0,
    ),
    Numbers(
        "output_projection_cte",
        lambda random: {
            "attention": _normal(random, 1, 4, 128, 512),
            "weight": _normal(random, 512, 1024, scale=512**-0.5),
        },
        lambda g: [_f(g["attention"]).reshape(1, 512, 512).swapaxes(1, 2) @ _f(g["weight"])],
        torch="core.output_projection.output_projection_cte.output_projection_cte_torch:output_projection_cte_torch_ref",
    ),
    Numbers(
        "output_projection_tkg",
        lambda random: {
            "attention": _normal(random, 128, 4, 2, 1),
            "weight": _normal(random, 256, 2048, scale=1 / 16),
        },
        lambda g: [_f(g["attention"]).transpose(1, 3, 2, 0).reshape(4, 256) @ _f(g["weight"])],
        torch="core.output_projection.output_projection_tkg_torch:output_projection_tkg_torch_ref",
    ),
    Numbers(
        "attention_cte",
        _attention_arrays,
        _attention,
        torch="core.attention.attention_cte_torch:attention_cte_torch_ref",
    ),
    Numbers(
        "attention_bwd",
        _attention_bwd_arrays,
        _attention_bwd,
        torch="core.attention.attention_bwd_torch:attention_bwd_torch_ref",
    ),
    Numbers(
        "moe_tkg (selective)",
        _moe_tkg_arrays(4, 8),
        _moe_tkg,
        torch="core.moe.moe_tkg.moe_tkg_torch:moe_tkg_torch_ref",
    ),
    Numbers(
        "moe_tkg (all experts)",
        _moe_tkg_arrays(16, 2),
        _moe_tkg,
        torch="core.moe.moe_tkg.moe_tkg_torch:moe_tkg_torch_ref",
    ),
    Numbers(
        "moe_block_tkg",
        _moe_block_arrays,
        _moe_block,
        5e-2,
        torch="core.moe_block.moe_block_tkg_torch:moe_block_tkg_torch_ref",
    ),
    Numbers(
        "conv1d",
        lambda random: {
            "x_in": _normal(random, 2, 128, 512),
            "filters": _normal(random, 3, 128, 128, scale=384**-0.5),
        },
        _conv1d,
        5e-2,
        torch="experimental.conv.conv1d_torch:conv1d_torch_ref",
    ),
    Numbers(
        "depthwise_conv1d",
        lambda random: {"img_ref": _normal(random, 2, 256, 1, 512), "filter_ref": _normal(random, 256, 1, 1, 4)},
        _depthwise,
        5e-2,
    ),
    Numbers(
        "dynamic_elementwise_add",
        lambda random: {
            "input_a": _normal(random, 512, 1024),
            "input_b": _normal(random, 512, 1024),
            "num_m_tiles": np.array([[4]], np.int32),
        },
        lambda g: [_f(g["input_a"]) + _f(g["input_b"])],
        1e-2,
        torch="experimental.dynamic_shapes.dynamic_elementwise_add_torch:dynamic_elementwise_add_torch_ref",
    ),
    Numbers(
        "rmsnorm_quant",
        lambda random: {"hidden": _normal(random, 1, 256, 512), "ln_w": _normal(random, 1, 512)},
        lambda g: [_rms(_f(g["hidden"]), _f(g["ln_w"]))],
        7.2e-2,
        part=_unquantised,
    ),
    Numbers("blockwise_mm_bwd", _backward_arrays, _backward, 5e-2),
    Numbers("topk_reduce", _topk_reduce_arrays, _topk_reduced, 5e-2),
)


def main() -> int:
    """Print a table: kernel, instructions, seconds to trace and to simulate, largest relative difference."""
    wanted = sys.argv[1:]
    right = 0
    chosen = [each for each in NUMBERS if not wanted or any(word in each.title for word in wanted)]
    for each in chosen:
        given = each.given()
        begun = time.perf_counter()
        try:
            found = each.simulate(given)
        except HauloutError as error:
            print(f"{each.title:40} stops: {error.diagnostics[0].message[:110]}")
            continue
        seconds = time.perf_counter() - begun
        pairs = list(zip(each.compared(found), each.formula(given), strict=False))
        off = [difference(got, want) for got, want in pairs]
        codes = sorted({finding.code for finding in found.diagnostics})
        is_right = bool(off) and max(off) <= each.tolerance
        right += is_right
        text = " ".join(f"{one:.1e}" for one in off)
        shapes = [list(got.shape) for got in found.returned]
        print(f"{each.title:40} {found.trace.instructions:6} {seconds:6.2f} {'equal' if is_right else 'NOT':6} {text}"
              f" {shapes if not is_right else ''} {' '.join(codes)}")  # fmt: skip
    print(f"{right} of {len(chosen)} equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
