"""The same verdicts by brute force: the transitive closure of the fused graph, and sets of single bytes.

Written from semantics.md over row views, for programs of a few dozen instructions. It shares no code with the
checker. A pair of accesses is judged byte by byte and path by path; nothing is clever.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations

from tests.brute import participants

from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program


@dataclass(frozen=True, slots=True)
class Access:
    instruction: int
    core: int
    location: int
    owner: int
    write: bool
    unknown: bool
    atomic: tuple[object, ...] | None
    """How it is changed in one step: the operation and the element type."""
    fetches: bool
    listed: tuple[int, ...]
    """The bytes of the owner in the order of the pattern."""
    logical: frozenset[int]
    physical: frozenset[tuple[int, ...]]
    event: tuple[str, int]


@dataclass(slots=True)
class Verdict:
    """What is wrong: codes with severities ("possible" ones are warnings), and the bad pairs as instruction rows."""

    codes: set[tuple[str, str]] = field(default_factory=set)
    pairs: dict[str, set[frozenset[int]]] = field(default_factory=lambda: defaultdict(set))
    values: tuple[set[tuple[str, str]], set[tuple[str, str]]] = field(default_factory=lambda: (set(), set()))
    """Findings on values: those that must be told, and those that may be."""
    aliased: bool = False
    """Two owners share bytes."""
    ordered: bool = True
    """There is an order to judge by."""


def judge(program: Program) -> Verdict:
    """The verdict on the first function of a program."""
    return _Judge(program).verdict


class _Judge:
    def __init__(self, program: Program) -> None:
        self.program, self.verdict = program, Verdict()
        self.cores = program.lnc
        rows = program.instructions
        self.lists: list[list[int]] = [[] for _ in range(self.cores)]
        for row in range(len(rows)):
            self.lists[int(program.instruction_core[row])].append(row)  # generated blocks stand in chain order
        self.barrier = {int(i): at for at, i in enumerate(program.barriers.instruction)}
        self.meeting = {int(i): at for at, i in enumerate(program.meetings.instruction)}
        self.owner = [int(o) if o != NONE else at for at, o in enumerate(program.owner)]
        self.placements()
        mismatch = self.mismatch()
        lonely = self.pair_meetings()
        if mismatch or lonely:
            self.verdict.ordered = False
            self.codes_of(("barrier-mismatch", mismatch), ("deadlock", lonely))
            return
        if not self.close():
            self.verdict.ordered = False
            self.codes_of(("deadlock", True))
            return
        self.accesses = self.all_accesses()
        self.conflicts()
        self.values()
        self.storage()

    def codes_of(self, *found: tuple[str, bool]) -> None:
        self.verdict.codes |= {(code, "ERROR") for code, wrong in found if wrong}

    # -- barriers and meetings ------------------------------------------------------------------------------------

    def mismatch(self) -> bool:
        for first, second in combinations(range(self.cores), 2):
            sides = []
            for core in (first, second):
                lines = defaultdict(list)
                for row in self.lists[core]:
                    if row in self.barrier:
                        at = self.barrier[row]
                        if {first, second} <= participants(self.program, at):
                            said = (int(self.program.barriers.name[at]), participants(self.program, at))
                            lines[int(self.program.instructions.engine[row])].append(said)
                sides.append(lines)
            if sides[0] != sides[1]:
                return True
        return False

    def pair_meetings(self) -> bool:
        table = self.program.meetings
        sends, receives = defaultdict(list), defaultdict(list)
        for core in range(self.cores):
            for row in self.lists[core]:
                if row in self.meeting:
                    at = self.meeting[row]
                    if table.to[at] != NONE:
                        sends[core, int(table.to[at]), int(table.tag[at])].append(row)
                    if table.source[at] != NONE:
                        receives[int(table.source[at]), core, int(table.tag[at])].append(row)
        self.partners = []
        lonely = False
        for key in {*sends, *receives}:
            lonely |= len(sends[key]) != len(receives[key])
            self.partners += list(zip(sends[key], receives[key], strict=False))
        return lonely

    # -- the fused graph ------------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Happens-before as a set of later events for each event; False when it is no order."""
        program, rows = self.program, self.program.instructions
        rendezvous: dict[int, tuple[str, int]] = {}
        count: dict[object, int] = defaultdict(int)
        names: dict[object, int] = {}
        for core in range(self.cores):
            for row in self.lists[core]:
                if row in self.barrier:
                    line = (int(rows.engine[row]), participants(self.program, self.barrier[row]))
                    key = (line, count[core, line])
                    count[core, line] += 1
                    rendezvous[row] = ("meet", names.setdefault(key, len(names)))

        def enter(row: int) -> tuple[str, int]:
            return rendezvous.get(row, ("enter", row))

        def leave(row: int) -> tuple[str, int]:
            return rendezvous.get(row, ("leave", row))

        self.enter, self.leave = enter, leave
        after: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
        for core in range(self.cores):
            for row in self.lists[core]:
                if row not in rendezvous:
                    after[enter(row)].add(leave(row))
            for first, second in combinations(self.lists[core], 2):
                engines = {int(rows.engine[first]), int(rows.engine[second])}
                if len(engines) == 1 or int(Engine.ALL) in engines:
                    after[leave(first)].add(enter(second))
        for at in range(len(program.dependences)):
            producer, consumer = int(program.dependences.producer[at]), int(program.dependences.instruction[at])
            after[leave(producer)].add(enter(consumer))
        for sender, receiver in self.partners:
            after[enter(sender)].add(leave(receiver))
            after[enter(receiver)].add(leave(sender))

        self.later: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for start in list(after):
            reached: set[tuple[str, int]] = set()
            stack = list(after[start])
            while stack:
                node = stack.pop()
                if node not in reached:
                    reached.add(node)
                    stack += after.get(node, ())
            self.later[start] = reached
        return not any(node in reached for node, reached in self.later.items())

    def before(self, first: Access, second: Access) -> bool:
        return second.event in self.later.get(first.event, set())

    # -- bytes ----------------------------------------------------------------------------------------------------

    def key(self, location: int, byte: int) -> tuple[int, ...]:
        """The physical byte."""
        rows = self.program.locations
        placed = location if rows.address[location] != NONE else self.owner[location]
        if rows.address[placed] == NONE:
            return (9, self.owner[location], byte)
        space = Space(int(rows.space[placed]))
        if space.is_dram:
            return (0, int(rows.address[placed]) + byte)
        parts = max(int(rows.parts[placed]), 1)
        share = -(-int(rows.size[placed]) // parts)
        first = max(int(rows.partition[placed]), 0)
        core = int(self.program.location_core[placed])
        return (int(space), core, first + byte // share, int(rows.address[placed]) + byte % share)

    def all_accesses(self) -> list[Access]:
        program, found = self.program, []
        for at in range(len(program.accesses)):
            row, location = int(program.accesses.instruction[at]), int(program.accesses.location[at])
            if row in self.barrier:
                continue
            pattern = program.pattern(int(program.accesses.pattern[at]))
            unknown = pattern is not None and pattern.is_unknown
            size = int(program.locations.size[location])
            touched = list(range(size)) if pattern is None or unknown else pattern.bytes().tolist()
            write = bool(program.accesses.write[at])
            found.append(
                Access(
                    instruction=row,
                    core=int(program.instruction_core[row]),
                    location=location,
                    owner=self.owner[location],
                    write=write,
                    unknown=unknown,
                    atomic=self.atomic(row, at, location) if program.accesses.atomic[at] else None,
                    fetches=program.strings[int(program.instructions.opcode[row])] == "fetch_and_op",
                    listed=tuple(touched),
                    logical=frozenset(touched),
                    physical=frozenset(self.key(location, byte) for byte in touched),
                    event=self.leave(row) if write else self.enter(row),
                )
            )
        return found

    def atomic(self, row: int, at: int, location: int) -> tuple[object, ...]:
        program, attrs = self.program, self.program.instruction_attrs(row)
        operation = attrs.get("op", program.strings[int(program.instructions.opcode[row])])
        listed = attrs.get("dtypes")
        if isinstance(listed, list):
            return operation, listed[at - int(program.access_starts[row])]
        for place in (location, self.owner[location]):
            if program.locations.dtype[place] != NONE:
                return operation, program.strings[int(program.locations.dtype[place])]
        return operation, None

    # -- proofs ---------------------------------------------------------------------------------------------------

    def fill(self, access: Access) -> object:
        """The value that a write fills with; something equal to nothing else for any other write."""
        opcode = self.program.strings[int(self.program.instructions.opcode[access.instruction])]
        value = self.program.instruction_attrs(access.instruction).get("value")
        return ("fill", value) if opcode == "memset" and not access.unknown else access

    def harmless(self, a: Access, b: Access) -> bool:
        """True if two unordered writes leave the same bytes in every order: byte by byte."""
        if not (a.write and b.write and a.owner == b.owner) or a.unknown or b.unknown:
            return False
        if self.fill(a) == self.fill(b):
            return True  # what else is not ordered with them is a pair of its own
        return all(self.harmless_at(a, byte) for byte in a.physical & b.physical)

    def harmless_at(self, a: Access, byte: tuple[int, ...]) -> bool:
        touching = [each for each in self.accesses if byte in each.physical]
        writes = [each for each in touching if each.write]
        cluster = {a}
        while more := {w for w in writes if w not in cluster and any(self.unordered(w, each) for each in cluster)}:
            cluster |= more
        if len({each.owner for each in cluster}) > 1:
            return False
        last = [each for each in cluster if not any(self.runs_before(each, other) for other in cluster)]
        reads = [each for each in touching if not each.write]
        return len({self.fill(each) for each in last}) == 1 and all(
            all(self.runs_before(read, each) for each in cluster)
            or all(self.runs_before(each, read) for each in cluster)
            for read in reads
        )

    def runs_before(self, first: Access, second: Access) -> bool:
        if first.instruction == second.instruction:
            return second.write and not first.write
        return self.before(first, second)

    def unordered(self, first: Access, second: Access) -> bool:
        return not self.runs_before(first, second) and not self.runs_before(second, first)

    def conflicts(self) -> None:
        seq = self.program.instructions.seq
        self.troubled: set[int] = set()
        for a, b in combinations(self.accesses, 2):
            if a.instruction == b.instruction or not (a.write or b.write) or not a.physical & b.physical:
                continue
            pair = frozenset((a.instruction, b.instruction))
            commute = a.atomic is not None and a.atomic == b.atomic and a.owner == b.owner
            fetched = commute and (a.fetches or b.fetches)
            if commute and not fetched:
                continue
            if self.before(a, b) or self.before(b, a):
                first, second = (a, b) if self.before(a, b) else (b, a)
                if a.owner != b.owner:
                    continue
                times = int(seq[first.instruction]), int(seq[second.instruction])
                wrong = first.core == second.core and first.instruction > second.instruction
                tied = times[0] == times[1]
                if wrong or (min(times) >= 0 and (tied or times[0] > times[1])):
                    self.tell("unfaithful-order", False, pair)
                else:
                    continue
            elif fetched:
                self.verdict.codes.add(("order-dependent-result", "NOTE"))
                self.verdict.pairs["order-dependent-result"].add(pair)
                continue
            elif self.harmless(a, b):
                self.verdict.codes.add(("benign-duplicate-write", "NOTE"))
                self.verdict.pairs["benign-duplicate-write"].add(pair)
                continue
            elif a.core == b.core:
                self.tell("missing-dependence", a.unknown or b.unknown, pair)
            else:
                possible = a.unknown or b.unknown
                self.tell("possible-race" if possible else "cross-core-race", possible, pair)
            self.troubled |= {a.owner, b.owner}

    def tell(self, code: str, possible: bool, pair: frozenset[int]) -> None:
        self.verdict.codes.add((code, "WARNING" if possible else "ERROR"))
        self.verdict.pairs[code].add(pair)

    def values(self) -> None:
        """Reads of bytes that no write precedes, outputs with bytes that nothing writes."""
        rows = self.program.locations
        must, may = self.verdict.values
        for owner in sorted(set(self.owner)):
            if rows.kind[owner] not in (Kind.INTERNAL, Kind.OUTPUT) or self.owner[owner] != owner:
                continue
            mine = [each for each in self.accesses if each.owner == owner]
            for read in mine:
                if read.write:
                    continue
                earlier = [w for w in mine if w.write and self.before(w, read)]
                certain = set().union(*(w.logical for w in earlier if not w.unknown))
                if self.troubled and not read.logical <= certain:
                    may |= {("uninitialized-read", "WARNING"), ("uninitialized-read", "ERROR")}
            # One finding a location: a certain one hides the possible ones. Who races has no values to judge.
            if not self.troubled and self.reaches(owner, possible=True):
                severity = "WARNING" if not self.reaches(owner, possible=False) else "ERROR"
                must.add(("uninitialized-read", severity))
                may.add(("uninitialized-read", severity))
            if rows.kind[owner] == Kind.OUTPUT:
                written = set().union(*(w.logical for w in mine if w.write and not w.unknown))
                if len(written) < rows.size[owner]:
                    guess = any(w.write and w.unknown for w in mine)
                    self.verdict.codes.add(("output-not-written", "WARNING" if guess else "ERROR"))

    # -- where bytes go that nothing has written, one by one ---------------------------------------------------------

    def reaches(self, start: int, possible: bool) -> bool:
        """True if bytes of a location that nothing has written, or what is made of them, can be seen."""
        rows = self.program.locations
        unwritten, in_doubt = set(range(int(rows.size[start]))), False
        undefined: dict[int, set[int]] = defaultdict(set)
        has_read: dict[int, list[tuple[Access, set[int]]]] = defaultdict(list)
        events = {self.enter(each.instruction) for each in self.accesses} | {each.event for each in self.accesses}
        for event in sorted(events, key=lambda event: (-len(self.later.get(event, ())), event)):
            for access in [each for each in self.accesses if each.event == event]:
                mine = undefined[access.owner]
                if access.write:
                    if access.owner == start and not access.unknown:
                        unwritten -= access.logical
                    in_doubt |= access.owner == start and access.unknown
                    if not (access.unknown and possible):
                        mine -= access.logical
                    continue
                found = mine & access.logical
                if access.unknown and not possible and found != access.logical:
                    found = set()
                if access.owner == start:
                    raw = unwritten & access.logical
                    if possible or (not in_doubt and (not access.unknown or raw == access.logical)):
                        found |= raw
                if found and self.is_seen(access):
                    return True
                if found:
                    has_read[access.instruction].append((access, found))
            for access in [each for each in self.accesses if each.event == event and each.write]:
                for read, found in has_read[self.origin(access.instruction)]:
                    undefined[access.owner] |= self.makes(read, found, access, possible)
        return any(undefined[owner] for owner in undefined if rows.kind[owner] != Kind.INTERNAL)

    def operands_of(self, instruction: int, write: bool) -> list[Access]:
        return [each for each in self.accesses if each.instruction == instruction and each.write == write]

    def is_seen(self, read: Access) -> bool:
        """It writes nothing, or it may be the index of an operand whose bytes are not known."""
        others = [each for each in self.accesses if each.instruction == read.instruction]
        if any(each.unknown for each in others) and not read.unknown:
            return True
        return read.instruction not in self.meeting and not any(each.write for each in others)

    def origin(self, instruction: int) -> int:
        """Which instruction has read what this one writes."""
        if instruction not in self.meeting:
            return instruction
        return next((sender for sender, receiver in self.partners if receiver == instruction), NONE)

    def makes(self, read: Access, found: set[int], write: Access, possible: bool) -> set[int]:
        """The bytes of a write that come from some bytes of a read: a copy keeps their order."""
        sides = [self.operands_of(read.instruction, False), self.operands_of(write.instruction, True)]
        both = {read.instruction, write.instruction}
        if write.unknown and not possible:
            return set()
        if any(each.unknown for each in self.accesses if each.instruction in both):
            return set(write.logical)
        if [len(side) for side in sides] != [1, 1] or len(read.listed) != len(write.listed):
            return set(write.logical)
        return {target for source, target in zip(read.listed, write.listed, strict=True) if source in found}

    def storage(self) -> None:
        rows = self.program.locations
        placed = [o for o in sorted(set(self.owner)) if self.owner[o] == o and rows.address[o] != NONE]
        everything = {o: {self.key(o, byte) for byte in range(int(rows.size[o]))} for o in placed}
        for a, b in combinations(placed, 2):
            if not everything[a] & everything[b]:
                continue
            self.verdict.aliased = True
            mine, other = ([x for x in self.accesses if x.owner == owner] for owner in (a, b))
            lasting = [rows.kind[owner] != Kind.INTERNAL for owner in (a, b)]
            forever = [
                lasts and (rows.kind[owner] != Kind.OUTPUT or not touched)
                for owner, touched, lasts in zip((a, b), (mine, other), lasting, strict=True)
            ]
            lives = [bool(mine) or forever[0], bool(other) or forever[1]]
            if not all(lives):
                continue
            apart = not any(forever) and (
                (not lasting[0] and all(self.wholly(x, y) for x in mine for y in other))
                or (not lasting[1] and all(self.wholly(y, x) for x in mine for y in other))
            )
            self.codes_of(("overlapping-storage", not apart))

    def wholly(self, first: Access, second: Access) -> bool:
        return first.instruction != second.instruction and self.before(first, second)

    def placements(self) -> None:
        program, rows = self.program, self.program.locations
        hulls: dict[int, list[int]] = {}
        for row in range(len(rows)):
            owner = self.owner[row]
            if owner != row:
                seen = [
                    (int(rows.address[r]), max(int(rows.bank[r]), 0), max(int(rows.partition[r]), 0))
                    for r in (row, owner)
                ]
                if seen[0] != seen[1] and (seen[0][0] != seen[1][0] or seen[0][0] != NONE):
                    self.codes_of(("view-mismatch", True))
                continue
            if rows.address[row] == NONE:
                continue
            if Space(int(rows.space[row])).is_dram:
                core = int(program.location_core[row])
                low, high = int(rows.address[row]), int(rows.address[row] + rows.size[row])
                hull = hulls.setdefault(core, [low, high])
                hulls[core] = [min(hull[0], low), max(hull[1], high)]
        for one, other in combinations(hulls.values(), 2):
            if one[0] < other[1] and other[0] < one[1]:
                self.verdict.aliased = True
                self.codes_of(("overlapping-storage", True))
        capacity = program.attrs.get("capacity")
        if isinstance(capacity, int):
            self.codes_of(("over-capacity", sum(high - low for low, high in hulls.values()) > capacity))
