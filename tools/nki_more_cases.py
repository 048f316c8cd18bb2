"""More kernels of nki-library with small arguments: whatever imports without torch; see `nki_cases.py`."""

from __future__ import annotations

import importlib
from typing import Any

from tools.nki_cases import PACKAGE, Case, _moe, t


def _in_sbuf(name: str) -> Any:
    """A driver for kernels that normalise into a tensor in SBUF which the caller allocates."""

    def driver(module: Any, x: Any, gamma: Any, **given: Any) -> Any:
        nl = module.nl
        tokens, hidden = x.shape[0] * x.shape[1], x.shape[2]
        output = nl.ndarray((128, tokens, hidden // 128), dtype=x.dtype, buffer=nl.sbuf, name="output")
        getattr(module, name)(x, gamma, output, **given)
        return output

    return driver


def _mlp_cte(module: Any, **given: Any) -> Any:
    nl = module.nl
    params = module.MLPParameters(**given)
    out = nl.ndarray(given["hidden_tensor"].shape, dtype=nl.bfloat16, buffer=nl.shared_hbm, name="out")
    module.mlp_cte(params, out, None)
    return out


def _quantised_norm(module: Any, hidden: Any, ln_w: Any) -> Any:
    constants = importlib.import_module(f"{PACKAGE}.core.utils.common_types")
    arguments = module.RmsNormQuantKernelArgs(
        lower_bound=0.0, norm_type=constants.NormType.RMS_NORM, quantization_type=constants.QuantizationType.ROW
    )
    return module.rmsnorm_quant_kernel(hidden, ln_w, arguments)


def _moe_cte(module: Any, **given: Any) -> Any:
    spec = module.MoECTESpec(implementation=module.MoECTEImplementation.shard_on_i)
    return module.moe_cte(spec=spec, **given)


def _topk(module: Any, inp: Any, k: int) -> Any:
    utilities = importlib.import_module(f"{PACKAGE}.core.topk.rotational_topk_utils")
    config = utilities.create_topk_config(inp.shape, inp.dtype, k)
    return module.rotational_topk(inp, utilities.create_rotational_topk_config(inp.shape, config))


def _with_groups(name: str) -> Any:
    def driver(module: Any, inp: Any) -> Any:
        groups = module.ReplicaGroup([[0, 1]])
        return getattr(module, name)(inp, groups, 2)

    return driver


def _heads(batch: int, heads: int, *rest: int) -> Any:
    return t("bfloat16", batch, heads, *rest)


_MLP = {
    "hidden_tensor": t("bfloat16", 1, 512, 512),
    "gate_proj_weights_tensor": t("bfloat16", 512, 512),
    "up_proj_weights_tensor": t("bfloat16", 512, 512),
    "down_proj_weights_tensor": t("bfloat16", 512, 512),
}
_MX = {
    "gate_up_proj_weight": t("float8_e4m3fn_x4", 2, 128, 2, 1, 1024),
    "down_proj_weight": t("float8_e4m3fn_x4", 2, 128, 2, 512),
    "gate_up_proj_scale": t("uint8", 2, 16, 2, 1, 1024),
    "down_proj_scale": t("uint8", 2, 16, 2, 512),
    "gate_and_up_proj_bias": t("bfloat16", 2, 128, 2, 2, 4),
    "down_proj_bias": t("bfloat16", 2, 512),
}

MORE: tuple[Case, ...] = (
    Case("cumsum", "core.cumsum.cumsum", "cumsum", {"x": t("float32", 256, 2048)}),
    Case("cascaded_max", "core.max.cascaded_max", "cascaded_max", {"input_tensor": t("float32", 8, 16384)}),
    Case(
        "RoPE",
        "core.embeddings.rope",
        "RoPE",
        {
            "x_in": t("bfloat16", 128, 1, 4, 256),
            "cos": t("bfloat16", 64, 1, 256),
            "sin": t("bfloat16", 64, 1, 256),
            "lnc_shard": True,
        },
    ),
    Case(
        "rope_hf",
        "core.embeddings.rope_hf",
        "rope_hf",
        {
            "q": _heads(1, 4, 256, 128),
            "k": _heads(1, 2, 256, 128),
            "q_out": _heads(1, 4, 256, 128),
            "k_out": _heads(1, 2, 256, 128),
            "cos": t("bfloat16", 256, 128),
            "sin": t("bfloat16", 256, 128),
        },
    ),
    Case(
        "find_nonzero_indices",
        "core.subkernels.find_nonzero_indices",
        "find_nonzero_indices",
        {"input_tensor": t("float32", 2048, 16)},
    ),
    Case(
        "rmsnorm_quant",
        "core.rmsnorm.rmsnorm_quant",
        _quantised_norm,
        {"hidden": t("bfloat16", 1, 256, 512), "ln_w": t("bfloat16", 1, 512)},
    ),
    Case(
        "layernorm_tkg",
        "core.subkernels.layernorm_tkg",
        _in_sbuf("layernorm_tkg"),
        {"x": t("bfloat16", 4, 1, 1024), "gamma": t("bfloat16", 1, 1024), "beta": t("bfloat16", 1, 1024)},
    ),
    Case(
        "output_projection_cte",
        "core.output_projection.output_projection_cte.output_projection_cte",
        "output_projection_cte",
        {"attention": t("bfloat16", 1, 4, 128, 512), "weight": t("bfloat16", 512, 1024)},
    ),
    Case(
        "output_projection_tkg",
        "core.output_projection.output_projection_tkg",
        "output_projection_tkg",
        {"attention": t("bfloat16", 128, 4, 2, 1), "weight": t("bfloat16", 256, 2048)},
    ),
    Case(
        "attention_cte",
        "core.attention.attention_cte",
        "attention_cte",
        {"q": t("bfloat16", 2, 512, 128), "k": t("bfloat16", 2, 128, 512), "v": t("bfloat16", 2, 512, 128)},
    ),
    Case(
        "attention_bwd",
        "core.attention.attention_bwd",
        "attention_bwd",
        {
            "q_ref": _heads(1, 2, 128, 512),
            "k_ref": _heads(1, 2, 128, 512),
            "v_ref": _heads(1, 2, 128, 512),
            "o_ref": _heads(1, 2, 128, 512),
            "dy_ref": _heads(1, 2, 128, 512),
            "lse_ref": t("float32", 1, 2, 128, 4),
        },
    ),
    Case("rotational_topk", "core.topk.rotational_topk", _topk, {"inp": t("float32", 8, 4096), "k": 64}),
    Case("mlp_cte", "core.mlp.mlp_cte.mlp_cte", _mlp_cte, _MLP),
    Case(
        "moe_tkg (selective)",
        "core.moe.moe_tkg.moe_tkg",
        "moe_tkg",
        {
            "hidden_input": t("bfloat16", 4, 1024),
            "expert_gate_up_weights": t("bfloat16", 8, 1024, 2, 256),
            "expert_down_weights": t("bfloat16", 8, 256, 1024),
            "expert_affinities": t("float32", 4, 8),
            "expert_index": t("int32", 4, 2),
            "is_all_expert": False,
        },
    ),
    Case(
        "moe_tkg (all experts)",
        "core.moe.moe_tkg.moe_tkg",
        "moe_tkg",
        {
            "hidden_input": t("bfloat16", 16, 1024),
            "expert_gate_up_weights": t("bfloat16", 2, 1024, 2, 256),
            "expert_down_weights": t("bfloat16", 2, 256, 1024),
            "expert_affinities": t("float32", 16, 8),
            "expert_index": t("int32", 16, 2),
            "is_all_expert": True,
            "rank_id": t("uint32", 1, 1),
        },
    ),
    Case(
        "moe_block_tkg",
        "core.moe_block.moe_block_tkg",
        "moe_block_tkg",
        {
            "inp": t("bfloat16", 4, 1, 1024),
            "gamma": t("bfloat16", 1, 1024),
            "router_weights": t("bfloat16", 1024, 8),
            "expert_gate_up_weights": t("bfloat16", 8, 1024, 2, 256),
            "expert_down_weights": t("bfloat16", 8, 256, 1024),
            "top_k": 2,
        },
    ),
    Case("moe_cte", "core.moe.moe_cte.moe_cte", _moe_cte, _moe(512, 512, 256, 2, 256, 4)),
    Case(
        "bwmm_shard_on_I_dropping",
        "core.moe.moe_cte.bwmm_shard_on_I",
        "blockwise_mm_shard_intermediate_dropping",
        _moe(512, 512, 256, 4, 256, 4),
    ),
    Case(
        "bwmm_shard_on_I_mx",
        "core.moe.moe_cte.bwmm_shard_on_I_mx",
        "blockwise_mm_shard_intermediate_mx",
        _moe(512, 512, 1024, 2, 256, 4) | _MX,
        target="gen4",
        enums={"expert_affinities_scaling_mode": "ExpertAffinityScaleMode.POST_SCALE"},
    ),
    Case(
        "bwmm_shard_on_block_mx",
        "core.moe.moe_cte.bwmm_shard_on_block_mx",
        "bwmm_shard_on_block_mx",
        _moe(512, 512, 1024, 2, 256, 4)
        | _MX
        | {"conditions": t("int32", 6), "n_static_blocks": 2, "n_dynamic_blocks": 2},
        target="gen4",
    ),
    Case(
        "conv1d",
        "experimental.conv.conv1d",
        "conv1d",
        {"x_in": t("bfloat16", 2, 128, 512), "filters": t("bfloat16", 3, 128, 128), "lnc_shard": True},
    ),
    Case(
        "depthwise_conv1d",
        "experimental.conv.depthwise_conv1d",
        "depthwise_conv1d_implicit_gemm",
        {
            "img_ref": t("bfloat16", 2, 256, 1, 512),
            "filter_ref": t("bfloat16", 256, 1, 1, 4),
            "feature_group_count": 256,
        },
    ),
    Case(
        "cross_entropy_backward",
        "experimental.loss.cross_entropy",
        "cross_entropy_backward",
        {
            "logits_hbm": t("bfloat16", 256, 2048),
            "targets_hbm": t("int32", 256),
            "lse_state_hbm": t("float32", 256),
            "positions_per_batch": 32,
            "chunk_size": 1024,
        },
    ),
    Case(
        "dynamic_elementwise_add",
        "experimental.dynamic_shapes.dynamic_elementwise_add",
        "dynamic_elementwise_add",
        {"input_a": t("bfloat16", 512, 1024), "input_b": t("bfloat16", 512, 1024), "num_m_tiles": t("int32", 1, 1)},
        cores=1,
    ),
    Case(
        "find_nonzero_indices_with_count",
        "experimental.benchmark.find_nonzero_indices_with_count",
        "find_nonzero_indices_with_count",
        {"input_tensor": t("int32", 1, 2048)},
    ),
    Case(
        "allgather_sb2sb",
        "experimental.collectives.sb2sb_allgather",
        _with_groups("allgather_sb2sb"),
        {"inp": t("bfloat16", 128, 512)},
    ),
    Case(
        "fine_grained_allgather",
        "experimental.collectives.fg_allgather",
        "fine_grained_allgather",
        {"lhs": t("bfloat16", 256, 512), "tp_degree": 4, "num_groups": 1},
    ),
    Case(
        "allgather_compute_matmul",
        "experimental.collectives.fgcc",
        "allgather_compute_matmul",
        {"lhs": t("bfloat16", 256, 512), "rhs": t("bfloat16", 512, 512), "tp_degree": 4, "num_groups": 1},
    ),
    Case(
        "topk_reduce",
        "experimental.collectives.topk_reduce",
        "topk_reduce",
        {"input": t("bfloat16", 256, 514), "T": 64, "K": 2},
    ),
    Case(
        "mxfp_load",
        "experimental.mxfp_subkernels.mxfp_load_utils",
        "mxfp_load_performance_wrapper",
        {"tensor": t("bfloat16", 128, 2048)},
        target="gen4",
    ),
)
"""By name; those that stop say why in the coverage table."""
