"""The straight lines that a program can run: what all judges read, and the only reading of programs that they share.

A run is a list of steps, core after core, each core's in list order. A step is one execution of one instruction, or
of a branch. Loops are written out: a loop of known trip count that often, one of unknown count 0 to 3 times, or until
patterns that move with it have come round twice, chosen anew each time that it is reached. The bytes of an operand
are numbers: the physical bytes where there are addresses, else bytes of the owner's location. `?` is all bytes of its
location.

Order inside a step list is told by `waits` (dependences, and the branch that decided that the step runs) and by
`engine`; who meets whom by `barrier`, `sends` and `receives`, whose keys are equal on both sides. Nothing is derived
here: what these mean is each judge's own business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import lcm
from random import Random

from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

SEQUENCER = NONE
"""The engine of branches."""
MOST_RUNS = 40
MOST_STEPS = 600
MOST_BYTES = 1 << 18
UNKNOWN_TRIPS = (0, 1, 2, 3)
MOST_PHASES = 8
"""Of patterns that move with a loop of unknown trip count, for all of them to be seen."""


class NotStraightError(Exception):
    """The program cannot be written out; the text says why."""


class _NoSuchRunError(Exception):
    """A pattern that moves would leave its location: the loop never runs that often."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """One place in a barrier line: steps with equal keys meet."""

    engine: int
    cores: tuple[int, ...]
    index: int
    """How many of the same engine and cores came before on this core."""
    name: str

    @property
    def key(self) -> tuple[int, tuple[int, ...], int]:
        """Without the name, which has to be equal."""
        return self.engine, self.cores, self.index


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
    barrier: Barrier | None = None
    sends: tuple[int, int, int, int] | None = None
    """(sender, receiver, tag, how many came before)"""
    receives: tuple[int, int, int, int] | None = None


@dataclass(slots=True)
class _Visit:
    """One execution of a block."""

    block: int
    """Its number in the function."""
    loops: tuple[int, ...]
    """Headers of the loops around it, its own included."""
    iterations: tuple[int, ...]


_Walk = tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
"""Visits as values: block, loops, iterations."""


@dataclass(slots=True)
class _Blocks:
    """The control flow of one function, equal on all cores."""

    successors: list[list[int]]
    trips: list[int | None]
    phases: list[int]
    """Of a header: iterations after which the patterns that move with its loop come round."""

    def options(self, header: int) -> tuple[int, ...]:
        """The trip counts to try."""
        trip, phases = self.trips[header], min(self.phases[header], MOST_PHASES)
        if trip is not None:
            return (trip,)
        return UNKNOWN_TRIPS if phases == 1 else (*UNKNOWN_TRIPS, *range(len(UNKNOWN_TRIPS), phases + 1), 2 * phases)


def runs(program: Program, most: int = MOST_RUNS, seed: int = 0) -> Iterator[list[Step]]:
    """The runs of the first function; all of them, or `most` chosen by `seed`. Raises `NotStraightError`."""
    if len(program.semaphores):
        raise NotStraightError("semaphores")
    starts = program.starts("functions", "modules").tolist()
    if any(first == behind for first, behind in pairwise(starts)):
        raise NotStraightError("a core without a function")
    functions = starts[:-1]
    flows = _flows(program, functions)
    reader = _Reader(program, functions)
    some = False
    for visits in _choices(flows, most, Random(seed)):
        try:
            steps = reader.steps(visits)
        except _NoSuchRunError:
            continue
        some = True
        yield steps
    if not some:
        raise NotStraightError("patterns leave their locations in every run")


# -- which blocks run ------------------------------------------------------------------------------------------------


def _flows(program: Program, functions: Sequence[int]) -> list[_Blocks]:
    """The control flow of each core; equal ones, unless there are no branches."""
    starts = program.starts("blocks", "functions")
    edges = program.starts("edges", "blocks")
    flows = []
    moving = list(zip(program.steps.header.tolist(), program.steps.modulus.tolist(), strict=True))
    for function in functions:
        first, last = starts[function : function + 2].tolist()
        successors = [
            [int(target) - first for target in program.edges.target[edges[block] : edges[block + 1]]]
            for block in range(first, last)
        ]
        if any(program.blocks.divergent[first:last]):
            raise NotStraightError("a divergent branch")
        trips = [None if trip == NONE else int(trip) for trip in program.blocks.trip[first:last].tolist()]
        phases = [1] * (last - first)
        for header, modulus in moving:
            if first <= header < last:
                phases[header - first] = lcm(phases[header - first], modulus or MOST_PHASES)
        flows.append(_Blocks(successors, trips, phases))
    branches = any(len(targets) > 1 for flow in flows for targets in flow.successors)
    if branches:
        if any((flow.successors, flow.trips) != (flows[0].successors, flows[0].trips) for flow in flows):
            raise NotStraightError("cores with different branches")
        # What moves on one core asks for as many iterations on all.
        flows[0].phases = [lcm(*each) for each in zip(*(flow.phases for flow in flows), strict=True)]
        flows = [flows[0]] * len(flows)
    return flows


def _choices(flows: list[_Blocks], most: int, random: Random) -> Iterator[list[list[_Visit]]]:
    """Walks of all cores through their blocks: equal counts for all executions of a loop first, then mixed ones."""
    if any(flow != flows[0] for flow in flows):
        yield [[_Visit(*each) for each in _walk(flow, lambda _: 0)] for flow in flows]
        return
    for walk in _walks(flows[0], most, random):
        yield [[_Visit(*each) for each in walk]] * len(flows)


def _walks(flow: _Blocks, most: int, random: Random) -> Iterator[_Walk]:
    headers = [block for block, targets in enumerate(flow.successors) if len(targets) > 1]
    options = [flow.options(header) for header in headers]
    count = 1
    for each in options:
        count *= len(each)
    uniform = list(product(*options)) if count <= 4096 else []
    if not uniform or len(uniform) > most:
        uniform = [tuple(random.choice(each) for each in options) for _ in range(most)]
    seen = set()
    for chosen in uniform:
        trips = dict(zip(headers, chosen, strict=True))
        walk = _walk(flow, trips.__getitem__)
        seen.add(walk)
        yield walk
    # Loops inside loops: another count each time.
    for _ in range(most - len(uniform) if any(len(each) > 1 for each in options) else 0):
        walk = _walk(flow, lambda header: random.choice(options[headers.index(header)]))
        if walk not in seen:
            seen.add(walk)
            yield walk


def _walk(flow: _Blocks, trip: Callable[[int], int]) -> _Walk:
    visits: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
    loops: list[int] = []
    counts: list[int] = []
    left: list[int] = []
    block = 0
    while flow.successors:
        targets = flow.successors[block]
        if len(targets) > 2:
            raise NotStraightError("a block with more than two successors")
        if len(visits) > MOST_STEPS:
            raise NotStraightError("too many iterations")
        if len(targets) == 2:
            if not loops or loops[-1] != block:
                loops.append(block)
                counts.append(0)
                left.append(trip(block))
            visits.append((block, tuple(loops), tuple(counts)))
            if left[-1] > 0:
                left[-1] -= 1
                block = targets[0]
            else:
                for each in (loops, counts, left):
                    each.pop()
                block = targets[1]
            continue
        visits.append((block, tuple(loops), tuple(counts)))
        if not targets:
            if loops:
                raise NotStraightError("a loop that is left from inside")
            return tuple(visits)
        if loops and targets[0] == loops[-1]:
            counts[-1] += 1
        elif not loops and any(visit[0] == targets[0] for visit in visits):
            raise NotStraightError("a back edge to no header")
        block = targets[0]
    return ()


# -- what a block does -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Done:
    """An execution of an instruction of this core that a later one may wait for."""

    step: int
    loops: tuple[int, ...]
    iterations: tuple[int, ...]


@dataclass(slots=True)
class _Reader:
    program: Program
    functions: Sequence[int]
    bytes: dict[tuple[int, ...], int] = field(default_factory=dict)
    deps: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    barriers: dict[int, int] = field(default_factory=dict)
    meetings: dict[int, int] = field(default_factory=dict)
    moves: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Operand -> (header, stride, modulus)."""

    def __post_init__(self) -> None:
        program = self.program
        edges = program.dependences
        for row, producer, carried in zip(edges.instruction, edges.producer, edges.carried, strict=True):
            self.deps.setdefault(int(row), []).append((int(producer), bool(carried)))
        self.barriers = {int(row): at for at, row in enumerate(program.barriers.instruction)}
        self.meetings = {int(row): at for at, row in enumerate(program.meetings.instruction)}
        steps = program.steps
        for access, header, stride, modulus in zip(
            steps.access, steps.header, steps.stride, steps.modulus, strict=True
        ):
            self.moves.setdefault(int(access), []).append((int(header), int(stride), int(modulus)))

    def steps(self, visits: Sequence[Sequence[_Visit]]) -> list[Step]:
        made: list[Step] = []
        for core, function in enumerate(self.functions):
            self._core(core, function, visits[core], made)
        return made

    def _core(self, core: int, function: int, visits: Sequence[_Visit], made: list[Step]) -> None:
        program = self.program
        first = int(program.starts("blocks", "functions")[function])
        starts = program.starts("instructions", "blocks")
        done: dict[int, list[_Done]] = {}
        lines: Counter[object] = Counter()
        decided: list[int] = []
        for visit in visits:
            block = first + visit.block
            begin, end = starts[block : block + 2].tolist()
            here = len(made)
            for row in range(begin, end):
                waits = [*decided, *self._waits(row, visit, done)]
                step = Step(row, core, int(program.instructions.engine[row]), waits)
                self._operands(step, visit, first)
                self._rendezvous(step, lines)
                done.setdefault(row, []).append(_Done(len(made), visit.loops, visit.iterations))
                made.append(step)
            if len(made) > MOST_STEPS:
                raise NotStraightError("too many instructions")
            if visit.loops and visit.loops[-1] == visit.block:
                decided = [len(made)]
                made.append(self._branch(core, block, made, here))

    def _branch(self, core: int, block: int, made: Sequence[Step], here: int) -> Step:
        """The end of a header: it reads `cond` once the header's writes of it are complete."""
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

    def _waits(self, row: int, visit: _Visit, done: dict[int, list[_Done]]) -> list[int]:
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

    def _operands(self, step: Step, visit: _Visit, first: int) -> None:
        if step.row in self.barriers:
            return  # a barrier's operands are handles
        program, reads, writes = self.program, set[int](), set[int]()
        for access in range(*program.access_starts[step.row : step.row + 2].tolist()):
            pattern = program.pattern(int(program.accesses.pattern[access]))
            location = int(program.accesses.location[access])
            for header, stride, modulus in self.moves.get(access, []):
                k = visit.iterations[visit.loops.index(header - first)]
                shift = stride * (k % modulus if modulus else k)
                if pattern is None and shift:
                    raise NotStraightError("a step moves the whole location")
                if pattern is not None and not pattern.is_unknown:
                    pattern = pattern._replace(offset=pattern.offset + shift)
            touched = writes if program.accesses.write[access] else reads
            touched |= self._bytes(location, pattern)
        step.reads, step.writes = frozenset(reads), frozenset(writes)

    def _bytes(self, location: int, pattern: Pattern | None) -> frozenset[int]:
        rows = self.program.locations
        size = int(rows.size[location])
        if pattern is None or pattern.is_unknown:
            touched: Sequence[int] = range(size)
        else:
            touched = pattern.bytes().tolist()
            if touched and not (min(touched) >= 0 and max(touched) < size):
                raise _NoSuchRunError
        if len(self.bytes) + len(touched) > MOST_BYTES:
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

    def _rendezvous(self, step: Step, lines: Counter[object]) -> None:
        program = self.program
        if step.row in self.barriers:
            at = self.barriers[step.row]
            mask = int(program.barriers.cores[at]) or (1 << program.lnc) - 1
            cores = tuple(core for core in range(program.lnc) if mask >> core & 1)
            line = (step.engine, cores)
            name = program.strings[int(program.barriers.name[at])]
            step.barrier = Barrier(step.engine, cores, lines[line], name)
            lines[line] += 1
        if step.row in self.meetings:
            at = self.meetings[step.row]
            to, source, tag = (
                int(column[at]) for column in (program.meetings.to, program.meetings.source, program.meetings.tag)
            )
            if to != NONE:
                step.sends = (step.core, to, tag, lines["to", to, tag])
                lines["to", to, tag] += 1
            if source != NONE:
                step.receives = (source, step.core, tag, lines["from", source, tag])
                lines["from", source, tag] += 1


def is_fence(step: Step) -> bool:
    """Whether it holds up all engines of its core."""
    return step.engine == Engine.ALL
