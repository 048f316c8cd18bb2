"""Kernels for the first NKI: index arrays, masks, instructions that return tiles. Each is the same as a kernel of
today: the bytes that its instructions read and write are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.frontends.nki.nki_kernels import codes, line_of

import haulout.nki as hnki
from haulout.frontends.nki import Trace
from haulout.nki.kernel_check import CheckedKernel
from haulout.support.diagnostics import Severity

OLD = "from neuronxcc import nki\nimport neuronxcc.nki.language as nl\nimport neuronxcc.nki.isa as nisa\n\n\n"
NEW = OLD.replace("from neuronxcc import nki", "import nki").replace("neuronxcc.nki.", "nki.")


def run(folder: Path, body: str, *, header: str = OLD, name: str = "kernels", **arguments: object) -> CheckedKernel:
    path = folder / f"{name}.py"
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip().splitlines())
    path.write_text(f"{header}def kernel({', '.join(arguments) or 'x'}):\n{lines}\n")
    given = arguments or {"x": hnki.tensor("f32", 256, 512)}
    return hnki.check_kernel(f"{path}::kernel", given, lnc=1)


def pattern_bytes(pattern: object, size: int) -> np.ndarray:
    """All bytes of a pattern, sorted; None is the whole storage."""
    if pattern is None:
        return np.arange(size)
    found = np.arange(pattern.run) + pattern.offset  # type: ignore[attr-defined]
    for stride, count in pattern.dims:  # type: ignore[attr-defined]
        found = (found[:, None] + np.arange(count) * stride).ravel()
    return np.unique(found)


def operands(trace: Trace) -> list[tuple[str, tuple[bytes, ...], tuple[bytes, ...]]]:
    """Opcode, bytes read and bytes written of each instruction."""
    recorder = trace.recorders[0]
    sizes = [each.size for each in recorder.storages]

    def sides(found: object) -> tuple[bytes, ...]:
        return tuple(pattern_bytes(pattern, sizes[number]).tobytes() for number, pattern in found)  # type: ignore

    return [(each.opcode, sides(each.reads), sides(each.writes)) for each in recorder.records]


PAIRS = {
    "index arrays": (
        """
        i_p, i_f = nl.arange(128)[:, None], nl.arange(256)[None, :]
        nl.load(x[128 + i_p, 2 * i_f])
        """,
        "nl.load(x[128:256, 0:512:2])",
    ),
    "a mesh": (
        """
        i = nl.mgrid[0:64, 8:40]
        nl.load(x[i.p, i.x])
        i_p, i_f = i
        nl.load(x[i_f, i_p])
        """,
        """
        nl.load(x[0:64, 8:40])
        nl.load(x.ap([[512, 1], [1, 1]])) if False else None
        tile = nl.ndarray((64, 32), dtype=x.dtype)
        nisa.dma_copy(dst=tile, src=x[8:40, 0:64])
        """,
    ),
    "a mask cuts the end": (
        """
        i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        tile = nl.load(x[192 + i_p, i_f], mask=(192 + i_p < 256))
        nl.store(x[192 + i_p, i_f], tile, mask=(192 + i_p < 256))
        """,
        """
        tile = nl.ndarray((128, 512), dtype=x.dtype)
        tile[0:64, :] = x[192:256, :]
        nl.store(x[192:256, :], tile[0:64, :])
        """,
    ),
    "a mask of two axes": (
        """
        i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        tile = nl.ndarray((128, 512), dtype=x.dtype)
        tile[i_p, i_f] = nisa.memset((128, 512), 0.0, nl.float32)
        nisa.tensor_copy(tile, mask=(i_p < 100) & (i_f >= 12))
        """,
        """
        tile = nl.ndarray((128, 512), dtype=x.dtype)
        zero = nl.ndarray((128, 512), dtype=x.dtype)
        nisa.memset(zero, 0.0)
        tile[:, :] = zero
        copy = nl.ndarray((128, 512), dtype=x.dtype)
        nisa.tensor_copy(copy[0:100, 12:512], tile[0:100, 12:512])
        """,
    ),
    "a mask that keeps nothing": (
        """
        i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        nl.load(x[256 + i_p, i_f], mask=(256 + i_p < 256))
        """,
        "nl.ndarray((128, 512), dtype=x.dtype)",
    ),
    "a slice that a mask cuts": (
        """
        i_p = nl.arange(128)[:, None]
        nl.load(x[nl.ds(192, 128), 0:512], mask=(192 + i_p < 256))
        """,
        """
        tile = nl.ndarray((128, 512), dtype=x.dtype)
        tile[0:64, :] = x[192:256, :]
        """,
    ),
    "block dimensions": (
        """
        tiles = nl.ndarray((4, nl.par_dim(64), 32), dtype=x.dtype)
        i_p, i_f = nl.arange(64)[:, None], nl.arange(32)[None, :]
        for i in nl.affine_range(4):
            tiles[i, i_p, i_f] = nl.load(x[64 * i + i_p, i_f])
        nl.store(x[0:64, 0:32], tiles[3])
        """,
        """
        tiles = nl.ndarray((64, 4, 32), dtype=x.dtype)
        for i in range(4):
            tiles[:, i, :] = nl.load(x[64 * i : 64 * i + 64, 0:32])
        nl.store(x[0:64, 0:32], tiles[:, 3, :])
        """,
    ),
    "products": (
        """
        a, b = nl.load(x[0:128, 0:64]), nl.load(x[0:128, 0:512])
        psum = nisa.nc_matmul(a, b)
        turned = nisa.nc_transpose(a)
        """,
        """
        a, b = nl.load(x[0:128, 0:64]), nl.load(x[0:128, 0:512])
        psum = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, a, b)
        turned = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(turned, a)
        """,
    ),
    "reductions and operators of NumPy": (
        """
        a = nl.load(x[0:128, 0:512])
        m = nisa.tensor_reduce(np.max, a, axis=[1], dtype=nl.float32, negate=True)
        e = nisa.activation(np.exp, a, bias=m, scale=1.0)
        s = nisa.tensor_scalar(e, np.multiply, 2.0, op1=np.add, operand1=m)
        r = nisa.reciprocal(s)
        t = nisa.tensor_tensor(r, s, np.add)
        """,
        """
        a = nl.load(x[0:128, 0:512])
        m = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.tensor_reduce(m, nl.max, a, axis=[1], negate=True)
        e, s, r, t = (nl.ndarray((128, 512), dtype=nl.float32) for _ in range(4))
        nisa.activation(e, nl.exp, a, bias=m, scale=1.0)
        nisa.tensor_scalar(s, e, nl.multiply, 2.0, op1=nl.add, operand1=m)
        nisa.reciprocal(r, s)
        nisa.tensor_tensor(t, r, s, nl.add)
        """,
    ),
    "statistics": (
        """
        a = nl.load(x[0:128, 0:512])
        stats = nl.ndarray((128, 6), dtype=nl.float32)
        stats[:, :] = nisa.bn_stats(a)
        both = nisa.bn_aggr(stats)
        """,
        """
        a = nl.load(x[0:128, 0:512])
        stats, six, both = (nl.ndarray((128, n), dtype=nl.float32) for n in (6, 6, 2))
        nisa.bn_stats(six, a)
        stats[:, :] = six
        nisa.bn_aggr(both, stats)
        """,
    ),
    "iota of an expression": (
        "nisa.iota(3 + 4 * nl.arange(128)[:, None] + 2 * nl.arange(16)[None, :], dtype=nl.int32)",
        """
        found = nl.ndarray((128, 16), dtype=nl.int32)
        nisa.iota(found, [[2, 16]], offset=3, channel_multiplier=4)
        """,
    ),
    "a mask on reductions": (
        """
        i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        a = nl.load(x[0:128, 0:512])
        m = nisa.tensor_reduce(nl.max, a.reshape((128, 4, 128)), axis=[2], mask=(nl.arange(128)[:, None, None] < 100))
        s = nl.sum(a, axis=1, mask=(i_p < 100) & (i_f < 256))
        """,
        """
        a = nl.load(x[0:128, 0:512])
        m = nl.ndarray((128, 4), dtype=nl.float32)
        nisa.tensor_reduce(m[0:100], nl.max, a.reshape((128, 4, 128))[0:100], axis=[2])
        nl.sum(a[0:100, 0:256], axis=1)
        """,
    ),
    "arithmetic on tiles": (
        """
        a, b = nl.load(x[0:128, 0:512]), nl.load(x[128:256, 0:512])
        c = (a - b) * 2.0
        a += c
        """,
        """
        a, b = nl.load(x[0:128, 0:512]), nl.load(x[128:256, 0:512])
        c = nl.multiply(nl.subtract(a, b), 2.0)
        a[:, :] += c
        """,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_old_kernel_touches_what_its_counterpart_does(name: str, tmp_path: Path) -> None:
    header = OLD.replace("import neuronxcc", "import numpy as np\nimport neuronxcc", 1)
    old, new = (
        run(tmp_path, _dedented(body), header=head, name=which)
        for body, head, which in zip(PAIRS[name], (header, NEW), ("old", "new"), strict=True)
    )
    for each in (old, new):
        assert not [str(one) for one in each.diagnostics if one.severity is Severity.ERROR]
    names = {"nki.load": "copy", "nki.assign": "copy", "nki.dma_copy": "copy"}
    sides = [[(names.get(opcode, opcode), *rest) for opcode, *rest in operands(each.trace)] for each in (old, new)]
    assert sides[0] == sides[1]
    assert sides[0] or name == "a mask that keeps nothing"


def _dedented(body: str) -> str:
    lines = body.strip("\n").splitlines()
    cut = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[cut:] for line in lines)


WRONG = {
    "tile = nl.load(x[129 + i_p, i_f])": ("out-of-bounds", "elements 129:257 are outside of dimension 0"),
    "tile = nl.load(x[i_p, i_f + 1], mask=(i_f < 512))": ("out-of-bounds", "elements 1:513"),
    "tile = nl.load(x[i_p // 2, i_f])": ("kernel-error", "not affine"),
    "tile = nl.load(x[i_p, 0:512])": ("kernel-error", "do not mix"),
    "tile = nl.load(x[i_p, i_f], mask=(i_p >= i_f))": ("kernel-error", "does not keep a box"),
    "tile = nl.load(x[i_p, i_f], mask=(nl.arange(7)[None, :] < 3))": ("kernel-error", "does not fit"),
    "tile = nl.load(x[i_p, i_f, i_p])": ("kernel-error", "too many indices"),
    "tile = nisa.nc_transpose(nl.load(x[0:128, 0:64]), mask=(i_p < 3))": ("kernel-error", "no counterpart"),
    "tile = nl.load(x[0:128, :], mask=nl.load(x[0:128, :]) > 0)": ("kernel-error", "found a tensor"),
    "tile = nisa.reciprocal(nl.ndarray((2, nl.par_dim(4), 8), nl.float32))": ("kernel-error", "block dimensions"),
    "tile = nl.load(x[i_p, nl.arange(3)[:, None]])": ("kernel-error", "do not fit"),
    "tile = nl.load(x[0.5 * i_p, i_f])": ("kernel-error", "must have integers"),
    "tile = nl.loop_reduce(nl.load(x[i_p, i_f]), nl.add, [3])": ("kernel-error", "indices of loops"),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_does_not_map_is_told_at_its_line(line: str, tmp_path: Path) -> None:
    setup = "i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]\n"
    found = run(tmp_path, setup + line)
    code, says = WRONG[line]
    first = found.diagnostics[0]
    assert first.code == code, str(first)
    assert says in first.message
    assert first.span is not None
    assert first.span.line == line_of(f"{tmp_path}/kernels.py::kernel", line)


def test_the_style_is_a_note_in_the_old_package_and_a_warning_in_the_new_one(tmp_path: Path) -> None:
    body = "tile = nisa.tensor_copy(nl.load(x[0:128, :]))\nother = nisa.reciprocal(tile)"
    assert codes(run(tmp_path, body)) == ["old-style"]
    found = run(tmp_path, body, header=NEW)
    assert codes(found) == ["removed-api"]
    assert found.diagnostics[0].severity is Severity.WARNING


def test_a_load_reads_and_writes_what_its_mask_keeps(tmp_path: Path) -> None:
    """The rest of the tile stays undefined, and is reported if it reaches an output."""
    body = """
out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
tile = nl.load(x[192 + i_p, i_f], mask=(192 + i_p < 256))
nl.store(out[i_p, i_f], tile)
return out
"""
    assert "uninitialized-read" in codes(run(tmp_path, body))
    masked = body.replace("tile)\n", "tile, mask=(i_p < 64))\n").replace(
        "out = nl.ndarray((128", "out = nl.ndarray((64"
    )
    assert codes(run(tmp_path, masked)) == []


def test_the_first_sum_in_psum_overwrites(tmp_path: Path) -> None:
    """As a matrix multiplication does; a sum onto what a fill has written adds."""
    body = """
a = nl.load(x[0:128, 0:64])
psum = nl.{make}((2, nl.par_dim(64), 64), nl.float32, buffer=nl.psum)
for i in range(2):
    for _ in range(2):
        psum[i] += nisa.nc_matmul(a, a)
"""
    for make, expected in (("ndarray", ["nki.copy", "nki.add"]), ("zeros", ["nki.add", "nki.add"])):
        found = run(tmp_path, body.format(make=make))
        assert codes(found) == ["old-style"]
        sums = [each.opcode for each in found.trace.recorders[0].records if each.opcode in ("nki.add", "nki.copy")]
        assert sums == expected * 2


def test_operands_in_psum_are_moved_to_where_the_engine_reads(tmp_path: Path) -> None:
    body = """
a = nl.load(x[0:128, 0:128])
turned = nisa.nc_transpose(a)
product = nisa.nc_matmul(turned, a)
cut = nisa.affine_select(pred=(nl.arange(128)[:, None] >= nl.arange(128)[None, :]), on_true_tile=product,
                         on_false_value=0.0)
"""
    found = run(tmp_path, body)
    assert codes(found) == ["old-style"]
    names = [each.opcode for each in found.trace.recorders[0].records]
    assert names == ["nki.load", "nki.nc_transpose", "nki.copy", "nki.nc_matmul", "nki.copy", "nki.affine_select"]


@pytest.mark.parametrize("rows", [300, 384])
def test_undefined_rows_of_the_last_tile_do_no_harm(rows: int, tmp_path: Path) -> None:
    """A load with a mask, work on whole tiles, a store with the mask."""
    body = """
out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
for i in nl.affine_range(3):
    row = 128 * i + i_p
    tile = nl.load(x[row, i_f], mask=(row < {mask}))
    scale = nl.rsqrt(nl.mean(nl.square(tile), axis=1) + 1e-6)
    product = nl.copy(nl.matmul(tile, nl.ones((64, 64), nl.float32)))
    nl.store(out[row, i_f], nl.where(tile > 0, tile * scale, product), mask=(row < {rows}))
return out
"""
    tensor = hnki.tensor("f32", rows, 64)
    assert codes(run(tmp_path, body.format(rows=rows, mask=rows), x=tensor)) == []
    assert "uninitialized-read" in codes(run(tmp_path, body.format(rows=rows, mask=rows - 1), x=tensor))


def test_loop_reduce_sums_over_its_loop(tmp_path: Path) -> None:
    body = """
out = nl.ndarray((2, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
for i in nl.affine_range(2):
    for j in nl.affine_range(2):
        total = nl.loop_reduce(nl.load(x[128 * j : 128 * j + 128, :]), op=nl.add, loop_indices=[j])
    nl.store(out[i], total)
return out
"""
    found = run(tmp_path, body)
    assert codes(found) == []
    recorder = found.trace.recorders[0]
    opcodes = [each.opcode for each in recorder.records]
    assert opcodes == ["nki.load", "nki.copy", "nki.load", "nki.add", "nki.store"] * 2
    stores = [each for each in recorder.records if each.opcode == "nki.store"]
    assert stores[0].reads != stores[1].reads


def test_an_index_tensor_gathers_rows(tmp_path: Path) -> None:
    body = """
out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
rows = nl.load(idx[i_p, nl.arange(1)[None, :]])
nl.store(out[i_p, i_f], nl.load(x[rows, i_f]))
return out
"""
    values = np.arange(128, dtype=np.int32)[::-1].reshape(128, 1) * 2
    found = run(tmp_path, body, x=hnki.tensor("f32", 256, 512), idx=values)
    assert codes(found) == []
    recorder = found.trace.recorders[0]
    gather = [each for each in recorder.records if each.opcode == "nki.load"][1]
    read = {place for number, pattern in gather.reads if number == 0 for place in pattern_bytes(pattern, 256 * 2048)}
    assert read == {row * 2048 + byte for row in range(0, 256, 2) for byte in range(2048)}


def test_functions_of_the_language(tmp_path: Path) -> None:
    body = """
i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
a = nl.load(x[i_p, i_f])
shapes = {
    (64, 128): [nl.load_transpose2d(x[i_p, i_f]), nl.transpose(a)],
    (64, 64): [nl.matmul(a, a, transpose_x=True)],
    (128, 64): [
        nl.softmax(a, axis=1), nl.where(a > 0, a, 0.0), nl.exp(a), nl.rms_norm(a, a, axis=1), nl.dropout(a, 0.5),
        nl.zeros_like(a), nl.ones_like(a), nl.empty_like(a), nl.ones((128, 64), nl.float32),
        nl.rand((128, 64), nl.float32), nl.static_cast(a, nl.bfloat16), a.astype(nl.bfloat16),
        nl.matmul(nl.ones((128, 32), nl.float32), nl.ones((32, 64), nl.float32)), 1.0 - a, -a, a / 2.0, a <= 1.0,
    ],
    (128, 1): [nl.max(a, axis=1), nl.sum(a, axis=[1]), nl.mean(a, axis=-1), nl.min(a, axis=1, keepdims=True)],
}
for shape, tiles in shapes.items():
    for tile in tiles:
        assert tile.shape == shape, (shape, tile)
assert nl.static_cast(a, nl.bfloat16).dtype == nl.bfloat16
assert nl.fp32.min == nl.finfo(nl.float32).min < -3e38
"""
    found = run(tmp_path, body)
    assert codes(found) == [], [str(each) for each in found.diagnostics]


BROADCAST = """
tile = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=tile, value=1.0)
wide = tile.ap(pattern=[[0, 64], [1, 512]], offset=0)
total = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=total, src=wide)
"""


@pytest.mark.parametrize("is_old", [True, False])
def test_a_broadcast_over_partitions_is_a_warning_in_the_first_nki(tmp_path: Path, is_old: bool) -> None:
    body = BROADCAST + ("loaded = nl.load(x[0:64, :])\nnisa.activation(nl.exp, loaded)" if is_old else "")
    found = run(tmp_path, body, header=OLD if is_old else NEW, name=f"broadcast_{is_old}")
    assert ("old-style" in codes(found)) is is_old
    severities = {
        each.severity for each in found.diagnostics if any("rule ap-partition" in note for note in each.notes)
    }
    assert severities == {Severity.WARNING if is_old else Severity.ERROR}
