"""The straight runs of a program: the input of all judges, and the only reading of programs that they share.

A run is a list of steps, core after core, in list order. A step is one execution of one instruction, or of a branch.
`walks.py` chooses the blocks that run. The bytes of an operand are numbers: the physical bytes where there are
addresses, else bytes of the location of the owner, and bytes that all steps treat alike are one. `?` is all bytes of
its location.

A step has its order as data: `waits` (dependences, and the branch that decided that the step runs), `engine`,
semaphores (`signals`, `needs`), and for rendezvous `barrier`, `sends` and `receives`, whose keys are equal on all
sides. Nothing is derived here: each judge interprets them on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout_judges.walks import MAX_RUNS, MAX_STEPS, NotStraightError, Visit, walks

SEQUENCER = NONE
"""The engine of branches."""
MAX_BYTES = 1 << 18


class _NoSuchRunError(Exception):
    """A moving pattern would leave its location: the loop never runs that often."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """One rendezvous at a barrier: steps with equal keys attend it."""

    engine: int
    cores: tuple[int, ...]
    index: int
    """How many of the same engine and cores came before on this core."""
    name: str
    arms: tuple[tuple[int, int], ...]
    """Divergent branches around it, and the arms taken."""

    @property
    def key(self) -> tuple[int, tuple[int, ...], int]:
        """Without the name."""
        return self.engine, self.cores, self.index

    def agrees(self, other: Barrier) -> bool:
        """True if both, with equal keys, are one rendezvous: names are equal, or the arms of a fork differ."""
        return self.name == other.name or any(
            fork == twin and arm != taken for (fork, arm), (twin, taken) in zip(self.arms, other.arms, strict=False)
        )


Semaphore = tuple[int, str]
"""Its core and its name."""


@dataclass(slots=True)
class Step:
    """One execution of one instruction."""

    row: int
    """Row of `instructions`; of a branch of block b: `-1 - b`."""
    core: int
    engine: int
    """`Engine`, or `SEQUENCER`."""
    waits: list[int]
    """Steps that must be complete before."""
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    atomics: tuple[tuple[object, frozenset[int]], ...] = ()
    """(Kind of atomic, bytes); accesses of equal kinds need no order. `reads` and `writes` express that through extra
    bytes (`_mark_atomics`)."""
    barrier: Barrier | None = None
    sends: tuple[int, int, int, int] | None = None
    """(sender, receiver, tag, how many came before)"""
    receives: tuple[int, int, int, int] | None = None
    signals: tuple[tuple[Semaphore, int], ...] = ()
    """Added on completion."""
    needs: tuple[tuple[Semaphore, int], ...] = ()
    """At least so much before it starts."""


def runs(program: Program, limit: int = MAX_RUNS, seed: int = 0, most_steps: int = MAX_STEPS) -> Iterator[list[Step]]:
    """The runs of the first function; all of them, or `limit` chosen by `seed`, each of at most so many steps.

    Raises `NotStraightError`.
    """
    starts = program.starts("functions", "modules").tolist()
    if any(first == end for first, end in pairwise(starts)):
        raise NotStraightError("a core without a function")
    functions = starts[:-1]
    reader = _Reader(program, functions, most_steps)
    some = False
    for visits in walks(program, functions, limit, Random(seed), most_steps):
        try:
            steps = reader.steps(visits)
        except _NoSuchRunError:
            continue
        some = True
        yield steps
    if not some:
        raise NotStraightError("patterns leave their locations in every run")


# -- what a block does -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Done:
    """An execution of an instruction of this core that a later one may wait for."""

    step: int
    loops: tuple[int, ...]
    iterations: tuple[int, ...]


@dataclass(slots=True)
class _Semaphores:
    """What an instruction does to semaphores."""

    signals: list[tuple[Semaphore, int]]
    waits: list[tuple[Semaphore, int]]
    back: list[tuple[str, int]]
    """`wait_back`: how many signals may be missing."""


def _lists(value: object) -> list[list[Any]]:
    """The value of an attribute that is a list of lists, or nothing."""
    return [each for each in value if isinstance(each, list)] if isinstance(value, list) else []


@dataclass(slots=True)
class _Reader:
    program: Program
    functions: Sequence[int]
    most_steps: int
    bytes: dict[tuple[int, ...], int] = field(default_factory=dict)
    deps: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    barriers: dict[int, int] = field(default_factory=dict)
    sendrecvs: dict[int, int] = field(default_factory=dict)
    moves: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Operand -> (header, stride, modulus, phase)."""
    semaphores: dict[int, _Semaphores] = field(default_factory=dict)
    touched: dict[tuple[int, Pattern | None], frozenset[int]] = field(default_factory=dict)
    """The bytes of patterns that were met before."""

    def __post_init__(self) -> None:
        program = self.program
        edges = program.dependences
        for row, producer, carried in zip(edges.instruction, edges.producer, edges.carried, strict=True):
            self.deps.setdefault(int(row), []).append((int(producer), bool(carried)))
        self.barriers = {int(row): at for at, row in enumerate(program.barriers.instruction)}
        self.sendrecvs = {int(row): at for at, row in enumerate(program.meetings.instruction)}
        steps = program.steps
        for access, *move in zip(steps.access, steps.header, steps.stride, steps.modulus, steps.phase, strict=True):
            header, stride, modulus, phase = map(int, move)
            self.moves.setdefault(int(access), []).append((header, stride, modulus, phase))
        table = program.semaphores
        for at, row in enumerate(table.instruction.tolist()):
            name, value, core = program.strings[int(table.name[at])], int(table.value[at]), int(table.core[at])
            semaphore = (int(program.instruction_core[row]) if core == NONE else core), name
            mine = self.semaphores.setdefault(row, _Semaphores([], [], []))
            if table.back[at]:
                mine.back.append((name, value))
            else:
                (mine.waits if table.wait[at] else mine.signals).append((semaphore, value))

    def steps(self, visits: Sequence[Sequence[Visit]]) -> list[Step]:
        made: list[Step] = []
        for core, function in enumerate(self.functions):
            self._core(core, function, visits[core], made)
        self._mark_atomics(made)
        _merge_bytes(made)
        return made

    def _mark_atomics(self, made: Sequence[Step]) -> None:
        """Express by reads and writes which accesses to an atomically updated byte need an order.

        An atomic step reads the byte, so ordinary writes conflict with it. Other accesses that need an order get a
        byte of their own, which they write and the others read: an ordinary reader for all atomic steps, an atomic
        step for those of another kind.
        """
        users: dict[int, list[tuple[int, object]]] = {}
        for at, step in enumerate(made):
            for how, touched in step.atomics:
                for byte in touched:
                    users.setdefault(byte, []).append((at, how))
        if not users:
            return
        readers: dict[int, list[int]] = {}
        for at, step in enumerate(made):
            for byte in step.reads & users.keys():
                readers.setdefault(byte, []).append(at)
        reads: dict[int, set[int]] = {}
        writes: dict[int, set[int]] = {}
        for byte, mine in users.items():
            several = len({how for _, how in mine}) > 1
            for at, how in mine:
                others = [other for other, kind in mine if kind != how] + readers.get(byte, [])
                reads.setdefault(at, {byte}).add(byte)
                reads[at].update(self._own_byte(byte, other) for other in others if other != at)
            for at in [*readers.get(byte, []), *(at for at, _ in mine if several)]:
                writes.setdefault(at, set()).add(self._own_byte(byte, at))
        for at in reads.keys() | writes.keys():
            made[at].reads |= reads.get(at, set())
            made[at].writes |= writes.get(at, set())
        if len(self.bytes) > MAX_BYTES:
            raise NotStraightError("too many bytes")

    def _own_byte(self, byte: int, step: int) -> int:
        return self.bytes.setdefault((-1, byte, step), len(self.bytes))

    def _core(self, core: int, function: int, visits: Sequence[Visit], made: list[Step]) -> None:
        program = self.program
        first = int(program.starts("blocks", "functions")[function])
        starts = program.starts("instructions", "blocks")
        done: dict[int, list[_Done]] = {}
        counters: Counter[object] = Counter()
        issued: Counter[str] = Counter()
        decided: list[int] = []
        for visit in visits:
            block = first + visit.block
            begin, end = starts[block : block + 2].tolist()
            here = len(made)
            for row in range(begin, end):
                waits = [*decided, *self._waits(row, visit, done)]
                step = Step(row, core, int(program.instructions.engine[row]), waits)
                self._operands(step, visit, first)
                self._rendezvous(step, visit, counters)
                self._semaphores(step, issued)
                done.setdefault(row, []).append(_Done(len(made), visit.loops, visit.iterations))
                made.append(step)
            if len(made) > self.most_steps:
                raise NotStraightError("too many instructions")
            if program.blocks.cond[block] != NONE or (visit.loops and visit.loops[-1] == visit.block):
                decided = [len(made)]
                made.append(self._branch(core, block, made, here))

    def _branch(self, core: int, block: int, made: Sequence[Step], here: int) -> Step:
        """The end of a header or fork: it reads `cond` after the writes of it in the block are complete."""
        before = [at for at in range(here) if made[at].core == core and made[at].engine == SEQUENCER][-1:]
        cond = int(self.program.blocks.cond[block])
        if cond == NONE:
            return Step(-1 - block, core, SEQUENCER, before)
        dtype = self.program.strings.get(int(self.program.locations.dtype[cond]))
        size = int(self.program.locations.size[cond])
        first = Pattern(0, min(itemsize(dtype), size)) if dtype is not None else None
        whole = self._bytes(cond, None)
        writers = [at for at in range(here, len(made)) if made[at].writes & whole]
        return Step(-1 - block, core, SEQUENCER, before + writers, self._bytes(cond, first))

    def _waits(self, row: int, visit: Visit, done: dict[int, list[_Done]]) -> list[int]:
        found = []
        for producer, carried in self.deps.get(row, []):
            for each in reversed(done.get(producer, [])):
                depth = 0
                while depth < min(len(each.loops), len(visit.loops)) and each.loops[depth] == visit.loops[depth]:
                    depth += 1
                outer = depth - 1
                if not carried or (
                    depth
                    and each.iterations[:outer] == visit.iterations[:outer]
                    and each.iterations[outer] == visit.iterations[outer] - 1
                ):
                    found.append(each.step)
                    break
        return found

    def _operands(self, step: Step, visit: Visit, first: int) -> None:
        if step.row in self.barriers:
            return  # a barrier's operands are handles
        program, reads, writes = self.program, set[int](), set[int]()
        atomics: dict[object, set[int]] = {}
        for access in range(*program.access_starts[step.row : step.row + 2].tolist()):
            pattern = program.pattern(int(program.accesses.pattern[access]))
            location = int(program.accesses.location[access])
            for header, stride, modulus, phase in self.moves.get(access, []):
                k = visit.iterations[visit.loops.index(header - first)]
                shift = stride * ((k + phase) % modulus if modulus else k)
                if pattern is None and shift:
                    raise NotStraightError("a step moves the whole location")
                if pattern is not None and not pattern.is_unknown:
                    pattern = pattern._replace(offset=pattern.offset + shift)
            touched = writes if program.accesses.write[access] else reads
            if program.accesses.atomic[access]:
                touched = atomics.setdefault(self._atomic_kind(step.row, access, location), set())
            touched |= self._bytes(location, pattern)
        step.reads, step.writes = frozenset(reads), frozenset(writes)
        step.atomics = tuple((how, frozenset(touched)) for how, touched in atomics.items())

    def _atomic_kind(self, row: int, access: int, location: int) -> object:
        """The kind of an atomic access: the operation, the element type, and the location."""
        program, attrs = self.program, self.program.instruction_attrs(row)
        operation = attrs.get("op", program.strings[int(program.instructions.opcode[row])])
        dtypes = attrs.get("dtypes")
        if isinstance(dtypes, list):
            return operation, dtypes[access - int(program.access_starts[row])], int(program.owner[location])
        owner = int(program.owner[location])
        named = [int(program.locations.dtype[each]) for each in (location, owner)]
        return operation, next((program.strings[each] for each in named if each != NONE), None), owner

    def _bytes(self, location: int, pattern: Pattern | None) -> frozenset[int]:
        found = self.touched.get((location, pattern))
        if found is None:
            found = self.touched[location, pattern] = self._find_bytes(location, pattern)
        return found

    def _find_bytes(self, location: int, pattern: Pattern | None) -> frozenset[int]:
        rows = self.program.locations
        size = int(rows.size[location])
        if pattern is None or pattern.is_unknown:
            touched: Sequence[int] = range(size)
        else:
            touched = pattern.bytes().tolist()
            if touched and not (min(touched) >= 0 and max(touched) < size):
                raise _NoSuchRunError
        if len(self.bytes) + len(touched) > MAX_BYTES:
            raise NotStraightError("too many bytes")
        owner = int(self.program.owner[location])
        placed = location if rows.address[location] != NONE or owner == NONE else owner
        address, space = int(rows.address[placed]), Space(int(rows.space[placed]))
        keys: Iterator[tuple[int, ...]]
        if address == NONE:
            keys = ((9, owner, byte) for byte in touched)
        elif space.is_dram:
            keys = ((0, address + byte) for byte in touched)
        else:
            share = -(-int(rows.size[placed]) // max(int(rows.parts[placed]), 1))
            core, part = int(self.program.location_core[placed]), max(int(rows.partition[placed]), 0)
            keys = ((int(space), core, part + byte // share, address + byte % share) for byte in touched)
        return frozenset(self.bytes.setdefault(key, len(self.bytes)) for key in keys)

    def _semaphores(self, step: Step, issued: Counter[str]) -> None:
        """The signals and needs of a step; `issued` counts, by name, what this core has signalled so far."""
        mine = self.semaphores.get(step.row)
        if mine is None:
            return
        back = [((step.core, name), issued[name] - value) for name, value in mine.back]
        step.needs = tuple((semaphore, value) for semaphore, value in (*mine.waits, *back) if value > 0)
        step.signals = tuple(mine.signals)
        for (_, name), value in mine.signals:
            issued[name] += value

    def _rendezvous(self, step: Step, visit: Visit, counters: Counter[object]) -> None:
        program = self.program
        if step.row in self.barriers:
            at = self.barriers[step.row]
            cores = program.core_sets.members[program.core_sets.of[at]]
            key = (step.engine, cores)
            name = program.strings[int(program.barriers.name[at])]
            step.barrier = Barrier(step.engine, cores, counters[key], name, visit.arms)
            counters[key] += 1
        if step.row in self.sendrecvs:
            at = self.sendrecvs[step.row]
            to, source, tag = (
                int(column[at]) for column in (program.meetings.to, program.meetings.source, program.meetings.tag)
            )
            if to != NONE:
                step.sends = (step.core, to, tag, counters["to", to, tag])
                counters["to", to, tag] += 1
            if source != NONE:
                step.receives = (source, step.core, tag, counters["from", source, tag])
                counters["from", source, tag] += 1


def _merge_bytes(made: Sequence[Step]) -> None:
    """Give bytes new numbers, one number to those that all steps treat alike: no judge can tell them apart."""
    users: dict[int, list[int]] = {}
    for at, step in enumerate(made):
        for byte in step.reads:
            users.setdefault(byte, []).append(2 * at)
        for byte in step.writes:
            users.setdefault(byte, []).append(2 * at + 1)
    numbers: dict[tuple[int, ...], int] = {}
    number_of = {byte: numbers.setdefault(tuple(mine), len(numbers)) for byte, mine in users.items()}
    for step in made:
        step.reads = frozenset(map(number_of.__getitem__, step.reads))
        step.writes = frozenset(map(number_of.__getitem__, step.writes))


def is_fence(step: Step) -> bool:
    """True if it orders all engines of its core."""
    return step.engine == Engine.ALL
