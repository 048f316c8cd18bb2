"""A run that keeps what its instructions compute, by name.

The recipe: run in program order, and after each instruction copy what it has written. An instruction that runs more
than once keeps its first values, or on request its last. Whose values it reads is known from the locations: those of
their last writers, core by core; a write of the whole location hides earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.sim.events.schedules import ListOrder
from haulout.sim.execution import Execution
from haulout.sim.flow.visits import MAX_INSTRUCTIONS, Iteration
from haulout.sim.inputs import Values, element_type
from haulout.sim.plan import prepare
from haulout.sim.reference import Reference
from haulout.sim.run import SimulationResult, executing, result_of

Array = npt.NDArray[Any]
MAX_BYTES = 1 << 31
"""Of all values that are kept."""


@dataclass(slots=True)
class Written:
    """What one instruction has written on one core."""

    row: int
    value: Array
    """The elements of its first write, in order."""
    whole: Array | None
    """The whole location after a write of a part of it."""
    owner: int
    """The location that has the bytes."""
    step: int
    """Counts what has run before."""
    pieces: int = 1
    """Instructions of this name on this core; the value is that of the last."""


@dataclass(slots=True)
class Record:
    """The values of a run."""

    result: SimulationResult
    values: dict[str, dict[int, Written]] = field(default_factory=dict)
    """Name of the instruction -> core -> value. In the order in which they first ran."""
    reads: dict[str, set[str]] = field(default_factory=dict)
    """Name -> names of the instructions and inputs whose values it reads, on any core."""
    writers: dict[str, set[str]] = field(default_factory=dict)
    """Name of a location -> names of the instructions that wrote it last, on any core."""
    repeated: set[str] = field(default_factory=set)
    """Names of the instructions that ran more than once on a core."""
    is_complete: bool = True
    """False: values beyond `MAX_BYTES` are missing."""


def record(
    program: Program,
    inputs: Values,
    *,
    names: Collection[str] = (),
    max_instructions: int = MAX_INSTRUCTIONS,
    last: bool = False,
) -> Record:
    """Run a program in program order, and keep the first values of its instructions, or the last ones.

    `names` are those of operations of the source: what an operation was lowered to, `NAME.out0`, counts as `NAME`.

    Raises what `simulate` raises.
    """
    prepared = prepare(program)
    execution = Execution(prepared, inputs, 0, None)
    keeper = _Keeper(execution, frozenset(names), last)
    execution.watch = keeper.see
    with executing(prepared):
        Reference(prepared, execution, max_instructions).run()
    return Record(
        result_of(execution, ListOrder()),
        keeper.values,
        dict(keeper.reads),
        keeper.by_name(),
        keeper.repeated,
        keeper.is_complete,
    )


class _Keeper:
    def __init__(self, execution: Execution, names: frozenset[str], last: bool) -> None:
        self.execution, self.names, self.last = execution, names, last
        self.seen: set[int] = set()
        self.repeated: set[str] = set()
        self.steps = 0
        self.program, self.code = execution.prepared.program, execution.prepared.code
        self.core: list[int] = self.program.instruction_core.tolist()
        self.values: dict[str, dict[int, Written]] = {}
        self.reads: defaultdict[str, set[str]] = defaultdict(set)
        self.writers: dict[int, set[str]] = {}
        self.kept = 0
        self.is_complete = True
        kinds = self.program.locations.kind
        for row in np.flatnonzero(np.isin(kinds, (Kind.INPUT, Kind.INOUT))).tolist():
            self.writers.setdefault(int(self.program.owner[row]), set()).add(self._location(row))

    def see(self, row: int, around: Iteration) -> None:
        """Called after an instruction has written."""
        name = self._operation(self.program.instruction_name(row))
        self.steps += 1
        begin, middle, end = (int(each[row]) for each in (self.code.begin, self.code.middle, self.code.end))
        for access in range(begin, middle):
            self.reads[name] |= self.writers.get(self._owner(access), set())
        for access in range(middle, end):
            owner = self._owner(access)
            if self.program.accesses.pattern[access] == NONE:
                self.writers[owner] = {name}
            else:
                self.writers.setdefault(owner, set()).add(name)
        if row in self.seen:
            self.repeated.add(name)
        if middle < end and (self.last or row not in self.seen):
            self.seen.add(row)
            written = self._written(row, middle, around)
            if written is not None:
                cores = self.values.setdefault(name, {})
                known = cores.get(self.core[row])
                if known is not None:
                    written.pieces = known.pieces + (known.row != row)
                cores[self.core[row]] = written

    def _written(self, row: int, access: int, around: Iteration) -> Written | None:
        execution, operands = self.execution, self.execution.prepared.operands
        moves = row in operands.strided.moving
        operand = operands.strided.operand(access, around) if moves else access
        location = int(operands.location[access])
        data = execution.memory.read(operand).copy()
        is_whole = self.program.accesses.pattern[access] == NONE
        whole = None if is_whole else execution.memory.read(operands.whole(location)).copy()
        self.kept += len(data) + (0 if whole is None else len(whole))
        if self.kept > MAX_BYTES:
            self.is_complete = False
            return None
        dtype, shape = element_type(self.program, location)
        if len(data) % dtype.itemsize:
            return Written(row, data, None, self._owner(access), self.steps)
        value = data.view(dtype)
        shapes = self.program.instruction_attrs(row).get("shapes")
        result = shapes[-1] if isinstance(shapes, list) and shapes else None
        for dims in (result, shape):
            if isinstance(dims, list | tuple) and all(isinstance(each, int) for each in dims):
                extents = tuple(int(each) for each in dims if isinstance(each, int))
                if int(np.prod(extents, dtype=np.int64)) == value.size:
                    value = value.reshape(extents)
                    break
        in_shape = None if whole is None else whole.view(dtype).reshape(shape)
        return Written(row, value, in_shape, self._owner(access), self.steps)

    def _operation(self, name: str) -> str:
        """The operation of the source that an instruction belongs to."""
        found = name
        while self.names and found not in self.names:
            found, mark, _ = found.rpartition(".")
            if not mark:
                return name
        return found

    def _owner(self, access: int) -> int:
        location = int(self.execution.prepared.operands.location[access])
        return int(self.program.owner[location])

    def by_name(self) -> dict[str, set[str]]:
        """The last writers of each location; they of a view are those of its owner."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for row, owner in enumerate(self.program.owner.tolist()):
            found[self._location(row)] |= self.writers.get(owner, set())
        return dict(found)

    def _location(self, row: int) -> str:
        return self.program.strings[int(self.program.locations.name[row])]
