"""Constraints between buffers, and the pools. All of them are optional.

    aliases     groups of buffers that are one storage: one offset and pool, live when any of them is
    in_place    (input, output): the output may take over the storage of an input that dies at the moment at which the
                output is born. If their offsets are equal, that moment is no conflict
    symmetric   groups of buffers, one a pool, that get equal offsets
    pools       partitions or banks, each an address space of its own, perhaps with a capacity and a segment
    allowed     the pools that each buffer may be in, the preferred one first; empty: all pools, in order

The moment of an in-place pair: with half-open ranges, an operation at time t that reads x and writes y has x live
until t + 1 and y from t on. Input and output must be live together at that moment only; otherwise the pair has no
effect. Each input is taken over once, and each output takes over one input.

A pool with a *segment* is memory that is contiguous in stretches of so many bytes: no buffer crosses a multiple of
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from haulout.support.diagnostics import bad_input
from haulout.support.shown import shown


@dataclass(frozen=True, slots=True)
class Pool:
    """One address space. `capacity`, `segment`: bytes, None when unlimited."""

    name: str = "memory"
    capacity: int | None = None
    segment: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """Constraints as plain tuples of buffer numbers; `check` validates them."""

    aliases: tuple[tuple[int, ...], ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    symmetric: tuple[tuple[int, ...], ...] = ()
    pools: tuple[Pool, ...] = (Pool(),)
    allowed: tuple[tuple[int, ...], ...] = ()

    @property
    def trivial(self) -> bool:
        """Whether the columns of the problem are the only constraints."""
        tied = self.aliases or self.in_place or self.symmetric
        return not tied and len(self.pools) == 1 and self.pools[0].segment is None

    def pools_of(self, buffer: int) -> tuple[int, ...]:
        """The pools that a buffer may be in, the preferred one first."""
        given = self.allowed[buffer] if self.allowed else ()
        return given or tuple(range(len(self.pools)))

    def check(self, buffers: int) -> None:
        """Every number names a buffer or pool, no buffer is in two groups of a kind. Raises `bad-input`."""
        if not self.pools:
            bad_input("`pools` is empty")
        for pool in self.pools:
            for what, value in (("capacity", pool.capacity), ("segment", pool.segment)):
                check_bytes(f"pool {pool.name}: {what}", value)
            if pool.segment == 0:
                bad_input(f"pool {pool.name}: segment is 0, expected at least one byte")
        if self.allowed and len(self.allowed) != buffers:
            bad_input(f"`allowed` has {len(self.allowed)} rows, expected {buffers}")
        for buffer, pools in enumerate(self.allowed):
            _in_range(f"`allowed`, buffer {buffer}", "pool", pools, len(self.pools))
            if len(set(pools)) != len(pools):
                bad_input(f"`allowed`, buffer {buffer}: a pool is given twice")
        for pair in self.in_place:
            if len(pair) != 2:
                bad_input(f"`in_place`: expected (input, output), found {pair}")
            _in_range("`in_place`", "buffer", pair, buffers)
        for name, groups in (("aliases", self.aliases), ("symmetric", self.symmetric)):
            seen: set[int] = set()
            for group in groups:
                _in_range(f"`{name}`", "buffer", group, buffers)
                for buffer in group:
                    if buffer in seen:
                        bad_input(f"`{name}`: buffer {buffer} is given twice")
                    seen.add(buffer)
                if name == "symmetric" and len(group) > len(self.pools):
                    bad_input(
                        f"`symmetric`: a group of {len(group)} buffers needs as many pools, found {len(self.pools)}"
                    )


def check_bytes(what: str, value: int | None) -> None:
    """Raise `bad-input` unless the value is a number of bytes or None (no limit)."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and 0 <= value <= 2**62):
        bad_input(f"{what} is {shown(value)}, expected an integer between 0 and 2**62")


def _in_range(where: str, what: str, numbers: Iterable[int], count: int) -> None:
    for number in numbers:
        if not 0 <= number < count:
            bad_input(f"{where}: unknown {what} {number}")
