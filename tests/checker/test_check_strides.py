"""Which strided extents meet, against explicit sets of bytes; and that no more pairs are looked at than need be."""

from __future__ import annotations

import sys
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.checker.bytesets import ByteSet, byte_set, normal
from haulout.checker.model import Function, functions
from haulout.checker.proofs.extent_pairs import Bounds, candidates
from haulout.checker.proofs.extents import Extents, find_extents
from haulout.checker.proofs.storage_map import logical_map, physical_map
from haulout.checker.proofs.strided_overlap import Strided, overlapping
from haulout.ir.patterns import Pattern
from haulout.ir.text import parse_bir
from haulout.support.jit import interpreted

dims = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), max_size=3).map(tuple)
patterns = st.builds(Pattern, st.integers(0, 60), st.integers(1, 6), dims)


def columns(sets: list[ByteSet]) -> Strided:
    ends = np.cumsum([0] + [len(each.dims) for each in sets]).astype(np.int32)
    flat = np.array([dim for each in sets for dim in each.dims], np.int64).reshape(-1, 2)
    offset, run = (np.array(column, np.int64) for column in zip(*((s.offset, s.run) for s in sets), strict=True))
    return Strided(offset, run, ends[:-1], ends[1:], flat[:, 0].copy(), flat[:, 1].copy())


def meet(first: ByteSet, second: ByteSet) -> bool:
    return bool(overlapping(columns([first, second]), np.array([0]), np.array([1]))[0])


@given(patterns, patterns)
def test_meeting_is_exact(first: Pattern, second: Pattern) -> None:
    both = set(first.bytes().tolist()) & set(second.bytes().tolist())
    assert meet(byte_set(first), byte_set(second)) == bool(both)
    with interpreted():
        assert meet(byte_set(first), byte_set(second)) == bool(both)


@pytest.mark.parametrize("seed", range(4))
def test_random_sets_with_strides_of_all_sorts(seed: int) -> None:
    rng = Random(seed)
    found = []
    for _ in range(300):
        most = rng.choice([3, 6, 40])
        strides = [rng.choice([-1, 1]) * rng.choice([2, 3, 4, 6, 7, 8, 12, 15, 20, 35, 50, 64]) for _ in range(3)]
        shape = [(stride, rng.randint(1, most)) for stride in strides[: rng.choice([0, 1, 1, 2, 2, 3])]]
        found.append(normal(rng.randint(0, 400), rng.randint(1, 5), shape))
    held = [set(Pattern(*each).bytes().tolist()) for each in found]
    left, right = (np.array([rng.randrange(len(found)) for _ in range(5000)]) for _ in range(2))
    wanted = [not held[one].isdisjoint(held[two]) for one, two in zip(left.tolist(), right.tolist(), strict=True)]
    assert overlapping(columns(found), left, right).tolist() == wanted
    assert 0.1 < np.mean(wanted) < 0.9


def test_huge_sets_are_told_apart_without_listing_them() -> None:
    even = ByteSet(0, 64, ((1 << 20, 1 << 12), (128, 1 << 13)))
    assert not meet(even, even.shifted(64))
    assert meet(even, even.shifted(63))
    assert not meet(even, even.shifted(64 + (1 << 20)))
    # Two strides without a common divisor, a billion runs each: the first common start is far inside.
    one, other = ByteSet(1, 1, ((999_999_937, 1 << 30),)), ByteSet(0, 1, ((1_000_000_007, 1 << 30),))
    assert meet(one, other)
    at = pow(999_999_937, -1, 1_000_000_007)  # 999999937 * at = 1 modulo the other
    turns = (1_000_000_007 - at) % 1_000_000_007
    assert (1 + 999_999_937 * turns) % 1_000_000_007 == 0
    assert meet(one._replace(dims=((999_999_937, turns + 1),)), other)
    assert not meet(one._replace(dims=((999_999_937, turns),)), other)


# -- candidates ------------------------------------------------------------------------------------------------------


def joined(at: Bounds, some: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = candidates(at, some, others)
    assert found is not None
    return found


def extents(rng: Random, count: int) -> Bounds:
    rows = []
    for _ in range(count):
        pitch = rng.choice([0, 0, 6, 8, 12, 20, 35])
        width, low = rng.randint(1, 5), rng.randint(0, 300)
        high = low + width + pitch * rng.randint(0, 6)
        if rng.random() < 0.1:
            width = pitch or width
        # The origin may lie before the hull, as that of a rectangle does.
        rows.append((low, high, low - rng.choice([0, 0, pitch]), pitch, width if pitch else high - low))
    return Bounds(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def near(at: Bounds, one: int, two: int) -> bool:
    if at.low[one] >= at.high[two] or at.low[two] >= at.high[one]:
        return False
    modulus = int(np.gcd(at.pitch[one], at.pitch[two]))
    if modulus == 0:
        return True
    residues = [{(int(at.origin[k]) + x) % modulus for x in range(int(at.width[k]))} for k in (one, two)]
    return not residues[0].isdisjoint(residues[1])


@pytest.mark.parametrize("seed", range(20))
def test_candidates_are_all_pairs_that_hulls_and_combs_allow(seed: int) -> None:
    rng = Random(seed)
    at = extents(rng, rng.choice([1, 5, 40]))
    rows = np.arange(len(at.low))
    some = rows[[rng.random() < 0.6 for _ in rows]]
    left, right = joined(at, some, rows)
    wanted = {(one, two) for one in some.tolist() for two in rows.tolist() if near(at, one, two)}
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(wanted)


@pytest.mark.parametrize("tensors", [1, 50])
def test_slices_of_one_stride_are_not_compared_with_each_other(tensors: int) -> None:
    slices = 400
    offset = np.concatenate([(1 << 30) * t + 32 * np.arange(slices) for t in range(tensors)])
    pitch = np.full(len(offset), 32 * slices)
    at = Bounds(offset, offset + 1000 * pitch + 32, offset, pitch, np.full(len(offset), 32))
    rows = np.arange(len(offset))
    left, right = joined(at, rows, rows)
    assert np.array_equal(left, right)
    assert len(left) == len(rows)
    assert candidates(at, rows, rows, 2 * len(rows)) is not None
    assert candidates(at, rows, rows, len(rows) // 2) is None


# -- extents ---------------------------------------------------------------------------------------------------------


def program(accesses: str, locations: str = "%x sbuf size=4096", reads: frozenset[int] = frozenset()) -> Extents:
    """The extents of some writes, or reads."""
    operands = [f"({each}) -> ()" if k in reads else f"() -> ({each})" for k, each in enumerate(accesses.split(" "))]
    lines = [f"      %i{k} = a @pe {each}" for k, each in enumerate(operands)]
    named = "\n".join(f"    mloc {each}" for each in locations.split(", "))
    text = f'bir 1\nprogram "p" lnc=1\nmodule @m core=0 {{\n  func @f {{\n{named}\n    block ^e:\n'
    (function,) = functions(parse_bir(text + "\n".join(lines) + "\n  }\n}\n"))
    assert isinstance(function, Function)
    model = function.straight()
    return find_extents(model, logical_map(model) if "partition" not in locations else physical_map(model))


def listed(extents: Extents, extent: int) -> set[int]:
    low, high = extents.runs(extent)
    return {key for begin, end in zip(low.tolist(), high.tolist(), strict=True) for key in range(begin, end)}


def overlapping_pairs(extents: Extents) -> set[tuple[int, int]]:
    """Pairs of extents that the atoms or the lists of meetings tell to meet."""
    count = len(extents.location)
    atoms = [
        {a for k in range(extents.starts[r], extents.starts[r + 1]) for a in range(extents.low[k], extents.high[k])}
        for r in range(count)
    ]
    pairs = {(one, two) for one in range(count) for two in range(count) if not atoms[one].isdisjoint(atoms[two])}
    region_of = {int(slot): r for r, slot in enumerate(extents.slot.tolist()) if slot >= 0}
    for one in range(count):
        for k in range(extents.overlap_starts[one], extents.overlap_starts[one + 1]):
            pairs.add((one, region_of[int(extents.overlaps[k])]))
    return pairs


@pytest.mark.parametrize(
    ("budget", "pairs", "apart"), [(0, 1 << 20, True), (20, 1 << 20, True), (20, 9, False), (1 << 20, 0, False)]
)
@pytest.mark.parametrize("seed", range(5))
def test_regions_meet_when_their_bytes_do(
    seed: int, budget: int, pairs: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[find_extents.__module__]
    monkeypatch.setattr(module, "RUNS_LIMIT", budget)
    monkeypatch.setattr(module, "MAX_PAIRS", pairs)
    rng = Random(seed)
    texts = ["%x"]
    for _ in range(30):
        kind = rng.random()
        offset, run = rng.randint(1000, 1400), rng.randint(1, 8)
        if kind < 0.2:
            texts.append(f"%x[{offset}:{offset + rng.choice([run, 300])}]")
        elif kind < 0.25:
            texts.append("%x[?]")
        else:
            strides = [rng.choice([-48, -20, 12, 16, 24, 48, 96, 100]) for _ in range(rng.choice([1, 1, 2]))]
            texts.append(f"%x[{offset};{','.join(f'{s}x{rng.randint(2, 6)}' for s in strides)};{run}]")
    extents = program(" ".join(texts))
    held = [listed(extents, r) for r in range(len(extents.location))]
    wanted = {
        (one, two) for one in range(len(held)) for two in range(len(held)) if not held[one].isdisjoint(held[two])
    }
    assert overlapping_pairs(extents) == wanted
    assert extents.atomless[~extents.unknown].any() == apart


def test_extents_that_are_only_read_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[find_extents.__module__], "RUNS_LIMIT", 40)
    rng = Random(1)
    texts = ["%x", *(f"%x[{k};{rng.choice((12, 20, 28, 44))}x{rng.choice((3, 40, 50))};1]" for k in range(60))]
    reads = frozenset(rng.sample(range(len(texts)), 50))
    extents = program(" ".join(texts), reads=reads)
    held = [listed(extents, r) for r in range(len(extents.location))]
    written = {int(extents.of_access[k]) for k in range(len(texts)) if k not in reads} | {0}
    every = list(product(range(len(held)), repeat=2))
    meeting = {(one, two) for one, two in every if not held[one].isdisjoint(held[two])}
    atoms = np.flatnonzero(~extents.atomless).tolist()
    wanted = {(one, two) for one, two in meeting if {one, two} & written or {one, two} <= set(atoms)}
    assert overlapping_pairs(extents) == wanted
    assert len(wanted) < len(meeting)


def test_unknown_bytes_of_a_rectangle_meet_what_lies_in_it() -> None:
    places = "%x sbuf size=256 parts=4 partition=0 address=0, %y sbuf size=256 parts=4 partition=2 address=64"
    places += ", %z sbuf size=128 parts=4 partition=2 address=32"
    extents = program("%x[?] %y[?] %y[0:64] %y[64:128] %z[?] %z[64:96] %x[192:256]", places)
    held = [listed(extents, r) for r in range(len(extents.location))]
    wanted = {
        (one, two) for one in range(len(held)) for two in range(len(held)) if not held[one].isdisjoint(held[two])
    }
    assert overlapping_pairs(extents) == wanted


def test_stripes_of_a_tensor_cost_a_few_decisions_each(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = []

    def counted(sets: Strided, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        decided.append(len(left))
        return overlapping(sets, left, right)

    monkeypatch.setattr(sys.modules[find_extents.__module__], "overlapping", counted)
    stripes, rows = 300, 70_000
    pitch = 32 * stripes
    accesses = [f"%x[{32 * k};{pitch}x{rows};32]" for k in range(stripes)]
    extents = program(" ".join(["%x", *accesses]), f"%x dram.local size={pitch * rows}")
    assert extents.atomless.sum() == stripes
    assert decided == [2 * stripes]  # with itself and with the whole
    assert len(extents.overlaps) == 3 * stripes
