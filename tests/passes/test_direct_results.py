"""Results of permutes that are views: random programs, straight and with a loop, compiled, proved and compared."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import haulout
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program
from haulout.passes.pipeline import Fences

SIZE = 3
Op = tuple[str, list[int], int, list[list[int]]]
"""Opcode, operands, result, pairs; places are numbers of locations."""


class Chains:
    """One list for all cores: permutes, sums, and writes of places that others may still read."""

    def __init__(self, seed: int, trips: int) -> None:
        random = Random(seed)
        self.cores, self.trips = random.choice([2, 3, 4]), trips
        self.places = 6
        written = [0]
        self.operations: list[Op] = []
        for _ in range(random.randint(3, 9)):
            target = random.choice(range(1, self.places))
            if random.random() < 0.6:
                cores = list(range(self.cores))
                targets = random.sample(cores, self.cores)
                pairs = [[source, to] for source, to in zip(cores, targets, strict=True) if random.random() < 0.9]
                self.operations.append(("collective_permute", [random.choice(written)], target, pairs))
            else:
                self.operations.append(("add", [random.choice(written) for _ in range(2)], target, []))
            written.append(target)
        self.operations.append(("add", [0, written[-1]], self.places, []))

    def program(self) -> Program:
        build = ProgramBuilder("chains", self.cores)
        for core in range(self.cores):
            main = build.function(build.module(f"nc{core}", core), "main")
            kinds = [Kind.INPUT, *[Kind.INTERNAL] * (self.places - 1), Kind.OUTPUT]
            ids = [
                build.location(main, f"p{at}", Space.DRAM_LOCAL, 4 * SIZE, kind=kind, dtype="s32", shape=[SIZE])
                for at, kind in enumerate(kinds)
            ]
            block = build.block(main, "entry")
            if self.trips:
                go = build.location(main, "go", Space.DRAM_LOCAL, 1, dtype="pred", shape=[])
                count, one, limit = (
                    build.location(main, name, Space.DRAM_LOCAL, 4, kind=kind, dtype="s32", shape=[])
                    for name, kind in (("count", Kind.INOUT), ("one", Kind.INPUT), ("limit", Kind.INPUT))
                )
                head = build.block(main, "head", cond=go, trip=self.trips)
                below = {"direction": "LT"}
                build.instruction(head, "test", "compare", Engine.ACT, [count, limit], [go], seq=0, attrs=below)
                body, end = build.block(main, "body"), build.block(main, "end")
                for edge in ((block, head), (head, body), (head, end), (body, head)):
                    build.edge(*edge)
                block = body
                build.instruction(block, "next", "add", Engine.ACT, [count, one], [count], seq=1)
            for seq, (opcode, reads, target, pairs) in enumerate(self.operations, 2):
                engine = Engine.VECTOR if opcode == "add" else Engine.POOL
                attrs = {"pairs": pairs} if opcode == "collective_permute" else None
                given = [ids[at] for at in reads]
                build.instruction(block, f"i{seq}", opcode, engine, given, [ids[target]], seq=seq, attrs=attrs)
        return build.freeze()

    def expected(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        places = [[value, *[np.zeros_like(value)] * self.places] for value in inputs]
        for _ in range(max(self.trips, 1)):
            for opcode, reads, target, pairs in self.operations:
                before = [[mine[at] for at in reads] for mine in places]
                source_of = {to: source for source, to in pairs}
                for core, mine in enumerate(places):
                    if opcode == "add":
                        mine[target] = before[core][0] + before[core][1]
                    elif core in source_of:
                        mine[target] = before[source_of[core]][0]
                    else:
                        mine[target] = np.zeros_like(mine[0])
        return [mine[self.places] for mine in places]


def views(program: Program) -> int:
    """How many of the places are views."""
    names = [program.strings[int(name)] for name in program.locations.name]
    rows = np.array([name[0] == "p" and name[1:].isdecimal() for name in names])
    return int((rows & (program.locations.remote_name != NONE)).sum())


@pytest.mark.parametrize("fences", ["minimal", "bracket"])
@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("seed", range(25))
def test_chains_of_permutes_are_what_numpy_makes_of_them(seed: int, trips: int, fences: Fences) -> None:
    chains = Chains(seed, trips)
    generator = np.random.default_rng(seed)
    values = [generator.integers(0, 100, SIZE).astype("i4") for _ in range(chains.cores)]
    inputs = {f"nc{core}/p0": value for core, value in enumerate(values)}
    if trips:
        inputs.update({name: np.int32(value) for name, value in (("count", 0), ("one", 1), ("limit", trips))})
    result = haulout.compile(chains.program(), fences=fences)
    assert result.proved, "\n".join(map(str, result.diagnostics))
    run = haulout.simulate(result.program, inputs)
    for core, wanted in enumerate(chains.expected(values)):
        assert np.array_equal(run.outputs[f"nc{core}/p{chains.places}"], wanted)


def staged(program: Program) -> int:
    """How many operands are copied to buffers."""
    names = [program.instruction_name(row) for row in range(len(program.instructions))]
    return sum(name.endswith(".in0") for name in names)


def test_an_operand_is_read_in_place_until_the_next_collective() -> None:
    """The second permute is between the reads of the first one's operand and the write of it."""
    ring = [[0, 1], [1, 0]]
    for trips in (0, 3):
        chains = Chains(0, trips)
        chains.cores = 2
        hop = ("collective_permute", [1], 2, ring)
        start, other, write = ("add", [0, 0], 1, []), ("collective_permute", [0], 3, ring), ("add", [2, 2], 1, [])
        for operations, copies in (([start, hop, other, write], 0), ([start, hop, write, other], 2)):
            chains.operations = [*operations, ("add", [1, 3], chains.places, [])]
            result = haulout.compile(chains.program())
            assert result.proved
            assert staged(result.program) == copies
            values = [np.arange(SIZE, dtype="i4"), np.arange(10, 10 + SIZE, dtype="i4")]
            inputs = {f"nc{core}/p0": value for core, value in enumerate(values)}
            if trips:
                inputs.update({name: np.int32(value) for name, value in (("count", 0), ("one", 1), ("limit", trips))})
            run = haulout.simulate(result.program, inputs)
            for core, wanted in enumerate(chains.expected(values)):
                assert np.array_equal(run.outputs[f"nc{core}/p{chains.places}"], wanted)


def test_the_programs_have_views() -> None:
    for trips in (0, 3):
        found = [views(haulout.compile(Chains(seed, trips).program()).program) for seed in range(25)]
        assert sum(each > 0 for each in found) > 8
