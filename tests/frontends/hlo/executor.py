"""Running a lowered program that still has its collectives: every core one instruction at a time, all in step.

The front end's own tests need to know what a program computes before any pass has seen it. Cores are clones, so row i
of core 0 is row i of every core; a collective sees the operands of all cores at once and is a few lines of NumPy,
written from HLO's definition. All cores take the same branches, except at a fork that is divergent: there those of
either arm run it by themselves, up to the join. A loop whose `trip` is known runs so often.
"""

from __future__ import annotations

import base64
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE, Kind
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.sim.numerics import TensorType, evaluate

Array = npt.NDArray[Any]
COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def parameter_names(program: Program) -> list[str]:
    """Inputs of core 0, in the order of the parameters."""
    rows, first = program.locations, program.location_core == 0
    given = np.isin(rows.kind, [Kind.INPUT, Kind.INOUT])
    return [program.strings[int(rows.name[row])] for row in np.flatnonzero(first & given)]


class Executor:
    """Contents of every location of every core, as bytes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lnc = program.lnc
        self.locations = len(program.locations) // self.lnc
        rows = program.locations
        self.names = {program.strings[int(rows.name[row])]: row for row in range(self.locations)}
        self.bytes = [np.full(int(size), 0xA5, np.uint8) for size in rows.size]
        for row in np.flatnonzero(rows.data != NONE).tolist():
            self.bytes[row][:] = np.frombuffer(base64.b64decode(program.strings[int(rows.data[row])]), np.uint8)
        self.taken: dict[int, int] = {}
        """Iterations of each loop since it was entered, by its header."""
        self.parted = 0
        """How often some cores took an arm without the others."""

    def set(self, core: int, name: str, value: Array) -> None:
        """Fill a location."""
        target = self.bytes[core * self.locations + self.names[name]]
        target[:] = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)

    def get(self, core: int, name: str) -> Array:
        """The contents of a location, in its own type and shape."""
        row = core * self.locations + self.names[name]
        return self.bytes[row].view(self.dtype(row)).reshape(self.program.shape(row)).copy()

    def dtype(self, row: int) -> np.dtype[Any]:
        return NUMPY[self.program.strings[int(self.program.locations.dtype[row])]]

    def run(self, inputs: list[list[Array]]) -> list[list[Array]]:
        """Outputs for `inputs[core][parameter]`, as `outputs[core][result]`."""
        program = self.program
        for core, values in enumerate(inputs):
            for name, value in zip(parameter_names(program), values, strict=True):
                self.set(core, name, value)
        self.walk(0, None, list(range(self.lnc)))
        return [[self.get(core, name) for name in program.output_names] for core in range(self.lnc)]

    def walk(self, block: int | None, end: int | None, cores: list[int]) -> None:
        """The blocks of core 0 from one to another, on some cores."""
        program = self.program
        count = len(program.instructions) // self.lnc
        starts = program.starts("instructions", "blocks")
        while block != end:
            assert block is not None
            for row in range(int(starts[block]), int(starts[block + 1])):
                self.step([core * count + row for core in cores])
            targets = self.targets(block)
            location, trip = int(program.blocks.cond[block]), int(program.blocks.trip[block])
            if location == NONE:
                assert len(targets) <= 1 and trip == NONE
                block = targets[0] if targets else None
                continue
            taken = {core: bool(self.bytes[core * self.locations + location][0]) for core in cores}
            if program.blocks.divergent[block]:
                (join,) = self.targets(targets[1] - 1)  # of the last block of the first arm
                for target, way in zip(targets, (True, False), strict=True):
                    if there := [core for core in cores if taken[core] == way]:
                        self.parted += len(there) < len(cores)
                        self.walk(target, join, there)
                block = join
                continue
            (way,) = set(taken.values())
            ran = self.taken.get(block, 0)
            assert trip == NONE or (ran < trip if way else ran == trip)
            self.taken[block] = ran + 1 if way else 0
            block = targets[0 if way else 1]

    def targets(self, block: int) -> list[int]:
        """The successors of a block."""
        found: list[int] = self.program.edges.target[self.program.edges.source == block].tolist()
        return found

    def step(self, rows: list[int]) -> None:
        program, opcode = self.program, self.program.strings[int(self.program.instructions.opcode[rows[0]])]
        attrs = program.instruction_attrs(rows[0])
        reads = [self.operands(row, attrs, write=False) for row in rows]
        writes = [self.operands(row, attrs, write=True) for row in rows]
        inputs = [[self.read(*operand) for operand in each] for each in reads]
        outputs = [[TensorType(dtype, shape) for _, _, dtype, shape in each] for each in writes]
        if opcode in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"):
            assert len(rows) == self.lnc, opcode
            results = collective(opcode, attrs, inputs)
        else:
            results = [evaluate(opcode, attrs, i, o) for i, o in zip(inputs, outputs, strict=True)]
        for operands, values in zip(writes, results, strict=True):
            for (location, pattern, dtype, shape), value in zip(operands, values, strict=True):
                assert value.dtype == dtype, (opcode, value.dtype, dtype)
                assert pattern is not None or value.shape == shape, (opcode, value.shape, shape)
                target = self.bytes[location]
                at = slice(None) if pattern is None else pattern.bytes()
                target[at] = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)

    def operands(
        self, row: int, attrs: dict[str, Any], *, write: bool
    ) -> list[tuple[int, Pattern | None, np.dtype[Any], tuple[int, ...]]]:
        program, starts = self.program, self.program.access_starts
        found = []
        for position, access in enumerate(range(int(starts[row]), int(starts[row + 1]))):
            location = int(program.accesses.location[access])
            pattern = self.moved(access, program.pattern(int(program.accesses.pattern[access])))
            dtype = NUMPY[attrs["dtypes"][position]] if "dtypes" in attrs else self.dtype(location)
            shape = tuple(attrs["shapes"][position]) if "shapes" in attrs else program.shape(location)
            if pattern is not None and "shapes" not in attrs and pattern.nbytes != prod(shape) * dtype.itemsize:
                shape = (pattern.nbytes // dtype.itemsize,)
            if bool(program.accesses.write[access]) == write:
                found.append((location, pattern, dtype, shape))
        return found

    def moved(self, access: int, pattern: Pattern | None) -> Pattern | None:
        """A pattern where its steps have brought it; an iteration has begun when its body runs."""
        steps = self.program.steps
        begin, end = np.searchsorted(steps.access, [access, access + 1]).tolist()
        for row in range(begin, end):
            assert pattern is not None and steps.modulus[row] == 0
            header = int(steps.header[row]) % (len(self.program.blocks) // self.lnc)
            shift = int(steps.stride[row]) * (self.taken[header] - 1)
            pattern = pattern._replace(offset=pattern.offset + shift)
        return pattern

    def read(self, location: int, pattern: Pattern | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        data = self.bytes[location] if pattern is None else self.bytes[location][pattern.bytes()]
        return data.view(dtype).reshape(shape).copy()


def collective(opcode: str, attrs: dict[str, Any], inputs: list[list[Array]]) -> list[list[Array]]:
    """The results of all cores, from the definition of each collective."""
    results: list[list[Array]] = [[np.zeros_like(value) for value in each] for each in inputs]
    if opcode == "collective_permute":
        for source, target in attrs["pairs"]:
            results[target] = [value.copy() for value in inputs[source]]
        return results
    for group in attrs["groups"]:
        members = [inputs[core] for core in group]
        columns = list(zip(*members, strict=True))
        for position, core in enumerate(group):
            match opcode:
                case "all_reduce":
                    results[core] = [reduced(attrs["op"], column) for column in columns]
                case "all_gather":
                    results[core] = [np.concatenate(column, attrs["dim"]) for column in columns]
                case "reduce_scatter":
                    whole = [reduced(attrs["op"], column) for column in columns]
                    results[core] = [np.split(value, len(group), attrs["dim"])[position] for value in whole]
                case "all_to_all" if "dim" in attrs:
                    pieces = [np.split(member[0], len(group), attrs["dim"])[position] for member in members]
                    results[core] = [np.concatenate(pieces, attrs["dim"])]
                case "all_to_all":
                    results[core] = [member[position] for member in members]
    return results


def reduced(op: str, parts: tuple[Array, ...]) -> Array:
    if op in ("and", "or"):
        return (np.bitwise_and if op == "and" else np.bitwise_or).reduce(np.stack(parts), axis=0)
    return COMBINE[op].reduce(np.stack(parts), axis=0)
