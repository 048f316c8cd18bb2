"""The Python API: `load`, `compile`, `check`, `simulate`, `run`. The commands call these functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity, bad_input
from haulout.support.jit import compile_seconds

if TYPE_CHECKING:
    import numpy as np

    from haulout.checker.tasks import TaskCheck
    from haulout.frontends.hlo import Fuse
    from haulout.frontends.nki import BarrierScope
    from haulout.passes.coloring_allocator_dram_shared import Partitions
    from haulout.passes.manager import PassRecord
    from haulout.passes.pipeline import Fences, Share, Sync
    from haulout.passes.split_report import SplitReport
    from haulout.report.model import Report, ShareLevel
    from haulout.runtime import RunResult
    from haulout.sim.run import SimulationResult

SUFFIXES = (".bir", ".hlo", ".npz")


@dataclass(slots=True)
class CompileResult:
    """A compiled program, its report, and all findings, those of the checker last."""

    program: Program
    report: Report
    diagnostics: list[Diagnostic]
    proved: bool
    """The checker and the trace of a kernel found only notes. Warnings of passes that concern no access
    (`one-member-collective`) do not count."""

    @property
    def ok(self) -> bool:
        """No error and no warning."""
        return not any(each.severity > Severity.NOTE for each in self.diagnostics)


def load(
    path: str | Path,
    *,
    lnc: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    fuse: Fuse = "all",
) -> Program:
    """Read a program: `.bir` text, `.hlo` text after SPMD partitioning, `.npz` (stored by `save_program`), or an NKI
    kernel, `FILE.py::FUNCTION` (see `haulout.nki.trace` for `arguments` and `barrier_scope`).

    `lnc` is the number of cores: a one-core program is cloned (see `lnc_splitter`), a kernel runs on that many
    (default 2), any other program must have that many. The program is verified. Raises `HauloutError`.
    """
    _check_cores(lnc)
    return _read(path, lnc, arguments, barrier_scope, fuse, ())[0]


def _read(
    source: str | Path | Program,
    lnc: int | None,
    arguments: Mapping[str, Any] | None,
    barrier_scope: BarrierScope,
    fuse: Fuse,
    replicated: Collection[str] = (),
) -> tuple[Program, list[Diagnostic]]:
    """A sound program that can be written as text, and the findings of a kernel's trace."""
    from haulout.ir.verify import check_sound
    from haulout.ir.writable import require_writable

    if replicated and (isinstance(source, Program) or Path(source).suffix != ".hlo"):
        bad_input("replicated names parameters of an .hlo file", help=["in .bir, `same=` of an input says it"])
    if isinstance(source, Program):
        require_writable(check_sound(source))
        return source, []
    if is_kernel(source):
        from haulout.nki import trace

        traced = trace(str(source), arguments or {}, lnc=lnc or 2, barrier_scope=barrier_scope)
        return traced.program, list(traced.findings)
    program = check_sound(_read_file(Path(source), fuse, replicated, divide=lnc is not None))
    if Path(source).suffix == ".npz":
        require_writable(program)
    if lnc in (None, program.lnc):
        return program, []
    if program.lnc != 1:
        bad_input(f"{source} is partitioned for {program.lnc} cores, not {lnc}")
    from haulout.passes.base import PassContext
    from haulout.passes.lnc_splitter import LncSplitter

    return LncSplitter(cores=lnc).run(program, PassContext()), []


def _read_file(path: Path, fuse: Fuse, replicated: Collection[str], *, divide: bool) -> Program:
    from haulout.ir.store import load_program
    from haulout.ir.text import parse_bir
    from haulout.support.files import read_text

    match path.suffix:
        case ".bir":
            return parse_bir(read_text(path), str(path))
        case ".hlo":
            from haulout.frontends.hlo import Fuse, load_hlo
            from haulout.passes.options import check_option

            check_option("fuse", fuse, Fuse)
            return load_hlo(path, fuse=fuse, replicated=replicated, divide=divide)
        case ".npz":
            return load_program(path)
    kernel = ["a kernel is FILE.py::FUNCTION"] if path.suffix == ".py" else []
    bad_input(
        f"{path}: no reader for {path.suffix or 'a file without a suffix'}",
        help=[f"one of {', '.join(SUFFIXES)}", *kernel],
    )


def compile(
    source: str | Path | Program,
    *,
    level: int = 2,
    fences: Fences = "minimal",
    capacity: int | None = None,
    partitions: Partitions | None = None,
    share: Share | None = None,
    split: Sequence[str] = (),
    compare_share: bool = False,
    target: str | Path | None = None,
    sync: Sync = "edges",
    fuse: Fuse | None = None,
    lnc: int | None = None,
    replicated: Collection[str] = (),
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    on_pass: Callable[[PassRecord], None] | None = None,
    reproducer: Path | None = None,
) -> CompileResult:
    """Compile a program for several cores and prove the result.

    `level`, 0 to 3, says how much effort to take, and decides `partitions`, `share` and `fuse` where they are None
    (`haulout.passes.pipeline.LEVELS`). `fences` is the policy. `capacity` is the DRAM of all cores together in bytes
    (default: the DRAM of the target, if it has a size). `partitions` is how the cores share it (see
    `coloring_allocator_dram_shared`). `share` is what is stored once for several cores: `none`, equal `inputs` and
    constants, other `uniform` values, too, whose work the cores divide, or `all`, which includes the operands of
    collectives. `split` asks for cuts of this work: `axis=DIM` of all results where that is possible, `NAME=DIM` of
    one operation. With `compare_share` the report also has the figures of every other `share`. `target` is the
    machine for estimated run times, the name of a preset or a TOML file (see `haulout.target`; None: `generic`).
    `sync`: `edges` keeps dependences and barriers, `semaphores` lowers dependences, `all` also barriers; times are
    estimated before that. `fuse` as in `load`. `replicated` names
    parameters of an .hlo file for which all cores get equal bytes, where its shardings do not say so. `arguments` and
    `barrier_scope` are for a kernel. The result has the findings of the checker. Raises `HauloutError` if the program
    cannot be compiled.
    """
    from haulout.passes.base import PassContext, Status
    from haulout.passes.manager import PassManager, PassRecord
    from haulout.passes.pipeline import compile_pipeline, level_of
    from haulout.report.model import make_report
    from haulout.target import DEFAULT, load_target

    _check_cores(lnc)
    target = str(target or DEFAULT)
    machine = load_target(target)
    fuse = level_of(level).fuse if fuse is None else fuse
    options: dict[str, Any] = {
        "level": level,
        "split": split,
        "fences": fences,
        "capacity": machine.dram_bytes if capacity is None else capacity,
        "partitions": partitions,
        "target": target,
    }
    passes = compile_pipeline(**options, share=share, sync=sync)
    manager = PassManager(passes, on_pass=on_pass, reproducer=reproducer)
    kernels_before = compile_seconds()

    program, traced = _read(source, lnc, arguments, barrier_scope, fuse, replicated)
    levels = _share_levels(program, options) if compare_share else []
    context = PassContext()
    context.diagnostics.extend(traced)
    program = manager.run(program, context)

    if kernels := compile_seconds() - kernels_before:
        record = PassRecord("compile kernels", None, Status.DONE, kernels, len(program.instructions))
        manager.records.insert(0, record)
    proved = not any(each.severity > Severity.NOTE for each in [*traced, *context.findings])
    proved &= not any(each.severity is Severity.ERROR for each in context.all_findings)
    report = make_report(program, context, manager.records, fences, target=machine.name, proved=proved)
    report.sharing.levels = levels
    return CompileResult(program, report, context.all_findings, proved)


def explain_split(
    source: str | Path | Program,
    *,
    lnc: int | None = None,
    split: Sequence[str] = (),
    target: str | Path | None = None,
    fuse: Fuse = "all",
    replicated: Collection[str] = (),
) -> SplitReport:
    """Which operations the cores divide, along which dimension, which fences they need, and why not the others.

    The options are those of `compile`; nothing gets an address. Raises `HauloutError`, also for a cut that is asked
    for and not possible.
    """
    from haulout.passes.base import PassContext
    from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
    from haulout.passes.manager import PassManager
    from haulout.passes.pipeline import standard_pipeline
    from haulout.passes.split_report import SplitReport
    from haulout.report.split import with_fences
    from haulout.target import DEFAULT, load_target

    _check_cores(lnc)
    machine = str(target or DEFAULT)
    passes = standard_pipeline(capacity=load_target(machine).dram_bytes, split=split, target=machine)
    placed = [each.name for each in passes].index(ExtendSharedLifetimes.name) + 1
    context = PassContext()
    program, _ = _read(source, lnc, None, "data", fuse, replicated)
    program = PassManager(passes[:placed]).run(program, context)
    if context.split is None:
        return SplitReport(obstacle="the program runs on one core")
    return with_fences(context.split, program)


def _share_levels(program: Program, options: Mapping[str, Any]) -> list[ShareLevel]:
    """The figures of a program with each value of `share`; addresses and order are not checked."""
    from haulout.passes.base import PassContext
    from haulout.passes.estimate import Estimate
    from haulout.passes.manager import PassManager
    from haulout.passes.pipeline import Share, standard_pipeline
    from haulout.report.model import ShareLevel

    found = []
    for share in get_args(Share):
        context = PassContext()
        passes = [*standard_pipeline(**options, share=share), Estimate(target=options["target"])]
        PassManager(passes).run(program, context)
        found.append(ShareLevel.of(share, context))
    return found


@dataclass(slots=True)
class CheckResult:
    """The checked program, and all findings."""

    program: Program | None
    """None for a kernel that stopped with an error, and for a task graph."""
    diagnostics: list[Diagnostic]
    suppressed: list[Diagnostic] = field(default_factory=list)
    """Findings that comments in a kernel accept."""
    tasks: TaskCheck | None = None
    """The figures of a task graph, which is no program."""


def check(source: str | Path | Program, **options: Any) -> list[Diagnostic]:
    """The findings of the independent checker in a program, compiled or written by hand, in an NKI kernel, or in a
    task graph (a JSON file; see `haulout.tasks`).

    The options are those of `check_source`.
    """
    return check_source(source, **options).diagnostics


def check_source(
    source: str | Path | Program,
    *,
    lnc: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    target: str = "gen3",
    fix: bool = False,
) -> CheckResult:
    """The same, with the program. `lnc`, `arguments` and `barrier_scope` as in `load`; `target` is the generation
    whose rules of the hardware a kernel must keep (`gen2`, `gen3`, `gen4`). `fix` lists edges that order the races of
    a task graph."""
    from haulout.checker import check_program
    from haulout.frontends.tasks import is_task_graph

    _check_cores(lnc)
    if not isinstance(source, Program) and is_task_graph(source):
        from haulout import tasks

        if lnc is not None:
            bad_input(f"{source} is a task graph: it has no cores")
        checked_tasks = tasks.check(source, fix=fix)
        return CheckResult(None, checked_tasks.diagnostics, tasks=checked_tasks)
    if fix:
        bad_input("only a task graph is checked with fix", help=["findings of a program show their fixes"])
    if not isinstance(source, Program) and is_kernel(source):
        from haulout.nki import check_kernel

        checked = check_kernel(str(source), arguments or {}, lnc=lnc or 2, barrier_scope=barrier_scope, target=target)
        return CheckResult(checked.program, checked.diagnostics, checked.suppressed)
    program = source if isinstance(source, Program) else load(source, lnc=lnc)
    return CheckResult(program, check_program(program))


def _check_cores(lnc: int | None) -> None:
    """Raise `bad-input` for an invalid number of cores."""
    from haulout.passes.options import Cores, check_option

    check_option("lnc", lnc, Cores | None)


def is_kernel(source: str | Path) -> bool:
    """Whether a source names a function of a Python file."""
    path, mark, _ = str(source).rpartition("::")
    return bool(mark) and path.endswith(".py")


def simulate(
    source: str | Path | Program, inputs: Mapping[str, np.ndarray[Any, Any]] | None = None, **options: Any
) -> SimulationResult:
    """Run a program; see `haulout.sim.simulate` for the options."""
    from haulout.sim import simulate as run

    return run(source if isinstance(source, Program) else load(source), inputs, **options)


def run(
    source: str | Path | Program, inputs: Mapping[str, np.ndarray[Any, Any]] | None = None, **options: Any
) -> RunResult:
    """Execute a compiled program, a thread a core or a queue; see `haulout.runtime.run` for the options."""
    from haulout.runtime import run as execute

    return execute(source if isinstance(source, Program) else load(source), inputs, **options)
