"""A pass of one's own: all DMA of a core on one queue. `haulout opt --load examples/passes/one_queue.py` takes it.

A queue runs its instructions in their order, so the program gets more order and loses none. It tells what several
queues are worth, and whether a wrong result comes from two transfers that run at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.passes.options import Between


@dataclass(frozen=True)
class OneQueue(Pass):
    """Moves all DMA instructions to one queue.

    Before: sound. After: the same order and more; edges stay.
    """

    name: ClassVar[str] = "one_queue"

    queue: Annotated[int, Between(0, 15)] = 0
    """Its number."""

    def run(self, program: Program, context: PassContext) -> Program:
        """The program with another column of engines."""
        engine, queue = program.instructions.engine, Engine.DMA0 + self.queue
        moved = (engine >= Engine.DMA0) & (engine <= Engine.DMA15) & (engine != queue)
        context.count(self.name, moved=int(moved.sum()))
        if not moved.any():
            return program
        chosen = np.where(moved, queue, engine).astype(engine.dtype)
        return program.replace(instructions=program.instructions.replace(engine=chosen))
