"""Rows for one core: what a rule calls to append an instruction, with operands given as views of arrays.

The emitter knows which location an array lives in, adds `shapes=` and `dtypes=` where an operand is seen with
another shape or type than its location has, assigns DMA queues in turn, and takes seq and place from the
operation. At a boundary of a loop it starts another block:

    ^entry              what comes before; the initial values are copied
    ^while.3            the condition; `cond=` takes the first successor, ^while.3.body, or leaves to ^while.3.end
    ^while.3.body       the body, and further blocks when it holds loops; the new values are copied; back to ^while.3
    ^while.3.end        what follows

and at those of a branch:

    ^entry                   what comes before; `cond=` takes the first successor, ^conditional.2.true
    ^conditional.2.true      one arm; its results are copied; on to ^conditional.2.end
    ^conditional.2.false     the other one, likewise; omitted if it is empty
    ^conditional.2.end       what follows

Arms of a branch by number are named by the branches that they hold: `b0`, `b1_3`. Where they hold more than one, they
fork again, and join in `^conditional.2.b1_3.end`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from haulout.frontends.hlo.metadata import parameter_path
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import opcode_of
from haulout.frontends.hlo.shardings import Classes
from haulout.frontends.hlo.storage import Copies, Slot, Storage, unique
from haulout.frontends.hlo.trips import trip_count
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Operation, Stage, Step, View
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import Operand, ProgramBuilder
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.left_out import LEFT_OUT
from haulout.ir.opcodes import lookup
from haulout.ir.paths import KEY as PATH
from haulout.ir.splits import KEY

_COPIES = {
    Stage.ENTER: "init",
    Stage.BRANCH: "set",
    Stage.LEAVE: "next",
    Stage.FORK: "set",
    Stage.ELSE: "then",
    Stage.JOIN: "else",
}
"""Suffixes of the names of copies at a boundary."""

_QUEUES = (Engine.DMA0, Engine.DMA1, Engine.DMA2, Engine.DMA3)


class Emitter:
    """The program of one core under construction: module `nc0`, function `main`, block `entry`."""

    def __init__(
        self, module: HloModule, storage: Storage, steps: Sequence[Step], divergent: Container[Branch]
    ) -> None:
        self.module = module
        self.build = ProgramBuilder(
            module.name,
            lnc=1,
            attrs={"outputs": [slot.name for slot in storage.outputs]},
            file=module.file,
        )
        self._storage = storage
        self._function = function = self.build.function(self.build.module("nc0", 0, subgraph=0), "main")
        self._asked = {slot: array.split for array, slot in storage.homes.items() if array.split is not None}
        self._ids = {slot: self._location(function, slot) for slot in storage.slots}
        self._divergent = divergent
        self._forks = dict(_forks(steps))
        self._block_names: dict[str, int] = {}
        self._block = self._add_block("entry", None)
        self._open: list[tuple[int, str, str]] = []
        """Of the loops and branches around, the innermost last: header or fork, name, name of the block after."""
        self._headers: dict[Loop, int] = {}
        self._first_arms: list[int] = []
        """The last block of the first arm, of the branches around whose second arm is open."""
        self._names: dict[str, int] = {}
        self._queue = 0

    def _location(self, function: int, slot: Slot) -> int:
        return self.build.location(
            function,
            slot.name,
            Space.DRAM_LOCAL,
            slot.shape.count * NUMPY[slot.shape.dtype].itemsize,
            kind=slot.kind,
            dtype=slot.shape.dtype,
            shape=slot.shape.dims,
            data=slot.data[0] if slot.data else None,
            attrs=self._location_attrs(slot),
            loc=slot.source.loc,
        )

    def _location_attrs(self, slot: Slot) -> dict[str, AttrValue]:
        """The cut that is asked for, what the author calls a parameter, and whether the text leaves out its value."""
        found: dict[str, AttrValue] = {KEY: self._asked[slot]} if slot in self._asked else {}
        if _is_given(slot):
            found[LEFT_OUT] = True
        # The arrays of a tuple have one name together.
        if slot.kind in (Kind.INPUT, Kind.INOUT) and isinstance(slot.source.shape, Shape):
            path = parameter_path(slot.source.attributes.get("metadata"))
            if path is not None:
                found[PATH] = path
        return found

    def core_classes(self, promised: Mapping[Array, Classes]) -> dict[int, Classes]:
        """Cores that get equal bytes for a parameter, by location id, where there are such cores."""
        cores = self.module.num_partitions
        homes = self._storage.homes
        classes = {self._ids[homes[array]]: each for array, each in promised.items() if len(each) < cores}
        if cores > 1:  # every core runs the same text
            whole = (tuple(range(cores)),)
            classes |= {self._ids[slot]: whole for slot in self._storage.slots if _is_given(slot)}
        return classes

    @property
    def per_core_data(self) -> dict[int, Sequence[str]]:
        """Locations whose contents differ from core to core, by id."""
        return {self._ids[slot]: slot.data for slot in self._storage.slots if len(slot.data) > 1}

    def dma(self) -> Engine:
        """The next DMA queue."""
        self._queue += 1
        return _QUEUES[(self._queue - 1) % len(_QUEUES)]

    def compute(
        self,
        operation: Operation,
        attrs: Mapping[str, AttrValue] | None = None,
        reads: Sequence[View] | None = None,
        writes: Sequence[View] | None = None,
        engine: Engine | None = None,
        opcode: str | None = None,
    ) -> None:
        """An instruction that reads all operands and writes all results as a whole, or given views of them.

        Its opcode is the program's for that of HLO, its engine that of its opcode, unless others are given.
        """
        row = opcode_of(operation.opcode) if opcode is None else lookup(opcode)
        reads = operation.operands if reads is None else reads
        writes = [View(array, array.shape) for array in operation.results] if writes is None else writes
        operands = [*reads, *writes]
        slots = [self._storage.homes[view.array] for view in operands]
        found = dict(attrs or {})
        if any(view.shape.dims != slot.shape.dims for view, slot in zip(operands, slots, strict=True)):
            found["shapes"] = [list(view.shape.dims) for view in operands]
        if any(view.shape.dtype != slot.shape.dtype for view, slot in zip(operands, slots, strict=True)):
            found["dtypes"] = [view.shape.dtype for view in operands]
        engine = row.engine if engine is None else engine
        engine = self.dma() if engine is Engine.DMA0 else engine
        self._append(operation, row.name, engine, reads, writes, found)

    def copy(self, operation: Operation, source: View, target: View | None = None) -> None:
        """A `dma_copy` of `source` into the first result, or into part of it."""
        self._append(operation, "dma_copy", self.dma(), [source], [target or operation.result], {})

    def is_in_place(self, operation: Operation) -> bool:
        """Whether the first result lives where the first operand does."""
        homes = self._storage.homes
        return homes[operation.operands[0].array] is homes[operation.results[0]]

    def boundary(self, boundary: Boundary) -> None:
        """Emit the copies of a boundary, and start the next block."""
        self._copies(self._storage.copies[boundary], boundary.seq, _COPIES[boundary.stage])
        if isinstance(boundary.region, Loop):
            self._loop_boundary(boundary)
        else:
            self._branch_boundary(boundary)

    def _loop_boundary(self, boundary: Boundary) -> None:
        block = self._block
        match boundary.stage:
            case Stage.ENTER:
                self._block = self._header(boundary.loop)
            case Stage.BRANCH:
                if boundary.loop.divergent:
                    self._any_core(boundary.loop, boundary.seq)
                self._block = self._add_block(f"{self._open[-1][1]}.body", boundary)
            case Stage.LEAVE:
                header, _, end = self._open.pop()
                self.build.edge(block, header)
                block, self._block = header, self._add_block(end, boundary)
        self.build.edge(block, self._block)

    def _branch_boundary(self, boundary: Boundary) -> None:
        branch, block = boundary.branch, self._block
        match boundary.stage:
            case Stage.FORK:
                self._compare(branch, boundary.seq)
                if branch.part:
                    name = self._open[-1][1]
                    end = f"{name}.{branch.part}.end"
                else:
                    name = unique(branch.instruction.name, self._block_names)
                    end = f"{name}.end"
                self._open.append((block, name, end))
                self._block = self._add_block(f"{name}.{branch.names[0]}", boundary)
                self.build.edge(block, self._block)
            case Stage.ELSE:
                self._first_arms.append(block)
                fork, name, _ = self._open[-1]
                if branch not in self._storage.one_armed:
                    self._block = self._add_block(f"{name}.{branch.names[1]}", boundary)
                    self.build.edge(fork, self._block)
            case Stage.JOIN:
                fork, _, end = self._open.pop()
                self._block = self._add_block(end, boundary)
                self.build.edge(self._first_arms.pop(), self._block)
                self.build.edge(fork if branch in self._storage.one_armed else block, self._block)

    def finish(self, seq: int) -> None:
        """The copies at the end; `seq` is free for the first."""
        self._copies(self._storage.final_copies, seq, "copy")

    def _header(self, loop: Loop) -> int:
        name = unique(loop.instruction.name, self._block_names)
        condition = self._ids[self._storage.conditions[loop]]
        header = self.build.block(self._function, name, trip=trip_count(loop), cond=condition)
        self._headers[loop] = header
        self._open.append((header, name, f"{name}.end"))
        return header

    def _add_block(self, name: str, after: Boundary | None) -> int:
        """The block behind a boundary (None: the first one); the branch at its end is known already."""
        branch = self._forks.get(after)
        return self.build.block(
            self._function,
            unique(name, self._block_names),
            cond=None if branch is None else self._ids[self._storage.conditions[branch]],
            divergent=branch in self._divergent,
        )

    def _compare(self, branch: Branch, seq: int) -> None:
        """Of a branch by number: whether the selector, as an unsigned number, is below its limit."""
        if branch not in self._storage.limits:
            return
        selector, limit = self._storage.limits[branch]
        condition = self._storage.conditions[branch]
        found: dict[str, AttrValue] = {"direction": "LT", "dtypes": ["u32", "u32", "pred"]}
        if selector.shape.dims:
            found["shapes"] = [[], [], []]
        self.build.instruction(
            self._block,
            unique(f"{condition.name}.set", self._names),
            "compare",
            Engine.VECTOR,
            [self._ids[selector], self._ids[limit]],
            [self._ids[condition]],
            seq=seq,
            attrs=found,
            loc=branch.instruction.loc,
        )

    def _any_core(self, loop: Loop, seq: int) -> None:
        """Of a divergent loop: whether the condition holds on one of the cores."""
        own, any_core = self._storage.homes[loop.condition.array], self._storage.conditions[loop]
        found: dict[str, AttrValue] = {"op": "or", "groups": [list(range(self.module.num_partitions))]}
        if own.shape.dims:
            found["shapes"] = [[], []]
        self.build.instruction(
            self._block,
            unique(f"{any_core.name}.set", self._names),
            "all_reduce",
            Engine.POOL,
            [self._ids[own]],
            [self._ids[any_core]],
            seq=seq,
            attrs=found,
            loc=loop.instruction.loc,
        )

    def _copies(self, copies: Copies, seq: int, suffix: str) -> None:
        for step, (source, target) in enumerate(copies):
            self.build.instruction(
                self._block,
                unique(f"{target.name}.{suffix}", self._names),
                "dma_copy",
                self.dma(),
                [self._ids[source]],
                [self._ids[target]],
                seq=seq + step,
                loc=target.source.loc,
            )

    def _has_dims(self, operation: Operation, opcode: str) -> bool:
        """Whether the instruction has the dimensions of the result: a copy has those of its location."""
        result = operation.results[0]
        return opcode != "dma_copy" or self._storage.homes[result].shape.dims == result.shape.dims

    def _append(
        self,
        operation: Operation,
        opcode: str,
        engine: Engine,
        reads: Sequence[View],
        writes: Sequence[View],
        attrs: Mapping[str, AttrValue],
    ) -> None:
        operands = [*reads, *writes]
        ids: list[Operand] = [(self._ids[self._storage.homes[view.array]], view.pattern) for view in operands]
        if operation.split is not None and self._has_dims(operation, opcode):
            attrs = {**attrs, KEY: operation.split}
        first = self.build.count("accesses")
        self.build.instruction(
            self._block,
            unique(operation.instruction.name, self._names),
            opcode,
            engine,
            ids[: len(reads)],
            ids[len(reads) :],
            seq=operation.seq,
            attrs=attrs,
            loc=operation.instruction.loc,
        )
        for access, view in enumerate(operands, first):
            if view.motion is not None:
                header = self._headers[view.motion.loop]
                self.build.row("steps", access=access, header=header, stride=view.motion.stride)


def _is_given(slot: Slot) -> bool:
    """Whether it is a constant that the program gets as an input."""
    return slot.source.is_left_out and slot.kind is Kind.INPUT


def _forks(steps: Sequence[Step]) -> Iterator[tuple[Boundary | None, Branch]]:
    """Of each fork the boundary at which its block begins, and its branch."""
    before: Boundary | None = None
    for step in steps:
        if isinstance(step, Boundary) and step.stage is Stage.FORK:
            yield before, step.branch
        if not isinstance(step, Operation):
            before = step


@dataclass(frozen=True, slots=True)
class Rule:
    """How one HLO opcode is emitted, and which attributes its rule reads; others are refused."""

    emit: Callable[[Emitter, Operation], None]
    attributes: tuple[str, ...] = ()


def same_shape(operation: Operation, views: Sequence[View]) -> Shape:
    """The one shape of several operands; fails when they differ."""
    shape = views[0].shape
    operation.expect(all(view.shape == shape for view in views), "the operands differ in shape or type")
    return shape
