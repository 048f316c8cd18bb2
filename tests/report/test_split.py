"""The section `split` of the report, by hand and against what the pass makes of random programs."""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.command import CHEAP_FENCES, HLO, ROOT
from tests.passes.test_capacity import HANDED_OVER
from tests.tiers import examples

import haulout
from haulout import api
from haulout.analysis.durations import durations
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import PassContext
from haulout.passes.split_report import Divided, Ordered, SplitReport, Undivided
from haulout.passes.split_uniform import SplitUniform
from haulout.report.split import split_lines, with_fences
from haulout.target import load_target
from haulout_generators.tensor_programs import random_tensor_program

EXAMPLE = ROOT / "tests" / "filecheck" / "split_uniform.bir"


def record_of(program: Program, **options: object) -> SplitReport:
    context = PassContext()
    SplitUniform(**options).run(program, context)  # type: ignore[arg-type]
    assert context.split is not None
    return context.split


def test_the_rows_of_an_example() -> None:
    record = record_of(parse_bir(EXAMPLE.read_text()), target=str(CHEAP_FENCES))
    found = {each.name: (each.opcode, each.dim, each.extent, each.cores, each.stored) for each in record.divided}
    assert found == {
        "sum": ("all_reduce", 0, 4, 2, "local"),
        "add": ("add", 0, 4, 2, "local"),
        "tanh": ("tanh", 0, 4, 2, "shared"),
        "dot": ("dot", 0, 4, 2, "shared"),
    }
    assert {each.name: each.read_apart for each in record.divided} == {"sum": 0, "add": 0, "tanh": 1, "dot": 0}
    assert record.undivided == []


def test_totals_are_sums() -> None:
    report = SplitReport.of(
        [Divided(name="a", opcode="add", loc="m.py:1", time_us=2.0, dim=0, extent=8, cores=4, stored="local",
                 read_apart=0),
         Divided(name="b", opcode="dot", loc=None, time_us=4.0, dim=None, extent=4, cores=4, stored="shared",
                 read_apart=3)],
        [Undivided(name="c", opcode="add", loc=None, reason="why", time_us=1.0),
         Undivided(name="d", opcode="add", loc=None, reason="so", time_us=2.0)],
        10.0,
    )  # fmt: skip
    assert [each.name for each in report.divided] == ["b", "a"]
    assert [each.name for each in report.undivided] == ["d", "c"]
    assert (report.divided_share, report.undivided_share, report.local_parts, report.shared) == (0.6, 0.3, 1, 1)
    assert list(report.reasons.items()) == [("so", 0.2), ("why", 0.1)]
    assert [line.strip() for line in split_lines(report)] == [
        "divided: 2 operations, 60.00 % of the time of a core; results of 1 in local parts, of 1 shared",
        "not divided: 2 operations, 30.00 %",
        "20.00 %: so",
        "10.00 %: why",
        "on values of each core alone: 10.00 %",
        "fences: 0",
    ]


def test_nothing_at_all() -> None:
    report = SplitReport.of([], [], 0.0)
    assert (report.divided_share, report.undivided_share, report.time_us) == (0.0, 0.0, 0.0)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_are_what_the_pass_did(seed: int) -> None:
    """A divided operation has other operands or attributes on the cores; the others are as they were."""
    program = random_tensor_program(Random(seed))
    context = PassContext()
    after = SplitUniform().run(program, context)
    assert context.split is not None
    record, rows = context.split, len(program.instructions) // program.lnc
    assert len(record.divided) == context.counters["split_uniform"]["operations"]
    divided, undivided = ({each.name for each in made} for made in (record.divided, record.undivided))
    assert not divided & undivided
    assert record.time_us >= sum(each.time_us for each in (*record.divided, *record.undivided)) - 1e-3 * (rows + 1)
    first = np.flatnonzero(after.instruction_core == 0).tolist()
    rows_after = {after.instruction_name(row): row for row in first}
    for row in range(rows):
        name = program.instruction_name(row)
        if name not in rows_after:
            # The first core has no share of it.
            assert name in divided
            continue
        found = [_operands(program, row), _operands(after, rows_after[name])]
        if name not in divided:
            assert found[0].attrs == found[1].attrs
            if name in undivided:
                assert found[0].patterns == found[1].patterns
        else:
            assert found[0] != found[1]


class _Operands(NamedTuple):
    """Operands of an instruction without their places."""

    attrs: object
    patterns: list[object]
    sizes: list[int]


def _operands(program: Program, row: int) -> _Operands:
    mine = slice(*program.access_starts[row : row + 2].tolist())
    return _Operands(
        program.instruction_attrs(row),
        [program.pattern(int(at)) for at in program.accesses.pattern[mine]],
        program.locations.size[program.accesses.location[mine]].tolist(),
    )


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(0, 2))
def test_every_cut_that_is_asked_for_is_made_or_refused(seed: int, dim: int) -> None:
    program = random_tensor_program(Random(seed))
    before = record_of(program)
    for each in (*before.divided[:2], *before.undivided[:1]):
        try:
            after = record_of(program, split=[f"{each.name}={dim}"])
        except haulout.HauloutError as error:
            assert error.diagnostics[0].code == "bad-input"
            assert f"%{each.name}" in error.diagnostics[0].message
            assert not (isinstance(each, Divided) and each.dim == dim)
        else:
            (found,) = [one for one in after.divided if one.name == each.name]
            assert found.dim == dim


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(-1, 2))
def test_every_annotation_is_followed_or_warned_of(seed: int, dim: int) -> None:
    """Of operations and of locations; nothing else is refused, and the marks are gone."""
    rng = Random(seed)
    text = print_bir(random_tensor_program(rng))
    lines = text.splitlines()
    rows = sorted({line.split()[0] for line in lines if " seq=" in line and " core_barrier " not in line})
    places = sorted({line.split()[1] for line in lines if line.split()[:1] == ["mloc"]})
    row, place = rng.choice(rows), rng.choice(places)
    marked = [
        f"{line} split={dim}" if line.split()[:1] == [row] or line.split()[:2] == ["mloc", place] else line
        for line in lines
    ]
    context = PassContext()
    made = SplitUniform().run(parse_bir("\n".join(marked)), context)
    assert context.split is not None and "split=" not in print_bir(made)
    told = [each.message for each in context.diagnostics if each.code == "split-not-followed"]
    (found,) = [each for each in context.split.divided if each.name == row[1:]] or [None]
    assert (found is not None and found.dim == dim) or any(f"{row} " in each for each in told)
    assert all(f"{row} " in each or f"{place} " in each for each in told)


def test_cuts_that_are_asked_for_keep_the_results() -> None:
    program = parse_bir(EXAMPLE.read_text())
    expected = dict(haulout.simulate(haulout.compile(program, share="none").program).outputs)
    for split in (["axis=0"], ["axis=1"], ["dot=1"], ["axis=1", "%tanh=0"]):
        result = haulout.compile(program, split=split)
        assert result.proved
        assert result.report.split is not None
        dims = {each.name: each.dim for each in result.report.split.divided}
        asked = dict(each.removeprefix("%").split("=") for each in split)
        for name, dim in asked.items():
            assert name == "axis" or dims[name] == int(dim)
        if "axis" in asked:
            rest = dims.keys() - asked.keys()
            # A preference: what cannot be cut with it in agreement is cut otherwise.
            assert sum(dims[each] == int(asked["axis"]) for each in rest) >= len(rest) - 1
        found = dict(haulout.simulate(result.program).outputs)
        assert {name: value.tobytes() for name, value in found.items()} == {
            name: value.tobytes() for name, value in expected.items()
        }


def test_time_is_that_of_the_operations() -> None:
    program = api.load(HLO)
    record = record_of(program)
    alone = durations(program, load_target("generic"))[: len(program.instructions) // program.lnc]
    assert record.time_us == pytest.approx(float(alone.sum()), abs=1e-3)


def test_other_programs_say_why() -> None:
    source = ROOT / "examples" / "race" / "sum_race.bir"
    assert "one list" in str(api.explain_split(source).obstacle)
    one = parse_bir('bir 1\nprogram "p" lnc=1\nmodule @nc0 core=0 {\n  func @main {\n    block ^entry:\n  }\n}\n')
    assert "one core" in str(api.explain_split(one).obstacle)


def test_the_report_has_it_where_work_is_divided() -> None:
    assert haulout.compile(EXAMPLE, share="inputs").report.split is None
    made = json.loads(haulout.compile(EXAMPLE, target=CHEAP_FENCES).report.to_json())["split"]
    assert [each["name"] for each in made["divided"]] and made["divided_share"] > 0.9
    assert made == json.loads(api.explain_split(EXAMPLE, target=CHEAP_FENCES).to_json())


def test_fences_of_operations() -> None:
    """Of two readers behind one fence both are told; what another core overwrites in the next iteration, too."""
    report = api.explain_split(EXAMPLE, target=CHEAP_FENCES)
    assert {each.name: each.fences for each in report.divided} == {
        "sum": [], "add": [], "tanh": [], "dot": ["cb_sg0_fence0"],
    }  # fmt: skip
    (fence,) = report.fences
    assert (fence.why, fence.orders) == ("conflicts", [Ordered("tanh", "dot", "reads", False)])
    assert split_lines(report)[-1] == "fences: 1"


def test_a_fence_bought_for_storage_is_named_as_such() -> None:
    program = parse_bir(HANDED_OVER)
    free = haulout.compile(program)
    result = haulout.compile(program, capacity=free.report.partition_totals["proportional"] - 4096)
    made = with_fences(SplitReport(), result.program)
    assert [(each.name, each.why) for each in made.fences] == [
        ("cb_sg0_fence0", "conflicts"), ("cb_sg0_free0", "storage")
    ]  # fmt: skip
    assert split_lines(made)[-1] == "fences: 2; 1 free storage"
