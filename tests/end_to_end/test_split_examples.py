"""The programs of one device in examples/split: divided over cores they compute what XLA computes on one device.

`tools/make_split_examples.py` makes the files. The last tests ask the installed JAX again, and take the functions
themselves through `haulout.jax.lower`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import CHEAP_FENCES, ROOT
from tests.end_to_end.test_hlo_against_jax import difference, disagreements, part, stored
from tests.frontends.hlo.executor import parameter_names

import haulout.jax
from haulout.passes.split_uniform import SplitUniform

FOLDER = ROOT / "examples" / "split"
TOOLS = ROOT / "tools"
NAMES = sorted(path.stem for path in FOLDER.glob("*.hlo"))
LARGEST_FILE = 200_000
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="needs the extra `jax`")


@cache
def compiled(name: str, cores: int) -> haulout.CompileResult:
    """For a machine with cheap fences: on others, small programs stay undivided."""
    return haulout.compile(FOLDER / f"{name}.hlo", lnc=cores, target=CHEAP_FENCES)


def wrong_results(
    program: haulout.Program, inputs: dict[str, Any], expected: dict[str, Any], *, execute: Any = haulout.simulate
) -> Iterator[str]:
    """Results of a core that are not the expected ones."""
    outputs = execute(program, inputs).outputs
    names = program.output_names
    assert len(names) == len(expected) > 0
    for core in range(program.lnc):
        for at, name in enumerate(names):
            if reason := difference(outputs[f"nc{core}/{name}"], expected[str(at)]):
                yield f"core {core}, result {at} {reason}"


def test_there_are_examples() -> None:
    shown = (FOLDER / "README.md").read_text()
    assert len(NAMES) == 18
    for path in FOLDER.iterdir():
        assert path.stat().st_size < LARGEST_FILE, path.name
        assert path.stem == "README" or f"`{path.stem}`" in shown, path.name


@pytest.mark.thin(4, "50 s")
@pytest.mark.parametrize("cores", [4, 1, 2, 8])  # the short tier takes the first
@pytest.mark.parametrize("name", NAMES)
def test_cores_compute_what_xla_computes_on_one_device(name: str, cores: int) -> None:
    arrays = stored(FOLDER / f"{name}.npz")
    result = compiled(name, cores)
    assert result.proved
    assert list(wrong_results(result.program, part(arrays, "in/"), part(arrays, "out/nc0/"))) == []


@pytest.mark.thin(4, "15 s")
@pytest.mark.parametrize("name", NAMES)
def test_threads_compute_what_xla_computes_on_one_device(name: str) -> None:
    arrays = stored(FOLDER / f"{name}.npz")
    program = compiled(name, 2).program
    wrong = wrong_results(program, part(arrays, "in/"), part(arrays, "out/nc0/"), execute=haulout.run)
    assert list(wrong) == []


@pytest.mark.thin(3, "15 s")
@pytest.mark.parametrize("name", NAMES)
def test_work_is_divided(name: str) -> None:
    report = compiled(name, 2).report
    assert report.counters[SplitUniform.name]["operations"] > 5


def test_a_wrong_result_is_seen() -> None:
    arrays = stored(FOLDER / "resnet.npz")
    inputs, expected = part(arrays, "in/"), part(arrays, "out/nc0/")
    (image,) = (name for name, array in inputs.items() if array.shape == (8, 8, 8, 3))
    inputs[image] = np.flip(inputs[image], 0)
    assert list(wrong_results(compiled("resnet", 2).program, inputs, expected)) != []


@pytest.mark.jax
@needs_jax
def test_jax_still_computes_what_is_stored(tmp_path: Path) -> None:
    script = TOOLS / "make_split_examples.py"
    subprocess.run([sys.executable, str(script), "-o", str(tmp_path)], check=True, capture_output=True)
    with_flax = find_spec("flax") and find_spec("transformers")
    names = [name for name in NAMES if with_flax or not name.startswith("flax_")]
    assert sorted(path.stem for path in tmp_path.glob("*.npz")) == names
    for name in names:
        made, kept = stored(tmp_path / f"{name}.npz"), stored(FOLDER / f"{name}.npz")
        assert made.keys() == kept.keys(), name
        assert all(np.array_equal(made[key], kept[key]) for key in kept if key.startswith("in/")), name
        assert list(disagreements(part(made, "out/"), part(kept, "out/"))) == [], name


@pytest.mark.jax
@needs_jax
@pytest.mark.parametrize("name", ["gpt_train", "moe_index", "cg"])
def test_functions_of_jax_are_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    model = import_module("make_split_examples").models()[name](large=False)
    specs = import_module("split_program").specs_of(model)
    program = haulout.jax.lower(model.fn, *specs, donate_argnums=model.donate, lnc=2)
    result = haulout.compile(program)
    assert result.proved
    arrays = stored(FOLDER / f"{name}.npz")
    values = part(arrays, "in/").values()
    inputs = dict(zip(parameter_names(program), values, strict=True))
    assert list(wrong_results(result.program, inputs, part(arrays, "out/nc0/"))) == []
