"""Cuts that an HLO file asks for: scopes, shardings of a module that is not partitioned, what cannot be followed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import haulout
from haulout import HauloutError, api

MESH = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"d\\"}]>"}'
SCOPE = 'metadata={op_name="jit(f)/%s/tanh"}'


def module(
    x: str = "", between: str = "", *, cores: int = 1, value: str = "t", entry: str = "", before: str = ""
) -> str:
    """tanh(x @ w) @ x, with more attributes of %x and of %t, and more instructions before the last one."""
    return f"""HloModule m, num_partitions={cores}
{before}
ENTRY main {{
  x = f32[8,8]{{1,0}} parameter(0){x}
  w = f32[8,8]{{1,0}} parameter(1)
  d = f32[8,8]{{1,0}} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[8,8]{{1,0}} tanh(d){entry}
  {between}
  ROOT r = f32[8,8]{{1,0}} dot({value}, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def cuts(tmp_path: Path, text: str, *split: str, lnc: int = 2) -> dict[str, tuple[int | None, int | None]]:
    """Of each operation the dimension that is cut and the one that was asked for; the results are right."""
    path = tmp_path / "m.hlo"
    path.write_text(text)
    result = haulout.compile(path, lnc=lnc, split=split)
    assert result.proved
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((8, 8)).astype("f4") for name in ("x", "w")}
    made = haulout.simulate(result.program, inputs).outputs
    for value in made.values():
        np.testing.assert_allclose(value, np.tanh(inputs["x"] @ inputs["w"]) @ inputs["x"], rtol=1e-4, atol=1e-5)
    assert "split=" not in haulout.ir.text.print_bir(result.program)
    assert result.report.split is not None
    return {each.name: (each.dim, each.asked) for each in result.report.split.divided}


def refused(tmp_path: Path, text: str) -> list[tuple[str, tuple[str, ...]]]:
    path = tmp_path / "m.hlo"
    path.write_text(text)
    found = haulout.compile(path, lnc=2)
    assert not found.ok and found.proved
    return [(each.message, each.help) for each in found.diagnostics if each.code == "split-not-followed"]


@pytest.mark.parametrize(
    ("scope", "dim"),
    [
        ("haulout.split(axis=1)", 1),
        ("haulout.split(axis=-2)", 0),
        ("haulout.split(axis=0)/inner/haulout.split(axis=-1)", 1),
        ("jvp(haulout.split(axis=1))", 1),
        ("transpose(jvp(haulout.split(axis=1)))", None),
        ("transpose(jvp(f))/haulout.split(axis=1)", 1),
        ("haulout.split(axis=2)", None),
    ],
)
def test_scopes(tmp_path: Path, scope: str, dim: int | None) -> None:
    made = cuts(tmp_path, module(entry=", " + SCOPE % scope))
    assert made["t"][1] == dim
    assert dim is None or made["t"][0] == dim


def test_the_scope_around_a_call_holds_inside(tmp_path: Path) -> None:
    before = "\ng {\n  a = f32[8,8]{1,0} parameter(0)\n  ROOT n = f32[8,8]{1,0} negate(a)\n}\n"
    again = "\nh {\n  b = f32[8,8]{1,0} parameter(0)\n  ROOT p = f32[8,8]{1,0} call(b), to_apply=g\n}\n"
    between = "c = f32[8,8]{1,0} call(d), to_apply=h, " + SCOPE % "haulout.split(axis=1)"
    text = module(before=before + again, between=between, value="c")
    path = tmp_path / "m.hlo"
    path.write_text(text)
    found = {each.name: (each.dim, each.asked) for each in api.explain_split(path, lnc=2).divided}
    assert found["n"] == (1, 1)


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize(
    ("sharding", "dim"),
    [
        ("sharding={devices=[1,2]<=[2]}", 1),
        ("sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}", 0),
        ("sharding={mesh['a'=2], [{}, {'a'}]}", 1),
        ("sharding={replicated}, " + MESH, 1),
        ("sharding={replicated}", None),
    ],
)
def test_shardings(tmp_path: Path, cores: int, sharding: str, dim: int | None) -> None:
    mark = f's = f32[8,8]{{1,0}} custom-call(t), custom_call_target="Sharding", {sharding}'
    made = cuts(tmp_path, module(between=mark, value="s", cores=cores))
    assert made["t"][1] == dim
    assert dim is None or made["t"][0] == dim


def test_a_sharding_of_a_transpose_is_one_of_its_operand(tmp_path: Path) -> None:
    between = """v = f32[8,8]{1,0} transpose(t), dimensions={1,0}
  s = f32[8,8]{1,0} custom-call(v), custom_call_target="Sharding", sharding={devices=[2,1]<=[2]}
  b = f32[8,8]{1,0} transpose(s), dimensions={1,0}"""
    assert cuts(tmp_path, module(between=between, value="b"))["t"] == (1, 1)


def test_a_sharding_of_a_parameter_is_for_what_reads_it(tmp_path: Path) -> None:
    for dim, tiles in enumerate(("2,1", "1,2")):
        made = cuts(
            tmp_path, module(f", sharding={{devices=[{tiles}]<=[2]}}", between=MARK_OF_TWO, value="s", cores=2)
        )
        # %d reads %x by rows, %r by columns.
        assert made["d" if dim == 0 else "r"][0] == dim


MARK_OF_TWO = 's = f32[8,8]{1,0} custom-call(t), custom_call_target="Sharding", sharding={replicated}'


def test_options_win(tmp_path: Path) -> None:
    text = module(entry=", " + SCOPE % "haulout.split(axis=1)")
    assert cuts(tmp_path, text, "t=0")["t"] == (0, None)
    assert cuts(tmp_path, text, "axis=0")["t"] == (0, None)
    assert cuts(tmp_path, text, "r=0")["t"] == (1, 1)


def test_what_cannot_be_followed_lists_the_cuts(tmp_path: Path) -> None:
    both = "sharding={devices=[2,2]<=[4]}"
    mark = f's = f32[8,8]{{1,0}} custom-call(t), custom_call_target="Sharding", {both}'
    ((message, advice),) = refused(tmp_path, module(between=mark, value="s"))
    assert "%t cannot be cut along what is no single dimension of it" in message
    assert advice == ("its cuts: dimension 0 of 8, dimension 1 of 8",)
    ((message, advice),) = refused(tmp_path, module(entry=", " + SCOPE % "vmap(haulout.split(axis=0))"))
    assert "%t cannot be cut along what is no single dimension of it" in message
    ((message, advice),) = refused(tmp_path, module(f", {both}"))
    assert "nothing that touches %x can be cut along what is no single dimension of it" in message
    assert advice == ("its cuts: dimension 0 of 8, dimension 1 of 8",)


def test_without_a_number_of_cores_the_module_is_refused(tmp_path: Path) -> None:
    mark = 's = f32[8,8]{1,0} custom-call(t), custom_call_target="Sharding", sharding={devices=[2,1]<=[2]}'
    path = tmp_path / "m.hlo"
    path.write_text(module(between=mark, value="s", cores=2))
    with pytest.raises(HauloutError, match="not partitioned") as caught:
        haulout.compile(path)
    assert any("--lnc" in each for each in caught.value.diagnostics[0].help)
    assert haulout.compile(path, lnc=4).program.lnc == 4
