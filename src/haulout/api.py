"""The library's front door: `load`, `compile`, `check`, `simulate`. The commands are thin shells around these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity, bad_input

if TYPE_CHECKING:
    import numpy as np

    from haulout.passes.manager import PassRecord
    from haulout.passes.pipeline import Fences
    from haulout.report.model import Report
    from haulout.sim.run import SimulationResult

SUFFIXES = (".bir", ".hlo", ".npz")


@dataclass(slots=True)
class CompileResult:
    """A compiled program, the numbers, and everything found on the way, the checker's findings last."""

    program: Program
    report: Report
    diagnostics: list[Diagnostic]

    @property
    def ok(self) -> bool:
        """No error and no warning."""
        return not any(each.severity > Severity.NOTE for each in self.diagnostics)


def load(path: str | Path, *, lnc: int | None = None) -> Program:
    """Read a program: `.bir` text, `.hlo` text after SPMD partitioning, or `.npz` (stored by `save_program`).

    `lnc`: the number of cores that it must have; a one-core program is cloned over that many. The program is
    verified. Raises `HauloutError`.
    """
    from haulout.ir.replicate import replicate
    from haulout.ir.store import load_program
    from haulout.ir.text import parse_bir
    from haulout.ir.verify import check_sound
    from haulout.ir.writable import require_writable
    from haulout.support.files import read_text

    path = Path(path)
    match path.suffix:
        case ".bir":
            program = parse_bir(read_text(path), str(path))
        case ".hlo":
            from haulout.frontends.hlo import load_hlo

            program = load_hlo(path)
        case ".npz":
            program = load_program(path)
        case _:
            bad_input(
                f"{path}: no reader for {path.suffix or 'a file without a suffix'}", help=[f"one of {SUFFIXES}"]
            )
    check_sound(program)
    if path.suffix == ".npz":
        require_writable(program)
    if lnc is not None and lnc != program.lnc:
        if program.lnc != 1:
            bad_input(f"{path} is partitioned for {program.lnc} cores, not {lnc}")
        program = replicate(program, lnc)
    return program


def compile(
    source: str | Path | Program,
    *,
    fences: Fences = "minimal",
    capacity: int | None = None,
    lnc: int | None = None,
    on_pass: Callable[[PassRecord], None] | None = None,
    reproducer: Path | None = None,
) -> CompileResult:
    """Compile a program for several cores and prove the result.

    `fences`: the policy; `capacity`: bytes of DRAM for all cores together. The checker's findings do not raise: they
    are in the result. Raises `HauloutError` when the program cannot be compiled.
    """
    from haulout.check import check_program
    from haulout.passes.base import PassContext, Status
    from haulout.passes.manager import PassManager, PassRecord
    from haulout.passes.pipeline import standard_pipeline
    from haulout.report.model import make_report

    program = source if isinstance(source, Program) else load(source, lnc=lnc)
    context = PassContext()
    passes = standard_pipeline(fences=fences, capacity=capacity)
    manager = PassManager(passes, on_pass=on_pass, reproducer=reproducer)
    program = manager.run(program, context)
    began = perf_counter()
    findings = check_program(program)
    record = PassRecord("check", None, Status.DONE, perf_counter() - began, len(program.instructions))
    manager.records.append(record)
    if on_pass is not None:
        on_pass(record)
    diagnostics = [*context.diagnostics, *findings]
    return CompileResult(program, make_report(program, context, manager.records, diagnostics, fences), diagnostics)


def check(source: str | Path | Program) -> list[Diagnostic]:
    """What the independent checker finds in a program, which may be compiled or written by hand."""
    from haulout.check import check_program

    return check_program(source if isinstance(source, Program) else load(source))


def simulate(
    source: str | Path | Program, inputs: Mapping[str, np.ndarray[Any, Any]] | None = None, **options: Any
) -> SimulationResult:
    """Run a program; see `haulout.sim.simulate` for the options."""
    from haulout.sim import simulate as run

    return run(source if isinstance(source, Program) else load(source), inputs, **options)
