"""The author's names of parameters and results, and donated parameters, in HLO text that JAX writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.donation import donated_names, with_donors
from haulout.ir.enums import Kind
from haulout.ir.origin import with_origin
from haulout.ir.paths import location_paths, result_paths
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.sim.expect import compare_outputs, expected_outputs
from haulout.support.diagnostics import HauloutError

TWO_CORES = """\
HloModule jit_step, buffer_donor={ (0, {}), (1, {}), (2, {}) }, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (param: f32[4,8], param.1: f32[3], param.2: f32[4,8]) -> (f32[], f32[4,8], f32[4,8]) {
  %param = f32[4,8] parameter(0), sharding={replicated}, metadata={op_name="params[\\'h\\'][0][\\'w\\']"}
  %param.1 = f32[3] parameter(1), metadata={op_name="jit(step)/parameter"}
  %param.2 = f32[4,8] parameter(2), metadata={op_name="batch.x"}
  %zero = f32[] constant(0)
  %part = f32[] reduce(%param.2, %zero), dimensions={0,1}, to_apply=%sum, \
metadata={source_file="step.py" source_line=3}
  %loss = f32[] all-reduce(%part), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum, \
metadata={source_file="step.py" source_line=4}
  %whole = f32[4,8] broadcast(%loss), dimensions={}
  %moved = f32[4,8] subtract(%param, %whole), metadata={source_file="step.py" source_line=5}
  %scaled = f32[4,8] multiply(%param.2, %param.2)
  ROOT %tuple = (f32[], f32[4,8], f32[4,8]) tuple(%loss, %moved, %scaled)
}
"""
RESULTS = ("result['loss']", "result['params']", "result['x']")


def program(donors: bool = True) -> Program:
    module = parse_hlo(TWO_CORES, "step.hlo")
    module = with_donors(module) if donors else module
    made = lower(module)
    return with_origin(made, donated=donated_names(module, made), results=RESULTS)


def test_parameters_have_paths_where_their_name_is_one() -> None:
    paths = location_paths(program(donors=False))
    assert paths[:3] == ["params['h'][0]['w']", None, "batch.x"]


@pytest.mark.parametrize(
    "name, is_path",
    [
        ("x", True),
        ("state.opt[0].mu['layer/kernel']", True),
        ("args[<flat index 0>]", True),
        ("jit(f)/reduce_sum", False),
        ("a b", False),
        ("", False),
        ("p['open", False),
    ],
)
def test_what_is_a_path(name: str, is_path: bool) -> None:
    written = name.replace("'", "\\'")
    parameter = f'%p = f32[2] parameter(0), metadata={{op_name="{written}"}}'
    text = f"HloModule m\nENTRY %e (p: f32[2]) -> f32[2] {{\n  {parameter}\n  ROOT %r = f32[2] negate(%p)\n}}\n"
    made = lower(parse_hlo(text, "m.hlo"))
    assert location_paths(made)[0] == (name if is_path else None)


def test_donors_take_the_first_result_that_fits() -> None:
    made = program()
    names = [made.strings[name] for name in made.locations.name.tolist()]
    kinds = dict(zip(names, made.locations.kind.tolist(), strict=True))
    # The loss fits none of them; param.1 fits no result.
    assert kinds["param"] == kinds["param.2"] == Kind.INOUT
    assert kinds["param.1"] == Kind.INPUT
    assert made.output_names == [made.output_names[0], "param", "param.2"]
    result = haulout.compile(made)
    assert result.proved
    donation = result.report.donation
    assert donation is not None
    assert donation.used == ["params['h'][0]['w']", "batch.x"]
    assert donation.unused == ["param.1"]
    # Each core has its own scaled batch; whether params are stored once is the compiler's choice.
    assert donation.saved_bytes in (2 * 128 + 128, 4 * 128)


def test_donation_changes_no_value() -> None:
    plain, donated = program(donors=False), program()
    wanted, found = (
        haulout.simulate(haulout.compile(plain).program),
        haulout.simulate(haulout.compile(donated).program),
    )
    for module in ("nc0", "nc1"):
        for one, other in zip(plain.output_names, donated.output_names, strict=True):
            np.testing.assert_array_equal(found.outputs[f"{module}/{other}"], wanted.outputs[f"{module}/{one}"])


@pytest.mark.parametrize("donors", ["{ (7, {}) }", "{ (0 {}) }", "{ (0, {}"])
def test_a_wrong_list_of_donors_is_refused(donors: str) -> None:
    text = TWO_CORES.replace("{ (0, {}), (1, {}), (2, {}) }", donors)
    with pytest.raises(HauloutError, match=r"step\.hlo"):
        with_donors(parse_hlo(text, "step.hlo"))


def inputs() -> dict[str, Any]:
    return {
        "params['h'][0]['w']": np.arange(32, dtype="f4").reshape(4, 8),
        "param.1": np.zeros(3, "f4"),
        "nc0/batch.x": np.ones((4, 8), "f4"),
        "nc1/batch.x": np.full((4, 8), 2, "f4"),
    }


@pytest.mark.parametrize("donors", [False, True])
def test_paths_are_keys_of_inputs_and_of_expected_results(donors: bool, tmp_path: Path) -> None:
    compiled = haulout.compile(program(donors)).program
    # Names of locations stay keys, and the text keeps the paths.
    (tmp_path / "step.bir").write_text(print_bir(compiled))
    compiled = haulout.load(tmp_path / "step.bir")
    assert result_paths(compiled) == list(RESULTS)
    outputs = haulout.simulate(compiled, inputs()).outputs
    loss = np.float32(32 * 1 + 32 * 2)
    expected = {
        "result['loss']": loss,
        "out/result['params']": inputs()["params['h'][0]['w']"] - loss,
        "nc1/result['x']": np.full((4, 8), 4, "f4"),
    }
    findings, worst = compare_outputs(outputs, expected_outputs(compiled, expected))
    assert not findings
    assert worst == 0
    wrong = expected_outputs(compiled, {"result['loss']": np.float32(1)})
    assert len(wrong) == len(compare_outputs(outputs, wrong)[0]) == 2


def test_an_unknown_path_is_refused_and_the_known_ones_are_listed() -> None:
    given = inputs()
    given["params['w']"] = given.pop("params['h'][0]['w']")
    with pytest.raises(HauloutError) as caught:
        haulout.simulate(program(), given)
    messages = [each.message for each in caught.value.diagnostics]
    assert messages[0] == "missing input 'nc0/param' (or 'params['h'][0]['w']')"
    assert "unknown input 'params['w']'" in messages


def test_a_path_that_is_the_name_of_another_location_is_no_key() -> None:
    text = """\
HloModule m
ENTRY %e (a: f32[2], b: f32[2]) -> f32[2] {
  %a = f32[2] parameter(0), metadata={op_name="b"}
  %b = f32[2] parameter(1), metadata={op_name="a"}
  ROOT %r = f32[2] subtract(%a, %b)
}
"""
    made = lower(parse_hlo(text, "m.hlo"))
    found = haulout.simulate(made, {"a": np.ones(2, "f4"), "b": np.zeros(2, "f4")}).outputs
    np.testing.assert_array_equal(found["nc0/r"], np.ones(2, "f4"))


def test_findings_name_the_path() -> None:
    text = print_bir(haulout.compile(program()).program)
    assert "uninitialized" not in text
    broken = text.replace("kind=inout", "kind=internal").replace("outputs=", "outputs_before=")
    shown = "\n".join(str(HauloutError(each)) for each in haulout.check(parse_bir(broken, "broken.bir")))
    assert "of %param.2 (batch.x), which nothing has written" in shown
    assert "%param (params['h'][0]['w'])" in shown
