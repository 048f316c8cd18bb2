"""mark_uniform: writes on each location which cores hold equal bytes in it, `same=[[0,1],[2,3]]`.

The classes are those of `analysis/core_labels.py`, without cores that are alone. On inputs `same=` stays what the
caller promises. On all other locations it is a claim: the checker derives it again by value numbers
(`checker/values/equal_cores.py`), and `simulate` compares what the cores write. Passes after which a core holds
another part of a value, or other things in the same place, remove the claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.analysis.core_labels import core_labels
from haulout.ir.attributes import format_value
from haulout.ir.enums import NONE, Kind
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.partitions import to_classes
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext


@dataclass(frozen=True)
class MarkUniform(Pass):
    """Marks each location with the classes of cores that hold equal bytes in it.

    Before: sound; the cores run one list of instructions, else nothing changes. After: every location but the inputs
    has `same=` with its classes of two or more cores, or none, whatever it had before.
    """

    name: ClassVar[str] = "mark_uniform"
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """Labels, then one text for each distinct partition."""
        if not runs_in_lockstep(program):
            context.count(self.name, locations=0)
            return program
        labels = core_labels(program)
        lines, which = np.unique(labels, axis=0, return_inverse=True)
        texts = np.full(len(lines), NONE, np.int32)
        for at, line in enumerate(lines.tolist()):
            classes: list[list[int]] = [each for each in to_classes(tuple(line)) if len(each) > 1]
            if classes:
                texts[at] = program.strings.intern(format_value([list(each) for each in classes]))
        found = texts[which.reshape(-1)]
        inputs = np.isin(program.locations.kind, (Kind.INPUT, Kind.INOUT))
        same = np.where(inputs, program.locations.same, np.tile(found, program.lnc)).astype(np.int32)
        context.count(self.name, locations=int((~inputs[: len(found)] & (found != NONE)).sum()))
        return program.replace(locations=program.locations.replace(same=same))
