"""Copies that happen at once, as copies one after another.

The state of a loop is replaced as a whole: the new values may be the old ones in another order. A copy may go ahead
when no other copy still has to read what it overwrites. Once none can, what is left are circles, such as an exchange
of two; each is opened by saving one value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def in_sequence(copies: Iterable[tuple[T, T]], save: Callable[[T], T]) -> list[tuple[T, T]]:
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
