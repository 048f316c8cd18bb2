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
