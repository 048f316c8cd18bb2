"""Judges of order that share no code with the checker; each uses a method of its own.

    reachability    the transitive closure of events, and single bytes
    exhaustive      every state that the queues can reach
    spin            the same in Promela, by an external model checker; needs `spin` and `gcc`
    threads         one thread a queue under the thread sanitizer of gcc; needs `gcc`
    schedules       the list order, then each queue as the slowest in turn
    simulator       the same by the simulator and its shadow memory

All take a program, write its loops out (`straight.py`) and return a `Verdict`: clean, race or hang, or unjudged where
a program is too large for them. `checked.py` compares a verdict with the findings of the checker.
"""

from __future__ import annotations

from collections.abc import Callable

from haulout.ir.program import Program
from haulout_judges import exhaustive, reachability, schedules, simulator, spin, threads
from haulout_judges.verdict import Outcome, Verdict

Judge = Callable[[Program], Verdict]

JUDGES: dict[str, Judge] = {
    "reachability": reachability.judge,
    "exhaustive": exhaustive.judge,
    "schedules": schedules.judge,
    "simulator": simulator.judge,
    "spin": spin.judge,
    "threads": threads.judge,
}
"""By name, the quickest first."""

__all__ = ["JUDGES", "Judge", "Outcome", "Verdict"]
