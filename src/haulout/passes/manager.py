"""Runs passes: verifies after each, times each, prints what is asked for, leaves a reproducer of a crash."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.ir.verify import check_sound
from haulout.passes.base import Pass, PassContext, Status
from haulout.passes.options import check_options
from haulout.passes.pipeline_text import PIPELINE, pipeline_text
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

    `on_pass(record)` is called after each pass. `show` gets the program as text before and after the passes of
    `print_before` and `print_after`, and after those that change it if `print_changed`. `reproducer` is the folder
    for the program that a pass crashed on, or made unsound, with the pass: `haulout opt` runs it again, with the
    files of `loaded`, which have passes that are not ours.
    """

    passes: Sequence[Pass]
    verify: bool = True
    on_pass: Callable[[PassRecord], None] | None = None
    print_before: Iterable[str] = ()
    print_after: Iterable[str] = ()
    print_changed: bool = False
    show: Callable[[str], None] = print
    reproducer: Path | None = None
    loaded: Sequence[Path] = ()
    records: list[PassRecord] = field(default_factory=list)

    def run(self, program: Program, context: PassContext) -> Program:
        """The program after all passes; raises `HauloutError` with what went wrong, the program as it was."""
        for each in self.passes:
            check_options(each)
        if self.verify:
            check_sound(program)
        before, after = set(self.print_before), set(self.print_after)
        last = print_bir(program) if self.print_changed else ""
        for each in self.passes:
            if context.stopped:
                break
            if each.name in before:
                self.show(f"# before {each.name}\n{print_bir(program)}")
            program = self._run_one(each, program, context)
            text = print_bir(program) if self.print_changed or each.name in after else ""
            if each.name in after or (self.print_changed and text != last):
                self.show(f"# after {each.name}\n{text}")
            last = text
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
            except (HauloutError, MemoryError):
                raise
            except Exception as error:
                self._crashed(each, program, error)
            if self.verify and result is not program:
                self._check(each, program, result)
        record = PassRecord(each.name, each.position, status, work_clock() - began, len(result.instructions))
        self.records.append(record)
        if self.on_pass is not None:
            self.on_pass(record)
        return result

    def _crashed(self, each: Pass, program: Program, error: Exception) -> None:
        """Report a defect of ours, with what is needed to see it again."""
        notes = [line for line in "".join(traceback.format_exception(error)).splitlines() if line.strip()][-6:]
        message = f"{each.name} crashed: {type(error).__name__}: {error}"
        fail("internal-error", message, notes=notes, help=self._reproduced(each, program))

    def _check(self, each: Pass, program: Program, result: Program) -> None:
        """Name the pass that made an unsound program."""
        try:
            check_sound(result)
        except HauloutError as error:
            notes = [finding.message for finding in error.diagnostics]
            message = f"{each.name} made a program that is not sound: {notes[0]}"
            fail("internal-error", message, notes=notes[1:], help=self._reproduced(each, program))

    def _reproduced(self, each: Pass, program: Program) -> list[str]:
        """Write the program that a pass ran on; what to do with it."""
        if self.reproducer is None:
            return []
        path = self.reproducer / f"reproducer.{each.name}.bir"
        try:
            write_text(path, f"{PIPELINE}{pipeline_text([each])}\n{print_bir(program)}")
        except Exception as error:  # the defect is what is reported, not what keeps it from being written
            return [f"the program it ran on is not written: {type(error).__name__}: {error}"]
        loaded = [word for file in self.loaded for word in ("--load", str(file))]
        return [f"run it again: haulout opt {shlex.join([str(path), *loaded])}"]
