"""Hypothesis strategies: problems of the planner."""

from __future__ import annotations

from hypothesis import strategies as st

from haulout.packing import Problem


@st.composite
def problems(draw: st.DrawFn, most: int = 7, holes: bool = False, horizon: int = 8, sizes: int = 12) -> Problem:
    """Up to `most` buffers over few moments, so that they collide; zero sizes and empty ranges among them."""
    n = draw(st.integers(1, most))
    count = draw(st.integers(n, 2 * n)) if holes else n
    owner = list(range(n)) + [draw(st.integers(0, n - 1)) for _ in range(count - n)]
    lower = [draw(st.integers(0, horizon)) for _ in range(count)]
    upper = [lo + draw(st.integers(0, horizon // 2)) for lo in lower]
    size = [draw(st.integers(0, sizes)) for _ in range(n)]
    alignment = draw(
        st.one_of(st.sampled_from([1, 2, 4]), st.lists(st.sampled_from([1, 2, 4, 3]), min_size=n, max_size=n))
    )
    return Problem.of(lower, upper, size, alignment, owner=owner)
