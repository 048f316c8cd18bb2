"""The reader of HLO text: what it keeps of a module, and what it says about one that is wrong."""

from pathlib import Path

import numpy as np
import pytest

from haulout.frontends.hlo.parser import parse_hlo, read_hlo
from haulout.frontends.hlo.types import Shape, TupleShape
from haulout.support.diagnostics import HauloutError

DATA = Path(__file__).parent / "data"


def module(body: str, header: str = "num_partitions=2") -> str:
    return f"HloModule m, {header}\n\nENTRY e {{\n{body}\n}}\n"


def error(text: str) -> HauloutError:
    with pytest.raises(HauloutError) as caught:
        parse_hlo(text, "m.hlo")
    return caught.value


def test_reads_a_module() -> None:
    hlo = read_hlo(DATA / "mlp.n4.hlo")
    assert (hlo.name, hlo.num_partitions, hlo.replica_count) == ("small_mlp", 4, 1)
    assert list(hlo.computations) == ["sum", "main"]
    assert hlo.entry is hlo.computations["main"]
    assert [parameter.name for parameter in hlo.entry.parameters] == ["x", "w1", "b1", "w2"]
    assert hlo.entry.root.operands == ("y", "loss")
    assert hlo.entry.root.shape == TupleShape((Shape("f32", (8, 16)), Shape("f32", ())))
    assert hlo.count() == 17
    reduce = hlo.entry.by_name["loss"]
    assert (reduce.opcode, reduce.operands) == ("reduce", ("square", "zero"))
    assert reduce.attributes["dimensions"].text == "{0,1}"
    assert hlo.source.line_text(reduce.line).strip().startswith("%loss = ")


def test_places_come_from_the_tables_or_the_metadata() -> None:
    entry = read_hlo(DATA / "mlp.n4.hlo").entry
    assert entry.by_name["hidden"].place == "model.py:7"
    assert entry.by_name["loss"].place == "model.py:12"
    assert entry.by_name["y"].place == "layers.py:31"
    assert entry.by_name["partial"].place is None


def test_a_frame_that_leads_nowhere_gives_no_place() -> None:
    hlo = parse_hlo(module("ROOT x = f32[] parameter(0), metadata={stack_frame_id=7}"))
    assert hlo.entry.root.place is None


def test_text_in_an_operation_name_is_not_read_as_metadata() -> None:
    hlo = parse_hlo(
        module(
            'ROOT x = f32[] parameter(0), metadata={op_name="a source_file=\\"z\\" }" source_file="y" source_line=3}'
        )
    )
    assert hlo.entry.root.place == "y:3"


def test_short_forms() -> None:
    """Names without `%`, operands with shapes, comments, no signature, root by position."""
    hlo = parse_hlo(
        "HloModule m\n// a comment\nENTRY e {\n  a = (f32[2]{0}, /*index=1*/s32[]) parameter(0)\n"
        "  b = s32[] get-tuple-element((f32[2]{0}, s32[]) a), index=1\n"
        "  c = s32[] add(s32[] b, s32[] %b)\n} // end\n"
    )
    assert hlo.num_partitions == 1
    assert hlo.entry.root.operands == ("b", "b")


@pytest.mark.parametrize(
    ("text", "layout", "suffix"),
    [
        ("f32[2,3]{1,0}", (1, 0), ""),
        ("f32[2,3]", None, ""),
        ("bf16[2,3]{0,1:T(8,128)(2,1)S(1)}", (0, 1), "T(8,128)(2,1)S(1)"),
        ("f32[4]{:T(128)}", None, "T(128)"),
        ("pred[]", None, ""),
        ("f32[]{}", (), ""),
    ],
)
def test_layouts(text: str, layout: tuple[int, ...] | None, suffix: str) -> None:
    shape = parse_hlo(module(f"ROOT x = {text} parameter(0)")).entry.root.shape
    assert isinstance(shape, Shape)
    assert (shape.layout, shape.suffix) == (layout, suffix)


def test_row_major_is_the_descending_layout() -> None:
    def shape(text: str) -> Shape:
        found = parse_hlo(module(f"ROOT x = {text} parameter(0)")).entry.root.shape
        assert isinstance(found, Shape)
        return found

    assert shape("f32[2,3]{1,0}").is_row_major
    assert shape("f32[2,3]").is_row_major
    assert not shape("f32[2,3]{0,1}").is_row_major
    assert shape("f32[2,3]{1,0:T(8,128)}").is_row_major
    assert shape("f32[2,3]{0,1}") == shape("f32[2,3]{1,0}")


def test_aliases() -> None:
    header = "input_output_alias={ {0}: (1, {}, may-alias), {}: (0, {2,1}, must-alias), {1}: (3) }"
    found = parse_hlo(module("ROOT x = f32[] parameter(0)", header)).aliases
    assert [(a.output, a.parameter, a.parameter_index, a.must) for a in found] == [
        ((0,), 1, (), False),
        ((), 0, (2, 1), True),
        ((1,), 3, (), False),
    ]


def test_a_mesh_with_device_ids_is_one_value() -> None:
    hlo = parse_hlo(
        module(
            "x = f32[] parameter(0)\nROOT y = f32[] all-reduce(x), channel_id=1, "
            "replica_groups=mesh['a,'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a,'}, use_global_device_ids=true"
        )
    )
    assert list(hlo.entry.root.attributes) == ["channel_id", "replica_groups", "use_global_device_ids"]
    assert hlo.entry.root.attributes["replica_groups"].text == "mesh['a,'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a,'}"


def test_values_over_several_lines() -> None:
    hlo = parse_hlo(
        module('ROOT c = f32[2,2] constant({\n { 1, 2 },\n { 3, -4e-1 } }), backend_config={"a": [1,\n 2, "}"]}')
    )
    assert np.array_equal(hlo.entry.root.literal, np.array([[1, 2], [3, -0.4]], np.float32))  # type: ignore[arg-type]
    assert hlo.entry.root.attributes["backend_config"].text.endswith('"}"]}')


def test_an_error_shows_line_caret_and_what_was_expected() -> None:
    caught = error(module("x = f32[] parameter(0)\nROOT y = f32[] add(x x)"))
    (finding,) = caught.diagnostics
    assert finding.code == "bad-input"
    assert finding.message == "expected `,` or `)` after an operand, found `x`"
    (label,) = finding.labels
    assert label.span is not None
    assert label.source == "ROOT y = f32[] add(x x)"
    assert (label.span.file, label.span.line) == ("m.hlo", 5)
    assert (label.span.column, label.span.end_column) == (22, 23)


@pytest.mark.parametrize("first", [0, 1])
def test_the_authors_line_comes_before_those_of_packages(first: int) -> None:
    """Frames of Flax are not what the author looks for; `first` is what JAX writes for no parent."""
    tables = (
        'FileNames\n1 "/venv/lib/python3.11/site-packages/flax/linen/linear.py"\n2 "model.py"\n\n'
        "FileLocations\n1 {file_name_id=1 function_name_id=1 line=287}\n"
        "2 {file_name_id=2 function_name_id=1 line=9}\n\n"
        f"StackFrames\n1 {{file_location_id=2 parent_frame_id={first}}}\n"
        f"2 {{file_location_id=1 parent_frame_id={first + 1}}}\n3 {{file_location_id=1 parent_frame_id={first}}}\n\n"
    )
    text = f"HloModule m\n\n{tables}ENTRY e {{\n  a = f32[] parameter(0), metadata={{stack_frame_id=2}}\n"
    text += "  ROOT b = f32[] negate(a), metadata={stack_frame_id=3}\n}\n"
    entry = parse_hlo(text).entry
    assert entry.by_name["a"].place == "model.py:9"
    assert entry.by_name["b"].place == "/venv/lib/python3.11/site-packages/flax/linen/linear.py:287"


def test_an_old_header_has_a_colon() -> None:
    assert parse_hlo("HloModule step.7:\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n").name == "step.7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected `HloModule`, found the end of the file"),
        ("HloModule m", "expected an `ENTRY` computation"),
        (module(""), "has no instructions"),
        (module("x = f32[] parameter(0)")[:-3], "expected an instruction or `}`"),
        (module("x = f32[] parameter(1)"), "numbered 0 to 0"),
        (module("x = f32[] parameter(0)\ny = f32[] parameter(0)"), "each once"),
        (module("x = f32[] parameter(0)\nx = f32[] negate(x)"), "a second instruction %x"),
        (module("x = f32[] parameter(0)\ny = f32[] negate(z)"), "%z is not defined before this use"),
        (module("x = f32[] parameter(0)\ny = f32[] negate(s32[] x)"), "has shape f32[], not s32[]"),
        (module("ROOT x = f32[] parameter(0)\nROOT y = f32[] negate(x)"), "a second root"),
        (module("x = f32[] parameter(0)\ny = f32[] call(x), to_apply=g"), "computation %g is not defined"),
        (module("x = f32[] parameter(0), a=1, a=2"), "given twice"),
        (module("x = f32[2,3]{1,1} parameter(0)"), "not a permutation"),
        (module("x = f33[2] parameter(0)"), "unknown element type `f33`"),
        (module("x = f32[99999999999999999999] parameter(0)"), "does not fit 64 bits"),
        (module("x = f32[" + "9" * 9999 + "] parameter(0)"), "does not fit 64 bits"),
        (module("x = f32[-1] parameter(0)"), "must be at least 0"),
        (module("x = f32[] parameter(0), sharding=({a"), "`(` is never closed"),
        (module("x = f32[] parameter(0), sharding={a]"), "`{` is closed by `]`"),
        (module("x = f32[] parameter(0), sharding="), "expected a value"),
        (module("x = f32[] parameter(0)", "num_partitions=0"), "must be at least 1"),
        (module("x = f32[] parameter(0)", "num_partitions=two"), "expected an integer"),
        (
            module("x = f32[] parameter(0)\n%sum (p: f32[]) -> f32[] {"),
            "%sum inside of another one, which lacks its `}`",
        ),
        (module("x = f32[] parameter(0)") + "ENTRY f { x = f32[] parameter(0) }", "a second entry"),
        (module("x = f32[] parameter(0)") + "e { x = f32[] parameter(0) }", "a second computation"),
        ("HloModule m\nENTRY e (x: f32[]) -> s32[] { x = f32[] parameter(0) }", "the signature's result is s32[]"),
        ("HloModule m\nENTRY e (x: s32[]) -> f32[] { x = f32[] parameter(0) }", "is s32[] in the signature"),
        ("HloModule m\nENTRY e () -> f32[] { x = f32[] parameter(0) }", "has 0 parameters, the body 1"),
        ("HloModule m\nFileNames\n1 x\nENTRY e { x = f32[] parameter(0) }", "a name in double quotes"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    assert message in str(error(text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="cannot read"):
        read_hlo(tmp_path / "absent.hlo")
    with pytest.raises(HauloutError, match="cannot read"):
        read_hlo(tmp_path)
    bad = tmp_path / "bad.hlo"
    bad.write_bytes(b"HloModule m\n\xff\xfe")
    with pytest.raises(HauloutError, match=r"bad\.hlo:2: .*not UTF-8"):
        read_hlo(bad)


@pytest.mark.parametrize("depth", [65, 200_000])
def test_deep_nesting_is_an_error_not_an_overflow(depth: int) -> None:
    assert "nested more than 64 deep" in str(error(module(f"x = {'(' * depth} parameter(0)")))
    assert "expected a number, found `{`" in str(error(module(f"x = f32[] constant({'{' * depth}{'}' * depth})")))
    hlo = parse_hlo(module(f"x = f32[] parameter(0), backend_config={'{' * depth}{'}' * depth}"))
    assert len(hlo.entry.root.attributes["backend_config"].text) == 2 * depth


def test_elements_of_tuples_as_operands() -> None:
    """`%t#1` is what a get-tuple-element of it would be."""
    body = (
        "t = (f32[2], (s32[], pred[3])) parameter(0)\nROOT r = (s32[], pred[3], s32[]) tuple(%t#1#0, %t#1#1, t#1#0)"
    )
    found = parse_hlo(module(body)).entry
    names = [each.name for each in found.instructions]
    assert names == ["t", "t#1", "t#1#0", "t#1#1", "r"]
    assert found.root.operands == ("t#1#0", "t#1#1", "t#1#0")
    assert [found.by_name[name].opcode for name in names[1:4]] == ["get-tuple-element"] * 3
    for wrong in ("t#2", "t#0#0"):
        with pytest.raises(HauloutError, match="has no element"):
            parse_hlo(module(f"t = (f32[2], s32[]) parameter(0)\nROOT r = f32[2] negate({wrong})"))


def test_a_token_is_one_byte() -> None:
    found = parse_hlo(module("t = token[] parameter(0)\nROOT r = (token[], f32[2]) parameter(1)")).entry
    assert str(found.parameters[0].shape) == "pred[]"
    assert str(found.root.shape) == "(pred[], f32[2])"
