"""Where undefined bytes may go in some run of a function with loops or branches.

A run is one of many: to reach something may take more iterations than were looked at, or other arms. So what reaches
nothing in a run is followed through all blocks, in any order and any number of times; nothing is overwritten, and a
pattern that moves with a loop may be anywhere. That is more than any run does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from haulout.checker import bytesets
from haulout.checker.values.byte_flow import NO_BYTES, Runs, total, union
from haulout.checker.values.interned import Sets
from haulout.checker.values.operands import Operands
from haulout.checker.values.undefined import Hop, Reach, Way, hops_to
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.read_structure import block_rows
from haulout.ir.schema import Ids

_MOST_GROWTHS = 8
"""After so many a location is undefined as a whole."""


class Everywhere:
    """The flow through all blocks of a function on all cores, in any order and any number of times."""

    def __init__(self, program: Program, functions: Iterable[int], owner: Ids) -> None:
        functions = list(functions)
        self.program, self.owner = program, owner
        moves = np.zeros(len(program.accesses), bool)
        moves[program.steps.access] = True
        self.operands = Operands(program, owner, Sets(), moves)
        inside = np.isin(program.instruction_function[program.accesses.instruction], functions)
        inside[np.isin(program.accesses.instruction, program.barriers.instruction)] = False
        rows = np.flatnonzero(inside)
        self.readers: dict[int, list[int]] = {}
        for access in rows[~self.operands.write[rows]].tolist():
            self.readers.setdefault(int(self.operands.owner[access]), []).append(access)
        meets = program.meetings.instruction
        self.meets = meets[np.isin(program.instruction_function[meets], functions)].tolist()
        self.received = [access for row in self.meets for access in self.operands.writes(row)]
        self.conditions: dict[int, int] = {}
        """Location -> the end of its first element, which decides a branch."""
        for block in (each for function in functions for each in block_rows(program, function)):
            if (cond := int(program.blocks.cond[block])) != NONE:
                end = self.operands.element(cond) or int(program.locations.size[cond])
                self.conditions[int(owner[cond])] = max(end, self.conditions.get(int(owner[cond]), 0))

    def reach(self, begin: Sequence[tuple[int, Runs]]) -> Reach | None:
        """What undefined bytes of some locations may reach; its instructions are rows of the program."""
        state: dict[int, Runs] = {}
        for owner, some in begin:
            state[owner] = union(state.get(owner, NO_BYTES), some)
        came: Way = {}
        growths = dict.fromkeys(state, 0)
        waiting = list(state)
        while waiting:
            owner = waiting.pop()
            for access in self.readers.get(owner, ()):
                some = bytesets.common(state[owner], self.operands.extent(access).runs)
                if not len(some[0]):
                    continue
                instruction = int(self.operands.instruction[access])
                if what := self._seen(access):
                    return Reach(what, instruction, hops_to(came, owner))
                for target in self._targets(instruction):
                    part = self._spread(access, some, target)
                    grown, writer = int(self.operands.owner[target]), int(self.operands.instruction[target])
                    if not len(part[0]):
                        continue
                    if what := self._is_last(grown, part):
                        return Reach(what, NONE, (*hops_to(came, owner), Hop(grown, writer)))
                    old = state.get(grown, NO_BYTES)
                    new = union(old, part)
                    if total(new) == total(old):
                        continue
                    came.setdefault(grown, (writer, owner))
                    growths[grown] = growths.get(grown, 0) + 1
                    if growths[grown] > _MOST_GROWTHS:
                        end = max(int(self.program.locations.size[grown]), int(new[1][-1]))
                        new = np.zeros(1, np.int64), np.array([end], np.int64)
                    state[grown] = new
                    if grown not in waiting:
                        waiting.append(grown)
        return None

    def _is_last(self, owner: int, some: Runs) -> str | None:
        """Whether undefined bytes of a location are seen, whatever reads them."""
        if some[0][0] < self.conditions.get(owner, 0):
            return "branch"
        return "output" if self.program.locations.kind[owner] != Kind.INTERNAL else None

    def _seen(self, access: int) -> str | None:
        instruction = int(self.operands.instruction[access])
        if self.operands.is_index(access):
            return "index"
        if self.operands.opcode(instruction).collective:
            return "collective"
        alone = instruction not in self.meets and not self.operands.writes(instruction)
        return "effect" if alone else None

    def _targets(self, instruction: int) -> list[int]:
        """The writes that get what an instruction reads; what one core sends, some other may receive."""
        return self.received if instruction in self.meets else self.operands.writes(instruction)

    def _spread(self, source: int, some: Runs, target: int) -> Runs:
        if self.operands.instruction[source] != self.operands.instruction[target]:
            return self.operands.extent(target).runs
        return self.operands.spread(source, some, target)
