"""Claims of `same=` on locations that are no inputs: derived again, or `equal-bytes-unproved`.

    mloc %a ... same=[[0,1],[2,3]]      whenever an instruction has written %a on the cores that run it, cores 0 and 1
                                        hold equal bytes in it, and so do cores 2 and 3

Value numbering of the states of all cores, in step: block by block, instruction by instruction, all cores execute the
same place of their lists, with numbers for values. Equal numbers are equal bytes; bytes without a value equal any.

    start           inputs by the class that `same=` promises; constants by their data; others hold nothing
    instruction     its number on a core is that of (opcode, attributes, operands); of each operand the number of the
                    location, its bytes, and how they are read. Cores may differ in all of that
    part            what a write of some bytes leaves: (what is written, where, what was there)
    collective      the operands of a group in its order; of a reduce-scatter or an all-to-all also the core's place;
                    of a permutation what the source sends, or zeros
    own             a number of its own on each core: opcodes that are no function of their operands, atomic accesses,
                    bytes that are not known, shared locations that are written
    loop            what is written inside gets a number for each class of cores that are equal at the entry, and at
                    the end of the body: assumed, then refined until it holds. What the loop leaves also depends on
                    the number of its condition
    branch          both arms are executed; what they leave also depends on the number of the condition

Unlike the labels that passes use, a number belongs to a value at a place, not to a location.

Source: Alpern, Wegman, Zadeck, "Detecting Equality of Variables in Programs" (1988), with cores as variables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from haulout.checker.values.exchanges import COLLECTIVES, SCATTERING, Members, members_of
from haulout.ir.attributes import format_name, format_value
from haulout.ir.core_classes import core_classes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.labels import block_name, instruction_label, location_label
from haulout.ir.opcodes import lookup
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.ir.structure import Fork, Loop, Structure, Walk, run
from haulout.support.diagnostics import Diagnostic, Entity, HauloutError, Severity, Subject

_MAX_FINDINGS = 20
"""Findings that are listed."""
_INPUTS = (Kind.INPUT, Kind.INOUT)
_HELP = (
    "remove `same=`, or let the cores compute it alike",
    "`haulout opt --passes mark_uniform` writes the classes that can be derived",
)


def unproved_claims(program: Program) -> list[Diagnostic]:
    """`equal-bytes-unproved` for each claim that cannot be derived; one finding a location of a function."""
    kinds = np.isin(program.locations.kind, _INPUTS)
    claimed = np.flatnonzero((program.locations.same != NONE) & ~kinds)
    found: list[Diagnostic] = []
    for name in dict.fromkeys(program.functions.name[program.locations.function[claimed]].tolist()):
        functions = np.flatnonzero(program.functions.name == name).tolist()
        rows = claimed[np.isin(program.locations.function[claimed], functions)]
        found += _Numbering(program, functions).unproved(rows.tolist())
    return found[:_MAX_FINDINGS]


Row = list[int]
"""Numbers of one location, one a core."""


@dataclass(slots=True)
class _Doubt:
    """Why a claim does not hold."""

    cores: tuple[int, int]
    rows: tuple[int, ...]
    """The instructions that write it, on both cores."""
    message: str
    notes: tuple[str, ...] = ()


@dataclass
class _Numbering:
    """One function on all cores."""

    program: Program
    functions: list[int]
    terms: dict[Hashable, int] = field(default_factory=dict)
    state: dict[str, Row] = field(default_factory=dict)
    """By the name of a location."""
    classes: dict[str, list[list[int]]] = field(default_factory=dict)
    """What is claimed."""
    doubts: dict[str, _Doubt] = field(default_factory=dict)
    functional: dict[tuple[int, int], bool] = field(default_factory=dict)
    """By opcode and attributes."""
    members: dict[tuple[int, int], Members] = field(default_factory=dict)
    """The same, of collectives."""
    assumed: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    """Of each loop and location: of each core the first of its class."""

    def unproved(self, claimed: Sequence[int]) -> list[Diagnostic]:
        """The claims, by location rows on all cores, that cannot be derived."""
        program = self.program
        first: dict[str, int] = {}
        for row in claimed:
            name = self._name(row)
            first.setdefault(name, row)
            self.classes[name] = core_classes(program, row)
        reason = self._unlike()
        if reason is not None:
            cores = (0, 1)
            self.doubts = {name: _Doubt(cores, (), reason) for name in first}
        else:
            self._start()
            try:
                run(self._walk(*self._whole()))
            except HauloutError:
                return []  # control flow that is not supported: reported as such
        return [self._finding(first[name], doubt) for name, doubt in self.doubts.items()]

    # -- the lists --------------------------------------------------------------------------------------------------

    def _unlike(self) -> str | None:
        """Why the cores cannot be followed in step."""
        program, starts = self.program, self.program.starts("instructions", "blocks")
        blocks = [np.flatnonzero(program.blocks.function == function) for function in self.functions]
        lengths = [[int(starts[row + 1] - starts[row]) for row in rows.tolist()] for rows in blocks]
        leads = [self._leads(rows) for rows in blocks]
        if len(self.functions) != program.lnc:
            return "not all cores have the function"
        for core in range(1, program.lnc):
            if lengths[core] != lengths[0] or leads[core] != leads[0]:
                return f"the lists of core 0 and core {core} have other lengths, or other blocks"
        self.blocks = [[int(rows[at]) for rows in blocks] for at in range(len(blocks[0]))]
        """Of each block its row on each core."""
        self.first_block = int(blocks[0][0]) if len(blocks[0]) else 0
        self.at = [[int(starts[row]) for row in rows] for rows in self.blocks]
        self.lengths = lengths[0]
        return None

    def _leads(self, rows: Ints) -> list[tuple[int, int]]:
        edges = self.program.edges
        if not len(rows):
            return []
        first = int(rows[0])
        mine = np.isin(edges.source, rows)
        return list(zip((edges.source[mine] - first).tolist(), (edges.target[mine] - first).tolist(), strict=True))

    @property
    def structure(self) -> Structure:
        """Of the whole program; blocks of core 0 stand for those of all cores."""
        return self.program.structure

    def _whole(self) -> tuple[int, int]:
        return self.first_block, self.first_block + len(self.blocks)

    # -- at the start -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        program = self.program
        rows, cores = program.locations, program.lnc
        written = np.zeros(len(rows), bool)
        written[program.owner[program.accesses.location[program.accesses.write]]] = True
        self.own = 0
        self.patterns: dict[int, int] = {}
        self.unstable: set[int] = set()
        """Locations whose bytes another core may write at any time."""
        names: dict[str, None] = {}
        for row in np.flatnonzero(np.isin(rows.function, self.functions)).tolist():
            name, core, owner = self._name(row), int(program.location_core[row]), int(program.owner[row])
            names[name] = None
            if name not in self.state:
                self.state[name] = [self._alone() for _ in range(cores)]
            if rows.space[row] == Space.DRAM_SHARED and (owner == NONE or written[owner]):
                self.unstable.add(row)
            else:
                self.state[name][core] = self._initial(owner)
        self.steps: dict[int, tuple[Hashable, ...]] = {}
        for at, access in enumerate(program.steps.access.tolist()):
            header = int(program.steps.header[at])
            place = header - self.blocks[0][int(program.block_core[header])]
            columns = program.steps.stride[at], program.steps.modulus[at], program.steps.phase[at]
            self.steps[access] = (*self.steps.get(access, ()), place, *map(int, columns))
        self.odd = np.append(program.patterns.run == NONE, False)[program.accesses.pattern]
        self.odd = self.odd | program.accesses.maybe | program.accesses.atomic
        self.layouts: dict[int, int] = {}
        self.writes: dict[int, set[str]] = {}
        for block, begins in enumerate(self.at):
            names_here: set[str] = set()
            for begin in begins:
                first, last = program.access_starts[begin], program.access_starts[begin + self.lengths[block]]
                locations = program.accesses.location[first:last][program.accesses.write[first:last]]
                names_here.update(self._name(row) for row in np.unique(locations).tolist())
            self.writes[block + self.first_block] = names_here
        self._judge(names, None)

    def _initial(self, owner: int) -> int:
        """The number of what a location holds before anything runs."""
        program = self.program
        rows, core, name = program.locations, int(program.location_core[owner]), self._name(owner)
        kind = int(rows.kind[owner])
        if kind in _INPUTS:
            mine = next((min(each) for each in core_classes(program, owner) if core in each), core)
            return self.term("input", name, mine)
        if kind == Kind.CONST:
            return self.term("data", int(rows.data[owner])) if rows.data[owner] != NONE else self._alone()
        return self.term("nothing", name, owner if rows.space[owner] == Space.DRAM_SHARED else NONE)

    def _name(self, row: int) -> str:
        return self.program.strings[int(self.program.locations.name[row])]

    def term(self, *parts: Hashable) -> int:
        """The number of a term."""
        return self.terms.setdefault(parts, len(self.terms))

    def _alone(self) -> int:
        self.own += 1
        return -self.own

    # -- walks ------------------------------------------------------------------------------------------------------

    def _walk(self, begin: int, end: int) -> Walk:
        for item in self.structure.items(begin, end):
            if isinstance(item, Loop):
                yield self._loop(item)
            elif isinstance(item, Fork):
                yield self._fork(item)
            else:
                self._block(item)

    def _loop(self, loop: Loop) -> Walk:
        written = sorted(set().union(*(self.writes[block] for block in range(loop.begin, loop.end))))
        for name in written:
            self._assume(loop, name)
        while True:
            for name in written:
                firsts = self.assumed[loop.begin, name]
                self.state[name] = [self.term("loop", loop.begin, name, first) for first in firsts]
            self._block(loop.header)
            left = {name: self.state[name] for name in written}
            cond = self._condition(loop.header)
            yield self._walk(loop.begin + 1, loop.end)
            changes = [self._assume(loop, name) for name in written]
            if not any(changes):
                break
        for name in written:
            pairs = zip(left[name], cond, strict=True)
            self.state[name] = [self.term("left", loop.begin, value, by) for value, by in pairs]
        self._judge(written, loop.header)

    def _assume(self, loop: Loop, name: str) -> bool:
        """Cores are one class if they were, and hold equal values now; whether that changes anything."""
        before = self.assumed.get((loop.begin, name), [0] * self.program.lnc)
        first: dict[Hashable, int] = {}
        pairs = enumerate(zip(before, self.state[name], strict=True))
        now = [first.setdefault(pair, core) for core, pair in pairs]
        self.assumed[loop.begin, name] = now
        return now != before

    def _fork(self, fork: Fork) -> Walk:
        cond = self._condition(fork.block)
        written = sorted(set().union(*(self.writes[block] for block in range(fork.block + 1, fork.join))))
        before = {name: self.state[name] for name in written}
        left: list[dict[str, Row]] = []
        for side in fork.sides:
            self.state.update(before)
            if len(side):
                yield self._walk(side.start, side.stop)
            left.append({name: self.state[name] for name in written})
        for name in written:
            each = zip(cond, left[0][name], left[1][name], strict=True)
            self.state[name] = [
                one if one == other else self.term("join", fork.block, by, one, other) for by, one, other in each
            ]
        self._judge(written, fork.block)

    def _condition(self, block: int) -> Row:
        """The numbers of what a block branches on."""
        found = []
        for core, row in enumerate(self.blocks[block - self.first_block]):
            location = int(self.program.blocks.cond[row])
            found.append(self.term("cond", self._held(location, core), int(self.program.locations.dtype[location])))
        return found

    def _held(self, location: int, core: int) -> int:
        return self._alone() if location in self.unstable else self.state[self._name(location)][core]

    def _block(self, block: int) -> None:
        at = block - self.first_block
        for place in range(self.lengths[at]):
            self._instruction([begin + place for begin in self.at[at]])

    # -- instructions -----------------------------------------------------------------------------------------------

    def _instruction(self, rows: list[int]) -> None:
        """Execute one place of the lists: `rows` are its instructions, one a core."""
        program, starts = self.program, self.program.access_starts
        reads: list[list[Hashable]] = []
        writes: list[list[int]] = []
        for core, row in enumerate(rows):
            accesses = range(int(starts[row]), int(starts[row + 1]))
            writes.append([access for access in accesses if program.accesses.write[access]])
            reads.append([self._read(access, core) for access in accesses if not program.accesses.write[access]])
        results = self._results(rows, reads, writes)
        fresh: dict[str, Row] = {}
        for core, mine in enumerate(writes):
            for access, result in zip(mine, results[core], strict=True):
                location = int(program.accesses.location[access])
                name = self._name(location)
                row_state = fresh.setdefault(name, list(self.state[name]))
                row_state[core] = self._left(access, result, row_state[core])
        self.state.update(fresh)
        self._judge(fresh, None, rows, reads)

    def _read(self, access: int, core: int) -> Hashable:
        """The bytes that an operand reads: what the location holds, which bytes, as what."""
        location = int(self.program.accesses.location[access])
        return self._held(location, core), self._place(access)

    def _left(self, access: int, result: int, before: int) -> int:
        """What a write leaves in its location."""
        if int(self.program.accesses.location[access]) in self.unstable or self.odd[access]:
            return self._alone()
        if self.program.accesses.pattern[access] == NONE and access not in self.steps:
            return result
        return self.term("part", result, self._place(access), before)

    def _place(self, access: int) -> Hashable:
        """Bytes of an operand, how they move, and the type and shape of the location."""
        program = self.program
        location, pattern = int(program.accesses.location[access]), int(program.accesses.pattern[access])
        if location not in self.layouts:
            rows = program.locations
            columns = int(rows.size[location]), int(rows.dtype[location]), int(rows.parts[location])
            self.layouts[location] = self.term("layout", *columns, program.shape(location))
        if pattern not in self.patterns:
            self.patterns[pattern] = self.term("pattern", program.pattern(pattern))
        return self.layouts[location], self.patterns[pattern], self.steps.get(access)

    def _results(self, rows: list[int], reads: list[list[Hashable]], writes: list[list[int]]) -> list[list[int]]:
        """Of each core the number of each result."""
        program, starts = self.program, self.program.access_starts
        found: list[list[int]] = []
        groups = self._members(rows, reads, writes)
        for core, row in enumerate(rows):
            opcode, attrs = int(program.instructions.opcode[row]), int(program.instructions.attrs[row])
            outs = tuple(self._place(access) for access in writes[core])
            operands: Hashable
            if self.odd[starts[row] : starts[row + 1]].any():
                operands = None
            elif groups is not None:
                found.append(self._exchanged(row, core, groups, reads, outs))
                continue
            else:
                operands = tuple(reads[core]) if self._is_function(row) else None
            if operands is None:
                found.append([self._alone() for _ in outs])
            else:
                numbers = [self.term("result", opcode, attrs, operands, outs, at) for at in range(len(outs))]
                found.append(numbers)
        return found

    def _is_function(self, row: int) -> bool:
        """Whether equal operands give equal bytes; of NKI only with `args`, and no register that sums."""
        columns = self.program.instructions
        key = int(columns.opcode[row]), int(columns.attrs[row])
        if key not in self.functional:
            opcode, attrs = lookup(self.program.strings.get(key[0]) or ""), self.program.instruction_attrs(row)
            told = "args" in attrs and "reduce_cmd" not in format_value(attrs["args"])
            self.functional[key] = opcode.function and not opcode.collective and (told or not opcode.is_nki)
        return self.functional[key]

    def _members(self, rows: list[int], reads: list[list[Hashable]], writes: list[list[int]]) -> Members | None:
        """Of a collective: from which cores each core gets something. None: it is not one."""
        program, starts, columns = self.program, self.program.access_starts, self.program.instructions
        name = program.strings.get(int(columns.opcode[rows[0]])) or ""
        if name not in COLLECTIVES:
            return None
        alike = len({(int(columns.opcode[row]), int(columns.attrs[row])) for row in rows}) == 1
        alike &= len({(len(one), len(other)) for one, other in zip(reads, writes, strict=True)}) == 1
        if not alike or any(self.odd[starts[row] : starts[row + 1]].any() for row in rows):
            return {}
        key = int(columns.opcode[rows[0]]), int(columns.attrs[rows[0]])
        if key not in self.members:
            self.members[key] = members_of(name, program.instruction_attrs(rows[0]), program.lnc)
        return self.members[key]

    def _exchanged(
        self,
        row: int,
        core: int,
        groups: Members,
        reads: list[list[Hashable]],
        outs: tuple[Hashable, ...],
    ) -> list[int]:
        """The numbers of the results of a collective on one core."""
        if core not in groups:
            return [self._alone() for _ in outs]
        program, members = self.program, groups[core]
        name = program.strings[int(program.instructions.opcode[row])]
        place = members.index(core) if name in SCATTERING else NONE
        # Without `dim` an exchange sends operand i to member i.
        in_turn = len(reads[core]) == len(outs) and (name != "all_to_all" or "dim" in program.instruction_attrs(row))
        key = name, int(program.instructions.attrs[row]), place, outs
        found = []
        for at in range(len(outs)):
            given = tuple(reads[member][at] if in_turn else tuple(reads[member]) for member in members)
            found.append(self.term("exchanged", *key, at, given))
        return found

    # -- claims -----------------------------------------------------------------------------------------------------

    def _judge(
        self,
        names: Iterable[str],
        block: int | None,
        rows: Sequence[int] = (),
        reads: Sequence[list[Hashable]] = (),
    ) -> None:
        """Doubt the claims on some locations that do not hold now."""
        for name in names:
            if name not in self.classes or name in self.doubts:
                continue
            values = self.state[name]
            for members in self.classes[name]:
                other = next((core for core in members if values[core] != values[members[0]]), None)
                if other is not None:
                    self.doubts[name] = self._doubt(name, (members[0], other), block, rows, reads)
                    break

    def _doubt(
        self,
        name: str,
        cores: tuple[int, int],
        block: int | None,
        rows: Sequence[int],
        reads: Sequence[list[Hashable]],
    ) -> _Doubt:
        one, other = cores
        both = f"cores {one} and {other}"
        program = self.program
        if block is not None:
            cond = program.blocks.cond[self.blocks[block - self.first_block][one]]
            shown, at = format_name(self._name(int(cond))), block_name(program, block)
            note = f"the condition %{shown} may differ on {both}, or what runs behind it leaves other bytes"
            return _Doubt(cores, (), f"after the loop or the branch of {at}, {both} may hold other bytes", (note,))
        if not rows:
            return _Doubt(cores, (), f"{both} may hold other bytes from the start")
        mine, theirs = rows[one], rows[other]
        written = "%" + format_name(program.instruction_name(mine))
        message = f"after {written}, {both} may hold other bytes"
        return _Doubt(cores, (mine, theirs), message, self._notes(mine, theirs, both, reads[one], reads[other]))

    def _notes(
        self, mine: int, theirs: int, both: str, reads: list[Hashable], other: list[Hashable]
    ) -> tuple[str, ...]:
        """What differs between two instructions."""
        program, columns = self.program, self.program.instructions
        opcode = program.strings.get(int(columns.opcode[mine])) or ""
        starts = program.access_starts
        written = {
            int(program.accesses.location[access])
            for access in range(int(starts[mine]), int(starts[mine + 1]))
            if program.accesses.write[access]
        }
        if columns.opcode[mine] != columns.opcode[theirs] or columns.attrs[mine] != columns.attrs[theirs]:
            return ("the opcodes or the attributes differ",)
        if written & self.unstable:
            return ("it is a shared location, which several cores may read and write at other times",)
        if self.odd[starts[mine] : starts[mine + 1]].any() or self.odd[starts[theirs] : starts[theirs + 1]].any():
            return ("an operand is atomic, or touches bytes that are not known",)
        if lookup(opcode).collective:
            attrs = program.instruction_attrs(mine)
            key = "pairs" if "pairs" in attrs else "groups"
            return (f"`{opcode}` may give {both} other results: {key}={format_value(attrs.get(key, []))}",)
        if not self._is_function(mine):
            return (f"`{opcode}` is not known to give equal results for equal operands",)
        for at, (first, second) in enumerate(zip(reads, other, strict=False)):
            if first != second:
                location = int(program.accesses.location[int(starts[mine]) + at])
                return (f"its operand {named(program, location)} may differ on {both}",)
        return (f"what {both} held before may differ, and not all of it is written",)

    def _finding(self, row: int, doubt: _Doubt) -> Diagnostic:
        program = self.program
        same = program.strings[int(program.locations.same[row])]
        claim = f"{named(program, row)} is claimed to be equal, same={same}"
        message = f"{claim}, but that cannot be derived: {doubt.message}"
        labels = (location_label(program, row), *(instruction_label(program, each) for each in doubt.rows))
        function = program.strings[int(program.functions.name[self.functions[0]])]
        entity = Entity(int(program.location_core[row]), self._name(row), row=row)
        subject = Subject("equal bytes", function, locations=(entity,))
        return Diagnostic("equal-bytes-unproved", Severity.ERROR, message, labels, doubt.notes, _HELP, subject)
