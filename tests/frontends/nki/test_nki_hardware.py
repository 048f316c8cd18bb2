"""What no core can do is an error at its line, and what it can do is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import checked, codes, line_of

import haulout.nki as hnki

HEAD = """
def kernel(x):
    a = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    q = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    h = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    i = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    for each in (a, b, p, q, h, column):
        nisa.memset(each, 0.0)
    nisa.memset(i, 0)
    {work}
"""
X = {"x": hnki.tensor("f32", 128, 128)}


def broken(folder: Path, work: str, **options: object) -> list[str]:
    """The hardware rules that the last line breaks."""
    kernel = HEAD.format(work=work)
    found = checked(folder, kernel, X, lnc=1, **options).diagnostics
    rules = [each for each in found if each.code == "hardware-rule"]
    line = line_of(f"{folder / 'kernels.py'}::kernel", work.splitlines()[-1].strip())
    assert all(each.labels[0].span is not None and each.labels[0].span.line == line for each in rules)
    return [each.message for each in rules]


@pytest.mark.parametrize(
    ("work", "says"),
    [
        ("nisa.nc_matmul(dst=a, stationary=a, moving=b)", "the tensor engine writes PSUM only"),
        ("nisa.nc_matmul(dst=p, stationary=a, moving=q)", "the tensor engine reads SBUF only"),
        ("nisa.nc_matmul(dst=p, stationary=i, moving=i)", "stationary is int32"),
        ("nisa.nc_matmul(dst=p, stationary=a, moving=h)", "moving bfloat16"),
        ("nisa.tensor_copy(dst=a, src=p, engine=nisa.gpsimd_engine)", "GpSimd, which does not reach PSUM"),
        ("nisa.tensor_tensor(dst=a, data1=a, data2=p, op=nl.power)", "nl.power runs on GpSimd"),
        ("nisa.iota(p, [[1, 128]])", "it runs on GpSimd"),
        ("nisa.tensor_tensor(dst=a, data1=p, data2=q, op=nl.add)", "data1 and data2 are both in PSUM"),
        ("nisa.scalar_tensor_tensor(a, p, nl.add, 1.0, nl.add, q)", "data and operand1 are both in PSUM"),
        ("nisa.tensor_copy(dst=a, src=x)", "compute engines reach SBUF and PSUM only"),
        ("nisa.dma_copy(dst=x, src=p)", "DMA does not read PSUM"),
        ("nisa.nc_transpose(dst=p, data=h)", "dst is float32, data bfloat16"),
        ("nisa.nc_transpose(dst=b, data=a)", "the vector engine transposes 32 by 32"),
        ("nisa.tensor_copy(dst=a[0:8, :], src=b[48:56, :])", "8 partitions from partition 48 of b"),
        ("nisa.tensor_copy(dst=a[32:96, :], src=b[0:64, :])", "64 partitions from partition 32 of a"),
        ("nisa.tensor_tensor(a, a, b[:, 0:64], nl.add)", "data2 has 64 elements in each partition, dst 128"),
        ("nisa.tensor_scalar(a, a, nl.add, b)", "operand0 has 128 elements in each partition; it takes one"),
        ("nisa.tensor_scalar(a, a, nl.add, h[:, 0:1])", "operand0 is bfloat16; it takes float32"),
        ("nisa.activation(a, nl.exp, a, scale=h[:, 0:1])", "scale is bfloat16; it takes float32"),
        ("nisa.tensor_tensor(a, a, b, nl.bitwise_and)", "nl.bitwise_and takes integers"),
        ("nisa.tensor_scalar(i, i, nl.left_shift, 2, op1=nl.add, operand1=1)", "nl.left_shift and nl.add"),
        ("nisa.tensor_scalar(a, a, nl.add, 1.0, op1=nl.multiply, operand1=2.0, engine=nisa.scalar_engine)", "scalar"),
        ("nisa.memset(i, 0.5)", "found 0.5"),
        ("nisa.dma_transpose(dst=a, src=x, axes=(0, 1))", "found (0, 1)"),
        ("nisa.dma_copy(dst=h, src=x, dge_mode=nisa.dge_mode.hwdge)", "src is float32, dst bfloat16"),
        ("nisa.max8(column, a[:, 0:4])", "src has 4 elements in each partition; it takes 8 to 16384"),
    ],
)
def test_an_instruction_that_cannot_be(tmp_path: Path, work: str, says: str) -> None:
    found = broken(tmp_path, work)
    assert any(says in message for message in found), found


@pytest.mark.parametrize(
    "work",
    [
        "nisa.nc_matmul(dst=p, stationary=a, moving=b)",
        "nisa.nc_matmul(dst=p, stationary=h, moving=h)",
        "nisa.tensor_copy(dst=a, src=p)",
        "nisa.tensor_copy(dst=a, src=p, engine=nisa.scalar_engine)",
        "nisa.tensor_copy(dst=a, src=b, engine=nisa.gpsimd_engine)",
        "nisa.tensor_tensor(dst=a, data1=p, data2=b, op=nl.add)",
        "nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.power)",
        "nisa.dma_copy(dst=a[48:56, :], src=x[0:8, :])",
        "nisa.tensor_copy(dst=a[96:104, :], src=b[32:40, :])",
        "nisa.tensor_copy(dst=a[64:128, :], src=b[0:64, :])",
        "nisa.nc_transpose(dst=p, data=a)",
        "nisa.nc_transpose(dst=b[0:32, 0:32], data=a[0:32, 0:32])",
        "nisa.tensor_scalar(a, a, nl.multiply, column, op1=nl.add, operand1=1.0, engine=nisa.scalar_engine)",
        "nisa.tensor_scalar(i, i, nl.left_shift, 2, op1=nl.bitwise_and, operand1=7)",
        "nisa.memset(i, 2.0)",
        "nisa.dma_transpose(dst=a, src=x)",
        "nisa.dma_copy(dst=h, src=x)",
    ],
)
def test_an_instruction_that_can_be(tmp_path: Path, work: str) -> None:
    assert broken(tmp_path, work) == []


@pytest.mark.parametrize(("target", "columns", "wrong"), [("gen3", 512, 0), ("gen3", 513, 1), ("gen4", 513, 0)])
def test_columns_of_a_matrix_multiplication(tmp_path: Path, target: str, columns: int, wrong: int) -> None:
    work = f"""moving = nl.ndarray((128, {columns}), dtype=nl.float32, buffer=nl.sbuf)
    wide = nl.ndarray((128, {columns}), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(moving, 0.0)
    nisa.nc_matmul(dst=wide, stationary=a, moving=moving)"""
    found = broken(tmp_path, work, target=target)
    assert len(found) == wrong
    assert all("moving has 513 elements in each partition; gen3 takes at most 512" in message for message in found)


@pytest.mark.parametrize(("address", "wrong"), [(0, 0), (2048, 0), (1792, 1)])
def test_a_result_lies_in_one_bank(tmp_path: Path, address: int, wrong: int) -> None:
    work = f"""banked = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum, address=(0, {address}))
    nisa.nc_matmul(dst=banked, stationary=a, moving=b)"""
    assert len(broken(tmp_path, work)) == wrong


@pytest.mark.parametrize(("first", "wrong"), [(0, 0), (16, 1), (32, 0)])
def test_a_tensor_that_the_kernel_places_counts_from_there(tmp_path: Path, first: int, wrong: int) -> None:
    work = f"""placed = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf, address=({first}, 0))
    nisa.memset(placed, 0.0)"""
    assert len(broken(tmp_path, work)) == wrong


@pytest.mark.parametrize(("columns", "wrong"), [(256, 0), (257, 1)])
def test_an_exchange_through_gpsimd_has_a_size(tmp_path: Path, columns: int, wrong: int) -> None:
    body = f"""
        def kernel(x):
            core = nl.program_id(0)
            mine = nl.ndarray((64, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            theirs = nl.ndarray((64, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(mine, 1.0)
            nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0,
                          dma_engine=nisa.dma_engine.gpsimd_dma)
        """
    found = checked(tmp_path, body, X)
    assert codes(found) == ["hardware-rule"] * wrong
    assert found.trace.recorders[0].records[-1].engine.name == "POOL"
