"""Instructions that break a rule of the hardware, and their nearest neighbours that do not: memory to tensor engine.

A case is the target, the lines of which the last breaks the rule, and those that do not. The names are those of the
kernel in `test_nki_hardware.py`.
"""

from __future__ import annotations

Cases = dict[str, list[tuple[str, str, str]]]


def lines(*each: str) -> str:
    return "\n    ".join(each)


def tiled(dst: str, stationary: str, moving: str, position: str, size: str, more: str = "") -> str:
    operands = f"dst={dst}, stationary={stationary}, moving={moving}"
    return f"nisa.nc_matmul({operands}, tile_position={position}, tile_size={size}{more})"


def tile(name: str, shape: str, dtype: str = "float32", buffer: str = "sbuf", more: str = "") -> str:
    return f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{buffer}{more})"


FOUR = "wide.ap([[4096, 128], [2048, 2], [512, 2], [{step}, 4], [2, 2]])"
COPY = lines(tile("four", "(128, 2, 2, 4, 2)"), "nisa.tensor_copy(dst=four, src=" + FOUR + ")")
FIVE = "wide.ap([[4096, 128], [2048, 2], [512, 2], [96, 2], [20, 2], [{step}, 2]])"
COPY_FIVE = lines(tile("five", "(128, 2, 2, 2, 2, 2)"), "nisa.tensor_copy(dst=five, src=" + FIVE + ")")
DOUBLE_ROW = ", perf_mode=nisa.matmul_perf_mode.double_row"

MEMORY_TO_TENSOR_ENGINE: Cases = {
    # memory
    "hbm-operand": [("gen3", "nisa.tensor_copy(dst=a, src=x)", "nisa.dma_copy(dst=a, src=x)")],
    "pool-psum": [
        ("gen3", f"nisa.tensor_copy(dst=a, src={src}, engine=nisa.gpsimd_engine)", right)
        for src, right in (
            ("p", "nisa.tensor_copy(dst=a, src=p)"),
            ("q", "nisa.tensor_copy(dst=a, src=b, engine=nisa.gpsimd_engine)"),
        )
    ]
    + [
        (
            "gen3",
            "nisa.tensor_tensor(dst=a, data1=a, data2=p, op=nl.power)",
            "nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.power)",
        ),
        ("gen3", "nisa.tensor_scalar(a, p, nl.rsqrt, 0.0)", "nisa.activation(a, nl.rsqrt, p)"),
        ("gen3", "nisa.iota(p, [[1, 128]])", "nisa.iota(a, [[1, 128]])"),
    ],
    "both-psum": [
        (
            "gen3",
            "nisa.tensor_tensor(dst=a, data1=p, data2=q, op=nl.add)",
            "nisa.tensor_tensor(dst=a, data1=p, data2=b, op=nl.add)",
        ),
        (
            "gen3",
            "nisa.scalar_tensor_tensor(a, p, nl.add, 1.0, nl.add, q)",
            "nisa.scalar_tensor_tensor(a, p, nl.add, 1.0, nl.add, b)",
        ),
    ],
    "sbuf-only": [
        (
            "gen4",
            lines(tile("half", "(128, 128)", "bfloat16", "psum"), "nisa.quantize_mx(packed[:, 0:32], half, scale)"),
            "nisa.quantize_mx(packed[:, 0:32], h, scale)",
        ),
        (
            "gen4",
            lines(
                tile("seeds", "(128, 24)", "uint32", "psum"),
                "nisa.memset(seeds, 0)",
                "nisa.rand_set_state(seeds, engine=nisa.vector_engine)",
            ),
            "nisa.rand_set_state(u, engine=nisa.vector_engine)",
        ),
    ],
    "psum-tile": [
        (
            "gen3",
            tile("tiles", "(128, 4, 300)", buffer="psum"),
            tile("tiles", "(128, 8, 512)", buffer="psum"),
        ),
        ("gen3", tile("long", "(128, 513)", buffer="psum"), tile("long", "(128, 512)", buffer="psum")),
    ],
    "psum-address": [
        (
            "gen3",
            tile("placed", "(128, 8)", buffer="psum", more=", address=(0, 1024)"),
            tile("placed", "(128, 8)", buffer="psum", more=", address=(0, 2048)"),
        )
    ],
    "dims-2": [("gen3", tile("flat", "(128,)"), tile("flat", "(128, 1)"))],
    "no-64-bit": [("gen3", tile("long", "(128, 1)", "int64"), tile("long", "(128, 1)", "int32"))],
    # partitions
    "part-128": [
        (
            "gen3",
            "nisa.tensor_copy(dst=a, src=b.ap([[128, 129], [1, 127]]))",
            "nisa.tensor_copy(dst=a, src=b.ap([[128, 128], [1, 128]]))",
        )
    ],
    "start-part": [
        (
            "gen3",
            "nisa.tensor_copy(dst=a[0:8, :], src=b[48:56, :])",
            "nisa.tensor_copy(dst=a[96:104, :], src=b[32:40, :])",
        ),
        (
            "gen3",
            "nisa.tensor_copy(dst=a[32:96, :], src=b[0:64, :])",
            "nisa.tensor_copy(dst=a[64:128, :], src=b[0:64, :])",
        ),
        (
            "gen3",
            "nisa.tensor_copy(dst=a[48:56, :], src=b[0:8, :])",
            "nisa.dma_copy(dst=a[48:56, :], src=x[0:8, :])",
        ),
        (
            "gen3",
            "nisa.nc_stream_shuffle(dst=a[0:64, :], src=b[32:64, :], shuffle_mask=[0] * 32)",
            "nisa.nc_stream_shuffle(dst=a[0:32, :], src=b[32:64, :], shuffle_mask=[0] * 32)",
        ),
        (
            "gen3",
            lines(tile("placed", "(32, 8)", more=", address=(16, 0)"), "nisa.memset(placed, 0.0)"),
            lines(tile("placed", "(32, 8)", more=", address=(32, 0)"), "nisa.memset(placed, 0.0)"),
        ),
    ],
    "ap-partition": [
        (
            "gen3",
            "nisa.tensor_copy(dst=a[0:64, :], src=b.ap([[256, 64], [1, 128]]))",
            "nisa.tensor_copy(dst=a[0:64, :], src=b.ap([[128, 64], [1, 128]]))",
        ),
        (
            "gen3",
            "nisa.tensor_copy(dst=a, src=b.ap([[0, 128], [1, 128]]))",
            "nisa.tensor_copy(dst=a, src=b.ap([[128, 128], [0, 128]]))",
        ),
    ],
    "rank-3": [("gen3", COPY.format(step=8), COPY.format(step=4))],
    "rank-4": [
        ("gen4", COPY_FIVE.format(step=3), lines(tile("five", "(128, 32)"), "nisa.tensor_copy(five, a[:, 0:32])"))
    ],
    "stride-16": [
        (
            "gen3",
            lines(tile("far", "(128, 65536)", "int8"), "nisa.memset(far, 0)"),
            lines(tile("far", "(128, 65535)", "int8"), "nisa.memset(far, 0)"),
        ),
        (
            "gen3",
            lines(tile("far", "(128, 65000)", "int8"), "nisa.memset(far.ap([[65000, 128], [32768, 2]]), 0)"),
            lines(tile("far", "(128, 65000)", "int8"), "nisa.memset(far.ap([[65000, 128], [32767, 2]]), 0)"),
        ),
    ],
    # tensor engine
    "mm-dst-psum": [
        (
            "gen3",
            "nisa.nc_matmul(dst=a, stationary=a, moving=b)",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
        )
    ],
    "mm-src-sbuf": [
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=a, moving=q)",
            "nisa.nc_matmul(dst=p, stationary=h, moving=h)",
        )
    ],
    "mm-moving": [
        (
            "gen3",
            "nisa.nc_matmul(dst=p.ap([[128, 128], [0, 513]]), stationary=a, moving=wide.ap([[4096, 128], [1, 513]]))",
            "nisa.nc_matmul(dst=p.ap([[128, 128], [0, 512]]), stationary=a, moving=wide.ap([[4096, 128], [1, 512]]))",
        ),
        (
            "gen4",
            "nisa.nc_matmul(dst=p.ap([[128, 128], [0, 4097]]), stationary=a, moving=a.ap([[128, 128], [0, 4097]]))",
            "nisa.nc_matmul(dst=p.ap([[128, 128], [0, 4096]]), stationary=a, moving=a.ap([[128, 128], [0, 4096]]))",
        ),
    ],
    "mm-stationary": [
        (
            "gen3",
            tiled("p[0:64, :]", "a[:, 0:64]", "b", "(0, 0)", "(128, 32)"),
            tiled("p[0:64, :]", "a[:, 0:64]", "b", "(0, 0)", "(128, 64)"),
        ),
        (
            "gen3",
            tiled("p", "a", "b", "(0, 0)", "(64, 128)"),
            tiled("p", "a[0:64, :]", "b[0:64, :]", "(64, 0)", "(64, 128)"),
        ),
    ],
    "mm-bank": [
        (
            "gen3",
            lines(
                tile("banks", "(128, 4096)", buffer="psum", more=", address=(0, 0)").replace("4096", "512"),
                "nisa.nc_matmul(dst=banks.ap([[512, 128], [5, 128]]), stationary=a, moving=b)",
            ),
            lines(
                tile("banks", "(128, 512)", buffer="psum", more=", address=(0, 0)"),
                "nisa.nc_matmul(dst=banks.ap([[512, 128], [4, 128]]), stationary=a, moving=b)",
            ),
        )
    ],
    "mm-dtype": [
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=i, moving=i)",
            "nisa.nc_matmul(dst=p, stationary=e[:, 0:128], moving=h)",
        ),
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=a, moving=h)",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
        ),
        (
            "gen4",
            "nisa.nc_matmul(dst=p, stationary=f, moving=e[:, 0:128])",
            "nisa.nc_matmul(dst=p, stationary=f, moving=f)",
        ),
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=f, moving=f)",
            "nisa.nc_matmul(dst=p, stationary=e[:, 0:128], moving=e[:, 0:128])",
        ),
        (
            "gen3",
            lines(tile("half", "(128, 128)", "bfloat16", "psum"), "nisa.nc_matmul(dst=half, stationary=h, moving=h)"),
            lines(
                tile("half", "(128, 128)", "bfloat16", "psum"),
                "nisa.nc_matmul(dst=half, stationary=h, moving=h, is_transpose=True)",
            ),
        ),
    ],
    "mm-tr-dtype": [
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=h, moving=h, is_transpose=True)",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b, is_transpose=True)",
        )
    ],
    "mm-double-row": [
        (
            "gen3",
            lines(
                "pair = e.reshape((128, 128, 2))",
                "nisa.nc_matmul(dst=p[0:2, 0:2], stationary=pair[:, 0:4, 0:1], moving=pair[:, 0:2, 0:2], "
                "perf_mode=nisa.matmul_perf_mode.double_row)",
            ),
            lines(
                "pair = e.reshape((128, 2, 128))",
                "nisa.nc_matmul(dst=p, stationary=pair, moving=pair, perf_mode=nisa.matmul_perf_mode.double_row)",
            ),
        ),
        (
            "gen3",
            lines(
                "pair = e.reshape((128, 2, 128))",
                tiled("p[0:32]", "pair[:, :, 0:32]", "pair", "(0, 0)", "(128, 32)", DOUBLE_ROW),
            ),
            lines(
                "pair = e.reshape((128, 2, 128))",
                tiled("p[0:32]", "pair[0:64, :, 0:32]", "pair[0:64]", "(0, 0)", "(64, 128)", DOUBLE_ROW),
            ),
        ),
    ],
    "mm-tile": [
        (
            "gen2",
            tiled("p", "a[0:32]", "b[0:32]", "(0, 0)", "(32, 128)"),
            tiled("p", "a[0:32]", "b[0:32]", "(0, 0)", "(64, 128)"),
        ),
        (
            "gen3",
            tiled("p", "a[0:32]", "b[0:32]", "(16, 0)", "(32, 128)"),
            tiled("p", "a[0:32]", "b[0:32]", "(96, 0)", "(32, 128)"),
        ),
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b, tile_size=(128, 128))",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
        ),
    ],
    "mm-tile-dst": [
        (
            "gen3",
            tiled("p[0:32]", "a[:, 0:32]", "b", "(0, 32)", "(128, 32)"),
            tiled("p[32:64]", "a[:, 0:32]", "b", "(0, 32)", "(128, 32)"),
        )
    ],
    "mm-acc": [
        (
            "gen3",
            "nisa.nc_matmul(dst=p, stationary=a, moving=b, accumulate=True)",
            lines(
                "nisa.nc_matmul(dst=p, stationary=a, moving=b, accumulate=False)",
                "nisa.nc_matmul(dst=p, stationary=a, moving=b, accumulate=True)",
            ),
        ),
        (
            "gen3",
            lines(
                "nisa.nc_matmul(dst=p[:, 0:64], stationary=a, moving=b[:, 0:64])",
                "nisa.nc_matmul(dst=p[:, 64:128], stationary=a, moving=b[:, 64:128], accumulate=True)",
            ),
            lines(
                "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
                "nisa.nc_matmul(dst=p[:, 64:128], stationary=a, moving=b[:, 64:128], accumulate=True)",
            ),
        ),
    ],
    "mx-shape": [
        (
            "gen4",
            "nisa.nc_matmul_mx(p[0:63], packed[:, 0:63], packed, scale[:, 0:63], scale)",
            "nisa.nc_matmul_mx(p[0:64, 0:64], packed, packed, scale, scale)",
        ),
        (
            "gen4",
            "nisa.nc_matmul_mx(p[0:64, 0:64], packed[0:64], packed[0:64], scale[0:8], scale[0:64])",
            "nisa.nc_matmul_mx(p[0:64, 0:64], packed[0:32], packed[0:32], scale[0:4], scale[0:32])",
        ),
        (
            "gen4",
            "nisa.quantize_mx(packed[:, 0:31], h, scale)",
            "nisa.quantize_mx(packed[:, 0:32], h, scale)",
        ),
    ],
    "mx-dtype": [
        (
            "gen4",
            "nisa.nc_matmul_mx(p[0:64, 0:64], packed, f[:, 0:64], scale, scale)",
            "nisa.nc_matmul_mx(p[0:64, 0:64], packed, packed, scale, scale)",
        ),
        (
            "gen4",
            "nisa.quantize_mx(packed[:, 0:32], a, scale)",
            "nisa.quantize_mx(packed[:, 0:32], h, scale)",
        ),
    ],
    "tr-dtype": [("gen3", "nisa.nc_transpose(dst=p, data=h)", "nisa.nc_transpose(dst=p, data=a)")],
    "tr-size": [
        ("gen3", "nisa.nc_transpose(dst=b, data=a)", "nisa.nc_transpose(dst=b[0:32, 0:32], data=a[0:32, 0:32])"),
        (
            "gen3",
            "nisa.nc_transpose(dst=p[0:32, 0:64], data=a[0:32, 0:64])",
            "nisa.nc_transpose(dst=p[0:64, 0:32], data=a[0:32, 0:64])",
        ),
    ],
    "tr-mem": [
        (
            "gen3",
            "nisa.nc_transpose(dst=p, data=q, engine=nisa.tensor_engine)",
            "nisa.nc_transpose(dst=p, data=a, engine=nisa.tensor_engine)",
        )
    ],
}
