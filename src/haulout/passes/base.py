"""What a pass is: a frozen dataclass whose fields are its options (see `options.py`), with two entries.

`run_module` is the single-module entry. The passes of this pipeline reason across cores, so it is the skip path: it
changes nothing and says so. `run` sees all modules at once, as one `Program`, and returns the program it makes of it.
The manager routes on the number of cores; a pass that is about several returns at once when there is one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar

from haulout.analysis.makespan import Estimate
from haulout.ir.program import Program
from haulout.ir.views import ModuleView
from haulout.passes.options import check_options
from haulout.passes.split_report import SplitReport
from haulout.support.diagnostics import Diagnostic, Diagnostics, Label, Severity


class Status(enum.Enum):
    """What a pass did."""

    DONE = "done"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TimedProgram:
    """A program and its estimated run time."""

    program: Program
    estimate: Estimate


@dataclass(slots=True)
class PassContext:
    """The results of passes besides the program."""

    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Findings of the passes that transform the program."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """`pass name -> counter -> value`."""
    timed: TimedProgram | None = None
    """Result of the last `estimate`."""
    findings: list[Diagnostic] = field(default_factory=list)
    """Findings of the last `check`."""
    split: SplitReport | None = None
    """What `split_uniform` did with each operation."""
    stopped: bool = False
    """The remaining passes do not run, because the last `check` found errors."""

    @property
    def all_findings(self) -> list[Diagnostic]:
        """The findings of passes, then those of the checker."""
        return [*self.diagnostics, *self.findings]

    def count(self, name: str, **values: int) -> None:
        """Add to what a pass did, in numbers; it may run more than once."""
        counters = self.counters.setdefault(name, {})
        for key, value in values.items():
            counters[key] = counters.get(key, 0) + value

    def note(self, code: str, message: str, *labels: Label) -> None:
        """A finding that does not change the exit status."""
        self.diagnostics.add(code, Severity.NOTE, message, *labels)


@dataclass(frozen=True)
class Pass:
    """Base of all passes; the docstring of a subclass is its contract: valid before, valid after."""

    name: ClassVar[str]
    order: ClassVar[int | None] = None
    """Position in the reference's pass list, where it has one."""
    cross_core: ClassVar[bool] = False
    """About several cores only: skipped when there is one."""

    def __post_init__(self) -> None:
        """Raise `bad-input` for an option of another type than its field's."""
        check_options(self)

    @property
    def position(self) -> int | None:
        """`order`, or where this very pass stands when it runs more than once."""
        return self.order

    def run_module(self, module: ModuleView) -> Status:
        """The single-module entry: changes nothing."""
        return Status.SKIPPED

    def run(self, program: Program, context: PassContext) -> Program:
        """All modules at once."""
        raise NotImplementedError
