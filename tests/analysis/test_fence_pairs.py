"""The conflicts that one fence alone orders, against all pairs of accesses, byte by byte."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import haulout
from haulout.analysis.fence_pairs import fence_pairs
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import epochs, fence_rows
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout_generators.programs import random_program


def bytes_of(program: Program, access: int) -> set[int]:
    pattern = program.pattern(int(program.accesses.pattern[access]))
    if pattern is None or pattern.is_unknown:
        return set(range(int(program.locations.size[program.accesses.location[access]])))
    starts = [pattern.offset]
    for stride, count in pattern.dims:
        starts = [start + stride * at for start in starts for at in range(count)]
    return {start + at for start in starts for at in range(pattern.run)}


@pytest.mark.parametrize("seed", range(30))
def test_pairs_of_random_programs(seed: int) -> None:
    """Every pair is one; and every access that some fence alone orders after another core has a pair there."""
    program = haulout.compile(random_program(Random(seed), steps=14)).program
    accesses, owner, epoch = program.accesses, program.owner, epochs(program)
    rows = fence_rows(program)
    fence_of = {int(epoch[row]): row for row in rows.tolist() if program.instruction_core[row] == 0}
    touched = {at: bytes_of(program, at) for at in np.flatnonzero(shared_accesses(program)).tolist()}
    wanted = set()
    for one in touched:
        for two in touched:
            row, other = int(accesses.instruction[one]), int(accesses.instruction[two])
            if (
                epoch[other] == epoch[row] + 1
                and program.instruction_core[row] != program.instruction_core[other]
                and owner[accesses.location[one]] == owner[accesses.location[two]]
                and (accesses.write[one] or accesses.write[two])
                and touched[one] & touched[two]
            ):
                wanted.add((fence_of[int(epoch[row])], one, two))
    pairs = fence_pairs(program)
    found = set(zip(pairs.fence.tolist(), pairs.earlier.tolist(), pairs.later.tolist(), strict=True))
    assert found <= wanted
    assert {(fence, later) for fence, _, later in found} == {(fence, later) for fence, _, later in wanted}
    assert not pairs.carried.any()


def test_the_next_iteration() -> None:
    """Each core reads in an iteration what the other one wrote in the iteration before."""
    text = 'bir 1\nprogram "turns" lnc=2\n'
    for core in range(2):
        remote = " remote=[s,0]" if core else ""
        text += f"""module @nc{core} core={core} {{
  func @main {{
    mloc %s dram.shared size=64{remote}
    mloc %c dram.local size=1 kind=input
    mloc %out dram.local size=32 kind=output
    block ^entry -> ^head:
      %fill = memset @act () -> (%s[{32 * core}:{32 * core + 32}]) seq=0 value=0
      %before = core_barrier @all () -> () seq=1 name="before"
    block ^head -> ^body, ^after cond=c:
    block ^body -> ^head:
      %get = mix @act (%s[{32 - 32 * core}:{64 - 32 * core}]) -> (%out) seq=2
      %meet = core_barrier @all () -> () seq=3 name="meet"
      %put = mix @act (%out) -> (%s[{32 * core}:{32 * core + 32}]) seq=4
      %again = core_barrier @all () -> () seq=5 name="again"
    block ^after:
  }}
}}
"""
    program = parse_bir(text)
    pairs = fence_pairs(program)
    rows = program.accesses.instruction
    columns = pairs.fence, rows[pairs.earlier], rows[pairs.later]
    names = zip(*([program.instruction_name(row) for row in each.tolist()] for each in columns), strict=True)
    found = set(zip(names, pairs.carried.tolist(), strict=True))
    assert found == {
        (("before", "fill", "get"), False),
        (("meet", "get", "put"), False),
        (("again", "put", "get"), True),
    }
