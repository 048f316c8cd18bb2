"""The examples: clean as published, one finding each where they are broken; as users run them."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import haulout.nki as hnki
from haulout.cli.main import main

FOLDER = Path(__file__).parents[3] / "examples" / "nki"
ARGUMENTS = {
    "two_core_sum": ["--arg", "x=bf16[256,512]"],
    "fused_mlp": ["--args", str(FOLDER / "fused_mlp.toml")],
    "split_qkv": ["--arg", "x=bf16[512,256]", "--arg", "weights=bf16[256,384]"],
}
NAMES = list(ARGUMENTS)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scope", ["data", "global"])
def test_the_examples_are_clean(name: str, scope: str) -> None:
    found = run("check", f"{FOLDER / name}.py::{name}", *ARGUMENTS[name], "--barrier-scope", scope)
    assert found.exit_code == 0, found.output
    assert "clean" in found.output


def test_the_example_for_the_first_nki_is_clean_on_any_number_of_rows() -> None:
    for rows in (1, 128, 300):
        found = run("check", f"{FOLDER}/first/softmax_rows.py::softmax_rows", "--arg", f"x=f32[{rows},64]")
        assert found.exit_code == 0, found.output
        assert "note[old-style]" in found.output


def test_a_kernel_that_asks_for_its_cores_runs_on_one() -> None:
    found = run("check", f"{FOLDER / 'split_qkv'}.py::split_qkv", "--lnc", "1", *ARGUMENTS["split_qkv"])
    assert found.exit_code == 0, found.output


def test_a_kernel_that_needs_two_says_so_on_one() -> None:
    found = run("check", f"{FOLDER / 'two_core_sum'}.py::two_core_sum", "--lnc", "1", *ARGUMENTS["two_core_sum"])
    assert found.exit_code == 1
    assert "error[kernel-error]" in found.output
    assert "error[out-of-bounds]" in found.output


@pytest.mark.parametrize("name", NAMES)
def test_the_broken_ones_race_in_one_place(name: str) -> None:
    found = run("check", f"{FOLDER / 'broken' / name}.py::{name}", *ARGUMENTS[name], "--format", "json")
    assert found.exit_code == 1
    codes = [each["code"] for each in json.loads(found.stdout)["diagnostics"] if each["severity"] != "note"]
    assert codes == ["cross-core-race"]
    whole, broken = ((place / f"{name}.py").read_text().splitlines()[1:] for place in (FOLDER, FOLDER / "broken"))
    hunks = [line for line in difflib.unified_diff(whole, broken) if line.startswith("@@")]
    assert len(hunks) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_compile(name: str, tmp_path: Path) -> None:
    found = run("compile", f"{FOLDER / name}.py::{name}", *ARGUMENTS[name], "-o", str(tmp_path), "-q")
    assert found.exit_code == 0, found.output
    again = run("check", str(tmp_path / "program.bir"))
    assert again.exit_code == 0, again.output


def test_sarif_points_at_the_kernels_lines() -> None:
    found = run(
        "check",
        f"{FOLDER / 'broken' / 'two_core_sum'}.py::two_core_sum",
        *ARGUMENTS["two_core_sum"],
        "--format",
        "sarif",
    )
    result = json.loads(found.stdout)["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    line = (FOLDER / "broken" / "two_core_sum.py").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert "src=parts" in line
    assert place["artifactLocation"]["uri"].endswith("two_core_sum.py")


@pytest.mark.parametrize(
    "words",
    [
        ["missing.py::kernel"],
        [f"{FOLDER / 'two_core_sum'}.py::nothing"],
        [f"{FOLDER / 'two_core_sum'}.py::two_core_sum"],
        [f"{FOLDER / 'two_core_sum'}.py::two_core_sum", "--arg", "x=f99[4]"],
        [f"{FOLDER / 'two_core_sum'}.py::two_core_sum", "--args", "missing.toml"],
    ],
)
def test_bad_input_has_status_2(words: list[str]) -> None:
    found = run("check", *words)
    assert found.exit_code == 2
    assert "error[bad-input]" in found.output


def test_the_pytest_plugin_checks_a_kernel_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(
        f"""
def test_whole(nki_check):
    nki_check({str(FOLDER / "two_core_sum.py")!r} + "::two_core_sum", x="bf16[256,512]")

def test_broken(nki_check):
    nki_check({str(FOLDER / "broken" / "two_core_sum.py")!r} + "::two_core_sum", x="bf16[256,512]")

def test_allowed(nki_check):
    broken = {str(FOLDER / "broken" / "two_core_sum.py")!r} + "::two_core_sum"
    nki_check(broken, x="bf16[256,512]", allow=["cross-core-race"])
"""
    )
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "1 failed, 2 passed" in found.stdout, found.stdout
    assert "error[cross-core-race]" in found.stdout


def test_notebooks_write_kernels_after_install() -> None:
    script = """
import haulout.nki as hnki
hnki.install()
import nki.isa as nisa, nki.language as nl
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
print([each.code for each in hnki.check(kernel, [hnki.tensor("f32", 8, 8)])])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "['benign-duplicate-write']", found.stderr


def test_the_api_takes_kernels_everywhere() -> None:
    import haulout

    kernel = f"{FOLDER / 'two_core_sum'}.py::two_core_sum"
    arguments = {"x": hnki.tensor("bf16", 256, 512)}
    assert haulout.load(kernel, arguments=arguments).lnc == 2
    assert haulout.check(kernel, arguments=arguments) == []
    assert haulout.compile(kernel, arguments=arguments).ok
