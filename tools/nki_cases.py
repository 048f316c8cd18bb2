"""Kernels of aws-neuron/nki-library with small arguments: run from a checkout, never copied.

A case names a module below `nkilib/`, a function of it, and arguments. Where the published function wants objects
that only the library can make, a driver here makes them and calls it; the driver is what is traced. `LARGE` are runs
for speed.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from haulout.frontends.nki import TensorSpec, Trace, trace_kernel
from haulout.frontends.nki.stand_ins.install import installed
from haulout.frontends.nki.storage import Buffer

VARIABLE = "HAULOUT_NKI_LIBRARY"
"""Environment variable that names a checkout of the library."""
PACKAGE = "nkilib_src.nkilib"


def library_folder() -> Path | None:
    """The folder to import the library from, or None when no checkout is named."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    for folder in (Path(named) / "src", Path(named)):
        if (folder / "nkilib_src" / "nkilib").is_dir():
            return folder
    return None


def t(dtype: str, *shape: int, buffer: Buffer = Buffer.shared_hbm) -> TensorSpec:
    """A tensor argument."""
    return TensorSpec(dtype, shape, buffer)


def known(array: Any, dtype: str) -> TensorSpec:
    """A tensor argument whose contents are known."""
    values = np.asarray(array)
    return TensorSpec(dtype, values.shape, Buffer.shared_hbm, values)


@dataclass(frozen=True)
class Case:
    """One run of one kernel."""

    name: str
    module: str
    """Below `nkilib`, dotted."""
    function: str | Callable[..., Any]
    """Its name, or a driver that gets the module first."""
    arguments: dict[str, Any] = field(default_factory=dict)
    target: str = "gen3"
    cores: int = 2
    number: int | None = None
    """Its row among the twelve kernels with known results."""
    enums: dict[str, str] = field(default_factory=dict)
    """Arguments that are attributes of the module, dotted."""

    def trace(self, **options: Any) -> Trace:
        """Run it; `library_folder()` must not be None."""
        with library():
            module = importlib.import_module(f"{PACKAGE}.{self.module}")
            arguments = dict(self.arguments)
            for name, dotted in self.enums.items():
                found: Any = module
                for part in dotted.split("."):
                    found = getattr(found, part)
                arguments[name] = found
            if isinstance(self.function, str):
                kernel = getattr(module, self.function)
            else:
                driver = self.function

                def kernel(**given: Any) -> Any:
                    return driver(module, **given)

                kernel.__name__ = self.name
            return trace_kernel(kernel, arguments, cores=self.cores, target=self.target, **options)


@contextmanager
def library() -> Iterator[None]:
    """The library can be imported, against the stand-ins; it is forgotten afterwards."""
    folder = library_folder()
    assert folder is not None, f"{VARIABLE} names no checkout"
    with installed():
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path.remove(str(folder))


def _rmsnorm(module: Any, x: Any, gamma: Any) -> Any:
    nl = module.nl
    output = nl.ndarray((128, 64, 16), dtype=x.dtype, buffer=nl.sbuf, name="output")
    module.rmsnorm_tkg(x, gamma, output)
    return output


def _mlp_tkg(module: Any, **given: Any) -> Any:
    nl = module.nl
    norm = importlib.import_module(f"{PACKAGE}.core.utils.common_types").NormType.RMS_NORM
    params = module.MLPParameters(store_fused_add_result=True, normalization_type=norm, **given)
    shape = given["hidden_tensor"].shape
    out = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.shared_hbm, name="out")
    added = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.shared_hbm, name="added")
    # The published kernel names a class that it does not import when it is to make its own buffer manager.
    logging = importlib.import_module(f"{PACKAGE}.core.utils.logging")
    manager = module.BufferManager(0, 200 * 1024, logging.Logger("mlp_tkg"))
    module.mlp_tkg(params, out, added, sbm=manager)
    return out, added


def _router(module: Any, **given: Any) -> Any:
    kinds = module.common_types.RouterActFnType
    return module.router_topk(act_fn=kinds.SOFTMAX, x_hbm_layout=1, x_sb_layout=0, **given)


def _moe(
    tokens: int, hidden: int, inner: int, experts: int, block: int, blocks: int, *, padded: int = 1
) -> dict[str, Any]:
    rows = tokens + padded
    return {
        "hidden_states": t("bfloat16", rows, hidden),
        "expert_affinities_masked": t("bfloat16", rows * experts, 1),
        "gate_up_proj_weight": t("bfloat16", experts, hidden, 2, inner),
        "down_proj_weight": t("bfloat16", experts, inner, hidden),
        "block_size": block,
        "token_position_to_id": t("int32", blocks * block),
        "block_to_expert": t("int32", blocks, 1),
    }


TWELVE: tuple[Case, ...] = (
    Case(
        "mask_expert_affinities",
        "core.moe.moe_tkg.moe_tkg_affinity_masking",
        "mask_expert_affinities",
        {
            "expert_affinities": t("float32", 64, 16),
            "expert_index": t("int32", 64, 4),
            "rank_id": t("uint32", 1, 1),
            "E_L": 4,
            "T": 64,
            "K": 4,
            "io_dtype": "float32",
            "mask_unselected_experts": False,
            "output_in_sbuf": False,
        },
        number=1,
    ),
    Case(
        "indexed_flatten",
        "core.subkernels.indexed_flatten",
        "indexed_flatten",
        {"input_tensor": t("int32", 5, 2048), "f_len": 16, "output_len": 4096, "row_offsets": t("int32", 5)},
        number=2,
    ),
    Case(
        "cross_entropy_forward",
        "experimental.loss.cross_entropy",
        "cross_entropy_forward",
        {
            "logits_hbm": t("bfloat16", 256, 2048),
            "targets_hbm": t("int32", 256),
            "positions_per_batch": 32,
            "chunk_size": 1024,
        },
        number=3,
    ),
    Case(
        "rmsnorm_tkg",
        "core.subkernels.rmsnorm_tkg",
        _rmsnorm,
        {"x": t("bfloat16", 64, 1, 2048), "gamma": t("bfloat16", 1, 2048)},
        number=4,
    ),
    Case(
        "qkv_cte",
        "core.qkv.qkv_cte",
        "qkv_cte",
        {"input": t("bfloat16", 1, 256, 512), "fused_qkv_weights": t("bfloat16", 512, 384), "d_head": 128},
        number=5,
    ),
    Case(
        "router_topk",
        "core.router_topk.router_topk",
        _router,
        {
            "x": t("bfloat16", 48, 512),
            "w": t("bfloat16", 512, 128),
            "w_bias": None,
            "router_logits": t("bfloat16", 48, 128),
            "expert_affinities": t("bfloat16", 48, 128),
            "expert_index": t("int32", 48, 4),
            "k": 4,
            "shard_on_tokens": True,
        },
        number=6,
    ),
    Case(
        "qkv_tkg",
        "core.qkv.qkv",
        "qkv",
        {"input": t("bfloat16", 4, 1, 1024), "fused_qkv_weights": t("bfloat16", 1024, 768)},
        number=7,
    ),
    Case(
        "mlp_tkg",
        "core.mlp.mlp_tkg.mlp_tkg",
        _mlp_tkg,
        {
            "hidden_tensor": t("bfloat16", 4, 1, 1024),
            "gate_proj_weights_tensor": t("bfloat16", 1024, 512),
            "up_proj_weights_tensor": t("bfloat16", 1024, 512),
            "down_proj_weights_tensor": t("bfloat16", 512, 1024),
            "fused_add_tensor": t("bfloat16", 4, 1, 1024),
            "normalization_weights_tensor": t("bfloat16", 1, 1024),
        },
        number=8,
    ),
    Case(
        "bwmm_shard_on_block",
        "core.moe.moe_cte.bwmm_shard_on_block",
        "bwmm_shard_on_block",
        _moe(512, 512, 256, 2, 256, 4, padded=0) | {"expert_affinities_masked": t("bfloat16", 513 * 2, 1)},
        number=9,
    ),
    Case(
        "bwmm_shard_on_H",
        "experimental.moe.forward.bwmm_shard_on_H",
        "blockwise_mm_baseline_shard_hidden",
        _moe(512, 1024, 256, 2, 256, 4),
        number=10,
    ),
    Case(
        "bwmm_shard_on_I",
        "core.moe.moe_cte.bwmm_shard_on_I",
        "blockwise_mm_baseline_shard_intermediate",
        _moe(512, 512, 256, 2, 256, 4),
        number=11,
    ),
    Case(
        "bwmm_shard_on_I_hybrid",
        "core.moe.moe_cte.bwmm_shard_on_I",
        "blockwise_mm_baseline_shard_intermediate_hybrid",
        _moe(512, 512, 256, 2, 256, 4) | {"conditions": t("int32", 5), "num_static_block": 2},
        number=11,
    ),
    Case(
        "blockwise_mm_bwd",
        "experimental.moe.bwd.blockwise_mm_backward",
        "blockwise_mm_bwd",
        _moe(512, 512, 512, 2, 256, 4)
        | {
            "gate_up_proj_act_checkpoint_T": t("bfloat16", 4, 2, 512, 256),
            "down_proj_act_checkpoint": t("bfloat16", 4, 256, 512),
            "output_hidden_states_grad": t("bfloat16", 513, 512),
        },
        number=12,
    ),
)
"""The kernels with known results, in the order of their list."""

LARGE: tuple[Case, ...] = (
    Case(
        "bwmm_shard_on_I (T=4096)",
        "core.moe.moe_cte.bwmm_shard_on_I",
        "blockwise_mm_baseline_shard_intermediate",
        _moe(4096, 2560, 1024, 8, 512, 24),
    ),
    Case(
        "qkv_cte (S=8192)",
        "core.qkv.qkv_cte",
        "qkv_cte",
        {"input": t("bfloat16", 1, 8192, 4096), "fused_qkv_weights": t("bfloat16", 4096, 384), "d_head": 128},
    ),
)
