"""Every collective, compiled by both policies, proved, run, compared with plain NumPy, in bytes where it can be."""

from itertools import product

import numpy as np
import pytest
from tests.passes.collective_cases import Case

import haulout
from haulout.checker import check_program
from haulout.passes.pipeline import Fences
from haulout.sim import compare_schedules

CORES = (2, 3, 4, 8)
SPLIT = {2: [[1, 0]], 3: [[2, 0, 1]], 4: [[0, 2], [3, 1]], 8: [[0, 2, 4, 6], [7, 5, 3, 1]]}
"""Groups that are not in order; several of them where there are enough cores."""


def _all(cores: int) -> list[list[int]]:
    return [list(range(cores))]


def _cases() -> list[Case]:
    cases = []
    for cores, groups in [(each, groups) for each in CORES for groups in (_all(each), SPLIT[each])]:
        size = len(groups[0])
        wide = (size * 2, 3, size)
        for op, dtype in (("add", "f32"), ("maximum", "s32"), ("minimum", "f32"), ("multiply", "u8")):
            cases.append(Case("all_reduce", cores, groups, [dtype], op=op))
        cases.append(Case("all_reduce", cores, groups, ["f32", "s16"]))
        cases.append(Case("all_gather", cores, groups, ["f32"], dim=1))
        cases.append(Case("all_gather", cores, groups, ["bf16", "pred"], shape=(2, 3), dim=0))
        for dim in (0, 2):
            cases.append(Case("reduce_scatter", cores, groups, ["f32"], shape=wide, dim=dim))
            cases.append(Case("all_to_all", cores, groups, ["s32"], shape=wide, dim=dim))
        cases.append(Case("reduce_scatter", cores, groups, ["s64", "u32"], shape=wide, op="maximum"))
        cases.append(Case("all_to_all", cores, groups, ["f32"] * size, shape=(3,), tuple_form=True))
        cases.append(Case("all_reduce", cores, groups, ["f32"], timed=False))
    for cores in CORES:
        ring = [[core, (core + 1) % cores] for core in range(cores)]
        for pairs in (ring, [[core, core - 1] for core in range(1, cores)], [[0, 0]], []):
            cases.append(Case("collective_permute", cores, _all(cores), ["f32", "s8"], pairs=pairs))
    for op, dtype in product(("and", "or"), ("pred", "s32", "u64")):
        cases.append(Case("all_reduce", 3, _all(3), [dtype], op=op))
    for dtype in ("s8", "u16", "s64", "f16", "bf16", "f64"):
        cases.append(Case("all_reduce", 4, SPLIT[4], [dtype]))
        cases.append(Case("reduce_scatter", 4, SPLIT[4], [dtype], dim=1))
        cases.append(Case("all_to_all", 4, _all(4), [dtype], dim=1))
    # Groups of one, scalars.
    cases.append(Case("all_reduce", 3, [[0], [1], [2]], ["f32"], shape=()))
    cases.append(Case("all_reduce", 3, _all(3), ["f32"], shape=()))
    cases.append(Case("all_reduce", 3, [[2, 0], [1]], ["f32", "s32"]))
    cases.append(Case("all_reduce", 8, [[7], [0, 1, 2], [3, 4, 5, 6]], ["f32"], op="maximum"))
    cases.append(Case("all_gather", 2, [[1], [0]], ["f32"]))
    cases.append(Case("reduce_scatter", 2, [[0], [1]], ["f32"]))
    cases.append(Case("all_to_all", 2, [[0], [1]], ["f32"]))
    return cases


TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 1e-2, "bf16": 3e-2}


@pytest.mark.thin(9, "60 s")
@pytest.mark.parametrize("case", _cases(), ids=str)
@pytest.mark.parametrize("fences", ["minimal", "bracket"])
def test_equals_numpy(case: Case, fences: Fences) -> None:
    result = haulout.compile(case.program(), fences=fences)
    assert result.proved, "\n".join(map(str, result.diagnostics))
    assert check_program(result.program) == []
    inputs = case.inputs()
    run = haulout.simulate(result.program, inputs)
    assert run.diagnostics == ()
    wanted = case.expected(inputs)
    assert sorted(run.outputs) == sorted(wanted)
    for name, value in wanted.items():
        found, dtype = run.outputs[name], case.dtypes[int(name[-1])]
        assert found.dtype == value.dtype
        assert found.shape == value.shape
        rounds = case.opcode in ("all_reduce", "reduce_scatter") and case.op in ("add", "multiply")
        if dtype in TOLERANCE and rounds:
            found, value = found.astype(np.float64), value.astype(np.float64)
            assert np.max(np.abs(found - value), initial=0) <= TOLERANCE[dtype] * np.max(np.abs(value), initial=0)
        else:
            assert found.tobytes() == value.tobytes(), name


@pytest.mark.parametrize("fences", ["minimal", "bracket"])
@pytest.mark.parametrize("opcode", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"])
def test_every_schedule_gives_the_same_bytes(opcode: str, fences: Fences) -> None:
    case = Case(opcode, 3, _all(3), ["f32", "s32"], shape=(3, 6), pairs=[[0, 1], [1, 2], [2, 0]])
    program = haulout.compile(case.program(), fences=fences).program
    assert compare_schedules(program, case.inputs()).diagnostics == ()


def test_all_members_get_the_same_bytes() -> None:
    """Floating-point sums depend on their order: all members of a group must add in one order."""
    case = Case("all_reduce", 8, SPLIT[8], ["f32", "bf16"], shape=(64,))
    outputs = haulout.simulate(haulout.compile(case.program()).program, case.inputs(7)).outputs
    for group in case.groups:
        for at in (0, 1):
            assert len({outputs[f"nc{core}/y{at}"].tobytes() for core in group}) == 1


def test_one_collective_costs_one_fence() -> None:
    """`minimal` needs one fence for a collective, `bracket` its own two and the two of the lowering."""
    case = Case("all_reduce", 4, _all(4), ["f32"])
    assert haulout.compile(case.program(), fences="minimal").report.barriers == 1
    assert haulout.compile(case.program(), fences="bracket").report.barriers == 4
