"""Judges of order that share no code with the checker, each by a way of its own.

    reachability    the transitive closure of events, and single bytes
    exhaustive      every state that queues can come to
    spin            the same in Promela, by a model checker of others; needs `spin` and `gcc`
    threads         one thread a queue under gcc's thread sanitizer; needs `gcc`
    schedules       the simulator with each queue as the slowest in turn

All take a program, write its loops out (`straight.py`) and give a `Verdict`: clean, race or hang, or none where a
program is too large for them. `checked.py` holds one against the checker's findings.
"""

from __future__ import annotations

from collections.abc import Callable

from haulout.ir.program import Program
from haulout_judges import exhaustive, reachability, schedules, spin, threads
from haulout_judges.verdict import Outcome, Verdict

Judge = Callable[[Program], Verdict]

JUDGES: dict[str, Judge] = {
    "reachability": reachability.judge,
    "exhaustive": exhaustive.judge,
    "schedules": schedules.judge,
    "spin": spin.judge,
    "threads": threads.judge,
}
"""By name, the quickest first."""

__all__ = ["JUDGES", "Judge", "Outcome", "Verdict"]
