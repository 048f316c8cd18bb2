"""What each core holds in each location after each instruction that writes it: the truth for what is called equal."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.passes.base import PassContext
from haulout.passes.lower_local_collectives import LowerLocalCollectives
from haulout.passes.manager import PassManager
from haulout.sim import machine
from haulout.sim.execution import Execution
from haulout.sim.flow.visits import Iteration
from haulout.sim.plan import prepare
from haulout.sim.reference import Reference

Held = dict[tuple[str, int], list[tuple[str, bytes]]]
"""(location, core) -> after each write, in order: the instruction, and a hash of all bytes of the location."""


def lowered(program: Program) -> Program:
    """The same program with collectives that the simulator can execute, and every location in its own place."""
    return PassManager([LowerLocalCollectives(in_place=False)]).run(program, PassContext())


def held_bytes(program: Program, inputs: Mapping[str, np.ndarray[Any, Any]] | None, seed: int = 0) -> Held:
    """Run a program whose collectives are lowered; also the bytes at the start, by the name `""`."""
    prepared = prepare(program)
    execution = Execution(prepared, inputs, seed, None)
    found: Held = defaultdict(list)
    locations, accesses = program.locations, program.accesses

    def note(row: int, name: str) -> None:
        data: Bytes = execution.memory.read(prepared.operands.whole(row))
        key = program.strings[int(locations.name[row])], int(program.location_core[row])
        found[key].append((name, hashlib.blake2b(data, digest_size=8).digest()))

    class Watched(machine.Machine):
        def execute(self, instruction: int, around: Iteration) -> None:
            super().execute(instruction, around)
            begin, end = (int(program.access_starts[instruction + at]) for at in (0, 1))
            name = program.instruction_name(instruction)
            for row in dict.fromkeys(accesses.location[begin:end][accesses.write[begin:end]].tolist()):
                note(row, name)

    for row in range(len(locations)):
        if prepared.layout.base[row] >= 0:
            note(row, "")
    execution.machine = Watched(prepared.code, execution.memory, prepared.layout, execution.found)
    Reference(prepared, execution, 1_000_000).run()
    return found


@dataclass
class Compared:
    """The outcome for one run."""

    contents: int = 0
    """How many contents of a location on a core were compared with those of another core."""
    differ: list[tuple[str, int, int, str]] = field(default_factory=list)
    """What is called equal and is not: (location, core, core, instruction)."""


def compare(program: Program, labels: Ids, held: Held) -> Compared:
    """Compare what is called equal: after every write, execution by execution of each instruction, and at the end."""
    found = Compared()
    by_write = {key: _by_write(contents) for key, contents in held.items()}
    for row, line in enumerate(labels.tolist()):
        name = program.strings[int(program.locations.name[row])]
        for core, first in enumerate(line):
            if first == core:
                continue
            mine, theirs = by_write[name, core], by_write[name, first]
            found.contents += len(held[name, core])
            by = next((key for key, data in mine.items() if theirs.get(key, data) != data), None)
            if by is not None or held[name, core][-1][1] != held[name, first][-1][1]:
                found.differ.append((name, first, core, by[0] if by else "the end"))
    return found


def _by_write(contents: list[tuple[str, bytes]]) -> dict[tuple[str, int], bytes]:
    """By the instruction and how often it has run."""
    count: Counter[str] = Counter()
    found = {}
    for name, data in contents:
        found[name, count[name]] = data
        count[name] += 1
    return found
