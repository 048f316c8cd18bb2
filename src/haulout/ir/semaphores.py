"""What instructions do to semaphores, as columns: signals of the own core and of others, waits for a count.

A semaphore belongs to one core and has a name; it starts at 0 in every function and never falls. The text writes the
rows of the table `semaphores` as four attributes:

    signal=[[NAME,INT],...]                 on completion, adds to the semaphore NAME of the own core
    remote_signal=[[CORE,NAME,INT],...]     the same, of another core
    wait=[[NAME,INT],...]                   starts when the own semaphore NAME is at least INT
    wait_back=[[NAME,INT],...]              starts when all that this core has issued to NAME before, signals and
                                            remote signals alike, is made but the last INT: when the own semaphore is
                                            at least that sum less INT
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints

MOST = (1 << 31) - 1
"""No amount and no count is larger, so that sums stay inside 64 bits."""


@dataclass(slots=True)
class Signals:
    """Additions on completion, by instruction."""

    instruction: Ids
    core: Ids
    """Whose semaphore."""
    name: Ids
    """Number in `Use.names`."""
    amount: Ints
    remote: Bools
    """Written as a `remote_signal`."""


@dataclass(slots=True)
class Waits:
    """Counts needed to start, by instruction."""

    instruction: Ids
    name: Ids
    """Number in `Use.names`; the own core's semaphore."""
    value: Ints
    back: Bools
    """`value` counts back from what the core has issued (`wait_back`)."""


@dataclass(slots=True)
class Use:
    """All semaphores of a program and what is done to them."""

    names: list[str]
    signals: Signals
    waits: Waits

    def __bool__(self) -> bool:
        return bool(len(self.signals.instruction) or len(self.waits.instruction))


def semaphore_use(program: Program) -> Use:
    """Signals and waits of a whole program."""
    table = program.semaphores
    names, name = np.unique(table.name, return_inverse=True)
    core = np.where(table.core == NONE, program.instruction_core[table.instruction], table.core).astype(np.int32)
    made, needed = np.flatnonzero(~table.wait), np.flatnonzero(table.wait)
    number = name.astype(np.int32)
    return Use(
        [program.strings[each] for each in names.tolist()],
        Signals(table.instruction[made], core[made], number[made], table.value[made], table.core[made] != NONE),
        Waits(table.instruction[needed], number[needed], table.value[needed], table.back[needed]),
    )
