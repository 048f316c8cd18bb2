"""Whatever stands in an instruction, `evaluate` answers with arrays of the types asked for, or with a diagnostic."""

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.evaluate import KERNELS
from haulout.support.diagnostics import HauloutError

F, S, P = "f32", "s32", "pred"

# opcode, attributes, operands, results: one sound instruction of each kind, to be spoilt below.
SOUND: list[Any] = [
    ("add", {}, [(F, [2, 3]), (F, [2, 3])], [(F, [2, 3])]),
    ("divide", {}, [(S, [4]), (S, [4])], [(S, [4])]),
    ("compare", {"direction": "LT"}, [(F, [3]), (F, [3])], [(P, [3])]),
    ("select", {}, [(P, []), (F, [3]), (F, [3])], [(F, [3])]),
    ("clamp", {}, [(F, []), (F, [3]), (F, [])], [(F, [3])]),
    ("convert", {}, [(F, [3])], [(S, [3])]),
    ("bitcast_convert", {}, [(F, [3])], [("u16", [3, 2])]),
    ("map", {"body": [["add", F, [0, 1]], ["compare", P, [3, 2], "LT"], ["select", F, [4, 3, 2]]], "results": [5]},
     [(F, [2, 3]), (F, [2, 3]), (F, [])], [(F, [2, 3])]),
    ("map_reduce", {"dims": [1], "op": "add", "body": [["multiply", F, [0, 1]]], "results": [2]},
     [(F, [2, 3]), (F, [2, 3]), (F, [])], [(F, [2])]),
    ("dma_copy", {}, [(F, [3])], [("u8", [12])]),
    ("memset", {"value": 3}, [], [(S, [2])]),
    ("broadcast", {"dims": [1]}, [(F, [3])], [(F, [2, 3])]),
    ("iota", {"dim": 1}, [], [(S, [2, 3])]),
    ("pad", {"low": [1, -1], "high": [0, 2], "interior": [1, 0]}, [(F, [2, 3]), (F, [])], [(F, [4, 4])]),
    ("dot", {"lhs_batch": [0], "rhs_batch": [0], "lhs_contracting": [2], "rhs_contracting": [1]},
     [(F, [2, 3, 4]), (F, [2, 4, 5])], [(F, [2, 3, 5])]),
    ("convolution", {"dim_labels": "b01f_01io->b01f", "size": [2, 2], "stride": [1, 2], "pad_low": [1, 0],
                     "pad_high": [0, 1], "lhs_dilate": [1, 1], "rhs_dilate": [1, 1], "reverse": [False, True],
                     "feature_groups": 2, "batch_groups": 1},
     [(F, [1, 4, 4, 2]), (F, [2, 2, 1, 2])], [(F, [1, 4, 2, 2])]),
    ("reduce", {"dims": [1], "op": "add"}, [(F, [2, 3]), (F, [])], [(F, [2])]),
    ("reduce", {"dims": [0], "body": [["constant", S, [], 1], ["compare", P, [0, 1], "LT"], ["select", S, [3, 0, 1]]],
                "results": [4]}, [(S, [4]), (S, [])], [(S, [])]),
    ("combine", {"op": "maximum"}, [(S, [2]), (S, [2]), (S, [2])], [(S, [2])]),
    ("reduce_window", {"op": "add", "size": [3], "stride": [2], "pad_low": [1], "pad_high": [1], "base_dilate": [1],
                       "window_dilate": [1]}, [(F, [5]), (F, [])], [(F, [3])]),
    ("reduce_window", {"body": [["add", F, [0, 1]]], "results": [2], "size": [3], "pad_low": [2]},
     [(F, [5]), (F, [])], [(F, [5])]),
    ("select_and_scatter", {"select": "GE", "op": "add", "size": [2], "stride": [2]},
     [(F, [4]), (F, [2]), (F, [])], [(F, [4])]),
    ("dynamic_slice", {"sizes": [1, 2]}, [(F, [2, 3]), (S, []), (S, [])], [(F, [1, 2])]),
    ("dynamic_update_slice", {}, [(F, [2, 3]), (F, [1, 2]), (S, []), (S, [])], [(F, [2, 3])]),
    ("gather", {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
                "slice_sizes": [1, 3]}, [(F, [4, 3]), (S, [2, 1])], [(F, [2, 3])]),
    ("scatter", {"op": "add", "update_window_dims": [1], "inserted_window_dims": [0],
                 "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1},
     [(F, [4, 3]), (S, [2, 1]), (F, [2, 3])], [(F, [4, 3])]),
    ("scatter", {"body": [["add", F, [0, 1]]], "results": [2], "update_window_dims": [], "inserted_window_dims": [1],
                 "scatter_dims_to_operand_dims": [1], "input_batching_dims": [0],
                 "scatter_indices_batching_dims": [0], "index_vector_dim": 2},
     [(F, [2, 3]), (S, [2, 4, 1]), (F, [2, 4])], [(F, [2, 3])]),
    ("topk", {"k": 2, "largest": True}, [(F, [2, 3])], [(F, [2, 2]), (S, [2, 2])]),
    ("sort", {"dim": 1, "body": [["compare", P, [0, 1], "LT_TOTAL"]], "results": [4]},
     [(F, [2, 3]), (S, [2, 3])], [(F, [2, 3]), (S, [2, 3])]),
    ("reduce_precision", {"exponent_bits": 5, "mantissa_bits": 10}, [(F, [4])], [(F, [4])]),
]  # fmt: skip

ODD_NUMBERS = st.sampled_from([-(2**63), -7, -1, 0, 1, 2, 3, 5, 64, 10**6, 10**9, 2**31, 2**62, 2**63 - 1])
ODD_VALUES: Any = st.one_of(
    ODD_NUMBERS,
    st.floats(),
    st.booleans(),
    st.sampled_from(["", "add", "GE", "b01f_01io->b01f", "f32"]),
    st.lists(ODD_NUMBERS, max_size=4),
    st.lists(st.lists(st.one_of(ODD_NUMBERS, st.just("add"), st.just("f32")), max_size=4), max_size=3),
)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[Any], list[Any]]:
    opcode, attrs, operands, results = draw(st.sampled_from(SOUND))
    attrs, operands, results = dict(attrs), list(operands), list(results)
    for _ in range(draw(st.integers(1, 3))):
        match draw(st.sampled_from(["attribute"] * 4 + ["element", "drop", "opcode", "operands", "type"])):
            case "attribute" if attrs:
                attrs[draw(st.sampled_from(sorted(attrs)))] = draw(ODD_VALUES)
            case "element" if lists := [key for key, value in attrs.items() if isinstance(value, list) and value]:
                key = draw(st.sampled_from(sorted(lists)))
                attrs[key] = list(attrs[key])
                attrs[key][draw(st.integers(0, len(attrs[key]) - 1))] = draw(ODD_VALUES)
            case "drop" if attrs:
                del attrs[draw(st.sampled_from(sorted(attrs)))]
            case "opcode":
                opcode = draw(st.sampled_from(sorted(KERNELS)))
            case "operands":
                operands = draw(st.permutations(operands + operands[:1]))[: draw(st.integers(0, len(operands) + 1))]
            case "type":
                place = draw(st.sampled_from([operands, results]))
                odd = draw(st.sampled_from(sorted(NUMPY))), draw(st.lists(st.integers(0, 4), max_size=4))
                if place:
                    place[draw(st.integers(0, len(place) - 1))] = odd
    return opcode, attrs, operands, results


def run(opcode: str, attrs: dict[str, Any], operands: list[Any], results: list[Any]) -> None:
    inputs = [np.ones(shape, NUMPY[dtype]) for dtype, shape in operands]
    outputs = [TensorType(NUMPY[dtype], tuple(shape)) for dtype, shape in results]
    found = evaluate(opcode, attrs, inputs, outputs)
    assert [(each.dtype, each.shape) for each in found] == [(each.dtype, each.shape) for each in outputs]


def test_the_instructions_to_be_spoilt_are_sound() -> None:
    for opcode, attrs, operands, results in SOUND:
        run(opcode, attrs, operands, results)


# Where the result could be the operand itself, or a view of it.
IDENTITIES: list[Any] = [
    ("copy", {}, [(F, [2, 3])], [(F, [2, 3])]),
    ("convert", {}, [(F, [2, 3])], [(F, [2, 3])]),
    ("convert", {}, [("bf16", [2, 3])], [("bf16", [2, 3])]),
    ("bitcast_convert", {}, [(F, [2, 3])], [(F, [2, 3])]),
    ("dma_copy", {}, [(F, [2, 3])], [(F, [2, 3])]),
    ("broadcast", {"dims": [0, 1]}, [(F, [2, 3])], [(F, [2, 3])]),
    ("broadcast", {"dims": []}, [(F, [])], [(F, [4])]),
    ("iota", {"dim": 1}, [], [(S, [2, 3])]),
    ("pad", {"low": [0], "high": [0], "interior": [0]}, [(F, [3]), (F, [])], [(F, [3])]),
    ("dynamic_slice", {"sizes": [2, 3]}, [(F, [2, 3]), (S, []), (S, [])], [(F, [2, 3])]),
    ("dynamic_slice", {"sizes": [1, 3]}, [(F, [2, 3]), (S, []), (S, [])], [(F, [1, 3])]),
    ("combine", {"op": "add"}, [(F, [3])], [(F, [3])]),
    ("reduce_window", {"op": "add", "size": [1]}, [(F, [3]), (F, [])], [(F, [3])]),
    ("reduce", {"dims": [], "body": [], "results": [1]}, [(F, [3]), (F, [])], [(F, [3])]),
    ("reduce", {"dims": [0], "body": [], "results": [0]}, [(F, [3]), (F, [])], [(F, [])]),
]


def test_results_never_share_memory_with_operands() -> None:
    for opcode, attrs, operands, results in SOUND + IDENTITIES:
        inputs = [np.ones(shape, NUMPY[dtype]) for dtype, shape in operands]
        outputs = [TensorType(NUMPY[dtype], tuple(shape)) for dtype, shape in results]
        for found in evaluate(opcode, attrs, inputs, outputs):
            assert found.flags.c_contiguous and found.flags.writeable, opcode
            assert not any(np.shares_memory(found, operand) for operand in inputs), opcode


@settings(max_examples=examples(3000))
@example(("reduce_window", {"op": "add", "size": [2**33], "pad_low": [2**33 - 1]}, [(F, [5]), (F, [])], [(F, [5])]))
@example(("reduce_window", {"body": [["add", F, [0, 1]]], "results": [2], "size": [2**40], "pad_low": [2**40 - 1]},
          [(F, [5]), (F, [])], [(F, [5])]))  # fmt: skip
@given(spoilt())
def test_nothing_but_diagnostics_comes_of_spoilt_instructions(instruction: Any) -> None:
    try:
        run(*instruction)
    except HauloutError as error:
        assert {each.code for each in error.diagnostics} == {"bad-input"}
