"""Models of many kinds, on one core and on two: proved programs that compute what PyTorch computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torchax", reason="needs the extra `torch`")

from tests.frontends.hlo.from_torch.expected import for_cores, results
from tests.frontends.hlo.from_torch.models import CASES, Case, case

import haulout
import haulout.torch
from haulout.ir.paths import location_paths, result_paths
from haulout.sim.expect import compare_outputs, expected_outputs

pytestmark = pytest.mark.torch
LARGEST = 3.4e-7
"""Of max|a-b| / max|b|, over the results of a model."""


def spec(axes: Any) -> Any:
    from jax.sharding import PartitionSpec

    is_leaf = isinstance(axes, tuple) and all(each is None or isinstance(each, str) for each in axes)
    return PartitionSpec(*axes) if is_leaf else tuple(spec(each) for each in axes)


def lowered(made: Case, cores: int) -> haulout.torch.Lowered:
    if cores == 1:
        return haulout.torch.lower(made.module, made.args)
    shardings = {pattern: spec(axes) for pattern, axes in made.params.items()}
    split = None if made.split_args is None else tuple(spec(each) for each in made.split_args)
    return haulout.torch.lower(
        made.module, made.args, mesh={"x": cores}, param_shardings=shardings, arg_shardings=split
    )


@pytest.mark.thin(12, "400 s")
@pytest.mark.parametrize("cores", [2, 1])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_a_model(name: str, cores: int) -> None:
    made = case(name)
    program, inputs, _ = lowered(made, cores)
    assert program.lnc == cores
    result = haulout.compile(program)
    assert result.proved
    outputs = haulout.simulate(result.program, inputs).outputs
    names = result_paths(program)
    assert None not in names
    wanted = for_cores(results(made), inputs, names, cores)
    findings, worst = compare_outputs(outputs, expected_outputs(result.program, wanted))
    assert not findings
    assert worst <= LARGEST


@pytest.mark.long("30 s")
def test_buffers_and_parameters_have_the_names_of_the_module() -> None:
    made = case("llama")
    program, inputs, names = lowered(made, 1)
    states = {**dict(made.module.named_parameters()), **dict(made.module.named_buffers())}
    assert set(inputs) == {*states, "tokens", "place"}
    caches = [f"layers.{layer}.attn.cache_{kind}" for layer in range(2) for kind in "kv"]
    assert result_paths(program) == [*caches, "result"] == list(names)
    assert set(inputs) <= set(location_paths(program))
    donation = haulout.compile(program).report.donation
    assert donation is not None
    assert donation.used == caches and not donation.unused
