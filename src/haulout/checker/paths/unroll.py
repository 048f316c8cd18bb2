"""A run of a function with loops and branches as a program of its own: straight lines, with a copy of a block for
each execution. Behind a divergent fork cores have copies of other blocks.

The straight-line proofs then hold for the run. What a copy means:

- A dependence waits for the newest copy of the producer that comes before; a carried one for that of the previous
  iteration of the innermost loop around both, and for nothing in the first, nor when it did not run then.
- A branch is an instruction on a line of its own, `BRANCH`, behind each execution of a header or a fork. It reads
  `cond`, waits for its block's writes of it, and whatever follows on its core waits for it (`Model.is_branch`).
- A pattern with `step` stands where the iteration takes it.

Whole columns: a copy is a range of rows taken again, and only blocks are looped over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from haulout.checker.columns import stretched
from haulout.checker.paths.footprints import Footprints
from haulout.checker.paths.loops import Fork, Nest, block_rows, left_region
from haulout.checker.paths.runs import Execution, Run
from haulout.checker.paths.step_trips import Copies, Moves
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import LINES, NONE
from haulout.ir.program import Program
from haulout.ir.schema import (
    Accesses,
    Barriers,
    Blocks,
    Dependences,
    Ids,
    Instructions,
    Ints,
    Meetings,
    Patterns,
    Semaphores,
    Steps,
)
from haulout.support.diagnostics import Proviso

BRANCH = LINES
"""The line of the branches of a core, behind those of the engines."""


@dataclass(slots=True)
class Unrolled:
    """A straight-line program, and where its rows come from."""

    program: Program
    source: Program
    nest: Nest
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
    stepped: tuple[bool, ...]
    """Loops whose iterations differ."""
    footprints: Footprints

    def branch(self, instruction: int) -> str:
        """What to call a branch."""
        block, _ = self.run.executions[int(self.execution[instruction])]
        if block in self.nest.forking:
            return f"the branch of {self.nest.forks[self.nest.forking[block]].names[0]}"
        return f"the branch of {self.nest.loops[self.nest.headers[block]].name}"

    def distance(self, first: int, second: int) -> tuple[int, int, int] | None:
        """The outermost loop around two instructions whose iterations differ, and these iterations; None: none."""
        here, there = (self.run.executions[int(self.execution[row])] for row in (first, second))
        path, other = self.nest.paths[here[0]], self.nest.paths[there[0]]
        for loop, twin, i, j in zip(path, other, here[1], there[1], strict=False):
            if loop != twin:
                break
            if i != j:
                return loop, i, j
        return None

    def later(self, first: int, second: int) -> str:
        """When the second of two instructions runs, as seen from the first; empty in the same iterations."""
        found = self.distance(first, second)
        return "" if found is None else self._distance(*found)

    def _distance(self, loop: int, i: int, j: int) -> str:
        name = self.nest.loops[loop].name
        if self.stepped[loop]:
            return f"in iteration {j} of {name}, seen from iteration {i}"
        if abs(j - i) == 1:
            return f"in the {'next' if j > i else 'previous'} iteration of {name}"
        return f"{abs(j - i)} iterations of {name} {'later' if j > i else 'earlier'}"

    def wait(self, first: int, second: int) -> str:
        """Where a wait of the second of two instructions of a core for the first can stand: `deps`, `carried`, the
        `^header` of a loop that is over by then, or `join ^block` behind an arm.
        """
        here, there = (self.run.executions[int(self.execution[row])] for row in (first, second))
        if self.later(first, second):
            return "carried"
        if self.nest.dominates(here[0], there[0]):
            return "deps"
        number, arm = left_region(self.nest, here[0], there[0])
        return self.nest.loops[number].name if arm == NONE else f"join {self.nest.forks[number].names[3]}"

    def provisos(
        self, first: int, second: int, matters: Callable[[range], bool], cores: Sequence[int] = ()
    ) -> tuple[Proviso, ...]:
        """What this run supposes between two instructions, one of them NONE for the start: of loops that might have
        run more often, and of forks around neither of the two, when blocks that do not run for it matter. Of forks
        that diverge only some cores may be told.
        """
        ends = [0 if row == NONE else int(self.execution[row]) for row in (first, second)]
        blocks = [self.run.executions[place][0] for place in ends]
        found: dict[Proviso, None] = {}
        for place, times in self.run.shortened:
            loop = self.nest.loops[self.nest.headers[self.run.executions[place][0]]]
            if min(ends) <= place <= max(ends) and matters(range(loop.header, loop.end)):
                text = f"the loop at {loop.name} runs {_times(times)}"
                found[Proviso("loop", loop.name, (times,), text)] = None
        for place, arms in self.run.taken:
            fork = self.nest.forks[self.nest.forking[self.run.executions[place][0]]]
            inside = any(fork.block < block < fork.join for block in blocks)
            if not min(ends) <= place <= max(ends) or (inside and not fork.divergent):
                continue
            chosen = {arm for core, arm in enumerate(arms) if arm != NONE and (not cores or core in cores)}
            if any(matters(each) for arm, each in enumerate(fork.arms) if chosen - {arm}):
                told = tuple(arm if not cores or core in cores else NONE for core, arm in enumerate(arms))
                text = f"the branch at {fork.names[0]} takes {told_arms(fork, arms, cores)}"
                found[Proviso("branch", fork.names[0], told, text)] = None
        return tuple(found)


def told_arms(fork: Fork, arms: Sequence[int], cores: Sequence[int] = ()) -> str:
    """Which arms were taken, in words; by some cores only, when they are given."""
    names = [fork.names[1], fork.names[2], "no arm"]
    there = {core: arm for core, arm in enumerate(arms) if arm != NONE and (not cores or core in cores)}
    if len(set(there.values())) == 1:
        return names[next(iter(there.values()))]
    return ", ".join(f"{names[arm]} on core {core}" for core, arm in there.items())


def _times(number: int) -> str:
    return {0: "zero times", 1: "once"}.get(number, f"{number} times")


def unroll(
    program: Program,
    functions: Sequence[int],
    nest: Nest,
    run: Run,
    moves: Moves,
    copies: Sequence[Copies],
    footprints: Footprints,
) -> Unrolled:
    """The run of a function, given by its rows on all cores."""
    layout = _Layout(program, functions, nest, run)
    origin, execution = layout.origin, layout.execution
    branch = origin == NONE
    table = program.instructions if len(program.instructions) else Instructions.make(1)
    rows = table.take(np.where(branch, 0, origin))
    rows.block = np.array(functions, np.int32)[layout.core]
    rows.name[branch] = rows.opcode[branch] = rows.attrs[branch] = rows.loc[branch] = NONE
    rows.seq[branch], rows.engine[branch] = NONE, BRANCH
    rows.text_line[branch] = program.blocks.text_line[layout.block[branch]]

    accesses, access_origin = _accesses(program, layout)
    accesses, patterns = _move(program, layout, moves, copies, accesses, access_origin)
    made = program.replace(
        blocks=Blocks.make(
            len(program.functions), name=program.functions.name, function=np.arange(len(program.functions))
        ),
        edges=program.edges.take(slice(0, 0)),
        instructions=rows,
        accesses=accesses,
        patterns=patterns,
        dependences=_dependences(program, layout, nest, run),
        barriers=_barriers(program, layout),
        meetings=_again(program.meetings, origin),
        steps=Steps.empty(),
        semaphores=_semaphores(program, layout),
    )
    time = _ranks(nest, run.executions, rows.seq, execution)
    stepped = tuple(each.stepped for each in copies)
    return Unrolled(
        made, program, nest, run, origin, execution, layout.block, time, access_origin, stepped, footprints
    )


class _Layout:
    """Where the copies of the blocks stand in the run: core after core, execution after execution, branches last."""

    def __init__(self, program: Program, functions: Sequence[int], nest: Nest, run: Run) -> None:
        starts = program.starts("instructions", "blocks")
        self.blocks = [block_rows(program, function) for function in functions]
        first = np.array([rows.start for rows in self.blocks], np.int64)
        cores = len(functions)
        number = np.array([block for block, _ in run.executions], np.int64)
        # [core, execution]: whether the core takes part.
        self.present = np.array([[mask >> core & 1 for mask in run.cores] for core in range(cores)], bool)
        branches = np.isin(number, [*nest.headers, *nest.forking])
        rows = first[:, None] + number  # of each copy: its block
        size = np.where(self.present, starts[rows + 1] - starts[rows], 0)
        length = size + (branches & self.present)
        flat = length.ravel()
        self.begin = (np.cumsum(flat) - flat).reshape(length.shape)
        """[core, execution]: the first row of the copy."""
        self.origin = stretched(starts[rows].ravel(), flat).astype(np.int32)
        self.branches: Ids = (self.begin + size)[length > size].astype(np.int32)
        self.origin[self.branches] = NONE
        self.block = np.repeat(rows.ravel(), flat).astype(np.int32)
        self.execution = np.repeat(np.tile(np.arange(len(number), dtype=np.int32), cores), flat)
        self.core = np.repeat(np.repeat(np.arange(cores), len(number)), flat)
        self.starts, self.first, self.number = starts, first, number
        deepest = max(len(path) for _, path in run.executions)
        self.iteration = np.zeros((len(number), max(deepest, 1)), np.int64)
        """[execution, depth]: the iteration of the loop at that depth of its path."""
        for at, (_, path) in enumerate(run.executions):
            self.iteration[at, : len(path)] = path


Said = TypeVar("Said", Barriers, Meetings)


def _again(table: Said, origin: Ids) -> Said:
    """The rows of a table that say something of instructions, for each copy of them."""
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
    rows = program.semaphores.take(stretched(starts[source], count))
    return rows.replace(instruction=np.repeat(np.arange(len(count), dtype=np.int32), count))


def _barriers(program: Program, layout: _Layout) -> Barriers:
    table = _again(program.barriers, layout.origin)
    # An index is a place in the text: it says nothing of later copies.
    _, first = np.unique(layout.origin[table.instruction], return_index=True)
    index = np.full(len(table), NONE, np.int64)
    index[first] = table.index[first]
    return table.replace(index=index)


def _ranks(nest: Nest, executions: Sequence[Execution], seq: Ints, execution: Ids) -> Ints:
    """Rank by (iterations, seq): blocks of the same iterations that follow each other share their `seq` axis."""
    context = [(nest.paths[block], path) for block, path in executions]
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
    rows = stretched(starts[source], count).astype(np.int32)
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
    moves: Moves,
    copies: Sequence[Copies],
    accesses: Accesses,
    origin: Ids,
) -> tuple[Accesses, Patterns]:
    """The operands where the iteration takes their patterns, and the patterns with those that this needs."""
    read = np.flatnonzero(origin == NONE)
    item = _item_sizes(program, accesses.location[read])
    sizes = np.unique(item[item != NONE])
    patterns = program.patterns.append(Patterns.make(len(sizes), run=sizes))
    accesses.pattern[read] = np.where(item == NONE, NONE, len(program.patterns) + np.searchsorted(sizes, item))
    if len(moves.access) == 0:
        return accesses, patterns

    # Join the steps with the copies of their operands.
    order = np.argsort(origin, kind="stable")
    begin, end = (np.searchsorted(origin[order], moves.access, side) for side in ("left", "right"))
    step = np.repeat(np.arange(len(moves.access)), end - begin)
    copy = order[stretched(begin, end - begin)]
    iteration = layout.iteration[layout.execution[accesses.instruction[copy]], moves.depth[step]]
    modulus = moves.modulus[step]
    turns = np.where(modulus > 0, (iteration + moves.phase[step]) % np.maximum(modulus, 1), iteration)
    shift = np.zeros(len(accesses), np.int64)
    np.add.at(shift, copy, moves.stride[step] * turns)
    guess = np.zeros(len(accesses), bool)
    guess[copy] = np.array([each.unknown for each in copies], bool)[moves.loop[step]]
    moved = np.flatnonzero((shift != 0) & ~guess)
    # An operand of the whole location has nowhere to go, unless its loop stops first.
    whole = accesses.pattern[moved] == NONE
    guess[moved[whole]] = True
    moved = moved[~whole]
    keys, which = np.unique(np.stack([accesses.pattern[moved], shift[moved]]), axis=1, return_inverse=True)
    rows = patterns.take(keys[0])
    known = rows.run != NONE
    rows.offset = np.where(known, rows.offset + keys[1], 0)
    accesses.pattern[moved] = len(patterns) + which.ravel()
    patterns = patterns.append(rows)
    low, high = (np.append(column, 0) for column in _hulls(program, patterns))
    size = program.locations.size[accesses.location]
    guess |= (low[accesses.pattern] < 0) | (high[accesses.pattern] > size)
    accesses.pattern[guess] = len(patterns)
    return accesses, patterns.append(Patterns.make(1, run=NONE))


def _item_sizes(program: Program, locations: Ids) -> Ints:
    """Bytes of the first element of locations; NONE where that is the whole location, or not known."""
    used, which = np.unique(locations, return_inverse=True)
    sizes = np.full(len(used), NONE, np.int64)
    for at, location in enumerate(used.tolist()):
        dtype = program.strings.get(int(program.locations.dtype[location]))
        if dtype is not None and itemsize(dtype) < program.locations.size[location]:
            sizes[at] = itemsize(dtype)
    return sizes[which.ravel()]


def _hulls(program: Program, patterns: Patterns) -> tuple[Ints, Ints]:
    """First byte and byte behind the last of every pattern; 0 and 0 of `?`."""
    reach = program.dims.stride * (program.dims.count - 1)
    below, above = (np.append(0, np.cumsum(part)) for part in (np.minimum(reach, 0), np.maximum(reach, 0)))
    low = patterns.offset + below[patterns.dim_end] - below[patterns.dim_begin]
    high = patterns.offset + above[patterns.dim_end] - above[patterns.dim_begin] + patterns.run
    unknown = patterns.run == NONE
    return np.where(unknown, 0, low), np.where(unknown, 0, high)


# -- dependences -----------------------------------------------------------------------------------------------------


def _dependences(program: Program, layout: _Layout, nest: Nest, run: Run) -> Dependences:
    """What each copy waits for, branches included."""
    rows = program.dependences
    function = program.instruction_function[rows.instruction]
    parts = []
    for core, blocks in enumerate(layout.blocks):
        owner = program.blocks.function[blocks.start] if len(blocks) else NONE
        mine = np.flatnonzero(function == owner)
        producer, consumer = rows.producer[mine], rows.instruction[mine]
        of, by = (program.instructions.block[row] - blocks.start for row in (producer, consumer))
        key = (of * len(blocks) + by) * 2 + rows.carried[mine]
        keys, which = np.unique(key, return_inverse=True)
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(len(keys) + 1))
        for at, packed in enumerate(keys.tolist()):
            pair, carried = divmod(packed, 2)
            first, second = divmod(pair, len(blocks))
            copies = _carried(nest, run, core, first, second) if carried else _newest(layout, core, first, second)
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


def _carried(nest: Nest, run: Run, core: int, first: int, second: int) -> Ints:
    """(Last copy of one block in the previous iteration, copy of another), where a core has one."""
    if run.forgets and nest.may_miss(first, second) != NONE:
        return np.zeros((0, 2), np.int64)
    depth = 0  # of the innermost loop around both
    for loop, other in zip(nest.paths[first], nest.paths[second], strict=False):
        if loop != other:
            break
        depth += 1
    if depth == 0:
        return np.zeros((0, 2), np.int64)
    mine = [at for at, mask in enumerate(run.cores) if mask >> core & 1]
    last = {run.executions[at][1][:depth]: at for at in mine if run.executions[at][0] == first}
    found = []
    for at in mine:
        block, path = run.executions[at]
        if block == second:
            before = last.get((*path[: depth - 1], path[depth - 1] - 1))
            if before is not None:
                found.append((before, at))
    return np.array(found, np.int64).reshape(-1, 2)


def _branch_waits(program: Program, layout: _Layout) -> Ints:
    """The writes of `cond` that each branch waits for: those of the header, in the same copy."""
    accesses, owner = program.accesses, program.owner
    found = []
    for branch in layout.branches.tolist():
        block, execution = int(layout.block[branch]), int(layout.execution[branch])
        cond = int(program.blocks.cond[block])
        if cond == NONE:
            continue
        begin, end = layout.starts[block : block + 2].tolist()
        rows = slice(int(program.access_starts[begin]), int(program.access_starts[end]))
        writes = accesses.write[rows] & (owner[accesses.location[rows]] == owner[cond])
        first = int(layout.begin[layout.core[branch], execution])
        for row in np.unique(accesses.instruction[rows][writes]).tolist():
            found.append((first + row - begin, branch))
    return np.array(found, np.int64).reshape(-1, 2).T
