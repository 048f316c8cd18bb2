"""From module to program: names, kinds, aliases, storage in place, calls, and what is said about the unsupported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor, parameter_names

from haulout.frontends.hlo import load_hlo, lower, parse_hlo
from haulout.ir.enums import Engine, Kind
from haulout.ir.program import Program
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify
from haulout.ir.views import InstructionView
from haulout.support.diagnostics import HauloutError

DATA = Path(__file__).parent / "data"
X = "x = f32[2] parameter(0)\n"
SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  r = f32[] add(p, q)\n}\n"


def program(body: str, header: str = "num_partitions=2", before: str = "") -> Program:
    """Without fusion: one instruction an operation."""
    found = lower(parse_hlo(f"HloModule m, {header}\n{before}\nENTRY e {{\n{body}\n}}\n", "m.hlo"), fuse="none")
    assert verify(found) == []
    assert print_bir(parse_bir(print_bir(found))) == print_bir(found)
    return found


def instructions(found: Program) -> list[InstructionView]:
    return found.module_views()[0].functions[0].blocks[0].instructions


def lines(found: Program) -> list[str]:
    """The instructions of core 0 as `opcode(reads)->(writes)`."""

    def names(operands: list[Any]) -> str:
        return ",".join(location.name + (f"[{pattern}]" if pattern else "") for location, pattern in operands)

    return [f"{row.opcode}({names(row.reads)})->({names(row.writes)})" for row in instructions(found)]


def kinds(found: Program) -> dict[str, Kind]:
    return {location.name: location.kind for location in found.module_views()[0].functions[0].locations}


def run(found: Program, *values: np.ndarray) -> list[np.ndarray]:
    """The outputs of core 0 when all cores get the same inputs."""
    return Executor(found).run([list(values) for _ in range(found.lnc)])[0]


def message(body: str, header: str = "num_partitions=2", before: str = "") -> str:
    with pytest.raises(HauloutError) as caught:
        program(body, header, before)
    span = caught.value.diagnostics[0].span
    assert span is not None and span.line
    return str(caught.value)


# -- the whole program ----------------------------------------------------------------------------------------


def test_a_small_network() -> None:
    found = load_hlo(DATA / "mlp.n4.hlo", fuse="none")
    assert [view.name for view in found.module_views()] == ["nc0", "nc1", "nc2", "nc3"]
    assert parameter_names(found) == ["x", "w1", "b1", "w2"]
    assert found.output_names == ["y", "loss"]
    assert lines(found) == [
        "dot(x,w1)->(hidden)",
        "add(hidden,b1[0;0x8;16])->(hidden)",
        "tanh(hidden)->(hidden)",
        "dot(hidden,w2)->(partial)",
        "all_reduce(partial)->(y)",
        "multiply(y,y)->(square)",
        "reduce(square,zero)->(loss)",
    ]
    by_name = {row.name: row for row in instructions(found)}
    assert by_name["y"].attrs == {"op": "add", "groups": [[0, 1, 2, 3]]}
    assert by_name["y"].loc == "layers.py:31"
    assert by_name["partial"].loc == f"{DATA / 'mlp.n4.hlo'}:34"
    engines = [row.engine for row in instructions(found)]
    assert engines[:3] == [Engine.PE, Engine.VECTOR, Engine.ACT]
    seq = [row.seq for row in instructions(found)]
    assert seq == sorted(seq) and len(set(seq)) == len(seq)


def test_cores_are_clones_but_for_their_id() -> None:
    found = program("me = u32[] partition-id()\nROOT r = u32[] add(me, me)", "num_partitions=3")
    assert [int(values[0]) for values in Executor(found).run([[], [], []])] == [0, 2, 4]
    texts = [text.partition("{")[2] for text in print_bir(found).split("module ")[1:]]
    strip = [text.replace("AgAAAA==", "AAAAAA==").replace("AQAAAA==", "AAAAAA==") for text in texts]
    assert strip[0] == strip[1] == strip[2]


def test_one_core() -> None:
    found = program("x = f32[2] parameter(0)\nROOT r = f32[2] negate(x)", "is_scheduled=false")
    assert found.lnc == 1
    assert run(found, np.array([1, -2], np.float32))[0].tolist() == [-1, 2]


def test_what_the_result_does_not_depend_on_is_left_out_but_parameters_stay() -> None:
    found = program(X + "y = f32[2] parameter(1)\nd = f32[2] exponential(y)\nROOT r = f32[2] negate(x)")
    assert lines(found) == ["negate(x)->(r)"]
    assert kinds(found) == {"x": Kind.INPUT, "y": Kind.INPUT, "r": Kind.OUTPUT}


# -- aliases and names ----------------------------------------------------------------------------------------


def test_reshapes_are_views_with_the_shape_on_the_instruction() -> None:
    found = program(
        "x = f32[2,6] parameter(0)\ny = f32[12] reshape(x)\nz = f32[3,4] reshape(y)\n"
        "s = f32[4] slice(y), slice={[2:10:2]}\nc = f32[] constant(0)\n"
        "t = f32[3] reduce(z, c), dimensions={1}, to_apply=sum\nROOT r = (f32[4], f32[3]) tuple(s, t)",
        before=SUM,
    )
    assert lines(found) == ["dma_copy(x[8;8x4;4])->(s)", "reduce(x,c)->(t)"]
    assert instructions(found)[1].attrs["shapes"] == [[3, 4], [], [3]]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    values = run(found, x)
    assert values[0].tolist() == [2, 4, 6, 8]
    assert values[1].tolist() == x.reshape(3, 4).sum(1).tolist()


def test_an_output_that_is_a_reshape_has_the_shape_of_the_output() -> None:
    found = program("x = f32[2,6] parameter(0)\ny = f32[2,6] negate(x)\nROOT z = f32[12] reshape(y)")
    assert lines(found) == ["negate(x)->(z)"]
    assert instructions(found)[0].attrs["shapes"] == [[2, 6], [2, 6]]
    assert found.module_views()[0].functions[0].location("z").shape == (12,)


def test_a_bitcast_is_a_view_of_another_type() -> None:
    found = program("x = f32[2,6] parameter(0)\ny = s32[12]{0} bitcast(x)\nROOT z = s32[12] add(y, y)")
    (row,) = instructions(found)
    assert row.attrs == {"shapes": [[12], [12], [12]], "dtypes": ["s32", "s32", "s32"]}


def test_a_bitcast_between_layouts_keeps_the_order_of_memory() -> None:
    found = program("x = f32[2,6]{0,1} parameter(0)\ny = f32[6,2] bitcast(x)\nROOT z = f32[4,3]{0,1} bitcast(y)")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    memory = np.ravel(x, order="F")
    assert np.array_equal(run(found, x)[0], memory.reshape(4, 3, order="F"))


def test_a_broadcast_that_adds_nothing_is_a_view() -> None:
    found = program("x = f32[6] parameter(0)\ny = f32[1,6] broadcast(x), dimensions={1}\nROOT z = f32[1,6] negate(y)")
    assert lines(found) == ["negate(x)->(z)"]
    turned = program("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] broadcast(x), dimensions={1,0}")
    assert lines(turned) == ["broadcast(x)->(y)"]


def test_calls_are_inlined_and_tuples_resolved() -> None:
    callee = "f {\n  p = f32[2] parameter(0)\n  t = f32[2] add(p, p)\n  ROOT b = (f32[2], f32[2]) tuple(t, p)\n}\n"
    found = program(
        "x = f32[2] parameter(0)\ny = (f32[2], f32[2]) call(x), to_apply=f\n"
        "u = f32[2] get-tuple-element(y), index=0\nz = (f32[2], f32[2]) call(u), to_apply=f\n"
        "w = (f32[2], f32[2]) opt-barrier(z)\nv = f32[2] get-tuple-element(w), index=0\nROOT r = f32[2] negate(v)",
        before=callee,
    )
    assert lines(found) == ["add(x,x)->(r)", "add(r,r)->(r)", "negate(r)->(r)"]
    assert [row.name for row in instructions(found)] == ["t", "t_2", "r"]


def test_tuple_parameters_and_results() -> None:
    found = program(
        "x = (f32[2], (s32[2], f32[2])) parameter(0)\na = f32[2] get-tuple-element(x), index=0\n"
        "b = (s32[2], f32[2]) get-tuple-element(x), index=1\nc = s32[2] get-tuple-element(b), index=0\n"
        "d = f32[2] negate(a)\ne = s32[2] negate(c)\ni = (s32[2], f32[2]) tuple(e, a)\n"
        "ROOT r = (f32[2], (s32[2], f32[2])) tuple(d, i)"
    )
    assert parameter_names(found) == ["x.0", "x.1.0", "x.1.1"]
    assert found.output_names == ["d", "i.0", "r.1.1"]
    assert lines(found)[-1] == "dma_copy(x.0)->(r.1.1)"


def test_calls_of_calls_cannot_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haulout.frontends.hlo.flatten.MAX_INSTRUCTIONS", 1000)
    text = "f0 {\n  p = f32[] parameter(0)\n  r = f32[] negate(p)\n}\n"
    for level in range(1, 12):
        text += f"f{level} {{\n  p = f32[] parameter(0)\n  a = f32[] call(p), to_apply=f{level - 1}\n"
        text += f"  b = f32[] call(a), to_apply=f{level - 1}\n}}\n"
    assert "more than 1000 instructions" in message(
        "x = f32[] parameter(0)\nr = f32[] call(x), to_apply=f11", before=text
    )


# -- outputs and donated parameters ---------------------------------------------------------------------------


def test_outputs_that_nothing_produces_are_copied() -> None:
    found = program(
        "x = f32[2] parameter(0)\nc = f32[2] constant({1, 2})\ny = f32[2] negate(x)\n"
        "ROOT r = (f32[2], f32[2], f32[2], f32[2]) tuple(x, c, y, y)"
    )
    assert found.output_names == ["r.0", "r.1", "y", "r.3"]
    assert lines(found) == [
        "negate(x)->(y)",
        "dma_copy(x)->(r.0)",
        "dma_copy(c)->(r.1)",
        "dma_copy(y)->(r.3)",
    ]


ALIAS = "num_partitions=2, input_output_alias={ {}: (0, {}, may-alias) }"
PAIR = "num_partitions=2, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }"


def test_an_update_is_written_in_place_when_all_reads_come_before() -> None:
    found = program("x = f32[2] parameter(0)\ny = f32[2] exponential(x)\nROOT r = f32[2] add(y, y)", ALIAS)
    assert lines(found) == ["exponential(x)->(x)", "add(x,x)->(x)"]
    assert kinds(found)["x"] is Kind.INOUT
    assert found.output_names == ["x"]


def test_an_elementwise_update_reads_and_writes_the_parameter() -> None:
    assert lines(program("x = f32[2] parameter(0)\nROOT r = f32[2] add(x, x)", ALIAS)) == ["add(x,x)->(x)"]


def test_an_update_is_not_in_place_when_the_parameter_is_read_later_or_otherwise() -> None:
    later = program(
        "x = f32[2] parameter(0)\ny = f32[2] negate(x)\nz = f32[2] add(x, y)\nROOT r = (f32[2], f32[2]) tuple(y, z)",
        "num_partitions=2, input_output_alias={ {0}: (0, {}) }",
    )
    assert lines(later) == ["negate(x)->(y)", "add(x,y)->(z)", "dma_copy(y)->(x)"]
    turned = program("x = f32[2,2] parameter(0)\nROOT r = f32[2,2] transpose(x), dimensions={1,0}", ALIAS)
    assert lines(turned) == ["dma_copy(x[0;4x2,8x2;4])->(r)", "dma_copy(r)->(x)"]
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert run(turned, x)[0].tolist() == x.T.tolist()


def test_a_slice_is_updated_in_place_unless_the_update_reads_the_parameter() -> None:
    body = "x = f32[4] parameter(0)\ni = s32[] parameter(1)\n"
    update = "u = f32[2] constant({7, 8})\nROOT r = f32[4] dynamic-update-slice(x, u, i)"
    found = program(body + update, ALIAS)
    assert lines(found) == ["dynamic_update_slice(x,u,i)->(x)"]
    whole = program(body + "ROOT r = f32[4] dynamic-update-slice(x, x, i)", ALIAS)
    assert lines(whole)[-1] == "dma_copy(r)->(x)"


def test_the_old_value_of_a_donated_parameter_can_be_an_output() -> None:
    found = program(
        "x = f32[2] parameter(0)\ny = f32[2] add(x, x)\nROOT r = (f32[2], f32[2]) tuple(y, x)",
        "num_partitions=2, input_output_alias={ {0}: (0, {}) }",
    )
    x = np.array([1, 2], np.float32)
    assert [value.tolist() for value in run(found, x)] == [[2, 4], [1, 2]]


def test_two_parameters_exchanged() -> None:
    found = program("x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = (f32[2], f32[2]) tuple(y, x)", PAIR)
    values = run(found, np.array([1, 2], np.float32), np.array([3, 4], np.float32))
    assert [value.tolist() for value in values] == [[3, 4], [1, 2]]
    assert found.output_names == ["x", "y"]


def test_a_parameter_returned_where_it_is_needs_nothing() -> None:
    assert lines(program("ROOT x = f32[2] parameter(0)", ALIAS)) == []


def test_one_value_for_two_parameters() -> None:
    found = program(
        X + "y = f32[2] parameter(1)\nz = f32[2] add(x, y)\nROOT r = (f32[2], f32[2]) tuple(z, z)",
        PAIR,
    )
    assert lines(found) == ["add(x,y)->(x)", "dma_copy(x)->(y)"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("{0}: (0, {})", "the result has no array at {0}"),
        ("{}: (2, {})", "invalid parameter 2: the module has 2"),
        ("{}: (0, {1})", "parameter 0 has no array at {1}"),
        ("{}: (1, {})", "an output f32[2] cannot be stored in a parameter f32[3]"),
        ("{}: (0, {}), {}: (0, {})", "aliased twice"),
    ],
)
def test_aliases_that_make_no_sense(entries: str, expected: str) -> None:
    body = "x = f32[2] parameter(0)\ny = f32[3] parameter(1)\nROOT r = f32[2] negate(x)"
    assert expected in message(body, f"num_partitions=2, input_output_alias={{ {entries} }}")


# -- what is not supported, what does not fit -----------------------------------------------------------------


def test_an_unsupported_opcode_names_itself_and_the_users_line() -> None:
    with pytest.raises(HauloutError) as caught:
        program(X + 'ROOT y = f32[2] all-mix(x), metadata={source_file="u.py" source_line=9}')
    (finding,) = caught.value.diagnostics
    assert finding.message == "`all-mix` is not supported"
    assert [str(label.span) for label in finding.labels] == ["m.hlo:5:6", "u.py:9"]


PRELUDE = (
    "x = f32[4,6] parameter(0)\ni = s32[] parameter(1)\nc = f32[] constant(0)\nt = (f32[4,6], s32[]) tuple(x, i)\n"
)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("r = (f32[4,6], s32[]) while(t), condition=sum, body=sum", "%sum takes (f32[], f32[])"),
        ("r = f32[4,6] conditional(i, x, x), branch_computations={wide, wide}", "%wide takes (f32[2])"),
        ('r = f32[4] custom-call(x), custom_call_target="Foo", channel_id=1', 'of "Foo" is not supported'),
        ("r = f32[4,6] negate(t)", "negate takes arrays; %t is a tuple"),
        ("r = f32[4,6] negate(x), fast=true", "the attribute `fast` of negate is not supported"),
        ("r = f32[4,6] negate(x, x)", "expected 1 operands"),
        ("r = f32[4,7] negate(x)", "the result is f32[4,6], declared as f32[4,7]"),
        ("r = f32[4,6] add(x, c)", "the operands differ in shape or type"),
        ("r = s32[] tanh(i)", "not defined on s32"),
        ("r = pred[4,6] compare(x, x)", "needs the attribute `direction`"),
        ("r = pred[4,6] compare(x, x), direction=XX", "found `XX`"),
        ("r = pred[4,6] compare(x, x), direction=LT, type=SIGNED", "expected FLOAT or TOTALORDER"),
        ("r = pred[] compare(i, i), direction=LT, type=TOTALORDER", "expected SIGNED"),
        ("r = pred[] compare(i, i), direction=LT, order=PARTIAL", "expected TOTAL, found `PARTIAL`"),
        ("r = pred[4,6] compare(x, x), direction=LT, order=XX", "expected PARTIAL or TOTAL, found `XX`"),
        ("r = f32[4,6] reduce-precision(x), exponent_bits=0, mantissa_bits=7", "it has no exponent"),
        ("r = s32[] reduce-precision(i), exponent_bits=5, mantissa_bits=7", "not defined on s32"),
        ("r = f32[4,6] sort(x), dimensions={2}, to_apply=sum", "`dimensions` must be one, below 2"),
        ("r = f32[4,6] sort(x), dimensions={0}, to_apply=sum", "it returns (f32), expected (pred)"),
        ("r = f32[4] sort(x), dimensions={0}, to_apply=sum", "the result is f32[4,6], declared as f32[4]"),
        ("r = f32[4,6] select(x, x, x)", "the predicate must be pred"),
        ("r = f32[4,6] clamp(i, x, c)", "a bound must have the type of the value"),
        ("r = s4[2] parameter(2)", "element type `s4` is not supported"),
        ("r = f32[9999999999,9999999999] parameter(2)", "is larger than 2**62 bytes"),
        ("r = f32[3,8] reshape(x), inferred_dimension=1, what=1", "the attribute `what` of reshape"),
        ("r = f32[5] reshape(x)", "the elements differ"),
        ("r = f32[4] get-tuple-element(t), index=2", "has no element 2"),
        ("r = f32[4] get-tuple-element(x), index=0", "has no element 0"),
        ("r = s32[] get-tuple-element(t), index=0", "the value is f32[4,6], declared as s32[]"),
        ("r = f32[] call(i, c), to_apply=sum", "%sum takes (f32[], f32[])"),
        ("r = s32[] call(c, c), to_apply=sum", "the value is f32[], declared as s32[]"),
        ("r = f32[4,2] slice(x), slice={[0:4], [5:7]}", "each inside it"),
        ("r = f32[4] slice(x), slice={[0:4]}", "one a dimension"),
        ("r = f32[6,4] transpose(x), dimensions={0,0}", "must be a permutation"),
        ("r = f32[4,6] reverse(x), dimensions={2}", "distinct and below 2"),
        ("r = f32[8,6] concatenate(x, i), dimensions={0}", "the operands differ"),
        ("r = f32[8,6] concatenate(x, x), dimensions={2}", "must be one dimension"),
        ("r = f32[] concatenate(), dimensions={0}", "expected 1 operands"),
        ("r = f32[4,4] broadcast(x), dimensions={0,1}", "in one of the same size"),
        ("r = f32[4] iota(), iota_dimension=1", "no numbers along dimension 1"),
        ("r = (f32[4], f32[4]) iota(), iota_dimension=0", "expected 0 operands and 1 results"),
        ("r = f32[5,6] pad(x, i), padding=1_0x0_0", "the value must be a scalar"),
        ("r = f32[5,6] pad(x, c), padding=1_0", "one entry a dimension"),
        ("r = f32[1,6] dynamic-slice(x, i), dynamic_slice_sizes={1,6}", "expected 3 operands"),
        ("r = f32[5,6] dynamic-slice(x, i, i), dynamic_slice_sizes={5,6}", "inside the operand"),
        ("r = f32[4,6] dynamic-update-slice(x, x, c, c)", "integer scalars"),
        ("r = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "must agree"),
        ("r = f32[4,4] dot(x, x), lhs_contracting_dims={2}, rhs_contracting_dims={1}", "below 2"),
        ("r = f32[4] reduce(x, i), dimensions={1}, to_apply=sum", "bad initial value"),
        ("r = f32[4] reduce(x, c), dimensions={1}, to_apply=pick", "it returns (s32), expected (f32)"),
        ("r = f32[4] reduce(x, c), dimensions={1}, to_apply=wide", "takes (f32[2])"),
        ("r = f32[4] reduce(x, c), dimensions={1}, to_apply=dotty", "`iota` is not supported"),
        ("r = f32[4] reduce(x, c), dimensions={1,1}, to_apply=sum", "distinct and below 2"),
        ("r = f32[4,6] all-reduce(x), replica_groups={}, to_apply=less", "only add, multiply"),
        (
            "r = f32[8,6] all-gather(x), dimensions={0}, replica_groups={{0}}",
            "the result is f32[4,6]",
        ),
        (
            "r = f32[2,6] reduce-scatter(x), dimensions={0}, to_apply=sum, channel_id=1, replica_groups={{0,1,2}}",
            "below 1",
        ),
        (
            "r = f32[4,6] all-to-all(x), channel_id=1, replica_groups={{0,1}}",
            "one operand of one shape for each of 2",
        ),
        (
            "r = f32[4,6] collective-permute(x, x), channel_id=1, source_target_pairs={{0,1}}",
            "expected 2 operands and 2 results",
        ),
        ("r = f32[2,3] reduce-window(x, c), window={size=5x2}, to_apply=sum", "does not fit along dimension 0"),
        ("r = f32[2,3] reduce-window(x, c), window={size=2}, to_apply=sum", "must have 2 dimensions"),
        (
            "r = f32[2] gather(x, i), offset_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,2}",
            "there are 2 window dimensions",
        ),
        ("r = u32[2] partition-id()", "partition-id must be u32[], found u32[2]"),
    ],
)
def test_what_does_not_fit_is_said(instruction: str, expected: str) -> None:
    before = SUM + (
        "less {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  r = f32[] subtract(p, q)\n}\n"
        "pick {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  r = s32[] convert(q)\n}\n"
        "wide {\n  p = f32[2] parameter(0)\n}\n"
        "dotty {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  r = f32[] iota(), iota_dimension=0\n}\n"
    )  # fmt: skip
    assert expected in message(PRELUDE + "ROOT " + instruction, before=before)


def test_too_many_cores_and_replicas() -> None:
    body = "ROOT x = f32[2] parameter(0)"
    assert "at most 1024 cores" in message(body, "num_partitions=1025")
    assert "replica_count=2" in message("ROOT x = u32[] replica-id()", "num_partitions=2, replica_count=2")
    assert lines(program("x = u32[] replica-id()\nROOT y = u32[] add(x, x)")) == ["add(x,x)->(y)"]


# -- computations on scalars ----------------------------------------------------------------------------------


def reduction(*body: str) -> dict[str, Any]:
    before = "f {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  " + "\n  ".join(body) + "\n}\n"
    found = program(
        "x = f32[4,6] parameter(0)\nc = f32[] constant(0)\nROOT r = f32[4] reduce(x, c), dimensions={1}, to_apply=f",
        before=before,
    )
    return instructions(found)[0].attrs


def test_six_computations_have_a_name() -> None:
    for opcode in ("add", "multiply", "maximum", "minimum"):
        assert reduction(f"r = f32[] {opcode}(q, p)") == {"dims": [1], "op": opcode}


def test_other_computations_are_written_out() -> None:
    assert reduction("r = f32[] add(p, p)") == {"dims": [1], "body": [["add", "f32", [0, 0]]], "results": [2]}
    assert reduction(
        "h = f32[] constant(0.5)", "g = pred[] compare(p, h), direction=GT", "r = f32[] select(g, p, q)"
    ) == {
        "dims": [1],
        "body": [["constant", "f32", [], 0.5], ["compare", "pred", [0, 2], "GT"], ["select", "f32", [3, 0, 1]]],
        "results": [4],
    }
    assert reduction("r = f32[] reshape(q)") == {"dims": [1], "body": [], "results": [1]}
    assert reduction("r = f32[] constant(inf)") == {
        "dims": [1],
        "body": [["constant", "f32", [], np.inf]],
        "results": [2],
    }
