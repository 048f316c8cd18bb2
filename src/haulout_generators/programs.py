"""Small random programs, valid by construction: what property tests and users' own tests start from.

Every program has a common `seq`, reads only what was written before, keeps the operands of one instruction equal or
disjoint, and has no two cores in conflict at equal `seq`. So it has one meaning, and must compile without a finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

ENGINES = (Engine.PE, Engine.ACT, Engine.VECTOR, Engine.DMA0, Engine.DMA1)


@dataclass(slots=True)
class _Core:
    function: int
    block: int
    locations: dict[str, int] = field(default_factory=dict)
    blocks: list[int] = field(default_factory=list)


def random_pattern(rng: Random, size: int) -> Pattern | None:
    """Bytes of a location of `size` bytes: all, a range, or a strided pattern."""
    choice = rng.random()
    if choice < 0.4 or size < 8:
        return None
    if choice < 0.7:
        low = rng.randrange(size - 1)
        return Pattern(low, rng.randint(1, size - low))
    run = rng.choice((1, 2, 4))
    dims: list[tuple[int, int]] = []
    offset, extent = 0, run
    for _ in range(rng.randint(1, 2)):
        stride, count = rng.choice((1, -1)) * extent * rng.randint(1, 3), rng.randint(2, 4)
        if extent + abs(stride) * (count - 1) > size:
            continue
        extent += abs(stride) * (count - 1)
        offset += -stride * (count - 1) if stride < 0 else 0
        dims.insert(0, (stride, count))
    return Pattern(offset + rng.randint(0, size - extent), run, tuple(dims)).canonical()


def random_program(rng: Random, *, cores: int | None = None, steps: int = 12, fences: float = 0.0) -> Program:
    """Cores, engines, local and shared locations, patterns; `fences`: how likely a step is a fence of the user."""
    cores = rng.randint(2, 4) if cores is None else cores
    build = ProgramBuilder("random", cores)
    shared = {f"s{k}": rng.choice((8, 16, 32, 64)) for k in range(rng.randint(1, 4))}
    owners = {name: rng.randrange(cores) for name in shared}
    local = {f"l{k}": rng.choice((8, 16, 64)) for k in range(rng.randint(1, 4))}
    made = []
    for core in range(cores):
        function = build.function(build.module(f"nc{core}", core, subgraph=0), "main")
        this = _Core(function, build.block(function, "entry"))
        for name, size in local.items():
            this.locations[name] = build.location(function, name, Space.DRAM_LOCAL, size)
        for name, size in shared.items():
            remote = None if owners[name] == core else (name, owners[name])
            this.locations[name] = build.location(function, name, Space.DRAM_SHARED, size, remote=remote)
        this.locations["out"] = build.location(function, "out", Space.DRAM_LOCAL, 8, kind=Kind.OUTPUT)
        made.append(this)
    names = list(shared) + list(local)
    sizes = {**shared, **local}
    seq = 0
    # Everything is written in whole before it is read.
    for name in names:
        for core, this in enumerate(made):
            if name in local or owners[name] == core:
                build.instruction(
                    this.block, f"w{seq}", "fill", rng.choice(ENGINES), [], [this.locations[name]], seq=seq
                )
        seq += 1
    for _ in range(steps):
        if rng.random() < fences:
            for this in made:
                build.barrier(this.block, f"b{seq}", f"user{seq}", seq=seq)
        else:
            _step(rng, build, made, names, sizes, shared, seq)
        seq += 1
    for this in made:
        reads = [this.locations[name] for name in rng.sample(names, rng.randint(1, len(names)))]
        build.instruction(this.block, "end", "mix", rng.choice(ENGINES), reads, [this.locations["out"]], seq=seq)
    return build.freeze()


def _step(
    rng: Random,
    build: ProgramBuilder,
    made: list[_Core],
    names: list[str],
    sizes: dict[str, int],
    shared: dict[str, int],
    seq: int,
) -> None:
    """One source operation: every core on locals and reading shared ones, or one core alone, which may write them."""
    alone = rng.randrange(len(made)) if rng.random() < 0.7 else None
    for core, this in enumerate(made):
        if alone is not None and core != alone:
            continue
        reads, writes = [], []
        for name in rng.sample(names, rng.randint(1, min(3, len(names)))):
            operand = (this.locations[name], random_pattern(rng, sizes[name]))
            if rng.random() < 0.5 and (alone is not None or name not in shared):
                writes.append(operand)
            else:
                reads.append(operand)
        build.instruction(this.block, f"i{seq}", "mix", rng.choice(ENGINES), reads, writes, seq=seq)


def random_loop_program(rng: Random, *, cores: int | None = None, steps: int = 8, depth: int = 2) -> Program:
    """Like `random_program`, with loops in it, nested up to `depth`, of known and unknown trip counts.

    Every location is written in whole before the first loop. Conditions are locations of each core that headers
    write; programs of this kind are for analyses, not to be executed.
    """
    cores = rng.randint(2, 3) if cores is None else cores
    build = ProgramBuilder("random loops", cores)
    shared = {f"s{k}": rng.choice((8, 16, 32)) for k in range(rng.randint(1, 3))}
    owners = {name: rng.randrange(cores) for name in shared}
    local = {f"l{k}": rng.choice((8, 16)) for k in range(rng.randint(1, 3))}
    names, sizes = [*shared, *local], {**shared, **local}
    plan = _plan_blocks(rng, depth)
    made = []
    for core in range(cores):
        function = build.function(build.module(f"nc{core}", core, subgraph=0), "main")
        this = _Core(function, 0)
        for name, size in local.items():
            this.locations[name] = build.location(function, name, Space.DRAM_LOCAL, size)
        for name, size in shared.items():
            remote = None if owners[name] == core else (name, owners[name])
            this.locations[name] = build.location(function, name, Space.DRAM_SHARED, size, remote=remote)
        this.locations["out"] = build.location(function, "out", Space.DRAM_LOCAL, 8, kind=Kind.OUTPUT)
        for number, block in enumerate(plan):
            if block.kind == "header":
                this.locations[f"p{number}"] = build.location(function, f"p{number}", Space.DRAM_LOCAL, 1)
        _add_blocks(build, this, plan)
        made.append(this)
    seq = 0
    for name in names:
        for core, this in enumerate(made):
            if name in local or owners[name] == core:
                whole = [this.locations[name]]
                build.instruction(this.blocks[0], f"w{seq}", "fill", rng.choice(ENGINES), [], whole, seq=seq)
        seq += 1
    for number, block in enumerate(plan):
        for this in made:
            this.block = this.blocks[number]
            if block.kind == "header":
                cond = [this.locations[f"p{number}"]]
                build.instruction(this.block, f"c{seq}", "decide", rng.choice(ENGINES), [], cond, seq=seq)
        for _ in range(rng.randint(0, max(steps // 2, 1))):
            seq += 1
            _step(rng, build, made, names, sizes, shared, seq)
        seq += 1
    for this in made:
        reads = [this.locations[name] for name in rng.sample(names, rng.randint(1, len(names)))]
        build.instruction(this.block, "end", "mix", rng.choice(ENGINES), reads, [this.locations["out"]], seq=seq)
    return build.freeze()


@dataclass(slots=True)
class _PlannedBlock:
    kind: str
    """straight, header or latch"""
    trip: int | None = None
    other: int = 0
    """Of a header: the block behind its loop. Of a latch: the header."""


def _plan_blocks(rng: Random, depth: int) -> list[_PlannedBlock]:
    """Straight blocks with loops between them, in layout order."""
    plan = [_PlannedBlock("straight")]
    for _ in range(rng.randint(1, 2)):
        if depth and rng.random() < 0.8:
            header = len(plan)
            inside = _plan_blocks(rng, depth - 1)
            for block in inside:
                block.other += header + 1 if block.kind != "straight" else 0
            inside[-1] = _PlannedBlock("latch", other=header)
            plan.append(_PlannedBlock("header", rng.choice((None, 0, 1, 2, 3)), header + 1 + len(inside)))
            plan += inside
        plan.append(_PlannedBlock("straight"))
    return plan


def _add_blocks(build: ProgramBuilder, this: _Core, plan: list[_PlannedBlock]) -> None:
    for number, block in enumerate(plan):
        cond = this.locations.get(f"p{number}")
        this.blocks.append(build.block(this.function, f"b{number}", trip=block.trip, cond=cond))
    for number, block in enumerate(plan):
        targets = {"header": [number + 1, block.other], "latch": [block.other]}.get(block.kind, [number + 1])
        for target in targets:
            if target < len(plan):
                build.edge(this.blocks[number], this.blocks[target])
