"""Partitions of the cores, and how operations transfer them: which cores hold equal bytes.

A partition is a tuple: of each core the smallest core of its class. What is one class says that all cores are equal,
what is finer says less. The *meet* of two is the common refinement. Few partitions occur in a program, so meets are
remembered.

    all-reduce, all-gather      members of a group are equal; so are groups whose members' operands are, one by one
    reduce-scatter, all-to-all  members of one place in groups whose members' operands are equal, one by one
    collective-permute          targets of equal sources; all cores that are no target
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

Partition = tuple[int, ...]
"""Of each core the smallest core of its class."""
Groups = tuple[tuple[int, ...], ...]
"""Groups of a collective, or its pairs (source, target)."""


def one_class(cores: int) -> Partition:
    """All cores are equal."""
    return (0,) * cores


def alone(cores: int) -> Partition:
    """Nothing is known to be equal."""
    return tuple(range(cores))


def by_key(keys: Iterable[Hashable]) -> Partition:
    """Cores with equal keys are one class."""
    first: dict[Hashable, int] = {}
    return tuple(first.setdefault(key, core) for core, key in enumerate(keys))


def from_classes(classes: Iterable[Sequence[int]], cores: int) -> Partition:
    """The partition that lists of cores write; a core that none names is alone."""
    found = list(range(cores))
    for members in classes:
        for core in members:
            found[core] = min(members)
    return tuple(found)


def to_classes(partition: Partition) -> list[list[int]]:
    """The classes as lists of cores, by their smallest core."""
    found: dict[int, list[int]] = {}
    for core, first in enumerate(partition):
        found.setdefault(first, []).append(core)
    return list(found.values())


@lru_cache(maxsize=1 << 14)
def meet(one: Partition, other: Partition) -> Partition:
    """The common refinement."""
    if one == other or not any(other):
        return one
    return other if not any(one) else by_key(zip(one, other, strict=True))


@lru_cache(maxsize=1 << 14)
def is_finer(one: Partition, other: Partition) -> bool:
    """Whether each class of one is inside a class of the other."""
    return meet(one, other) == one


@lru_cache(maxsize=1 << 12)
def gathered(partition: Partition, groups: Groups) -> Partition:
    """Of the results of an all-reduce or an all-gather; a core that no group names is alone."""
    keys: list[Hashable] = [(NO_GROUP, core) for core in range(len(partition))]
    for members in groups:
        operands = tuple(partition[core] for core in members)
        for core in members:
            keys[core] = operands
    return by_key(keys)


@lru_cache(maxsize=1 << 12)
def scattered(partition: Partition, groups: Groups) -> Partition:
    """Of the results of a reduce-scatter or an all-to-all."""
    keys: list[Hashable] = [(NO_GROUP, core) for core in range(len(partition))]
    for members in groups:
        operands = tuple(partition[core] for core in members)
        for place, core in enumerate(members):
            keys[core] = (place, operands)
    return by_key(keys)


@lru_cache(maxsize=1 << 12)
def permuted(partition: Partition, pairs: Groups) -> Partition:
    """Of the results of a collective-permute; cores that are no target hold zeros."""
    source = {target: source for source, target in pairs}
    return by_key(partition[source[core]] if core in source else None for core in range(len(partition)))


NO_GROUP = "no group"
