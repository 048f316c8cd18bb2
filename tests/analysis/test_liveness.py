"""Liveness against paths: on random graphs, and of shared locations on all ways through random programs."""

from __future__ import annotations

import logging
from random import Random

import numpy as np
import pytest
from tests.property.ways import ways

from haulout.analysis.liveness import shared_liveness, solve
from haulout.analysis.phases import shared_accesses
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout_generators.branch_programs import random_branch_program


def random_graph(rng: Random) -> list[list[int]]:
    """One to eight blocks with up to two successors each: no structure at all."""
    count = rng.randint(1, 8)
    return [rng.sample(range(count), min(count, rng.choice((0, 1, 1, 2, 2)))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(200))
def test_live_is_what_some_path_reads_first(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng)
    exposed, killed = ([rng.randrange(16) & rng.randrange(16) for _ in graph] for _ in range(2))

    def reads(block: int, bit: int) -> bool:
        seen, work = {block}, [block]
        while work:
            at = work.pop()
            if exposed[at] & bit:
                return True
            fresh = set(graph[at]) - seen if not killed[at] & bit else set()
            seen |= fresh
            work += sorted(fresh)
        return False

    sets = solve(graph, exposed, killed)
    for block, targets in enumerate(graph):
        assert sets.live_in[block] == sum(bit for bit in (1, 2, 4, 8) if reads(block, bit))
        assert sets.live_out[block] == sum(bit for bit in (1, 2, 4, 8) if any(reads(each, bit) for each in targets))


def read_first(program: Program, seed: int) -> dict[int, int]:
    """Location -> the first block that reads it on some way before any core has written it."""
    blocks = len(program.blocks) // program.lnc
    accesses, seq = program.accesses, program.instructions.seq
    shared = np.flatnonzero(shared_accesses(program)).tolist()
    found: dict[int, int] = {}
    for way in ways(program, 500, Random(seed)):
        touched = []
        for access in shared:
            row = int(accesses.instruction[access])
            touched += [
                (visit.key, int(seq[row]), not accesses.write[access], int(program.owner[accesses.location[access]]))
                for visit in way[int(program.instruction_core[row])]
                if visit.block == program.instructions.block[row] % blocks
            ]
        written: set[int] = set()
        for key, _, read, location in sorted(touched):
            if not read:
                written.add(location)
            elif location not in written:
                found[location] = min(found.get(location, blocks), key[-1])
    return found


@pytest.mark.parametrize("seed", range(100))
def test_live_into_the_entry_is_read_first_on_some_way(seed: int) -> None:
    rng = Random(seed)
    program = random_branch_program(rng, cores=2, steps=3, depth=2, items=rng.choice((1, 2)))
    # Loops run; and some of the writes of the entry are missing.
    trip = program.blocks.trip.copy()
    trip[list(program.structure.loop_at)] = 1
    in_entry = program.instructions.block[program.accesses.instruction] % (len(program.blocks) // 2) == 0
    keep = ~in_entry | (np.array([rng.random() for _ in in_entry]) < 0.3)
    program = program.replace(blocks=program.blocks.replace(trip=trip), accesses=program.accesses.take(keep))
    live = shared_liveness(program, np.flatnonzero(shared_accesses(program)))
    assert dict(live.live_into_entry()) == read_first(program, seed)


ONE_ARM = """bir 1
program "one arm" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %x dram.local size=64 kind=input
    mloc %a dram.shared size=64
    mloc %given dram.shared size=64 kind=input
    mloc %y dram.local size=64 kind=output
    block ^entry -> ^then, ^join cond=c:
    block ^then -> ^join:
      %w = dma_copy @dma0 (%x) -> (%a) seq=0
    block ^join -> ^end:
      %g = dma_copy @dma0 (%given) -> (%y) seq=1
    block ^end:
      %r = dma_copy @dma0 (%a) -> (%y) seq=2
  }
}
module @nc1 core=1 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %a dram.shared size=64 remote=[a,0]
    mloc %given dram.shared size=64 remote=[given,0]
    block ^entry -> ^then, ^join cond=c:
    block ^then -> ^join:
    block ^join -> ^end:
    block ^end:
  }
}
"""


def test_written_in_one_arm_is_live_into_the_entry_along_the_other(caplog: pytest.LogCaptureFixture) -> None:
    program = parse_bir(ONE_ARM)
    access = np.flatnonzero(shared_accesses(program))
    with caplog.at_level(logging.DEBUG, "haulout"):
        live = shared_liveness(program, access)
    assert [(program.strings[int(program.locations.name[at])], block) for at, block in live.live_into_entry()] == [
        ("a", 3)
    ]
    assert live.sets.live_in == [1, 0, 1, 1]
    assert live.sets.live_out == [0, 1, 1, 0]
    assert [record.getMessage() for record in caplog.records] == [
        f"Build Shared live-in/live-out with {live.sets.iterations} iterations",
        "Propagating a to newLiveIn for entry",
        "Removing a from newLiveOut, because it is not defined here",
        "Propagating a to newLiveIn for join",
    ]


def test_of_a_divergent_fork_some_core_takes_each_arm() -> None:
    text = ONE_ARM.replace("^join cond=c:", "^join cond=c divergent=true:")
    program = parse_bir(text)
    live = shared_liveness(program, np.flatnonzero(shared_accesses(program)))
    assert live.live_into_entry() == []
