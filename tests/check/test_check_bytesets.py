"""Sets of bytes against Python's own sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from haulout.check.bytesets import ByteSet, byte_set, common, runs
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
