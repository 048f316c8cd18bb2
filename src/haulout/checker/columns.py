"""The few relational steps that several files need, as whole columns."""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Column, Ints


def distinct(values: Column) -> Column:
    """The different values, ascending. (`numpy.unique` hashes, which is several times slower on millions of keys.)"""
    ordered = np.sort(values)
    kept: Column = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return kept


def occurrence(key: Column) -> Ints:
    """For each row, how many earlier rows have its key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(key)])
    lengths = np.diff(np.append(first, len(key)))
    count = np.empty(len(key), np.int64)
    count[order] = np.arange(len(key)) - np.repeat(first, lengths)
    return count


def stretched(begin: Column, count: Column) -> Ints:
    """The numbers `begin[i], begin[i] + 1, ...`, `count[i]` of them, for each i in turn."""
    before = np.cumsum(count) - count
    return np.repeat(begin - before, count) + np.arange(int(count.sum()))


def sorted_by(rows: Column, key: Column) -> Column:
    """The rows in the order of their keys, stably; nothing is moved when they stand so already."""
    if len(key) == 0 or bool(np.all(key[1:] >= key[:-1])):
        return rows
    return rows[np.argsort(key, kind="stable")]
