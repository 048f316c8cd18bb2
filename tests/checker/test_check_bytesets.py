"""Sets of bytes against Python's own sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from haulout.checker.bytesets import ByteSet, byte_set, common, runs, squeezed
from haulout.ir.patterns import Pattern

dims = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), max_size=3).map(tuple)
patterns = st.builds(Pattern, st.integers(0, 60), st.integers(1, 6), dims)


def listed(ends: tuple[object, ...]) -> set[int]:
    low, high = ends
    return {byte for begin, end in zip(low, high, strict=True) for byte in range(begin, end)}  # type: ignore[call-overload]


@given(patterns)
def test_runs_are_the_bytes_of_the_pattern_and_maximal(pattern: Pattern) -> None:
    low, high = runs(byte_set(pattern))
    assert listed((low, high)) == set(pattern.bytes().tolist())
    assert (low[1:] > high[:-1]).all()


@given(patterns, patterns)
def test_common_runs_are_the_common_bytes(first: Pattern, second: Pattern) -> None:
    both = set(first.bytes().tolist()) & set(second.bytes().tolist())
    assert listed(common(runs(byte_set(first)), runs(byte_set(second)))) == both


def test_a_transpose_is_one_run() -> None:
    assert byte_set(Pattern(0, 4, ((4, 300), (1200, 200)))) == ByteSet(0, 4 * 300 * 200)


@given(st.lists(patterns, min_size=1, max_size=4), st.integers(1, 12), st.integers(20, 40))
def test_squeezed_sets_have_the_same_parts(found: list[Pattern], pitch: int, rows: int) -> None:
    """Bytes that the same sets cover stand for bytes that the same sets cover, and nothing is lost."""
    size = pitch * rows * 20
    sets = [byte_set(pattern) for pattern in found]
    sets = [each.moved(-each.offset) for each in sets] + [ByteSet(0, pitch, ((pitch * 20, rows),))]
    sets = [each for each in sets if each.extent <= size]
    small = squeezed(sets, size)
    assert small.size <= size
    held = [listed(runs(each)) for each in sets]
    seen = [listed(runs(each)) for each in small.sets]
    covers = {}
    for at in range(small.size):
        mine = [at in each for each in seen]
        assert mine == [small.byte(at) in each for each in held]
        covers[tuple(mine)] = min(small.byte(at), covers.get(tuple(mine), size))
    for byte in range(size):
        mine = tuple(byte in each for each in held)
        assert covers[mine] <= byte


def test_columns_of_a_tensor_are_one_row() -> None:
    columns = [ByteSet(32 * k, 32, ((320, 70_000),)) for k in range(10)]
    small = squeezed([*columns, ByteSet(0, 320 * 70_000)], 320 * 70_000)
    assert small.size == 320
    assert small.sets == [*(ByteSet(32 * k, 32) for k in range(10)), ByteSet(0, 320)]
    # A piece of one row is told apart from the rest.
    small = squeezed([*columns, ByteSet(320 * 9 + 8, 4)], 320 * 70_000)
    assert (small.size, small.cuts) == (3 * 320, [0, 9, 10, 70_000])
    assert small.byte(320 + 8) == 320 * 9 + 8
