"""The code that cores execute: instructions, and one *branch* at the end of each header of a loop and each fork.

A branch reads the first element of `cond`. It follows the last instruction of its block, on a line of its own,
and everything after it on its core waits for it. Row i of the code is instruction i, or branch `i -
len(instructions)` of the block with that row, so a trace is one column of rows.

Operands are numbered, too: the rows of `accesses`, then each location as a whole, then the `cond` of each block, then
the variants of strided operands (`memory/strided_operands.py`).
"""

from __future__ import annotations

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import ENGINE_BY_TEXT, LINES, NONE, Engine
from haulout.ir.labels import block_label, block_name, instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Fork, Loop
from haulout.sim.flow.sections import Sections
from haulout.support.diagnostics import Label

BRANCH = LINES
"""The line of a core's branches, numbered after those of the engines."""
QUEUES = LINES + 1
"""Lines of a core, that of the branches included."""
_BRANCH_TEXT = "branch"


def line_text(line: int) -> str:
    """The text of a line in the name of a schedule."""
    return _BRANCH_TEXT if line == BRANCH else Engine(line).text


def parse_line(text: str) -> int | None:
    """The line of a queue, None when there is no such queue."""
    if text == _BRANCH_TEXT:
        return BRANCH
    engine = ENGINE_BY_TEXT.get(text, Engine.ALL)
    return None if engine == Engine.ALL else int(engine)


class Code:
    """The rows that a trace consists of, as columns, and the rows that each section runs on each core."""

    def __init__(self, program: Program, sections: Sections) -> None:
        instructions, blocks, accesses = program.instructions, program.blocks, program.accesses
        self.program, self.sections = program, sections
        self.instructions = len(instructions)
        self.engine: Ids = np.append(instructions.engine.astype(np.int32), np.full(len(blocks), BRANCH, np.int32))
        self.core: Ids = np.append(program.instruction_core, program.block_core).astype(np.int32)
        # A branch is the last row of its block.
        self.seq: Ints = np.append(instructions.seq, np.full(len(blocks), np.iinfo(np.int64).max))
        nops = [number for number, text in enumerate(program.strings) if text == "nop"]
        self.is_nop: Bools = np.append(np.isin(instructions.opcode, nops), np.zeros(len(blocks), np.bool_))
        """`nop` reads and writes nothing; it only carries dependences."""
        cond = len(accesses) + len(program.locations) + np.arange(len(blocks))
        starts = program.access_starts
        self.begin: Ints = np.append(starts[:-1], cond)
        """First operand of each row: a read, if there are any."""
        self.middle: Ints = np.append(_first_writes(program), cond + 1)
        """Its first operand that is a write."""
        self.end: Ints = np.append(starts[1:], cond + 1)
        self.operands = len(accesses) + len(program.locations) + len(blocks)
        """Operands that are not variants."""
        self.rows: list[list[Ids]] = [
            [self._section_rows(rows, section in sections.choices) for rows in cores]
            for section, cores in enumerate(sections.blocks)
        ]
        """[section][core]: rows in list order."""
        self.section: Ids = np.full(len(self), NONE, np.int32)
        """Of each row; NONE for one that never runs."""
        self.position: Ints = np.zeros(len(self), np.int64)
        """Of each row: its index in its section, on its core."""
        for section, cores in enumerate(self.rows):
            for rows in cores:
                self.section[rows], self.position[rows] = section, np.arange(len(rows))

    def __len__(self) -> int:
        return len(self.engine)

    @property
    def sizes(self) -> list[list[int]]:
        """[section][core]: how many instructions."""
        return [[int((rows < self.instructions).sum()) for rows in cores] for cores in self.rows]

    @property
    def run(self) -> Ids:
        """The instructions that may run."""
        return np.flatnonzero(self.section[: self.instructions] != NONE).astype(np.int32)

    def is_branch(self, row: int) -> bool:
        """Whether a row is a branch."""
        return row >= self.instructions

    def choice(self, branch: int) -> Loop | Fork:
        """The loop or fork that a branch decides."""
        return self.sections.choices[int(self.section[branch])]

    def branch(self, section: int, core: int) -> int:
        """The branch at the end of a section."""
        return int(self.rows[section][core][-1])

    def choice_name(self, section: int) -> str:
        """`^name` of the header or fork that ends a section."""
        return block_name(self.program, self.sections.blocks[section][0][-1])

    def effect(self, branch: int, taken: bool) -> str:
        """What a core does when a branch takes its first successor or the other one, for a message."""
        match self.choice(branch):
            case Loop():
                return "enters the body" if taken else "leaves the loop"
            case Fork(block=block, middle=middle):
                first = self.sections.blocks[block + 1 if taken else middle][0][0]
                return f"takes {block_name(self.program, first)}"

    def named(self, row: int) -> str:
        """A row and its core, for a message."""
        if self.is_branch(row):
            return f"the branch of {block_name(self.program, row - self.instructions)} on core {self.core[row]}"
        return f"%{format_name(self.program.instruction_name(row))} on core {self.core[row]}"

    def label(self, row: int, message: str = "") -> Label:
        """A row and its place, for a message."""
        if self.is_branch(row):
            return Label(message or self.named(row), block_label(self.program, row - self.instructions).span)
        return instruction_label(self.program, row, message)

    def iteration(self, row: int, around: tuple[int, ...]) -> str:
        """The iterations in which a row is executed, with a blank before; empty outside of loops."""
        if not around:
            return ""
        structure = self.sections.structure
        headers = (structure.loops[loop].header for loop in structure.loops_around(int(self.section[row])))
        inside = (f"{k} of {self.choice_name(header)}" for header, k in zip(headers, around, strict=True))
        return f" (iteration {', '.join(inside)})"

    def _section_rows(self, blocks: tuple[int, ...], branches: bool) -> Ids:
        starts = self.program.starts("instructions", "blocks")
        rows = [np.arange(starts[block], starts[block + 1], dtype=np.int32) for block in blocks]
        if branches:
            rows.append(np.array([self.instructions + blocks[-1]], np.int32))
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
