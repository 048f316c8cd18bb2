"""`haulout compare`: right pairs are equal, and of wrong ones the first operation that differs is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import CHEAP_FENCES, HLO, ROOT, haulout

import haulout as api
from haulout.ir.values import save_values

ONE = ROOT / "examples" / "compare" / "mlp.hlo"
TWO = ROOT / "examples" / "compare" / "mlp.n2.hlo"
NO_SUM = ROOT / "examples" / "compare" / "mlp_no_all_reduce.n2.hlo"


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    """The split example with a mistake."""
    text = TWO.read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    path = folder / "wrong.hlo"
    path.write_text(text)
    return path


def gathered(folder: Path, groups: str, extra: str = "") -> tuple[Path, Path]:
    """Rows that are gathered and doubled, whole on one core, and split over two."""
    one, two = folder / "one.hlo", folder / "two.hlo"
    one.write_text(
        "HloModule f\nENTRY %m (x: f32[4,3]) -> f32[4,3] {\n  %x = f32[4,3] parameter(0)\n"
        "  ROOT %y = f32[4,3] add(%x, %x)\n}\n"
    )
    two.write_text(
        "HloModule f, num_partitions=2\nENTRY %m (x: f32[2,3]) -> f32[4,3] {\n"
        f"  %x = f32[2,3] parameter(0){extra}\n"
        f"  %g = f32[4,3] all-gather(%x), channel_id=1, replica_groups={groups}, dimensions={{0}}, "
        "use_global_device_ids=true\n  ROOT %y = f32[4,3] add(%g, %g)\n}\n"
    )
    return one, two


def test_right_split_is_equal() -> None:
    result = haulout("compare", ONE, TWO)
    assert result.status == 0
    assert result.stdout.endswith("1 of 1 results equal\n")


def test_missing_all_reduce() -> None:
    result = haulout("compare", ONE, NO_SUM)
    assert result.status == 1
    assert "error[different-results]: result %add differs on every core: max|a-b| = " in result.stdout
    assert "%add is the first operation that differs" in result.stdout
    assert "%dot.1 makes parts of a sum, a part on each core, which nothing brings together" in result.stdout
    assert "0 of 1 results equal" in result.stdout


def test_wrong_transpose(tmp_path: Path) -> None:
    wrong = changed(tmp_path, ("transpose(%param), dimensions={1,0}", "transpose(%param), dimensions={0,1}"))
    found = api.compare(ONE, wrong)
    assert not found.equal
    first = found.first["add"]
    assert (first.b, first.a) == ("dot", "hidden")
    assert "transpose" in first.through
    assert {name for name, _ in first.right} == {"param", "param.1"}


def test_swapped_operands(tmp_path: Path) -> None:
    wrong = changed(tmp_path, ("subtract(%dot, %broadcast)", "subtract(%broadcast, %dot)"))
    result = haulout("compare", ONE, wrong)
    assert result.status == 1
    assert "%subtract is the first operation that differs" in result.stdout
    assert "what it reads is right: %dot, %param.2" in result.stdout


def test_swapped_parts(tmp_path: Path) -> None:
    assert haulout("compare", *gathered(tmp_path, "{{0,1}}")).status == 0
    result = haulout("compare", *gathered(tmp_path, "{{1,0}}"))
    assert result.status == 1
    assert "%g is the first operation that differs" in result.stdout
    assert "it should hold what input %x of A holds" in result.stdout


def test_core_that_differs(tmp_path: Path) -> None:
    """Only one core computes something else: its number is said, and the largest difference is exact."""
    one, two = tmp_path / "one.bir", tmp_path / "two.bir"
    core = (
        "module @nc{0} core={0} {{\n  func @main {{\n"
        "    mloc %x dram.local size=16 kind=input dtype=f32 shape=[4] same=[[0,1]]\n"
        "    mloc %y dram.local size=16 kind=output dtype=f32 shape=[4]\n    block ^entry:\n"
        "      %op = {1} @vector (%x, %x) -> (%y)\n  }}\n}}\n"
    )
    one.write_text('bir 1\nprogram "p" lnc=2\n' + core.format(0, "add") + core.format(1, "add"))
    two.write_text('bir 1\nprogram "p" lnc=2\n' + core.format(0, "add") + core.format(1, "multiply"))
    x = np.array([3, 0, 2, 1], np.float32)
    found = api.compare(one, two, {"x": x})
    (result,) = found.outputs
    assert [each.count for each in result.cores] == [0, 2]
    assert result.cores[1].largest == 3.0 and result.cores[1].index == (0,)
    assert "differs on core 1: max|a-b| = 3" in found.diagnostics[0].message
    assert found.first["y"].b == "op" and [core for core, _ in found.first["y"].cores] == [1]
    assert api.compare(one, two, {"x": x}, atol=3.0).equal
    assert not api.compare(one, two, {"x": x}, atol=2.9).equal
    assert api.compare(one, two, {"x": x}, rtol=0.5).equal


@pytest.mark.parametrize("name", ["mlp_tp.n2", "ring_matmul.n4"])
def test_compiled_program(name: str, tmp_path: Path) -> None:
    source = ROOT / "examples" / "jax" / f"{name}.hlo"
    assert haulout("compile", source, "-q", "-o", tmp_path).status == 0
    assert haulout("compare", source, tmp_path / "program.bir").status == 0


def test_work_that_haulout_divides(tmp_path: Path) -> None:
    source = ROOT / "examples" / "split" / "gpt_one.hlo"
    assert haulout("compile", source, "--lnc", "2", "-q", "--target", CHEAP_FENCES, "-o", tmp_path).status == 0
    inputs = ROOT / "examples" / "split" / "gpt_one.npz"
    assert haulout("compare", source, tmp_path / "program.bir").status == 0
    assert haulout("compare", source, tmp_path / "program.bir", "--inputs", inputs).status == 0


def test_split_by_user(tmp_path: Path) -> None:
    """Without a word the tiles are in the order of the cores; `--split` cuts the dimension that it names."""
    one, two = gathered(tmp_path, "{{0,1}}")
    assert haulout("compare", one, two, "--split", "x=0").status == 0
    assert haulout("compare", one, two, "--split", "x=-2").status == 0
    result = haulout("compare", one, two, "--split", "x=1")
    assert result.status == 2 and "--split x=1: tiles of [2, 3] do not make up [4, 3] on 2 cores" in result.stdout


def test_sharding_says_the_order(tmp_path: Path) -> None:
    """Tiles in the reverse order of the cores: the sharding of the parameter says so."""
    reverse = ", sharding={devices=[2,1]1,0}"
    assert haulout("compare", *gathered(tmp_path, "{{1,0}}", reverse)).status == 0
    assert haulout("compare", *gathered(tmp_path, "{{0,1}}", reverse)).status == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--split", "nothing=0"), "no input and no result is named 'nothing'"),
        (("--split", "up"), "--split up: expected NAME=DIM"),
        (("--split", "up=2"), "--split up=2: %up has 2 dimensions"),
    ],
)
def test_bad_split(asked: tuple[str, str], message: str) -> None:
    result = haulout("compare", ONE, TWO, *asked)
    assert result.status == 2 and message in result.stdout


def test_what_does_not_correspond(tmp_path: Path) -> None:
    result = haulout("compare", ONE, HLO)
    assert result.status == 2 and "A has 4 inputs, B has 5" in result.stdout
    swapped = haulout("compare", TWO, ONE)
    assert swapped.status == 2 and "A is for 2 cores, B for 1" in swapped.stdout
    wrong = changed(
        tmp_path,
        ("f32[8] parameter(2), sharding={devices=[2]<=[2]}", "f32[5] parameter(2)"),
        ("param.2: f32[8]", "param.2: f32[5]"),
        ("broadcast(%param.2), dimensions={1}", "broadcast(%param), dimensions={0,1}"),
    )
    result = haulout("compare", ONE, wrong)
    assert result.status == 2 and "input %bias of A is f32[16]" in result.stdout and "f32[5]" in result.stdout


def test_inputs_of_a(tmp_path: Path) -> None:
    file = tmp_path / "inputs.npz"
    shapes = {"x": (8, 8), "up": (8, 16), "bias": (16,), "down": (16, 8)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    save_values(arrays, file)
    assert haulout("compare", ONE, TWO, "--inputs", file).status == 0
    del arrays["bias"]
    save_values(arrays, file)
    result = haulout("compare", ONE, TWO, "--inputs", file)
    assert result.status == 2 and "missing input 'bias' of A" in result.stdout
    save_values(arrays | {"bias": np.ones(16, np.float32), "more": np.ones(1, np.float32)}, file)
    assert "A has no input 'more'" in haulout("compare", ONE, TWO, "--inputs", file).stdout


def test_numbers_that_say_nothing(tmp_path: Path) -> None:
    """Results without a finite element agree by chance; that is a warning."""
    file = tmp_path / "inputs.npz"
    shapes = {"x": (8, 8), "up": (8, 16), "bias": (16,), "down": (16, 8)}
    save_values({name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}, file)
    result = haulout("compare", ONE, TWO, "--inputs", file)
    assert result.status == 1 and "no result has a finite element" in result.stdout


def test_json() -> None:
    result = haulout("compare", ONE, NO_SUM, "--format", "json")
    assert result.status == 1
    assert "different-results" in json.dumps(json.loads(result.stdout))
