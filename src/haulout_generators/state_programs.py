"""Small random programs whose cores run one list, with loops that change states from iteration to iteration.

    program = random_state_program(rng)
    inputs = lockstep_inputs(rng, program)

Arrays of `s32`, equal on all cores. Bodies change states in place, by a copy of a new value, or in pieces; they make
temporaries, products that are read in pieces, and touch rows of a table that move with the loops around, with and
without a modulus. Loops run up to six times, are nested, and have branches. Most say how often they run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout_generators.lockstep_programs import encode

SIDE = 8
SQUARE = (SIDE, SIDE)
ROW = 4 * SIDE * SIDE
"""Bytes of a square."""
ROWS = 24
"""Squares in the table: loops move an operand by one in each iteration."""
Steps = list[tuple[int, int, int, int]]
"""Header, stride, modulus, phase."""
_Operand = tuple[int, Pattern | None, Steps]


@dataclass(slots=True)
class _Scope:
    """A function, a body or an arm."""

    readable: list[int]
    """Squares that hold a value."""
    states: list[int]
    temporaries: list[int] = field(default_factory=list)
    """Those of `readable` that this scope may write again."""
    headers: tuple[int, ...] = ()
    """Of the loops around, those too that do not say how often they run."""


class _Maker:
    def __init__(self, rng: Random, operations: int) -> None:
        self.rng, self.operations = rng, operations
        self.build = ProgramBuilder("states", 1)
        self.function = self.build.function(self.build.module("nc0", 0, subgraph=0), "main")
        self.block = self.build.block(self.function, "entry")
        self.seq = 0

    def location(
        self, shape: tuple[int, ...], kind: Kind = Kind.INTERNAL, value: int | None = None, dtype: str = "s32"
    ) -> int:
        size = int(np.prod(shape)) * (1 if dtype == "pred" else 4)
        name = f"v{self.build.count('locations')}"
        data = None if value is None else encode(np.full(shape, value, np.int32))
        return self.build.location(
            self.function, name, Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=list(shape), data=data
        )

    def emit(self, opcode: str, reads: list[_Operand], write: _Operand, **attrs: AttrValue) -> None:
        engine = self.rng.choice((Engine.DMA0, Engine.DMA1) if opcode == "dma_copy" else (Engine.PE, Engine.VECTOR))
        row = self.build.instruction(self.block, f"i{self.seq}", opcode, engine, seq=self.seq, attrs=attrs)
        self.seq += 1
        for (location, pattern, steps), is_write in [*((each, False) for each in reads), (write, True)]:
            access = self.build.access(row, (location, pattern), write=is_write)
            for header, stride, modulus, phase in steps:
                self.build.row("steps", access=access, header=header, stride=stride, modulus=modulus, phase=phase)

    def program(self, depth: int) -> Program:
        rng = self.rng
        given = [self.location(SQUARE, Kind.INPUT) for _ in range(2)]
        self.wide = self.location((SIDE, 3 * SIDE), Kind.INPUT)
        self.given_table = self.location((ROWS, *SQUARE), Kind.INPUT)
        self.table = self.location((ROWS, *SQUARE), Kind.OUTPUT)
        self.emit("dma_copy", [(self.given_table, None, [])], (self.table, None, []))
        self.one, self.zero = (self.location((), Kind.CONST, value) for value in (1, 0))
        states = [self.location(SQUARE, rng.choice((Kind.INTERNAL, Kind.OUTPUT))) for _ in range(rng.randint(1, 3))]
        for state in states:
            self.emit("dma_copy", [(rng.choice(given), None, [])], (state, None, []))
        scope = _Scope([*given, *states], states)
        self.loop(scope, depth)
        if rng.random() < 0.3:
            self.loop(scope, depth)
        result = self.location(SQUARE, Kind.OUTPUT)
        self.emit("add", [(states[0], None, []), (scope.readable[-1], None, [])], (result, None, []))
        return self.build.freeze()

    # -- operations ------------------------------------------------------------------------------------------------

    def operand(self, scope: _Scope) -> _Operand:
        """A square, or one of the table that moves."""
        if scope.headers and self.rng.random() < 0.25:
            return self.moving(scope, self.rng.choice((self.table, self.given_table)))
        return self.rng.choice(scope.readable), None, []

    def moving(self, scope: _Scope, table: int) -> _Operand:
        rng = self.rng
        steps: Steps = []
        for header in scope.headers:
            if rng.random() < 0.7:
                modulus = rng.choice((0, 0, 2, 2, 3, 4))
                steps.append((header, ROW, modulus, rng.randrange(modulus) if modulus else 0))
        return table, Pattern(ROW * rng.randint(0, 2), ROW), steps

    def step(self, scope: _Scope) -> None:
        rng = self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                self.compute(scope, self.target(scope))
            case 3:
                self.pieces(scope)
            case 4:
                self.compute(scope, rng.choice(scope.states))
            case 5:
                source, state = rng.choice(scope.readable), rng.choice(scope.states)
                if source != state:
                    self.emit("dma_copy", [(source, None, [])], (state, None, []))
            case 6:
                half = Pattern(ROW // 2 * rng.randrange(2), ROW // 2)
                source, state = rng.choice(scope.readable), rng.choice(scope.states)
                if source != state:
                    self.emit("dma_copy", [(source, half, [])], (state, half, []))
            case 7:
                self.emit("dma_copy", [(rng.choice(scope.readable), None, [])], self.moving(scope, self.table))

    def target(self, scope: _Scope) -> int:
        """A temporary, often a new one."""
        if scope.temporaries and self.rng.random() < 0.4:
            return self.rng.choice(scope.temporaries)
        return self.location(SQUARE)

    def compute(self, scope: _Scope, target: int) -> None:
        """A square from others; in place, if it is one of them and each element needs its own place alone."""
        one, other = self.operand(scope), self.operand(scope)
        shapes: list[AttrValue] = [list(SQUARE)] * 3
        if self.rng.random() < 0.4 and target not in (one[0], other[0]):
            numbers: dict[str, AttrValue] = {"lhs_contracting": [1], "rhs_contracting": [0]}
            self.emit("dot", [one, other], (target, None, []), **numbers, shapes=shapes)
        else:
            opcode = self.rng.choice(("add", "subtract", "maximum"))
            self.emit(opcode, [one, other], (target, None, []), shapes=shapes)
        self.made(scope, target)

    def pieces(self, scope: _Scope) -> None:
        """A product three squares wide, and the sum of two of them."""
        product, target = self.location((SIDE, 3 * SIDE)), self.target(scope)
        state = self.rng.choice(scope.readable)
        numbers: dict[str, AttrValue] = {"lhs_contracting": [1], "rhs_contracting": [0]}
        self.emit("dot", [(state, None, []), (self.wide, None, [])], (product, None, []), **numbers)
        reads: list[_Operand] = [
            (product, Pattern(4 * SIDE * at, 4 * SIDE, ((12 * SIDE, SIDE),)), [])
            for at in self.rng.sample(range(3), 2)
        ]
        self.emit("add", reads, (target, None, []), shapes=[list(SQUARE)] * 3)
        self.made(scope, target)

    def made(self, scope: _Scope, target: int) -> None:
        if target not in scope.readable:
            scope.readable.append(target)
            scope.temporaries.append(target)

    # -- control flow ------------------------------------------------------------------------------------------------

    def loop(self, scope: _Scope, depth: int) -> None:
        rng, build = self.rng, self.build
        trip = rng.choice((0, 1, 2, 2, 3, 4, 5, 6))
        count, go = self.location(()), self.location((), dtype="pred")
        limit = self.location((), Kind.CONST, trip)
        self.emit("dma_copy", [(self.zero, None, [])], (count, None, []))
        number = build.count("blocks")
        known = rng.random() < 0.9
        header = build.block(self.function, f"header{number}", trip=trip if known else None, cond=go)
        build.edge(self.block, header)
        self.block = header
        self.emit("compare", [(count, None, []), (limit, None, [])], (go, None, []), direction="LT")
        inner = _Scope(list(scope.readable), scope.states, headers=(*scope.headers, header))
        if rng.random() < 0.3:
            self.step(inner)
        self.block = build.block(self.function, f"body{number}")
        build.edge(header, self.block)
        counts, branches = rng.randrange(self.operations + 1), rng.random() < 0.3
        for at in range(self.operations):
            if at == counts:
                self.emit("add", [(count, None, []), (self.one, None, [])], (count, None, []))
            self.step(inner)
            if depth > 1 and rng.random() < 0.15:
                self.loop(inner, depth - 1)
            elif branches and rng.random() < 0.2:
                self.branch(inner, count)
        if counts == self.operations:
            self.emit("add", [(count, None, []), (self.one, None, [])], (count, None, []))
        build.edge(self.block, header)
        self.block = build.block(self.function, f"after{number}")
        build.edge(header, self.block)
        if known and trip and rng.random() < 0.5:
            scope.readable += inner.temporaries

    def branch(self, scope: _Scope, count: int) -> None:
        """One arm, taken in one iteration or in the others."""
        build, cond = self.build, self.location((), dtype="pred")
        number = build.count("blocks")
        fork, arm, join = (
            build.block(self.function, f"{name}{number}", cond=cond if name == "fork" else None)
            for name in ("fork", "arm", "join")
        )
        for edge in ((self.block, fork), (fork, arm), (fork, join), (arm, join)):
            build.edge(*edge)
        self.block = fork
        direction = self.rng.choice(("EQ", "NE"))
        self.emit("compare", [(count, None, []), (self.one, None, [])], (cond, None, []), direction=direction)
        self.block = arm
        inside = _Scope(list(scope.readable), scope.states, headers=scope.headers)
        for _ in range(self.rng.randint(1, 2)):
            self.step(inside)
        self.block = join


def random_state_program(rng: Random, *, cores: int = 2, operations: int = 4, depth: int = 2) -> Program:
    """A program with a loop or two; equal states of `rng` give equal programs.

    `operations`: in each body. `depth`: most loops around an instruction.
    """
    program = _Maker(rng, operations).program(depth)
    everyone = [list(range(cores))]
    inputs = np.flatnonzero(program.locations.kind == Kind.INPUT).tolist()
    return replicate(program, cores, same=dict.fromkeys(inputs, everyone))
