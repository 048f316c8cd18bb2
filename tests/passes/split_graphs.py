"""Random small graphs whose operations may be cut, and all assignments of their cuts."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import numpy as np

from haulout.analysis.durations import durations
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.passes.alternate_buffers import AlternateBuffers
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter
from haulout.passes.order_by_phases import sorted_by_time
from haulout.passes.splitting.candidates import Candidates, find_candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.improve import Units
from haulout.target import load_target

TARGET = load_target("generic")
Shape = tuple[int, ...]
Value = tuple[int, Shape]
SIDES = ((32, 64, 128), (64, 256, 512), (256, 512, 1024))
"""Of matrices: a fence takes longer than an operation, about as long, and much shorter."""
TRIPS = (3, 8, 32)


class Graph:
    """A random graph of operations on matrices and vectors of f32, maybe with a loop that updates a state."""

    def __init__(self, rng: Random, operations: int) -> None:
        self.rng = rng
        self.sides = rng.choice(SIDES)
        self.build = ProgramBuilder("graph", 1)
        self.function = self.build.function(self.build.module("nc0", 0, subgraph=0), "main")
        self.block = self.build.block(self.function, "entry")
        self.values: list[Value] = []
        self.read: set[int] = set()
        self.seq = 0
        self.zero = self.location((), Kind.CONST, "AAAAAA==")
        for _ in range(2):
            self.values.append(self.given((rng.choice(self.sides), rng.choice(self.sides))))
        if rng.random() < 0.2:
            self.loop(operations)
        while self.seq < operations:
            self.step(operations - self.seq)

    def given(self, shape: Shape) -> Value:
        return self.location(shape, Kind.INPUT), shape

    def location(self, shape: Shape, kind: Kind = Kind.INTERNAL, data: str | None = None) -> int:
        name, size = f"v{self.build.count('locations')}", math.prod(shape) * 4
        return self.build.location(
            self.function, name, Space.DRAM_LOCAL, size, kind=kind, dtype="f32", shape=list(shape), data=data
        )

    def emit(
        self, opcode: str, reads: list[Value], shape: Shape, into: int | None = None, **attrs: AttrValue
    ) -> Value:
        result = self.location(shape) if into is None else into
        rows = [row for row, _ in reads]
        engine = Engine.PE if opcode == "dot" else self.rng.choice((Engine.VECTOR, Engine.VECTOR, Engine.ACT))
        self.build.instruction(self.block, f"i{self.seq}", opcode, engine, rows, [result], seq=self.seq, attrs=attrs)
        if into is None:
            self.values.append((result, shape))
        self.read.update(rows)
        self.seq += 1
        return result, shape

    def reduce(self, value: Value, dim: int, op: str = "add") -> Value:
        return self.emit("reduce", [value, (self.zero, ())], (value[1][1 - dim],), dims=[dim], op=op)

    def like(self, vector: Value, dim: int, shape: Shape) -> Value:
        """A vector along dimension `dim` of a matrix."""
        return self.emit("broadcast", [vector], shape, dims=[dim])

    def transpose(self, value: Value) -> Value:
        return self.emit("transpose", [value], value[1][::-1], perm=[1, 0])

    def dot(self, one: Value, other: Value, along: int) -> Value:
        out = (one[1][0], other[1][1 - along])
        return self.emit("dot", [one, other], out, lhs_contracting=[1], rhs_contracting=[along])

    def step(self, most: int) -> None:
        """One operation, or several that often stand together, at most `most`."""
        rng = self.rng
        recent = self.values[-1] if rng.random() < 0.7 else rng.choice(self.values)
        shape = recent[1]
        kind = rng.choice(("add", "add", "tanh", "dot", "dot", "reduce", "transpose", "softmax", "layer", "residual"))
        if len(shape) == 1:
            other_side = rng.choice(self.sides)
            dim = rng.randrange(2)
            self.like(recent, dim, (other_side, shape[0]) if dim else (shape[0], other_side))
        elif kind == "add":
            self.emit("add", [recent, rng.choice([each for each in self.values if each[1] == shape])], shape)
        elif kind == "tanh":
            self.emit("tanh", [recent], shape)
        elif kind == "dot":
            fitting = [each for each in self.values if len(each[1]) == 2 and shape[1] in each[1]]
            other = rng.choice(fitting)
            self.dot(recent, other, other[1].index(shape[1]))
        elif kind == "reduce":
            self.reduce(recent, rng.randrange(2))
        elif kind == "transpose":
            self.transpose(recent)
        elif kind == "softmax" and most >= 3:
            dim = rng.randrange(2)
            spread = self.like(self.reduce(recent, dim, rng.choice(("add", "max"))), 1 - dim, shape)
            self.emit("subtract", [recent, spread], shape)
        elif kind == "layer" and most >= 2:
            hidden = rng.choice(self.sides)
            made = self.dot(recent, self.given((shape[1], hidden)), 0)
            self.dot(made, self.given((hidden, shape[1])), 0)
        elif kind == "residual" and most >= 3:
            made = self.dot(recent, self.given((shape[1], shape[1])), rng.randrange(2))
            self.emit("add", [recent, self.emit("tanh", [made], shape)], shape)

    def loop(self, operations: int) -> None:
        """A state, a body of some operations that make the next one, and what reads the last one."""
        rng = self.rng
        rows = rng.choice(self.sides)
        shape = (rows, rng.choice((rows, *self.sides)))
        start, state = self.values[0], (self.location(shape), shape)
        go = self.build.location(self.function, "go", Space.DRAM_LOCAL, 1, kind=Kind.INPUT, dtype="pred", shape=[])
        self.emit("memset", [], shape, into=state[0], value=0)
        trip = rng.choice(TRIPS) if rng.random() < 0.8 else None
        blocks = [self.build.block(self.function, "loop", trip=trip, cond=go)]
        blocks += [self.build.block(self.function, name) for name in ("body", "end")]
        for one, other in (
            (self.block, blocks[0]),
            (blocks[0], blocks[1]),
            (blocks[0], blocks[2]),
            (blocks[1], blocks[0]),
        ):
            self.build.edge(one, other)
        self.block = blocks[1]
        self.values = [state, start]
        weights = self.given((shape[1], shape[1]))
        kind = rng.choice(("dot", "dot", "layer", "reduce", "transpose"))
        if kind == "dot":
            made = self.dot(state, weights, rng.randrange(2))
        elif kind == "layer":
            hidden = rng.choice(self.sides)
            made = self.dot(self.dot(state, self.given((shape[1], hidden)), 0), self.given((hidden, shape[1])), 0)
        elif kind == "transpose" and shape[0] == shape[1]:
            made = self.transpose(state)
        else:
            dim = rng.randrange(2)
            made = self.like(self.reduce(state, dim), 1 - dim, shape)
        if rng.random() < 0.5 and self.seq + 2 < operations:
            made = self.emit("tanh", [made], shape)
        self.emit("add", [state, made], shape, into=state[0])
        self.block = blocks[2]
        self.values = [state, start]
        self.emit("tanh", [state], shape)

    def program(self) -> Program:
        program = self.build.freeze()
        kind = program.locations.kind.copy()
        unread = [row for row, _ in self.values if kind[row] == Kind.INTERNAL and row not in self.read]
        kind[unread] = Kind.OUTPUT
        return program.replace(locations=program.locations.replace(kind=kind))


def longest_path_first(program: Program) -> Program:
    """The lists of a program of one core, sorted by the time of the longest path behind each instruction.

    A fence lets `order_by_phases` sort lists that it leaves alone otherwise. In an order that can be bettered, a
    fence may gain that way, which says nothing about cuts.
    """
    time, accesses = durations(program, TARGET), program.accesses
    behind = time.copy()
    touched = list(
        zip(accesses.instruction.tolist(), accesses.location.tolist(), accesses.write.tolist(), strict=True)
    )
    for row, location, write in reversed(touched):
        for other, its_location, its_write in touched:
            if other < row and its_location == location and (write or its_write):
                behind[other] = max(behind[other], time[other] + behind[row])
    rank = np.unique(-behind, return_inverse=True)[1].astype(np.int64)
    return sorted_by_time(program, program.instructions.block, rank)[0]


def graph(seed: int) -> tuple[Program, Candidates]:
    """A program as `split_uniform` gets it, and what may be cut."""
    rng = Random(seed)
    cores = rng.choice((2, 4))
    program = longest_path_first(Graph(rng, rng.randint(3, 6)).program())
    program = LncSplitter(cores=cores).run(program, PassContext())
    program = AlternateBuffers().run(program, PassContext())
    return program, find_candidates(program)


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
