"""A run of a function with loops and forks as a program of its own: straight lines, with a copy of a block for each
execution. In the arms of a divergent fork cores have copies of different blocks.

The straight-line proofs then hold for the run. What a copy means:

- A dependence waits for the newest copy of the producer that comes before; a carried one for that of the previous
  iteration of the innermost loop around both, and for nothing in the first, nor when it did not run then.
- A branch is an instruction on a line of its own, `BRANCH`, after each execution of a header or a fork. It reads
  `cond`, waits for its block's writes of it, and all that follows on its core waits for it (`Model.is_branch`).
- A pattern with `step` is moved by its iteration.

Whole columns: a copy is a range of rows taken again, and only blocks are looped over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.paths.control_flow import ControlFlow
from haulout.checker.paths.footprints import Footprints
from haulout.checker.paths.runs import Execution, Run
from haulout.checker.paths.step_trips import Copies, FunctionSteps
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import LINES, NONE
from haulout.ir.program import Program
from haulout.ir.schema import (
    Accesses,
    Barriers,
    Blocks,
    Bools,
    Dependences,
    Ids,
    Instructions,
    Ints,
    Meetings,
    Patterns,
    Semaphores,
    Steps,
)
from haulout.ir.structure import Fork, Loop, Structure
from haulout.ir.verify_operands import pattern_hulls
from haulout.support.diagnostics import Proviso

BRANCH = LINES
"""The line of the branches of a core, after those of the engines."""


@dataclass(slots=True)
class Unrolled:
    """A straight-line program, and where its rows come from."""

    program: Program
    flow: ControlFlow
    run: Run
    origin: Ids
    """Instruction -> the source's, NONE for branches."""
    execution: Ids
    """Instruction -> its place in `run.executions`."""
    block: Ids
    """Instruction -> the source's block."""
    time: Ints
    """Instruction -> its place in the source's order of the run, (iterations, seq); NONE: it has no seq."""
    access_origin: Ids
    """Access -> the source's, NONE for branches."""
    copies: Mapping[int, Copies]
    footprints: Footprints

    @property
    def source(self) -> Program:
        """The program as it is written."""
        return self.flow.program

    @property
    def structure(self) -> Structure:
        """The loops and forks of the source's function."""
        return self.flow.structure

    def branch(self, instruction: int) -> str:
        """What to call a branch."""
        return f"the branch of {self.flow.name(self._at(instruction)[0])}"

    def _at(self, instruction: int) -> Execution:
        return self.run.executions[int(self.execution[instruction])]

    def distance(self, first: int, second: int) -> tuple[int, int, int] | None:
        """The header of the outermost loop around two instructions whose iterations differ, and these iterations;
        None: none.
        """
        (here, ours), (there, theirs) = self._at(first), self._at(second)
        around = (self.structure.loops_around(block) for block in (here, there))
        for loop, other, i, j in zip(*around, ours, theirs, strict=False):
            if loop != other:
                break
            if i != j:
                return self.structure.loops[loop].header, i, j
        return None

    def later(self, first: int, second: int) -> str:
        """When the second of two instructions runs, as seen from the first; empty in the same iterations."""
        found = self.distance(first, second)
        return "" if found is None else self._distance(*found)

    def _distance(self, header: int, i: int, j: int) -> str:
        name = self.flow.name(header)
        if self.copies[header].stepped:
            return f"in iteration {j} of {name}, seen from iteration {i}"
        if abs(j - i) == 1:
            return f"in the {'next' if j > i else 'previous'} iteration of {name}"
        return f"{abs(j - i)} iterations of {name} {'later' if j > i else 'earlier'}"

    def wait(self, first: int, second: int) -> str:
        """Where the second of two instructions of a core can wait for the first: `deps`, `carried`, the `^header` of
        a loop that has ended by then, or `join ^block` after an arm.
        """
        here, there = self._at(first)[0], self._at(second)[0]
        if self.later(first, second):
            return "carried"
        if self.structure.dominates(here, there):
            return "deps"
        region = self.structure.regions[self.structure.left_region(here, there)]
        if isinstance(region, Loop):
            return self.flow.name(region.header)
        return f"join {self.flow.name(self.structure.forks[region.fork].join)}"

    def provisos(
        self, first: int, second: int, matters: Callable[[range], bool], cores: Sequence[int] = ()
    ) -> tuple[Proviso, ...]:
        """What this run assumes between two instructions, one of them NONE for the start: of loops that might have
        run more often, and of forks around neither of the two, when blocks that do not run for it matter. Of
        divergent forks only those of some cores may be named.
        """
        ends = [0 if row == NONE else int(self.execution[row]) for row in (first, second)]
        blocks = [self.run.executions[place][0] for place in ends]
        found: dict[Proviso, None] = {}
        for place, times in self.run.shortened:
            loop = self.structure.loops[self.structure.loop_at[self.run.executions[place][0]]]
            if min(ends) <= place <= max(ends) and matters(range(loop.begin, loop.end)):
                name = self.flow.name(loop.header)
                text = f"the loop at {name} runs {_times(times)}"
                found[Proviso("loop", name, (times,), text)] = None
        for place, arms in self.run.taken:
            fork = self.structure.forks[self.structure.fork_at[self.run.executions[place][0]]]
            inside = any(fork.block < block < fork.join for block in blocks)
            if not min(ends) <= place <= max(ends) or (inside and not fork.divergent):
                continue
            chosen = {arm for core, arm in enumerate(arms) if arm != NONE and (not cores or core in cores)}
            if any(matters(each) for arm, each in enumerate(fork.sides) if chosen - {arm}):
                named = tuple(arm if not cores or core in cores else NONE for core, arm in enumerate(arms))
                name = self.flow.name(fork.block)
                text = f"the branch at {name} takes {self._arms(fork, named)}"
                found[Proviso("branch", name, named, text)] = None
        return tuple(found)

    def _arms(self, fork: Fork, arms: Sequence[int]) -> str:
        """Which arms were taken, in words; NONE is left out."""
        names = [self.flow.name(fork.block + 1), self.flow.name(fork.middle), "no arm"]
        there = {core: arm for core, arm in enumerate(arms) if arm != NONE}
        if len(set(there.values())) == 1:
            return names[next(iter(there.values()))]
        return ", ".join(f"{names[arm]} on core {core}" for core, arm in there.items())


def _times(number: int) -> str:
    return {0: "zero times", 1: "once"}.get(number, f"{number} times")


def unroll(
    flow: ControlFlow, run: Run, steps: FunctionSteps, copies: Mapping[int, Copies], footprints: Footprints
) -> Unrolled:
    """A run of a function."""
    program, layout = flow.program, _Layout(flow, run)
    origin, execution = layout.origin, layout.execution
    branch = origin == NONE
    table = program.instructions if len(program.instructions) else Instructions.make(1)
    rows = table.take(np.where(branch, 0, origin))
    rows.block = np.array(flow.functions, np.int32)[layout.core]
    rows.name[branch] = rows.opcode[branch] = rows.attrs[branch] = rows.loc[branch] = NONE
    rows.seq[branch], rows.engine[branch] = NONE, BRANCH
    rows.text_line[branch] = program.blocks.text_line[layout.block[branch]]

    accesses, access_origin = _accesses(program, layout)
    accesses, patterns = _move(program, layout, steps, copies, accesses, access_origin)
    made = program.replace(
        blocks=Blocks.make(
            len(program.functions), name=program.functions.name, function=np.arange(len(program.functions))
        ),
        edges=program.edges.take(slice(0, 0)),
        instructions=rows,
        accesses=accesses,
        patterns=patterns,
        dependences=_dependences(flow, layout, run),
        barriers=_barriers(program, layout),
        meetings=_again(program.meetings, origin),
        steps=Steps.empty(),
        semaphores=_semaphores(program, layout),
    )
    time = _ranks(flow.structure, run.executions, rows.seq, execution)
    return Unrolled(made, flow, run, origin, execution, layout.block, time, access_origin, copies, footprints)


class _Layout:
    """Where the copies of the blocks are in the run: core after core, execution after execution, branches last."""

    def __init__(self, flow: ControlFlow, run: Run) -> None:
        starts = flow.program.starts("instructions", "blocks")
        first = np.array([rows.start for rows in flow.rows], np.int64)
        cores = len(flow.rows)
        number = np.array([block for block, _ in run.executions], np.int64)
        # [core, execution]: whether the core takes part.
        self.present = np.array([[mask >> core & 1 for mask in run.cores] for core in range(cores)], bool)
        branches = np.isin(number, [*flow.structure.loop_at, *flow.structure.fork_at])
        rows = first[:, None] + number  # of each copy: its block
        size = np.where(self.present, starts[rows + 1] - starts[rows], 0)
        length = size + (branches & self.present)
        flat = length.ravel()
        self.begin = (np.cumsum(flat) - flat).reshape(length.shape)
        """[core, execution]: the first row of the copy."""
        self.origin = join_ranges(starts[rows].ravel(), flat).astype(np.int32)
        self.branches: Ids = (self.begin + size)[length > size].astype(np.int32)
        self.origin[self.branches] = NONE
        self.block = np.repeat(rows.ravel(), flat).astype(np.int32)
        self.execution = np.repeat(np.tile(np.arange(len(number), dtype=np.int32), cores), flat)
        self.core = np.repeat(np.repeat(np.arange(cores), len(number)), flat)
        self.starts, self.number = starts, number
        deepest = max(len(iterations) for _, iterations in run.executions)
        self.iteration = np.zeros((len(number), max(deepest, 1)), np.int64)
        """[execution, depth]: the iteration of the loop at that depth."""
        for at, (_, iterations) in enumerate(run.executions):
            self.iteration[at, : len(iterations)] = iterations


Table = TypeVar("Table", Barriers, Meetings)


def _again(table: Table, origin: Ids) -> Table:
    """The rows of a table that belong to instructions, for each copy of them."""
    row_of = np.full(int(origin.max(initial=0)) + 2, NONE, np.int32)
    known = table.instruction <= int(origin.max(initial=NONE))
    row_of[table.instruction[known]] = np.flatnonzero(known)
    rows = row_of[origin]  # of a branch: the last, which is NONE
    copies = np.flatnonzero(rows != NONE)
    return table.take(rows[copies]).replace(instruction=copies)


def _semaphores(program: Program, layout: _Layout) -> Semaphores:
    """Signals and waits of all copies."""
    if not len(program.semaphores):
        return program.semaphores
    starts = program.starts("semaphores", "instructions")
    source = np.maximum(layout.origin, 0)
    count = np.where(layout.origin == NONE, 0, starts[source + 1] - starts[source])
    rows = program.semaphores.take(join_ranges(starts[source], count))
    return rows.replace(instruction=np.repeat(np.arange(len(count), dtype=np.int32), count))


def _barriers(program: Program, layout: _Layout) -> Barriers:
    table = _again(program.barriers, layout.origin)
    # An index is a place in the text: later copies have none.
    _, first = np.unique(layout.origin[table.instruction], return_index=True)
    index = np.full(len(table), NONE, np.int64)
    index[first] = table.index[first]
    return table.replace(index=index)


def _ranks(structure: Structure, executions: Sequence[Execution], seq: Ints, execution: Ids) -> Ints:
    """Rank by (iterations, seq): blocks of the same iterations that follow each other share their `seq` axis."""
    context = [(structure.loops_around(block), iterations) for block, iterations in executions]
    segment = np.cumsum([0, *(one != other for one, other in pairwise(context))])
    key = segment[execution]
    timed = np.flatnonzero(seq != NONE)
    order = timed[np.lexsort((seq[timed], key[timed]))]
    rises = np.append(True, (np.diff(key[order]) != 0) | (np.diff(seq[order]) != 0))[: len(order)]
    time = np.full(len(seq), NONE, np.int64)
    time[order] = np.cumsum(rises) - 1
    return time


# -- operands --------------------------------------------------------------------------------------------------------


def _accesses(program: Program, layout: _Layout) -> tuple[Accesses, Ids]:
    """The operands of all copies, and where they come from; a branch reads `cond`."""
    starts, branch = np.append(program.access_starts, len(program.accesses)), layout.origin == NONE
    cond = program.blocks.cond[layout.block]
    source = np.where(branch, 0, layout.origin)
    count = np.where(branch, cond != NONE, starts[source + 1] - starts[source])
    rows = join_ranges(starts[source], count).astype(np.int32)
    instruction = np.repeat(np.arange(len(branch), dtype=np.int32), count)
    read = branch[instruction]
    if len(program.accesses) == 0:
        program = program.replace(accesses=Accesses.make(1))
    accesses = program.accesses.take(np.where(read, 0, rows)).replace(instruction=instruction)
    accesses.location[read] = cond[instruction[read]]
    accesses.pattern[read] = NONE
    for mark in (accesses.write, accesses.atomic, accesses.maybe):
        mark[read] = False
    return accesses, np.where(read, NONE, rows).astype(np.int32)


def _move(
    program: Program,
    layout: _Layout,
    steps: FunctionSteps,
    copies: Mapping[int, Copies],
    accesses: Accesses,
    origin: Ids,
) -> tuple[Accesses, Patterns]:
    """The operands with their patterns moved by the iteration, and the patterns with those that this needs."""
    read = np.flatnonzero(origin == NONE)
    item = _item_sizes(program, accesses.location[read])
    sizes = np.unique(item[item != NONE])
    patterns = program.patterns.append(Patterns.make(len(sizes), run=sizes))
    accesses.pattern[read] = np.where(item == NONE, NONE, len(program.patterns) + np.searchsorted(sizes, item))
    if len(steps.access) == 0:
        return accesses, patterns

    # Join the steps with the copies of their operands.
    copy, step = steps.of(origin)
    iteration = layout.iteration[layout.execution[accesses.instruction[copy]], steps.depth[step]]
    guess = np.zeros(len(accesses), bool)
    guess[copy] = np.isin(steps.header[step], [header for header, each in copies.items() if each.unknown])
    shift = np.where(guess, 0, steps.shifts(step, iteration, copy, len(accesses)))
    size = program.locations.size[accesses.location]
    accesses.pattern, patterns, outside = shifted(program, patterns, accesses.pattern, shift, size)
    accesses.pattern[guess | outside] = len(patterns)
    return accesses, patterns.append(Patterns.make(1, run=NONE))


def shifted(
    program: Program, patterns: Patterns, pattern: Ids, shift: Ints, size: Ints
) -> tuple[Ids, Patterns, Bools]:
    """The patterns of some operands so many bytes later, those and more as a table, and which operands then leave
    their locations, of so many bytes. `patterns` are those of the program, and perhaps more.
    """
    moved = np.flatnonzero(shift != 0)
    outside = np.zeros(len(pattern), bool)
    # An operand of the whole location cannot move, unless its loop ends first.
    whole = pattern[moved] == NONE
    outside[moved[whole]] = True
    moved = moved[~whole]
    keys, which = np.unique(np.stack([pattern[moved], shift[moved]]), axis=1, return_inverse=True)
    rows, which = patterns.take(keys[0]), which.ravel()
    rows.offset = np.where(rows.run != NONE, rows.offset + keys[1], 0)
    low, high = pattern_hulls(program, rows)
    outside[moved] = (low[which] < 0) | (high[which] > size[moved])
    pattern = pattern.copy()
    pattern[moved] = len(patterns) + which
    return pattern, patterns.append(rows), outside


def _item_sizes(program: Program, locations: Ids) -> Ints:
    """Bytes of the first element of locations; NONE where that is the whole location, or not known."""
    used, which = np.unique(locations, return_inverse=True)
    sizes = np.full(len(used), NONE, np.int64)
    for at, location in enumerate(used.tolist()):
        dtype = program.strings.get(int(program.locations.dtype[location]))
        if dtype is not None and itemsize(dtype) < program.locations.size[location]:
            sizes[at] = itemsize(dtype)
    return sizes[which.ravel()]


# -- dependences -----------------------------------------------------------------------------------------------------


def _dependences(flow: ControlFlow, layout: _Layout, run: Run) -> Dependences:
    """What each copy waits for, branches included."""
    program, rows = flow.program, flow.program.dependences
    function = program.instruction_function[rows.instruction]
    parts = []
    for core, blocks in enumerate(flow.rows):
        mine = np.flatnonzero(function == flow.functions[core])
        of, by = (flow.block[row[mine]].astype(np.int64) for row in (rows.producer, rows.instruction))
        key = (of * len(blocks) + by) * 2 + rows.carried[mine]
        keys, which = np.unique(key, return_inverse=True)
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(len(keys) + 1))
        for at, packed in enumerate(keys.tolist()):
            pair, carried = divmod(packed, 2)
            first, second = divmod(pair, len(blocks))
            copies = _carried(flow, run, core, first, second) if carried else _newest(layout, core, first, second)
            if not len(copies):
                continue
            edges = mine[order[cuts[at] : cuts[at + 1]]]
            ends = []
            for block, row, side in ((first, rows.producer, 0), (second, rows.instruction, 1)):
                offset = row[edges] - layout.starts[blocks.start + block]
                ends.append((layout.begin[core, copies[:, side]][:, None] + offset).ravel())
            parts.append(np.stack(ends))
    parts.append(_branch_waits(program, layout))
    producer, consumer = np.concatenate(parts, axis=1)
    order = np.argsort(consumer, kind="stable")
    return Dependences.make(len(order), producer=producer[order], instruction=consumer[order])


def _newest(layout: _Layout, core: int, first: int, second: int) -> Ints:
    """(Newest copy of one block before it or itself, copy of another), for each copy of the other on a core."""
    copies = np.flatnonzero((layout.number == second) & layout.present[core])
    candidates = np.flatnonzero((layout.number == first) & layout.present[core])
    if not len(copies):
        return np.zeros((0, 2), np.int64)
    return np.stack([candidates[np.searchsorted(candidates, copies, "right") - 1], copies], axis=1)


def _carried(flow: ControlFlow, run: Run, core: int, first: int, second: int) -> Ints:
    """(Last copy of one block in the previous iteration, copy of another), where a core has one."""
    common = flow.structure.common_loop(first, second)
    if common == NONE:
        return np.zeros((0, 2), np.int64)
    depth = len(flow.structure.loops_around(flow.structure.loops[common].header))
    mine = [at for at, mask in enumerate(run.cores) if mask >> core & 1]
    last = {run.executions[at][1][:depth]: at for at in mine if run.executions[at][0] == first}
    found = []
    for at in mine:
        block, iterations = run.executions[at]
        if block == second:
            before = last.get((*iterations[: depth - 1], iterations[depth - 1] - 1))
            if before is not None:
                found.append((before, at))
    return np.array(found, np.int64).reshape(-1, 2)


def _branch_waits(program: Program, layout: _Layout) -> Ints:
    """The writes of `cond` that each branch waits for: those of the header, in the same copy."""
    accesses, owner = program.accesses, np.append(program.owner, NONE)
    block = layout.block[layout.branches]
    cond = owner[program.blocks.cond[block]]
    begin, end = layout.starts[block], layout.starts[block + 1]
    first = layout.begin[layout.core[layout.branches], layout.execution[layout.branches]]
    # The accesses of each branch's block.
    rows = np.append(program.access_starts, len(accesses))
    size = rows[end] - rows[begin]
    which, access = np.repeat(np.arange(len(block)), size), join_ranges(rows[begin], size)
    kept = accesses.write[access] & (owner[accesses.location[access]] == cond[which]) & (cond[which] != NONE)
    which, instruction = which[kept], accesses.instruction[access[kept]]
    new = np.append(True, (which[1:] != which[:-1]) | (instruction[1:] != instruction[:-1]))[: len(which)]
    which, instruction = which[new], instruction[new]
    found: Ints = np.stack([first[which] + instruction - begin[which], layout.branches[which]])
    return found
