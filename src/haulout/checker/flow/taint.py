"""Where undefined bytes go, in the order of the text: what is overwritten on every path is forgotten.

Each location has the bytes that may be undefined in it. An instruction that reads such bytes makes undefined what it
derives from them (`values/byte_flow.py`), a `sendrecv` on the other core; a write of all of its bytes leaves no
others undefined. Where paths meet either may have been taken. A loop begins with what comes before it and what its
body leaves, found in repeated passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from haulout.checker import bytesets
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.steps import ELSE, EVENTS, FORK, JOIN, LATCH, LOOP
from haulout.checker.flow.text import Text
from haulout.checker.flow.walks import find_walk
from haulout.checker.values.byte_flow import NO_BYTES, Runs, total, union, without
from haulout.checker.values.operands import Operands
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids

_MAX_ROWS = 1 << 13
"""Accesses that are followed."""
_MAX_PASSES = 16

_State = dict[int, Runs]
"""Owner -> bytes that may be undefined."""


class InOrder:
    """The flow of the undefined bytes of some reads through the text."""

    def __init__(self, text: Text, touches: Touches, order: Ids, reads: Iterable[int], operands: Operands) -> None:
        model, rows = touches.model, text.model
        assert rows.unrolled is not None
        self.operands = operands
        self.instruction: list[int] = model.instruction.tolist()
        self.owner: list[int] = model.owners()[model.location].tolist()
        self.write: list[bool] = model.write.tolist()
        self.origin: list[int] = rows.unrolled.access_origin[rows.access].tolist()
        self.kind = model.program.locations.kind
        starts = model.access_starts
        self.writers = np.add.reduceat(np.append(model.write, False), starts[:-1]) * (np.diff(starts) > 0)
        half = len(text.sendrecvs.arrives) // 2
        sides = (
            text.sendrecvs.instruction[each[:half]] for each in (text.sendrecvs.arrives, text.sendrecvs.completes)
        )
        senders, receivers = sides
        self.sender = dict(zip(receivers.tolist(), senders.tolist(), strict=True))
        self.receiver = dict(zip(senders.tolist(), receivers.tolist(), strict=True))
        self.meets = set(text.sendrecvs.instruction.tolist())
        reads = set(reads)
        chosen = np.isin(np.array(self.owner), list(self._reached(reads)))
        chosen[list(reads)] = True
        access = order[chosen[order]]
        walk = find_walk(text, touches, access, frozenset()) if len(access) <= _MAX_ROWS else None
        self.walk = walk
        self.first: dict[int, int] = {}
        for each in access.tolist():
            if not self.write[each]:
                self.first.setdefault(self.instruction[each], each)

    def _reached(self, reads: set[int]) -> set[int]:
        """The owners that anything made of some reads may be in."""
        by_instruction: dict[int, tuple[set[int], set[int]]] = {}
        for access, instruction in enumerate(self.instruction):
            sides = by_instruction.setdefault(instruction, (set(), set()))
            sides[self.write[access]].add(self.owner[access])
        readers: dict[int, list[int]] = {}
        for instruction, (read, _) in by_instruction.items():
            for owner in read:
                readers.setdefault(owner, []).append(instruction)
        found: set[int] = set()
        todo = [self.instruction[access] for access in reads]
        done = set(todo)
        while todo:
            instruction = todo.pop()
            target = self.receiver.get(instruction, NONE) if instruction in self.meets else instruction
            for owner in by_instruction.get(target, (set(), set()))[1] - found:
                found.add(owner)
                fresh = [each for each in readers.get(owner, ()) if each not in done]
                done.update(fresh)
                todo += fresh
        return found

    def reaches(self, reads: Mapping[int, Runs]) -> bool:
        """Whether the undefined bytes of some reads may reach something that is seen."""
        if self.walk is None:
            return True
        heads: dict[int, _State] = {}
        for _ in range(_MAX_PASSES):
            found = _Pass(self, reads, heads).run()
            if found is not None:
                return found
        return True


class _Pass:
    """One walk through the text."""

    def __init__(self, flow: InOrder, reads: Mapping[int, Runs], heads: dict[int, _State]) -> None:
        self.flow, self.reads, self.heads = flow, reads, heads
        self.state: _State = {}
        self.taken: dict[int, list[tuple[int, Runs]]] = {}
        """Instruction -> the undefined bytes that it has read, by access."""
        self.made: dict[tuple[int, int], Runs] = {}

    def run(self) -> bool | None:
        """Whether something is reached; None: loops begin with more than was known."""
        walk, changed = self.flow.walk, False
        assert walk is not None
        stack: list[_State] = []
        for kind, first, end, _, _ in walk.operations.tolist():
            if kind == EVENTS:
                for access in walk.access[first:end].tolist():
                    if self.happens(access):
                        return True
            elif kind == FORK:
                stack.append(dict(self.state))
            elif kind == ELSE:
                stack[-1], self.state = self.state, stack[-1]
            elif kind == JOIN:
                self.state = _either(self.state, stack.pop())
            elif kind == LOOP:
                stack.append(dict(self.state))
                self.state = _either(self.state, self.heads.get(first, {}))
            elif kind == LATCH:
                before, trip = stack.pop(), int(walk.trip[first])
                if trip not in (0, 1):
                    known = _either(before, self.heads.get(first, {}))
                    if _size(_either(known, self.state)) > _size(known):
                        self.heads[first] = _either(self.heads.get(first, {}), self.state)
                        changed = True
                if trip == 0:
                    self.state = before
                elif trip == NONE:
                    self.state = _either(self.state, before)
        if changed:
            return None
        return any(self.flow.kind[owner] != Kind.INTERNAL for owner in self.state)

    def happens(self, access: int) -> bool:
        """One access; whether it shows undefined bytes by itself."""
        flow = self.flow
        if flow.write[access]:
            self.writes(access)
            return False
        instruction, owner, row = flow.instruction[access], flow.owner[access], flow.origin[access]
        if flow.first[instruction] == access:
            self.taken[instruction] = []
            self.made = {key: some for key, some in self.made.items() if key[0] != instruction}
        some = self.reads.get(access, NO_BYTES)
        if owner in self.state:
            extent = None if row == NONE else flow.operands.extent(row).runs
            some = union(some, self.state[owner] if extent is None else bytesets.common(self.state[owner], extent))
        if not len(some[0]):
            return False
        alone = instruction not in flow.meets and not flow.writers[instruction]
        if row == NONE or alone or flow.operands.is_index(row):
            return True
        if flow.operands.opcode(int(flow.operands.instruction[row])).collective:
            return True
        self.taken[instruction].append((row, some))
        return False

    def writes(self, access: int) -> None:
        """Some bytes become undefined, the others of the write are defined."""
        flow, operands = self.flow, self.flow.operands
        instruction, owner, row = flow.instruction[access], flow.owner[access], flow.origin[access]
        source = flow.sender.get(instruction, NONE) if instruction in flow.meets else instruction
        if owner not in self.state and not self.taken.get(source) and (instruction, owner) not in self.made:
            return
        fresh = self.made.get((instruction, owner), NO_BYTES)
        for read, some in self.taken.get(source, ()):
            fresh = union(fresh, operands.spread(read, some, row))
        before = self.state.get(owner, NO_BYTES)
        left = before if operands.guess(row) else without(before, operands.extent(row).runs)
        after = union(left, fresh) if len(fresh[0]) else left
        if len(fresh[0]):
            self.made[instruction, owner] = fresh
        if len(after[0]):
            self.state[owner] = after
        else:
            self.state.pop(owner, None)


def _either(one: _State, other: _State) -> _State:
    found = dict(one)
    for owner, some in other.items():
        if found.setdefault(owner, some) is not some:
            found[owner] = union(found[owner], some)
    return found


def _size(state: _State) -> int:
    return sum(map(total, state.values()))
