"""What the checker reads of a program: one function on all cores, its instructions as one list, core after core.

The proofs are about what runs, so the model drops everything else. Instructions are numbered from 0 in the order of
the cores' lists (core 0's list, then core 1's, ...); blocks that form a chain are one list. Operands follow their
instructions; the operands of a barrier are handles and are left out. A *queue* is a line of one core, numbered
densely over all cores; a *column* is an engine, numbered densely over the engines in use.

Only chains are understood so far. Everything that walks blocks is in this file: to learn loops, it is `_chain` that
must return more than one list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from haulout.check.columns import sorted_by
from haulout.ir.attributes import format_name
from haulout.ir.enums import LINES, NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.ir.verify import instruction_label, place
from haulout.support.diagnostics import Diagnostic, Label, Severity


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
    access_starts: Ints
    """Instruction i has operands `access_starts[i]:access_starts[i + 1]`."""

    producer: Ids
    """Dependences, sorted by the instruction that waits: the instruction waited for."""
    producer_starts: Ints

    locations: Ids
    """The rows of `program.locations` that belong to the function, on all cores."""
    queue_core: Ids = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def cores(self) -> int:
        """How many cores run it."""
        return len(self.core_starts) - 1

    @property
    def is_fence(self) -> Bools:
        """Which instructions stand on engine `all`."""
        fence: Bools = self.engine == Engine.ALL
        return fence

    def name(self, instruction: int) -> str:
        """`%name`, as the format writes it."""
        return "%" + format_name(self.program.instruction_name(int(self.rows[instruction])))

    def label(self, instruction: int, message: str = "") -> Label:
        """An instruction and its place, for a message."""
        return instruction_label(self.program, int(self.rows[instruction]), message)

    def location_name(self, location: int) -> str:
        """`%name` of a location."""
        return "%" + format_name(self.program.strings[int(self.program.locations.name[location])])

    def owners(self) -> Ids:
        """Owner of every location of the program; a view without a target stands for itself."""
        owner = self.program.owner
        return np.where(owner == NONE, np.arange(len(owner), dtype=np.int32), owner).astype(np.int32)


def models(program: Program) -> list[Model | Diagnostic]:
    """One model for each function name, in core 0's order; a diagnostic for a function that is not understood."""
    functions = program.functions
    found: list[Model | Diagnostic] = []
    for first in np.flatnonzero(functions.module == 0).tolist():
        rows = np.flatnonzero(functions.name == functions.name[first]).tolist()
        found.append(_unsupported(program, rows) or _model(program, rows))
    return found


# -- control flow ----------------------------------------------------------------------------------------------------


def _unsupported(program: Program, functions: list[int]) -> Diagnostic | None:
    """The first thing in a function that this checker does not understand."""
    for function in functions:
        if isinstance(wrong := _chain(program, function), Diagnostic):
            return wrong
    rows, inside = program.dependences, np.isin(program.instruction_function, functions)
    position = _positions(program, functions)
    ahead = inside[rows.instruction] & (position[rows.producer] >= position[rows.instruction]) & ~rows.carried
    if ahead.any():
        at = int(np.flatnonzero(ahead)[0])
        producer = format_name(program.instruction_name(int(rows.producer[at])))
        label = instruction_label(program, int(rows.instruction[at]))
        message = f"it waits for %{producer}, which stands behind it"
        return Diagnostic("bad-input", Severity.ERROR, message, (label,))
    semaphores = program.semaphores.instruction
    if len(semaphores) and inside[semaphores].any():
        label = instruction_label(program, int(semaphores[inside[semaphores]][0]))
        return Diagnostic("bad-input", Severity.ERROR, "not supported yet: semaphores", (label,))
    return None


def _chain(program: Program, function: int) -> list[int] | Diagnostic:
    """The blocks of a function in the order in which they run; a diagnostic when they are no chain."""
    begin, end = np.searchsorted(program.blocks.function, [function, function + 1]).tolist()
    cuts = np.searchsorted(program.edges.source, np.arange(begin, end + 1)).tolist()
    targets = program.edges.target[cuts[0] : cuts[-1]].tolist()
    chain, seen, at = [begin], {begin}, begin
    while at < end:
        successors = targets[cuts[at - begin] - cuts[0] : cuts[at - begin + 1] - cuts[0]]
        if not successors:
            break
        names = [_block_name(program, block) for block in successors]
        if len(set(successors)) > 1:
            return _control_flow(program, at, f"branches to {', '.join(names)}")
        if successors[0] in seen:
            return _control_flow(program, at, f"leads back to {names[0]}")
        at = successors[0]
        seen.add(at)
        chain.append(at)
    missed = next((block for block in range(begin, end) if block not in seen), None)
    if missed is not None:
        return _control_flow(program, missed, "is not reached")
    return chain if begin < end else []


def _block_name(program: Program, block: int) -> str:
    return "^" + format_name(program.strings[int(program.blocks.name[block])])


def _control_flow(program: Program, block: int, does: str) -> Diagnostic:
    blocks = program.blocks
    span = place(program, NONE, int(blocks.text_line[block]))
    text = f"block {_block_name(program, block)} of core {program.block_core[block]} {does}"
    message = f"not supported yet: control flow ({text}); nothing of this function is proved"
    return Diagnostic("bad-input", Severity.ERROR, message, (Label(text, span),))


def _listed(program: Program, functions: list[int]) -> tuple[Ids, Ints]:
    """Instruction rows in the order of the cores' lists, and where each core's begin."""
    starts = program.starts("instructions", "blocks")
    parts, lengths = [], [0]
    for function in functions:
        chain = _chain(program, function)
        assert isinstance(chain, list)
        pieces = [np.arange(starts[block], starts[block + 1], dtype=np.int32) for block in chain]
        parts += pieces
        lengths.append(sum(map(len, pieces)))
    rows = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return rows, np.cumsum(lengths, dtype=np.int64)


def _positions(program: Program, functions: list[int]) -> Ids:
    """Row in the program -> place in the cores' lists, NONE outside the function."""
    rows, _ = _listed(program, functions)
    local = np.full(len(program.instructions), NONE, np.int32)
    local[rows] = np.arange(len(rows), dtype=np.int32)
    return local


# -- columns ---------------------------------------------------------------------------------------------------------


def _model(program: Program, functions: list[int]) -> Model:
    rows, core_starts = _listed(program, functions)
    local = np.full(len(program.instructions), NONE, np.int32)
    local[rows] = np.arange(len(rows), dtype=np.int32)
    core = program.instruction_core[rows]
    engine = program.instructions.engine[rows]
    used = np.zeros((program.lnc, LINES), bool)
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
    return Model(
        program=program,
        function=program.strings[int(program.functions.name[functions[0]])],
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
        access_starts=np.searchsorted(instruction, each).astype(np.int64),
        producer=local[program.dependences.producer[edges]],
        producer_starts=np.searchsorted(waits[edges], each).astype(np.int64),
        locations=np.flatnonzero(np.isin(program.locations.function, functions)).astype(np.int32),
        queue_core=np.nonzero(used)[0].astype(np.int32),
    )
