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


_Operands = tuple[frozenset[int], frozenset[int], tuple[tuple[object, frozenset[int]], ...]]
"""Of one execution: `Step.reads`, `writes` and `atomics`."""


@dataclass(slots=True)
class _Reader:
    program: Program
    functions: Sequence[int]
    most_steps: int
    bytes: dict[tuple[int, ...], int] = field(default_factory=dict)
    deps: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    barriers: dict[int, int] = field(default_factory=dict)
    sendrecvs: dict[int, int] = field(default_factory=dict)
    semaphores: dict[int, _Semaphores] = field(default_factory=dict)
    touched: dict[tuple[int, Pattern | None], frozenset[int]] = field(default_factory=dict)
    """The bytes of patterns that were met before."""
    operands: dict[tuple[int, ...], _Operands] = field(default_factory=dict)
    """What instructions touch: their rows, and how far their patterns have moved."""
    moving: dict[int, list[tuple[int, int, int, int, int]]] = field(default_factory=dict)
    """Of an instruction: (access, header, stride, modulus, phase)."""
    engine: list[int] = field(default_factory=list)
    block_starts: list[int] = field(default_factory=list)
    cond: list[int] = field(default_factory=list)

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
            row = int(program.accesses.instruction[access])
            self.moving.setdefault(row, []).append((int(access), header, stride, modulus, phase))
        self.engine = program.instructions.engine.tolist()
        self.block_starts = program.starts("instructions", "blocks").tolist()
        self.cond = program.blocks.cond.tolist()
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
        done: dict[int, list[_Done]] = {}
        counters: Counter[object] = Counter()
        issued: Counter[str] = Counter()
        decided: list[int] = []
        for visit in visits:
            block = first + visit.block
            here = len(made)
            for row in range(self.block_starts[block], self.block_starts[block + 1]):
                waits = [*decided, *self._waits(row, visit, done)] if row in self.deps else decided.copy()
                step = Step(row, core, self.engine[row], waits)
                step.reads, step.writes, step.atomics = self._operands(row, visit, first)
                if row in self.barriers or row in self.sendrecvs:
                    self._rendezvous(step, visit, counters)
                if row in self.semaphores:
                    self._semaphores(step, issued)
                done.setdefault(row, []).append(_Done(len(made), visit.loops, visit.iterations))
                made.append(step)
            if len(made) > self.most_steps:
                raise NotStraightError("too many instructions")
            if self.cond[block] != NONE or (visit.loops and visit.loops[-1] == visit.block):
                step = self._branch(core, block, made, here, decided)
                decided = [len(made)]
                made.append(step)

    def _branch(self, core: int, block: int, made: Sequence[Step], here: int, before: list[int]) -> Step:
        """The end of a header or fork: it reads `cond` after the writes of it in the block are complete, and after
        the branch before.
        """
        cond = self.cond[block]
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

    def _operands(self, row: int, visit: Visit, first: int) -> _Operands:
        """What an instruction touches in this iteration."""
        key = [row]
        for _, header, stride, modulus, phase in self.moving.get(row, ()):
            k = visit.iterations[visit.loops.index(header - first)]
            key.append(stride * ((k + phase) % modulus if modulus else k))
        found = self.operands.get(tuple(key))
        if found is None:
            found = self.operands[tuple(key)] = self._find_operands(row, key[1:])
        return found

    def _find_operands(self, row: int, shifts: Sequence[int]) -> _Operands:
        if row in self.barriers:
            return frozenset(), frozenset(), ()  # a barrier's operands are handles
        program, reads, writes = self.program, set[int](), set[int]()
        atomics: dict[object, set[int]] = {}
        shift_of: Counter[int] = Counter()
        for (access, *_), shift in zip(self.moving.get(row, ()), shifts, strict=True):
            if shift and program.pattern(int(program.accesses.pattern[access])) is None:
                raise NotStraightError("a step moves the whole location")
            shift_of[access] += shift
        for access in range(*program.access_starts[row : row + 2].tolist()):
            pattern = program.pattern(int(program.accesses.pattern[access]))
            location = int(program.accesses.location[access])
            if pattern is not None and not pattern.is_unknown and access in shift_of:
                pattern = pattern._replace(offset=pattern.offset + shift_of[access])
            touched = writes if program.accesses.write[access] else reads
            if program.accesses.atomic[access]:
                touched = atomics.setdefault(self._atomic_kind(row, access, location), set())
            touched |= self._bytes(location, pattern)
        named = tuple((how, frozenset(touched)) for how, touched in atomics.items())
        return frozenset(reads), frozenset(writes), named

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
    sets = dict.fromkeys(touched for step in made for touched in (step.reads, step.writes))
    users: dict[int, list[int]] = {}
    for number, touched in enumerate(sets):
        for byte in touched:
            users.setdefault(byte, []).append(number)
    numbers: dict[tuple[int, ...], int] = {}
    number_of = {byte: numbers.setdefault(tuple(mine), len(numbers)) for byte, mine in users.items()}
    merged = {touched: frozenset(map(number_of.__getitem__, touched)) for touched in sets}
    for step in made:
        step.reads, step.writes = merged[step.reads], merged[step.writes]


def is_fence(step: Step) -> bool:
    """True if it orders all engines of its core."""
    return step.engine == Engine.ALL
