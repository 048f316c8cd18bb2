"""The examples' numbers against NumPy, under every schedule; seeded mistakes change what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import haulout.nki as hnki
from haulout.cli.main import main
from haulout.frontends.nki.stand_ins.install import installed
from haulout.ir.text import parse_bir
from haulout.sim import simulate
from haulout.support.diagnostics import HauloutError

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "nki"
BF16 = np.dtype(ml_dtypes.bfloat16)
Arrays = dict[str, np.ndarray[Any, Any]]


def kernel(name: str, folder: Path = FOLDER) -> str:
    return f"{folder / name}.py::{name}"


def numbers(*shape: int, seed: int = 0, scale: float = 1.0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float64)


def off(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    """The largest difference, relative to the largest expected magnitude."""
    assert got.shape == want.shape
    return float(np.abs(wide(got) - want).max() / np.abs(want).max())


def _sum(given: Arrays) -> list[np.ndarray[Any, Any]]:
    return [np.tile(wide(given["x"]).sum(axis=0), (2, 1))]


def _qkv(given: Arrays) -> list[np.ndarray[Any, Any]]:
    q, k, v = np.split(wide(given["x"]) @ wide(given["weights"]), 3, axis=1)
    return [q, k, v, q @ k.T]


def _mlp(given: Arrays) -> list[np.ndarray[Any, Any]]:
    h = wide((wide(given["x"]) + wide(given["residual"])).astype(BF16))
    gate, up = h @ wide(given["gate_w"]), h @ wide(given["up_w"])
    return [(gate / (1 + np.exp(-gate)) * up) @ wide(given["down_w"])]


def _rounds(given: Arrays) -> list[np.ndarray[Any, Any]]:
    return [np.stack([2 * wide(given["x"]).sum(axis=0)] * 2)]


def _softmax(given: Arrays) -> list[np.ndarray[Any, Any]]:
    e = np.exp(wide(given["x"]))
    return [e / e.sum(axis=2, keepdims=True)]


EXAMPLES: dict[str, tuple[Arrays, Any, float]] = {
    "two_core_sum": ({"x": numbers(256, 512)}, _sum, 1e-6),
    "split_qkv": (
        {"x": numbers(512, 256, dtype=BF16), "weights": numbers(256, 384, seed=1, scale=1 / 16, dtype=BF16)},
        _qkv,
        1e-2,
    ),
    "fused_mlp": (
        {
            "x": numbers(4, 1024, dtype=BF16),
            "residual": numbers(4, 1024, seed=1, dtype=BF16),
            "gate_w": numbers(1024, 512, seed=2, scale=1 / 32, dtype=BF16),
            "up_w": numbers(1024, 512, seed=3, scale=1 / 32, dtype=BF16),
            "down_w": numbers(512, 1024, seed=4, scale=1 / 22, dtype=BF16),
        },
        _mlp,
        1e-2,
    ),
    "two_rounds": ({"x": numbers(2, 128, 64)}, _rounds, 1e-6),
    "softmax_heads": ({"x": numbers(256, 4, 64)}, _softmax, 1e-6),
}


def results(name: str, folder: Path = FOLDER, **options: Any) -> list[np.ndarray[Any, Any]]:
    found = hnki.simulate(kernel(name, folder), **EXAMPLES[name][0], **options)
    return list(found) if isinstance(found, tuple) else [found]


def errors(name: str, folder: Path = FOLDER, **options: Any) -> list[float]:
    given, formula, _ = EXAMPLES[name]
    return [off(got, want) for got, want in zip(results(name, folder, **options), formula(given), strict=True)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_computes_what_it_says_under_every_schedule(name: str) -> None:
    assert max(errors(name, schedule="all")) <= EXAMPLES[name][2]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("schedule", ["random:1", "slowest:0:pe", "slowest:1:act", "slowest:1:dma1"])
def test_the_bits_are_those_of_another_schedule(name: str, schedule: str) -> None:
    first, second = results(name), results(name, schedule=schedule)
    assert [each.tobytes() for each in first] == [each.tobytes() for each in second]


@pytest.mark.parametrize("name", ["two_rounds", "softmax_heads"])
def test_a_mistake_that_orders_nothing_wrongly_shows_in_the_numbers(name: str) -> None:
    """An exchange that is left out, an axis too many: every schedule agrees, on something else."""
    broken = FOLDER / "broken"
    assert hnki.check(kernel(name, broken), EXAMPLES[name][0]) == []
    assert max(errors(name, broken, schedule="all")) > 0.1


@pytest.mark.parametrize("name", ["two_core_sum", "split_qkv", "fused_mlp"])
def test_a_missing_barrier_depends_on_the_schedule(name: str) -> None:
    with pytest.raises(HauloutError) as error:
        hnki.simulate(kernel(name, FOLDER / "broken"), **EXAMPLES[name][0], schedule="all")
    assert {each.code for each in error.value.diagnostics} == {"cross-core-race"}


def test_a_race_changes_numbers_under_the_schedule_that_shows_it() -> None:
    given = EXAMPLES["two_core_sum"][0]
    found = hnki.simulate_kernel(kernel("two_core_sum", FOLDER / "broken"), given, schedule="slowest:0:pe").returned[
        0
    ]
    want = _sum(given)[0]
    assert off(found[:1], want[:1]) <= 1e-6
    assert np.isnan(found[1]).all()  # core 1 has read what nothing had written


def test_the_grid_is_the_number_of_cores(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(
        """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def count(x):
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    one = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=float(nl.num_programs(0)))
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=one)
    return out
"""
    )
    with installed():
        namespace: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), namespace)
        count = namespace["count"]
    x = np.zeros((1, 1), np.float32)
    assert [float(hnki.simulate(count[cores], x)[0, 0]) for cores in (1, 2)] == [1, 2]


# -- the command line ------------------------------------------------------------------------------------------------


def _run(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["simulate", *arguments, "-q"])
    return found.exit_code, found.output


def test_the_command_compares_with_an_expected_array(tmp_path: Path) -> None:
    x = EXAMPLES["two_core_sum"][0]["x"]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.tile(x.sum(axis=0), (2, 1)))
    np.save(tmp_path / "wrong.npy", np.tile(x.sum(axis=0) + 1, (2, 1)))
    command = [kernel("two_core_sum"), "--arg", f"x=@{tmp_path / 'x.npy'}", "--schedule", "all", "--expect"]
    status, text = _run(*command, str(tmp_path / "y.npy"))
    assert status == 0 and "1 of 1 outputs as expected" in text
    status, text = _run(*command, str(tmp_path / "wrong.npy"))
    assert status == 1 and "unexpected-output" in text


def test_results_are_expected_by_position_and_in_the_precision_of_the_kernel(tmp_path: Path) -> None:
    given, formula, _ = EXAMPLES["split_qkv"]
    want = formula(given)
    np.savez(tmp_path / "y.npz", **{"0": want[0], "out/3": want[3]})
    arguments = hnki.simulate_kernel(kernel("split_qkv"), given).result.outputs
    assert arguments["nc0/q"].dtype == BF16
    command = [kernel("split_qkv"), "--arg", "x=bf16[512,256]", "--arg", "weights=bf16[256,384]", "--expect"]
    status, text = _run(*command, str(tmp_path / "y.npz"))
    assert status == 1 and "2 outputs" in text  # the inputs are drawn, so the numbers are others
    np.savez(tmp_path / "many.npz", **{"9": want[0]})
    status, text = _run(*command, str(tmp_path / "many.npz"))
    assert status == 2 and "not one of the 4 results" in text


def test_a_compiled_kernel_computes_the_same_from_its_file(tmp_path: Path) -> None:
    given, formula, tolerance = EXAMPLES["fused_mlp"]
    shapes = [f"--arg={name}=bf16[{','.join(map(str, array.shape))}]" for name, array in given.items()]
    command = ["compile", kernel("fused_mlp"), *shapes, "-q", "-o", str(tmp_path)]
    assert CliRunner().invoke(main, command).exit_code == 0
    program = parse_bir((tmp_path / "program.bir").read_text(encoding="utf-8"))
    found = simulate(program, given)
    assert off(found.outputs["nc1/out"], formula(given)[0]) <= tolerance
    assert results("fused_mlp")[0].tobytes() == found.outputs["nc0/out"].tobytes()


# -- the fixture -----------------------------------------------------------------------------------------------------


def test_the_fixture_gives_arrays(nki_simulate: Any) -> None:
    given, formula, tolerance = EXAMPLES["two_core_sum"]
    assert off(nki_simulate(kernel("two_core_sum"), **given), formula(given)[0]) <= tolerance


def test_the_fixture_fails_with_the_report(nki_simulate: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match="cross-core-race"):
        nki_simulate(kernel("two_core_sum", FOLDER / "broken"), **EXAMPLES["two_core_sum"][0])
