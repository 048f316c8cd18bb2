"""Priorities for construction: which of the rows that fit a valley goes first.

Each key is a guess at which rows are hard to place later; none is best on every instance. All are ranks in [0, 1), so
that blame (see `squeaky_wheel`) can be added on one scale; ties are broken by row. Keys are tried in this order.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.instance import F64, Instance
from haulout.packing.problem import I64

KEYS = ("area", "duration", "span", "load-duration", "load-area", "load-size", "size", "span-duration")


def key(instance: Instance, name: str) -> F64:
    """One of `KEYS`: per row, greater goes first."""
    size = instance.size.astype(np.float64)
    span = (instance.last - instance.first).astype(np.float64)
    duration = instance.duration
    match name:
        case "area":
            return rank(duration * size)
        case "duration":
            return rank(duration + 0.5 * size / size.max())
        case "span":
            return rank(span + 0.5 * size / size.max())
        case "span-duration":
            return rank(span + 0.5 * duration / duration.max())
        case "size":
            return rank(size, duration)
        case "load-area":
            return rank(_busiest(instance), duration * size)
        case "load-duration":
            return rank(_busiest(instance), duration, size)
        case "load-size":
            return rank(_busiest(instance), size, duration)
    raise AssertionError(name)


def rank(*columns: F64) -> F64:
    """Position of each row in ascending order of the columns, the first one first, over the number of rows."""
    order = np.argsort(columns[0], kind="stable") if len(columns) == 1 else np.lexsort(columns[::-1])
    position = np.empty(len(order), np.float64)
    position[order] = np.arange(len(order)) / max(len(order), 1)
    return position


def _busiest(instance: Instance) -> F64:
    """Per row, the greatest load of its columns: a table of maxima over powers of two (sparse table)."""
    span: I64 = instance.last - instance.first
    level = np.frexp(span.astype(np.float64))[1] - 1
    busiest = np.zeros(len(instance), np.int64)
    table, width = instance.load, 1
    for k in range(int(level.max(initial=-1)) + 1):
        rows = np.flatnonzero(level == k)
        busiest[rows] = np.maximum(table[instance.first[rows]], table[instance.last[rows] - width])
        table, width = np.maximum(table[:-width], table[width:]), 2 * width
    return busiest.astype(np.float64)
