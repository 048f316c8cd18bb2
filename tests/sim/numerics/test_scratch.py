"""Scratch memory: arrays that are valid inside, of one thread, and never share bytes while both are."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.sim.numerics import scratch as module
from haulout.sim.numerics.scratch import scratch

F32 = np.dtype(np.float32)


@given(st.lists(st.lists(st.integers(0, 300), max_size=3).map(tuple), max_size=5))
def test_arrays_share_no_bytes(shapes: list[tuple[int, ...]]) -> None:
    with scratch() as take:
        outer = [take(shape, F32) for shape in shapes]
        with scratch() as take_more:
            inner = [take_more(shape, F32) for shape in shapes]
            assert [each.shape for each in inner] == shapes
            every = [*outer, *inner]
            for number, each in enumerate(every):
                each[...] = number
            assert all((each == number).all() for number, each in enumerate(every))


def test_what_was_given_back_is_used_again() -> None:
    with scratch() as take:
        first = take((100,), F32).ctypes.data
    with scratch() as take:
        assert take((100,), F32).ctypes.data == first


def test_what_does_not_fit_is_allocated() -> None:
    with scratch() as take:
        large = take((module._SIZE,), F32)
        assert large.shape == (module._SIZE,)
        assert not np.may_share_memory(large, take((100,), F32))


def test_threads_have_their_own() -> None:
    with scratch() as take:
        mine = take((100,), F32)
        found = []

        def run() -> None:
            with scratch() as take_there:
                found.append(np.may_share_memory(mine, take_there((100,), F32)))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert found == [False]
