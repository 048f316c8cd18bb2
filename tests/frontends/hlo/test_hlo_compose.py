"""A view of an element-wise result as a view of its operand names the same elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from haulout.frontends.hlo.compose import repeats, single, through
from haulout.frontends.hlo.parser import parse_hlo
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, View
from haulout.frontends.hlo.views import reshaped, seen, strides_of
from haulout.ir.dtypes import NUMPY

SOURCE = parse_hlo("HloModule m\n\nENTRY e {\n  ROOT x = f32[1] parameter(0)\n}\n").entry.root


def array(dtype: str, dims: tuple[int, ...]) -> View:
    shape = Shape(dtype, dims)
    return View(Array(SOURCE, shape), shape)


def elements(view: View, contents: Any) -> Any:
    """The elements of a view of an array with these contents."""
    bytes_ = np.frombuffer(contents.tobytes(), np.uint8)
    if view.pattern is not None:
        bytes_ = bytes_[view.pattern.bytes()]
    return bytes_.view(NUMPY[view.shape.dtype]).reshape(view.shape.dims)


@st.composite
def readers(draw: st.DrawFn, view: View) -> View:
    """A view that movements have made of another one."""
    for _ in range(draw(st.integers(0, 4))):
        dims, steps = view.shape.dims, strides_of(view)
        match draw(st.sampled_from(["transpose", "reverse", "slice", "reshape"])):
            case "transpose":
                order = draw(st.permutations(range(len(dims))))
                view = seen(view, [dims[dim] for dim in order], [steps[dim] for dim in order])
            case "reverse":
                dim = draw(st.integers(0, len(dims) - 1))
                turned = [-step if at == dim else step for at, step in enumerate(steps)]
                view = seen(view, dims, turned, steps[dim] * (dims[dim] - 1))
            case "slice":
                dim = draw(st.integers(0, len(dims) - 1))
                start = draw(st.integers(0, dims[dim] - 1))
                stride = draw(st.integers(1, 2))
                count = draw(st.integers(1, (dims[dim] - start + stride - 1) // stride))
                cut = [count if at == dim else extent for at, extent in enumerate(dims)]
                further = [step * stride if at == dim else step for at, step in enumerate(steps)]
                view = seen(view, cut, further, steps[dim] * start)
            case "reshape":
                dims = draw(st.sampled_from(factored(prod(dims))))
                view = reshaped(view, Shape(view.shape.dtype, dims)) or view
    return view


def factored(count: int) -> list[tuple[int, ...]]:
    """Extents of up to three dimensions with so many elements."""
    pairs = [(a, count // a) for a in range(1, count + 1) if count % a == 0]
    return [(count,), *pairs, *((a, b, rest // b) for a, rest in pairs for b in range(1, rest + 1) if rest % b == 0)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[View, tuple[int, ...], View]:
    """An operand of a result, the result's extents, and a view of the result."""
    dims = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    order = draw(st.permutations(range(len(dims))))
    kept = [dim for dim in order if draw(st.booleans())] if draw(st.booleans()) else list(order)
    whole = array(draw(st.sampled_from(["pred", "f32", "f64"])), tuple(dims[dim] for dim in kept))
    steps = dict(zip(kept, strides_of(whole), strict=True))
    operand = seen(whole, dims, [steps.get(dim, 0) for dim in range(len(dims))])
    return operand, dims, draw(readers(array(draw(st.sampled_from(["f32", "s8"])), dims)))


@given(cases())
def test_the_operand_is_seen_as_the_result_is(case: tuple[View, tuple[int, ...], View]) -> None:
    operand, dims, reader = case
    found = through(operand, dims, reader)
    if found is None:
        return
    contents = np.arange(operand.array.shape.count).astype(NUMPY[operand.shape.dtype])
    made = elements(operand, contents)
    # The result's elements are numbers of places; what the reader sees says which places of the operand it wants.
    places = elements(
        View(reader.array, Shape("f32", reader.shape.dims), scaled(reader)), np.arange(prod(dims), dtype="f4")
    )
    np.testing.assert_array_equal(elements(found, contents), made.reshape(-1)[places.astype(int)])


def scaled(view: View) -> Any:
    """The layout of a view, for elements of four bytes."""
    if view.layout is None:
        return None
    by = 4 // view.itemsize
    return view.layout._replace(offset=view.layout.offset * by, strides=tuple(s * by for s in view.layout.strides))


@given(cases())
def test_a_view_of_all_elements_in_order_is_always_possible_for_stored_operands(
    case: tuple[View, tuple[int, ...], View],
) -> None:
    operand, dims, reader = case
    assume(operand.layout is None)
    assert through(operand, dims, reader) is not None


def test_examples() -> None:
    result = array("f32", (4, 6))
    row = seen(array("bf16", (6,)), (4, 6), (0, 2))
    assert strides_of(through(row, (4, 6), seen(result, (6, 4), (4, 24))) or result) == (2, 0)
    assert strides_of(through(row, (4, 6), View(result.array, Shape("f32", (4, 2, 3)))) or result) == (0, 6, 2)
    assert through(row, (4, 6), View(result.array, Shape("f32", (24,)))) is None  # the row begins anew
    half = seen(result, (4, 3), (24, 4), 12)
    assert through(row, (4, 6), half) == seen(View(row.array, row.array.shape), (4, 3), (0, 2), 6)


def test_one_element_for_all() -> None:
    one = array("f32", (3,))
    assert single(seen(one, (2, 2), (0, 0), 4)).pattern == seen(one, (), (), 4).pattern
    assert single(one) is one
    assert repeats(seen(one, (2, 3), (0, 4)))
    assert not repeats(one)
