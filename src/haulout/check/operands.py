"""The operands of some instructions as sets of bytes of their owners, made when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.check import bytesets
from haulout.check.sets import Sets
from haulout.check.spread import BYTES, Extent, Order, Role, Runs, is_index, spread, spread_product
from haulout.ir import dtypes
from haulout.ir.attributes import int_list, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids

_ROLES = {(one, other): Role(one, other) for one in (False, True) for other in (False, True)}
_LISTS = ("maybe", "unordered", "crossed", "index", "stationary", "moving")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an instruction's attributes say of its operands."""

    lists: dict[str, frozenset[int]]
    """By the name of the attribute: the operands that it lists, reads first."""
    typed: bool
    """They have the types of their locations."""


class Operands:
    """All accesses of a program, by their rows. Patterns of the mask `moves` stand for unknown bytes."""

    def __init__(self, program: Program, owner: Ids, sets: Sets, moves: Bools | None = None) -> None:
        self.program, self.sets, self.moves = program, sets, moves
        rows = program.accesses
        self.instruction, self.location, self.write = rows.instruction, rows.location, rows.write
        self.owner: Ids = owner[rows.location]
        self.starts = np.append(program.access_starts, len(rows))
        self._extents: dict[tuple[int, int, bool], Extent] = {}
        self._attrs: dict[int, _Facts] = {}

    def of(self, instruction: int) -> range:
        """The accesses of an instruction, reads first."""
        return range(int(self.starts[instruction]), int(self.starts[instruction + 1]))

    def writes(self, instruction: int) -> list[int]:
        """Those that it writes."""
        return [access for access in self.of(instruction) if self.write[access]]

    def extent(self, access: int) -> Extent:
        """Its bytes; of unknown ones all that may be touched."""
        location, pattern = int(self.location[access]), int(self.program.accesses.pattern[access])
        if self.is_unknown(access):
            pattern = NONE
        typed = self._facts(int(self.instruction[access])).typed
        key = location, pattern, typed
        if key not in self._extents:
            self._extents[key] = self._made(location, pattern, typed)
        return self._extents[key]

    def is_unknown(self, access: int) -> bool:
        """Whether its pattern is `?`."""
        pattern = int(self.program.accesses.pattern[access])
        if pattern == NONE:
            return False
        moves = self.moves is not None and bool(self.moves[access])
        return moves or int(self.program.patterns.run[pattern]) == NONE

    def guess(self, access: int) -> bool:
        """Whether only some of its bytes are touched, it is not known which: `?`, or listed in `maybe`."""
        if self.is_unknown(access):
            return True
        instruction = int(self.instruction[access])
        return access - int(self.starts[instruction]) in self._facts(instruction).lists["maybe"]

    def opcode(self, instruction: int) -> str:
        """What it does."""
        opcode = int(self.program.instructions.opcode[instruction])
        return "" if opcode == NONE else self.program.strings[opcode]

    def is_index(self, access: int) -> bool:
        """Whether a read may be an index."""
        instruction = int(self.instruction[access])
        mine, index = self.of(instruction), self._facts(instruction).lists["index"]
        if index:
            return access - mine.start in index
        reads = sum(not self.write[each] for each in mine)
        guesses = not self.guess(access) and any(map(self.guess, mine))
        return is_index(self.opcode(instruction), access - mine.start, reads, guesses)

    def spread(self, source: int, some: Runs, target: int) -> Runs:
        """The bytes of a write that may be made of some bytes of a read; of the same instruction, or of a partner."""
        sides = self.of(int(self.instruction[source])), self.of(int(self.instruction[target]))
        opcode, extent = self.opcode(int(self.instruction[target])), self.extent(target)
        if any(self.guess(each) for side in sides for each in side):
            return extent.runs
        reads, writes = sum(not self.write[each] for each in sides[0]), sum(self.write[each] for each in sides[1])
        if opcode in BYTES and (reads, writes) != (1, 1):
            return extent.runs
        order = max(self._order(source), self._order(target))
        if opcode == "nki.nc_matmul":
            facts, operand = self._facts(int(self.instruction[source])), source - sides[0].start
            if not self._is_product(facts, operand, source, target):
                return extent.runs
            role = _ROLES[operand in facts.lists["stationary"], operand in facts.lists["moving"]]
            return self.sets.made(spread_product, role, self.extent(source), some, extent, order)
        return self.sets.made(spread, opcode, self.extent(source), some, extent, order)

    def _is_product(self, facts: _Facts, operand: int, source: int, target: int) -> bool:
        """Whether the sides of a matrix multiplication are known, and what is neither is what it adds to."""
        stationary, moving = facts.lists["stationary"], facts.lists["moving"]
        pattern = self.program.accesses.pattern
        same = self.location[source] == self.location[target] and pattern[source] == pattern[target]
        return bool(stationary and moving and (same or operand in stationary | moving))

    def _order(self, access: int) -> Order:
        instruction = int(self.instruction[access])
        facts, operand = self._facts(instruction), access - int(self.starts[instruction])
        if operand in facts.lists["crossed"]:
            return Order.UNKNOWN
        return Order.PARTITIONS if operand in facts.lists["unordered"] else Order.PATTERN

    def _facts(self, instruction: int) -> _Facts:
        text = int(self.program.instructions.attrs[instruction])
        if text not in self._attrs:
            attrs = {} if text == NONE else parse_attrs(self.program.strings[text])
            lists = {key: frozenset(int_list(attrs.get(key, [])) or []) for key in _LISTS}
            self._attrs[text] = _Facts(lists, "dtypes" not in attrs)
        return self._attrs[text]

    def _made(self, location: int, pattern: int, typed: bool) -> Extent:
        rows = self.program.locations
        size, parts = int(rows.size[location]), int(rows.parts[location])
        found = self.program.pattern(pattern) or Pattern(0, size)
        return Extent(
            starts=found.starts(),
            run=found.run,
            runs=bytesets.runs(bytesets.byte_set(found)),
            row=-(-size // parts) if parts > 1 else 0,
            item=self.element(location) if typed else 0,
        )

    def element(self, location: int) -> int:
        """Bytes an element of a location; 0: not known."""
        dtype = int(self.program.locations.dtype[location])
        name = None if dtype == NONE else dtypes.canonical(self.program.strings[dtype])
        return 0 if name is None else dtypes.itemsize(name)
