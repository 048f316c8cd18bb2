"""Fusion changes where values are stored, never their bits; and it fuses what the design says, no more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor, parameter_names

import haulout
from haulout.frontends.hlo import Fuse, lower, parse_hlo
from haulout.frontends.hlo.fuse_elementwise import MAX_OPERANDS, MAX_STATEMENTS
from haulout.ir.enums import Engine, Kind
from haulout.ir.program import Program
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

HERE = Path(__file__).parent
SHIPPED = sorted([*HERE.glob("data/*.hlo"), *(HERE.parents[1] / "end_to_end" / "data").glob("*.hlo")])
DIRECTORY = os.environ.get("HAULOUT_HLO_DIR")
CORPUS = sorted(Path(DIRECTORY).glob("*.hlo")) if DIRECTORY else []
SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"


def program(body: str, header: str = "num_partitions=1", before: str = SUM, fuse: Fuse = "all") -> Program:
    text = f"HloModule m, {header}\n\n{before}\nENTRY e {{\n{body}\n}}\n"
    found = lower(parse_hlo(text, "m.hlo"), fuse=fuse)
    assert verify(found) == []
    return found


def rows(found: Program) -> list[Any]:
    return [row for block in found.module_views()[0].functions[0].blocks for row in block.instructions]


def opcodes(body: str, **options: Any) -> list[str]:
    """Of the fused program, which computes what the other one does."""
    found, plain = program(body, **options), program(body, **options, fuse="none")
    rng = np.random.default_rng(1)
    executor = Executor(plain)
    given = [rng.standard_normal(executor.get(0, name).shape).astype(executor.get(0, name).dtype)
             for name in parameter_names(plain)]  # fmt: skip
    results = [Executor(each).run([[value.copy() for value in given]])[0] for each in (found, plain)]
    for mine, theirs in zip(*results, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    return [row.opcode for row in rows(found)]


def internal_bytes(found: Program) -> int:
    locations = found.locations
    return int(locations.size[locations.kind == Kind.INTERNAL].sum())


# -- what is fused ---------------------------------------------------------------------------------------------------

X = "x = f32[4,6] parameter(0)\n"


def test_a_chain_is_one_map() -> None:
    body = X + "a = f32[4,6] exponential(x)\nb = f32[4,6] negate(a)\nROOT r = f32[4,6] add(b, x)"
    assert opcodes(body) == ["map"]
    (row,) = rows(program(body))
    assert row.engine is Engine.ACT
    assert row.attrs["body"] == [["exponential", "f32", [0]], ["negate", "f32", [1]], ["add", "f32", [2, 0]]]
    assert row.attrs["results"] == [3]
    assert [location.name for location, _ in row.reads] == ["x"]
    assert internal_bytes(program(body)) == 0


def test_constants_scalars_and_broadcasts_are_operands() -> None:
    body = (
        X + "s = f32[] parameter(1)\nv = f32[6] parameter(2)\nc = f32[] constant(-0.0)\n"
        "bc = f32[4,6] broadcast(c), dimensions={}\nbs = f32[4,6] broadcast(s), dimensions={}\n"
        "bv = f32[4,6] broadcast(v), dimensions={1}\na = f32[4,6] add(x, bc)\nb = f32[4,6] multiply(a, bs)\n"
        "ROOT r = f32[4,6] subtract(b, bv)"
    )
    assert opcodes(body) == ["map"]
    (row,) = rows(program(body))
    assert [(location.name, pattern and str(pattern)) for location, pattern in row.reads] == [
        ("x", None), ("s", None), ("v", "0;0x4;24"),
    ]  # fmt: skip
    assert row.attrs["shapes"] == [[4, 6], [], [4, 6], [4, 6]]
    assert ["constant", "f32", [], -0.0] in row.attrs["body"] and "-0.0" in str(row.attrs["body"])
    assert row.engine is Engine.VECTOR


def test_zeros_of_both_signs_are_two_constants() -> None:
    body = (
        X + "n = f32[] constant(-0)\nz = f32[] constant(0)\nbn = f32[4,6] broadcast(n), dimensions={}\n"
        "bz = f32[4,6] broadcast(z), dimensions={}\na = f32[4,6] multiply(x, bn)\nROOT r = f32[4,6] add(a, bz)"
    )
    assert opcodes(body) == ["map"]
    assert len(rows(program(body))[0].attrs["body"]) == 4


def test_producers_of_a_reduction_and_what_it_makes() -> None:
    softmax = (
        X.replace("[4,6]", "[4,64]") + "z = f32[] constant(0)\nw = f32[30,30] parameter(1)\n"
        "h = f32[30,30] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "q = f32[] reduce(h, z), dimensions={0,1}, to_apply=sum\n"
        "m = f32[4] reduce(x, z), dimensions={1}, to_apply=sum\n"
        "bm = f32[4,64] broadcast(m), dimensions={0}\nd = f32[4,64] subtract(x, bm)\ne = f32[4,64] exponential(d)\n"
        "s = f32[4] reduce(e, z), dimensions={1}, to_apply=sum\nbs = f32[4,64] broadcast(s), dimensions={0}\n"
        "d2 = f32[4,64] divide(e, bs)\nROOT r = (f32[], f32[4,64]) tuple(q, d2)"
    )
    assert opcodes(softmax) == ["dot", "reduce", "reduce", "map_reduce", "map"]
    assert internal_bytes(program(softmax)) == 4 * 900 + 2 * 16


def test_a_reduction_by_a_computation_without_a_name_is_no_reader() -> None:
    before = SUM.replace("add(p, q)", "subtract(p, q)")
    body = (
        X
        + "z = f32[] constant(0)\na = f32[4,6] negate(x)\nROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=sum"
    )
    assert opcodes(body, before=before) == ["negate", "reduce"]


def test_views_between_become_strides() -> None:
    body = (
        X + "a = f32[4,6] exponential(x)\nt = f32[6,4] transpose(a), dimensions={1,0}\n"
        "y = f32[6,4] parameter(1)\nROOT r = f32[6,4] add(t, y)"
    )
    assert opcodes(body) == ["map"]
    assert str(rows(program(body))[0].reads[0][1]) == "0;4x6,24x4;4"


def test_two_slices_compute_half_each() -> None:
    body = (
        X + "a = f32[4,6] exponential(x)\nl = f32[4,3] slice(a), slice={[0:4],[0:3]}\n"
        "h = f32[4,3] slice(a), slice={[0:4],[3:6]}\nROOT r = f32[4,3] subtract(l, h)"
    )
    assert opcodes(body) == ["map"]


def test_a_stored_transpose_reads_what_its_operand_is_made_of() -> None:
    """A matrix product wants its operand as it is; the transpose with new strides stays, the chain before goes."""
    body = (
        X + "a = f32[4,6] exponential(x)\nb = f32[4,6] negate(a)\nt = f32[6,4] transpose(b), dimensions={1,0}\n"
        "ROOT r = (f32[6,4]) tuple(t)"
    )
    assert opcodes(body) == ["map"]


def test_an_iota_is_a_line_of_numbers() -> None:
    body = (
        "x = s32[4,6] parameter(0)\ni = s32[4,6] iota(), iota_dimension=1\nj = s32[4,6] iota(), iota_dimension=0\n"
        "a = s32[4,6] add(i, j)\nROOT r = (s32[4,6], s32[4,6]) tuple(a, j)"
    )
    found = program(body)
    assert sorted(opcodes(body)) == ["add", "iota", "iota", "iota"]  # the whole one is a result
    assert sorted(row.writes[0][0].size for row in rows(found) if row.opcode == "iota") == [16, 24, 96]


# -- what is not -----------------------------------------------------------------------------------------------------


DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"


@pytest.mark.parametrize(
    "others",
    [
        f"w = f32[6,6] parameter(1)\nd = f32[4,6] dot(a, w), {DOT}ROOT r = (f32[4,6], f32[4,6]) tuple(d, b)",
        "ROOT r = (f32[4,6], f32[4,6]) tuple(a, b)",
    ],
    ids=["dot", "result"],
)
def test_what_others_read_is_stored(others: str) -> None:
    found = opcodes(X + "a = f32[4,6] exponential(x)\nb = f32[4,6] negate(a)\n" + others)
    assert found[0] == "exponential" and "map" not in found


def test_a_value_for_a_row_is_not_computed_for_every_element() -> None:
    body = (
        X + "v = f32[4] parameter(1)\na = f32[4] exponential(v)\nba = f32[4,6] broadcast(a), dimensions={0}\n"
        "ROOT r = f32[4,6] add(x, ba)"
    )
    assert opcodes(body) == ["exponential", "add"]


def test_many_readers_of_many_operands_read_the_stored_sum() -> None:
    ys = "".join(f"y{i} = f32[4,6] parameter({i})\n" for i in range(1, 8))

    def parts(readers: int) -> str:
        text = X + ys + "a = f32[4,6] add(x, y1)\n"
        text += "".join(f"b{i} = f32[4,6] multiply(a, y{i + 1})\n" for i in range(1, readers + 1))
        return (
            text
            + f"ROOT r = ({', '.join(['f32[4,6]'] * readers)}) "
            + f"tuple({', '.join(f'b{i}' for i in range(1, readers + 1))})"
        )

    # Stored: 3 + n arrays are moved for it; computed again: 2 n are read.
    assert opcodes(parts(3)) == ["map"] * 3
    assert opcodes(parts(4)) == ["add"] + ["multiply"] * 4


def test_nothing_moves_into_a_loop_or_an_arm() -> None:
    loop = (
        "cond {\n  s = (s32[], f32[4,6], f32[4,6]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant(3)\n  ROOT l = pred[] compare(i, n), direction=LT\n}\n"
        "body {\n  s = (s32[], f32[4,6], f32[4,6]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  v = f32[4,6] get-tuple-element(s), index=1\n  k = f32[4,6] get-tuple-element(s), index=2\n"
        "  o = s32[] constant(1)\n  j = s32[] add(i, o)\n  w = f32[4,6] add(v, k)\n"
        "  ROOT t = (s32[], f32[4,6], f32[4,6]) tuple(j, w, k)\n}\n"
    )
    body = (
        X + "a = f32[4,6] exponential(x)\nz = s32[] constant(0)\nt = (s32[], f32[4,6], f32[4,6]) tuple(z, x, a)\n"
        "w = (s32[], f32[4,6], f32[4,6]) while(t), condition=cond, body=body\n"
        "ROOT r = f32[4,6] get-tuple-element(w), index=1"
    )
    assert "exponential" in opcodes(body, before=loop)


def test_operands_do_not_outlive_what_they_make() -> None:
    """`a` is half as large as what it is made of: fused, both large operands would live until the end."""
    body = (
        X + f"y = f32[4,6] parameter(1)\nz = f32[4,6] parameter(2)\nw = f32[6,6] parameter(3)\n"
        f"b = f32[4,6] dot(y, w), {DOT}c = f32[4,6] dot(z, w), {DOT}a = f32[4,6] add(b, c)\n"
        f"e = f32[4,6] dot(x, w), {DOT}f = f32[4,6] dot(e, w), {DOT}ROOT r = f32[4,6] multiply(a, f)"
    )
    assert opcodes(body) == ["dot", "dot", "add", "dot", "dot", "multiply"]
    soon = body.replace("multiply(a, f)", "multiply(a, x)")
    assert opcodes(soon)[-1] == "map"


def test_a_donated_parameter_is_not_read_after_its_new_value() -> None:
    body = (
        X + "n = f32[4,6] negate(x)\na = f32[4,6] exponential(x)\nw = f32[6,6] parameter(1)\n"
        "d = f32[4,6] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "b = f32[4,6] multiply(a, d)\nROOT r = (f32[4,6], f32[4,6]) tuple(d, b)"
    )
    found = program(body, "num_partitions=1, input_output_alias={ {0}: (0, {}) }")
    assert [row.opcode for row in rows(found)] == ["negate", "exponential", "dot", "multiply"]


def test_sizes_are_bounded() -> None:
    names = [f"y{i}" for i in range(1, 41)]
    text = X + "".join(f"{name} = f32[4,6] parameter({i + 1})\n" for i, name in enumerate(names))
    last = "x"
    for i, name in enumerate(names):
        text += f"a{i} = f32[4,6] add({last}, {name})\n"
        last = f"a{i}"
    found = program(text + f"ROOT r = f32[4,6] negate({last})")
    assert max(len(row.reads) for row in rows(found)) == MAX_OPERANDS
    deep = (
        X + "a0 = f32[4,6] negate(x)\n" + "".join(f"a{i} = f32[4,6] exponential(a{i - 1})\n" for i in range(1, 200))
    )
    found = program(deep + "ROOT r = f32[4,6] negate(a199)")
    assert max(len(row.attrs["body"]) for row in rows(found)) == MAX_STATEMENTS
    assert len(rows(found)) == -(-201 // MAX_STATEMENTS)


def test_faults_of_fused_operations_are_found() -> None:
    with pytest.raises(HauloutError, match="the attribute `odd` of negate is not supported"):
        program(X + "a = f32[4,6] negate(x), odd=1\nROOT r = f32[4,6] negate(a)")
    with pytest.raises(HauloutError, match="the operands differ in shape or type"):
        program(
            X
            + "y = f32[4,6] negate(x)\nz = f32[6,4] parameter(1)\na = f32[4,6] add(y, z)\nROOT r = f32[4,6] negate(a)"
        )


# -- the same bits ---------------------------------------------------------------------------------------------------


@st.composite
def random_programs(draw: st.DrawFn) -> tuple[str, int]:
    """HLO text on arrays of 24 elements in several shapes, and the number of its parameters."""
    shapes = {"[4,6]": (4, 6), "[6,4]": (6, 4), "[24]": (24,), "[2,3,4]": (2, 3, 4)}
    parameters = draw(st.integers(1, 3))
    values: list[tuple[str, str]] = []
    lines = []
    for number in range(parameters):
        shape = draw(st.sampled_from(sorted(shapes)))
        lines.append(f"  p{number} = f32{shape} parameter({number})")
        values.append((f"p{number}", shape))
    lines += ["  k = f32[] constant(0.75)", "  z = f32[] constant(0)"]
    for step in range(draw(st.integers(2, 12))):
        name, shape = draw(st.sampled_from(values[-5:]))
        dims = shapes[shape]
        alike = [other for other, each in values if each == shape]
        new = f"v{step}"
        match draw(
            st.sampled_from(["unary", "binary", "binary", "scalar", "reshape", "transpose", "reverse", "row"])
        ):
            case "unary":
                lines.append(
                    f"  {new} = f32{shape} {draw(st.sampled_from(['tanh', 'negate', 'abs', 'cosine']))}({name})"
                )
            case "binary":
                opcode = draw(st.sampled_from(["add", "multiply", "maximum", "subtract"]))
                lines.append(f"  {new} = f32{shape} {opcode}({name}, {draw(st.sampled_from(alike))})")
            case "scalar":
                lines.append(f"  b{step} = f32{shape} broadcast(k), dimensions={{}}")
                lines.append(f"  {new} = f32{shape} multiply({name}, b{step})")
            case "reshape":
                shape = draw(st.sampled_from(sorted(shapes)))
                lines.append(f"  {new} = f32{shape} reshape({name})")
            case "transpose" if len(dims) == 2:
                shape = f"[{dims[1]},{dims[0]}]"
                lines.append(f"  {new} = f32{shape} transpose({name}), dimensions={{1,0}}")
            case "row" if len(dims) == 2:
                lines.append(f"  s{step} = f32[{dims[0]}] reduce({name}, z), dimensions={{1}}, to_apply=sum")
                lines.append(f"  b{step} = f32{shape} broadcast(s{step}), dimensions={{0}}")
                lines.append(f"  {new} = f32{shape} subtract({name}, b{step})")
            case _:
                lines.append(f"  {new} = f32{shape} reverse({name}), dimensions={{0}}")
        values.append((new, shape))
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)) + values[-1:]
    shape = f"({', '.join(f'f32{each}' for _, each in results)})"
    lines.append(f"  ROOT r = {shape} tuple({', '.join(name for name, _ in results)})")
    aliases = [f"{{{output}}}: ({0}, {{}})" for output, (_, each) in enumerate(results) if each == values[0][1]][:1]
    header = (
        f"HloModule m, input_output_alias={{ {aliases[0]} }}" if aliases and draw(st.booleans()) else "HloModule m"
    )
    return f"{header}\n\n{SUM}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n", parameters


@given(random_programs(), st.integers(0, 9))
def test_random_programs_compute_the_same_bits(case: tuple[str, int], seed: int) -> None:
    text, _ = case
    results, sizes = [], []
    for fuse in ("none", "all"):
        found = lower(parse_hlo(text), fuse=fuse)
        assert verify(found) == []
        executor = Executor(found)
        rng = np.random.default_rng(seed)
        values = [rng.standard_normal(executor.get(0, n).shape).astype("f4") for n in parameter_names(found)]
        results.append(executor.run([values])[0])
        sizes.append(haulout.compile(found).report.total_peak_bytes)
    for mine, theirs in zip(*results, strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.thin(6, "90 s")
@pytest.mark.parametrize("path", [*SHIPPED, *CORPUS], ids=lambda path: path.stem)
def test_programs_compute_the_same_bits(path: Path) -> None:
    """Compiled and simulated, every output of every core."""
    outputs = []
    for fuse in ("none", "all"):
        result = haulout.compile(path, fuse=fuse)
        assert result.proved
        found = haulout.simulate(result.program, seed=3).outputs
        outputs.append([found[f"nc{core}/{name}"] for core in range(result.program.lnc)
                        for name in result.program.output_names])  # fmt: skip
    for mine, theirs in zip(*outputs, strict=True):
        assert mine.tobytes() == theirs.tobytes()
