"""The flow of undefined bytes in any run of a function with loops or branches.

A run is one of many: bytes may reach something only with more iterations or other arms. So bytes that reach nothing
in a run are followed through all blocks, in any order and any number of times. Nothing is overwritten, and a pattern
that moves with a loop may be anywhere. That covers more than any run does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from haulout.checker import bytesets
from haulout.checker.values.byte_flow import NO_BYTES, Runs, total, union
from haulout.checker.values.interned import Sets
from haulout.checker.values.operands import Operands
from haulout.checker.values.undefined import Hop, Provenance, Reach, hops_to
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.read_structure import block_rows
from haulout.ir.schema import Ids

_MAX_GROWTHS = 8
"""After so many steps a location is undefined as a whole."""


class AnyOrderFlow:
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
        sendrecvs = program.meetings.instruction
        self.sendrecvs = sendrecvs[np.isin(program.instruction_function[sendrecvs], functions)].tolist()
        self.received = [access for row in self.sendrecvs for access in self.operands.writes(row)]
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
        provenance: Provenance = {}
        growths = dict.fromkeys(state, 0)
        waiting = list(state)
        while waiting:
            owner = waiting.pop()
            for access in self.readers.get(owner, ()):
                some = bytesets.common(state[owner], self.operands.extent(access).runs)
                if not len(some[0]):
                    continue
                instruction = int(self.operands.instruction[access])
                if what := self._sink(access):
                    return Reach(what, instruction, hops_to(provenance, owner))
                for target in self._targets(instruction):
                    part = self._spread(access, some, target)
                    grown, writer = int(self.operands.owner[target]), int(self.operands.instruction[target])
                    if not len(part[0]):
                        continue
                    if what := self._final_sink(grown, part):
                        return Reach(what, NONE, (*hops_to(provenance, owner), Hop(grown, writer)))
                    old = state.get(grown, NO_BYTES)
                    new = union(old, part)
                    if total(new) == total(old):
                        continue
                    provenance.setdefault(grown, (writer, owner))
                    growths[grown] = growths.get(grown, 0) + 1
                    if growths[grown] > _MAX_GROWTHS:
                        end = max(int(self.program.locations.size[grown]), int(new[1][-1]))
                        new = np.zeros(1, np.int64), np.array([end], np.int64)
                    state[grown] = new
                    if grown not in waiting:
                        waiting.append(grown)
        return None

    def _final_sink(self, owner: int, some: Runs) -> str | None:
        """The kind of harm of undefined bytes in a location itself; None: it depends on their readers."""
        if some[0][0] < self.conditions.get(owner, 0):
            return "branch"
        return "output" if self.program.locations.kind[owner] != Kind.INTERNAL else None

    def _sink(self, access: int) -> str | None:
        instruction = int(self.operands.instruction[access])
        alone = instruction not in self.sendrecvs and not self.operands.writes(instruction)
        return self.operands.sink(access, alone)

    def _targets(self, instruction: int) -> list[int]:
        """The writes that get what an instruction reads; any core may receive what one sends."""
        return self.received if instruction in self.sendrecvs else self.operands.writes(instruction)

    def _spread(self, source: int, some: Runs, target: int) -> Runs:
        if self.operands.instruction[source] != self.operands.instruction[target]:
            return self.operands.extent(target).runs
        return self.operands.spread(source, some, target)
