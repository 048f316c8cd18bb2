"""check: the independent checker as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.support.diagnostics import Severity


@dataclass(frozen=True)
class Check(Pass):
    """Proves the program or says what is wrong with it. Changes nothing.

    Before: sound. After: the program is the same, and the context has the findings, in place of those of an earlier
    check. If one of them is an error, the passes after this one do not run.
    """

    name: ClassVar[str] = "check"

    def run(self, program: Program, context: PassContext) -> Program:
        """Run the checker."""
        context.findings = check_program(program)
        context.stopped = any(each.severity is Severity.ERROR for each in context.findings)
        return program
