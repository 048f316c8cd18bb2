"""How the blocks of a function run: one after the other, or as properly nested loops.

A function without branches is a *chain* of blocks, in whatever order they are laid out. With branches its layout must
be a sequence of nested loops: a header with two successors, the first block of its body and the block right behind
its last one; the last block of the body leads back to the header. The header belongs to its loop and runs once more
than the body. All cores have the same blocks and take the same branches. Everything else is said to be not supported,
with the block and its place.

In a nest a block is named by its number in its function. Its *path* is the loops around it, outermost first, its own
for a header. A block dominates those behind it that stand in all the loops of its path; a header dominates what
stands behind its loop too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.verify import instruction_label, place
from haulout.support.diagnostics import Diagnostic, Label, Severity


@dataclass(frozen=True, slots=True)
class Loop:
    """Blocks `header:end` of a function."""

    header: int
    end: int
    trip: int
    """NONE: unknown, it may be 0."""
    name: str
    """`^header`, as the format writes it."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a function, equal on all cores, and the path of each of its blocks as numbers of `loops`."""

    loops: tuple[Loop, ...]
    """In layout order, so outer before inner."""
    paths: tuple[tuple[int, ...], ...]

    @property
    def headers(self) -> dict[int, int]:
        """Header -> its loop."""
        return {loop.header: number for number, loop in enumerate(self.loops)}

    def dominates(self, producer: int, consumer: int) -> bool:
        """Whether one block has always run before another one runs."""
        path = self.paths[producer]
        if path and self.loops[path[-1]].header == producer:
            path = path[:-1]
        return producer <= consumer and self.paths[consumer][: len(path)] == path


def find_nest(program: Program, functions: Sequence[int]) -> Nest | Diagnostic | None:
    """The loops of a function, given by its rows on all cores; None for chains."""
    wrong = [each for function in functions if isinstance(each := chain(program, function), Diagnostic)]
    if not wrong:
        return None
    nests: list[Nest] = []
    for function in functions:
        nest = _nest(program, function)
        if isinstance(nest, Diagnostic):
            return nest
        nests.append(nest)
        if nest != nests[0] and (differs := _difference(program, functions[0], function, nests[0], nest)):
            return differs
    return _foreign_waits(program, functions, nests[0]) or nests[0]


def block_rows(program: Program, function: int) -> range:
    """The rows of a function's blocks."""
    begin, end = np.searchsorted(program.blocks.function, [function, function + 1]).tolist()
    return range(begin, end)


def block_name(program: Program, block: int) -> str:
    """`^name`, as the format writes it."""
    return "^" + format_name(program.strings[int(program.blocks.name[block])])


# -- chains ----------------------------------------------------------------------------------------------------------


def chain(program: Program, function: int) -> list[int] | Diagnostic:
    """The blocks of a function in the order in which they run; a diagnostic when they are no chain."""
    blocks = block_rows(program, function)
    successors = _successors(program, blocks)
    found, seen, at = [], set[int](), blocks.start
    while at in blocks:
        found.append(at)
        seen.add(at)
        targets = successors[at - blocks.start]
        if not targets:
            break
        if len(set(targets)) > 1:
            return _branches(program, at, targets)
        if targets[0] in seen:
            return control_flow(program, at, f"leads back to {block_name(program, targets[0])}")
        at = targets[0]
    missed = next((block for block in blocks if block not in seen), None)
    return control_flow(program, missed, "is not reached") if missed is not None else found


def _successors(program: Program, blocks: range) -> list[list[int]]:
    """The successors of each block, as rows."""
    cuts = np.searchsorted(program.edges.source, np.arange(blocks.start, blocks.stop + 1)).tolist()
    return [program.edges.target[begin:end].tolist() for begin, end in pairwise(cuts)]


def control_flow(program: Program, block: int, does: str) -> Diagnostic:
    """`bad-input`: a block that is not understood."""
    span = place(program, NONE, int(program.blocks.text_line[block]))
    text = f"block {block_name(program, block)} of core {program.block_core[block]} {does}"
    message = f"not supported yet: control flow ({text}); nothing of this function is proved"
    return Diagnostic("bad-input", Severity.ERROR, message, (Label(text, span),))


def _branches(program: Program, block: int, targets: list[int]) -> Diagnostic:
    names = ", ".join(block_name(program, target) for target in targets)
    return control_flow(program, block, f"branches to {names}")


# -- loops -----------------------------------------------------------------------------------------------------------


def _nest(program: Program, function: int) -> Nest | Diagnostic:
    """The loops of one core's function; a diagnostic at the first block that has another shape."""
    blocks = block_rows(program, function)
    successors = [[target - blocks.start for target in targets] for targets in _successors(program, blocks)]
    open_loops: list[int] = []
    loops: list[Loop] = []
    paths: list[tuple[int, ...]] = []
    for at, targets in enumerate(successors):
        row = at + blocks.start
        if program.blocks.divergent[row]:
            return control_flow(program, row, "may branch differently on each core")
        if len(targets) == 2 and targets[0] == at + 1 < targets[1] < len(blocks):
            # A header: its loop ends before its second successor, and inside the loop around it.
            if open_loops and targets[1] >= loops[open_loops[-1]].end:
                return _branches(program, row, [target + blocks.start for target in targets])
            open_loops.append(len(loops))
            loops.append(Loop(at, targets[1], int(program.blocks.trip[row]), block_name(program, row)))
            paths.append(tuple(open_loops))
            continue
        paths.append(tuple(open_loops))
        if len(set(targets)) > 1:
            return _branches(program, row, [target + blocks.start for target in targets])
        latch = bool(open_loops) and at + 1 == loops[open_loops[-1]].end
        last = not open_loops and at + 1 == len(blocks)
        wanted = {loops[open_loops[-1]].header} if latch else set() if last else {at + 1}
        if set(targets) != wanted:
            if not targets:
                return control_flow(program, row, "returns, and is not the last block")
            does = "leads back to" if targets[0] <= at else "leads to"
            return control_flow(program, row, f"{does} {block_name(program, targets[0] + blocks.start)}")
        if latch:
            open_loops.pop()
    return Nest(tuple(loops), tuple(paths))


def _difference(program: Program, first: int, second: int, one: Nest, other: Nest) -> Diagnostic | None:
    """Where the blocks of two cores differ, apart from their names."""
    here, there = block_rows(program, first), block_rows(program, second)
    for left, right in zip(one.loops, other.loops, strict=False):
        if left.header != right.header or left.end != right.end or left.trip != right.trip:
            what = "does not run as often as" if left.trip != right.trip else "does not stand where"
            twin = f"loop {left.name} of core {program.function_core[first]}"
            does = f"begins a loop that {what} {twin}" + (" does" if left.trip == right.trip else "")
            return control_flow(program, there[right.header], does)
    if len(here) != len(there) or len(one.loops) != len(other.loops):
        does = f"belongs to a function that has other blocks on core {program.function_core[first]}"
        return control_flow(program, there.start, does)
    return None


def _foreign_waits(program: Program, functions: Sequence[int], nest: Nest) -> Diagnostic | None:
    """A dependence on something that need not have run before."""
    rows = program.dependences
    chosen = np.flatnonzero(np.isin(program.instruction_function[rows.instruction], functions) & ~rows.carried)
    first = np.zeros(len(program.functions), np.int64)
    for function in functions:
        first[function] = block_rows(program, function).start
    ends = []
    for row in (rows.producer[chosen], rows.instruction[chosen]):
        ends.append(program.instructions.block[row] - first[program.instruction_function[row]])
    # Few pairs of blocks, many dependences.
    pairs, which = np.unique(ends[0] * len(nest.paths) + ends[1], return_inverse=True)
    fine = [nest.dominates(*divmod(pair, len(nest.paths))) for pair in pairs.tolist()]
    wrong = ~np.array(fine, bool)[which] | (rows.producer[chosen] >= rows.instruction[chosen])
    if not wrong.any():
        return None
    at = int(chosen[np.flatnonzero(wrong)[0]])
    behind = rows.producer[at] >= rows.instruction[at]
    why = "which stands behind it" if behind else "which stands in a loop that may not have run"
    message = f"it waits for %{format_name(program.instruction_name(int(rows.producer[at])))}, {why}"
    help_text = () if behind else ("wait for an instruction of the loop's header, which waits for it with carried=",)
    label = instruction_label(program, int(rows.instruction[at]))
    return Diagnostic("bad-input", Severity.ERROR, message, (label,), (), help_text)
