"""estimate: how long the program takes on a target; the report gets it through the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from haulout.analysis.makespan import makespan
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext, TimedProgram
from haulout.target import DEFAULT, load_target


@dataclass(frozen=True)
class Estimate(Pass):
    """Estimates the run time of the program. Changes nothing.

    Before: sound; loops and branches are fine. After: the program is the same, and the context has the estimate.
    """

    name: ClassVar[str] = "estimate"

    target: str = DEFAULT
    """The machine: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Run the estimator."""
        context.timed = TimedProgram(program, makespan(program, load_target(self.target)))
        return program
