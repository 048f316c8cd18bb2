"""Relational steps on whole columns that several files need."""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Column, Ids, Ints


def distinct(values: Column) -> Column:
    """The distinct values, ascending. (`numpy.unique` hashes, which is several times slower on millions of keys.)"""
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


def grouped(key: Column, groups: int) -> tuple[Ints, Ints]:
    """Rows by key, stably: those with key k are `rows[starts[k]:starts[k + 1]]`. Returns (starts, rows)."""
    rows = np.argsort(key, kind="stable")
    return np.searchsorted(key[rows], np.arange(groups + 1)), rows


def positions(order: Column, size: int) -> Ids:
    """The position of each of `size` numbers in a list without repetitions; its length for those not in it."""
    found = np.full(size, len(order), np.int32)
    found[order] = np.arange(len(order), dtype=np.int32)
    return found


def join_ranges(begin: Column, count: Column) -> Ints:
    """The numbers `begin[i], begin[i] + 1, ...`, `count[i]` of them, for each i in turn."""
    before = np.cumsum(count) - count
    return np.repeat(begin - before, count) + np.arange(int(count.sum()))


def sorted_by(rows: Column, key: Column) -> Column:
    """The rows in the order of their keys, stably; the same array when they are in order already."""
    if len(key) == 0 or bool(np.all(key[1:] >= key[:-1])):
        return rows
    return rows[np.argsort(key, kind="stable")]
