"""Commands that accept kernels, with their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import RACE, ROOT, haulout

from haulout.ir.text import parse_bir

SUM = f"{ROOT}/examples/nki/two_core_sum.py::two_core_sum"
BROKEN = f"{ROOT}/examples/nki/broken/two_core_sum.py::two_core_sum"
X = ("--arg", "x=bf16[256,512]")


@pytest.mark.parametrize("command", ["check", "compile", "opt", "map"])
def test_an_argument_that_the_kernel_does_not_have(command: str, tmp_path: Path) -> None:
    output = () if command == "check" else ("-o", tmp_path / "out")
    said = haulout(command, SUM, *X, "--arg", "xx=3", *output)
    assert said.status == 2
    text = said.stdout + said.stderr
    assert "two_core_sum has no argument 'xx'" in text
    assert "did you mean 'x'?" in text


@pytest.mark.parametrize("command", ["check", "compile", "opt", "map", "reduce"])
def test_an_argument_in_a_wrong_form(command: str, tmp_path: Path) -> None:
    options = ("--code", "cross-core-race") if command == "reduce" else ()
    output = () if command == "check" else ("-o", tmp_path / "out")
    said = haulout(command, BROKEN, "--arg", "x=bf16[256", *options, *output)
    assert said.status == 2
    assert "argument x" in said.stdout + said.stderr


@pytest.mark.parametrize("command", ["check", "compile", "opt", "map"])
def test_a_program_has_no_arguments(command: str, tmp_path: Path) -> None:
    output = () if command == "check" else ("-o", tmp_path / "out")
    said = haulout(command, RACE, *X, *output)
    assert said.status == 2
    assert "has no arguments" in said.stdout + said.stderr


def test_opt_runs_passes_on_a_kernel() -> None:
    said = haulout("opt", SUM, *X, "--passes", "build_fdeps", "-q")
    assert said.status == 0
    program = parse_bir(said.stdout)
    assert (program.lnc, len(program.instructions)) == (2, 20)


def test_opt_shows_what_the_trace_found(tmp_path: Path) -> None:
    text = Path(SUM.rpartition("::")[0]).read_text("utf-8").replace("def two_core_sum(x", "def two_core_sum(x, bias")
    path = tmp_path / "kernels.py"
    path.write_text(text)
    said = haulout("opt", f"{path}::two_core_sum", *X, "--arg", "bias=f32[8]", "--passes", "", "-q")
    assert said.status == 0
    assert "note[input-not-read]" in said.stderr
    assert parse_bir(said.stdout).lnc == 2


def test_map_compiles_a_kernel(tmp_path: Path) -> None:
    said = haulout("map", SUM, *X, "-o", tmp_path / "memory.html")
    assert said.status == 0
    assert "two_core_sum" in (tmp_path / "memory.html").read_text("utf-8")


def test_reduce_takes_a_kernel_and_its_cores(tmp_path: Path) -> None:
    said = haulout("reduce", BROKEN, *X, "--lnc", "2", "--code", "cross-core-race", "-o", tmp_path / "small.bir")
    assert said.status == 0
    small = tmp_path / "small.bir"
    assert "cross-core-race" in haulout("check", small).stdout
    assert len(parse_bir(small.read_text("utf-8")).instructions) < 18
    alone = haulout("reduce", BROKEN, *X, "--lnc", "1", "--code", "cross-core-race", "-o", small)
    assert alone.status == 2
