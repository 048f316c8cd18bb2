"""The choice of cuts against all assignments, on small random graphs: its estimated makespan is near the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from random import Random

import numpy as np
import pytest
from tests.tiers import examples

import haulout
from haulout.analysis.makespan import makespan
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
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
        return LncSplitter(cores=cores).run(
            program.replace(locations=program.locations.replace(kind=kind)), PassContext()
        )


Times = Callable[[Cuts], float]


def compiled(program: Program, found: Candidates) -> Times:
    """The estimated makespan of the program that is made with some cuts."""

    def time(cuts: Cuts) -> float:
        context, made = PassContext(), program
        if cuts.axes:
            made = emit_parts(program, found.operations, cuts, found.classes, local_parts(program, found, cuts))
        for each in standard_pipeline():
            if not isinstance(each, SplitUniform):
                made = each.run(made, context)
        return makespan(made, TARGET).makespan

    return time


def estimated(program: Program, found: Candidates) -> Times:
    """The time by which the search compares choices."""
    estimator = SplitEstimator(program, found.operations, found.classes, found.sizes.keys(), TARGET)

    def time(cuts: Cuts) -> float:
        choice = np.full(len(program.instructions) // program.lnc, UNDIVIDED, np.int32)
        for row, axis in cuts.axes.items():
            choice[row] = found.operations[row].axes.index(axis)
        return estimator.estimate(choice)

    return time


def all_assignments(found: Candidates, most: int) -> list[Cuts] | None:
    """None: there are too many."""
    units = Units(found.operations, found.sizes)
    if math.prod(len(each) + 1 for each in units.options) > most:
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


def graph(seed: int) -> tuple[Program, Candidates]:
    rng = Random(seed)
    cores = rng.choice((2, 4))
    program = Graph(rng, rng.randint(3, 6)).program(cores)
    return program, find_candidates(program)


def share_near_the_best(
    seeds: range, most: int, times_by: Callable[[Program, Candidates], Times]
) -> tuple[int, float, list[str]]:
    """How many graphs count, the share whose time as chosen is within 5 % of the best, and the others."""
    count, good, others = 0, 0, []
    for seed in seeds:
        program, found = graph(seed)
        every = all_assignments(found, most)
        if every is None:
            continue
        time = times_by(program, found)
        times = [time(each) for each in every]
        if min(times) == max(times):
            continue
        count += 1
        chosen = time(SplitUniform().choose(program, found)[1])
        if chosen <= 1.05 * min(times):
            good += 1
        else:
            others.append(f"seed {seed}: {chosen:.3f}, best {min(times):.3f}")
    return count, good / max(count, 1), others


def test_the_search_finds_the_best_of_all_assignments() -> None:
    """By its own estimate."""
    count, share, others = share_near_the_best(range(examples(100)), 500, estimated)
    assert count > 5
    assert share >= 0.99, others


@pytest.mark.long("90 s")
def test_the_search_finds_the_best_of_all_assignments_of_many_graphs() -> None:
    count, share, others = share_near_the_best(range(100, 500), 3000, estimated)
    assert count > 300
    assert share >= 0.99, others


@pytest.mark.long("150 s")
def test_compiled_programs_are_near_the_best_of_all_assignments() -> None:
    """Storage that is used again, and lists that are sorted only where there are fences, are not in the estimate."""
    count, share, others = share_near_the_best(range(60), 60, compiled)
    assert count > 20
    assert share >= 0.94, others


def program_with_mask(cores: int) -> Program:
    """A matrix by rows, the products of its columns, and these times a row of numbers."""
    build = ProgramBuilder("mask", 1, attrs={"outputs": ["c"]})
    main = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(main, "entry")

    def array(name: str, shape: list[int], kind: Kind = Kind.INTERNAL) -> int:
        size = 4 * int(np.prod(shape))
        return build.location(main, name, Space.DRAM_LOCAL, size, kind=kind, dtype="f32", shape=shape)

    x, c = array("x", [4096, 64], Kind.INPUT), array("c", [64, 64], Kind.OUTPUT)
    a, b, m = array("a", [4096, 64]), array("b", [64, 64]), array("m", [64])
    by_rows = {"lhs_contracting": [0], "rhs_contracting": [0]}
    build.instruction(block, "double", "add", Engine.VECTOR, [x, x], [a], seq=0)
    build.instruction(block, "products", "dot", Engine.PE, [a, a], [b], seq=1, attrs=by_rows)
    build.instruction(block, "count", "iota", Engine.VECTOR, [], [m], seq=2, attrs={"dim": 0})
    scaled = {"shapes": [[64, 64]] * 3}
    row = (m, Pattern(0, 4, ((0, 64), (4, 64))))
    build.instruction(block, "scale", "multiply", Engine.VECTOR, [b, row], [c], seq=3, attrs=scaled)
    return replicate(build.freeze(), cores, same={x: [list(range(cores))]})


def test_a_short_operation_is_not_cut_for_a_fence() -> None:
    """By the estimate its fence is that of the products."""
    result = haulout.compile(program_with_mask(4))
    assert result.proved
    split = result.report.split
    assert {each.name for each in split.divided} == {"double", "products", "scale"}
    assert [each.name for each in split.undivided] == ["count"]
    assert result.report.barriers == 1
