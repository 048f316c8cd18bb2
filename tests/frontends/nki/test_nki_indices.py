"""Indices that are known while tracing: out of bounds they are said, and moves keep them exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.frontends.nki.nki_kernels import checked, codes, line_of

import haulout.nki as hnki
from haulout.frontends.nki.values import Bits, Values, converted, decode, encode
from haulout.support.diagnostics import Severity

TABLE = {"table": hnki.tensor("f32", 16, 8)}

GATHER = """
def kernel(table, index):
    at = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=index)
    rows = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(rows, 0.0)
    moved = table.ap([[8, 4], [1, 8]], vector_offset=at, indirect_dim=0)
    {work}
"""
READ = "nisa.dma_copy(dst=rows, src=moved{mode})"
WRITE = "nisa.dma_copy(dst=moved, src=rows{mode})"


def column(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32).reshape(-1, 1)


@pytest.mark.parametrize("work", [READ, WRITE])
@pytest.mark.parametrize("wrong", [16, -1, 2000])
def test_a_known_index_out_of_bounds(tmp_path: Path, work: str, wrong: int) -> None:
    arguments = {**TABLE, "index": column(3, wrong, 15, wrong)}
    found = checked(tmp_path, GATHER.format(work=work.format(mode="")), arguments, lnc=1)
    assert codes(found) == ["out-of-bounds"]
    finding = found.diagnostics[0]
    assert f"index {wrong} (element 1 of at)" in finding.message
    assert "which has 512" in finding.message
    assert finding.notes == ("2 of 4 indices leave it",)
    assert finding.labels[0].span is not None
    assert finding.labels[0].span.line == line_of(f"{tmp_path / 'kernels.py'}::kernel", work.partition("{")[0])


@pytest.mark.parametrize("work", [READ, WRITE])
def test_what_is_skipped_or_inside_is_no_finding(tmp_path: Path, work: str) -> None:
    inside = {**TABLE, "index": column(0, 15, 3, 3)}
    assert codes(checked(tmp_path, GATHER.format(work=work.format(mode="")), inside, lnc=1)) == []
    skipped = GATHER.format(work=work.format(mode=", oob_mode=nisa.oob_mode.skip"))
    assert codes(checked(tmp_path, skipped, {**TABLE, "index": column(0, -1, 99, 3)}, lnc=1)) == []
    unknown = {**TABLE, "index": hnki.tensor("i32", 4, 1)}
    assert codes(checked(tmp_path, GATHER.format(work=work.format(mode="")), unknown, lnc=1)) == []


def test_a_register_and_a_gather_inside_partitions(tmp_path: Path) -> None:
    scalar = GATHER.format(
        work="""row = nisa.register_alloc(at[1:2, :])
    nisa.dma_copy(dst=rows[0:1, :], src=table.ap([[8, 1], [1, 8]], scalar_offset=row, indirect_dim=0))"""
    )
    found = checked(tmp_path, scalar, {**TABLE, "index": column(3, 16, 2, 2)}, lnc=1)
    assert codes(found) == ["out-of-bounds"]
    assert "index 16 (the register)" in found.diagnostics[0].message
    inner = GATHER.format(
        work="""picked = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_n_gather(picked, rows, at.view(nl.uint32))"""
    )
    assert codes(checked(tmp_path, inner, {**TABLE, "index": column(0, 8, 2, 2)}, lnc=1)) == ["out-of-bounds"]
    assert codes(checked(tmp_path, inner, {**TABLE, "index": column(0, 7, 2, 2)}, lnc=1)) == []


# -- moves -----------------------------------------------------------------------------------------------------------

SCATTER = """
def kernel(x, index):
    core = nl.program_id(0)
    at = nl.ndarray((32, 1), dtype=nl.int32, buffer=nl.sbuf)
    row = nl.ndarray((1, 32), dtype=nl.int32, buffer=nl.sbuf)
    {load}
    tile = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[32 * core : 32 * core + 32, :])
    out = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out.ap([[8, 32], [1, 8]], vector_offset=at, indirect_dim=0), src=tile)
    return out
"""
ROW = "nisa.dma_copy(dst=row, src=index[core : core + 1, :])"
MOVES = {
    "dma_transpose": "nisa.dma_transpose(dst=at, src=index[core : core + 1, :])",
    "dma_transpose with axes": "nisa.dma_transpose(dst=at.ap([[1, 32], [1, 1], [1, 1], [1, 1]]), "
    "src=index.ap([[32, 1], [1, 1], [1, 1], [1, 32]], offset=32 * core), axes=(3, 1, 2, 0))",
    "nc_transpose": f"{ROW}\n    nisa.nc_transpose(dst=at, data=row)",
    "nc_transpose through PSUM, as float32": f"""{ROW}
    turned = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=row.view(nl.float32))
    nisa.tensor_copy(dst=at.view(nl.float32), src=turned)""",
    "nc_matmul with the identity": f"""{ROW}
    numbers = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=numbers, src=row)
    turned = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.psum)
    one = nl.shared_identity_matrix(1, nl.float32)
    nisa.nc_matmul(dst=turned, stationary=numbers, moving=one, is_transpose=True)
    nisa.tensor_copy(dst=at, src=turned)""",
    "reshape": "nisa.dma_copy(dst=at, src=index.reshape((64, 1))[32 * core : 32 * core + 32, :])",
    "uint32": "nisa.dma_copy(dst=at.view(nl.uint32), src=index.view(nl.uint32).reshape((64, 1))[32 * core :"
    " 32 * core + 32, :])",
    "bytes": "nisa.dma_copy(dst=at.view(nl.uint8), src=index.reshape((64, 1)).view(nl.uint8)[32 * core :"
    " 32 * core + 32, :])",
    "float32 and back": f"""{ROW}
    numbers = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=numbers, op=nl.copy, data=row, scale=1.0)
    nisa.dma_transpose(dst=at.view(nl.float32), src=numbers)
    nisa.tensor_copy(dst=at, src=at.view(nl.float32))""",
    "nl.load and item assignment": "at[...] = nl.load(index.reshape((64, 1))[32 * core : 32 * core + 32, :])",
    "piece by piece": """for p in range(32):
        nisa.dma_copy(dst=at[p : p + 1, :], src=index[core : core + 1, p : p + 1])""",
    "arithmetic": """nisa.dma_transpose(dst=at, src=index[core : core + 1, :])
    nisa.tensor_scalar(dst=at, data=at, op0=nl.left_shift, operand0=3, op1=nl.right_shift, operand1=3)
    nisa.tensor_scalar(dst=at, data=at, op0=nl.bitwise_and, operand0=63)""",
    "shuffle": """nisa.dma_transpose(dst=at, src=index[core : core + 1, :])
    nisa.nc_stream_shuffle(dst=at, src=at, shuffle_mask=[31 - p for p in range(32)])""",
    "known rows of a known table": """pick = nl.ndarray((32, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(pick, [[1, 1]], offset=32 * core, channel_multiplier=1)
    nisa.dma_copy(dst=at, src=index.reshape((64, 1)).ap([[1, 32], [1, 1]], vector_offset=pick, indirect_dim=0))""",
}


@pytest.mark.parametrize("load", MOVES.values(), ids=list(MOVES))
def test_known_indices_stay_exact_through_moves(tmp_path: Path, load: str) -> None:
    x = {"x": hnki.tensor("f32", 64, 8)}
    apart = np.random.default_rng(1).permutation(64).astype(np.int32).reshape(2, 32)
    meet = apart.copy()
    meet[1, 5] = meet[0, 7]
    body = SCATTER.format(load=load)
    assert codes(checked(tmp_path, body, {**x, "index": apart})) == []
    found = codes(checked(tmp_path, body, {**x, "index": meet}))
    assert "cross-core-race" in found
    assert "possible-race" not in found
    assert "possible-race" in codes(checked(tmp_path, body, {**x, "index": hnki.tensor("i32", 2, 32)}))


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("nisa.iota(at, [[1, 1]], offset={offset}, channel_multiplier=1)", []),
        ("nisa.iota(at, [[1, 1]], offset={offset}, channel_multiplier=0)", ["cross-core-race"]),
        ("nisa.memset(at, {offset})", []),
        (
            "nisa.dma_copy(dst=at, src=nl.shared_constant([[p] for p in range(32)], dtype=nl.int32))\n"
            "    nisa.tensor_scalar(dst=at, data=at, op0=nl.add, operand0={offset})",
            [],
        ),
    ],
)
def test_indices_that_the_kernel_makes(tmp_path: Path, load: str, expected: list[str]) -> None:
    x = {"x": hnki.tensor("f32", 64, 8), "index": hnki.tensor("i32", 2, 32)}
    races = {"cross-core-race", "possible-race"}
    apart = codes(checked(tmp_path, SCATTER.format(load=load.format(offset="32 * core")), x))
    same = codes(checked(tmp_path, SCATTER.format(load=load.format(offset="0")), x))
    assert races.isdisjoint(apart)
    assert "cross-core-race" in same


def test_rows_that_no_given_index_names_are_a_note(tmp_path: Path) -> None:
    load = "nisa.dma_transpose(dst=at, src=index[core : core + 1, :])"
    x = {"x": hnki.tensor("f32", 64, 8), "index": np.arange(64, dtype=np.int32).reshape(2, 32)}
    body = SCATTER.format(load=load).replace("(64, 8)", "(96, 8)")
    found = checked(tmp_path, body, x)
    assert codes(found) == ["output-not-written"]
    assert found.ok
    # A column that no index reaches is not written whatever the indices are.
    narrow = body.replace("[1, 8]]", "[1, 7]]").replace("src=tile)", "src=tile[:, 0:7])")
    found = checked(tmp_path, narrow, x)
    assert codes(found) == ["output-not-written"]
    assert not found.ok


@pytest.mark.parametrize("writer", [0, 1])
def test_an_argument_that_some_core_writes_is_not_what_was_given(tmp_path: Path, writer: int) -> None:
    body = f"""
        def kernel(table, index):
            core = nl.program_id(0)
            at = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
            other = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.memset(other, 1)
            if core == {writer}:
                nisa.dma_copy(dst=index, src=other)
            nisa.core_barrier(index, (0, 1))
            nisa.dma_copy(dst=at, src=index)
            rows = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=rows, src=table.ap([[8, 4], [1, 8]], vector_offset=at, indirect_dim=0))
        """
    found = checked(tmp_path, body, {**TABLE, "index": column(3, 99, 2, 1)})
    assert codes(found) == []
    assert all(recorder.records[-1].maybe for recorder in found.trace.recorders)


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "number", "stored"),
    [
        ("int32", 2.5, 2.0),
        ("int32", 3.5, 4.0),
        ("uint8", 300.0, 255.0),
        ("uint32", -4.0, 0.0),
        ("int8", -200.0, -128.0),
        ("bfloat16", 257.0, 256.0),
        ("float16", 2049.0, 2048.0),
        ("float32", 0.1, float(np.float32(0.1))),
        ("bool", 3.0, 1.0),
    ],
)
def test_numbers_are_stored_as_the_type_has_them(dtype: str, number: float, stored: float) -> None:
    assert decode(encode(np.array([number, np.nan]), dtype), dtype)[0] == stored
    assert np.isnan(decode(encode(np.array([number, np.nan]), dtype), dtype)[1])


def test_a_conversion_goes_through_float32_and_a_move_keeps_the_bits() -> None:
    big = Bits(np.array([(1 << 24) + 1, 1 << 24], np.uint32), np.ones(2, bool))
    assert np.isnan(decode(converted(big, "int32", "uint32"), "uint32")).tolist() == [True, False]
    assert converted(big, "int32", "int32") is big
    minus_one = encode(np.array([-1.0]), "int32")
    # As float32 it is no number; its bits are -1 all the same.
    assert np.isnan(decode(minus_one, "float32")).all()
    assert decode(converted(minus_one, "float32", "float32"), "int32").tolist() == [-1.0]


def test_an_element_is_known_when_all_of_its_bytes_are() -> None:
    values = Values(8)
    values.write(np.array([0, 1, 2]), 2, Bits(np.array([1, 2, 3], np.uint16), np.ones(3, bool)))
    assert values.read(np.array([0, 1]), 4).known.tolist() == [True, False]
    assert values.read(np.array([0]), 4).bits.tolist() == [1 + (2 << 16)]
    values.write(np.array([0]), 1, None)
    assert values.read(np.array([0, 1]), 2).known.tolist() == [False, True]


CLEARED = """
def kernel(x, index):
    out = nl.ndarray((2, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    at = nl.ndarray((2, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=index)
    nisa.dma_copy(dst=nl.ndarray((2, 64), dtype=x.dtype, buffer=nl.sbuf), src=x)
    t = nl.ndarray((2, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(t.ap(pattern=[[64, 2], [1, 32]], scalar_offset=at[0:1], indirect_dim=1), {value})
    nisa.dma_copy(dst=out, src=t)
    return out
"""


@pytest.mark.parametrize("value", ["0.0", "1.0"])
def test_a_fill_at_an_unknown_place_fills_not_all(tmp_path: Path, value: str) -> None:
    arguments = {"x": hnki.tensor("f32", 2, 64), "index": hnki.tensor("i32", 2, 1)}
    found = checked(tmp_path, CLEARED.format(value=value), arguments, lnc=1)
    assert [(each.code, each.severity) for each in found.diagnostics] == [("uninitialized-read", Severity.NOTE)]
    subject = found.diagnostics[0].subject
    assert subject is not None and [each.name for each in subject.locations] == ["t"]
