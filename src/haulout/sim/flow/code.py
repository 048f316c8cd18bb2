"""What cores execute: the instructions, and behind them one *branch* for each header of a loop and each fork.

A branch reads the first element of `cond`. It stands behind the last instruction of its block, on a line of its
own, the sequencer's; whatever follows on its core waits for it. Row i of the code is instruction i, or branch
`i - len(instructions)` of the block with that row, so that a trace is one column of rows.

Operands are numbered, too: first the rows of `accesses`, then every location as a whole, then the `cond` of every
block, then what `moves.py` makes of operands that move with the iterations of a loop.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import ENGINE_BY_TEXT, LINES, NONE, Engine
from haulout.ir.labels import instruction_label, place
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.sim.flow.control import Fork, Loop, Nest
from haulout.support.diagnostics import Label

BRANCH = LINES
"""The line of a core's branches, behind those of the engines."""
QUEUES = LINES + 1
"""Lines of a core, that of the branches included."""
_BRANCH_TEXT = "branch"


def line_text(line: int) -> str:
    """A line as it is written in the names of schedules."""
    return _BRANCH_TEXT if line == BRANCH else Engine(line).text


def parse_line(text: str) -> int | None:
    """A line that may be a queue of its own; None when there is none of that name."""
    if text == _BRANCH_TEXT:
        return BRANCH
    engine = ENGINE_BY_TEXT.get(text, Engine.ALL)
    return None if engine == Engine.ALL else int(engine)


class Code:
    """The rows that a trace consists of, as columns, and which of them each section runs on each core."""

    def __init__(self, program: Program, nest: Nest) -> None:
        instructions, blocks, accesses = program.instructions, program.blocks, program.accesses
        self.program, self.nest = program, nest
        self._choices = {block: choice for choice in nest.choices.values() for block in choice.blocks}
        self.instructions = len(instructions)
        self.engine: Ids = np.append(instructions.engine.astype(np.int32), np.full(len(blocks), BRANCH, np.int32))
        self.core: Ids = np.append(program.instruction_core, program.block_core).astype(np.int32)
        # A branch stands at the end of its block.
        self.seq: Ints = np.append(instructions.seq, np.full(len(blocks), np.iinfo(np.int64).max))
        nops = [number for number, text in enumerate(program.strings) if text == "nop"]
        self.is_nop: Bools = np.append(np.isin(instructions.opcode, nops), np.zeros(len(blocks), np.bool_))
        """`nop` reads and writes nothing; it is there to wait and to be waited for."""
        cond = len(accesses) + len(program.locations) + np.arange(len(blocks))
        starts = program.access_starts
        self.begin: Ints = np.append(starts[:-1], cond)
        """First operand of each row: a read, if there are any."""
        self.middle: Ints = np.append(_first_writes(program), cond + 1)
        """Its first operand that is a write."""
        self.end: Ints = np.append(starts[1:], cond + 1)
        self.operands = len(accesses) + len(program.locations) + len(blocks)
        """Operands that do not move."""
        self.rows: list[list[Ids]] = [
            [self._section_rows(blocks, section in nest.choices) for blocks in each.blocks]
            for section, each in enumerate(nest.sections)
        ]
        """[section][core]: rows in list order."""

    def __len__(self) -> int:
        return len(self.engine)

    @property
    def sizes(self) -> list[list[int]]:
        """[section][core]: how many instructions."""
        return [[int((rows < self.instructions).sum()) for rows in cores] for cores in self.rows]

    def is_branch(self, row: int) -> bool:
        """Whether a row is a branch."""
        return row >= self.instructions

    def choice(self, branch: int) -> Loop | Fork:
        """The loop or fork that a branch decides."""
        return self._choices[branch - self.instructions]

    def branch(self, block: int) -> int:
        """The row of the branch at the end of a block."""
        return self.instructions + block

    def named(self, row: int) -> str:
        """A row and its core, for a message."""
        if self.is_branch(row):
            name = self.program.strings[int(self.program.blocks.name[row - self.instructions])]
            return f"the branch of ^{format_name(name)} on core {self.core[row]}"
        return f"%{format_name(self.program.instruction_name(row))} on core {self.core[row]}"

    def label(self, row: int, message: str = "") -> Label:
        """A row and its place, for a message."""
        if self.is_branch(row):
            line = int(self.program.blocks.text_line[row - self.instructions])
            return Label(message or self.named(row), place(self.program, NONE, line))
        return instruction_label(self.program, row, message)

    def iteration(self, row: int, around: tuple[int, ...]) -> str:
        """Where in the loops a row is executed, with a blank before; empty outside of loops."""
        if not around:
            return ""
        block = row - self.instructions if self.is_branch(row) else int(self.program.instructions.block[row])
        core = int(self.core[row])
        path = next(each.path for each in self.nest.sections if block in each.blocks[core])
        inside = (f"{k} of {self.nest.loops[loop].name}" for loop, k in zip(path, around, strict=True))
        return f" (iteration {', '.join(inside)})"

    def _section_rows(self, blocks: tuple[int, ...], branches: bool) -> Ids:
        starts = self.program.starts("instructions", "blocks")
        rows = [np.arange(starts[block], starts[block + 1], dtype=np.int32) for block in blocks]
        if branches:
            rows.append(np.array([self.branch(blocks[-1])], np.int32))
        return np.concatenate([np.zeros(0, np.int32), *rows])


def condition_bytes(program: Program) -> Ints:
    """For each block: bytes of the first element of its `cond`; 0 without one."""
    size = np.zeros(len(program.blocks), np.int64)
    for block in np.flatnonzero(program.blocks.cond != NONE).tolist():
        location = int(program.blocks.cond[block])
        name = program.strings.get(int(program.locations.dtype[location]))
        whole = int(program.locations.size[location])
        size[block] = whole if name is None else min(whole, NUMPY[name].itemsize)
    return size


def _first_writes(program: Program) -> Ints:
    starts = program.access_starts
    reads = np.append(0, np.cumsum(~program.accesses.write))
    return np.asarray(starts[:-1] + reads[starts[1:]] - reads[starts[:-1]])
