"""The tensor engine: products, where they are added, transposes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.sim.nki.nki_run import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    close,
    equal,
    f64,
    loaded,
    nisa,
    nl,
    numbers,
    run,
    stored,
    tile,
)


def _product(moving_columns: int = 96, **options: Any) -> Any:
    def kernel(s, m):
        dst = tile((s.shape[-1], m.shape[-1]), nl.float32, nl.psum)
        nisa.nc_matmul(dst=dst, stationary=loaded(s), moving=loaded(m), **options)
        return stored(dst)

    return kernel


@pytest.mark.parametrize("types", [(F32, F32), (BF16, BF16), (F16, BF16), (E4M3, E5M2)], ids=str)
def test_a_product_sums_over_partitions(types: Any) -> None:
    s, m = numbers(64, 48, dtype=types[0]), numbers(64, 96, dtype=types[1], seed=1)
    close(run(_product(), s, m), f64(s).T @ f64(m))


def test_float8_e4m3_has_infinity_and_ends_at_240() -> None:
    s = np.array([[240.0, np.inf]], np.float32).astype(E4M3)
    m = np.array([[1.0]], np.float32).astype(E4M3)
    equal(run(_product(), s, m), np.array([[240.0], [np.inf]], np.float32))


def test_double_row_sums_over_two_rows_of_each_partition() -> None:
    s, m = numbers(32, 2, 16, dtype=E4M3), numbers(32, 2, 24, dtype=E4M3, seed=1)

    def kernel(s, m):
        dst = tile((16, 24), nl.float32, nl.psum)
        mode = nisa.matmul_perf_mode.double_row
        nisa.nc_matmul(dst=dst, stationary=loaded(s), moving=loaded(m), perf_mode=mode)
        return stored(dst)

    close(run(kernel, s, m), np.einsum("kim,kin->mn", f64(s), f64(m)))


def _twice(first: bool | None, second: bool | None) -> Any:
    def kernel(s, m):
        dst = tile((s.shape[1], m.shape[1]), nl.float32, nl.psum)
        one, two = loaded(s), loaded(m)
        nisa.nc_matmul(dst=dst, stationary=one, moving=two, accumulate=first)
        nisa.nc_matmul(dst=dst, stationary=one, moving=two, accumulate=second)
        return stored(dst)

    return kernel


@pytest.mark.parametrize(
    ("first", "second", "times"),
    [(None, None, 2), (False, True, 2), (None, True, 2), (None, False, 1), (False, None, 2)],
)
def test_a_later_product_is_added_or_overwrites(first: bool | None, second: bool | None, times: int) -> None:
    s, m = numbers(32, 16), numbers(32, 24, seed=1)
    close(run(_twice(first, second), s, m), times * (f64(s).T @ f64(m)))


def test_the_first_product_overwrites_a_memset_and_each_element_counts_by_itself() -> None:
    s, m = numbers(32, 16), numbers(32, 24, seed=1)

    def kernel(s, m):
        dst = tile((16, 24), nl.float32, nl.psum)
        nisa.memset(dst=dst, value=5.0)
        one, two = loaded(s), loaded(m)
        nisa.nc_matmul(dst=dst[:, 0:16], stationary=one, moving=two[:, 0:16])
        nisa.nc_matmul(dst=dst[:, 8:24], stationary=one, moving=two[:, 8:24])
        return stored(dst)

    product = f64(s).T @ f64(m)
    product[:, 8:16] *= 2
    close(run(kernel, s, m), product)


def test_a_new_allocation_begins_anew() -> None:
    s, m = numbers(32, 16), numbers(32, 24, seed=1)

    def kernel(s, m):
        one, two = loaded(s), loaded(m)
        for _ in range(3):
            dst = tile((16, 24), nl.float32, nl.psum)
            nisa.nc_matmul(dst=dst, stationary=one, moving=two)
        return stored(dst)

    close(run(kernel, s, m), f64(s).T @ f64(m))


def test_psum_holds_float32_sums_of_narrow_products() -> None:
    s = np.ones((128, 1), BF16)
    m = np.concatenate([np.full((1, 1), 256.0), np.full((127, 1), 1.0)]).astype(BF16)
    equal(run(_product(), s, m), np.array([[383.0]], np.float32))


def test_a_product_with_itself_as_the_identity_transposes_bits() -> None:
    x = numbers(48, 32, dtype=BF16)
    x[0, 0] = np.nan

    def kernel(x):
        eye = nl.shared_identity_matrix(48, dtype=nl.bfloat16)
        dst = tile((32, 48), nl.bfloat16, nl.psum)
        nisa.nc_matmul(dst=dst, stationary=loaded(x), moving=eye, is_transpose=True)
        return stored(dst)

    equal(run(kernel, x), np.ascontiguousarray(x.T))


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_nc_transpose_on_the_tensor_engine(dtype: Any) -> None:
    def kernel(x):
        dst = tile((x.shape[1] * x.shape[2], x.shape[0]), x.dtype, nl.psum)
        nisa.nc_transpose(dst=dst, data=loaded(x))
        return stored(dst)

    x = numbers(64, 4, 8, dtype=dtype)
    equal(run(kernel, x), np.ascontiguousarray(x.reshape(64, 32).T))


def test_nc_transpose_on_the_vector_engine_keeps_any_bits() -> None:
    x = np.random.default_rng(0).integers(0, 1 << 16, (32, 32)).astype(np.uint16)

    def kernel(x):
        dst = tile((32, 32), nl.uint16)
        nisa.nc_transpose(dst=dst, data=loaded(x), engine=nisa.vector_engine)
        return stored(dst)

    equal(run(kernel, x), np.ascontiguousarray(x.T))


def _mx(s, m, ss, ms):
    dst = tile((s.shape[1], m.shape[1]), nl.float32, nl.psum)
    nisa.nc_matmul_mx(
        dst=dst,
        stationary=loaded(s).view(nl.float8_e4m3fn_x4),
        moving=loaded(m).view(nl.float8_e5m2_x4),
        stationary_scale=loaded(ss),
        moving_scale=loaded(ms),
    )
    return stored(dst)


def test_a_product_of_scaled_packed_elements() -> None:
    random = np.random.default_rng(0)
    s, m = (random.standard_normal((64, 8, 4)) for _ in range(2))
    s, m = s.astype(ml_dtypes.float8_e4m3fn), m.astype(ml_dtypes.float8_e5m2)
    ss, ms = (random.integers(120, 130, (64, 8)).astype(np.uint8) for _ in range(2))
    want = np.zeros((8, 8))
    for k in range(64):
        row = 32 * (k // 32) + (k % 32) // 8
        for i in range(8):
            for j in range(8):
                scale = 2.0 ** (int(ss[row, i]) - 127) * 2.0 ** (int(ms[row, j]) - 127)
                want[i, j] += scale * (f64(s[k, i]) * f64(m[k, j])).sum()
    packed = [np.ascontiguousarray(each).view(np.uint32)[..., 0] for each in (s, m)]
    close(run(_mx, *packed, ss, ms, target="gen4"), want)


def test_four_bit_elements_are_unpacked_from_the_lowest_bits_up() -> None:
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    codes = np.random.default_rng(0).integers(0, 16, (32, 4, 4))
    packed = sum(codes[..., q] << 4 * q for q in range(4)).astype(np.uint16)
    ones = np.ones((32, 2, 4), ml_dtypes.float8_e4m3fn).view(np.uint32)[..., 0]
    scale = np.full((32, 4), 127, np.uint8)

    def kernel(s, m, scale):
        dst = tile((4, 2), nl.float32, nl.psum)
        one = loaded(scale)
        nisa.nc_matmul_mx(
            dst=dst,
            stationary=loaded(s).view(nl.float4_e2m1fn_x4),
            moving=loaded(m).view(nl.float8_e4m3fn_x4),
            stationary_scale=one,
            moving_scale=one[:, 0:2],
        )
        return stored(dst)

    want = np.array(values)[codes].sum(axis=(0, 2))
    close(run(kernel, packed, ones, scale, target="gen4"), np.stack([want, want], axis=1))


@pytest.mark.parametrize(("name", "most"), [("float8_e4m3fn", 8), ("float8_e5m2", 15)])
def test_quantize_mx_scales_by_the_largest_of_8_partitions_and_4_elements(name: str, most: int) -> None:
    x = numbers(32, 16, dtype=BF16, scale=3)
    x[8:16, 4:8] = 0
    dtype = np.dtype(getattr(ml_dtypes, name))

    def kernel(x):
        dst = tile((32, 4), f"{name}_x4")
        scale = tile((4, 4), nl.uint8)
        nisa.quantize_mx(dst=dst, src=loaded(x), dst_scale=scale)
        return stored(dst.view(nl.uint32)), stored(scale)

    packed, scales = run(kernel, x, target="gen4")
    got = packed[..., None].view(dtype)
    for group in range(4):
        for column in range(4):
            part = f64(x[8 * group : 8 * group + 8, 4 * column : 4 * column + 4])
            largest = np.abs(part).max()
            byte = 0 if largest == 0 else int(np.floor(np.log2(largest))) - (most - 1) + 127
            assert scales[group, column] == byte
            want = (part / 2.0 ** (byte - 127)).astype(np.float32).astype(dtype)
            assert np.array_equal(f64(got[8 * group : 8 * group + 8, column]), f64(want))
