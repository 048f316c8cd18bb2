"""Other planners on the same problems, where they are installed: CP-SAT of OR-tools, the hill climb of Arm's Vela.

Each peer is a function from a problem to the end of its placement in bytes, or None when it gave up or is not for
such a problem; `AVAILABLE` holds those that can be imported. XLA's best fit is our own writing of it, in the library.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from haulout.packing import Problem
from haulout.packing.best_fit import best_fit, xla_orders
from haulout.packing.instance import canonical

Peer = Callable[[Problem, int | None, float], int | None]


def xla(problem: Problem, capacity: int | None, limit: float) -> int | None:
    """XLA's global decreasing size best fit heap, the better of its two orders."""
    instance = canonical(problem)
    return min(best_fit(instance, order)[1] for order in xla_orders(instance)) * instance.unit


def cp_sat(problem: Problem, capacity: int | None, limit: float) -> int | None:
    """Rectangles that do not overlap, one worker: with a capacity any placement, else the least end found in time."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    instance = canonical(problem)
    most = capacity // instance.unit if capacity is not None else 2 * instance.bound
    peak = model.new_int_var(instance.bound, most, "peak")
    times, spans = [], []
    for row in range(len(instance)):
        size = int(instance.size[row])
        at = model.new_int_var(0, most - size, "")
        model.add(at + size <= peak)
        first, last = int(instance.first[row]), int(instance.last[row])
        times.append(model.new_fixed_size_interval_var(first, last - first, ""))
        spans.append(model.new_fixed_size_interval_var(at, size, ""))
    model.add_no_overlap_2d(times, spans)
    if capacity is None:
        model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.num_workers = 1
    found = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return int(solver.value(peak)) * instance.unit if found else None


@dataclass
class _Life:
    """What Vela's allocator asks of a live range; its end is inclusive."""

    start_time: int
    end_time: int
    size: int
    alignment: int

    def get_alignment(self) -> int:
        return self.alignment


def vela(problem: Problem, capacity: int | None, limit: float) -> int | None:
    """The hill climb of Vela, 300 iterations: it knows no time limit. Small problems without alignments only."""
    from ethosu.vela.hillclimb_allocation import allocate_live_ranges

    instance = canonical(problem)
    if instance.has_holes or len(instance) > 500 or (instance.alignment > 1).any():
        return None
    columns = (instance.first, instance.last, instance.size)
    lives = [_Life(lo, up - 1, size, 1) for lo, up, size in zip(*(c.tolist() for c in columns), strict=True)]
    offsets = allocate_live_ranges(lives, 300, instance.bound)
    return max(at + life.size for at, life in zip(offsets, lives, strict=True)) * instance.unit


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


AVAILABLE: dict[str, Peer] = {
    "XLA best fit": xla,
    **({"CP-SAT": cp_sat} if _installed("ortools.sat") else {}),
    **({"Vela hill climb": vela} if _installed("ethosu.vela") else {}),
}
