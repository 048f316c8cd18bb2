"""What the checker reads of a program: one function on all cores, its instructions as one list, core after core.

The proofs are about what runs, so the model has nothing else. Instructions are numbered from 0 in the order of
the cores' lists (core 0's list, then core 1's, ...); blocks that form a chain are one list. Operands follow their
instructions; the operands of a barrier are handles and are left out. A *queue* is a line of one core, numbered
densely over all cores; a *column* is an engine, numbered densely over the engines in use.

A function with loops or forks has many runs. Each run that is checked is a model of its own, of the straight lines
that it executes (`paths/control_flow.py`, `paths/runs.py`, `paths/unroll.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from haulout.checker.columns import sorted_by
from haulout.checker.paths.control_flow import ControlFlow, find_control_flow
from haulout.checker.paths.footprints import Footprints, find_footprints
from haulout.checker.paths.narrowed import Narrowed
from haulout.checker.paths.runs import Run, choose_copies
from haulout.checker.paths.step_trips import Copies, FunctionSteps, assumed_trips, find_copies, find_steps
from haulout.checker.paths.unroll import BRANCH, Unrolled, unroll
from haulout.checker.paths.wait_trips import counted_copies
from haulout.ir.atomics import find_atomics
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE, Engine
from haulout.ir.labels import instruction_label, place
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.ir.read_structure import chain
from haulout.ir.schema import Bools, Bytes, Dependences, Ids, Ints
from haulout.ir.structure import Structure
from haulout.support.diagnostics import Diagnostic, Entity, HauloutError, Label, Proviso, bad_input


@dataclass(slots=True)
class Model:
    """One function on all cores, as columns over its instructions and over its operands."""

    program: Program
    function: str

    rows: Ids
    """Instruction -> its row in the program."""
    core: Ids
    engine: Bytes
    queue: Ids
    column: Ids
    core_starts: Ints
    """Core c runs instructions `core_starts[c]:core_starts[c + 1]`."""
    local: Ids
    """Row in the program -> instruction of this model, NONE outside it."""

    access: Ids
    """Operand -> its row in `program.accesses`."""
    instruction: Ids
    location: Ids
    pattern: Ids
    write: Bools
    maybe: Bools
    """It touches some bytes of its pattern, not known which."""
    atomic: Ids
    """Its kind when it is atomic (`ir/atomics.py`), else 0."""
    fetches: Bools
    """It is atomic, and its instruction returns what it found."""
    access_starts: Ints
    """Instruction i has operands `access_starts[i]:access_starts[i + 1]`."""

    producer: Ids
    """Dependences, sorted by the instruction that waits: the instruction waited for."""
    producer_starts: Ints

    locations: Ids
    """The rows of `program.locations` that belong to the function, on all cores."""
    queue_core: Ids
    time: Ints
    """The place of each instruction in the source: its `seq`, in a run with loops its place in the source's order;
    NONE: no `seq`."""
    unrolled: Unrolled | None
    """The run that this is, when the function has loops or forks."""

    @property
    def cores(self) -> int:
        """How many cores run it."""
        return len(self.core_starts) - 1

    @property
    def is_fence(self) -> Bools:
        """Which instructions are on engine `all`."""
        fence: Bools = self.engine == Engine.ALL
        return fence

    @property
    def is_branch(self) -> Bools:
        """Which instructions are branches of a run with loops (`unroll.py`)."""
        branch: Bools = self.engine == BRANCH
        return branch

    def engine_name(self, instruction: int) -> str:
        """Its engine, as the format writes it."""
        line = int(self.engine[instruction])
        return "branches" if line == BRANCH else Engine(line).text

    def name(self, instruction: int) -> str:
        """`%name`, as the format writes it; the copies of one instruction have its name."""
        program, row = self._source(instruction)
        if row == NONE:
            assert self.unrolled is not None
            return self.unrolled.branch(int(self.rows[instruction]))
        return "%" + format_name(program.instruction_name(row))

    def label(self, instruction: int, message: str = "") -> Label:
        """An instruction and its place, for a message."""
        program, row = self._source(instruction)
        if row == NONE:
            line = int(self.program.instructions.text_line[self.rows[instruction]])
            span = place(self.program, NONE, line)
            return Label(message or f"{self.name(instruction)} on core {self.core[instruction]}", span)
        return instruction_label(program, row, message)

    def instruction_entity(self, instruction: int) -> Entity:
        """An instruction, or the branch of a block, for a subject."""
        core = int(self.core[instruction])
        program, row = self._source(instruction)
        if row != NONE:
            return Entity(core, program.instruction_name(row), row=row)
        assert self.unrolled is not None
        block = int(self.unrolled.block[self.rows[instruction]])
        return Entity(core, "^" + program.strings[int(program.blocks.name[block])], row=self._branch_row(block))

    def access_entity(self, access: int) -> Entity:
        """An operand, for a subject."""
        instruction = int(self.instruction[access])
        operand = access - int(self.access_starts[instruction])
        return replace(self.instruction_entity(instruction), operand=operand, write=bool(self.write[access]))

    def location_entity(self, location: int) -> Entity:
        """A location, for a subject."""
        program = self.program
        name = program.strings[int(program.locations.name[location])]
        return Entity(int(program.location_core[location]), name, row=location)

    def _branch_row(self, block: int) -> int:
        assert self.unrolled is not None
        return len(self.unrolled.source.instructions) + block

    def _source(self, instruction: int) -> tuple[Program, int]:
        """The program as it is written, and the row of an instruction in it."""
        row = int(self.rows[instruction])
        if self.unrolled is None:
            return self.program, row
        return self.unrolled.source, int(self.unrolled.origin[row])

    def later(self, first: int, second: int) -> str:
        """When the second of two instructions runs, as seen from the first, with a blank before; empty without
        loops."""
        if self.unrolled is None:
            return ""
        text = self.unrolled.later(int(self.rows[first]), int(self.rows[second]))
        return " " + text if text else ""

    def distance(self, first: int, second: int) -> int:
        """Iterations from the first of two instructions to the second, of the outermost loop where they differ."""
        found = None
        if self.unrolled is not None:
            found = self.unrolled.distance(int(self.rows[first]), int(self.rows[second]))
        return 0 if found is None else found[2] - found[1]

    def wait(self, first: int, second: int) -> str:
        """Where the second of two instructions can wait for the first: in its `deps`, its `carried`, at the
        `^header` of a loop that has ended by then, or after an arm, `join ^block`.
        """
        if self.unrolled is None:
            return "deps"
        return self.unrolled.wait(int(self.rows[first]), int(self.rows[second]))

    def provisos(self, first: int, second: int, location: int = NONE) -> tuple[Proviso, ...]:
        """What the run assumes between two instructions (NONE: the start) of loops that might run more often and of
        arms that were not taken, where something would run; with a location where that would write it.
        """
        if self.unrolled is None:
            return ()
        footprints = self.unrolled.footprints
        group = NONE if location == NONE else int(footprints.group[location])
        begin, end = (NONE if each == NONE else int(self.rows[each]) for each in (first, second))
        if group != NONE:
            return self.unrolled.provisos(begin, end, lambda blocks: footprints.write(blocks, group))
        return self.unrolled.provisos(begin, end, lambda blocks: any(map(footprints.has_work.__getitem__, blocks)))

    def meeting_provisos(self, *cores: int) -> tuple[Proviso, ...]:
        """What the run assumes of loops and arms with barriers and the like, for some cores or for all."""
        if self.unrolled is None or not len(self.rows):
            return ()
        rendezvous, last = self.unrolled.footprints.has_rendezvous, int(self.rows[self.last])
        return self.unrolled.provisos(NONE, last, lambda blocks: any(map(rendezvous.__getitem__, blocks)), cores)

    @property
    def last(self) -> int:
        """An instruction of the block that runs last."""
        return len(self.rows) - 1 if self.unrolled is None else int(np.argmax(self.unrolled.execution[self.rows]))

    def location_name(self, location: int) -> str:
        """`%name` of a location, and what its author calls it."""
        return named(self.program, location)

    def owners(self) -> Ids:
        """Owner of every location of the program; a view without a target is its own owner."""
        owner = self.program.owner
        return np.where(owner == NONE, np.arange(len(owner), dtype=np.int32), owner).astype(np.int32)


# -- functions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a function with loops or forks."""

    name: str
    flow: ControlFlow
    steps: FunctionSteps
    wanted: dict[int, Copies]
    """The iterations of each loop, by its header, that show everything."""
    beyond: dict[int, Diagnostic]
    """Headers of loops of which that would be too many: why no runs with them are looked at."""
    footprints: Footprints
    notes: list[Diagnostic]
    """What the proof assumes of its loops."""
    narrowed: Narrowed = Narrowed()
    """Choices that are left out; the structure has none of them."""

    def narrow(self, narrowed: Narrowed) -> Runs:
        """What is left without more choices."""
        wanted = self.wanted | {header: Copies(0) for header in narrowed.unused}
        flow = replace(self.flow, structure=narrowed.structure(self.flow.structure))
        return replace(self, flow=flow, wanted=wanted, narrowed=narrowed)

    @property
    def size(self) -> int:
        """How many instructions there are, on all cores."""
        return sum(self.flow.sizes)

    def copies(self, deep: bool) -> dict[int, Copies]:
        """The iterations of each loop that are checked."""
        engine, block = self.flow.program.instructions.engine, self.flow.program.instructions.block
        rows = [np.searchsorted(block, [blocks.start, blocks.stop]) for blocks in self.flow.rows]
        queues = sum(len(np.unique(engine[begin:end])) for begin, end in rows)
        return choose_copies(self.flow.structure, self.wanted, self.flow.sizes, queues, deep)

    def models(self, some: Iterable[tuple[Run, Mapping[int, Copies]]]) -> Iterator[Model]:
        """The models of some runs, each with so many iterations of loops; equal ones once."""
        known = set()
        for run, copies in some:
            key = run.executions, run.cores
            if key not in known:
                known.add(key)
                yield self.model(run, copies)

    def text(self, attending: Sequence[int]) -> Model:
        """A model that has every block once: no run, but all that may run, on the cores that may run it (of each
        block, a bit a core). Patterns do not move, and it has no dependences but those of branches.
        """
        blocks = [(block, (0,) * len(self.flow.structure.loops_around(block))) for block in self.flow.blocks]
        run = Run(tuple(blocks), tuple(attending), (), ())
        flow = replace(self.flow, program=self.flow.program.replace(dependences=Dependences.empty()))
        unrolled = unroll(flow, run, self.steps.none(), {}, self.footprints)
        return _model(unrolled.program, self.name, self.flow.functions, unrolled)

    def model(self, run: Run, copies: Mapping[int, Copies]) -> Model:
        """The model of one run."""
        unrolled = unroll(self.flow, run, self.steps, copies, self.footprints)
        return _model(unrolled.program, self.name, self.flow.functions, unrolled)


@dataclass(frozen=True, slots=True)
class Function:
    """A function on all cores: straight code, or with loops and forks."""

    program: Program
    name: str
    rows: list[int]
    """Its rows in `program.functions`, core after core."""
    runs: Runs | None
    """None: straight code."""

    @property
    def structure(self) -> Structure | None:
        """Its loops and forks; None for straight code."""
        return None if self.runs is None else self.runs.flow.structure

    def straight(self) -> Model:
        """The model of straight code."""
        assert self.runs is None
        return _model(self.program, self.name, self.rows, None)


def functions(program: Program) -> list[Function | list[Diagnostic]]:
    """Each function, in core 0's order; why it is refused when it is not supported."""
    table = program.functions
    found: list[Function | list[Diagnostic]] = []
    for first in np.flatnonzero(table.module == 0).tolist():
        rows = np.flatnonzero(table.name == table.name[first]).tolist()
        try:
            found.append(_function(program, program.strings[int(table.name[first])], rows))
        except HauloutError as error:
            found.append(list(error.diagnostics))
    return found


def _function(program: Program, name: str, rows: list[int]) -> Function:
    flow = find_control_flow(program, rows)
    if flow is None:
        _check_order(program, rows)
        return Function(program, name, rows, None)
    steps = find_steps(flow)
    footprints = find_footprints(flow)
    wanted, beyond = counted_copies(flow, find_copies(flow, steps))
    runs = Runs(name, flow, steps, wanted, beyond, footprints, assumed_trips(flow, steps))
    return Function(program, name, rows, runs)


def _check_order(program: Program, functions: list[int]) -> None:
    """Refuse dependences on later instructions of straight code."""
    listed, _ = _listed(program, functions)
    position = _positions(program, listed)
    rows = program.dependences
    ahead = (position[rows.instruction] != NONE) & (position[rows.producer] >= position[rows.instruction])
    wrong = np.flatnonzero(ahead & ~rows.carried)
    if len(wrong):
        producer = format_name(program.instruction_name(int(rows.producer[wrong[0]])))
        label = instruction_label(program, int(rows.instruction[wrong[0]]))
        bad_input(f"it depends on %{producer}, which comes later", label)


def _listed(program: Program, functions: list[int]) -> tuple[Ids, Ints]:
    """Instruction rows in the order of the cores' lists, and where each core's begin."""
    starts = program.starts("instructions", "blocks")
    parts, lengths = [], [0]
    for function in functions:
        blocks = chain(program, function)
        assert blocks is not None
        pieces = [np.arange(starts[block], starts[block + 1], dtype=np.int32) for block in blocks]
        parts += pieces
        lengths.append(sum(map(len, pieces)))
    rows = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return rows, np.cumsum(lengths, dtype=np.int64)


def _positions(program: Program, listed: Ids) -> Ids:
    """Row in the program -> place in the cores' lists, NONE outside the function."""
    position = np.full(len(program.instructions), NONE, np.int32)
    position[listed] = np.arange(len(listed), dtype=np.int32)
    return position


# -- columns ---------------------------------------------------------------------------------------------------------


def _model(program: Program, name: str, functions: list[int], unrolled: Unrolled | None) -> Model:
    rows, core_starts = _listed(program, functions)
    local = _positions(program, rows)
    core = program.instruction_core[rows]
    engine = program.instructions.engine[rows]
    used = np.zeros((program.lnc, BRANCH + 1), bool)
    used[core, engine] = True
    queue_of = np.cumsum(used.ravel(), dtype=np.int32).reshape(used.shape) - 1
    column_of = np.cumsum(used.any(axis=0), dtype=np.int32) - 1

    # Operands: those of the model's instructions but not of barriers, sorted by instruction.
    kept = local[program.accesses.instruction]
    barriers = np.zeros(len(program.instructions), bool)
    barriers[program.barriers.instruction] = True
    access = np.flatnonzero((kept != NONE) & ~barriers[program.accesses.instruction]).astype(np.int32)
    access = sorted_by(access, kept[access])
    instruction = kept[access]
    # Dependences, sorted by the instruction that waits. Nothing carries in a chain: no iteration came before.
    waits = local[program.dependences.instruction]
    edges = np.flatnonzero((waits != NONE) & ~program.dependences.carried)
    edges = sorted_by(edges.astype(np.int32), waits[edges])
    each = np.arange(len(rows) + 1)
    atomics = find_atomics(program)
    return Model(
        program=program,
        function=name,
        rows=rows,
        core=core,
        engine=engine,
        queue=queue_of[core, engine],
        column=column_of[engine],
        core_starts=core_starts,
        local=local,
        access=access,
        instruction=instruction,
        location=program.accesses.location[access],
        pattern=program.accesses.pattern[access],
        write=program.accesses.write[access],
        maybe=program.accesses.maybe[access],
        atomic=atomics.kind[access],
        fetches=atomics.fetches[access],
        access_starts=np.searchsorted(instruction, each).astype(np.int64),
        producer=local[program.dependences.producer[edges]],
        producer_starts=np.searchsorted(waits[edges], each).astype(np.int64),
        locations=np.flatnonzero(np.isin(program.locations.function, functions)).astype(np.int32),
        queue_core=np.nonzero(used)[0].astype(np.int32),
        time=program.instructions.seq[rows] if unrolled is None else unrolled.time[rows],
        unrolled=unrolled,
    )
