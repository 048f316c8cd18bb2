"""alternate_buffers: what other cores read has two buffers in a loop, so that one fence an iteration is enough.

A state that is updated in place costs two fences an iteration: all cores must have read it before one of them writes
its part, and all must have written before one of them reads again. With two buffers in turn, the cores read the one
while they write the other. The body is written out twice: iteration i reads S and writes P, iteration i + 1 reads P and
writes S. A copy of a new value to the state is gone.

1. `unrolling/buffers.py`: which locations of which loops may have two buffers.
2. Each loop, the inner ones first, is written out with two buffers for all of them (`unrolling/unroll.py`), cut as
   `split_uniform` would, and again with two buffers for those alone that cores write or read in parts of others.
3. It stays if the estimated time falls by a hundredth, and the buffers take at most a twentieth of all bytes.

Loops of unknown trip count stay as they are: the program would have to ask between the halves whether there is another
iteration, and copy the state back if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.structure import Loop
from haulout.passes.base import Pass, PassContext
from haulout.passes.split_uniform import SplitUniform
from haulout.passes.splitting.candidates import find_candidates
from haulout.passes.splitting.estimate import UNDIVIDED, SplitEstimator
from haulout.passes.splitting.worth import read_by_others
from haulout.passes.unrolling.buffers import Alternating, alternating, with_buffers
from haulout.passes.unrolling.inner_dims import with_inner_dims
from haulout.passes.unrolling.unroll import refusal, unroll
from haulout.target import DEFAULT, load_target

_LEAST_GAIN = 0.01
_MOST_BYTES = 1 / 20


@dataclass(frozen=True)
class AlternateBuffers(Pass):
    """Gives states and temporaries of loops two buffers in turn, where that saves fences.

    Before: sound; cores in lockstep, without dependences, else nothing changes. After: the program computes the same;
    a changed loop has half the trip count, and its body two iterations.
    """

    name: ClassVar[str] = "alternate_buffers"
    cross_core: ClassVar[bool] = True

    target: str = DEFAULT
    """The machine whose times decide: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Loop by loop, the inner ones first."""
        context.count(self.name, loops=0, buffers=0)
        if not runs_in_lockstep(program):
            return program
        blocks = range(len(program.blocks) // program.lnc)
        loops = [each for each in program.structure.loops.values() if each.header in blocks]
        for header in [_identity(program, each.header) for each in reversed(loops)]:
            program = self._one(program, header, context)
        return program

    def _one(self, program: Program, header: tuple[int, int], context: PassContext) -> Program:
        """The program with one of its loops changed, or as it was."""
        loop = _loop(program, header)
        locations = alternating(program, loop)
        if not locations:
            return program
        reason = refusal(program, loop) or _collective(program, loop)
        if reason is not None:
            context.count(f"{self.name}.left", **{reason: 1})
            return program
        plain = self._estimate(program)
        shaped = with_inner_dims(program)
        cut = find_candidates(shaped).sizes
        chosen = _within(program, [each for each in locations if each.location in cut])
        made = program
        for _ in range(2):  # all that may have two buffers, then those of them that need it
            if not chosen:
                return program
            buffered = with_buffers(shaped, loop, chosen)
            made = unroll(buffered.program, loop, buffered.halves)
            found = self._estimate(made)
            needed = [
                each for each, pair in zip(chosen, buffered.pairs, strict=True) if not found.crossing.isdisjoint(pair)
            ]
            if len(needed) == len(chosen):
                break
            chosen = needed
        if found.time > plain.time * (1 - _LEAST_GAIN):
            context.count(f"{self.name}.left", **{"it would save little time": 1})
            return program
        context.count(self.name, loops=1, buffers=len(chosen))
        return made

    def _estimate(self, program: Program) -> _Estimate:
        found = find_candidates(program)
        _, cuts = SplitUniform(target=self.target).choose(program, found)
        estimator = SplitEstimator(
            program, found.operations, found.partitions, found.sizes.keys(), load_target(self.target)
        )
        choice = np.full(len(program.instructions) // program.lnc, UNDIVIDED, np.int32)
        for row, axis in cuts.axes.items():
            choice[row] = found.operations[row].axes.index(axis)
        apart = read_by_others(program, found.operations, cuts, gathered=True)
        return _Estimate(estimator.estimate(choice), frozenset(location for location, _ in apart))


class _Estimate(NamedTuple):
    """How long a program takes that is cut as `split_uniform` cuts it."""

    time: float
    crossing: frozenset[int]
    """Locations of the first core of which cores touch what parts of others are."""


def _identity(program: Program, block: int) -> tuple[int, int]:
    """What a block has before and after its program changes: its function and its name."""
    return int(program.blocks.function[block]), int(program.blocks.name[block])


def _loop(program: Program, header: tuple[int, int]) -> Loop:
    return next(each for each in program.structure.loops.values() if _identity(program, each.header) == header)


def _collective(program: Program, loop: Loop) -> str | None:
    first, last = np.searchsorted(program.instructions.block, [loop.begin, loop.end]).tolist()
    opcodes = np.unique(program.instructions.opcode[first:last]).tolist()
    collective = any(lookup(program.strings[opcode]).collective for opcode in opcodes)
    return "it has collectives" if collective else None


def _within(program: Program, locations: list[Alternating]) -> list[Alternating]:
    """The smallest locations whose second buffers take few bytes."""
    size = program.locations.size
    left = float(size[: len(size) // program.lnc].sum()) * _MOST_BYTES
    found = []
    for each in sorted(locations, key=lambda each: (int(size[each.location]), each.location)):
        left -= 0 if each.copied != NONE else int(size[each.location])
        if left >= 0:
            found.append(each)
    return sorted(found, key=lambda each: each.location)
