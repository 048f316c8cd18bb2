"""Constants whose data a dump leaves out are inputs, equal on all cores."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import Kind
from haulout.ir.left_out import left_out_constants
from haulout.ir.program import Program
from haulout.support.diagnostics import HauloutError


def program(data: str, cores: int = 2) -> Program:
    text = (
        f"HloModule m, num_partitions={cores}\nENTRY e {{\nx = f32[2,3] parameter(0)\n"
        f"c = f32[2,3] constant({data})\nt = f32[3,2] transpose(c), dimensions={{1,0}}\n"
        "s = f32[3,2] reshape(x)\nROOT y = f32[3,2] add(s, t)\n}\n"
    )
    return lower(parse_hlo(text, "m.hlo"))


def test_it_is_an_input_with_the_given_data() -> None:
    result = haulout.compile(program("{...}"))
    assert result.proved
    assert [each.code for each in result.diagnostics] == ["left-out-constant"]
    found = result.program
    rows = zip(found.locations.name.tolist(), found.locations.kind.tolist(), strict=True)
    kinds = {found.strings[name]: Kind(kind) for name, kind in rows}
    assert kinds["c"] is Kind.INPUT
    x, c = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = haulout.simulate(found, {"x": x, "c": c}).outputs
    whole = haulout.simulate(haulout.compile(program("{ {0,1,2}, {3,4,5} }")).program, {"x": x}).outputs
    assert set(outputs) == set(whole)
    assert all(np.array_equal(outputs[key], whole[key]) for key in whole)


def test_it_is_one_array_on_all_cores() -> None:
    values = {"x": np.ones((2, 3), np.float32), "nc0/c": np.zeros((2, 3), np.float32)}
    with pytest.raises(HauloutError):
        haulout.simulate(haulout.compile(program("{...}")).program, values | {"nc1/c": values["x"]})


def test_a_constant_with_data_is_none() -> None:
    assert left_out_constants(program("{ {0,1,2}, {3,4,5} }")) == []


def test_part_of_the_data_is_an_error() -> None:
    with pytest.raises(HauloutError, match="does not contain the data"):
        program("{ {0,1,2}, ... }")
