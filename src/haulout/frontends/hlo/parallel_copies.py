"""Sequentialization of parallel copies.

A loop replaces its state as a whole: the new values may be a permutation of the old ones. A copy can be emitted when
no other copy still has to read its target. The rest are cycles, such as a swap of two; saving one value breaks each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def sequentialize(copies: Iterable[tuple[T, T]], save: Callable[[T], T]) -> list[tuple[T, T]]:
    """Copies (source, target) in an order in which each source still has its old value; targets are distinct.

    `save` gives a place for the value of another one. Copies of a place to itself are left out.
    """
    waiting = {target: source for source, target in copies if source is not target}
    readers = Counter(waiting.values())
    ready = deque(target for target in waiting if not readers[target])
    ordered: list[tuple[T, T]] = []
    while ready:
        target = ready.popleft()
        source = waiting.pop(target)
        ordered.append((source, target))
        readers[source] -= 1
        if not readers[source] and source in waiting:
            ready.append(source)
    while waiting:
        first = next(iter(waiting))
        saved = save(first)
        ordered.append((first, saved))
        target = first
        while (source := waiting.pop(target)) is not first:
            ordered.append((source, target))
            target = source
        ordered.append((saved, target))
    return ordered
