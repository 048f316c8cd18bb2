"""What kernels of nki-library compute: their arguments as arrays, and what NumPy gives for them.

A kernel runs from a checkout, as in `nki_cases.py`. A formula of `nki_formulas.py` says what it is
documented to compute. Where the library has a reference of its own for it, in torch, `torch` names it. Tolerances are
those of the library's tests, relative to the largest expected magnitude.

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

import numpy as np
from tools import nki_formulas as formulas
from tools.nki_cases import PACKAGE, TWELVE, library
from tools.nki_formulas import BF16, Array, Arrays
from tools.nki_more_cases import MORE

from haulout.frontends.nki import Trace
from haulout.nki.kernel_simulation import SimulatedKernel, simulate_trace
from haulout.support.diagnostics import HauloutError

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


_BLOCKS = formulas.expert_arrays(512, 512, 256, 2, 256, 4, 513)

NUMBERS: tuple[Numbers, ...] = (
    Numbers(
        "mask_expert_affinities",
        lambda random: {
            "expert_affinities": formulas.normal(random, 64, 16, dtype=np.float32),
            "expert_index": random.integers(0, 16, (64, 4)).astype(np.int32),
            "rank_id": np.array([[2]], np.uint32),
        },
        formulas.masked,
        0.0,
        defect="core 1 reads its source from byte 128, where a row offset is meant",
    ),
    Numbers(
        "indexed_flatten",
        lambda random: {
            "input_tensor": random.integers(0, 99, (5, 2048)).astype(np.int32),
            "row_offsets": np.array([0, 128, 256, 384, 512], np.int32),
        },
        formulas.flattened,
        0.0,
        more={"output_len": 5 * 2048 + 1024},
        torch="core.subkernels.indexed_flatten_torch:indexed_flatten_torch_ref",
    ),
    Numbers(
        "cross_entropy_forward",
        formulas.cross_entropy_arrays,
        formulas.cross_entropy,
        torch="experimental.loss.cross_entropy_torch:cross_entropy_forward_torch_ref",
        torch_arguments=lambda g: {"logits": g["logits_hbm"], "targets": g["targets_hbm"].long()},
    ),
    Numbers(
        "cross_entropy_backward",
        formulas.cross_entropy_backward_arrays,
        formulas.cross_entropy_backward,
        torch="experimental.loss.cross_entropy_torch:cross_entropy_backward_torch_ref",
        torch_arguments=lambda g: {"logits": g["logits_hbm"], "targets": g["targets_hbm"].long()},
    ),
    Numbers(
        "rmsnorm_tkg",
        lambda random: {"x": formulas.normal(random, 64, 1, 2048), "gamma": formulas.normal(random, 1, 2048)},
        formulas.rms_norm,
        torch="core.subkernels.rmsnorm_torch:rmsnorm_tkg_torch_ref",
        torch_arguments=lambda g: {"input": g["x"], "gamma": g["gamma"], "output": None},
    ),
    Numbers(
        "layernorm_tkg",
        lambda random: {
            "x": formulas.normal(random, 4, 1, 1024),
            "gamma": formulas.normal(random, 1, 1024),
            "beta": formulas.normal(random, 1, 1024),
        },
        formulas.layer_norm,
        torch="core.subkernels.layernorm_torch:layernorm_tkg_torch_ref",
        torch_arguments=lambda g: {"input": g["x"], "gamma": g["gamma"], "beta": g["beta"], "output": None},
    ),
    Numbers(
        "qkv_cte",
        lambda random: {
            "input": formulas.normal(random, 1, 256, 512),
            "fused_qkv_weights": formulas.normal(random, 512, 384, scale=512**-0.5),
        },
        lambda g: [formulas.wide(g["input"]) @ formulas.wide(g["fused_qkv_weights"])],
    ),
    Numbers(
        "qkv_tkg",
        lambda random: {
            "input": formulas.normal(random, 4, 1, 1024),
            "fused_qkv_weights": formulas.normal(random, 1024, 768, scale=1 / 32),
        },
        lambda g: [formulas.wide(g["input"]) @ formulas.wide(g["fused_qkv_weights"])],
    ),
    Numbers(
        "router_topk",
        lambda random: {
            "x": formulas.normal(random, 48, 512),
            "w": formulas.normal(random, 512, 128, scale=512**-0.5),
            "router_logits": np.zeros((48, 128), BF16),
            "expert_affinities": np.zeros((48, 128), BF16),
            "expert_index": np.zeros((48, 4), np.int32),
        },
        formulas.router,
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
        formulas.mlp_arrays(
            (4, 1, 1024), 512, {"fused_add_tensor": (4, 1, 1024), "normalization_weights_tensor": (1, 1024)}
        ),
        formulas.mlp_tkg,
    ),
    Numbers("mlp_cte", formulas.mlp_arrays((1, 512, 512), 512, {}), formulas.mlp_cte),
    Numbers(
        "bwmm_shard_on_block",
        formulas.expert_arrays(512, 512, 256, 2, 256, 4, 513),
        formulas.moe,
        5e-2,
        part=lambda found: found[:, 0],  # of two planes, the one with the sum
    ),
    Numbers("bwmm_shard_on_H", formulas.expert_arrays(512, 1024, 256, 2, 256, 4, 513), formulas.moe, 5e-2),
    Numbers("bwmm_shard_on_I", _BLOCKS, lambda g: [formulas.summed_blocks(g, before=True)], 5e-2),
    Numbers(
        "bwmm_shard_on_I_hybrid",
        lambda random: {**_BLOCKS(random), "conditions": np.array([1, 1, 1, 1, 0], np.int32)},
        formulas.moe,
        5e-2,
    ),
    Numbers(
        "bwmm_shard_on_I_hybrid",
        lambda random: {**_BLOCKS(random), "conditions": np.array([1, 1, 1, 0, 0], np.int32)},
        lambda g: [formulas.summed_blocks(g, 3)],
        5e-2,
        label="bwmm_shard_on_I_hybrid (3 of 4 blocks)",
    ),
    Numbers("moe_cte", _BLOCKS, formulas.moe, 5e-2),
    Numbers(
        "cumsum",
        lambda random: {"x": formulas.normal(random, 256, 2048, dtype=np.float32)},
        lambda g: [np.cumsum(formulas.wide(g["x"]), axis=1)],
        1e-3,
        torch="core.cumsum.cumsum_torch:cumsum_torch_ref",
    ),
    Numbers(
        "cascaded_max",
        lambda random: {"input_tensor": formulas.normal(random, 8, 16384, dtype=np.float32)},
        lambda g: [g["input_tensor"].max(axis=1), g["input_tensor"].argmax(axis=1)],
        1e-5,
        torch="core.max.cascaded_max_torch:cascaded_max_torch_ref",
    ),
    Numbers("RoPE", formulas.rope_arrays, formulas.rope, 1e-2, torch="core.embeddings.rope_torch:rope_torch_ref"),
    Numbers(
        "rope_hf",
        formulas.rope_hf_arrays,
        formulas.rope_hf,
        1e-2,
        torch="core.embeddings.rope_hf_torch:rope_hf_torch_ref",
        torch_arguments=lambda g: {**g, "cos": g["cos"][None], "sin": g["sin"][None]},
    ),
    Numbers(
        "find_nonzero_indices",
        lambda random: {"input_tensor": (random.random((2048, 16)) < 0.3).astype(np.float32)},
        formulas.nonzero,
        0.0,
        torch="core.subkernels.find_nonzero_indices_torch:find_nonzero_indices_torch_ref",
    ),
    Numbers(
        "find_nonzero_indices_with_count",
        lambda random: {"input_tensor": (random.random((1, 2048)) < 0.3).astype(np.int32)},
        formulas.counted,
        0.0,
    ),
    Numbers(
        "output_projection_cte",
        lambda random: {
            "attention": formulas.normal(random, 1, 4, 128, 512),
            "weight": formulas.normal(random, 512, 1024, scale=512**-0.5),
        },
        lambda g: [formulas.wide(g["attention"]).reshape(1, 512, 512).swapaxes(1, 2) @ formulas.wide(g["weight"])],
        torch="core.output_projection.output_projection_cte.output_projection_cte_torch:output_projection_cte_torch_ref",
    ),
    Numbers(
        "output_projection_tkg",
        lambda random: {
            "attention": formulas.normal(random, 128, 4, 2, 1),
            "weight": formulas.normal(random, 256, 2048, scale=1 / 16),
        },
        lambda g: [formulas.wide(g["attention"]).transpose(1, 3, 2, 0).reshape(4, 256) @ formulas.wide(g["weight"])],
        torch="core.output_projection.output_projection_tkg_torch:output_projection_tkg_torch_ref",
    ),
    Numbers(
        "attention_cte",
        formulas.attention_arrays,
        formulas.attention,
        torch="core.attention.attention_cte_torch:attention_cte_torch_ref",
    ),
    Numbers(
        "attention_bwd",
        formulas.attention_bwd_arrays,
        formulas.attention_bwd,
        torch="core.attention.attention_bwd_torch:attention_bwd_torch_ref",
    ),
    Numbers(
        "moe_tkg (selective)",
        formulas.moe_tkg_arrays(4, 8),
        formulas.moe_tkg,
        torch="core.moe.moe_tkg.moe_tkg_torch:moe_tkg_torch_ref",
    ),
    Numbers(
        "moe_tkg (all experts)",
        formulas.moe_tkg_arrays(16, 2),
        formulas.moe_tkg,
        torch="core.moe.moe_tkg.moe_tkg_torch:moe_tkg_torch_ref",
    ),
    Numbers(
        "moe_block_tkg",
        formulas.moe_block_arrays,
        formulas.moe_block,
        5e-2,
        torch="core.moe_block.moe_block_tkg_torch:moe_block_tkg_torch_ref",
    ),
    Numbers(
        "conv1d",
        lambda random: {
            "x_in": formulas.normal(random, 2, 128, 512),
            "filters": formulas.normal(random, 3, 128, 128, scale=384**-0.5),
        },
        formulas.conv1d,
        5e-2,
        torch="experimental.conv.conv1d_torch:conv1d_torch_ref",
    ),
    Numbers(
        "depthwise_conv1d",
        lambda random: {
            "img_ref": formulas.normal(random, 2, 256, 1, 512),
            "filter_ref": formulas.normal(random, 256, 1, 1, 4),
        },
        formulas.depthwise,
        5e-2,
    ),
    Numbers(
        "dynamic_elementwise_add",
        lambda random: {
            "input_a": formulas.normal(random, 512, 1024),
            "input_b": formulas.normal(random, 512, 1024),
            "num_m_tiles": np.array([[4]], np.int32),
        },
        lambda g: [formulas.wide(g["input_a"]) + formulas.wide(g["input_b"])],
        1e-2,
        torch="experimental.dynamic_shapes.dynamic_elementwise_add_torch:dynamic_elementwise_add_torch_ref",
    ),
    Numbers(
        "rmsnorm_quant",
        lambda random: {"hidden": formulas.normal(random, 1, 256, 512), "ln_w": formulas.normal(random, 1, 512)},
        lambda g: [formulas.rms(formulas.wide(g["hidden"]), formulas.wide(g["ln_w"]))],
        7.2e-2,
        part=formulas.unquantised,
    ),
    Numbers("blockwise_mm_bwd", formulas.backward_arrays, formulas.backward, 5e-2),
    Numbers("topk_reduce", formulas.topk_reduce_arrays, formulas.topk_reduced, 5e-2),
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
