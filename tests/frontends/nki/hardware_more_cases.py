"""Instructions that break a rule, and their nearest neighbours that do not, as before: element-wise to targets."""

from __future__ import annotations

from tests.frontends.nki.hardware_cases import Cases, lines, tile

GATHER = "big.ap([[1024, {rows}], [1, {columns}]], vector_offset=u[0:{rows}, 0:1], indirect_dim=0)"
LAST = "-3.4028234663852886e38"

ELEMENTWISE_TO_TARGETS: Cases = {
    # element-wise
    "free-size": [
        (
            "gen3",
            "nisa.tensor_tensor(a, a, b[:, 0:64], nl.add)",
            "nisa.tensor_tensor(a, a, b.ap([[128, 128], [0, 2], [1, 64]]), nl.add)",
        ),
        (
            "gen3",
            "nisa.tensor_tensor_scan(a, a, b[:, 0:64], 0.0, nl.multiply, nl.add)",
            "nisa.tensor_tensor_scan(a, a, b, 0.0, nl.multiply, nl.add)",
        ),
    ],
    "vector-shape": [
        ("gen3", "nisa.tensor_scalar(a, a, nl.add, b)", "nisa.tensor_scalar(a, a, nl.add, column)"),
        (
            "gen3",
            "nisa.activation(a, nl.exp, a, bias=column[0:64])",
            "nisa.activation(a, nl.exp, a, bias=h[:, 0:1])",
        ),
    ],
    "ts-f32": [
        ("gen3", "nisa.tensor_scalar(a, a, nl.add, h[:, 0:1])", "nisa.tensor_scalar(a, a, nl.add, a[:, 0:1])"),
        ("gen3", "nisa.activation(a, nl.exp, a, scale=h[:, 0:1])", "nisa.activation(a, nl.exp, a, scale=column)"),
        (
            "gen3",
            "nisa.scalar_tensor_tensor(a, a, nl.add, column, nl.add, b); "
            f"nisa.range_select(a, b, nl.less, nl.less, h[:, 0:1], column, on_false_value={LAST})",
            "nisa.scalar_tensor_tensor(a, a, nl.add, h[:, 0:1], nl.add, b); "
            f"nisa.range_select(a, b, nl.less, nl.less, column, column, on_false_value={LAST})",
        ),
    ],
    "op-class": [
        ("gen3", "nisa.tensor_tensor(a, a, b, nl.bitwise_and)", "nisa.tensor_tensor(i, i, i, nl.bitwise_and)"),
        (
            "gen3",
            "nisa.tensor_scalar(i, i, nl.left_shift, 2, op1=nl.add, operand1=1)",
            "nisa.tensor_scalar(i, i, nl.left_shift, 2, op1=nl.bitwise_and, operand1=7)",
        ),
        (
            "gen3",
            "nisa.tensor_tensor(i, i, i, nl.bitwise_and, engine=nisa.gpsimd_engine)",
            "nisa.tensor_tensor(i, i, i, nl.add, engine=nisa.gpsimd_engine)",
        ),
        (
            "gen3",
            "nisa.scalar_tensor_tensor(i, i, nl.bitwise_and, 1, nl.add, i)",
            "nisa.scalar_tensor_tensor(i, i, nl.add, 1, nl.add, i)",
        ),
    ],
    "op-missing": [
        ("gen3", "nisa.tensor_tensor(a, a, b, nl.divide)", "nisa.tensor_tensor(a, a, b, nl.multiply)"),
        ("gen3", "nisa.tensor_scalar(a, a, nl.mod, 2.0)", "nisa.tensor_scalar(a, a, nl.subtract, 2.0)"),
    ],
    "op-reduce": [
        (
            "gen3",
            "nisa.tensor_reduce(column, nl.equal, a, axis=1)",
            "nisa.tensor_reduce(column, nl.maximum, a, axis=1)",
        ),
        (
            "gen3",
            "nisa.activation(a, nl.exp, b, reduce_op=nl.maximum, reduce_res=column)",
            "nisa.activation(a, nl.exp, b, reduce_op=nl.add, reduce_res=column)",
        ),
        (
            "gen3",
            "nisa.tensor_partition_reduce(a[0:1], nl.multiply, b)",
            "nisa.tensor_partition_reduce(a[0:1], nl.add, b)",
        ),
    ],
    "op-pair": [
        (
            "gen4",
            "nisa.activate2(a, nl.exp, b, 1.0, 0.0, nl.add, nl.multiply)",
            "nisa.activate2(a, nl.exp, b, 1.0, 0.0, nl.multiply, nl.add)",
        )
    ],
    "reduce-axis": [
        (
            "gen3",
            "nisa.tensor_reduce(column, nl.add, a, axis=0)",
            "nisa.tensor_reduce(column, nl.add, a, axis=[1])",
        ),
        (
            "gen3",
            "nisa.tensor_reduce(wide[:, 0, :], nl.add, wide, axis=1)",
            "nisa.tensor_reduce(eight, nl.add, wide, axis=2)",
        ),
        (
            "gen3",
            "nisa.tensor_reduce(eight, nl.add, wide, axis=(1, 2))",
            "nisa.tensor_reduce(column, nl.add, wide, axis=(1, 2))",
        ),
    ],
    "scalar-ops": [
        (
            "gen3",
            "nisa.tensor_scalar(a, a, nl.add, 1.0, op1=nl.multiply, operand1=2.0, engine=nisa.scalar_engine)",
            "nisa.tensor_scalar(a, a, nl.multiply, column, op1=nl.add, operand1=1.0, engine=nisa.scalar_engine)",
        )
    ],
    "pool-ops": [
        (
            "gen3",
            "nisa.tensor_scalar(a, a, nl.add, 1.0, engine=nisa.gpsimd_engine)",
            "nisa.tensor_scalar(a, a, nl.rsqrt, 0.0, engine=nisa.gpsimd_engine)",
        )
    ],
    "eng-choice": [
        (
            "gen3",
            "nisa.memset(a, 0.0, engine=nisa.scalar_engine)",
            "nisa.memset(a, 0.0, engine=nisa.gpsimd_engine)",
        )
    ],
    "eng-copy": [
        (
            "gen2",
            "nisa.tensor_copy(dst=a, src=p, engine=nisa.scalar_engine)",
            "nisa.activation(a, nl.copy, p)",
        )
    ],
    "act-bias": [
        ("gen2", "nisa.activation(a, nl.exp, b, bias=1.0)", "nisa.activation(a, nl.exp, b, bias=column)"),
        ("gen2", "nisa.activation(a, nl.reciprocal, b, bias=column)", "nisa.activation(a, nl.reciprocal, b)"),
    ],
    "act-range": [
        (
            "gen3",
            lines("nisa.iota(eight, [[1, 8]])", "nisa.activation(eight, nl.sin, eight)"),
            lines("nisa.iota(eight, [[1, 8]])", "nisa.activation(eight, nl.sin, eight, scale=0.25)"),
        ),
        (
            "gen3",
            lines("nisa.iota(eight, [[1, 8]])", "nisa.activation(eight, nl.log, eight)"),
            lines("nisa.iota(eight, [[1, 8]], offset=1)", "nisa.activation(eight, nl.log, eight)"),
        ),
        (
            "gen3",
            lines("nisa.iota(eight, [[1, 8]], offset=-1)", "nisa.activation(eight, nl.sqrt, eight)"),
            lines("nisa.iota(eight, [[1, 8]])", "nisa.activation(eight, nl.sqrt, eight)"),
        ),
    ],
    "select-dtype": [
        (
            "gen3",
            "nisa.tensor_copy_predicated(a, b, i)",
            "nisa.tensor_copy_predicated(a[:, 0:16], b[:, 0:16], u)",
        ),
        (
            "gen3",
            "nisa.tensor_scalar_cumulative(i, i, nl.add, nl.add, 0.0)",
            "nisa.tensor_scalar_cumulative(a, s.view(nl.float16)[:, 0:1].broadcast(1, 128), nl.add, nl.add, 0.0)",
        ),
        (
            "gen3",
            "nisa.range_select(a, b, nl.less, nl.less, column, column, on_false_value=0.0)",
            f"nisa.range_select(a, b, nl.less, nl.less, column, column, on_false_value={LAST})",
        ),
        ("gen3", "nisa.dropout(a, h, 0.5)", "nisa.dropout(a, b, 0.5)"),
    ],
    "memset-kind": [
        ("gen3", "nisa.memset(i, 0.5)", "nisa.memset(a, 0.5)"),
        ("gen3", "nisa.memset(packed, 1)", "nisa.memset(packed, 0)"),
    ],
    "memset-float": [("gen3", "nisa.memset(i, 2.0)", "nisa.memset(i, 2)")],
    # sizes
    "bn-512": [
        (
            "gen3",
            "nisa.bn_stats(eight[:, 0:6], wide.ap([[4096, 128], [1, 513]]))",
            "nisa.bn_stats(eight[:, 0:6], wide.ap([[4096, 128], [1, 512]]))",
        ),
        ("gen3", "nisa.bn_aggr(eight[:, 0:2], a[:, 0:7])", "nisa.bn_aggr(eight[:, 0:2], a[:, 0:6])"),
    ],
    "find-16384": [
        ("gen3", "nisa.max8(eight, a[:, 0:7])", "nisa.max8(eight, a[:, 0:8])"),
        ("gen3", "nisa.nc_find_index8(i[:, 0:8], a, eight)", "nisa.nc_find_index8(u[:, 0:8], a, eight)"),
    ],
    "gather-16": [
        ("gen3", "nisa.local_gather(a[0:8], b[0:8], s[0:8, 0:8])", "nisa.local_gather(a, b, s[:, 0:8])"),
        ("gen3", "nisa.nc_n_gather(a, b, i)", "nisa.nc_n_gather(a[:, 0:16], b, u)"),
    ],
    "shuffle-mask": [
        (
            "gen3",
            "nisa.nc_stream_shuffle(a, b, [0] * 31 + [32])",
            "nisa.nc_stream_shuffle(a, b, [0] * 31 + [255])",
        ),
        ("gen3", "nisa.nc_stream_shuffle(a, h, [0] * 32)", "nisa.nc_stream_shuffle(a, p, [0] * 32)"),
    ],
    "pattern-size": [
        ("gen3", "nisa.iota(a, [[1, 127]])", "nisa.iota(a, [[0, 2], [1, 64]])"),
        (
            "gen3",
            "nisa.affine_select(a, [[1, 64]], 1, b, 0.0)",
            "nisa.affine_select(a, [[1, 128]], 1, b, 0.0)",
        ),
    ],
    "count-shape": [
        (
            "gen3",
            "nisa.nonzero_with_count(i[:, 0:16], a[:, 0:16])",
            "nisa.nonzero_with_count(i[:, 0:17], a[:, 0:16])",
        ),
        ("gen3", "nisa.topk(h[:, 0:8], u[:, 0:8], h, 4)", "nisa.topk(h[:, 0:8], u[:, 0:8], h, 64)"),
    ],
    # DMA
    "dma-psum": [("gen3", "nisa.dma_copy(dst=x, src=p)", "nisa.dma_copy(dst=x, src=a)")],
    "dma-to-psum": [("gen3", "nisa.dma_copy(dst=p, src=x)", "nisa.dma_copy(dst=b, src=x)")],
    "hwdge-dtype": [
        (
            "gen3",
            "nisa.dma_copy(dst=h, src=x, dge_mode=nisa.dge_mode.hwdge)",
            "nisa.dma_copy(dst=a, src=x, dge_mode=nisa.dge_mode.hwdge)",
        )
    ],
    "hwdge-gather": [
        (
            "gen3",
            f"nisa.dma_copy(h, {GATHER.format(rows=128, columns=128)}, dge_mode=nisa.dge_mode.hwdge)",
            f"nisa.dma_copy(h, {GATHER.format(rows=128, columns=128)}, dge_mode=nisa.dge_mode.swdge)",
        )
    ],
    "hwdge-engine": [
        (
            "gen3",
            "nisa.dma_copy(dst=a, src=x, engine=nisa.engine.sync)",
            "nisa.dma_copy(dst=a, src=x, engine=nisa.engine.sync, dge_mode=nisa.dge_mode.hwdge)",
        )
    ],
    "tr-axes": [
        ("gen3", "nisa.dma_transpose(dst=a, src=x, axes=(0, 1))", "nisa.dma_transpose(dst=a, src=x, axes=(1, 0))"),
        (
            "gen3",
            "nisa.dma_transpose(dst=a[:, 0:64], src=x[:, 0:64])",
            "nisa.dma_transpose(dst=a[0:64, :], src=x[:, 0:64])",
        ),
        ("gen3", "nisa.dma_transpose(dst=h, src=x)", "nisa.dma_transpose(dst=h, src=big[0:128, 0:128])"),
    ],
    "tr-hwdge": [
        (
            "gen3",
            "nisa.dma_transpose(dst=h, src=big[0:128, 0:128], dge_mode=nisa.dge_mode.hwdge)",
            "nisa.dma_transpose(dst=h[:, 0:16], src=big[0:16, 0:128], dge_mode=nisa.dge_mode.hwdge)",
        )
    ],
    "tr-gather": [
        (
            "gen3",
            f"nisa.dma_transpose(dst=h[:, 0:24], src={GATHER.format(rows=24, columns=128)})",
            f"nisa.dma_transpose(dst=h[:, 0:32], src={GATHER.format(rows=32, columns=128)})",
        )
    ],
    "dma-compute": [
        ("gen3", "nisa.dma_compute(a, [a, x], nl.multiply)", "nisa.dma_compute(a, [a, x], nl.add)"),
        (
            "gen3",
            "nisa.dma_compute(a, [a, x], nl.add, scales=[1.0, 0.5])",
            "nisa.dma_compute(a, [a, x], nl.add, scales=[1.0, 1.0])",
        ),
    ],
    "index-place": [
        (
            "gen3",
            "nisa.dma_copy(h, h.ap([[128, 128], [1, 128]], vector_offset=u[:, 0:1], indirect_dim=0))",
            "nisa.dma_copy(h, big.ap([[1024, 128], [1, 128]], vector_offset=u[:, 0:1], indirect_dim=0))",
        )
    ],
    "oob-skip": [
        (
            "gen3",
            "nisa.dma_copy(dst=a, src=x, oob_mode=nisa.oob_mode.skip)",
            f"nisa.dma_copy(h, {GATHER.format(rows=128, columns=128)}, oob_mode=nisa.oob_mode.skip)",
        )
    ],
    "dma-small": [
        (
            "gen3",
            "nisa.dma_copy(dst=wide[:, 0:2, 0:127], src=big[0:128, 0:254])",
            "nisa.dma_copy(dst=wide[:, 0:2, 0:128], src=big[0:128, 0:256])",
        )
    ],
    "dma-tr-sbuf": [
        ("gen3", "nisa.dma_transpose(dst=h, src=h)", "nisa.dma_transpose(dst=h, src=big[0:128, 0:128])"),
    ],
    "dma-tr-tiles": [
        (
            "gen3",
            lines(tile("turned", "(64, 512)", "bfloat16"), "nisa.dma_transpose(dst=turned, src=big[0:512, 0:64])"),
            lines(tile("turned", "(128, 512)", "bfloat16"), "nisa.dma_transpose(dst=turned, src=big[0:512, 0:128])"),
        )
    ],
    # targets
    "gen": [
        (
            "gen2",
            f"nisa.range_select(a, b, nl.less, nl.less, column, column, on_false_value={LAST})",
            "nisa.affine_select(a, [[1, 128]], 1, b, 0.0)",
        ),
        ("gen3", "nisa.exponential(a, b)", "nisa.activation(a, nl.exp, b)"),
        ("gen3", "nisa.dma_copy(dst=a, src=x, priority=1)", "nisa.dma_copy(dst=a, src=x)"),
        (
            "gen2",
            "nisa.dma_copy(dst=a, src=x, dge_mode=nisa.dge_mode.hwdge)",
            "nisa.dma_copy(dst=a, src=x, dge_mode=nisa.dge_mode.swdge)",
        ),
        ("gen3", "nisa.tensor_tensor(a, a, b, nl.abs_max)", "nisa.tensor_tensor(a, a, b, nl.maximum)"),
        ("gen2", "nisa.rng(u, engine=nisa.gpsimd_engine)", "nisa.rng(u)"),
    ],
    "gen-idx": [
        (
            "gen2",
            "nisa.nc_match_replace8(a, b, eight, 0.0, dst_idx=u[:, 0:8])",
            "nisa.nc_match_replace8(a, b, eight, 0.0)",
        )
    ],
}
