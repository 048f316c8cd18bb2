"""Joins and gathers: the `nop`s of engine `sync` that stand for what loops and forks do, and what they wait for.

    join of a loop     first in its header: the previous iteration is complete, on every engine
    gather of an arm   last in the arm: the arm is complete
    join of a fork     first in the block where the arms end: the arms are complete, and what came before the fork on
                       the engines that they use; on these engines everything is complete, whichever arm was taken

They are all on one engine, so that each also comes after all the earlier ones. Therefore

- a gather names the last instruction of each engine in the arm, but for what a nested join covers;
- the join of a fork names the last instruction of each engine before the fork, as far as no other join covers it;
- the join of a loop names, carried, the last instruction of each engine in the loop's own blocks, the joins of the
  loops directly inside, and the last instructions of their headers, which run once more than their joins cover; and,
  for engines that an iteration need not use (`RegionEngines.uncertain`), the last instruction before the loop.

Their edges are made anew each time, since passes put instructions in and take them out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from haulout.analysis.region_engines import RegionEngines, engines_in, region_engines
from haulout.analysis.unrolled import Joins
from haulout.ir.edit import NewInstructions, add_dependences, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Dependences, Ids, Instructions, Ints
from haulout.ir.structure import Arm, Fork, Loop, Walk, run


def join_rows(program: Program) -> Joins:
    """The join of each loop and fork: the `nop` so marked in its block; NONE where there is none yet."""
    structure, by_block = program.structure, _marked(program, program.instructions.join)
    loops = {number: by_block.get(loop.header, NONE) for number, loop in structure.loops.items()}
    return Joins(loops, [by_block.get(fork.join, NONE) for fork in structure.forks])


def gather_rows(program: Program) -> dict[int, int]:
    """The gather of each arm by the number of its region; NONE where there is none yet."""
    by_block = _marked(program, program.instructions.gather)
    arms = ((number, region) for number, region in enumerate(program.structure.regions) if isinstance(region, Arm))
    return {number: by_block.get(arm.end - 1, NONE) for number, arm in arms}


def with_joins(program: Program) -> Program:
    """Every loop and fork has its joins and gathers, which wait for all that they stand for as it is now."""
    program = _insert(program)
    edges = _Edges(program)
    made = np.zeros(len(program.instructions), bool)
    made[[*edges.joins.loops.values(), *edges.joins.forks, *edges.gathers.values()]] = True
    have = program.dependences
    program = program.replace(dependences=have.take(~made[have.instruction]))
    return add_dependences(program, edges.dependences())


def _marked(program: Program, mark: Bools) -> dict[int, int]:
    """Block -> the first `nop` in it, on engine `sync` and without operands, that has this mark.

    Only such a `nop` can be a join: the edges of a join are made anew, and what else it did would be lost.
    """
    table = program.instructions
    is_nop = (table.opcode == program.strings.find("nop")) & (table.engine == Engine.SYNC)
    rows = np.flatnonzero(mark & is_nop & (np.diff(program.access_starts) == 0))[::-1]
    return dict(zip(table.block[rows].tolist(), rows.tolist(), strict=True))


# -- edges -----------------------------------------------------------------------------------------------------------

_Last = dict[int, int]
"""Engine -> its last instruction, as far as no join covers it."""


@dataclass(slots=True)
class _Edges:
    """Goes through the regions once and keeps the last instruction of each engine."""

    program: Program
    joins: Joins = field(init=False)
    gathers: dict[int, int] = field(init=False)
    used: RegionEngines = field(init=False)
    in_block: list[_Last] = field(init=False)
    rows: list[tuple[int, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.joins = join_rows(self.program)
        self.gathers = gather_rows(self.program)
        self.used = region_engines(self.program)
        self.in_block = _last_in_blocks(self.program)

    def dependences(self) -> Dependences:
        """Edges of all joins and gathers."""
        for blocks in self.program.structure.functions:
            run(self._sequence(blocks, {}, {}))
        return Dependences.make(
            len(self.rows),
            instruction=[row for row, _, _ in self.rows],
            producer=[producer for _, producer, _ in self.rows],
            carried=[carried for _, _, carried in self.rows],
        )

    def _sequence(self, blocks: range, before: _Last, inside: _Last) -> Walk:
        """Blocks of one region; keeps up what ran before here, and what of that inside of this region."""
        structure = self.program.structure
        for item in structure.items(blocks.start, blocks.stop):
            match item:
                case Loop():
                    number = structure.loop_at[item.header]
                    yield self._loop(number, item, before)
                    for last in (before, inside):
                        _forget(last, self.used.body[number])
                        last.update(self.in_block[item.header])
                case Fork():
                    number = structure.fork_at[item.block]
                    yield self._fork(number, item, before)
                    for last in (before, inside):
                        _forget(last, self.used.forks[number])
                case _:
                    before.update(self.in_block[item])
                    inside.update(self.in_block[item])

    def _loop(self, number: int, loop: Loop, before: _Last) -> Walk:
        structure, join = self.program.structure, self.joins.loops[number]
        last, wanted = dict(self.in_block[loop.header]), set[int]()
        for item in structure.items(loop.begin + 1, loop.end):
            if isinstance(item, int):
                last.update(self.in_block[item])
            elif isinstance(item, Loop):
                wanted |= {self.joins.loops[structure.loop_at[item.header]], *self.in_block[item.header].values()}
        wanted |= set(last.values())
        self._wait(join, wanted - {join}, carried=True)
        self._wait(join, _chosen(before, self.used.uncertain[number]))
        yield self._sequence(loop.body, dict(self.in_block[loop.header]), {})

    def _fork(self, number: int, fork: Fork, before: _Last) -> Walk:
        for arm in fork.arms:
            inside: _Last = {}
            yield self._sequence(self.program.structure.regions[arm].body, dict(before), inside)
            self._wait(self.gathers[arm], _chosen(inside, -1))
        self._wait(self.joins.forks[number], _chosen(before, self.used.forks[number]))

    def _wait(self, row: int, producers: set[int], *, carried: bool = False) -> None:
        self.rows += [(row, producer, carried) for producer in sorted(producers)]


def _chosen(last: _Last, engines: int) -> set[int]:
    """The instructions of some engines; none of `sync` and of barriers, which a join comes after anyway."""
    return {row for engine, row in last.items() if engines >> engine & 1 and engine not in (Engine.SYNC, Engine.ALL)}


def _forget(last: _Last, engines: int) -> None:
    for engine in engines_in(engines):
        last.pop(engine, None)


def _last_in_blocks(program: Program) -> list[_Last]:
    """The last instruction of each engine in each block."""
    rows = program.instructions
    key = rows.block.astype(np.int64) * len(Engine) + rows.engine
    # The last of equal keys: the first one from behind.
    keys, at = np.unique(key[::-1], return_index=True)
    found: list[_Last] = [{} for _ in program.blocks.name]
    for each, row in zip(keys.tolist(), (len(key) - 1 - at).tolist(), strict=True):
        found[each // len(Engine)][each % len(Engine)] = row
    return found


# -- rows ------------------------------------------------------------------------------------------------------------


def _insert(program: Program) -> Program:
    """Put in the joins and gathers that are missing."""
    structure, joins, gathers = program.structure, join_rows(program), gather_rows(program)
    starts = program.starts("instructions", "blocks")
    first = [structure.loops[number].header for number, row in joins.loops.items() if row == NONE]
    first += [fork.join for fork, row in zip(structure.forks, joins.forks, strict=True) if row == NONE]
    last = [structure.regions[number].end - 1 for number, row in gathers.items() if row == NONE]
    if not first and not last:
        return program
    begin, end = _times(program)
    places = [(block, False, starts[block], begin[block]) for block in first]
    places += [(block, True, starts[block + 1], end[block]) for block in last]
    # By block, the join before the gather; two that go in front of one row keep the order of their blocks.
    places.sort(key=lambda place: place[:2])
    names = _Names(program)
    new = NewInstructions(
        np.array([row for _, _, row, _ in places], np.int32),
        Instructions.make(
            len(places),
            name=[names.free(block, "gather" if gathers else "join") for block, gathers, _, _ in places],
            block=[block for block, _, _, _ in places],
            opcode=program.strings.intern("nop"),
            engine=int(Engine.SYNC),
            seq=[seq for _, _, _, seq in places],
            join=[not gathers for _, gathers, _, _ in places],
            gather=[gathers for _, gathers, _, _ in places],
        ),
    )
    return insert(program, new)[0]


def _times(program: Program) -> tuple[Ints, Ints]:
    """The `seq` at which each block begins and ends, on any core; an empty block takes the time of what comes after,
    or else before. NONE in a function without `seq`.
    """
    rows, blocks = program.instructions, program.blocks
    timed = rows.seq != NONE
    # Blocks of one place in their function are one block.
    function = program.starts("blocks", "functions")[blocks.function]
    place = np.arange(len(blocks)) - function
    name = program.functions.name[blocks.function].astype(np.int64)
    _, same = np.unique(name * (len(blocks) + 1) + place, return_inverse=True)
    never = np.iinfo(np.int64).max
    low, high = np.full(len(blocks), never), np.full(len(blocks), NONE, np.int64)
    np.minimum.at(low, same[rows.block[timed]], rows.seq[timed])
    np.maximum.at(high, same[rows.block[timed]], rows.seq[timed])
    begin, end = low[same], high[same]
    for first, stop in pairwise(program.starts("blocks", "functions").tolist()):
        end[first:stop] = np.maximum.accumulate(end[first:stop])
        begin[first:stop] = np.minimum.accumulate(begin[first:stop][::-1])[::-1]
        begin[first:stop] = np.where(begin[first:stop] == never, end[first:stop], begin[first:stop])
        end[first:stop] = np.maximum(begin[first:stop], end[first:stop])
    return begin, end


class _Names:
    """Names that no instruction of the function has."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.taken: dict[int, set[int]] = defaultdict(set)
        function: Ids = program.instruction_function
        for each, name in zip(function.tolist(), program.instructions.name.tolist(), strict=True):
            self.taken[each].add(name)

    def free(self, block: int, what: str) -> int:
        """`WHAT.BLOCK`, or that with a number behind it."""
        program = self.program
        stem = f"{what}.{program.strings[int(program.blocks.name[block])]}"
        taken = self.taken[int(program.blocks.function[block])]
        name, count = program.strings.intern(stem), 1
        while name in taken:
            count += 1
            name = program.strings.intern(f"{stem}.{count}")
        taken.add(name)
        return name
