"""How the blocks of a function run: one after the other, or as properly nested loops and branches.

A function whose blocks have no more than one successor is a *chain*, in whatever order they are laid out. Otherwise
its blocks in layout order must be a sequence of straight blocks, loops and branches, nested properly:

    ^header -> ^body, ^behind       a loop: the first block of its body, the block right behind its last one; the last
    ^body ... -> ^header            block leads back. The header belongs to its loop and runs once more than the body.

    ^fork -> ^then, ^else           a branch: two arms, the last block of each leads to the join, which is laid out
    ^then ... -> ^join              right behind the second; without a second arm the fork itself leads there. Fork
    ^else ... -> ^join              and join belong to what is around. `divergent`: each core takes its own arm.
    ^join

All cores have the same blocks; where no fork diverges they take the same arms and iterations. Everything else is said
to be not supported, with the block and its place.

In a nest a block is named by its number in its function. *Around* it are regions, outermost first: loops, its own for
a header, and arms. A block dominates those behind it that stand in all the regions around it; a header dominates what
stands behind its loop too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, place
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Label, Severity

MOST_DEPTH = 200
"""Loops and branches in each other."""
Region = tuple[int, int]
"""A loop, by its number, and NONE; or a fork, by its number, and which of its arms: 0 or 1."""


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
class Fork:
    """Arms `block + 1:middle`, taken when `cond` is not zero, and `middle:join`, which may have no block."""

    block: int
    middle: int
    join: int
    divergent: bool
    names: tuple[str, str, str, str]
    """`^fork`, its two successors, `^join`, as the format writes them."""

    @property
    def arms(self) -> tuple[range, range]:
        """The blocks of both arms."""
        return range(self.block + 1, self.middle), range(self.middle, self.join)


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops and forks of a function, equal on all cores, and the regions around each of its blocks."""

    loops: tuple[Loop, ...]
    """In layout order, so outer before inner."""
    forks: tuple[Fork, ...]
    """In layout order."""
    around: tuple[tuple[Region, ...], ...]
    paths: tuple[tuple[int, ...], ...]
    """Of each block, the loops around it."""
    headers: dict[int, int]
    """Header -> its loop."""
    forking: dict[int, int]
    """Block that forks -> its fork."""

    @property
    def shape(self) -> object:
        """All but the names."""
        loops = tuple((loop.header, loop.end, loop.trip) for loop in self.loops)
        forks = tuple((fork.block, fork.middle, fork.join, fork.divergent) for fork in self.forks)
        return loops, forks, self.around

    def dominates(self, producer: int, consumer: int) -> bool:
        """Whether one block has always run before another one runs."""
        around = self.around[producer]
        if producer in self.headers:
            around = around[:-1]
        return producer <= consumer and self.around[consumer][: len(around)] == around

    def may_miss(self, producer: int, consumer: int) -> int:
        """The innermost loop around two blocks, when the first one need not run in each of its iterations; else NONE:
        then a `carried` may find nothing to wait for.
        """
        common = [one for one, other in zip(self.paths[producer], self.paths[consumer], strict=False) if one == other]
        if not common:
            return NONE
        around = self.around[producer]
        inside = around[around.index((common[-1], NONE)) + 1 :]
        if producer in self.headers and inside:
            inside = inside[:-1]
        runs = all(arm == NONE and self.loops[number].trip > 0 for number, arm in inside)
        return NONE if runs else common[-1]

    def opposite(self, one: int, other: int) -> bool:
        """Whether two blocks stand in different arms of one divergent fork."""
        for here, there in zip(self.around[one], self.around[other], strict=False):
            if here != there:
                return here[0] == there[0] and NONE not in (here[1], there[1]) and self.forks[here[0]].divergent
        return False


def find_nest(program: Program, functions: Sequence[int]) -> Nest | Diagnostic | None:
    """The loops and branches of a function, given by its rows on all cores; None for chains."""
    if not any(isinstance(chain(program, function), Diagnostic) for function in functions):
        return None
    try:
        nests = [_Finder(program, function).nest() for function in functions]
        for function, nest in zip(functions, nests, strict=True):
            _compare(program, functions[0], function, nests[0], nest)
    except _RefusedError as refused:
        return refused.diagnostic
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
        if len(targets) > 1:
            return control_flow(program, at, "it branches")
        if targets[0] in seen:
            return control_flow(program, at, f"it leads back to {block_name(program, targets[0])}")
        at = targets[0]
    missed = next((block for block in blocks if block not in seen), None)
    if missed is not None:
        return control_flow(program, missed, "it is not reached")
    rows = program.blocks
    marked = (rows.cond[found] != NONE) | (rows.trip[found] != NONE) | rows.divergent[found]
    if marked.any():
        return control_flow(program, found[int(np.argmax(marked))], "cond, trip and divergent belong to a branch")
    return found


def _successors(program: Program, blocks: range) -> list[list[int]]:
    """The successors of each block, as rows."""
    cuts = np.searchsorted(program.edges.source, np.arange(blocks.start, blocks.stop + 1)).tolist()
    return [program.edges.target[begin:end].tolist() for begin, end in pairwise(cuts)]


def control_flow(program: Program, block: int, why: str) -> Diagnostic:
    """`bad-input`: a block that is not understood."""
    name = block_name(program, block)
    span = place(program, NONE, int(program.blocks.text_line[block]))
    message = f"control flow of this form is not supported: block {name}: {why}; nothing of this function is proved"
    label = Label(f"{name} on core {program.block_core[block]}", span)
    return Diagnostic("bad-input", Severity.ERROR, message, (label,))


# -- loops and branches ----------------------------------------------------------------------------------------------


class _RefusedError(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Finder:
    """The nest of one core's function, by recursion over what contains what; block numbers count from its first."""

    def __init__(self, program: Program, function: int) -> None:
        self.program, self.blocks = program, block_rows(program, function)
        first = self.blocks.start
        self.successors = [[target - first for target in each] for each in _successors(program, self.blocks)]
        self.loops: list[Loop] = []
        self.forks: list[Fork | None] = []
        self.around: list[tuple[Region, ...]] = [()] * len(self.blocks)

    def nest(self) -> Nest:
        """The nest; raises where a block does not fit it."""
        self.sequence(0, len(self.blocks), NONE, (), "")
        forks = tuple(fork for fork in self.forks if fork is not None)
        paths = tuple(tuple(number for number, arm in each if arm == NONE) for each in self.around)
        return Nest(
            tuple(self.loops),
            forks,
            tuple(self.around),
            paths,
            {loop.header: number for number, loop in enumerate(self.loops)},
            {fork.block: number for number, fork in enumerate(forks)},
        )

    def sequence(self, begin: int, end: int, leads_to: int, around: tuple[Region, ...], what: str) -> None:
        """Blocks `begin:end`; the last one leads to `leads_to`, which is `what` (NONE: it returns)."""
        if len(around) > MOST_DEPTH:
            self.refuse(begin, f"more than {MOST_DEPTH} loops and branches stand around it")
        at = begin
        while at < end:
            targets = self.successors[at]
            if len(targets) == 2:
                inside = at + 1 < targets[1] <= end
                closed = inside and self.successors[targets[1] - 1] == [at]
                at = self.loop(at, targets, end, around) if closed else self.branch(at, targets, end, around)
                continue
            if len(targets) > 2:
                self.refuse(at, "it has more than two successors")
            self.around[at] = around
            row, blocks = at + self.blocks.start, self.program.blocks
            if blocks.cond[row] != NONE or blocks.trip[row] != NONE:
                self.refuse(at, "cond and trip belong to a block with two successors")
            if blocks.divergent[row]:
                self.refuse(at, "divergent belongs to a block with two successors")
            wanted = at + 1 if at + 1 < end else leads_to
            if targets != ([] if wanted == NONE else [wanted]):
                if wanted == NONE:
                    self.refuse(at, "the last block of a function leads to another one")
                if not targets:
                    self.refuse(at, "the function returns before its last block")
                self.refuse(
                    at, f"it does not lead to {self.name(wanted)}, the {what if wanted == leads_to else 'next block'}"
                )
            at += 1

    def loop(self, header: int, targets: list[int], end: int, around: tuple[Region, ...]) -> int:
        """A loop; the block behind it."""
        row, blocks = header + self.blocks.start, self.program.blocks
        body, behind = targets
        if blocks.cond[row] == NONE:
            self.refuse(header, "it has two successors and no cond")
        if blocks.divergent[row]:
            self.refuse(header, "the trips of a loop may not differ between cores")
        if body != header + 1:
            self.refuse(header, "the first successor of a loop's header must be the next block")
        if behind >= end:
            self.refuse(header, "no block stands behind its loop in what is around it; an empty one will do")
        inside = (*around, (len(self.loops), NONE))
        self.loops.append(Loop(header, behind, int(blocks.trip[row]), self.name(header)))
        self.around[header] = inside
        self.sequence(body, behind, header, inside, "header of its loop")
        return behind

    def branch(self, fork: int, targets: list[int], end: int, around: tuple[Region, ...]) -> int:
        """A branch; its join."""
        row, blocks = fork + self.blocks.start, self.program.blocks
        first, second = targets
        if blocks.cond[row] == NONE:
            self.refuse(fork, "it has two successors and no cond")
        if blocks.trip[row] != NONE:
            self.refuse(fork, "trip belongs to the header of a loop")
        if first != fork + 1 or second <= first:
            self.refuse(fork, "its first successor must be the next block, and its second one a block behind that")
        leave = self.successors[second - 1]
        join = leave[0] if len(leave) == 1 else NONE
        if not second <= join < end:
            self.refuse(fork, "its arms do not meet in a block of what is around it; an empty one will do")
        self.around[fork] = around
        number = len(self.forks)
        names = (self.name(fork), self.name(first), self.name(second), self.name(join))
        self.forks.append(Fork(fork, second, join, bool(blocks.divergent[row]), names))
        for arm, (begin, stop) in enumerate(((first, second), (second, join))):
            self.sequence(begin, stop, join, (*around, (number, arm)), "join of its branch")
        following = self.successors[join]
        if len(following) == 2 and join + 1 < following[1] and self.successors[following[1] - 1] == [join]:
            self.refuse(join, "it is the join of a branch and the header of a loop; put an empty block between")
        return join

    def name(self, block: int) -> str:
        """`^name` of a block."""
        return block_name(self.program, block + self.blocks.start)

    def refuse(self, block: int, why: str) -> NoReturn:
        """Stop at a block."""
        raise _RefusedError(control_flow(self.program, block + self.blocks.start, why))


def _compare(program: Program, first: int, second: int, one: Nest, other: Nest) -> None:
    """Where the blocks of two cores differ, apart from their names."""
    here, there = block_rows(program, first), block_rows(program, second)
    core = program.function_core[first]
    for left, right in zip(one.loops, other.loops, strict=False):
        if left.header != right.header or left.end != right.end or left.trip != right.trip:
            twin = f"loop {left.name} of core {core}"
            why = f"its loop does not stand where {twin} does"
            if left.trip != right.trip:
                why = f"its loop does not run as often as {twin}"
            raise _RefusedError(control_flow(program, there[right.header], why))
    for fork, twin_fork in zip(one.forks, other.forks, strict=False):
        shapes = [(each.block, each.middle, each.join, each.divergent) for each in (fork, twin_fork)]
        if shapes[0] != shapes[1]:
            why = f"its branch is not the one at {fork.names[0]} of core {core}"
            raise _RefusedError(control_flow(program, there[twin_fork.block], why))
    if one.around != other.around:
        raise _RefusedError(control_flow(program, there.start, f"its function has other blocks on core {core}"))
    if len(here) != len(there):
        raise _RefusedError(control_flow(program, there.start, f"its function has other blocks on core {core}"))


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
    at = int(np.flatnonzero(wrong)[0])
    producer, consumer = int(rows.producer[chosen[at]]), int(rows.instruction[chosen[at]])
    why = "which stands behind it"
    help_text: tuple[str, ...] = ()
    if producer < consumer:
        why, help_text = _left(nest, int(ends[0][at]), int(ends[1][at]))
    message = f"it waits for %{format_name(program.instruction_name(producer))}, {why}"
    label = instruction_label(program, consumer)
    return Diagnostic("bad-input", Severity.ERROR, message, (label,), (), help_text)


def left_region(nest: Nest, producer: int, consumer: int) -> Region:
    """The outermost region around one block that is not around another one."""
    here, there = nest.around[producer], nest.around[consumer]
    return next(region for at, region in enumerate(here) if there[at : at + 1] != (region,))


def _left(nest: Nest, producer: int, consumer: int) -> tuple[str, tuple[str, ...]]:
    """Why a block need not have run, and what to wait for instead."""
    number, arm = left_region(nest, producer, consumer)
    if arm == NONE:
        return (
            "which stands in a loop that may not have run",
            ("wait for an instruction of the loop's header, which waits for it with carried=",),
        )
    fork = nest.forks[number]
    return (
        f"which stands in an arm of the branch at {fork.names[0]} that may not have been taken",
        (f"wait for a nop at the start of {fork.names[3]}; one at the end of the arm on its engine waits for it",),
    )
