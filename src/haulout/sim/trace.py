"""What each core executes, in list order: the instructions that its queues will be fed with.

A function without loops and branches is a chain of blocks, so the trace is known before anything runs. Loops
belong here too, later: the trace of a loop repeats the rows of its body, and everything behind this file
works on positions in the trace, not on instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.verify import place
from haulout.support.diagnostics import Label, bad_input


@dataclass(frozen=True, slots=True)
class Trace:
    """Executed instructions, core after core, each core's in list order."""

    instruction: Ids
    """Row of `instructions`, of each item of the trace."""
    core: Ids
    """The core it runs on."""
    functions: Ids
    """The entry function of each core."""

    def __len__(self) -> int:
        return len(self.instruction)


def trace_program(program: Program) -> Trace:
    """The trace of the entry functions. Raises `bad-input` at a block that branches or loops."""
    starts = program.starts("functions", "modules")
    for core in range(len(program.modules)):
        if starts[core] == starts[core + 1]:
            bad_input(f"the module of core {core} has no function to run")
    functions = starts[:-1].astype(np.int32)
    per_core = [_chain_of_instructions(program, int(function)) for function in functions]
    return Trace(
        np.concatenate(per_core) if per_core else np.zeros(0, np.int32),
        np.repeat(program.modules.core, [len(rows) for rows in per_core]).astype(np.int32),
        functions,
    )


def _chain_of_instructions(program: Program, function: int) -> Ids:
    begins = program.starts("instructions", "blocks")
    rows = [np.arange(begins[block], begins[block + 1], dtype=np.int32) for block in _chain(program, function)]
    return np.concatenate(rows) if rows else np.zeros(0, np.int32)


def _chain(program: Program, function: int) -> list[int]:
    """Blocks from the entry on, each the only successor of the one before."""
    first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
    edges = program.starts("edges", "blocks")
    chain: list[int] = []
    seen: set[int] = set()
    block = first if first < last else NONE
    while block != NONE:
        seen.add(block)
        chain.append(block)
        begin, end = edges[block : block + 2].tolist()
        following = program.edges.target[begin:end].tolist()
        if len(following) > 1 or any(target in seen for target in following):
            _not_supported(program, block, "branches" if len(following) > 1 else "loops")
        block = following[0] if following else NONE
    return chain


def _not_supported(program: Program, block: int, what: str) -> None:
    name = program.strings[int(program.blocks.name[block])]
    bad_input(
        f"block ^{name} {what}: simulating control flow is not supported yet",
        Label(
            f"^{name} on core {program.block_core[block]}", place(program, NONE, int(program.blocks.text_line[block]))
        ),
    )
