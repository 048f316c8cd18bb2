"""The programs of one device in examples/split: divided over cores they compute what XLA computes on one device."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.end_to_end.test_hlo_against_jax import difference, part, stored

import haulout
from haulout.passes.split_uniform import SplitUniform

FOLDER = Path(__file__).parents[2] / "examples" / "split"
NAMES = sorted(path.stem for path in FOLDER.glob("*.hlo"))


@cache
def compiled(name: str, cores: int) -> haulout.CompileResult:
    return haulout.compile(FOLDER / f"{name}.hlo", lnc=cores)


def test_there_are_examples() -> None:
    assert NAMES == ["gpt", "resnet", "rnn_scan"]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_cores_compute_what_xla_computes_on_one_device(name: str, cores: int) -> None:
    arrays = stored(FOLDER / f"{name}.npz")
    result = compiled(name, cores)
    assert result.proved
    outputs = haulout.simulate(result.program, part(arrays, "in/")).outputs
    expected = part(arrays, "out/nc0/")
    assert expected
    for core in range(cores):
        names = result.program.output_names
        assert len(names) == len(expected)
        for at, name in enumerate(names):
            assert difference(outputs[f"nc{core}/{name}"], expected[str(at)]) is None, f"core {core}, result {at}"


@pytest.mark.parametrize("name", NAMES)
def test_work_is_divided(name: str) -> None:
    report = compiled(name, 2).report
    assert report.counters[SplitUniform.name]["operations"] > 5


def test_a_wrong_result_is_seen() -> None:
    arrays = stored(FOLDER / "resnet.npz")
    expected = part(arrays, "out/nc0/")["0"]
    inputs = part(arrays, "in/")
    inputs["x.1"] = np.flip(inputs["x.1"], 0)
    outputs = haulout.simulate(compiled("resnet", 2).program, inputs).outputs
    assert difference(outputs[next(iter(outputs))], expected) is not None
