"""Atomic accesses in the simulator: what accumulates, what is fetched, and what schedules tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checker.snippets import program

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate

ADD = "%a = add @dma0 (%t, %x) -> (%t) atomic=[0,2]"
FETCH = "%f = fetch_and_op @dma0 (%t, %x) -> (%t, %o) op=add atomic=[0,2]"
MEET = '%m = core_barrier @all () -> () name="m"'
READ = "%r = copy @act (%t) -> (%o)"


def cores(*lines: str, dtype: str = "s32") -> Program:
    """A core for each of the lines, with a shared `%t`, a private `%x` to add and an `%o`."""
    texts = []
    for core, text in enumerate(lines):
        head = "kind=inout" if core == 0 else "remote=[t,0]"
        typed = f"size=16 dtype={dtype} shape=[4]"
        texts.append(
            f"mloc %t dram.shared {typed} {head}\nmloc %x dram.local {typed} kind=input\n"
            f"mloc %o dram.local {typed} kind=inout\n{text}"
        )
    return program(*texts)


def inputs(count: int) -> dict[str, np.ndarray]:
    found = {"nc0/t": np.arange(4, dtype=np.int32)}
    for core in range(count):
        found[f"nc{core}/x"] = np.full(4, 10 ** (core + 1), np.int32)
        found[f"nc{core}/o"] = np.zeros(4, np.int32)
    return found


def test_what_accumulates_is_the_same_in_every_order() -> None:
    made = cores(ADD, ADD, ADD)
    report = compare_schedules(made, inputs(3), values=True)
    assert report.agrees
    assert len(report.schedules) > 3
    outputs = simulate(made, inputs(3)).outputs
    assert outputs["nc0/t"].tolist() == [1110, 1111, 1112, 1113]


def test_each_fetches_what_stood_there() -> None:
    outputs = simulate(cores(FETCH, FETCH), inputs(2), schedule="slowest:0:dma0").outputs
    assert outputs["nc0/t"].tolist() == [110, 111, 112, 113]
    assert outputs["nc1/o"].tolist() == [0, 1, 2, 3]
    assert outputs["nc0/o"].tolist() == [100, 101, 102, 103]


@pytest.mark.parametrize(
    ("sides", "agrees"),
    [
        ((ADD, ADD), True),
        ((FETCH, ADD), True),
        ((ADD, ADD.replace("add", "maximum")), False),
        ((ADD, ADD.replace("atomic=[0,2]", "")), False),
        ((ADD, READ), False),
        ((ADD, "%w = copy @act (%x) -> (%t)"), False),
        ((f"{ADD}\n{MEET}\n{READ}", f"{ADD}\n{MEET}\n{READ}"), True),
        ((f"{ADD}\n{MEET}\n{READ}", f"{MEET}\n{ADD}"), False),
        ((f"{ADD}\n{MEET}\n%w = copy @act (%x) -> (%t)", f"{MEET}\n{ADD}"), False),
        ((f"%w = copy @dma0 (%x) -> (%t)\n{ADD}", ADD), False),
        ((f"%w = copy @dma0 (%x) -> (%t)\n{MEET}\n{ADD}", f"{MEET}\n{ADD}"), True),
        ((f"{ADD}\n{MEET}\n%b = maximum @dma0 (%t, %x) -> (%t) atomic=[0,2]", f"{ADD}\n{MEET}"), True),
        ((f"{ADD}\n{MEET}\n%b = maximum @dma0 (%t, %x) -> (%t) atomic=[0,2]", f"{MEET}\n{ADD}"), False),
    ],
)
def test_schedules_agree_where_the_checker_does(sides: tuple[str, str], agrees: bool) -> None:
    made = cores(*sides)
    report = compare_schedules(made)
    assert report.agrees == agrees
    assert {each.code for each in report.diagnostics} == (set() if agrees else {"cross-core-race"})
    races = [each for each in check_program(made) if each.code == "cross-core-race"]
    assert (races == []) == agrees


def test_a_report_names_a_member_that_came_in_one_order_alone() -> None:
    """The last addition before the read is the same under both schedules; the other core's is not there under one."""
    made = cores(f"{ADD}\n{READ.replace('->', '->')} deps=[a]", ADD)
    (found,) = compare_schedules(made).diagnostics
    assert "what %r on core 0 reads of %t" in found.message
    assert any("%a on core 1 has written it before" in label.message for label in found.labels)


def test_sums_of_floats_may_differ_in_their_rounding() -> None:
    made = cores(ADD, ADD, ADD, dtype="f32")
    values = {
        "nc0/t": np.zeros(4, np.float32),
        "nc0/x": np.full(4, 1e8, np.float32),
        "nc1/x": np.full(4, 1.0, np.float32),
        "nc2/x": np.full(4, -1e8, np.float32),
        **{f"nc{core}/o": np.zeros(4, np.float32) for core in range(3)},
    }
    report = compare_schedules(made, values, values=True)
    assert report.differences == ()
    assert {name for _, name in report.unequal_outputs} == {"nc0/t"}
