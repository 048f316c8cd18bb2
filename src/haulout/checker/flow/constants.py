"""Forks that branch on a constant: the arm that a core is sure to take.

A core is sure to take one arm when the first element of `cond` is a constant of integers: contents of a `const` that
nothing writes, or what one `memset` writes that runs before the fork on every path and that nothing else overwrites.
The memset is a write like any other, so its order with the fork is proved with all the rest. That is sound: consider
the first fork, in time, that took the other arm. Until then the run is one of those that are proved, so the fork
found what the memset wrote.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.paths.control_flow import ControlFlow
from haulout.ir.attributes import parse_attrs
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids, Ints

_INTEGERS = frozenset(("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"))


@dataclass(frozen=True, slots=True)
class Settled:
    """What forks are sure to do."""

    sides: dict[int, list[int]] = field(default_factory=dict)
    """Fork -> the arm of each core; NONE: it may take either."""
    alike: set[int] = field(default_factory=set)
    """Those that are not divergent: all cores take the same arm."""

    def side(self, fork: int, core: int) -> int:
        """The arm that a core, or NONE: all of them, is sure to take; NONE: there is none."""
        if core == NONE:
            return self.sides[fork][0] if fork in self.alike else NONE
        return self.sides[fork][core] if fork in self.sides else NONE


def settled_forks(flow: ControlFlow, given: Mapping[tuple[int, int], int]) -> Settled:
    """The forks of a function that branch on constants, and those whose arm is given, by block and core or NONE."""
    structure, found = flow.structure, Settled()
    facts: _Facts | None = None
    for number, fork in enumerate(structure.forks):
        conds = [int(flow.program.blocks.cond[rows[fork.block]]) for rows in flow.rows]
        if NONE in conds:
            continue
        facts = facts or _Facts(flow)
        sides = [facts.side(cond, fork.block) for cond in conds]
        alike = not fork.divergent and NONE not in sides and len(set(sides)) == 1
        if alike or (fork.divergent and any(side != NONE for side in sides)):
            found.sides[number] = sides
        if alike:
            found.alike.add(number)
    for (block, core), side in given.items():
        number, every = structure.fork_at[block], range(len(flow.rows))
        sides = found.sides.setdefault(number, [NONE] * len(every))
        for each in every if core == NONE else (core,):
            sides[each] = side
        if core == NONE:
            found.alike.add(number)
    return found


def attending(flow: ControlFlow, settled: Settled, unused: Collection[int]) -> list[int]:
    """Of each block: the cores that may run it, a bit a core. Loops with `unused` headers do not run."""
    masks = [(1 << len(flow.functions)) - 1] * len(flow.blocks)
    for header in unused:
        for block in flow.structure.loops[flow.structure.loop_at[header]].body:
            masks[block] = 0
    for number, sides in settled.sides.items():
        for core, side in enumerate(sides):
            if side != NONE:
                for block in flow.structure.forks[number].sides[1 - side]:
                    masks[block] &= ~(1 << core)
    return masks


class _Facts:
    """Who writes what."""

    def __init__(self, flow: ControlFlow) -> None:
        self.flow, program = flow, flow.program
        owner = program.owner
        self.owner: Ids = np.where(owner == NONE, np.arange(len(owner)), owner).astype(np.int32)
        writes = np.flatnonzero(program.accesses.write)
        owners = self.owner[program.accesses.location[writes]]
        self.starts, order = grouped(owners, len(owner))
        self.writes: Ints = writes[order]
        """Sorted by the owner of what they write, which has `starts[owner]:starts[owner + 1]`."""
        self.written = np.unique(owners)
        self.moving = set(program.steps.access.tolist())

    def side(self, cond: int, block: int) -> int:
        """The arm that a fork on a location takes: 0 where it is not zero, else 1; NONE where that is not known."""
        program, owner = self.flow.program, int(self.owner[cond])
        dtype = program.strings.get(int(program.locations.dtype[cond]))
        writes = self.writes[self.starts[owner] : self.starts[owner + 1]]
        if len(writes) > 1 or dtype not in _INTEGERS or program.locations.size[owner] < itemsize(dtype):
            return NONE
        if len(writes):
            value = self._filled(int(writes[0]), itemsize(dtype), block)
            side = NONE if value is None else int(value == 0)
        else:
            data = program.strings.get(int(program.locations.data[owner]))
            side = NONE
            if data is not None and program.locations.kind[owner] == Kind.CONST:
                side = int(not any(base64.b64decode(data)[: itemsize(dtype)]))
        return NONE if side == NONE or self._overlaps(owner) else side

    def _filled(self, access: int, size: int, block: int) -> int | None:
        """The value of every byte that a memset writes, when it writes the first element before the fork."""
        program = self.flow.program
        row = int(program.accesses.instruction[access])
        here = int(self.flow.block[row])
        if program.strings[int(program.instructions.opcode[row])] != "memset" or here == NONE:
            return None
        if not self.flow.structure.dominates(here, block) or access in self.moving or program.accesses.maybe[access]:
            return None
        pattern = program.pattern(int(program.accesses.pattern[access]))
        if pattern is not None and (pattern.is_unknown or pattern.offset > 0 or pattern.offset + pattern.run < size):
            return None
        value = parse_attrs(program.strings.get(int(program.instructions.attrs[row])) or "").get("value", 0)
        return value if isinstance(value, int) and 0 <= value <= 255 else None

    def _overlaps(self, owner: int) -> bool:
        """Whether another location that is written may have bytes at its address; in whatever space."""
        rows = self.flow.program.locations
        begin = int(rows.address[owner])
        if begin == NONE:
            return False
        others = self.written[self.written != owner]
        address = rows.address[others]
        meets = (address < begin + rows.size[owner]) & (address + rows.size[others] > begin)
        return bool((meets & (address != NONE)).any())
