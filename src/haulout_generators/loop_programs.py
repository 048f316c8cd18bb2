"""Random programs with loops and branches and random order, to be judged, not compiled.

Blocks have instructions with random operands, dependences and carried dependences, barriers of all or some cores on
`all` or on one engine, rings of `sendrecv`, and patterns that move with the iteration. Rendezvous are at the same
places on all their participants, and in both arms of a branch where each core chooses for itself, so nothing hangs.
Races are left to chance: `order` is the probability that two conflicting instructions of a core get the edge that
they need. `damaged` removes edges and barriers from a program, compiled or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import numpy as np

from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import compact
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

ENGINES = (Engine.VECTOR, Engine.ACT, Engine.DMA0)
LOOP = -1
CELL = 4
"""Bytes that an operand touches, or several of them."""


class _Item(NamedTuple):
    """An item of the script of a block: work, a barrier or a ring of exchanges."""

    kind: str
    cores: tuple[int, ...]
    """The participants; of a ring, in its order."""
    name: str = ""
    engine: Engine = Engine.ALL


@dataclass(slots=True)
class _Block:
    """A planned block, the same on all cores."""

    path: tuple[tuple[int, int], ...] = ()
    """Loops and arms around it, including its own loop: (header, LOOP) or (fork, arm)."""
    trip: int | None = None
    header: bool = False
    leads: list[int] = field(default_factory=list)
    fork: bool = False
    computed: bool = False
    """Of a fork: it computes its condition; else that is an input. A header always does."""
    divergent: bool = False
    twin: int | None = None
    """Of the other arm of a divergent branch: the block of the first one, whose rendezvous it has too."""

    @property
    def loops(self) -> tuple[int, ...]:
        """Headers around it, including its own."""
        return tuple(block for block, kind in self.path if kind == LOOP)


@dataclass(slots=True)
class _Made:
    """An instruction of one core that others may wait for."""

    row: int
    block: int
    reads: frozenset[tuple[str, int]] = frozenset()
    writes: frozenset[tuple[str, int]] = frozenset()

    def conflicts(self, other: _Made) -> bool:
        """True if they touch a common cell, one writing."""
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


def random_judged_loops(
    rng: Random,
    *,
    cores: tuple[int, int] = (2, 3),
    depth: int = 2,
    order: float = 0.9,
    moving: float = 0.2,
    branches: float = 0.0,
    divergent: float = 0.4,
    exchanges: float = 0.0,
    lines: float = 0.0,
) -> Program:
    """One program; equal `rng` states give equal programs.

    `order`: how likely a needed edge is there, and a barrier between two places where a core works. `moving`: how
    likely an operand inside a loop moves with it. `branches`: how likely a branch stands where a loop could.
    `divergent`: how likely each core chooses its arm. `exchanges`: how likely a rendezvous is a ring of `sendrecv`
    that would else be a barrier of all. `lines`: how likely a pattern that moves does so without a ring, where the
    trips of the loop allow it, and how likely it has strides.
    """
    shape = _Shape(depth, order, moving, branches, divergent, exchanges, lines)
    return _Generator(rng, rng.randint(*cores), shape).program()


class _Shape(NamedTuple):
    """What `random_judged_loops` is asked for."""

    depth: int
    order: float
    moving: float
    branches: float
    divergent: float
    exchanges: float
    lines: float


class _Generator:
    def __init__(self, rng: Random, cores: int, shape: _Shape) -> None:
        self.rng, self.cores, self.shape, self.order = rng, cores, shape, shape.order
        self.blocks: list[_Block] = []
        self.plan((), shape.depth)
        self.shared = {f"s{k}": rng.choice((8, 16)) for k in range(rng.randint(1, 2))}
        self.private = {f"l{k}": rng.choice((8, 16)) for k in range(rng.randint(0, 2))}
        self.owner = {name: rng.randrange(cores) for name in self.shared}
        self.engines = ENGINES[: rng.randint(1, len(ENGINES))]

    # -- blocks ------------------------------------------------------------------------------------------------------

    def plan(self, path: tuple[tuple[int, int], ...], depth: int, divergent: bool = False) -> None:
        """A block, then perhaps a loop or a branch and another block."""
        self.blocks.append(_Block(path))
        if not depth or (path and self.rng.random() >= 0.5):
            return
        if self.shape.branches and self.rng.random() < self.shape.branches:
            self.plan_branch(path, depth, divergent)
        else:
            header = len(self.blocks)
            self.blocks[-1].leads = [header]
            inside = (*path, (header, LOOP))
            self.blocks.append(_Block(inside, self.rng.choice((None, None, 0, 1, 2, 3)), True, [header + 1]))
            self.plan(inside, depth - 1, divergent)
            self.blocks[-1].leads = [header]
            self.blocks[header].leads.append(len(self.blocks))
        self.blocks.append(_Block(path))

    def plan_branch(self, path: tuple[tuple[int, int], ...], depth: int, divergent: bool) -> None:
        """The arms of a branch whose fork is the last block."""
        fork = len(self.blocks) - 1
        self.blocks[fork].fork = True
        self.blocks[fork].computed = self.rng.random() < 0.5
        self.blocks[fork].divergent = not divergent and self.rng.random() < self.shape.divergent
        ends = []
        for arm in range(1 if self.rng.random() < 0.3 and not self.blocks[fork].divergent else 2):
            self.blocks[fork].leads.append(len(self.blocks))
            # Arms of a divergent branch have the same rendezvous, so they are plain blocks.
            plain = divergent or self.blocks[fork].divergent
            self.plan((*path, (fork, arm)), 0 if plain else depth - 1, divergent)
            ends.append(len(self.blocks) - 1)
            if self.blocks[fork].divergent and arm:
                self.blocks[-1].twin = ends[0]
        if len(ends) == 1:
            self.blocks[fork].leads.append(len(self.blocks))
        for end in ends:
            self.blocks[end].leads = [len(self.blocks)]

    def dominates(self, producer: int, consumer: int) -> bool:
        block = self.blocks[producer]
        around = block.path[:-1] if block.header else block.path
        return producer <= consumer and self.blocks[consumer].path[: len(around)] == around

    # -- the program -------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        script: list[list[_Item]] = []
        for number, block in enumerate(self.blocks):
            script.append(self.script(number) if block.twin is None else self.mirrored(number, script[block.twin]))
        build = ProgramBuilder("judged loops", self.cores)
        for core in range(self.cores):
            self.core(build, core, script)
        program = build.freeze()
        edges = program.dependences
        return program.replace(dependences=edges.take(np.argsort(edges.instruction, kind="stable")))

    def script(self, number: int) -> list[_Item]:
        """The content of a block, for all cores."""
        rng, items, everyone = self.rng, list[_Item](), tuple(range(self.cores))
        for place in range(rng.randint(0, 2)):
            alone = rng.random() < self.order
            items.append(_Item("work", (rng.randrange(self.cores),) if alone else everyone))
            if rng.random() >= self.order:
                continue
            name, some = f"b{number}_{place}", tuple(rng.sample(everyone, rng.randint(2, self.cores)))
            match rng.random():
                case chance if chance < self.order * 0.8 * (1 - self.shape.exchanges):
                    items.append(_Item("barrier", everyone, name))
                case chance if chance < self.order * 0.8 * (1 - self.shape.exchanges) + 0.1:
                    engine = rng.choice([Engine.ALL, *self.engines])
                    items.append(_Item("barrier", tuple(sorted(some)), name, engine))
                case _:
                    items.append(_Item("ring", some, name, rng.choice(self.engines)))
        return items

    def mirrored(self, number: int, twin: list[_Item]) -> list[_Item]:
        """Other work, with the rendezvous of another block under new barrier names; rarely without them."""
        if self.rng.random() < 0.1:
            return self.script(number)
        work = [item for item in self.script(number) if item.kind == "work"]
        rest = [item._replace(name=f"o_{item.name}") if item.kind == "barrier" else item for item in twin]
        rest = [item for item in rest if item.kind != "work"]
        for item in work:
            rest.insert(self.rng.randint(0, len(rest)), item)
        return rest

    def core(self, build: ProgramBuilder, core: int, script: list[list[_Item]]) -> None:
        function = build.function(build.module(f"nc{core}", core), "main")
        self.ids: dict[str, int] = {}
        for name, size in self.private.items():
            self.ids[name] = build.location(function, name, Space.DRAM_LOCAL, size, kind=Kind.INOUT)
        for name, size in self.shared.items():
            own = self.owner[name] == core
            kind = Kind.INOUT if own else Kind.INTERNAL
            remote = None if own else (name, self.owner[name])
            self.ids[name] = build.location(function, name, Space.DRAM_SHARED, size, kind=kind, remote=remote)
        conds = {}
        for number, block in enumerate(self.blocks):
            if block.header or block.fork:
                kind = Kind.INPUT if block.fork and not block.computed else Kind.INTERNAL
                conds[number] = build.location(function, f"c{number}", Space.DRAM_LOCAL, 1, kind=kind)
        rows = [
            build.block(function, f"b{number}", trip=block.trip, cond=conds.get(number), divergent=block.divergent)
            for number, block in enumerate(self.blocks)
        ]
        for number, block in enumerate(self.blocks):
            for target in block.leads:
                build.edge(rows[number], rows[target])
        made: list[_Made] = []
        self.rows, self.carried, self.core_number = rows, list[tuple[int, int]](), core
        for number, block in enumerate(self.blocks):
            if block.header or block.computed:
                writes = frozenset({(f"c{number}", 0)})
                engine = self.rng.choice(self.engines)
                new = _Made(build.count("instructions"), number, frozenset(), writes)
                deps = self.waits(new, made)
                build.instruction(rows[number], f"d{number}", "decide", engine, [], [conds[number]], deps=deps)
                made.append(new)
            for item in script[number]:
                if core in item.cores:
                    self.item(build, number, item, made)
        self.carry(build, made)

    def item(self, build: ProgramBuilder, number: int, item: _Item, made: list[_Made]) -> None:
        rng, name, row, block = self.rng, f"i{len(made)}", build.count("instructions"), self.rows[number]
        if item.kind == "barrier":
            deps = [each.row for each in made if self.dominates(each.block, number) and rng.random() < 0.5]
            cores = None if len(item.cores) == self.cores else item.cores
            build.barrier(block, name, item.name, engine=item.engine, cores=cores, deps=deps)
            made.append(_Made(row, number))
            return
        reads, writes, new = self.operands(row, number)
        deps = self.waits(new, made)
        if item.kind == "ring":
            at = item.cores.index(self.core_number)
            to, source = item.cores[(at + 1) % len(item.cores)], item.cores[at - 1]
            build.sendrecv(block, name, item.engine, to=to, source=source, tag=item.name, deps=deps)
        else:
            build.instruction(block, name, "mix", rng.choice(self.engines), deps=deps)
        for operands, write in ((reads, False), (writes, True)):
            for operand, step in operands:
                access = build.access(row, operand, write=write)
                if step is not None:
                    header, stride, modulus, phase = step
                    build.row(
                        "steps",
                        access=access,
                        header=self.rows[header],
                        stride=stride,
                        modulus=modulus,
                        phase=phase,
                    )
        made.append(new)

    def operands(self, row: int, number: int) -> tuple[list[_Operand], list[_Operand], _Made]:
        """Up to two operands: whole locations, some cells, strided ones, or a cell that moves with a loop."""
        rng, new = self.rng, _Made(row, number)
        made: tuple[list[_Operand], list[_Operand]] = ([], [])
        sizes = {**self.shared, **self.private}
        for name in rng.sample(list(sizes), min(len(sizes), rng.randint(1, 2))):
            cells = sizes[name] // CELL
            low = rng.randrange(cells)
            pattern: Pattern | None = Pattern(low * CELL, CELL)
            touched, step = {low}, None
            loops = self.blocks[number].loops
            match rng.random():
                case chance if loops and not self.blocks[number].header and chance < self.shape.moving:
                    modulus = rng.randint(2, cells)
                    pattern = Pattern(rng.randint(0, cells - modulus) * CELL, CELL)
                    move = rng.choice(loops), CELL, modulus, rng.randrange(modulus)
                    step, touched = move, set(range(cells))
                    if self.shape.lines:
                        pattern, step = self.moved(pattern, step, sizes[name])
                case chance if chance < 0.4:
                    pattern, touched = None, set(range(cells))
                case chance if chance < 0.5 and cells == 4:
                    pattern, touched = Pattern(low % 2 * CELL, CELL, ((2 * CELL, 2),)), {low % 2, low % 2 + 2}
            write = rng.random() < 0.5
            made[write].append(((self.ids[name], pattern), step))
            cells_touched = frozenset((name, cell) for cell in touched)
            if write:
                new.writes |= cells_touched
            else:
                new.reads |= cells_touched
        return made[0], made[1], new

    def moved(self, pattern: Pattern, step: _Step, size: int) -> tuple[Pattern, _Step]:
        """Perhaps along a line instead of in a ring, forth or back, and perhaps every other byte of its cell."""
        rng, header = self.rng, step[0]
        trip = self.blocks[header].trip
        if rng.random() < self.shape.lines and (trip is None or trip * CELL <= size):
            back = rng.random() < 0.5
            pattern, step = Pattern(size - CELL if back else 0, CELL), (header, -CELL if back else CELL, 0, 0)
        if rng.random() < self.shape.lines:
            pattern = Pattern(pattern.offset + rng.randrange(CELL // 2), 1, ((CELL // 2, 2),))
        return pattern, step

    def waits(self, new: _Made, made: list[_Made]) -> list[int]:
        """Most of the earlier instructions that it must wait for, and a few more."""
        return [
            each.row
            for each in made
            if self.dominates(each.block, new.block)
            and self.rng.random() < (self.order if each.conflicts(new) else 0.05)
        ]

    def carry(self, build: ProgramBuilder, made: list[_Made]) -> None:
        """Waits for the previous iteration."""
        for new in made:
            for each in made:
                loops = [
                    a
                    for a, b in zip(self.blocks[new.block].loops, self.blocks[each.block].loops, strict=False)
                    if a == b
                ]
                if loops and self.rng.random() < (self.order if each.conflicts(new) else 0.02):
                    build.dependence(new.row, each.row, carried=True)


_Step = tuple[int, int, int, int]
"""Header's block number, stride, modulus, phase."""
_Operand = tuple[tuple[int, Pattern | None], _Step | None]
"""(location, pattern), and the step."""


def damaged(program: Program, rng: Random) -> Iterator[Program]:
    """Endless programs with one thing removed: a dependence, or a barrier on all cores."""
    while True:
        edges = len(program.dependences)
        barriers = program.barriers
        if len(barriers) and (not edges or rng.random() < 0.5):
            name = int(barriers.name[rng.randrange(len(barriers))])
            keep = np.ones(len(program.instructions), bool)
            keep[barriers.instruction[barriers.name == name]] = False
            yield compact(program, keep)[0]
        elif edges:
            kept = np.arange(edges) != rng.randrange(edges)
            yield program.replace(dependences=program.dependences.take(kept))
        else:
            yield program
