"""Attributes of `nki.*` that do not fit are diagnostics that name the instruction, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.sim_programs import program

from haulout.frontends.nki.instructions import INSTRUCTIONS
from haulout.ir.attributes import AttrValue, format_value
from haulout.sim import compare_schedules, simulate
from haulout.sim.nki.table import KERNELS
from haulout.support.diagnostics import HauloutError

COPY = "[[dst,[1],float32,[2,4],[4,1]],[src,[0],float32,[2,4],[4,1]]]"


def _text(opcode: str, attributes: str, between: str = "") -> object:
    return program(f"""
        mloc %x dram.local size=32 kind=input dtype=f32 shape=[2,4]
        mloc %y dram.local size=32 kind=output dtype=f32 shape=[2,4]
        {between}
        %one = nki.{opcode} @dma0 (%x) -> (%y) {attributes}
    """)


@pytest.mark.parametrize(
    ("opcode", "attributes", "said"),
    [
        ("dma_copy", "", "no attribute `args`"),
        ("gargle", f"args={COPY}", "`nki.gargle` cannot be computed"),
        ("dma_copy", "args=7", "expected [[PARAMETER,VALUE...],...]"),
        ("dma_copy", f"args={COPY.replace('src,[0],float32', 'src,[0],float31')}", "element type 'float31'"),
        ("dma_copy", f"args={COPY.replace('[2,4],[4,1]]]', '[2,4],[9,1]]]')}", "touches bytes"),
        ("dma_copy", f"args={COPY.replace('[2,4],[4,1]]]', '[2,3],[4,1]]]')}", "src has 6 elements, dst 8"),
        ("dma_copy", "args=[[dst,[1],float32,[2,4],[4,1]]]", "`src` must be a tensor"),
        ("tensor_tensor", f"args={COPY.replace('src', 'data1')}", "`data2` must be a tensor"),
        ("activation", f"args={COPY.replace('src', 'data')[:-1]},[op,swirl]]", "`swirl` is not a function"),
        ("tensor_reduce", f"args={COPY.replace('src', 'data')[:-1]},[op,add],[axis,0]]", "are not the last axes"),
        ("dma_copy", f"of=two call={COPY}", "its first part has not run"),
        ("loop", f"args={COPY}", "what decides this loop is not known"),
        ("dma_copy", f"args={COPY} at=3", "expected [[OPERAND,OFFSET],...]"),
    ],
)
def test_what_is_wrong_is_said_of_the_instruction(opcode: str, attributes: str, said: str) -> None:
    with pytest.raises(HauloutError) as error:
        simulate(_text(opcode, attributes))
    found = error.value.diagnostics[0]
    assert said in found.message
    assert "%one" in found.labels[0].message


_VALUES: st.SearchStrategy[AttrValue] = st.recursive(
    st.one_of(
        st.integers(-9, 9), st.sampled_from(["none", "float32", "int8", "add", "$", "register"]), st.booleans()
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)
_TENSOR = st.tuples(
    st.lists(st.integers(-1, 2), max_size=2),
    st.sampled_from(["float32", "int32", "uint8", "bfloat16", "float8_e4m3fn_x4"]),
    st.lists(st.integers(-1, 5), max_size=3),
    st.lists(st.integers(-5, 9), max_size=3),
)
_OPCODES = sorted(KERNELS)
_PARAMETERS = sorted(
    {each for row in INSTRUCTIONS.values() for each in row.parameters} | {"register", "range", "while"}
)


def _parameters(opcode: str) -> st.SearchStrategy[str]:
    """Names of arguments, most of them those of the instruction."""
    own = INSTRUCTIONS[opcode].parameters if opcode in INSTRUCTIONS else _PARAMETERS
    return st.one_of(st.sampled_from(own), st.sampled_from(own), st.sampled_from(_PARAMETERS))


@given(
    st.sampled_from(_OPCODES).flatmap(
        lambda opcode: st.tuples(
            st.just(opcode),
            st.lists(st.tuples(_parameters(opcode), st.one_of(_TENSOR.map(list), _VALUES)), max_size=6),
        )
    )
)
def test_any_arguments_compute_or_are_refused(call: tuple[str, list[tuple[str, AttrValue]]]) -> None:
    opcode, given_ = call
    args = [[name, *(_plain(value) if isinstance(value, list) else [value])] for name, value in given_]
    text = _text(opcode, f"args={format_value(args)}")
    for run in (simulate, compare_schedules):
        try:
            run(text)  # type: ignore[operator]
        except HauloutError as error:
            assert error.diagnostics[0].code in ("bad-input", "out-of-bounds")


def _plain(value: AttrValue) -> list[AttrValue]:
    return [list(each) if isinstance(each, tuple) else each for each in value] if isinstance(value, list) else [value]
