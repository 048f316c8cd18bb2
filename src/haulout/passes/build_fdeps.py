"""build_fdeps: the true dependences (RAW) inside each core, in every space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from haulout.ir.enums import DependenceKind
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.passes.order_cores import order_cores


@dataclass(frozen=True)
class BuildFdeps(Pass):
    """Adds a RAW edge wherever a read may overtake the write that it needs on another engine of its core.

    Before: a sound program; loops and branches are fine. After: every read is ordered after the writes before it in
    its core's list and in earlier iterations, by engine order or by edges, without barriers that a pass may remove.
    Idempotent.
    """

    name: ClassVar[str] = "build_fdeps"

    def run(self, program: Program, context: PassContext) -> Program:
        """Add the missing edges."""
        program, edges = order_cores(program, {DependenceKind.RAW}, removable_fences=False)
        context.count(self.name, edges=edges)
        return program
