"""alternate_buffers: what other cores read has two buffers in a loop, so that one fence an iteration is enough.

A state that is updated in place costs two fences an iteration: all cores must have read it before one of them writes
its part, and all must have written before one of them reads again. With two buffers in turn, the cores read the one
while they write the other. The body is written out twice: iteration i reads S and writes P, iteration i + 1 reads P
and writes S. A copy of a new value to the state is gone.

1. `unrolling/buffers.py`: which locations of a loop may have two buffers.
2. Each loop, the inner ones first, is written out (`unrolling/unroll.py`) with two buffers for all of them, and cut
   as `split_uniform` would; then with two buffers for those alone of which cores touch parts of others.
3. It stays if the estimated time falls by `least_gain`, and the buffers take at most `most_bytes`.

A loop stays as it is if it is not known how often it runs: the program would have to ask between the halves whether
there is another iteration, and copy the state back if there is none. So does one with branches or such loops inside,
since the checker follows every path, and one with collectives, whose fences the estimate does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.structure import Loop
from haulout.passes.base import Pass, PassContext
from haulout.passes.options import Between
from haulout.passes.split_uniform import SplitUniform
from haulout.passes.splitting.candidates import find_candidates
from haulout.passes.splitting.estimate import UNDIVIDED, SplitEstimator
from haulout.passes.splitting.prefer import Annotations, parse_split
from haulout.passes.splitting.worth import read_by_others
from haulout.passes.unrolling.buffers import Alternating, alternating, with_buffers
from haulout.passes.unrolling.unroll import refusal, unroll
from haulout.target import DEFAULT, load_target


@dataclass(frozen=True)
class AlternateBuffers(Pass):
    """Gives states and temporaries of loops two buffers in turn, where that saves fences.

    Before: sound; cores in lockstep (`ir/lockstep.py`), without dependences, else nothing changes. After: the program
    computes the same; a loop that is changed has half the trip count, and its body two iterations.
    """

    name: ClassVar[str] = "alternate_buffers"
    cross_core: ClassVar[bool] = True

    target: str = DEFAULT
    """The machine whose times decide: a preset, or FILE.toml."""
    least_gain: Annotated[float, Between(-1, 1)] = 0.01
    """The share of the estimated time that a loop must save; negative: what it may lose."""
    most_bytes: Annotated[float, Between(0, 1)] = 0.05
    """The share of the bytes of all locations of a core that the new buffers of a loop may take."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Loop by loop, the inner ones first."""
        context.count(self.name, loops=0, buffers=0)
        if not runs_in_lockstep(program):
            return program
        blocks = len(program.blocks) // program.lnc
        headers = [each.header for each in program.structure.loops.values() if each.header < blocks]
        for header in [_identity(program, each) for each in reversed(headers)]:
            program = self._with_one(program, header, context)
        return program

    def _with_one(self, program: Program, header: tuple[int, int], context: PassContext) -> Program:
        """The program with one of its loops changed, or as it was."""
        loop = next(each for each in program.structure.loops.values() if _identity(program, each.header) == header)
        locations = alternating(program, loop)
        if not locations:
            return program
        left = f"{self.name}.left"
        reason = refusal(program, loop) or _collective(program, loop)
        if reason is not None:
            context.count(left, **{reason: 1})
            return program
        cut = find_candidates(program).sizes
        chosen = self._within(program, [each for each in locations if each.location in cut])
        made, found = program, self._estimate(program)
        time = found.time
        for _ in range(2):
            if not chosen:
                return program
            buffered = with_buffers(program, loop, chosen)
            made = unroll(buffered.program, loop, buffered.halves)
            found = self._estimate(made)
            pairs = zip(chosen, buffered.pairs, strict=True)
            needed = [each for each, pair in pairs if not found.apart.isdisjoint(pair)]
            if len(needed) == len(chosen):
                break
            chosen = needed
        if found.time > time * (1 - self.least_gain):
            context.count(left, **{"two buffers would save too little time": 1})
            return program
        context.count(self.name, loops=1, buffers=len(chosen))
        return made

    def _estimate(self, program: Program) -> _Estimate:
        asked = parse_split(())
        notes = Annotations.of(program, asked)
        found = find_candidates(program)
        _, cuts = SplitUniform(target=self.target).choose(program, found, asked, notes)
        target = load_target(self.target)
        estimator = SplitEstimator(program, found.operations, found.classes, found.sizes.keys(), target)
        choice = np.full(len(program.instructions) // program.lnc, UNDIVIDED, np.int32)
        for row, axis in cuts.axes.items():
            choice[row] = found.operations[row].axes.index(axis)
        apart = read_by_others(program, found.operations, cuts, gathered=True)
        return _Estimate(estimator.estimate(choice), frozenset(location for location, _ in apart))

    def _within(self, program: Program, locations: list[Alternating]) -> list[Alternating]:
        """The smallest of some locations, as many as may have second buffers."""
        size = program.locations.size
        left = float(size[: len(size) // program.lnc].sum()) * self.most_bytes
        found = []
        for each in sorted(locations, key=lambda each: (int(size[each.location]), each.location)):
            left -= 0 if each.copied != NONE else int(size[each.location])
            if left >= 0:
                found.append(each)
        return sorted(found, key=lambda each: each.location)


class _Estimate(NamedTuple):
    """What `split_uniform` would make of a program."""

    time: float
    apart: frozenset[int]
    """Locations of the first core of which cores touch parts of others."""


def _identity(program: Program, block: int) -> tuple[int, int]:
    """What a block keeps when others come and go: its function and its name."""
    return int(program.blocks.function[block]), int(program.blocks.name[block])


def _collective(program: Program, loop: Loop) -> str | None:
    first, last = np.searchsorted(program.instructions.block, [loop.begin, loop.end]).tolist()
    opcodes = np.unique(program.instructions.opcode[first:last]).tolist()
    collective = any(lookup(program.strings[opcode]).collective for opcode in opcodes)
    return "it has collectives" if collective else None
