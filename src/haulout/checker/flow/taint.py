"""Where undefined bytes go, in the order of the text: what is overwritten on every path is forgotten.

Each location has the bytes that may be undefined in it. An instruction that reads such bytes makes undefined what it
derives from them (`values/byte_flow.py`), a `sendrecv` on the other core; a write of all of its bytes leaves no
others undefined. Where paths meet either may have been taken. A loop begins with what comes before it and what its
body leaves, found in repeated passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.steps import ELSE, EVENTS, FORK, JOIN, LATCH, LOOP
from haulout.checker.flow.text import Text
from haulout.checker.flow.walks import find_walk
from haulout.checker.values.byte_flow import Runs, total, union
from haulout.checker.values.operands import Operands
from haulout.checker.values.undefined import Accesses, UndefinedBytes
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids

_MAX_ROWS = 1 << 13
"""Accesses that are followed."""
_MAX_PASSES = 16

_State = dict[int, Runs]
"""Owner -> bytes that may be undefined."""


class InOrder(Accesses):
    """The flow of the undefined bytes of some reads through the text."""

    def __init__(self, text: Text, touches: Touches, order: Ids, reads: Iterable[int], operands: Operands) -> None:
        unrolled = text.model.unrolled
        assert unrolled is not None
        super().__init__(touches.model, operands, unrolled.access_origin[text.model.access], text.sendrecvs)
        reads = set(reads)
        chosen = np.isin(self.owner, list(self._reached(reads)))
        chosen[list(reads)] = True
        access = order[chosen[order]]
        self.walk = find_walk(text, touches, access, frozenset()) if len(access) <= _MAX_ROWS else None
        self.first: dict[int, int] = {}
        """Instruction -> the first of its reads."""
        for each in access[~self.model.write[access]].tolist():
            self.first.setdefault(int(self.model.instruction[each]), each)

    def _reached(self, reads: set[int]) -> set[int]:
        """The owners that anything made of some reads may be in."""
        by_instruction: dict[int, tuple[set[int], set[int]]] = {}
        columns = self.model.instruction, self.model.write, self.owner
        for instruction, write, owner in zip(*(column.tolist() for column in columns), strict=True):
            by_instruction.setdefault(instruction, (set(), set()))[write].add(owner)
        readers: dict[int, list[int]] = {}
        for instruction, (read, _) in by_instruction.items():
            for owner in read:
                readers.setdefault(owner, []).append(instruction)
        found: set[int] = set()
        todo = self.model.instruction[list(reads)].tolist()
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


class _Pass(UndefinedBytes):
    """One walk through the text."""

    def __init__(self, flow: InOrder, reads: Mapping[int, Runs], heads: dict[int, _State]) -> None:
        super().__init__(flow, reads, certain=False)
        self.flow, self.heads = flow, heads

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
        kind = self.flow.model.program.locations.kind
        return any(kind[owner] != Kind.INTERNAL for owner in self.state)

    def happens(self, access: int) -> bool:
        """One access; whether it shows undefined bytes by itself."""
        if self.flow.model.write[access]:
            self.write(access)
            return False
        instruction = int(self.flow.model.instruction[access])
        if self.flow.first[instruction] == access:
            self.taken.pop(instruction, None)
            self.made = {key: some for key, some in self.made.items() if key[0] != instruction}
        return self.read(access) and self.flow.sink(access) is not None


def _either(one: _State, other: _State) -> _State:
    found = dict(one)
    for owner, some in other.items():
        if found.setdefault(owner, some) is not some:
            found[owner] = union(found[owner], some)
    return found


def _size(state: _State) -> int:
    return sum(map(total, state.values()))
