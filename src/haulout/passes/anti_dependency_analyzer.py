"""anti_dependency_analyzer_post_shared_dram (orders 79 and 84): WAR and WAW edges inside each core.

It runs twice. At 79 locations have no addresses: conflicts are by location, in every space. At 84 locations share
storage: an access to bytes that were another location's waits for the accesses to that location. All fences are final
then, so edges that a fence implies are not added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from haulout.ir.enums import DependenceKind
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.passes.order_cores import order_cores


@dataclass(frozen=True)
class AntiDependencyAnalyzerPostSharedDram(Pass):
    """Adds the WAR and WAW edges that are missing.

    Before: sound, with the edges of `build_fdeps`; loops and branches are fine. After: accesses of one core that
    conflict, by location or (with addresses) by physical bytes, are ordered as in its list. Idempotent.
    """

    name: ClassVar[str] = "anti_dependency_analyzer_post_shared_dram"
    order: ClassVar[int | None] = 79

    fences_are_final: bool = False
    """Order 84: barriers that passes made stay."""

    @property
    def position(self) -> int | None:
        """79, or 84 for the run over physical bytes."""
        return 84 if self.fences_are_final else 79

    def run(self, program: Program, context: PassContext) -> Program:
        """Add the missing edges."""
        kinds = {DependenceKind.WAR, DependenceKind.WAW}
        program, edges = order_cores(program, kinds, removable_fences=self.fences_are_final)
        context.count(f"{self.name}.{self.position}", edges=edges)
        return program
