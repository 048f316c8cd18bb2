"""The generated training step: its text is read, it compiles and is proved, and computes what its HLO says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor, parameter_names

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout_generators.llama import Llama, llama_step


def step(cores: int, *, layers: int = 2, microbatches: int = 1) -> str:
    return llama_step(Llama(layers, cores, microbatches, 16, 8, 16, 8, 2, 32))


def test_every_line_is_an_instruction_and_layers_add_as_many() -> None:
    counts = [parse_hlo(step(2, layers=layers)).count() for layers in (1, 2, 3)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 250
    text = step(2)
    assert parse_hlo(text).count() == sum(" = " in line for line in text.splitlines())


def test_the_default_sizes_are_those_of_the_model() -> None:
    text = llama_step(Llama(layers=1))
    module = parse_hlo(text)
    assert module.num_partitions == 8 and len(module.aliases) == 30
    assert str(module.entry.by_name["w_gate"].shape) == "f32[4096,1,1792]"
    many = llama_step(Llama(layers=2)).count("\n") - text.count("\n")
    assert 1100 < many < 1400


def test_a_strided_slice_of_stacked_weights() -> None:
    module = parse_hlo(step(2, layers=3))
    cut = [each for each in module.entry.instructions if each.opcode == "slice" and each.operands == ("wq",)]
    assert {each.attributes["slice"].text for each in cut} == {
        f"{{[0:8], [{at}:{at + 1}], [0:8]}}" for at in range(3)
    }


@pytest.mark.parametrize("cores", [2, pytest.param(8, marks=pytest.mark.long("9 s"))])
def test_compiles_is_proved_and_computes_what_the_text_says(cores: int, tmp_path: Path) -> None:
    path = tmp_path / "step.hlo"
    path.write_text(step(cores))
    lowered = lower(parse_hlo(path.read_text()), fuse="none")
    generator = np.random.default_rng(0)
    executor = Executor(lowered)
    names = parameter_names(lowered)
    inputs: list[list[np.ndarray[Any, Any]]] = []
    for core in range(cores):
        like = [executor.get(core, name) for name in names]
        inputs.append([generator.uniform(0.1, 0.9, each.shape).astype(each.dtype) for each in like])
    wanted = executor.run(inputs)

    done = haulout.compile(path)
    assert done.proved and haulout.check(done.program) == []
    given = {
        f"nc{core}/{name}": value for core in range(cores) for name, value in zip(names, inputs[core], strict=True)
    }
    found = haulout.simulate(done.program, given).outputs
    for core in range(cores):
        for name, value in zip(lowered.output_names, wanted[core], strict=True):
            assert np.isfinite(value).all() and np.ptp(value) > 0, name
            np.testing.assert_allclose(found[f"nc{core}/{name}"], value, rtol=1e-4, atol=1e-5, err_msg=name)
