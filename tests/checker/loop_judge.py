"""Verdicts on programs with loops and branches by brute force: every run is carried out, edge by edge, and judged
byte by byte.

The program is interpreted as its graph of blocks says, one decision at a time, for every way to decide (loops of
unknown trip count run 0 to `most` times, each time anew; every fork takes each arm, a divergent one for each core
anew). A run is a list of executed instructions for each core; its
happens-before is closed by sets; every pair of accesses, every byte read and every order against the source's is
looked at. It shares no code with the checker and knows nothing of copies, windows or regions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

from tests.brute import participants

from haulout.ir.enums import NONE, Engine, Kind
from haulout.ir.program import Program

BRANCH = -7
"""The row of an executed branch."""


@dataclass(slots=True)
class Done:
    """One executed instruction (or branch) of a core."""

    core: int
    row: int
    block: int
    """In the function."""
    turns: dict[int, int]
    """Header -> its iteration, of the loops around."""
    number: int = 0
    how: object = None
    """It is atomic: the operation by which it changes what it reads and writes."""
    reads: list[tuple[int, frozenset[int], bool]] = field(default_factory=list)
    """(location, bytes, unknown)."""
    writes: list[tuple[int, frozenset[int], bool]] = field(default_factory=list)


@dataclass(slots=True)
class LoopVerdict:
    """What some run shows."""

    order: set[tuple[str, str]] = field(default_factory=set)
    """Codes of unordered pairs, with severities."""
    unfaithful: bool = False
    missing: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Findings on values, by location ..."""
    troubled: set[int] = field(default_factory=set)
    """... and locations whose accesses are not ordered in some run: of those nothing need be told."""
    may: set[str] = field(default_factory=set)
    """Findings on values that may be told."""
    storage: bool = False
    aliased: bool = False
    deadlock: bool = False
    mismatch: bool = False
    runs: int = 0

    @property
    def must(self) -> set[str]:
        """Findings on values that must be told."""
        return {
            code
            for owner, codes in self.missing.items()
            for code in codes
            if code == "output-not-written" or owner not in self.troubled
        }


Trace = list[tuple[int, dict[int, int]]]
"""Blocks that a core goes through, with the iterations of the loops around them."""


def judge_loops(program: Program, runs: int = 60) -> LoopVerdict | None:
    """The verdict on the first function of a program.

    Loops of unknown trip count run up to 4 times, or up to 2 where that makes more than `runs` runs; up to 12 times
    (all pairs of phases of moduli 2 and 3) where patterns move. None where even that makes too many.
    """
    found: list[list[Trace]] = []
    for most in (12,) if len(program.steps) else (4, 3, 2):
        found = list(islice(_runs(program, most), runs + 1))
        if len(found) <= runs:
            break
    else:
        return None
    verdict, facts = LoopVerdict(), _Facts(program)
    for traces in found:
        verdict.runs += 1
        _Run(facts, traces, verdict)
    return verdict


# -- interpretation ------------------------------------------------------------------------------------------------


def _blocks(program: Program, core: int) -> range:
    rows = [row for row in range(len(program.blocks)) if program.block_core[row] == core]
    return range(rows[0], rows[-1] + 1)


def _successors(program: Program) -> list[list[int]]:
    edges = program.edges
    size = len(_blocks(program, 0))
    return [[int(edges.target[at]) for at in range(len(edges)) if edges.source[at] == row] for row in range(size)]


def loop_ends(program: Program) -> dict[int, int]:
    """Header -> the block that leads back to it."""
    return {target: row for row, targets in enumerate(_successors(program)) for target in targets if target <= row}


class _Undecided(Exception):  # noqa: N818 (no error: a question)
    def __init__(self, key: object, options: list[int]) -> None:
        super().__init__()
        self.key, self.options = key, options


def _runs(program: Program, most: int) -> Iterator[list[Trace]]:
    """Every run: what each core goes through."""
    successors, ends = _successors(program), loop_ends(program)
    stack: list[dict[object, int]] = [{}]
    while stack:
        decided = stack.pop()
        try:
            traces = [_trace(program, core, decided, successors, ends, most) for core in range(program.lnc)]
        except _Undecided as open_one:
            stack += [{**decided, open_one.key: option} for option in reversed(open_one.options)]
            continue
        yield traces


def _trace(
    program: Program,
    core: int,
    decided: dict[object, int],
    successors: list[list[int]],
    ends: dict[int, int],
    most: int,
) -> Trace:
    at, came, turns, trace = 0, -1, dict[int, int](), list[tuple[int, dict[int, int]]]()
    while True:
        turns = {header: turn for header, turn in turns.items() if header <= at <= ends[header]}
        if at in ends:
            turns = {**turns, at: turns[at] + 1 if came == ends[at] and at in turns else 0}
        trace.append((at, turns))
        options = list(range(len(successors[at])))
        if not options:
            return trace
        if at in ends:
            trip = int(program.blocks.trip[at])
            if trip != NONE:
                options = [0] if turns[at] < trip else [1]
            elif turns[at] >= most:
                options = [1]
        way = options[0]
        if len(options) > 1:
            key = at, tuple(turns.items()), core if program.blocks.divergent[at] else None
            if key not in decided:
                raise _Undecided(key, options)
            way = decided[key]
        at, came = successors[at][way], at


Operands = list[tuple[int, frozenset[int], bool]]
"""(location, bytes, unknown)."""


class _Facts:
    """What the rows of a program say, looked up once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ends = loop_ends(program)
        self.successors = _successors(program)
        self.forks = {row for row, targets in enumerate(self.successors) if len(targets) == 2} - set(self.ends)
        self.owner = [int(owner) if owner != NONE else row for row, owner in enumerate(program.owner)]
        self.blocks = [_blocks(program, core) for core in range(program.lnc)]
        self.lines = program.instructions.engine.tolist()
        self.seq = program.instructions.seq.tolist()
        self.barriers: dict[int, tuple[int, int]] = {}
        """Row -> (participants, name)."""
        for at, row in enumerate(program.barriers.instruction.tolist()):
            cores = sum(1 << core for core in participants(program, at))
            self.barriers[row] = cores, int(program.barriers.name[at])
        self.rows: dict[int, list[int]] = defaultdict(list)
        for row, block in enumerate(program.instructions.block.tolist()):
            self.rows[block].append(row)
        self.accesses: dict[int, list[int]] = defaultdict(list)
        for at, row in enumerate(program.accesses.instruction.tolist()):
            self.accesses[row].append(at)
        self.waits: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        """Row -> (producer, carried)."""
        rows = program.dependences
        for waiting, producer, carried in zip(
            rows.instruction.tolist(), rows.producer.tolist(), rows.carried.tolist(), strict=True
        ):
            self.waits[waiting].append((producer, carried))
        rows_of = program.locations
        touched = {self.owner[location] for location in program.accesses.location.tolist()}
        outputs = [row for row in range(len(rows_of)) if rows_of.kind[row] == Kind.OUTPUT and self.owner[row] == row]
        self.untouched_outputs = [row for row in outputs if row not in touched]
        self.known: dict[object, tuple[Operands, Operands]] = {}
        self.found: dict[tuple[int, frozenset[int]], frozenset[tuple[int, ...]]] = {}

    def operands(self, core: int, row: int, turns: dict[int, int]) -> tuple[Operands, Operands]:
        """What an instruction reads and writes in given iterations."""
        program = self.program
        question = row, tuple(turns.items())
        if question in self.known:
            return self.known[question]
        sides: tuple[Operands, Operands] = [], []
        for access in self.accesses[row] if self.lines[row] != Engine.ALL else ():
            location = int(program.accesses.location[access])
            size = int(program.locations.size[location])
            pattern = program.pattern(int(program.accesses.pattern[access]))
            unknown = pattern is not None and pattern.is_unknown
            touched = set(range(size)) if pattern is None or unknown else set(pattern.bytes().tolist())
            for step in range(len(program.steps)):
                if program.steps.access[step] == access:
                    header = int(program.steps.header[step]) - self.blocks[core].start
                    turn, modulus = turns[header], int(program.steps.modulus[step])
                    place = (turn + int(program.steps.phase[step])) % modulus if modulus else turn
                    shift = int(program.steps.stride[step]) * place
                    touched = {byte + shift for byte in touched}
            assert all(0 <= byte < size for byte in touched)
            sides[int(program.accesses.write[access])].append((location, frozenset(touched), unknown))
        self.known[question] = sides
        return sides

    def how(self, row: int) -> object:
        """The operation of an instruction all of whose operands are atomic."""
        accesses = self.accesses[row]
        if not accesses or not all(self.program.accesses.atomic[accesses]):
            return None
        return self.program.strings[int(self.program.instructions.opcode[row])]

    def keys(self, location: int, touched: frozenset[int]) -> frozenset[tuple[int, ...]]:
        """Bytes of the storage that bytes of a location are."""
        if (location, touched) not in self.found:
            owner, rows = self.owner[location], self.program.locations
            address = int(rows.address[owner])
            self.found[location, touched] = frozenset(
                (0, address + byte) if address != NONE else (1, owner, byte) for byte in touched
            )
        return self.found[location, touched]


class _Run:
    def __init__(self, facts: _Facts, traces: list[Trace], verdict: LoopVerdict) -> None:
        self.facts, self.program, self.verdict = facts, facts.program, verdict
        self.ends, self.forks, self.owner = facts.ends, facts.forks, facts.owner
        self.lists = [self.execute(core, trace) for core, trace in enumerate(traces)]
        self.all = [done for each in self.lists for done in each]
        for number, done in enumerate(self.all):
            done.number = number
        if self.mismatch():
            verdict.mismatch = True
            return
        if not self.close():
            verdict.deadlock = True
            return
        self.conflicts()
        self.values()
        self.storage()

    # -- what runs ------------------------------------------------------------------------------------------------

    def execute(self, core: int, trace: Trace) -> list[Done]:
        program, facts, found = self.program, self.facts, []
        blocks = facts.blocks[core]
        for block, turns in trace:
            for row in facts.rows[blocks[block]]:
                found.append(Done(core, row, block, turns, 0, facts.how(row), *facts.operands(core, row, turns)))
            if block in self.ends or block in self.forks:
                done = Done(core, BRANCH, block, turns)
                cond = int(program.blocks.cond[blocks[block]])
                if cond != NONE:
                    done.reads.append((cond, frozenset(range(int(program.locations.size[cond]))), False))
                found.append(done)
        return found

    # -- barriers -------------------------------------------------------------------------------------------------

    def mismatch(self) -> bool:
        """True if two cores' common barriers differ."""
        facts = self.facts
        for first, second in combinations(range(self.program.lnc), 2):
            for engine in sorted({facts.lines[row] for row in facts.barriers}):
                sides = []
                for core in (first, second):
                    side = []
                    for done in self.lists[core]:
                        if done.row in facts.barriers and facts.lines[done.row] == engine:
                            cores, name = facts.barriers[done.row]
                            if cores >> first & cores >> second & 1:
                                side.append((cores, name, done.block))
                    sides.append(side)
                if len(sides[0]) != len(sides[1]):
                    return True
                for one, other in zip(*sides, strict=True):
                    if one[0] != other[0] or (one[1] != other[1] and not self.opposite(one[2], other[2])):
                        return True
        return False

    def opposite(self, one: int, other: int) -> bool:
        """True if two blocks stand in different arms of one divergent fork."""
        successors = self.facts.successors
        for fork in self.forks:
            middle = successors[fork][1]
            join = successors[middle - 1][0]
            arms = [range(fork + 1, middle), range(middle, join)]
            if self.program.blocks.divergent[fork] and any(
                one in arms[at] and other in arms[1 - at] for at in range(2)
            ):
                return True
        return False

    # -- happens-before -------------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Happens-before as sets of numbers, one bit each; whether it has no cycle."""
        facts = self.facts
        self.node = list(range(len(self.all)))
        meeting: dict[object, int] = {}
        for each in self.lists:
            count: dict[object, int] = defaultdict(int)
            for done in each:
                if done.row in facts.barriers:
                    line = facts.lines[done.row], facts.barriers[done.row][0]
                    self.node[done.number] = meeting.setdefault((line, count[line]), done.number)
                    count[line] += 1
        after = [0] * len(self.all)
        for each in self.lists:
            everything = fences = 0
            on: dict[int, int] = defaultdict(int)
            for first in reversed(each):
                line, me = self.line(first), self.node[first.number]
                after[me] |= everything if line in (Engine.ALL, BRANCH) else fences | on[line]
                everything |= 1 << me
                fences |= 1 << me if line == Engine.ALL else 0
                on[line] |= 1 << me
            for at, done in enumerate(each):
                for producer in self.waits(each, at):
                    after[self.node[producer.number]] |= 1 << self.node[done.number]
        self.later: dict[int, int] = {}
        active: set[int] = set()

        def reach(start: int) -> bool:
            """True if what is reachable was found, without a cycle."""
            active.add(start)
            rest = found = after[start]
            while rest:
                following = (rest & -rest).bit_length() - 1
                if following in active or (following not in self.later and not reach(following)):
                    return False
                found |= self.later[following]
                rest &= ~self.later[following] & ~(1 << following)
            active.remove(start)
            self.later[start] = found
            return True

        return all(node in self.later or reach(node) for node in dict.fromkeys(self.node))

    def line(self, done: Done) -> int:
        return BRANCH if done.row == BRANCH else int(self.facts.lines[done.row])

    def waits(self, each: list[Done], at: int) -> Iterator[Done]:
        program, facts, done = self.program, self.facts, each[at]
        if done.row == BRANCH:
            cond = int(program.blocks.cond[facts.blocks[done.core][done.block]])
            for other in each[:at]:
                same = other.block == done.block and other.turns == done.turns
                if same and cond != NONE and any(self.owner[w[0]] == self.owner[cond] for w in other.writes):
                    yield other
            return
        for producer, carried in facts.waits[done.row]:
            earlier = [other for other in each[:at] if other.row == producer]
            if carried:
                block = int(program.instructions.block[producer]) - facts.blocks[done.core].start
                common = [h for h, end in self.ends.items() if h <= block <= end and h <= done.block <= end]
                if not common:
                    continue
                inner = max(common)
                around = {h: done.turns[h] - (h == inner) for h in common}
                earlier = [o for o in earlier if all(o.turns.get(h) == turn for h, turn in around.items())]
            if earlier:
                yield earlier[-1]

    def before(self, first: Done, second: Done) -> bool:
        return bool(self.later[self.node[first.number]] >> self.node[second.number] & 1)

    # -- proofs ---------------------------------------------------------------------------------------------------

    def accesses(self) -> Iterator[tuple[Done, int, bool, frozenset[tuple[int, ...]], bool]]:
        for done in self.all:
            for write, side in ((False, done.reads), (True, done.writes)):
                for location, touched, unknown in side:
                    yield done, self.owner[location], write, self.facts.keys(location, touched), unknown

    def conflicts(self) -> None:
        self.troubled: set[int] = set()
        for a, b in combinations(list(self.accesses()), 2):
            if a[0] is b[0] or not (a[2] or b[2]) or not a[3] & b[3]:
                continue
            if a[0].how is not None and a[0].how == b[0].how and a[1] == b[1]:
                continue
            possible = a[4] or b[4]
            if self.before(a[0], b[0]) or self.before(b[0], a[0]):
                first, second = (a, b) if self.before(a[0], b[0]) else (b, a)
                if first[1] == second[1] and self.against(first[0], second[0]):
                    self.verdict.unfaithful = True
                    self.troubled.add(a[1])
                continue
            if a[0].core == b[0].core:
                self.verdict.order.add(("missing-dependence", "WARNING" if possible else "ERROR"))
            elif possible:
                self.verdict.order.add(("possible-race", "WARNING"))
            else:
                self.verdict.order.add(("cross-core-race", "ERROR"))
            self.troubled |= {a[1], b[1]}

        self.verdict.troubled |= self.troubled

    def against(self, first: Done, second: Done) -> bool:
        """True if the source has the second one first."""
        if first.core == second.core and first.number > second.number:
            return True
        for header in sorted(self.ends):
            if header in first.turns and header in second.turns and first.turns[header] != second.turns[header]:
                return first.turns[header] > second.turns[header]
        if BRANCH in (first.row, second.row):
            return False
        seq = [self.facts.seq[done.row] for done in (first, second)]
        return NONE not in seq and seq[0] >= seq[1]

    def values(self) -> None:
        rows = self.program.locations
        every = list(self.accesses())
        for owner in sorted(set(self.owner)):
            if rows.kind[owner] not in (Kind.INTERNAL, Kind.OUTPUT):
                continue
            mine = [each for each in every if each[1] == owner]
            for read in mine:
                if read[2]:
                    continue
                certain = {key for w in mine if w[2] and not w[4] and self.before(w[0], read[0]) for key in w[3]}
                if read[3] <= certain:
                    continue
                self.verdict.may.add("uninitialized-read")
                if not self.troubled and self.reaches(owner):
                    self.verdict.missing[owner].add("uninitialized-read")
            if rows.kind[owner] == Kind.OUTPUT:
                written = {key for w in mine if w[2] and not w[4] for key in w[3]}
                if len(written) < rows.size[owner]:
                    self.verdict.missing[owner].add("output-not-written")
                    self.verdict.may.add("output-not-written")

    def reaches(self, start: int) -> bool:
        """True if what nothing has written of a location certainly comes where it is seen: all that an instruction
        reads of some operand is undefined, so all that it writes is, until something else is written there.
        """
        kind, size = self.program.locations.kind, int(self.program.locations.size[start])
        unwritten = {(start, byte) for byte in range(size)}
        undefined: set[tuple[int, int]] = set()
        for done in self.in_order():
            lost = False
            for location, touched, unknown in done.reads:
                bytes_read = {(self.owner[location], byte) for byte in touched}
                lost |= bool(bytes_read) and bytes_read <= undefined | unwritten
                # A branch, or an instruction that writes nothing, sees a single byte.
                seen = not done.writes and not unknown
                if seen and bytes_read & (undefined | unwritten):
                    return True
            for location, touched, unknown in done.writes:
                written = {(self.owner[location], byte) for byte in touched}
                unwritten -= unwritten if unknown and self.owner[location] == start else written
                undefined -= written
                undefined |= written if lost and not unknown else set()
        return any(kind[owner] != Kind.INTERNAL for owner, _ in undefined)

    def in_order(self) -> list[Done]:
        """What was executed, in one order that happens-before allows."""
        return sorted(self.all, key=lambda done: (-self.later[self.node[done.number]].bit_count(), done.number))

    def storage(self) -> None:
        """What each read finds, in one order of the run that happens-before allows; and what touches the bytes of an
        output after it was written.
        """
        kind = self.program.locations.kind
        kept: dict[tuple[int, ...], int] = {}
        for owner in self.facts.untouched_outputs:
            for key in self.facts.keys(owner, frozenset(range(int(self.program.locations.size[owner])))):
                self.verdict.storage |= kept.setdefault(key, owner) != owner
        holder: dict[tuple[int, ...], int] = {}
        held: dict[tuple[int, ...], set[int]] = defaultdict(set)
        owners: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for done in self.in_order():
            touched: dict[tuple[int, ...], set[tuple[int, bool]]] = defaultdict(set)
            for write, side in ((False, done.reads), (True, done.writes)):
                for location, found, unknown in side:
                    assert not unknown or not self.verdict.aliased
                    owner = self.owner[location]
                    for key in self.facts.keys(location, found):
                        owners[key].add(owner)
                        self.verdict.storage |= kept.get(key, owner) != owner
                        if write and kind[owner] == Kind.OUTPUT:
                            kept[key] = owner
                        touched[key].add((owner, write))
                        if not write and holder.get(key, owner) != owner and owner in held[key]:
                            self.verdict.storage = True
                        if write:
                            holder[key] = owner
                            held[key].add(owner)
            for uses in touched.values():
                self.verdict.storage |= len({owner for owner, _ in uses}) > 1 and any(write for _, write in uses)
        self.verdict.aliased |= any(len(each) > 1 for each in owners.values())
