"""The axis rules are true: what is changed at one index of an operand shows where the rule says, and only there."""

from typing import Any

import numpy as np
import pytest
from tests.sim.numerics.test_numerics_fuzz import SOUND

from haulout.ir.axes import CONTRACTED, WHOLE, followed_axes
from haulout.ir.dtypes import NUMPY
from haulout.ir.opcodes import OPCODES, Axes, lookup
from haulout.sim.numerics import TensorType, evaluate

EXACT = {
    *(Axes.SAME, Axes.PLACED, Axes.DOT, Axes.KEPT, Axes.NO_WINDOW, Axes.LINES),
    *(Axes.TAKEN_WHOLE, Axes.GATHERED, Axes.SCATTERED, Axes.REINTERPRETED),
}
"""Rules whose intervals are the same on both sides: without windows, padding and groups."""
F, S = "f32", "s32"
MORE: list[Any] = [
    ("dynamic_slice", {"sizes": [1, 3]}, [(F, [2, 3]), (S, []), (S, [])], [(F, [1, 3])]),
    ("dynamic_update_slice", {}, [(F, [2, 3]), (F, [2, 1]), (S, []), (S, [])], [(F, [2, 3])]),
    ("select_and_scatter", {"select": "GE", "op": "add", "size": [1, 2], "stride": [1, 2]},
     [(F, [3, 4]), (F, [3, 2]), (F, [])], [(F, [3, 4])]),
    ("gather", {"offset_dims": [2], "start_index_map": [1], "collapsed_slice_dims": [1], "operand_batching_dims": [0],
                "start_indices_batching_dims": [1], "index_vector_dim": 2, "slice_sizes": [1, 1, 3]},
     [(F, [4, 5, 3]), (S, [2, 4, 1])], [(F, [2, 4, 3])]),
]  # fmt: skip
CASES = [each for each in [*SOUND, *MORE] if OPCODES[each[0]].axes.obstacle is None]


def run(opcode: str, attrs: Any, operands: list[Any], results: list[Any]) -> list[Any]:
    return evaluate(opcode, attrs, operands, [TensorType(NUMPY[dtype], tuple(shape)) for dtype, shape in results])


def random_operands(opcode: str, operands: list[Any]) -> list[Any]:
    rng = np.random.default_rng(7)
    made = [np.asarray(rng.integers(1, 90, shape)).astype(NUMPY[dtype]) for dtype, shape in operands]
    return [
        np.zeros_like(each) if OPCODES[opcode].is_index(at, len(operands)) else each for at, each in enumerate(made)
    ]


def axes(case: Any) -> Any:
    opcode, attrs, operands, results = case
    return followed_axes(opcode, attrs, [tuple(shape) for _, shape in operands], [tuple(s) for _, s in results])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_each_dimension_of_each_operand_has_an_answer(case: Any) -> None:
    found = axes(case)
    if OPCODES[case[0]].axes in (Axes.PATTERN, Axes.COUNTED):
        assert found is None
        return
    assert [len(each) for each in found] == [len(shape) for _, shape in case[2]]
    rank = len(case[3][0][1])
    assert all(CONTRACTED <= dim < rank for each in found for dim in each)


@pytest.mark.parametrize("case", [c for c in CASES if OPCODES[c[0]].axes in EXACT], ids=lambda case: case[0])
def test_what_follows_a_dimension_is_seen_at_the_same_index_alone(case: Any) -> None:
    opcode, attrs, operands, results = case
    values = random_operands(opcode, operands)
    before = run(opcode, attrs, values, results)
    for at, follows in enumerate(axes(case)):
        for dim, place in enumerate(follows):
            if place < 0:
                continue
            for index in range(values[at].shape[dim]):
                changed = [each.copy() for each in values]
                np.moveaxis(changed[at], dim, 0)[index] = 0 if changed[at].dtype == bool else 1
                for old, new in zip(before, run(opcode, attrs, changed, results), strict=True):
                    old, new = (np.delete(np.moveaxis(each, place, 0), index, 0) for each in (old, new))
                    np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("opcode", ["dot", "reduce", "convolution"])
def test_parts_of_what_is_contracted_add_up(opcode: str) -> None:
    case = {
        "dot": ("dot", {"lhs_contracting": [1], "rhs_contracting": [0]}, [(S, [2, 4]), (S, [4, 3])], [(S, [2, 3])]),
        "reduce": ("reduce", {"dims": [1], "op": "add"}, [(S, [2, 4]), (S, [])], [(S, [2])]),
        "convolution": ("convolution", {"dim_labels": "b0f_0io->b0f", "size": [2]},
                        [(S, [1, 5, 4]), (S, [2, 4, 3])], [(S, [1, 4, 3])]),
    }[opcode]  # fmt: skip
    values = random_operands(opcode, case[2])  # type: ignore[arg-type]
    values[1] = np.zeros_like(values[1]) if opcode == "reduce" else values[1]
    (whole,) = run(*case[:2], values, case[3])  # type: ignore[arg-type, misc]
    parts = []
    for half in (slice(0, 2), slice(2, 4)):
        cut = [
            each[tuple(half if dim == CONTRACTED else slice(None) for dim in follows)]
            for each, follows in zip(values, axes(case), strict=True)
        ]
        parts += run(*case[:2], cut, case[3])  # type: ignore[arg-type, misc]
    np.testing.assert_array_equal(parts[0] + parts[1], whole)


def test_windows_follow_and_overlap() -> None:
    window = {"op": "add", "size": [2, 1]}
    assert followed_axes("reduce_window", window, [(5, 3), ()], [(4, 3)]) == [(0, 1), ()]
    conv = {"dim_labels": "b01f_01io->b01f", "size": [2, 2]}
    shapes: Any = [(1, 4, 4, 2), (2, 2, 2, 3)], [(1, 3, 3, 3)]
    assert followed_axes("convolution", conv, *shapes) == [(0, 1, 2, CONTRACTED), (WHOLE, WHOLE, CONTRACTED, 3)]
    grouped: Any = [(1, 4, 4, 2), (2, 2, 1, 2)], [(1, 3, 3, 2)]
    assert followed_axes("convolution", conv | {"feature_groups": 2}, *grouped) == [(0, 1, 2, 3), (WHOLE,) * 3 + (3,)]


def test_every_rule_has_a_case() -> None:
    rules = {each for each in Axes if each.obstacle is None and each is not Axes.GATHERING}
    assert {OPCODES[case[0]].axes for case in CASES} == rules


def test_every_opcode_has_a_rule_or_a_reason() -> None:
    """`NONE` is what is said of an opcode that is not in the table."""
    assert not [name for name, row in OPCODES.items() if row.axes is Axes.NONE]
    assert lookup("nki.anything").axes.obstacle == "the kernel says what each core does"
