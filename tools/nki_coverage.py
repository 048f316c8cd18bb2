"""Trace and check every kernel of a checkout of nki-library; write the table of what goes, what does not, and why.

HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_coverage.py                # print the tables
HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_coverage.py --write        # docs/nki-coverage.md
HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_coverage.py --mutations    # take every meeting away, one by one
HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_coverage.py --large        # instructions per second
"""

from __future__ import annotations

import argparse
import copy
import importlib
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from haulout.frontends.nki import Trace
from haulout.frontends.nki.recorder import Record, Recorder
from haulout.nki.kernel_check import CheckedKernel, check_trace
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity
from haulout.support.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.nki_cases import LARGE, PACKAGE, TWELVE, VARIABLE, Case, library, library_folder  # noqa: E402
from tools.nki_more_cases import MORE  # noqa: E402

NOTE = "<!-- Made by tools/nki_coverage.py from a checkout of nki-library; run it again with --write. -->"


@dataclass(frozen=True)
class Row:
    """One run."""

    case: Case
    trace: Trace
    found: CheckedKernel
    trace_seconds: float
    check_seconds: float


def run(case: Case) -> Row:
    """Trace and check one case."""
    began = time.process_time()
    trace = case.trace()
    traced = time.process_time()
    found = check_trace(trace)
    return Row(case, trace, found, traced - began, time.process_time() - traced)


# -- words -----------------------------------------------------------------------------------------------------------


def verdict(found: CheckedKernel) -> str:
    """Codes of errors and warnings, then of notes, with how many."""
    parts = []
    for serious in (True, False):
        codes = Counter(each.code for each in found.diagnostics if (each.severity > Severity.NOTE) == serious)
        words = [code if count == 1 else f"{code} x{count}" for code, count in codes.items()]
        if words:
            parts.append(", ".join(words) if serious else f"notes: {', '.join(words)}")
        elif serious:
            parts.append("clean")
    return "; ".join(parts)


def reason(found: CheckedKernel) -> str:
    """Why a kernel did not come to its end."""
    stopped = [each for each in found.diagnostics if "stopped on core" in each.message]
    text = (stopped or list(found.diagnostics))[0].message
    return text.partition(": ")[2].replace("|", "/")[:160]


def table(rows: Sequence[Row], *, seconds: bool) -> list[str]:
    """Markdown rows: kernel, instructions per core, meetings, verdict."""
    head = ["kernel", "instructions per core", "B", "S", *(["trace s", "check s"] if seconds else []), "verdict"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        counts = [recorder.instructions for recorder in row.trace.recorders]
        opcodes = Counter(record.opcode for record in row.trace.recorders[0].records)
        cells = [
            row.case.name,
            str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts)),
            str(opcodes["core_barrier"]),
            str(opcodes["sendrecv"]),
        ]
        if seconds:
            cells += [f"{row.trace_seconds:.2f}", f"{row.check_seconds:.2f}"]
        cells.append(f"stops: {reason(row.found)}" if row.trace.failed else verdict(row.found))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def modules() -> tuple[list[str], dict[str, str]]:
    """Modules that import, and those that do not, with why."""
    folder = library_folder()
    assert folder is not None
    root = folder.joinpath(*PACKAGE.split("."))
    good: list[str] = []
    bad: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        if name.endswith("__init__"):
            continue
        with library():
            try:
                importlib.import_module(f"{PACKAGE}.{name}")
                good.append(name)
            except (ImportError, SyntaxError) as error:
                bad[name] = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
    return good, bad


def page(rows: Sequence[Row], more: Sequence[Row]) -> str:
    """The page of the docs; no times, so that it changes with the code only."""
    good, bad = modules()
    lines = ["# NKI coverage", "", NOTE, ""]
    lines += [
        "Results for the unmodified kernels of aws-neuron/nki-library on two cores. B and S are the",
        "barriers and exchanges of core 0. Arguments: `tools/nki_cases.py` and `tools/nki_more_cases.py`.",
        "",
        "## Twelve kernels with known results",
        "",
        *table(rows, seconds=False),
        "",
        "## The rest of the library",
        "",
        *table(more, seconds=False),
        "",
        "## Modules",
        "",
        f"{len(good)} modules import against the stand-ins, {len(bad)} do not:",
        "",
        "| why | modules |",
        "| --- | --- |",
    ]
    reasons: dict[str, list[str]] = {}
    for name, why in bad.items():
        reasons.setdefault(why, []).append(name)
    lines += [f"| {why} | {', '.join(f'`{name}`' for name in names)} |" for why, names in reasons.items()]
    return "\n".join(lines) + "\n"


# -- mutations -------------------------------------------------------------------------------------------------------


def without(trace: Trace, opcode: str, number: int) -> Trace:
    """The trace without the k-th barrier or exchange of every core."""
    changed = copy.copy(trace)
    changed.recorders = [_without(recorder, opcode, number) for recorder in trace.recorders]
    return changed


def _without(recorder: Recorder, opcode: str, number: int) -> Recorder:
    rows = [at for at, record in enumerate(recorder.records) if record.opcode == opcode]
    changed = copy.copy(recorder)
    gone = recorder.records[rows[number]]
    # Something that does nothing stands in its place, so that the others keep their names.
    nothing = Record("nki.nothing", gone.engine, (), (), (), gone.place)
    changed.records = [nothing if at == rows[number] else record for at, record in enumerate(recorder.records)]
    return changed


def mutations(case: Case) -> Iterator[tuple[str, str]]:
    """(what was taken away, what the check says to it) for every meeting of a kernel."""
    trace = case.trace()
    if trace.failed:
        return
    before = check_trace(trace).diagnostics
    known = {key(each) for each in before}
    useless = [each for each in before if each.code in ("redundant-barrier", "adjacent-barriers")]
    silent = {label.span.line for each in useless for label in each.labels if label.span is not None}
    for opcode in ("core_barrier", "sendrecv"):
        places = [record.place[1] for record in trace.recorders[0].records if record.opcode == opcode]
        for number, line in enumerate(places):
            try:
                after = check_trace(without(trace, opcode, number)).diagnostics
            except HauloutError as error:
                after = list(error.diagnostics)
            new = [each for each in after if each.severity > Severity.NOTE and key(each) not in known]
            said = "finding" if new else "said to order nothing" if line in silent else "nothing said"
            yield f"{opcode} {number}", said


def key(finding: Diagnostic) -> tuple[str, ...]:
    """What tells findings apart, whatever their places are."""
    return finding.code, finding.message, *finding.notes


# -- main ------------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("write", "mutations", "large"):
        parser.add_argument(f"--{option}", action="store_true")
    chosen = parser.parse_args(arguments)
    if library_folder() is None:
        print(f"{VARIABLE} names no checkout of nki-library", file=sys.stderr)
        return 2
    if chosen.mutations:
        total: Counter[str] = Counter()
        for case in (*TWELVE, *MORE):
            said = Counter(says for _, says in mutations(case))
            total += said
            if said:
                print(f"{case.name}: {dict(said)}")
        print(dict(total))
        return 0
    if chosen.large:
        for case in LARGE:
            run(case)
            row = run(case)
            count = row.trace.instructions
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{case.name}: {count} instructions, traced {count / row.trace_seconds:.0f}/s, "
                f"checked {count / row.check_seconds:.0f}/s, peak {peak:.0f} MiB"
            )
        return 0
    rows, more = [run(case) for case in TWELVE], [run(case) for case in MORE]
    if chosen.write:
        write_text(ROOT / "docs" / "nki-coverage.md", page(rows, more))
    else:
        print("\n".join(table([*rows, *more], seconds=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
