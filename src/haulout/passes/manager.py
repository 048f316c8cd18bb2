"""Runs passes: verifies after each, times each, prints what is asked for, and leaves a reproducer on a crash."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.ir.verify import check_sound
from haulout.passes.base import Pass, PassContext, Status
from haulout.passes.options import check_options
from haulout.support.diagnostics import HauloutError, fail
from haulout.support.files import write_text
from haulout.support.jit import work_clock


@dataclass(slots=True)
class PassRecord:
    """What one pass did to the program, and how long it took (seconds of wall time, kernels not compiled within)."""

    name: str
    order: int | None
    status: Status
    seconds: float
    instructions: int


@dataclass(slots=True)
class PassManager:
    """A pipeline and how to run it.

    `on_pass(record)` is called after each pass. `print_after` names passes whose result `show` gets as text.
    `reproducer` is the folder that takes the program a pass crashed on, and the pass.
    """

    passes: Sequence[Pass]
    verify: bool = True
    on_pass: Callable[[PassRecord], None] | None = None
    print_before: Iterable[str] = ()
    print_after: Iterable[str] = ()
    show: Callable[[str], None] = print
    reproducer: Path | None = None
    records: list[PassRecord] = field(default_factory=list)

    def run(self, program: Program, context: PassContext) -> Program:
        """The program after all passes; raises `HauloutError` with what went wrong, the program as it was."""
        for each in self.passes:
            check_options(each)
        if self.verify:
            check_sound(program)
        before, after = set(self.print_before), set(self.print_after)
        for each in self.passes:
            if context.stopped:
                break
            if each.name in before:
                self.show(f"# before {each.name}\n{print_bir(program)}")
            program = self._run_one(each, program, context)
            if each.name in after:
                self.show(f"# after {each.name}\n{print_bir(program)}")
        return program

    def _run_one(self, each: Pass, program: Program, context: PassContext) -> Program:
        began = work_clock()
        status = Status.DONE
        result = program
        if program.lnc == 1 and each.cross_core:
            status = each.run_module(program.module_views()[0])
        else:
            try:
                result = each.run(program, context)
                if self.verify and result is not program:
                    check_sound(result)
            except (HauloutError, MemoryError):
                raise
            except Exception as error:
                self._crashed(each, program, error)
        record = PassRecord(each.name, each.position, status, work_clock() - began, len(result.instructions))
        self.records.append(record)
        if self.on_pass is not None:
            self.on_pass(record)
        return result

    def _crashed(self, each: Pass, program: Program, error: Exception) -> None:
        """Report a defect of ours, with what is needed to see it again."""
        notes = [line for line in "".join(traceback.format_exception(error)).splitlines() if line.strip()][-6:]
        help_lines = []
        if self.reproducer is not None:
            path = self.reproducer / f"reproducer.{each.name}.bir"
            try:
                write_text(path, f"# pass: {each}\n{print_bir(program)}")
                help_lines.append(f"the program it ran on: {path}")
            except Exception as second:  # the defect is what is reported, not what keeps it from being written
                help_lines.append(f"the program it ran on is not written: {type(second).__name__}: {second}")
        fail("internal-error", f"{each.name} crashed: {type(error).__name__}: {error}", notes=notes, help=help_lines)
