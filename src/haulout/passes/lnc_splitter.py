"""lnc_splitter: the program of one core, cloned over several cores.

All clones get the same inputs, so they compute the same; `split_uniform` then divides the work and stores everything
once. A program with collectives is written for one of several cores: each clone has inputs of its own, and what they
compute is equal only as far as collectives make it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.enums import Kind
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.passes.base import Pass, PassContext
from haulout.passes.options import Cores
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True)
class LncSplitter(Pass):
    """Clones a program of one core.

    Before: one core. After: `cores` equal modules, `nc0` and so on; without collectives, `same=` on all inputs.
    """

    name: ClassVar[str] = "lnc_splitter"

    cores: Cores = 2
    """How many."""

    def run(self, program: Program, context: PassContext) -> Program:
        """One replication of all columns."""
        if program.lnc != 1:
            bad_input(f"lnc_splitter takes a program of one core, not of {program.lnc}")
        opcodes = np.unique(program.instructions.opcode).tolist()
        collectives = any(lookup(program.strings[opcode]).collective for opcode in opcodes)
        given = np.isin(program.locations.kind, (Kind.INPUT, Kind.INOUT)) & (not collectives)
        everyone = [list(range(self.cores))]
        context.count(self.name, cores=self.cores)
        return replicate(program, self.cores, same=dict.fromkeys(np.flatnonzero(given).tolist(), everyone))
