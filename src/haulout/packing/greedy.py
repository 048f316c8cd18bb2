"""The usual greedy placement, for comparison: the largest buffer first, each at its lowest offset (first fit)."""

from __future__ import annotations

from haulout.packing.best_fit import best_fit, xla_orders
from haulout.packing.instance import canonical
from haulout.packing.problem import Problem
from haulout.packing.storages import merge


def greedy_by_size(problem: Problem) -> int:
    """The peak in bytes, in one address space; aliases are joined, in-place pairs are not taken."""
    instance = canonical(merge(problem).problem)
    _, peak = best_fit(instance, xla_orders(instance)[0], tight=False)
    return peak * instance.unit
