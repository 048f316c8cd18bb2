"""Insertion, compaction, replication: checked against the same edit on the printed text."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import NewInstructions, compact, insert
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.ir.schema import Accesses, Dependences, Instructions
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout_generators.programs import random_program


def names(program: Program) -> list[str]:
    return [program.instruction_name(row) for row in range(len(program.instructions))]


@given(st.randoms(use_true_random=False))
def test_insert_puts_each_row_before_the_one_named(rng: Random) -> None:
    program = random_program(rng, cores=2)
    old = len(program.instructions)
    before = [rng.randint(0, old) for _ in range(rng.randint(0, 6))]
    block = program.instructions.block
    blocks = [int(block[row]) if row < old else int(block[-1]) for row in before]
    seqs = [int(program.instructions.seq[min(row, old - 1)]) for row in before]
    fresh = [program.strings.intern(f"new{k}") for k in range(len(before))]
    new = NewInstructions(
        np.array(before, np.int32),
        Instructions.make(len(before), name=fresh, block=blocks, opcode=0, engine=int(Engine.PE), seq=seqs),
    )
    result, moved = insert(program, new)
    expected: list[str] = []
    for row, name in enumerate(names(program)):
        expected += [f"new{k}" for k, at in enumerate(before) if at == row] + [name]
    expected += [f"new{k}" for k, at in enumerate(before) if at == old]
    assert names(result) == expected
    assert [names(result)[moved[row]] for row in range(old)] == names(program)
    assert verify(result) == []
    # Taking them out again gives the program back, operands and all.
    keep = np.ones(len(result.instructions), bool)
    keep[moved[old:]] = False
    assert print_bir(compact(result, keep)[0]) == print_bir(program)


def test_dependences_on_new_rows_and_of_new_rows() -> None:
    text = """bir 1
program "p" lnc=1
module @m core=0 {
  func @f {
    mloc %x sbuf size=8
    block ^e:
      %a = op @pe () -> (%x)
      %b = op @act (%x) -> () deps=[a]
  }
}
"""
    program = parse_bir(text)
    new = NewInstructions(
        np.array([1], np.int32),
        Instructions.make(1, name=program.strings.intern("n"), block=0, opcode=0, engine=int(Engine.POOL)),
        accesses=Accesses.make(1, instruction=0, location=0),
        dependences=Dependences.make(1, instruction=0, producer=0),
    )
    result, moved = insert(program, new)
    assert moved.tolist() == [0, 2, 1]
    assert "%n = bir" not in print_bir(result)
    assert "deps=[a]" in print_bir(result).splitlines()[7]
    assert result.dependences.instruction.tolist() == [1, 2]
    dropped, _ = compact(result, np.array([False, True, True]))
    assert len(dropped.dependences) == 0


def test_blocks_may_be_filled_out_of_turn() -> None:
    build = ProgramBuilder("p", 1)
    function = build.function(build.module("m", 0), "f")
    x = build.location(function, "x", Space.SBUF, 8)
    first, second = build.block(function, "a"), build.block(function, "b")
    build.edge(first, second)
    build.instruction(second, "late", "op", Engine.PE, [x])
    early = build.instruction(first, "early", "op", Engine.ACT, [], [x])
    build.instruction(second, "last", "op", Engine.PE, [x], deps=[early])
    program = build.freeze()
    assert names(program) == ["early", "late", "last"]
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert "%last = op @pe (%x) -> () deps=[early]" in print_bir(program)
    assert verify(program) == []


def test_replicate_gives_each_core_its_own_rows() -> None:
    build = ProgramBuilder("p", 1)
    function = build.function(build.module("m", 0), "f")
    ident = build.location(
        function, "id", Space.DRAM_LOCAL, 4, kind=Kind.CONST, dtype="s32", shape=(), data="AAAAAA=="
    )
    out = build.location(function, "out", Space.DRAM_LOCAL, 4, kind=Kind.OUTPUT)
    block = build.block(function, "e")
    first = build.instruction(block, "a", "dma_copy", Engine.DMA0, [ident], [out], seq=0)
    build.instruction(block, "b", "dma_copy", Engine.DMA1, [ident], [out], seq=1, deps=[first])
    program = replicate(build.freeze(), 3, data={ident: ["AAAAAA==", "AQAAAA==", "AgAAAA=="]})
    assert verify(program) == []
    text = print_bir(program)
    assert [text.count(part) for part in ("core=2", 'data="AQAAAA=="', "deps=[a]", "module @nc")] == [1, 1, 3, 3]
    assert print_bir(parse_bir(text)) == text
