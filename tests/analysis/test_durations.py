"""Durations: bytes and flops of single instructions, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from haulout.analysis.durations import contraction_flops, durations
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.target import load_target

TARGET = load_target("generic")


def program(locations: list[str], instruction: str) -> Program:
    lines = "\n".join(f"    mloc {each}" for each in locations)
    return parse_bir(
        f'bir 1\nprogram "p" lnc=1\nmodule @nc0 core=0 {{\n  func @main {{\n{lines}\n    block ^e:\n'
        f"      %i0 = {instruction}\n  }}\n}}\n"
    )


def dram(name: str, shape: list[int], dtype: str = "f32") -> str:
    size = int(np.prod(shape)) * (4 if dtype == "f32" else 2)
    return f"%{name} dram.local size={size} dtype={dtype} shape=[{','.join(map(str, shape))}]"


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_dot_does_two_flops_a_product(dtype: str) -> None:
    shapes = {"x": [3, 5, 7], "y": [3, 7, 11], "z": [3, 5, 11]}
    text = "dot @pe (%x, %y) -> (%z) lhs_batch=[0] rhs_batch=[0] lhs_contracting=[2] rhs_contracting=[1]"
    made = program([dram(name, shape, dtype) for name, shape in shapes.items()], text)
    rows, flops, wide = contraction_flops(made)
    assert rows.tolist() == [0]
    assert flops[0] == pytest.approx(2 * 3 * 5 * 7 * 11)
    assert wide[0] == (dtype == "f32")


def test_a_plain_dot_and_the_target_s_rates() -> None:
    made = program(
        [dram("x", [512, 1024]), dram("y", [1024, 2048]), dram("z", [512, 2048])],
        "dot @pe (%x, %y) -> (%z) lhs_contracting=[1] rhs_contracting=[0]",
    )
    flops = 2 * 512 * 1024 * 2048
    # 10,000 GFLOPS, half of that on four bytes; the bytes take less.
    assert durations(made, TARGET)[0] == pytest.approx(0.01 + flops / 5e6)
    slow = replace(TARGET, dram_gbytes_per_s=1.0)
    moved = 4 * (512 * 1024 + 1024 * 2048 + 512 * 2048)
    assert durations(made, slow)[0] == pytest.approx(0.01 + moved / 1e3)


def test_a_convolution_counts_the_taps_of_an_output() -> None:
    made = program(
        [dram("x", [2, 16, 16, 8]), dram("k", [3, 3, 4, 32]), dram("y", [2, 14, 14, 32])],
        'convolution @pe (%x, %k) -> (%y) dim_labels="b01f_01io->b01f" feature_groups=2',
    )
    assert contraction_flops(made)[1][0] == pytest.approx(2 * (2 * 14 * 14 * 32) * (3 * 3 * 4))


def test_shapes_of_the_instruction_come_before_those_of_the_location() -> None:
    made = program(
        [dram("x", [15, 7]), dram("y", [21, 11]), dram("z", [15, 11])],
        "dot @pe (%x, %y) -> (%z) shapes=[[3,5,7],[3,7,11],[3,5,11]] lhs_batch=[0] rhs_batch=[0] "
        "lhs_contracting=[2] rhs_contracting=[1]",
    )
    assert contraction_flops(made)[1][0] == pytest.approx(2 * 3 * 5 * 7 * 11)


@pytest.mark.parametrize(
    ("locations", "text", "micros"),
    [
        # a copy moves its bytes once through the queue, twice through DRAM
        ([dram("x", [25000]), dram("y", [25000])], "dma_copy @dma0 (%x) -> (%y)", 0.5 + 100_000 / 50e3),
        # runs of 4 bytes cost as much as runs of 64
        ([dram("x", [2000]), dram("y", [1000])], "dma_copy @dma3 (%x[0;8x1000;4]) -> (%y)", 0.5 + 64_000 / 50e3),
        # element-wise work is bound by DRAM: two operands in, one out
        ([dram("x", [5000]), dram("y", [5000])], "add @vector (%x, %x) -> (%y)", 0.01 + 60_000 / 200e3),
        # ... and by the engine when nothing is in DRAM
        (
            ["%x sbuf size=20000 parts=1", "%y sbuf size=20000 parts=1"],
            "add @vector (%x, %x) -> (%y)",
            0.01 + 60_000 / 500e3,
        ),
        # a slice reads no more than it writes
        (
            [dram("x", [100000]), "%i dram.local size=4 dtype=s32 shape=[]", dram("y", [100])],
            "dynamic_slice @dma0 (%x, %i) -> (%y) sizes=[100]",
            0.5 + 400 / 50e3,
        ),
        # a gather's engine is four times slower; 16,000 bytes through DRAM
        (
            [dram("x", [10**6]), "%i dram.local size=8000 dtype=s32 shape=[2000]", dram("y", [2000])],
            "gather @pool (%x, %i) -> (%y)",
            0.01 + 4 * 16_000 / 250e3,
        ),
        ([], "nop @sync () -> ()", 0.0),
        ([], 'core_barrier @all () -> () name="b"', 0.0),
    ],
)
def test_bytes_over_rates(locations: list[str], text: str, micros: float) -> None:
    assert durations(program(locations, text), TARGET)[0] == pytest.approx(micros)
