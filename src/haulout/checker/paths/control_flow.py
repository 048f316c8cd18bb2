"""The control flow of a function on all cores: its structure, and what the checker requires of it.

The blocks of a function are the same on every core, so a block is named by its number in its function. A function
whose blocks form a chain has no control flow here: it is checked as straight code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import block_label, block_name, instruction_label
from haulout.ir.program import Program
from haulout.ir.read_structure import block_rows, chain, function_structure
from haulout.ir.schema import Ids
from haulout.ir.structure import Arm, Loop, Structure
from haulout.support.diagnostics import bad_input

MAX_NESTING = 200
"""Nesting depth of loops and arms. Walks over paths recurse."""


@dataclass(frozen=True)
class ControlFlow:
    """The structure of a function, and where its blocks and instructions are."""

    program: Program
    functions: list[int]
    """Its rows in `program.functions`, core after core."""
    structure: Structure
    rows: list[range]
    """The rows of its blocks, core after core."""
    block: Ids
    """Instruction of the program -> the number of its block, NONE in other functions."""
    sizes: list[int]
    """Instructions of each block, on all cores."""

    @property
    def blocks(self) -> range:
        """The numbers of all blocks."""
        return range(len(self.structure.region_of))

    def name(self, block: int) -> str:
        """`^name` of a block on the first core."""
        return block_name(self.program, self.rows[0][block])

    def may_miss(self, producer: int, consumer: int) -> int:
        """The innermost loop around two blocks if the first one need not run in each of its iterations, else NONE.

        If so, a `carried` dependence may find no producer.
        """
        found = self.structure
        common, number = found.common_loop(producer, consumer), found.region_of[producer]
        if common == NONE:
            return NONE
        if producer in found.loop_at and number != common:
            number = found.regions[number].parent
        while number != common:
            region = found.regions[number]
            if isinstance(region, Arm) or region.may_not_run:
                return common
            number = region.parent
        return NONE


def find_control_flow(program: Program, functions: list[int]) -> ControlFlow | None:
    """The control flow of a function, given by its rows on all cores; None for straight code.

    `bad-input` where it is not supported, or an instruction depends on one that need not have run.
    """
    if all(chain(program, function) is not None for function in functions):
        return None
    structure = function_structure(program, functions)
    rows = [block_rows(program, function) for function in functions]
    for number in range(len(rows[0])):
        if len(structure.around(number)) > MAX_NESTING:
            row, why = rows[0][number], f"is inside more than {MAX_NESTING} loops and arms"
            bad_input(f"unsupported control flow: block {block_name(program, row)} {why}", block_label(program, row))
    numbers = np.full(len(program.blocks), NONE, np.int32)
    for each in rows:
        numbers[each.start : each.stop] = np.arange(len(each))
    block = numbers[program.instructions.block]
    sizes = np.bincount(block[block != NONE], minlength=len(rows[0])).tolist()
    flow = ControlFlow(program, functions, structure, rows, block, sizes)
    _check_dependences(flow)
    return flow


def _check_dependences(flow: ControlFlow) -> None:
    """Refuse a dependence on an instruction that need not have run."""
    program, rows = flow.program, flow.program.dependences
    chosen = np.flatnonzero((flow.block[rows.instruction] != NONE) & ~rows.carried)
    producer, consumer = rows.producer[chosen], rows.instruction[chosen]
    count = len(flow.blocks)
    ends = flow.block[producer].astype(np.int64) * count + flow.block[consumer]
    # Few pairs of blocks, many dependences.
    pairs, which = np.unique(ends, return_inverse=True)
    dominates = np.array([flow.structure.dominates(*divmod(pair, count)) for pair in pairs.tolist()], bool)
    wrong = np.flatnonzero(~dominates[which] | (producer >= consumer))
    if not len(wrong):
        return
    at = wrong[0]
    name, label = program.instruction_name(int(producer[at])), instruction_label(program, int(consumer[at]))
    depends = f"it depends on %{format_name(name)}, which"
    if producer[at] >= consumer[at]:
        bad_input(f"{depends} comes later", label)
    region = flow.structure.regions[flow.structure.left_region(*divmod(int(ends[at]), count))]
    if isinstance(region, Loop):
        help_text = "wait for an instruction of the loop's header, which waits for it with carried="
        bad_input(f"{depends} is in a loop that may not run", label, help=[help_text])
    fork = flow.structure.forks[region.fork]
    join = flow.name(fork.join)
    help_text = f"wait for a nop at the start of {join}; one at the end of the arm on its engine waits for it"
    message = f"{depends} is in an arm of the branch at {flow.name(fork.block)} that may not be taken"
    bad_input(message, label, help=[help_text])
