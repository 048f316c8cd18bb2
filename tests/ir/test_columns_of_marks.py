"""What the text writes as attributes and tables have columns for: the text stays, and the columns are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.store import load_program, save_program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

TEXT = """\
bir 1
program "marks" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=inout
    block ^entry:
      %j = nop @sync () -> () join=true note=1
      %g = nop @sync () -> () args=1 gather=true zeta=2
      %m = op @act (%x) -> (%x) signal=[[s,2]] wait=[[t,1]] alpha=1 maybe=[0,1] remote_signal=[[1,s,1],[1,t,3]] \
wait_back=[[s,0],[t,4]] xi=3
  }
}
module @nc1 core=1 {
  func @main {
    block ^entry:
  }
}
"""


def columns(program: Program) -> dict[str, list[int]]:
    """The columns that the marks above are in."""
    rows, marks = program.instructions, program.semaphores
    named = {f"semaphores.{name}": values.tolist() for name, values in marks.columns().items() if name != "name"}
    maybe = program.accesses.maybe.tolist()
    return {"join": rows.join.tolist(), "gather": rows.gather.tolist(), "maybe": maybe, **named}


def test_marks_are_columns_and_the_text_stays() -> None:
    program = parse_bir(TEXT)
    assert verify(program) == []
    assert print_bir(program) == TEXT
    assert [program.instruction_attrs(row) for row in range(3)] == [
        {"note": 1},
        {"args": 1, "zeta": 2},
        {"alpha": 1, "xi": 3},
    ]
    assert columns(program) == {
        "join": [True, False, False],
        "gather": [False, True, False],
        "maybe": [True, True],
        "semaphores.instruction": [2] * 6,
        "semaphores.core": [NONE, NONE, NONE, NONE, 1, 1],
        "semaphores.value": [2, 1, 0, 4, 1, 3],
        "semaphores.wait": [False, True, True, True, False, False],
        "semaphores.back": [False, False, True, True, False, False],
    }


def test_marks_are_stored(tmp_path: Path) -> None:
    program = parse_bir(TEXT)
    save_program(program, tmp_path / "marks.npz")
    stored = load_program(tmp_path / "marks.npz")
    assert columns(stored) == columns(program)
    assert print_bir(stored) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("maybe=[0,1]", "maybe=[2]", "maybe: no operand 2"),
        ("maybe=[0,1]", "maybe=true", "maybe: expected a list of integers"),
        ("join=true", "join=1", "join: expected true or false, found 1"),
        ("gather=true", "gather=yes", "gather: expected true or false"),
    ],
)
def test_what_a_column_cannot_hold_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_bir(TEXT.replace(old, new))
    assert message in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("core", 1, 1, "a wait on core 1; only signals"),
        ("back", 0, True, "a signal that counts back; only signals"),
        ("core", 4, 2, "a remote signal to core 2, lnc=2"),
    ],
)
def test_columns_that_contradict_each_other_are_found(column: str, row: int, value: int, message: str) -> None:
    program = parse_bir(TEXT)
    cells = getattr(program.semaphores, column).copy()
    cells[row] = value
    (found,) = verify(program.replace(semaphores=program.semaphores.replace(**{column: cells})))
    assert found.code == "bad-input" and message in found.message


@pytest.mark.parametrize("key", ["maybe", "join", "signal", "wait_back", "seq"])
def test_the_builder_takes_no_column_as_an_attribute(key: str) -> None:
    build = ProgramBuilder("p", 1)
    block = build.block(build.function(build.module("nc0", 0), "main"), "entry")
    with pytest.raises(HauloutError, match=f"{key} is no attribute but a column"):
        build.instruction(block, "a", "nop", Engine.SYNC, attrs={key: True})


def test_the_builder_makes_what_the_text_says() -> None:
    build = ProgramBuilder("marks", 2)
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core), "main")
        row = build.instruction(build.block(function, "entry"), "a", "nop", Engine.SYNC, join=True)
        build.semaphore(row, "s", 1, core=1 - core)
        build.semaphore(row, "s", 0, wait=True, back=True)
    text = print_bir(build.freeze())
    assert "%a = nop @sync () -> () join=true remote_signal=[[1,s,1]] wait_back=[[s,0]]\n" in text
    assert np.array_equal(parse_bir(text).semaphores.core, [NONE, 1, NONE, 0])
