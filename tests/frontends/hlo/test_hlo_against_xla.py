"""The example modules, lowered and executed here, against XLA itself; and the parser against XLA's own parser."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor
from tools.example_arrays import load, save

from haulout.frontends.hlo import load_hlo, read_hlo
from haulout.frontends.hlo.types import Shape
from haulout.ir.dtypes import NUMPY

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="needs the extra `jax`"),
]
FILES = sorted((Path(__file__).parent / "data").glob("*.hlo"))
JUDGE = Path(__file__).parents[3] / "tools" / "hlo_judge.py"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_values(file: Path, tmp_path: Path) -> None:
    """Every output of every core; inputs differ from core to core."""
    module, program = read_hlo(file), load_hlo(file)
    generator = np.random.default_rng(5)
    inputs = []
    for _ in range(program.lnc):
        values = []
        for parameter in module.entry.parameters:
            assert isinstance(parameter.shape, Shape)
            numbers = generator.standard_normal(parameter.shape.dims) * 3
            if parameter.shape.dtype == "pred":
                numbers = numbers > 0
            values.append(numbers.astype(NUMPY[parameter.shape.dtype]))
        inputs.append(values)
    arrays = {
        f"in/nc{core}/{parameter.name}": value
        for core, values in enumerate(inputs)
        for parameter, value in zip(module.entry.parameters, values, strict=True)
    }
    save(tmp_path / "in.npz", arrays)
    command = [sys.executable, str(JUDGE), str(file), "--inputs", "in.npz", "-o", "out.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = load(tmp_path / "out.npz")
    results = Executor(program).run(inputs)
    assert len([key for key in expected if key.startswith("out/")]) == program.lnc * len(program.output_names)
    for core, values in enumerate(results):
        for number, (name, value) in enumerate(zip(program.output_names, values, strict=True)):
            wanted = expected[f"out/nc{core}/{number}"]
            assert value.shape == wanted.shape and value.dtype == wanted.dtype
            if value.dtype.kind in "biu":
                assert np.array_equal(value, wanted), (core, name)
            else:
                tolerance = 1e-5 if value.dtype == np.float32 else 1e-2
                scale = float(np.max(np.abs(wanted.astype(np.float64)), initial=0.0))
                error = float(np.max(np.abs(value.astype(np.float64) - wanted), initial=0.0))
                assert error <= tolerance * scale, (core, name, error, scale)


def corpus() -> list[Path]:
    """The example modules, and one file of each program of the corpus where there is one."""
    directory = os.environ.get("HAULOUT_HLO_DIR")
    return FILES + (sorted(Path(directory).glob("*.n4.hlo")) if directory else [])


@pytest.mark.parametrize("file", corpus(), ids=lambda file: file.stem)
def test_parser_agrees_with_the_parser_of_xla(file: Path) -> None:
    """Same computations, same instructions, same opcodes, same operands."""
    from jaxlib import _hlo

    theirs = _hlo.hlo_module_from_text(file.read_text())
    ours = read_hlo(file)
    expected = {
        computation.name: [
            (item.name, _opcode(item), [operand.name for operand in item.operands()])
            for item in computation.instructions()
        ]
        for computation in theirs.computations()
    }
    found = {
        name: [(item.name, item.opcode.replace("-", ""), list(item.operands)) for item in computation.instructions]
        for name, computation in ours.computations.items()
    }
    assert set(found) == set(expected)
    for name, items in found.items():
        assert sorted(items) == sorted(expected[name]), name


def _opcode(item: object) -> str:
    """XLA's enumerator, spelled as in the text but for the dashes."""
    name = str(item.opcode).rpartition(".")[2].removeprefix("k").lower()  # type: ignore[attr-defined]
    return {"exp": "exponential", "optimizationbarrier": "optbarrier"}.get(name, name)
