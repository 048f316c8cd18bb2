"""A program that is not sound is refused at every door of the library: never judged, never a traceback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.schema import TABLES
from haulout.ir.text import parse_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

TEXT = """bir 1
program "p" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]
    mloc %s dram.shared size=64 dtype=f32 shape=[16]
    mloc %n dram.local size=4 kind=input dtype=s32 shape=[]
    block ^e -> ^loop:
      %put = dma_copy @dma0 (%x) -> (%s) seq=0 signal=[[done,1]]
      %wait = nop @sync () -> () seq=1 wait=[[done,1]]
      %meet = core_barrier @all () -> () name="m" index=0 seq=2
    block ^loop -> ^body, ^end cond=n trip=2:
    block ^body -> ^loop:
      %go = copy @vector (%s[0:4]) -> () seq=3 step=[[0,loop,4,2]]
    block ^end:
      %swap = sendrecv @dma1 (%x[0:32]) -> () to=1 tag="t" seq=4 deps=[put]
  }
}
module @nc1 core=1 {
  func @main {
    mloc %s dram.shared size=64 dtype=f32 shape=[16] remote=[s,0]
    mloc %y dram.local size=64 kind=output dtype=f32 shape=[16]
    mloc %n dram.local size=4 kind=input dtype=s32 shape=[]
    block ^e -> ^loop:
      %meet = core_barrier @all () -> () name="m" index=0 seq=2
    block ^loop -> ^body, ^end cond=n trip=2:
    block ^body -> ^loop:
      %get = dma_copy @dma0 (%s) -> (%y) seq=3 carried=[get]
    block ^end:
      %swap = sendrecv @dma1 () -> (%y[0;32x1;32]) from=0 tag="t" seq=4 deps=[meet]
  }
}
"""


def changed(table: str, column: str, row: int, value: int) -> Program:
    """The program with one cell changed."""
    program = parse_bir(TEXT)
    rows = program.table(table)
    cells = getattr(rows, column).copy()
    cells[row] = value
    return program.replace(**{table: rows.replace(**{column: cells})})


BROKEN: dict[str, tuple[Callable[[], Program], str]] = {
    "a dangling id": (lambda: changed("accesses", "location", 0, 99), "accesses.location[0] is 99, not a row of"),
    "a row of a core that is none": (lambda: changed("modules", "core", 1, 5), "needs one module for each core"),
    "a negative time": (
        lambda: changed("instructions", "seq", 0, -5),
        "instructions.seq[0] is -5, expected at least",
    ),
    "a negative trip": (lambda: changed("blocks", "trip", 1, -7), "blocks.trip[1] is -7"),
    "a barrier without its row": (
        lambda: parse_bir(TEXT).replace(barriers=TABLES["barriers"].empty()),
        "barriers has 0 rows, which are not those of the 2 core_barrier instructions",
    ),
    "columns of two lengths": (
        lambda: _shorter(parse_bir(TEXT)),
        "instructions.seq has 1 rows, the table has 8",
    ),
    "a column of another type": (
        lambda: _floats(parse_bir(TEXT)),
        "instructions.seq is not a column of int64",
    ),
}


def _shorter(program: Program) -> Program:
    program.instructions.seq = program.instructions.seq[:1]
    return program


def _floats(program: Program) -> Program:
    program.instructions.seq = program.instructions.seq.astype(np.float64)  # type: ignore[assignment]
    return program


DOORS: dict[str, Callable[[Program], Any]] = {
    "check": haulout.check,
    "check_program": check_program,
    "check_program of a source": lambda program: check_program(parse_bir(TEXT), source=program),
    "compile": haulout.compile,
    "simulate": haulout.simulate,
}


def test_the_program_is_sound_as_it_is() -> None:
    assert verify(parse_bir(TEXT)) == []
    assert "bad-input" not in {each.code for each in haulout.check(parse_bir(TEXT))}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", BROKEN)
def test_each_door_refuses(door: str, what: str) -> None:
    make, message = BROKEN[what]
    with pytest.raises(HauloutError) as refused:
        DOORS[door](make())
    assert {each.code for each in refused.value.diagnostics} == {"bad-input"}
    assert any(message in each.message for each in refused.value.diagnostics)


def test_compile_refuses_names_that_its_output_cannot_hold() -> None:
    program = parse_bir(TEXT)
    name = program.strings.intern("two\nlines")
    names = program.instructions.name.copy()
    names[0] = name
    with pytest.raises(HauloutError, match="control characters"):
        haulout.compile(program.replace(instructions=program.instructions.replace(name=names)))


@pytest.mark.long("10 s")
def test_any_cell_may_hold_anything() -> None:
    """The checker gives its findings, or the verifier's."""
    random, seen, program = Random(9), Counter[str](), parse_bir(TEXT)
    values = (-1, 0, 1, 2, 3, -2, -7, 64, 200, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
    for _ in range(400):
        table = random.choice([name for name in TABLES if len(program.table(name))])
        column = random.choice(list(TABLES[table].specs()))
        row = random.randrange(len(program.table(table)))
        kind = TABLES[table].specs()[column]["dtype"]
        value = int(np.array(random.choice(values), np.int64).astype(kind))
        try:
            haulout.check(changed(table, column, row, value))
            seen["judged"] += 1
        except HauloutError as error:
            assert not {"internal-error"} & {each.code for each in error.diagnostics}
            seen["refused"] += 1
    assert seen["judged"] > 20
    assert seen["refused"] > 100
