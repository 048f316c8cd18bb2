"""The choice of cuts against all assignments, on small random graphs: its estimated makespan is near the best."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from tests.tiers import examples

from haulout.analysis.makespan import makespan
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter
from haulout.passes.pipeline import standard_pipeline
from haulout.passes.split_uniform import SplitUniform, local_parts
from haulout.passes.splitting.candidates import Candidates, find_candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.estimate import UNDIVIDED, SplitEstimator
from haulout.passes.splitting.improve import Units
from haulout.passes.splitting.parts import emit_parts
from haulout.target import load_target

TARGET = load_target("generic")
Shape = tuple[int, ...]
SIDES = (64, 256, 512)
MOST = 200
"""Assignments of one graph."""


class Graph:
    """A random graph of operations on matrices and vectors of f32; the time of one is about that of a fence."""

    def __init__(self, rng: Random, operations: int) -> None:
        self.rng = rng
        self.build = ProgramBuilder("graph", 1)
        self.function = self.build.function(self.build.module("nc0", 0, subgraph=0), "main")
        self.block = self.build.block(self.function, "entry")
        self.values: list[tuple[int, Shape]] = []
        self.read: set[int] = set()
        self.seq = 0
        # What nobody reads: else each location were so large a part of all that it must be cut.
        self.location((1 << 26,), Kind.INPUT)
        self.zero = self.location((), Kind.CONST, "AAAAAA==")
        for _ in range(2):
            shape = (rng.choice(SIDES), rng.choice(SIDES))
            self.values.append((self.location(shape, Kind.INPUT), shape))
        while self.seq < operations:
            self.step()

    def location(self, shape: Shape, kind: Kind, data: str | None = None) -> int:
        name, size = f"v{self.build.count('locations')}", math.prod(shape) * 4
        return self.build.location(
            self.function, name, Space.DRAM_LOCAL, size, kind=kind, dtype="f32", shape=list(shape), data=data
        )

    def emit(self, opcode: str, reads: list[tuple[int, Shape]], shape: Shape, **attrs: AttrValue) -> None:
        result = self.location(shape, Kind.INTERNAL)
        rows = [row for row, _ in reads]
        engine = Engine.PE if opcode == "dot" else Engine.VECTOR
        self.build.instruction(self.block, f"i{self.seq}", opcode, engine, rows, [result], seq=self.seq, attrs=attrs)
        self.values.append((result, shape))
        self.read.update(rows)
        self.seq += 1

    def step(self) -> None:
        rng = self.rng
        recent = self.values[-1] if rng.random() < 0.7 else rng.choice(self.values)
        shape = recent[1]
        kind = rng.choice(("add", "dot", "reduce", "broadcast", "transpose"))
        if kind == "add":
            same = [each for each in self.values if each[1] == shape]
            self.emit("add", [recent, rng.choice(same)], shape)
        elif kind == "dot" and len(shape) == 2:
            fitting = [each for each in self.values if len(each[1]) == 2 and shape[1] in each[1]]
            other = rng.choice(fitting)
            along = other[1].index(shape[1])
            out = (shape[0], other[1][1 - along])
            self.emit("dot", [recent, other], out, lhs_contracting=[1], rhs_contracting=[along])
        elif kind == "reduce" and len(shape) == 2:
            dim = rng.randrange(2)
            self.emit("reduce", [recent, (self.zero, ())], (shape[1 - dim],), dims=[dim], op="add")
        elif kind == "broadcast" and len(shape) == 1:
            dim = rng.randrange(2)
            other_side = rng.choice(SIDES)
            out = (other_side, shape[0]) if dim else (shape[0], other_side)
            self.emit("broadcast", [recent], out, dims=[dim])
        elif kind == "transpose" and len(shape) == 2:
            self.emit("transpose", [recent], shape[::-1], perm=[1, 0])

    def program(self, cores: int) -> Program:
        program = self.build.freeze()
        kind = program.locations.kind.copy()
        unread = [row for row, _ in self.values if kind[row] == Kind.INTERNAL and row not in self.read]
        kind[unread] = Kind.OUTPUT
        return LncSplitter(cores=cores).run(program.replace(locations=program.locations.replace(kind=kind)), PassContext())


def time_of(program: Program, found: Candidates, cuts: Cuts) -> float:
    """The estimated makespan of the program that is made with some cuts."""
    context = PassContext()
    if cuts.axes:
        program = emit_parts(program, found.operations, cuts, found.partitions, local_parts(program, found, cuts))
    for each in standard_pipeline():
        if not isinstance(each, SplitUniform):
            program = each.run(program, context)
    return makespan(program, TARGET).makespan


def all_assignments(found: Candidates) -> list[Cuts] | None:
    """None: there are too many."""
    units = Units(found.operations, found.sizes)
    if math.prod(len(each) + 1 for each in units.options) > MOST:
        return None
    made = []
    for options in product(*([None, *each] for each in units.options)):
        cuts = Cuts()
        for rows, axes in zip(units.rows, options, strict=True):
            for row, axis in zip(rows, axes or (), strict=False):
                operation = found.operations[row]
                cuts.axes[row] = operation.axes[axis]
                for operand, key in zip(operation.operands, operation.axes[axis].keys, strict=True):
                    if operand.write and key is not None:
                        cuts.keys[operand.location] = key
        made.append(cuts)
    return made


def compared(seed: int) -> tuple[float, float, float] | None:
    """Of one graph: time as chosen, the best, the worst; None: it has too many assignments."""
    rng = Random(seed)
    cores = rng.choice((2, 4))
    program = Graph(rng, rng.randint(3, 6)).program(cores)
    found = find_candidates(program)
    every = all_assignments(found)
    if every is None:
        return None
    times = [time_of(program, found, each) for each in every]
    chosen = SplitUniform().choose(program, found)
    return time_of(program, found, chosen), min(times), max(times)


def shares(seeds: range) -> tuple[int, int, list[str]]:
    """Graphs that count, those within 5 % of the best, and the others."""
    count, good, others = 0, 0, []
    for seed in seeds:
        result = compared(seed)
        if result is None or result[2] == result[1]:
            continue
        count += 1
        if result[0] <= result[1] * 1.05:
            good += 1
        else:
            others.append(f"seed {seed}: {result[0]:.3f}, best {result[1]:.3f}")
    return count, good, others


def test_the_choice_is_near_the_best_of_all_assignments() -> None:
    count, good, others = shares(range(examples(100)))
    assert count > 5
    assert good >= 0.97 * count, others
