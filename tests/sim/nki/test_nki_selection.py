"""Search: the largest elements and their places, elements that are not zero, runs of equal ids."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim.nki.nki_run import BF16, equal, f64, loaded, ncc, nisa, nl, numbers, run, simulated, stored, tile

from haulout.support.diagnostics import HauloutError


def test_max8_sorts_the_eight_largest() -> None:
    def kernel(x):
        dst = tile((4, 8), nl.float32)
        nisa.max8(dst=dst, src=loaded(x))
        return stored(dst)

    x = numbers(4, 20, dtype=BF16)
    x[0, :12] = 3.5
    equal(run(kernel, x), -np.sort(-x.astype(np.float32), axis=1)[:, :8])


def _find(x, vals):
    dst = tile((4, 8), nl.uint32)
    nisa.nc_find_index8(dst=dst, data=loaded(x), vals=loaded(vals))
    return stored(dst)


def test_nc_find_index8_takes_each_place_once() -> None:
    x = numbers(4, 20)
    vals = -np.sort(-x, axis=1)[:, :8]
    x[1, 3] = x[1, 7]
    vals[1, :3] = x[1, 3], x[1, 3], 1e9
    got = run(_find, x, vals)
    for p in (0, 2, 3):
        assert got[p].tolist() == np.argsort(-x[p], kind="stable")[:8].tolist()
    assert got[1, :3].tolist() == [3, 7, 0xFFFFFFFF]


def test_nc_match_replace8_replaces_the_first_match_of_each_value() -> None:
    def kernel(x, vals):
        dst, index = tile(x.shape, nl.float32), tile((4, 8), nl.uint32)
        nisa.nc_match_replace8(dst=dst, data=loaded(x), vals=loaded(vals), imm=-9.0, dst_idx=index)
        return stored(dst), stored(index)

    x = np.stack([np.random.default_rng(at).permutation(20).astype(np.float32) for at in range(4)])
    x[0, 5], x[0, 9] = 2.5, 2.5
    vals = np.stack([row[[5, 9, 1, 2, 3, 4, 6, 8]] for row in x])
    dst, index = run(kernel, x, vals)
    want = x.copy()
    np.put_along_axis(want, np.array([[5, 9, 1, 2, 3, 4, 6, 8]] * 4), -9, 1)
    equal(dst, want)
    # Of equal values the last one is matched first.
    assert index[0].tolist() == [9, 5, 1, 2, 3, 4, 6, 8]
    assert index[1].tolist() == [5, 9, 1, 2, 3, 4, 6, 8]


def test_nonzero_with_count_lists_places_in_every_16th_partition() -> None:
    def kernel(x, old):
        dst = loaded(old)
        nisa.nonzero_with_count(dst=dst, src=loaded(x), index_offset=100, padding_val=-3)
        return stored(dst)

    x = (numbers(32, 10) > 0).astype(np.int32)
    old = np.full((32, 11), 77, np.int32)
    want = old.copy()
    for p in (0, 16):
        places = [100 + at for at in range(10) if x[p, at]]
        want[p] = [*places, *[-3] * (10 - len(places)), len(places)]
    equal(run(kernel, x, old), want)


def test_sequence_bounds() -> None:
    def kernel(ids):
        dst = tile((1, 2, 8), nl.int32)
        nisa.sequence_bounds(dst=dst, segment_ids=loaded(ids))
        return stored(dst)

    ids = np.array([[1, 1, 1, 2, 2, 3, 0, 0]], np.int32)
    want = [[[0, 0, 0, 3, 3, 5, 8, 8], [3, 3, 3, 5, 5, 6, -1, -1]]]
    equal(run(kernel, ids), np.array(want, np.int32))


@pytest.mark.parametrize("name", ["rng", "topk", "dropout"])
def test_an_instruction_that_cannot_be_computed_is_named_with_its_line(name: str) -> None:
    def kernel(x):
        dst, index, data = tile((16, 64), nl.bfloat16), tile((16, 64), nl.uint32), loaded(x)
        if name == "rng":
            nisa.rng(dst=index)
        elif name == "topk":
            nisa.topk(val_dst=dst, idx_dst=index, src=data, n=8)
        else:
            nisa.dropout(dst=dst, data=data, prob=0.5)
        return stored(dst)

    with pytest.raises(HauloutError) as error:
        simulated(kernel, numbers(16, 64, dtype=BF16))
    found = error.value.diagnostics[0]
    assert f"nki.{name}" in found.message
    assert found.labels[0].span is not None and "test_nki_selection.py" in found.labels[0].span.file


def test_an_exchange_with_other_devices_is_refused_and_one_within_a_device_copies() -> None:
    def kernel(x):
        source = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=source, src=x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.all_gather([source], [out], replica_group=ncc.ReplicaGroup([[0]]), collective_dim=0)
        return out

    def wider(x):
        out = nl.ndarray((2 * x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.all_gather([x], [out], replica_group=ncc.ReplicaGroup([[0, 1]]), collective_dim=0)
        return out

    x = numbers(4, 6)
    equal(run(kernel, x), x)
    with pytest.raises(HauloutError) as error:
        simulated(wider, x)
    assert "other devices" in str(error.value)
    assert f64(x).size == 24
