"""anti_dependency_analyzer_post_shared_dram (orders 79 and 84): WAR and WAW edges inside each core.

It runs twice. At 79 locations have no addresses: conflicts are those by location, in shared DRAM and in every other
space. At 84 storage is shared between locations: whatever touches bytes that were another location's waits for what
touched those. By then all fences are final, so an edge that a fence implies is not added.
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
    conflict, by location or (where addresses are there) by physical bytes, are ordered as its list has them.
    Idempotent.
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
