"""A large network-like program, made as whole columns: what the growth curves are measured on.

Instruction i reads one or two recent values and writes value i, so lifetimes are short, some are long, as in a
network; values go round a ring of locations' worth of distance before they die. Every `period`-th instruction is an
all-reduce over all cores. Names of instructions are null (printed by position), those of locations are interned once
for all cores.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.ir.schema import Accesses, Blocks, Functions, Instructions, Locations, Modules, Shapes
from haulout.ir.strings import StringTable

ENGINES = (Engine.PE, Engine.ACT, Engine.VECTOR, Engine.POOL, Engine.DMA0, Engine.DMA1, Engine.DMA2, Engine.DMA3)


def large_program(instructions: int, cores: int, *, period: int = 1000, seed: int = 0) -> Program:
    """`instructions` instructions a core before lowering, on `cores` cores; f32 values of 64 B to 16 KiB."""
    rng = np.random.default_rng(seed)
    strings = StringTable()
    nc, main, entry, f32 = (strings.intern(text) for text in ("nc0", "main", "entry", "f32"))
    add, all_reduce = strings.intern("add"), strings.intern("all_reduce")
    groups = "[" + ",".join(str(core) for core in range(cores)) + "]"
    reduce_attrs = strings.intern(f"groups=[{groups}] op=add")
    rows = np.arange(instructions)
    collective = rows % period == period - 1
    # Value k is location k: location 0 is the input, instruction i writes location i + 1.
    distance = np.minimum(rng.geometric(0.2, (2, instructions)), rows + 1)
    far = rng.random(instructions) < 0.02
    distance[1, far] = np.minimum(rng.integers(1, 500, far.sum()), rows[far] + 1)
    first, second = rows + 1 - distance
    one = collective | (rng.random(instructions) < 0.3)
    elements = rng.integers(1, 257, instructions + 1) * 16
    elements[rows[collective] + 1] = elements[first[collective]]
    reads = np.concatenate([rows, rows[~one]])
    read_location = np.concatenate([first, second[~one]])
    order = np.argsort(np.concatenate([reads * 2, rows * 2 + 1]), kind="stable")
    accesses = Accesses.make(
        len(order),
        instruction=np.concatenate([reads, rows])[order],
        location=np.concatenate([read_location, rows + 1])[order],
        write=np.concatenate([np.zeros(len(reads), bool), np.ones(instructions, bool)])[order],
    )
    kind = np.full(instructions + 1, Kind.INTERNAL, np.uint8)
    kind[0], kind[-1] = Kind.INPUT, Kind.OUTPUT
    engine = np.array(ENGINES, np.uint8)[rng.integers(0, len(ENGINES), instructions)]
    program = Program(
        f"large {instructions}x{cores}",
        1,
        strings,
        modules=Modules.make(1, name=nc, subgraph=0),
        functions=Functions.make(1, name=main),
        blocks=Blocks.make(1, name=entry),
        instructions=Instructions.make(
            instructions,
            name=[strings.intern(f"i{row}") if hit else -1 for row, hit in enumerate(collective.tolist())],
            opcode=np.where(collective, all_reduce, add),
            engine=engine,
            seq=rows,
            attrs=np.where(collective, reduce_attrs, -1),
        ),
        accesses=accesses,
        locations=Locations.make(
            instructions + 1,
            name=[strings.intern(f"v{row}") for row in range(instructions + 1)],
            space=int(Space.DRAM_LOCAL),
            kind=kind,
            size=elements * 4,
            dtype=f32,
            shape_begin=np.arange(instructions + 1),
            shape_end=np.arange(1, instructions + 2),
        ),
        shapes=Shapes.make(instructions + 1, extent=elements),
    )
    return replicate(program, cores)
