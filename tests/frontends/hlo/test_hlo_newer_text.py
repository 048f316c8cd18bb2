"""Text as JAX 0.11 and 0.12 write it: elements of tuples as operands, a stable topk, parameters without shardings."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.lost_shardings import with_shardings
from haulout.support.diagnostics import HauloutError

BEFORE = """HloModule layer, num_partitions=2

ENTRY %main (x: f32[4,8], w: f32[8,8], both: (f32[8], f32[2])) -> f32[4,8] {
  %x = f32[4,8]{1,0} parameter(0), sharding={mesh['d'=2], [{'d'}, {}]}, metadata={op_name="x"}
  %w = f32[8,8]{1,0} parameter(1), metadata={op_name="w"}
  %both = (f32[8]{0}, f32[2]{0}) parameter(2), sharding={{mesh['d'=2], [{}]}, {mesh['d'=2], [{'d'}]}}
  %d = f32[4,8]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %b = f32[4,8]{1,0} broadcast(%both#0), dimensions={1}
  ROOT %y = f32[4,8]{1,0} add(%d, %b), sharding={mesh['d'=2], [{'d'}, {}]}
}
"""
AFTER = """HloModule layer, num_partitions=2

%twice (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %s = f32[8]{0} add(%a, %a)
}

ENTRY %main_spmd (param: f32[2,8], param.1: f32[8,8], param.2: (f32[8], f32[1])) -> f32[2,8] {
  %param = f32[2,8]{1,0} parameter(0), metadata={op_name="x"}
  %param.1 = f32[8,8]{1,0} parameter(1), metadata={op_name="w"}
  %param.2 = (f32[8]{0}, f32[1]{0}) parameter(2)
  %d = f32[2,8]{1,0} dot(%param, %param.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %c = f32[8]{0} call(%param.2#0), to_apply=%twice
  %b = f32[2,8]{1,0} broadcast(%c), dimensions={1}
  ROOT %y = f32[2,8]{1,0} add(%d, %b)
}
"""


def shardings(text: str) -> list[str | None]:
    values = [each.attributes.get("sharding") for each in parse_hlo(text).entry.parameters]
    return [None if value is None else value.text for value in values]


def test_parameters_get_what_they_had_before() -> None:
    assert shardings(AFTER) == [None, None, None]
    assert shardings(with_shardings(AFTER, BEFORE)) == [
        "{mesh['d'=2], [{'d'}, {}]}",
        "{replicated}",
        "{{mesh['d'=2], [{}]}, {mesh['d'=2], [{'d'}]}}",
    ]


def test_what_has_shardings_keeps_them() -> None:
    with_all = with_shardings(AFTER, BEFORE)
    assert with_shardings(with_all, "no HLO at all") == with_all
    changed = with_all.replace("{replicated}", "{manual}")
    assert with_shardings(changed, BEFORE) == changed
    one = AFTER.replace("num_partitions=2", "num_partitions=1")
    assert with_shardings(one, BEFORE) == one


def test_other_parameters_are_refused() -> None:
    fewer = "HloModule m\n\nENTRY %main {\n  ROOT %x = f32[4,8]{1,0} parameter(0)\n}\n"
    with pytest.raises(HauloutError, match="1 parameters before partitioning, 3 after it"):
        with_shardings(AFTER, fewer)


def test_equal_inputs_are_stored_once_and_the_numbers_are_right() -> None:
    """Without the shardings every core has its own copy of `w`."""
    found = {}
    for name, text in (("without", AFTER), ("with", with_shardings(AFTER, BEFORE))):
        result = haulout.compile(lower(parse_hlo(text)))
        assert result.proved
        found[name] = result
    assert found["with"].report.total_peak_bytes < found["without"].report.total_peak_bytes
    rng = np.random.default_rng(1)
    x, w, b, c = (rng.standard_normal(shape).astype("f4") for shape in ((4, 8), (8, 8), (8,), (2,)))
    program = found["with"].program
    first, second = (name for name in map(str, _inputs(program)) if name.startswith("param.2"))
    given = {"w": w, first: b} | {
        f"nc{core}/{name}": part
        for core in range(2)
        for name, part in (("x", x[2 * core : 2 * core + 2]), (second, c[core : core + 1]))
    }
    outputs = haulout.simulate(program, given).outputs
    for core, value in enumerate(outputs.values()):
        np.testing.assert_allclose(value, (x @ w + 2 * b)[2 * core : 2 * core + 2], rtol=1e-5)


def _inputs(program: haulout.Program) -> list[str]:
    rows = program.locations
    return list(
        dict.fromkeys(program.strings[int(name)] for name in rows.name if "param" in program.strings[int(name)])
    )


def test_a_stable_topk_of_a_tuple_element() -> None:
    text = """HloModule best

ENTRY %main (x: (f32[2,4])) -> f32[2,2] {
  %x = (f32[2,4]{1,0}) parameter(0)
  %t = (f32[2,2]{1,0}, s32[2,2]{1,0}) topk(%x#0), k=2, largest=true, is_stable=true
  %f = f32[2,2]{1,0} convert(%t#1)
  ROOT %r = f32[2,2]{1,0} add(%t#0, %f)
}
"""
    result = haulout.compile(lower(parse_hlo(text)))
    assert result.proved
    x = np.array([[3, 9, 9, 1], [5, 4, 5, 6]], "f4")
    (value,) = haulout.simulate(result.program, {_inputs_of(result.program): x}).outputs.values()
    assert value.tolist() == [[9 + 1, 9 + 2], [6 + 3, 5 + 0]]


def _inputs_of(program: haulout.Program) -> str:
    return str(program.strings[int(program.locations.name[0])])


def sorted_by(order: str) -> list[float]:
    """0 and -0 from the least to the greatest, as signs; without a total order they are equal and stay."""
    text = f"""HloModule m

%less (a: f32[], b: f32[]) -> pred[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = pred[] compare(%a, %b), direction=LT{order}
}}

ENTRY %main (x: f32[3]) -> f32[3] {{
  %x = f32[3]{{0}} parameter(0)
  ROOT %s = f32[3]{{0}} sort(%x), dimensions={{0}}, is_stable=true, to_apply=%less
}}
"""
    result = haulout.compile(lower(parse_hlo(text)))
    (value,) = haulout.simulate(result.program, {"x": np.array([0.0, -0.0, -1.0], "f4")}).outputs.values()
    return [float(each) for each in np.copysign(1, value)]


def test_the_new_words_for_a_total_order_are_followed() -> None:
    assert sorted_by(", order=TOTAL") == sorted_by(", type=TOTALORDER") == [-1, -1, 1]
    assert sorted_by("") == sorted_by(", order=PARTIAL") == [-1, 1, -1]
    with pytest.raises(HauloutError, match="the attribute `fast` of compare is not supported"):
        sorted_by(", fast=true")
