"""Moves: copies with their casts, DMA with indices, transposes, shuffles, counts and gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.sim.nki.nki_run import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    equal,
    f64,
    loaded,
    nisa,
    nl,
    numbers,
    run,
    simulated,
    stored,
    tile,
)

from haulout.support.diagnostics import HauloutError

INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32)]


def _cast(dtype: Any) -> Any:
    def kernel(x):
        dst = tile(x.shape, dtype)
        nisa.tensor_copy(dst=dst, src=loaded(x))
        return stored(dst)

    return kernel


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_floats_become_integers_to_nearest_even_and_saturate(dtype: Any) -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 3.49, 1e20, -1e20, 127.5, 65535.7]], np.float32)
    limits = np.iinfo(dtype)
    want = [[min(max(round(float(each)), limits.min), limits.max) for each in x[0]]]
    equal(run(_cast(str(dtype)), x), np.array(want).astype(dtype))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bfloat16", BF16), ("float16", F16), ("float8_e4m3", E4M3), ("float8_e5m2", E5M2)],
)
def test_floats_are_rounded_to_nearest_even_in_a_narrower_type(name: str, dtype: Any) -> None:
    x = np.concatenate([numbers(1, 64, scale=40), [[1e30, -1e30, np.nan, 0.0]]], axis=1).astype(np.float32)
    with np.errstate(over="ignore"):
        want = f64(x.astype(dtype))
    assert np.array_equal(f64(run(_cast(name), x)), want, equal_nan=True)


def test_integers_go_through_float32_between_types_and_stay_within_one() -> None:
    x = np.array([[2**24 + 1, -(2**31), 7]], np.int32)
    equal(run(_cast("int32"), x), x)
    equal(run(_cast("float32"), x), np.array([[2.0**24, -(2.0**31), 7]], np.float32))


def test_a_copy_keeps_the_bits_of_a_nan() -> None:
    x = np.array([[0x7FC01234, 0xFFFFFFFF]], np.uint32).view(np.float32)
    equal(run(_cast("float32"), x), x)


@pytest.mark.parametrize("shape", [((4, 6), (2, 12)), ((24,), (4, 6)), ((2, 3, 4), (4, 6))])
def test_dma_copies_element_by_element_between_shapes(shape: Any) -> None:
    def kernel(x):
        staged = tile(shape[1] if len(shape[1]) > 1 else (1, 24), nl.bfloat16)
        nisa.dma_copy(dst=staged, src=x)
        return stored(staged)

    x = numbers(*shape[0])
    equal(run(kernel, x), x.astype(BF16).reshape(shape[1]))


def test_views_with_strides_and_offsets_name_their_elements() -> None:
    x = numbers(96, 40)

    def kernel(x):
        whole = loaded(x)
        part = tile((4, 10), nl.float32)
        nisa.tensor_copy(dst=part, src=whole[32:36, 3:33:3])
        turned = tile((4, 2, 3), nl.float32)
        nisa.tensor_copy(dst=turned, src=whole[64:68, 0:6].reshape((4, 3, 2)).permute((0, 2, 1)))
        pattern = tile((3, 8), nl.float32)
        nisa.dma_copy(dst=pattern, src=x.ap(pattern=[[41, 3], [2, 8]], offset=5))
        return stored(part), stored(turned), stored(pattern)

    one, two, three = run(kernel, x)
    equal(one, np.ascontiguousarray(x[32:36, 3:33:3]))
    equal(two, np.ascontiguousarray(x[64:68, 0:6].reshape(4, 3, 2).transpose(0, 2, 1)))
    equal(three, np.stack([x.reshape(-1)[5 + 41 * i : 21 + 41 * i : 2] for i in range(3)]))


def test_tensors_with_addresses_lie_over_each_other() -> None:
    def kernel(x):
        wide = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf, address=(32, 64))
        nisa.dma_copy(dst=wide, src=x)
        half = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf, address=(32, 80))
        copy = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        nisa.tensor_copy(dst=copy, src=half)
        rows = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=rows, src=copy)
        return rows

    x = numbers(4, 8)
    equal(run(kernel, x), np.ascontiguousarray(x[:, 4:8]))


def test_a_view_as_another_type_reads_the_bytes() -> None:
    def kernel(x):
        return stored(loaded(x).view(nl.uint16))

    x = numbers(4, 6)
    equal(run(kernel, x), x.view(np.uint16))


def _gather(mode: Any = None) -> Any:
    def kernel(table, index):
        where = loaded(index)
        dst = tile((index.shape[0], table.shape[1]), nl.float32)
        nisa.memset(dst=dst, value=-1.0)
        pattern = [[table.shape[1], index.shape[0]], [1, table.shape[1]]]
        src = table.ap(pattern=pattern, offset=0, vector_offset=where, indirect_dim=0)
        nisa.dma_copy(dst=dst, src=src, **({} if mode is None else {"oob_mode": mode}))
        return stored(dst)

    return kernel


def test_a_gather_takes_the_rows_of_its_index() -> None:
    table, index = numbers(50, 12), np.random.default_rng(0).integers(0, 50, (32, 1)).astype(np.int32)
    equal(run(_gather(), table, index), table[index[:, 0]])


def test_an_index_out_of_bounds_is_an_error_or_skips_its_row() -> None:
    # Computed on the device, so that the trace does not know it.
    table, index = numbers(50, 12), np.array([[3], [50], [7]], np.float32)

    def computed(mode: Any = None) -> Any:
        def kernel(table, index):
            where = tile((3, 1), nl.int32)
            nisa.tensor_copy(dst=where, src=loaded(index))
            dst = tile((3, 12), nl.float32)
            nisa.memset(dst=dst, value=-1.0)
            src = table.ap(pattern=[[12, 3], [1, 12]], offset=0, vector_offset=where, indirect_dim=0)
            nisa.dma_copy(dst=dst, src=src, **({} if mode is None else {"oob_mode": mode}))
            return stored(dst)

        return kernel

    with pytest.raises(HauloutError) as error:
        run(computed(), table, index)
    assert error.value.diagnostics[0].code == "out-of-bounds" and "index 50 of row 1" in str(error.value)
    equal(
        run(computed(nisa.oob_mode.skip), table, index), np.stack([table[3], np.full(12, -1, np.float32), table[7]])
    )


def test_a_scalar_index_out_of_bounds_skips_the_whole_copy() -> None:
    def kernel(x, index):
        where, dst = tile((1, 1), nl.int32), tile((1, 6), nl.float32)
        nisa.tensor_copy(dst=where, src=loaded(index))
        nisa.memset(dst=dst, value=-1.0)
        src = x.ap(pattern=[[6, 1], [1, 6]], offset=0, scalar_offset=where, indirect_dim=0)
        nisa.dma_copy(dst=dst, src=src, oob_mode=nisa.oob_mode.skip)
        return stored(dst)

    x = numbers(8, 6)
    equal(run(kernel, x, np.array([[7]], np.float32)), x[7:8])
    equal(run(kernel, x, np.array([[8]], np.float32)), np.full((1, 6), -1, np.float32))


def test_a_scatter_writes_the_rows_of_its_index() -> None:
    def kernel(x, index):
        out = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        zeros = tile((8, 6), nl.float32)
        nisa.memset(dst=zeros, value=0.0)
        nisa.dma_copy(dst=out, src=zeros)
        dst = out.ap(pattern=[[6, 4], [1, 6]], offset=0, vector_offset=loaded(index), indirect_dim=0)
        nisa.dma_copy(dst=dst, src=loaded(x))
        return out

    x, index = numbers(4, 6), np.array([[5], [0], [7], [2]], np.int32)
    want = np.zeros((8, 6), np.float32)
    want[index[:, 0]] = x
    equal(run(kernel, x, index), want)


def test_a_scalar_offset_moves_a_view() -> None:
    def kernel(x, index):
        where = loaded(index)
        dst = tile((1, 4), nl.float32)
        src = x.ap(pattern=[[6, 1], [1, 4]], offset=1, scalar_offset=where, indirect_dim=0)
        nisa.dma_copy(dst=dst, src=src)
        return stored(dst)

    x = numbers(8, 6)
    equal(run(kernel, x, np.array([[5]], np.int32)), x[5:6, 1:5])


def test_dma_compute_adds_and_gathers_into_its_destination() -> None:
    def kernel(x, y, index):
        one, where = loaded(x), loaded(index)
        nisa.dma_compute(
            dst=one,
            srcs=[y.ap(pattern=[[6, 4], [1, 6]], offset=0, vector_offset=where, indirect_dim=0), one],
            reduce_op=nl.add,
        )
        return stored(one)

    x, y, index = numbers(4, 6), numbers(9, 6, seed=1), np.array([[8], [1], [0], [3]], np.int32)
    equal(run(kernel, x, y, index), y[index[:, 0]] + x)


@pytest.mark.parametrize(
    ("shape", "axes"), [((16, 32), (1, 0)), ((4, 6, 16), (2, 1, 0)), ((2, 3, 4, 16), (3, 1, 2, 0))]
)
def test_dma_transpose_orders_the_axes(shape: Any, axes: Any) -> None:
    def kernel(x):
        dst = tile(tuple(shape[axis] for axis in axes), x.dtype)
        nisa.dma_transpose(dst=dst, src=x, axes=axes)
        return stored(dst)

    x = numbers(*shape, dtype=BF16)
    equal(run(kernel, x), np.ascontiguousarray(x.transpose(axes)))


def test_a_shuffle_moves_partitions_within_each_32() -> None:
    mask = [(7 * i + 3) % 32 for i in range(32)]
    mask[4] = mask[9] = 255

    def kernel(x, y):
        dst = loaded(y)
        nisa.nc_stream_shuffle(dst=dst, src=loaded(x), shuffle_mask=mask)
        return stored(dst)

    x, y = numbers(64, 5), numbers(64, 5, seed=1)
    want = y.copy()
    for quadrant in (0, 32):
        for i, lane in enumerate(mask):
            if lane != 255:
                want[quadrant + i] = x[quadrant + lane]
    equal(run(kernel, x, y), want)


def test_a_shuffle_broadcasts_one_partition() -> None:
    def kernel(x):
        dst = tile((32, 5), nl.float32)
        nisa.nc_stream_shuffle(dst=dst, src=loaded(x), shuffle_mask=[0] * 32)
        return stored(dst)

    x = numbers(1, 5)
    equal(run(kernel, x), np.tile(x, (32, 1)))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_predicated_copy_keeps_the_rest(reverse: bool) -> None:
    def kernel(x, y, p):
        dst = loaded(y)
        nisa.tensor_copy_predicated(dst=dst, src=loaded(x), predicate=loaded(p), reverse_pred=reverse)
        return stored(dst)

    x, y, p = numbers(8, 9), numbers(8, 9, seed=1), (numbers(8, 9, seed=2) > 0).astype(np.uint8)
    equal(run(kernel, x, y, p), np.where((p != 0) != reverse, x, y))


def test_iota_counts() -> None:
    def kernel(x):
        dst = tile((4, 2, 3), nl.int32)
        nisa.iota(dst=dst, pattern=[[10, 2], [-1, 3]], offset=5, channel_multiplier=100)
        return stored(dst)

    want = [[[5 + 100 * p + 10 * y - z for z in range(3)] for y in range(2)] for p in range(4)]
    equal(run(kernel, numbers(1, 1)), np.array(want, np.int32))


def test_affine_select_makes_a_causal_mask() -> None:
    def kernel(x):
        dst = tile((8, 8), nl.float32)
        nisa.affine_select(
            dst=dst,
            pattern=[[-1, 8]],
            channel_multiplier=1,
            on_true_tile=loaded(x),
            on_false_value=-7.0,
            cmp_op=nl.greater_equal,
        )
        return stored(dst)

    x = numbers(8, 8)
    equal(run(kernel, x), np.where(np.tri(8) > 0, x, np.float32(-7)))


@pytest.mark.parametrize(("name", "value"), [("float32", 2.5), ("bfloat16", -1.0), ("int32", 7), ("uint8", 200)])
def test_memset_fills(name: str, value: Any) -> None:
    def kernel(x):
        dst = tile((3, 5), name)
        nisa.memset(dst=dst, value=value)
        return stored(dst)

    got = run(kernel, numbers(1, 1))
    assert np.array_equal(f64(got), np.full((3, 5), value, np.float64))


def test_local_gather_has_one_list_for_16_partitions() -> None:
    random = np.random.default_rng(0)
    x, index = numbers(32, 40), random.integers(0, 40, (32, 3)).astype(np.uint16)

    def kernel(x, index):
        dst = tile((32, 48), nl.float32)
        nisa.local_gather(dst=dst, src_buffer=loaded(x), index=loaded(index))
        return stored(dst)

    want = np.empty((32, 48), np.float32)
    for p in range(32):
        order = [index[16 * (p // 16) + j % 16, j // 16] for j in range(48)]
        want[p] = x[p, order]
    equal(run(kernel, x, index), want)


def test_nc_n_gather_has_an_index_for_each_element() -> None:
    x, index = numbers(8, 20), np.random.default_rng(0).integers(0, 20, (8, 7)).astype(np.uint32)

    def kernel(x, index):
        dst = tile((8, 7), nl.float32)
        nisa.nc_n_gather(dst=dst, data=loaded(x), indices=loaded(index))
        return stored(dst)

    equal(run(kernel, x, index), np.take_along_axis(x, index.astype(np.int64), 1))


def test_memory_that_was_never_written_shows() -> None:
    def kernel(x):
        return stored(tile((2, 3), nl.bfloat16)), stored(tile((2, 3), nl.int32))

    found = simulated(kernel, numbers(1, 1))
    assert np.isnan(f64(found.returned[0])).all()
    assert (found.returned[1].view(np.uint8) == 0xAA).all()


def test_parts_of_a_tensor_that_overlap_are_read_before_they_are_written() -> None:
    def kernel(x):
        whole = loaded(x)
        nisa.tensor_copy(dst=whole[:, 1:9], src=whole[:, 0:8])
        nisa.tensor_tensor(dst=whole[:, 0:4], data1=whole[:, 2:6], data2=whole[:, 4:8], op=nl.add)
        return stored(whole)

    x = numbers(4, 10)
    want = x.copy()
    want[:, 1:9] = x[:, 0:8]
    want[:, 0:4] = want[:, 2:6].copy() + want[:, 4:8].copy()
    equal(run(kernel, x), want)


def test_the_older_language_loads_adds_and_stores() -> None:
    def kernel(x, y):
        one, two = nl.load(x), nl.load(y)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(one, two))
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(other, nl.exp(nl.multiply(one, 2.0)))
        return out, other

    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    one, two = run(kernel, x, y)
    equal(one, x + y)
    assert np.allclose(two, np.exp(f64(x) * 2), rtol=1e-6)
    assert one.dtype == F32
