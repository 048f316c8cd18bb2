"""The order of elements that `args` gives, against listing them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from haulout.checker.bytesets import byte_set, runs
from haulout.checker.values.byte_flow import Order
from haulout.checker.values.nki_operands import Layout, order, read_args
from haulout.ir.attributes import parse_attrs
from haulout.ir.patterns import Pattern

SIZES = (1, 2, 4)


def _view(random: Random, parts: int, columns: int) -> npt.NDArray[np.int64]:
    """The numbers of the elements of a view of a location, as an array."""
    view = np.arange(parts * columns).reshape(parts, columns)
    view = view[random.randint(0, parts - 1) :, random.randint(0, columns - 1) :]
    for _ in range(random.randint(0, 2)):
        match random.choice(["step", "turn", "split", "permute", "broadcast"]):
            case "step":
                view = view[:: random.randint(1, 2), :: random.randint(1, 2)]
            case "turn":
                view = view[..., ::-1]
            case "split" if view.shape[-1] % 2 == 0:
                rows = np.lib.stride_tricks.as_strided(
                    view,
                    (*view.shape[:-1], view.shape[-1] // 2, 2),
                    (*view.strides[:-1], 2 * view.strides[-1], view.strides[-1]),
                )
                view = rows
            case "permute":
                axes = list(range(view.ndim))
                if random.random() < 0.3:
                    random.shuffle(axes)
                else:
                    axes[1:] = random.sample(axes[1:], len(axes) - 1)
                view = view.transpose(axes)
            case "broadcast":
                at = random.randint(0, view.ndim)
                view = np.broadcast_to(np.expand_dims(view, at), (*view.shape[:at], 2, *view.shape[at:]))
    return view


def _as_pattern(bytes_touched: npt.NDArray[np.int64]) -> Pattern | None:
    """Some bytes as one pattern of rising runs, None: they are none of the simple sort."""
    low = np.unique(bytes_touched)
    starts = low[np.append(True, np.diff(low) > 1)]
    run = len(low) // len(starts)
    steps = set(np.diff(starts).tolist())
    found = Pattern(int(starts[0]), run, ((steps.pop(), len(starts)),) if len(steps) == 1 else ())
    return found if np.array_equal(found.bytes(), low) else None


def test_what_is_said_of_the_order_is_so() -> None:
    random, seen = Random("layouts"), Counter[Order]()
    for _ in range(4000):
        parts, columns = random.choice([1, 2, 4]), random.choice([2, 3, 4, 8])
        held, seen_as = random.choice(SIZES), random.choice(SIZES)
        if random.random() < 0.7:
            seen_as = held
        if columns * held % seen_as:
            continue
        view = _view(random, parts, columns * held // seen_as)
        places = (view[..., None] * seen_as + np.arange(seen_as)).ravel()
        pattern = _as_pattern(places)
        if pattern is None:
            continue
        row = columns * held if parts > 1 else 0
        strides = tuple(stride // view.itemsize for stride in view.strides)
        found = order(Layout(view.shape, strides, False), pattern, row, held)
        seen[found] += 1
        upwards = np.array_equal(places, pattern.bytes()) and held == seen_as
        if found is Order.PATTERN:
            assert upwards
        lines = (view * seen_as // (row or places.max() + 1)).reshape(view.shape[0], -1)
        in_partitions = bool((lines == lines[:, :1]).all() and (not row or (np.diff(lines[:, 0]) > 0).all()))
        assert in_partitions or found is Order.UNKNOWN
        if upwards and in_partitions:
            assert found is Order.PATTERN
    assert min(seen[each] for each in Order) > 100


@pytest.mark.parametrize(
    ("shape", "strides", "pattern", "known"),
    [
        ((4, 8), (16, 1), Pattern(0, 32, ((64, 4),)), Order.PATTERN),
        ((4, 2, 4), (16, 4, 1), Pattern(0, 32, ((64, 4),)), Order.PATTERN),
        ((4, 4, 2), (16, 1, 4), Pattern(0, 32, ((64, 4),)), Order.PARTITIONS),
        ((4, 8, 2), (16, 1, 0), Pattern(0, 32, ((64, 4),)), Order.PARTITIONS),
        ((4, 16), (32, 1), Pattern(0, 32, ((64, 4),)), Order.PARTITIONS),  # elements of two bytes
        ((4, 8), (16, 1), Pattern(0, 32, ((64, 3),)), Order.UNKNOWN),  # other bytes
        ((4, 8), (16, 1), Pattern(48, 32, ((64, 4),)), Order.UNKNOWN),  # two partitions a row
        ((8, 4), (1, 16), Pattern(0, 32, ((64, 4),)), Order.UNKNOWN),
        ((2, 4, 8), (0, 16, 1), Pattern(0, 32, ((64, 4),)), Order.UNKNOWN),
        ((4, 8), (16, 1), Pattern(28, 4, ((64, 4), (-4, 8))), Order.PARTITIONS),  # the pattern goes down
        ((4, 8), (16, -1), Pattern(28, 4, ((64, 4), (-4, 8))), Order.PARTITIONS),
    ],
)
def test_layouts_count_where_they_fit(
    shape: tuple[int, ...], strides: tuple[int, ...], pattern: Pattern, known: Order
) -> None:
    assert len(runs(byte_set(pattern))[0])
    assert order(Layout(shape, strides, False), pattern, 64, 4) is known
    assert order(Layout(shape, strides, True), pattern, 64, 4) is Order.UNKNOWN


def test_reading_args() -> None:
    text = (
        "args=[[dst,[3],f32,[4,8],[8,1]],[srcs,[[0],f32,[4,8],[8,1]],[[1],f32,[4],[1]]],[op,add],[scale,1.5],"
        "[data,[0],f32,[8,4],[1,8],[[[2],i32,[4,1],[1,1]],true,8,4]],[stationary,[1],f32,[4],[1]],[flags,[1,2],[]]]"
    )
    found = read_args(parse_attrs(text)["args"])
    plain = Layout((4, 8), (8, 1), False)
    assert found.layouts == {
        0: {plain, Layout((8, 4), (1, 8), True)},
        1: {Layout((4,), (1,), False)},
        2: {Layout((4, 1), (1, 1), False)},
        3: {plain},
    }
    assert found.roles == {"index": {2}, "stationary": {1}}


@pytest.mark.parametrize(
    "text",
    [
        "args=reordered",
        "args=[]",
        "args=[1,2]",
        "args=[[dst],[1,[0],f32,[1],[1]]]",
        "args=[[dst,[0],f32,[4],[1,1]]]",
        "args=[[dst,[0],f32,[0],[1]]]",
        "args=[[dst,[0],f32,[true],[1]]]",
        "args=[[dst,0,f32,[4],[1]]]",
        "args=[[dst,[],f32,[4],[1]]]",
        "args=[[dst," + "[" * 3000 + "]" * 3000 + "]]",
    ],
)
def test_what_is_malformed_says_nothing(text: str) -> None:
    found = read_args(parse_attrs(text)["args"])
    assert (found.layouts, found.roles) == ({}, {})
