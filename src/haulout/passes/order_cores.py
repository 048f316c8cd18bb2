"""Order inside cores, for the passes that add it: edges, and joins where there are regions."""

from __future__ import annotations

from haulout.analysis.dependences import missing_order
from haulout.analysis.region_dependences import missing_region_order
from haulout.ir.edit import add_dependences
from haulout.ir.enums import DependenceKind
from haulout.ir.program import Program
from haulout.passes.region_joins import join_rows, with_joins


def order_cores(program: Program, kinds: set[DependenceKind], *, removable_fences: bool) -> tuple[Program, int]:
    """The program with every edge of these kinds that it lacked, and how many those were."""
    if not program.structure:
        edges = missing_order(program, kinds, removable_fences=removable_fences)
        return add_dependences(program, edges), len(edges)
    program = with_joins(program)
    edges = missing_region_order(program, join_rows(program), kinds, removable_fences=removable_fences)
    return add_dependences(program, edges), len(edges)
