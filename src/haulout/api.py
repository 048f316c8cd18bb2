"""The Python API: `load`, `compile`, `check`, `simulate`, `run`, `compare`. The commands call these functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity, bad_input
from haulout.support.file_kind import Kind, kind_of_file
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
    from haulout.report.comparison import Comparison, Source
    from haulout.report.model import Report, ShareLevel
    from haulout.runtime import RunResult
    from haulout.sim.events.schedules import Schedule
    from haulout.sim.execution import Progress
    from haulout.sim.run import SimulationResult


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

    def _repr_html_(self) -> str:
        from haulout.report.notebook import compile_html

        return compile_html(self.report, self.diagnostics, self.proved)


def load(
    path: str | Path,
    *,
    lnc: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    fuse: Fuse = "all",
    cores: int | None = None,
) -> Program:
    """Read a program: `.bir` text, HLO text after SPMD partitioning, `.npz` (stored by `save_program`), or an NKI
    kernel, `FILE.py::FUNCTION` (see `haulout.nki.trace` for `arguments` and `barrier_scope`).

    A file is known by its contents. `cores` is the number of cores of HLO text that does not say for how many it is.

    `lnc` is the number of cores: a one-core program is cloned (see `lnc_splitter`), a kernel runs on that many
    (default 2), any other program must have that many. The program is verified. Raises `HauloutError`.
    """
    _check_cores(lnc)
    return _read(path, lnc, arguments, barrier_scope, fuse, (), cores)[0]


def _read(
    source: str | Path | Program,
    lnc: int | None,
    arguments: Mapping[str, Any] | None,
    barrier_scope: BarrierScope,
    fuse: Fuse,
    replicated: Collection[str] = (),
    cores: int | None = None,
) -> tuple[Program, list[Diagnostic]]:
    """A sound program that can be written as text, and the findings of a kernel's trace."""
    from haulout.ir.verify import check_sound
    from haulout.ir.writable import require_writable

    is_file = not isinstance(source, Program) and not is_kernel(source)
    kind = kind_of_file(Path(source)) if is_file and not isinstance(source, Program) else None
    if replicated and kind is not Kind.HLO:
        bad_input("replicated names parameters of HLO text", help=["in .bir, `same=` of an input says it"])
    if cores is not None and kind is not Kind.HLO:
        bad_input("cores is the number of cores of HLO text", help=["lnc, --lnc, is that of any other program"])
    _check_cores(cores, "cores")
    if isinstance(source, Program):
        require_writable(check_sound(source))
        return source, []
    if is_kernel(source):
        from haulout.nki import trace

        traced = trace(str(source), arguments or {}, lnc=lnc or 2, barrier_scope=barrier_scope)
        return traced.program, list(traced.findings)
    assert kind is not None
    program = check_sound(_read_file(Path(source), kind, fuse, replicated, cores, divide=lnc is not None))
    if kind is Kind.STORE:
        require_writable(program)
    return _on_cores(program, lnc, str(source), kind), []


def load_text(text: str, *, file: str = "<text>", lnc: int | None = None) -> Program:
    """The program of a `.bir` text, as `load` reads it from a file. `file` is its name in messages."""
    from haulout.ir.text import parse_bir
    from haulout.ir.verify import check_sound

    _check_cores(lnc)
    return _on_cores(check_sound(parse_bir(text, file)), lnc, file)


def _on_cores(program: Program, lnc: int | None, source: str, kind: Kind | None = None) -> Program:
    """The program on so many cores; a one-core program is cloned."""
    if lnc in (None, program.lnc):
        return program
    if program.lnc != 1:
        bad_input(f"{source} is partitioned for {program.lnc} cores, not {lnc}")
    from haulout.ir.opcodes import COLLECTIVES
    from haulout.passes.base import PassContext
    from haulout.passes.lnc_splitter import LncSplitter

    if kind is Kind.HLO and {program.strings[each] for each in set(program.instructions.opcode.tolist())} & {
        *COLLECTIVES
    }:
        bad_input(
            f"{source} has collectives: it is no program of one device that could be divided",
            help=["--cores N, or cores=N, says how many cores it is for"],
        )
    return LncSplitter(cores=lnc).run(program, PassContext())


def _read_file(
    path: Path, kind: Kind, fuse: Fuse, replicated: Collection[str], cores: int | None, *, divide: bool
) -> Program:
    from haulout.ir.store import load_program
    from haulout.ir.text import parse_bir
    from haulout.support.files import read_text

    match kind:
        case Kind.BIR:
            return parse_bir(read_text(path), str(path))
        case Kind.HLO:
            from haulout.frontends.hlo import Fuse, load_hlo
            from haulout.passes.options import check_option

            check_option("fuse", fuse, Fuse)
            return load_hlo(path, fuse=fuse, replicated=replicated, divide=divide, cores=cores)
        case Kind.STORE:
            return load_program(path)


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
    cores: int | None = None,
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
    estimated before that. `fuse` and `cores` as in `load`. `replicated` names
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

    program, traced = _read(source, lnc, arguments, barrier_scope, fuse, replicated, cores)
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
    return CompileResult(program, report, [*_kept_open(program), *context.all_findings], proved)


def explain_split(
    source: str | Path | Program,
    *,
    lnc: int | None = None,
    split: Sequence[str] = (),
    target: str | Path | None = None,
    fuse: Fuse = "all",
    replicated: Collection[str] = (),
    cores: int | None = None,
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
    program, _ = _read(source, lnc, None, "data", fuse, replicated, cores)
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

    @property
    def proved(self) -> bool:
        """The checker found only notes, and no comment accepts a finding."""
        serious = any(each.severity > Severity.NOTE for each in self.diagnostics)
        return (self.program is not None or self.tasks is not None) and not serious and not self.suppressed

    def _repr_html_(self) -> str:
        from haulout.report.notebook import check_html

        return check_html(self.program, self.diagnostics, self.suppressed, self.proved)


def check(
    source: str | Path | Program,
    *,
    lnc: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    target: str = "gen3",
    cores: int | None = None,
    fix: bool = False,
) -> list[Diagnostic]:
    """The findings of the independent checker in a program, compiled or written by hand, in an NKI kernel, or in a
    task graph (a JSON file; see `haulout.tasks`).

    The options are those of `check_source`, which also returns the program.
    """
    return check_source(
        source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope, target=target, cores=cores, fix=fix
    ).diagnostics


def check_source(
    source: str | Path | Program,
    *,
    lnc: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    barrier_scope: BarrierScope = "data",
    target: str = "gen3",
    cores: int | None = None,
    fix: bool = False,
) -> CheckResult:
    """The same, with the program. `lnc`, `arguments`, `barrier_scope` and `cores` as in `load`; `target` is the
    generation whose rules of the hardware a kernel must keep (`gen2`, `gen3`, `gen4`). `fix` lists edges that order
    the races of a task graph."""
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
    program = source if isinstance(source, Program) else load(source, lnc=lnc, cores=cores)
    return CheckResult(program, [*check_program(program), *_kept_open(program)])


def _kept_open(program: Program) -> list[Diagnostic]:
    """What a front end has kept without knowing all of it. It concerns no access."""
    from haulout.ir.left_out import incomplete_text, left_out_constants
    from haulout.ir.opaque import opaque_instructions

    return [*opaque_instructions(program), *left_out_constants(program), *incomplete_text(program)]


def _check_cores(count: int | None, name: str = "lnc") -> None:
    """Raise `bad-input` for an invalid number of cores."""
    from haulout.passes.options import Cores, check_option

    check_option(name, count, Cores | None)


def is_kernel(source: str | Path) -> bool:
    """Whether a source names a function of a Python file."""
    path, mark, _ = str(source).rpartition("::")
    return bool(mark) and path.endswith(".py")


def simulate(
    source: str | Path | Program,
    inputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    seed: int = 0,
    schedule: Schedule | str = "list",
    max_instructions: int = 1_000_000,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a program under one schedule; the options are those of `haulout.sim.simulate`.

    `inputs` maps `MODULE/LOCATION`, or `LOCATION` for every core, to arrays; without it they are drawn from `seed`.
    """
    from haulout.sim import simulate as run

    program = source if isinstance(source, Program) else load(source)
    return run(program, inputs, seed=seed, schedule=schedule, max_instructions=max_instructions, progress=progress)


def run(
    source: str | Path | Program,
    inputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    seed: int = 0,
    repeat: int = 1,
    queues: bool = False,
    trace: bool = False,
    max_instructions: int = 1_000_000,
    progress: Progress | None = None,
) -> RunResult:
    """Execute a compiled program, a thread a core or a queue; the options are those of `haulout.runtime.run`."""
    from haulout.runtime import run as execute

    return execute(
        source if isinstance(source, Program) else load(source),
        inputs,
        seed=seed,
        repeat=repeat,
        queues=queues,
        trace=trace,
        max_instructions=max_instructions,
        progress=progress,
    )


def compare(
    a: str | Path | Program,
    b: str | Path | Program,
    inputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    seed: int = 0,
    split: Sequence[str] = (),
    rtol: float | None = None,
    atol: float = 0.0,
    max_instructions: int = 1_000_000,
) -> Comparison:
    """Run `a`, the program before the split, and `b`, the split one, on the same inputs, and compare their results.

    `a` runs on one core, and its arrays are cut for the cores of `b` by the shardings of HLO text, by `split`
    (`NAME=DIM` of inputs and results), or by their shapes, in the order of the cores. Or both are for as many cores
    and are compared core by core. `inputs` are those of `a`, by `MODULE/LOCATION` or `LOCATION`; without them they
    are drawn from `seed`. Floats agree within `atol` plus `rtol` times the largest magnitude of the result in `a`;
    `rtol` None: by element type. Raises `HauloutError` if inputs or results do not correspond, or a run fails.
    """
    from haulout.report.comparison import compare as run

    options: dict[str, Any] = {"seed": seed, "split": split, "rtol": rtol, "atol": atol}
    return run(_compared(a, "A"), _compared(b, "B"), inputs, max_instructions=max_instructions, **options)


def _compared(source: str | Path | Program, title: str) -> Source:
    """A program for `compare`; of HLO text also its shardings and the origins of its operations."""
    from haulout.report.comparison import from_hlo, from_program

    if isinstance(source, Program):
        return from_program(source, title)
    if is_kernel(source):
        bad_input(f"{source}: compare takes programs", help=["haulout simulate --expect compares a kernel"])
    if kind_of_file(Path(source)) is Kind.HLO:
        from haulout.frontends.hlo import read_hlo

        return from_hlo(read_hlo(Path(source)), title)
    return from_program(load(source), title)
