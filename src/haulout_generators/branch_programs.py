"""Small random programs with branches and loops in each other, valid by construction, which the simulator can run.

    program = random_branch_program(rng, divergent=0.3)
    result = simulate(program, random_way(rng, program))

Like the programs of `programs.py`: a common `seq`, every location written in whole in the entry, no two cores in
conflict at equal `seq`; so each has one meaning and must compile without a finding. Every location ends in an output.

What decides is an input, so that a run may take any way through: a fork reads the `pred` input `f<block>` (on a
divergent fork each core an input of its own, `f<block>_<core>`), directly or through a copy `q<block>` made in the
fork's block. A loop counts `p<header>` down in its header; where `trip` is unknown the start is the input
`n<header>`, clamped so that the body runs 0 to 3 times.

Inside a divergent branch nothing can order one core behind another. So in each outermost one a shared location is
either read by all or left to one core.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import Operand, ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout_generators.programs import random_pattern

ENGINES = (Engine.ACT, Engine.VECTOR, Engine.DMA0, Engine.DMA1)
TRIPS = (None, None, 0, 1, 2, 3)
MOST_TRIPS = 3
"""Of a loop whose `trip` is not known."""


@dataclass(slots=True)
class _Block:
    """A planned block, the same on all cores."""

    leads: list[int] = field(default_factory=list)
    atom: int = NONE
    """Number of the outermost divergent branch around it."""
    header: bool = False
    trip: int | None = None
    fork: bool = False
    copied: bool = False
    """Of a fork: its `cond` is a copy of the input, made in this block."""
    divergent: bool = False


def random_branch_program(
    rng: Random,
    *,
    cores: int | None = None,
    steps: int = 2,
    depth: int = 2,
    items: int = 2,
    loops: float = 0.4,
    divergent: float = 0.0,
    fences: float = 0.0,
) -> Program:
    """One program; equal states of `rng` give equal programs.

    `cores`: 2 to 4 when None. `steps`: most source operations in a block. `depth`: most loops and branches around
    each other. `items`: most loops and branches in a row. `loops`: how likely one of them is a loop; `divergent`: how
    likely a fork is; `fences`: how likely a block outside of divergent branches starts with a fence of the user.
    """
    cores = rng.randint(2, 4) if cores is None else cores
    plan = _Planner(rng, items, loops, divergent).plan(depth)
    return _Generator(rng, cores, plan, steps, fences).program()


class _Planner:
    """Blocks in layout order with their successors."""

    def __init__(self, rng: Random, items: int, loops: float, divergent: float) -> None:
        self.rng, self.items, self.loops, self.divergent = rng, items, loops, divergent
        self.blocks: list[_Block] = []
        self.atoms = 0

    def plan(self, depth: int) -> list[_Block]:
        """The entry, then a sequence with at least one loop or branch."""
        self._block(NONE)
        self._sequence(depth, NONE, least=1)
        for number, block in enumerate(self.blocks):
            block.leads = block.leads or ([number + 1] if number + 1 < len(self.blocks) else [])
        return self.blocks

    def _block(self, atom: int) -> int:
        self.blocks.append(_Block(atom=atom))
        return len(self.blocks) - 1

    def _sequence(self, depth: int, atom: int, least: int = 0) -> int:
        """Straight blocks, loops and branches; returns the last block, which is straight."""
        rng = self.rng
        count = rng.randint(least, self.items) if depth else 0
        last = self._block(atom) if not count or rng.random() < 0.5 else NONE
        is_join = False
        for _ in range(count):
            if rng.random() < self.loops:
                if is_join:
                    self._block(atom)
                self._loop(depth, atom)
                last, is_join = NONE, False
            else:
                last, is_join = self._branch(depth, atom, last), True
        return self._block(atom) if last == NONE else last

    def _loop(self, depth: int, atom: int) -> None:
        header = self._block(atom)
        latch = self._sequence(depth - 1, atom)
        self.blocks[header].header, self.blocks[header].trip = True, self.rng.choice(TRIPS)
        self.blocks[latch].leads = [header]
        self.blocks[header].leads = [header + 1, len(self.blocks)]

    def _branch(self, depth: int, atom: int, fork: int) -> int:
        """A branch behind `fork`, or with a fork of its own; returns its join."""
        rng = self.rng
        if fork == NONE:
            fork = self._block(atom)
        block = self.blocks[fork]
        block.fork, block.copied, block.divergent = True, rng.random() < 0.5, rng.random() < self.divergent
        if block.divergent and atom == NONE:
            atom = self.atoms
            self.atoms += 1
        ends = [self._sequence(depth - 1, atom)]
        second = len(self.blocks)
        if rng.random() < 0.7:
            ends.append(self._sequence(depth - 1, atom))
        join = self._block(block.atom)
        block.leads = [fork + 1, second]
        for end in ends:
            self.blocks[end].leads = [join]
        return join


@dataclass(slots=True)
class _Core:
    number: int
    function: int
    ids: dict[str, int] = field(default_factory=dict)
    blocks: list[int] = field(default_factory=list)


class _Generator:
    """Fills planned blocks, on all cores at once, in the order of `seq`."""

    def __init__(self, rng: Random, cores: int, plan: list[_Block], steps: int, fences: float) -> None:
        self.rng, self.plan, self.steps, self.fences = rng, plan, steps, fences
        self.build = ProgramBuilder("random branches", cores)
        self.shared = {f"s{k}": rng.choice((8, 16, 32)) for k in range(rng.randint(1, 3))}
        self.local = {f"l{k}": rng.choice((8, 16)) for k in range(rng.randint(1, 2))}
        self.owners = {name: rng.randrange(cores) for name in self.shared}
        self.sizes = {**self.shared, **self.local}
        self.writer = {
            atom: {name: rng.choice((NONE, *range(cores))) for name in self.shared}
            for atom in sorted({block.atom for block in plan} - {NONE})
        }
        """Inside of each divergent branch: the one core that may touch a shared location; NONE: all may read it."""
        self.cores = [self._core(core) for core in range(cores)]
        self.seq = 0

    def program(self) -> Program:
        """Entry, blocks, outputs."""
        for name in self.sizes:
            for core in self.cores:
                if self.owners.get(name, core.number) == core.number:
                    self._emit(core, 0, f"w.{name}", "memset", [], [core.ids[name]], value=self.rng.randrange(256))
            self.seq += 1
        for number, block in enumerate(self.plan):
            self._fill(number, block)
        last = len(self.plan) - 1
        for name in self.sizes:
            for core in self.cores:
                out = core.ids[f"out.{name}"]
                self._emit(core, last, f"o.{name}", "dma_copy", [core.ids[name]], [out])
            self.seq += 1
        return self.build.freeze()

    def _core(self, number: int) -> _Core:
        """Locations and blocks of a core."""
        build = self.build
        core = _Core(number, build.function(build.module(f"nc{number}", number, subgraph=0), "main"))

        def small(name: str, kind: Kind, dtype: str, value: int | None = None) -> None:
            data = None if value is None else base64.b64encode(np.int32(value).tobytes()).decode()
            size = 1 if dtype == "pred" else 4
            core.ids[name] = build.location(
                core.function, name, Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=[1], data=data
            )

        for name, size in self.sizes.items():
            space = Space.DRAM_SHARED if name in self.shared else Space.DRAM_LOCAL
            remote = None if self.owners.get(name, number) == number else (name, self.owners[name])
            core.ids[name] = build.location(core.function, name, space, size, remote=remote)
            core.ids[f"out.{name}"] = build.location(
                core.function, f"out.{name}", Space.DRAM_LOCAL, size, kind=Kind.OUTPUT
            )
        small("one", Kind.CONST, "s32", 1)
        small("most", Kind.CONST, "s32", MOST_TRIPS + 1)
        for at, block in enumerate(self.plan):
            if block.header:
                start = None if block.trip is None else block.trip + 1
                small(f"n{at}", Kind.INPUT if start is None else Kind.CONST, "s32", start)
                small(f"p{at}", Kind.INTERNAL, "s32")
            elif block.fork:
                small(self._decider(at, number), Kind.INPUT, "pred")
                if block.copied:
                    small(f"q{at}", Kind.INTERNAL, "pred")
        for at, block in enumerate(self.plan):
            decider = f"p{at}" if block.header else f"q{at}" if block.copied else self._decider(at, number)
            cond = core.ids[decider] if block.header or block.fork else None
            core.blocks.append(
                build.block(core.function, f"b{at}", trip=block.trip, cond=cond, divergent=block.divergent)
            )
        for at, block in enumerate(self.plan):
            for target in block.leads:
                build.edge(core.blocks[at], core.blocks[target])
        return core

    def _decider(self, fork: int, core: int) -> str:
        return f"f{fork}_{core}" if self.plan[fork].divergent else f"f{fork}"

    def _fill(self, number: int, block: _Block) -> None:
        """What a block holds, with the writes of what decides at random places among its steps."""
        rng = self.rng
        if block.atom == NONE and rng.random() < self.fences:
            for core in self.cores:
                self.build.barrier(core.blocks[number], f"b.{self.seq}", f"user{self.seq}", seq=self.seq)
            self.seq += 1
        tasks = ["step"] * rng.randint(0, self.steps)
        if block.header:
            tasks.insert(rng.randint(0, len(tasks)), "count")
        elif block.copied:
            tasks.insert(rng.randint(0, len(tasks)), "copy")
        # The count of a loop starts anew in every block that leads into it.
        tasks += [f"start {to}" for to in block.leads if self.plan[to].header and not number >= to]
        for task in tasks:
            if task == "step":
                self._step(number, block)
            else:
                for core in self.cores:
                    self._decide(core, number, task)
            self.seq += 1
        self.seq += 1

    def _decide(self, core: _Core, number: int, task: str) -> None:
        """A write of something that a branch reads."""
        ids = core.ids
        if task == "count":
            counter = ids[f"p{number}"]
            self._emit(core, number, "c", "subtract", [counter, ids["one"]], [counter])
        elif task == "copy":
            self._emit(core, number, "q", "dma_copy", [ids[self._decider(number, core.number)]], [ids[f"q{number}"]])
        else:
            to = int(task.split()[1])
            start, counter = ids[f"n{to}"], ids[f"p{to}"]
            if self.plan[to].trip is None:
                self._emit(core, number, f"n{to}", "clamp", [ids["one"], start, ids["most"]], [counter])
            else:
                self._emit(core, number, f"n{to}", "dma_copy", [start], [counter])

    def _step(self, number: int, block: _Block) -> None:
        """One source operation: every core on locals and reading shared ones, or one core alone, which may write."""
        rng = self.rng
        alone = rng.choice(self.cores) if rng.random() < 0.7 else None
        writer = self.writer.get(block.atom)
        for core in self.cores if alone is None else [alone]:
            readable = [n for n in self.sizes if writer is None or writer.get(n, NONE) in (NONE, core.number)]
            writable = [
                n
                for n in readable
                if n in self.local or (writer[n] == core.number if writer is not None else alone is not None)
            ]
            self._work(core, number, readable, writable)

    def _work(self, core: _Core, number: int, readable: list[str], writable: list[str]) -> None:
        """memset, copy or add of some bytes."""
        rng = self.rng
        target = rng.choice(writable)
        where = random_pattern(rng, self.sizes[target])
        count = self.sizes[target] if where is None else where.nbytes
        written: Operand = (core.ids[target], where)
        sources = [name for name in readable if name != target and self.sizes[name] >= count]
        kind = rng.choice(("memset", "copy", "copy", "add", "add")) if sources else "memset"
        if kind == "memset":
            self._emit(core, number, "i", "memset", [], [written], value=rng.randrange(256))
            return
        picked = rng.choice(sources)
        read: Operand = (core.ids[picked], Pattern(rng.randint(0, self.sizes[picked] - count), count))
        if kind == "copy":
            self._emit(core, number, "i", "dma_copy", [read], [written])
        else:
            shape: AttrValue = [[count]] * 3
            self._emit(core, number, "i", "add", [written, read], [written], shapes=shape, dtypes=["u8"] * 3)

    def _emit(
        self,
        core: _Core,
        block: int,
        name: str,
        opcode: str,
        reads: list[Operand],
        writes: list[Operand],
        **attrs: AttrValue,
    ) -> None:
        engine = self.rng.choice(ENGINES)
        at = core.blocks[block]
        self.build.instruction(at, f"{name}.{self.seq}", opcode, engine, reads, writes, seq=self.seq, attrs=attrs)


def random_way(rng: Random, program: Program) -> dict[str, npt.NDArray[Any]]:
    """Inputs of a program of `random_branch_program` that lead it on some way: for `simulate`."""
    rows = program.locations
    names = [program.strings[int(name)] for name in rows.name[rows.kind == Kind.INPUT]]
    return {
        name: np.array([rng.random() < 0.5])
        if name[0] == "f"
        else np.array([rng.randint(1, MOST_TRIPS + 1)], np.int32)
        for name in dict.fromkeys(names)
    }
