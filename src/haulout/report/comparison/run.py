"""The comparison: cut the inputs, run both programs, compare the results, and look for the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from haulout.ir.labels import instruction_label
from haulout.report.comparison.first import FirstDifference, Holds, Matcher, find_first
from haulout.report.comparison.inputs import Inputs, make_inputs
from haulout.report.comparison.layout import parse_splits
from haulout.report.comparison.numbers import Difference, Tolerance
from haulout.report.comparison.outputs import OutputResult, compare_outputs
from haulout.report.comparison.source import Source
from haulout.sim.flow.visits import MAX_INSTRUCTIONS
from haulout.sim.record import record
from haulout.sim.run import simulate
from haulout.support.diagnostics import Diagnostic, HauloutError, Label, Severity, bad_input

Array = npt.NDArray[Any]
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    outputs: tuple[OutputResult, ...]
    first: dict[str, FirstDifference]
    """By result of the split program, the first operation on the way to it that differs, where it is known."""
    diagnostics: tuple[Diagnostic, ...]
    """`different-results`, one for each result, and the findings of both runs."""

    @property
    def equal(self) -> bool:
        """Whether all results agree on all cores."""
        return all(each.equal for each in self.outputs)


def compare(
    a: Source,
    b: Source,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    split: Sequence[str] = (),
    rtol: float | None = None,
    atol: float = 0.0,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> Comparison:
    """Run `a`, the program before the split, and `b` on the same inputs and compare their results.

    `inputs` are those of `a` by `MODULE/LOCATION` or `LOCATION`; without them they are drawn from `seed`. `split`
    says `NAME=DIM` of inputs and results that the cores of `b` hold in tiles. `rtol` is relative to the largest
    magnitude of a result in `a`; None: by element type. Raises `HauloutError`: `bad-input` if inputs or results do
    not correspond, and what `simulate` raises.
    """
    asked, tolerance = _asked(a, b, split), Tolerance(rtol, atol)
    made = make_inputs(a, b, inputs, seed, asked)
    run_a = _run(a, made.a, max_instructions)
    run_b = _run(b, made.b, max_instructions)
    outputs = compare_outputs(a, b, made.each, run_a.outputs, run_b.outputs, asked, tolerance)
    found = [*_titled(a, run_a.diagnostics), *_titled(b, run_b.diagnostics)]
    different = [each for each in outputs if not each.equal]
    first = _first(a, b, made, different, tolerance, max_instructions)
    shown: dict[str, str] = {}
    for each in different:
        where = first.get(each.b)
        found.append(_finding(a, b, each, where, shown.get(where.b) if where is not None else None))
        if where is not None:
            shown.setdefault(where.b, each.b)
    if all(each.size and each.not_finite == each.size for each in outputs) and outputs:
        message = "no result has a finite element, so their agreement says nothing"
        found.append(Diagnostic("different-results", Severity.WARNING, message, help=("give other --inputs",)))
    return Comparison(tuple(outputs), first, tuple(found))


def _run(source: Source, values: Mapping[str, Array], limit: int) -> Any:
    try:
        return simulate(source.program, values, max_instructions=limit)
    except HauloutError as error:
        raise HauloutError(*_titled(source, error.diagnostics)) from None


def _titled(source: Source, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings of a run, with the name of its program."""
    return [
        Diagnostic(
            each.code,
            each.severity,
            f"{source.title}: {each.message}",
            each.labels,
            each.notes,
            each.help,
            each.subject,
        )
        for each in found
    ]


def _asked(a: Source, b: Source, split: Sequence[str]) -> dict[str, int]:
    asked = parse_splits(split)
    known = {**a.inputs(), **b.inputs(), **a.results(), **b.results()}
    if unknown := sorted(asked.keys() - known.keys()):
        names = ", ".join(known)
        bad_input(f"--split: no input and no result is named {unknown[0]!r}", help=[f"names are {names}"])
    if asked and a.program.lnc == b.program.lnc:
        bad_input("--split: both programs are for as many cores, so nothing is cut")
    return asked


def _first(
    a: Source, b: Source, made: Inputs, different: Sequence[OutputResult], tolerance: Tolerance, limit: int
) -> dict[str, FirstDifference]:
    """By the first values of each operation; where these agree, or a loop goes before, by the last ones."""
    known: dict[str, FirstDifference] = {}
    repeated: set[str] = set()
    for last in (False, True):
        wanted = [each.b for each in different if each.b not in known or _reads_loop(known[each.b], repeated)]
        if not wanted:
            break
        record_a, record_b = (
            record(each.program, values, names=each.operations, max_instructions=limit, last=last)
            for each, values in ((a, made.a), (b, made.b))
        )
        repeated = record_b.repeated
        matcher = Matcher(a, b, record_a, record_b, made, tolerance)
        for name in wanted:
            found = find_first(matcher, name)
            if found is not None:
                known[name] = found
    return known


def _reads_loop(found: FirstDifference, repeated: set[str]) -> bool:
    """Whether it reads, outside a loop, what a loop has made last."""
    return found.b not in repeated and any(name in repeated for name, _ in found.right)


def _finding(
    a: Source, b: Source, result: OutputResult, first: FirstDifference | None, said: str | None
) -> Diagnostic:
    """A result that differs; `said`: the result before it whose finding has told about the same operation."""
    wrong = [core for core, each in enumerate(result.cores) if each.count]
    worst = max(wrong, key=lambda core: result.cores[core].largest)
    ours, theirs = result.values[worst]
    difference = result.cores[worst]
    message = f"result %{result.b} differs on {_cores(wrong, len(result.cores))}: {_apart(difference)}"
    size = result.size // len(result.cores)
    notes = [
        f"core {worst}: {difference.count} of {size} elements differ; at {list(difference.index)} "
        f"{b.title} has {theirs:.6g}, {a.title} has {ours:.6g}"
    ]
    if result.moved:
        notes.append(f"{_cores(result.moved, len(result.cores))} hold the tile of another core")
    labels: tuple[Label, ...] = ()
    if first is not None:
        labels, more = _about(a, b, first)
        notes += more if said is None else [f"from there as result %{said}"]
    else:
        notes.append("no operation whose value was kept differs on the way to it")
    return Diagnostic("different-results", Severity.ERROR, message, labels, tuple(notes))


def _about(a: Source, b: Source, first: FirstDifference) -> tuple[tuple[Label, ...], list[str]]:
    """The places of the first operation that differs, and notes about it."""
    what = f"%{first.b} is the first operation that differs"
    if first.holds is Holds.UNKNOWN:
        what = f"%{first.b} is the first operation without a counterpart"
    elif first.holds in (Holds.SUM, Holds.MAXIMUM, Holds.MINIMUM):
        what = f"after %{first.b} the cores hold {first.holds.value}, which nothing brings together"
    labels = [instruction_label(b.program, first.row, what)]
    if first.row_a >= 0:
        labels.append(instruction_label(a.program, first.row_a, f"%{first.a} of {a.title}"))
    notes = []
    if first.cores and first.holds is Holds.OTHER:
        worst = max((each for _, each in first.cores), key=lambda each: each.largest)
        cores = [core for core, _ in first.cores]
        notes.append(f"%{first.b} differs on {_cores(cores, b.program.lnc)}: {_apart(worst)}")
    if first.a and first.row_a < 0:
        notes.append(f"it should hold what input %{first.a} of {a.title} holds")
    if first.transposed:
        notes.append(f"it has the numbers of %{first.a} with the dimensions in the order {list(first.transposed)}")
    for holds in Holds:
        names = [name for name, held in first.right if held is holds]
        if names and holds is Holds.ALL:
            notes.append(f"what it reads is right: {_names(names)}")
        elif names:
            verb = "makes" if len(names) == 1 else "make"
            notes.append(f"{_names(names)} {verb} {holds.value}, a part on each core, which nothing brings together")
    if first.through:
        notes.append(f"it reads through {_names(first.through)}")
    if not first.is_complete:
        notes.append("values of some operations were too large to keep, and are not compared")
    if first.between:
        notes.append(f"between them, without a counterpart: {_names(first.between)}")
    return tuple(labels), notes


def _apart(difference: Difference) -> str:
    limit = f", limit {difference.limit:.3g}" if difference.limit else ""
    return f"max|a-b| = {difference.largest:.3g}{limit}"


def _cores(cores: Sequence[int], of: int) -> str:
    if len(cores) == of:
        return "every core" if of > 1 else "core 0"
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"%{name}" for name in names[:_SHOWN]) + more
