"""Text of which a part is missing: no header, no mark of the entry, operands and computations that are cut away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import parse_hlo
from haulout.ir.opcodes import OPAQUE
from haulout.support.diagnostics import HauloutError

NEGATE = "  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"


def simulated(tmp_path: Path, text: str, name: str = "case.hlo", **inputs: np.ndarray) -> list[np.ndarray]:
    path = tmp_path / name
    path.write_text(text)
    compiled = haulout.compile(path)
    assert compiled.proved
    outputs = haulout.simulate(compiled.program, {f"nc0/{key}": value for key, value in inputs.items()}).outputs
    return [outputs[f"nc0/{each}"] for each in compiled.program.output_names]


@pytest.mark.parametrize(
    "begin", ["ENTRY %e (x: f32[4]) -> f32[4] {\n", "ENTRY e {\n", "e {\n", "%e (x: f32[4]) -> f32[4] {\n"]
)
@pytest.mark.parametrize("name", ["case.hlo", "module_0001.before_optimizations.txt"])
def test_text_without_a_header(begin: str, name: str, tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    (found,) = simulated(tmp_path, f"// RUN: something\n{begin}{NEGATE}", name, x=x)
    assert np.array_equal(found, -x)


def test_without_a_mark_the_last_computation_is_the_entry() -> None:
    inner = "inner {\n  x = f32[4] parameter(0)\n  ROOT z = f32[4] add(x, x)\n}\n"
    last = "last {\n  x = f32[4] parameter(0)\n  ROOT z = f32[4] call(x), to_apply=inner\n}\n"
    assert parse_hlo(f"HloModule m\n\n{inner}\n{last}").entry.name == "last"
    assert parse_hlo(f"HloModule m\n\nENTRY {inner}\n").entry.name == "inner"


def test_what_nothing_defines_is_an_input(tmp_path: Path) -> None:
    body = (
        "x = f32[4] parameter(3)\ny = f32[4] subtract(f32[4] %gone.1, f32[4] x)\nROOT z = f32[4] add(y, gone.1)\n}\n"
    )
    x, gone = np.arange(4, dtype=np.float32), np.full(4, 8, np.float32)
    signature = "(a: f32[2], b: f32[3], c: f32[], x: f32[4]) -> f32[4]"
    (found,) = simulated(tmp_path, f"HloModule m\nENTRY e {signature} {{\n{body}", **{"x": x, "gone.1": gone})
    assert np.array_equal(found, 2 * gone - x)


def test_it_gets_other_bytes_on_each_core(tmp_path: Path) -> None:
    """Nothing says that the cores have equal ones, as they have of a constant that is left out."""
    path = tmp_path / "case.hlo"
    path.write_text("HloModule m, num_partitions=2\nENTRY e {\n  ROOT z = f32[4] negate(f32[4] %gone)\n}\n")
    program = haulout.compile(path).program
    outputs = haulout.simulate(program, {f"nc{core}/gone": np.full(4, core, np.float32) for core in range(2)}).outputs
    assert [float(outputs[f"nc{core}/z"][0]) for core in range(2)] == [0, -1]


def test_an_operation_without_its_computation_is_opaque(tmp_path: Path) -> None:
    path = tmp_path / "case.hlo"
    path.write_text(
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  c = f32[] constant(0)\n"
        "  ROOT z = f32[] reduce(x, c), dimensions={0}, to_apply=gone\n}\n"
    )
    compiled = haulout.compile(path)
    assert compiled.proved
    assert {"opaque-instruction", "incomplete-text"} == {each.code for each in compiled.diagnostics}
    assert f"{OPAQUE}reduce_without_computation" in compiled.program.strings


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[4] parameter(0)\ny = f32[4] negate(gone)",  # no shape
        "x = f32[4] parameter(1)",  # a gap that no signature explains
        "y = f32[4] negate(f32[4] z)\nz = f32[4] parameter(0)",  # the wrong order
        "y = f32[4] negate(f32[4] gone)\nz = f32[4] add(f32[5] gone, y)",  # two shapes
        "x = f32[4] parameter(0)\nz = f32[4] all-reduce(x), replica_groups={{0}}, to_apply=gone",
        "x = f32[4] parameter(0)\nz = f32[4] call(x), to_apply=gone",
        "x = f32[4] parameter(0)\nx = f32[4] negate(f32[4] gone)",
    ],
)
def test_what_contradicts_itself_or_hides_too_much_is_refused(body: str) -> None:
    with pytest.raises(HauloutError):
        parse_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}\n")


@pytest.mark.parametrize("signature", ["(x: f32[5], y: f32[]) -> f32[4]", "(x: f32[4]) -> f32[5]", "() -> f32[4]"])
def test_a_signature_that_the_text_contradicts_is_refused(signature: str) -> None:
    with pytest.raises(HauloutError, match="signature"):
        parse_hlo(f"HloModule m\nENTRY e {signature} {{\n{NEGATE}")


def test_only_an_entry_may_lack_something() -> None:
    inner = "inner {\n  ROOT y = f32[4] negate(f32[4] gone)\n}\n"
    text = f"HloModule m\n{inner}ENTRY e {{\n  ROOT z = f32[4] call(), to_apply=inner\n}}\n"
    with pytest.raises(HauloutError, match="%gone is not defined"):
        parse_hlo(text)
