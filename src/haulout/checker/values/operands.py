"""The operands of instructions as sets of bytes of their owners, computed on demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker import bytesets
from haulout.checker.values.byte_flow import Extent, Order, Role, Runs, spread, spread_product
from haulout.checker.values.interned import Sets
from haulout.checker.values.nki_operands import NOTHING, Given, order, read_args
from haulout.ir import dtypes
from haulout.ir.attributes import parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.opcodes import Flow, Opcode, lookup
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids

_ROLES = {(one, other): Role(one, other) for one in (False, True) for other in (False, True)}
_NO_OPERANDS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the attributes of an instruction tell about its operands."""

    typed: bool
    """They have the types of their locations."""
    has_args: bool
    given: Given
    """What `args` says."""


class Operands:
    """All accesses of a program, by their rows. The bytes of accesses in the mask `moves` are unknown."""

    def __init__(self, program: Program, owner: Ids, sets: Sets, moves: Bools | None = None) -> None:
        self.program, self.sets, self.moves = program, sets, moves
        rows = program.accesses
        self.instruction, self.location, self.write = rows.instruction, rows.location, rows.write
        self.owner: Ids = owner[rows.location]
        self.starts = np.append(program.access_starts, len(rows))
        self._extents: dict[tuple[int, int, bool], Extent] = {}
        self._attrs: dict[int, _Facts] = {}
        self._orders: dict[int, Order] = {}

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
        """True if its pattern is `?`."""
        pattern = int(self.program.accesses.pattern[access])
        if pattern == NONE:
            return False
        moves = self.moves is not None and bool(self.moves[access])
        return moves or int(self.program.patterns.run[pattern]) == NONE

    def guess(self, access: int) -> bool:
        """True if only some of its bytes are touched, it is not known which: `?`, or `maybe`."""
        return bool(self.program.accesses.maybe[access]) or self.is_unknown(access)

    def opcode(self, instruction: int) -> Opcode:
        """What is known of what it does."""
        opcode = int(self.program.instructions.opcode[instruction])
        return lookup("" if opcode == NONE else self.program.strings[opcode])

    def is_index(self, access: int) -> bool:
        """True if a read may be an index."""
        instruction = int(self.instruction[access])
        mine = self.of(instruction)
        if index := self._role(instruction, "index"):
            return access - mine.start in index
        opcode = self.opcode(instruction)
        if opcode.indices:
            return opcode.is_index(access - mine.start, reads=sum(not self.write[each] for each in mine))
        # Of no known index, but it touches bytes that are not known statically: each operand may say which.
        return not self.guess(access) and any(map(self.guess, mine))

    def sink(self, access: int, alone: bool) -> str | None:
        """The kind of harm (`Reach.what`) that a read of undefined bytes does by itself, in an instruction that is
        `alone` where it writes nothing; None: none.
        """
        if self.is_index(access):
            return "index"
        if self.opcode(int(self.instruction[access])).collective:
            return "collective"
        return "effect" if alone else None

    def spread(self, source: int, some: Runs, target: int) -> Runs:
        """The bytes of a write that may be made of some bytes of a read; of the same instruction, or of a partner."""
        sides = self.of(int(self.instruction[source])), self.of(int(self.instruction[target]))
        flow, extent = self.opcode(int(self.instruction[target])).flow, self.extent(target)
        if any(self.guess(each) for side in sides for each in side):
            return extent.runs
        reads, writes = sum(not self.write[each] for each in sides[0]), sum(self.write[each] for each in sides[1])
        if flow is Flow.BYTES and (reads, writes) != (1, 1):
            return extent.runs
        known = max(self._order(source), self._order(target))
        if flow is Flow.PRODUCT:
            role = self._side(source, target)
            if role is None:
                return extent.runs
            return self.sets.made(spread_product, role, self.extent(source), some, extent, known)
        return self.sets.made(spread, flow, self.extent(source), some, extent, known)

    def _side(self, source: int, target: int) -> Role | None:
        """What an operand of a matrix multiplication is: a side, or what it adds to; None: that is not known."""
        instruction = int(self.instruction[source])
        operand = source - int(self.starts[instruction])
        stationary, moving = (self._role(instruction, each) for each in ("stationary", "moving"))
        if not stationary or not moving or not (operand in stationary | moving or self._same(source, target)):
            return None
        return _ROLES[operand in stationary, operand in moving]

    def _same(self, one: int, other: int) -> bool:
        """True if two operands are the same bytes of one location."""
        pattern = self.program.accesses.pattern
        return bool(self.location[one] == self.location[other] and pattern[one] == pattern[other])

    def _role(self, instruction: int, role: str) -> frozenset[int]:
        """The operands that have a role in an instruction of NKI."""
        if not self.opcode(instruction).is_nki:
            return _NO_OPERANDS
        return self._facts(instruction).given.roles.get(role, _NO_OPERANDS)

    def _order(self, access: int) -> Order:
        if access not in self._orders:
            self._orders[access] = self._order_of(access)
        return self._orders[access]

    def _order_of(self, access: int) -> Order:
        """How the elements of an operand count in its pattern."""
        instruction = int(self.instruction[access])
        facts, opcode = self._facts(instruction), self.opcode(instruction)
        if not opcode.is_nki:
            # A `sendrecv` that says more than its operands delivers in another order.
            return Order.UNKNOWN if opcode.name == "sendrecv" and facts.has_args else Order.PATTERN
        first = int(self.starts[instruction])
        # A tensor that is read and written is given once, and so may have one number of its two.
        alike = [each - first for each in self.of(instruction) if self._same(each, access)]
        layouts = [layout for each in alike for layout in facts.given.layouts.get(each, ())]
        location, pattern = int(self.location[access]), int(self.program.accesses.pattern[access])
        touched = self._bytes(location, pattern)
        row, element = self._row(location), self.element(location) if facts.typed else 0
        return max((order(each, touched, row, element) for each in layouts), default=Order.UNKNOWN)

    def _facts(self, instruction: int) -> _Facts:
        text = int(self.program.instructions.attrs[instruction])
        if text not in self._attrs:
            attrs = {} if text == NONE else parse_attrs(self.program.strings[text])
            self._attrs[text] = _Facts(
                typed="dtypes" not in attrs,
                has_args="args" in attrs,
                given=read_args(attrs["args"]) if "args" in attrs else NOTHING,
            )
        return self._attrs[text]

    def _made(self, location: int, pattern: int, typed: bool) -> Extent:
        found = self._bytes(location, pattern)
        return Extent(
            starts=found.starts(),
            run=found.run,
            runs=bytesets.runs(bytesets.byte_set(found)),
            row=self._row(location),
            item=self.element(location) if typed else 0,
        )

    def _bytes(self, location: int, pattern: int) -> Pattern:
        return self.program.pattern(pattern) or Pattern(0, int(self.program.locations.size[location]))

    def _row(self, location: int) -> int:
        """Bytes in each partition; 0: no partitions, or one."""
        rows = self.program.locations
        size, parts = int(rows.size[location]), int(rows.parts[location])
        return -(-size // parts) if parts > 1 else 0

    def element(self, location: int) -> int:
        """Bytes an element of a location; 0: not known."""
        dtype = int(self.program.locations.dtype[location])
        name = None if dtype == NONE else dtypes.canonical(self.program.strings[dtype])
        return 0 if name is None else dtypes.itemsize(name)
