"""Kernels without one barrier or exchange each: what `check` says, and what `simulate --schedule all` says.

    HAULOUT_NKI_LIBRARY=CHECKOUT python tools/nki_mutants.py [NAME ...]    # a table; without a checkout, the examples

Every kernel of `nki_numbers.py` and every example that has such meetings is judged whole, then without each of them
in turn, on all cores.

    check       reports something else than for the whole kernel, more than a note
    schedule    so does the comparison of schedules, or a run does not come to its end
    values      the returned arrays of the run in program order are others
    neither     nothing changes; `useless` are those of them of which `check` says that they order no accesses
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.nki_cases import library_folder  # noqa: E402
from tools.nki_coverage import key, without  # noqa: E402
from tools.nki_numbers import NUMBERS  # noqa: E402

from haulout.frontends.nki import Trace, trace_of  # noqa: E402
from haulout.nki.kernel_check import check_trace  # noqa: E402
from haulout.nki.kernel_simulation import simulate_trace  # noqa: E402
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity  # noqa: E402

MEETINGS = ("core_barrier", "sendrecv")
EXAMPLES: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
    "two_core_sum": {"x": ("f32", (256, 512))},
    "two_rounds": {"x": ("f32", (2, 128, 64))},
    "split_qkv": {"x": ("bf16", (512, 256)), "weights": ("bf16", (256, 384))},
    "fused_mlp": {
        "x": ("bf16", (4, 1024)),
        "residual": ("bf16", (4, 1024)),
        "gate_w": ("bf16", (1024, 512)),
        "up_w": ("bf16", (1024, 512)),
        "down_w": ("bf16", (512, 1024)),
    },
}
"""Examples with meetings, and their arguments."""


class Verdict(NamedTuple):
    """What changes without one meeting."""

    meeting: str
    check: bool
    schedule: bool
    values: bool
    useless: bool
    """`check` says of the whole kernel that the meeting orders no accesses."""

    @property
    def neither(self) -> bool:
        """Nothing changes."""
        return not (self.check or self.schedule or self.values)


@dataclass(frozen=True)
class _Judged:
    """What both judges say of one trace."""

    check: frozenset[tuple[str, ...]]
    schedule: frozenset[tuple[str, ...]]
    values: tuple[bytes, ...] | None
    """None: the run does not come to its end."""
    useless: frozenset[int]
    """Lines of meetings that order nothing."""


def _judge(trace: Trace) -> _Judged:
    try:
        checked: Sequence[Diagnostic] = check_trace(trace).diagnostics
    except HauloutError as error:
        checked = error.diagnostics
    lines = (
        label.span.line
        for each in checked
        if each.code in ("redundant-barrier", "adjacent-barriers")
        for label in each.labels
        if label.span is not None
    )
    try:
        found = simulate_trace(trace, schedule="all")
    except HauloutError as error:
        return _Judged(_serious(checked), _serious(error.diagnostics), None, frozenset(lines))
    values = tuple(np.ascontiguousarray(each).tobytes() for each in found.returned)
    return _Judged(_serious(checked), _serious(found.diagnostics), values, frozenset(lines))


def _serious(found: Sequence[Diagnostic]) -> frozenset[tuple[str, ...]]:
    return frozenset(key(each) for each in found if each.severity > Severity.NOTE)


def mutants(trace: Trace) -> Iterator[Verdict]:
    """A verdict for each barrier and exchange of a kernel."""
    whole: _Judged | None = None
    for opcode in MEETINGS:
        places = [record.place[1] for record in trace.recorders[0].records if record.opcode == opcode]
        for number, line in enumerate(places):
            whole = whole or _judge(trace)
            mutant = _judge(without(trace, opcode, number))
            yield Verdict(
                f"{opcode} {number} of line {line}",
                bool(mutant.check - whole.check),
                bool(mutant.schedule - whole.schedule) or (mutant.values is None) > (whole.values is None),
                mutant.values is not None and mutant.values != whole.values,
                line in whole.useless,
            )


def example(name: str) -> Trace:
    """The trace of an example on drawn numbers."""
    import ml_dtypes

    random = np.random.default_rng(0)
    types = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
    given = {
        argument: (random.standard_normal(shape) / 8).astype(types[dtype])
        for argument, (dtype, shape) in EXAMPLES[name].items()
    }
    return trace_of(f"{ROOT / 'examples' / 'nki' / name}.py::{name}", given, lnc=2)


def kernels() -> Iterator[tuple[str, Callable[[], Trace]]]:
    """All kernels by name; those without meetings, too."""
    for name in EXAMPLES:
        yield name, lambda name=name: example(name)  # type: ignore[misc]
    if library_folder() is not None:
        for each in NUMBERS:
            yield each.title, lambda each=each: each.trace(each.given())  # type: ignore[misc]


def row(name: str, cells: Sequence[Any]) -> str:
    """A row of the table."""
    return f"| {' | '.join(str(each) for each in (name, *cells))} |"


def main() -> int:
    """Print the table, and each mutant that nothing catches and nothing excuses."""
    wanted = sys.argv[1:]
    head = ("mutants", "check", "schedule", "values", "simulate", "either", "neither", "of these useless")
    print(row("kernel", head))
    print(row("---", ["---"] * len(head)))
    total, silent, count = [0] * len(head), [], 0
    for name, trace in kernels():
        if wanted and not any(word in name for word in wanted):
            continue
        verdicts = list(mutants(trace()))
        if not verdicts:
            continue
        numbers = [
            len(verdicts),
            sum(each.check for each in verdicts),
            sum(each.schedule for each in verdicts),
            sum(each.values for each in verdicts),
            sum(each.schedule or each.values for each in verdicts),
            sum(not each.neither for each in verdicts),
            sum(each.neither for each in verdicts),
            sum(each.neither and each.useless for each in verdicts),
        ]
        print(row(name, numbers), flush=True)
        total, count = [one + other for one, other in zip(total, numbers, strict=True)], count + 1
        silent += [f"{name}: {each.meeting}" for each in verdicts if each.neither and not each.useless]
    print(row(f"{count} kernels", total))
    print("\n".join(silent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
