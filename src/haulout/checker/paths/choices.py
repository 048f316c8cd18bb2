"""The choices of a function as a tree, and the paths that they make.

A *node* is one choice: at a header of a loop whose trip count is unknown, or at a fork, in given iterations of the
loops around. Each of its options has the nodes that are reached when it is chosen; loops of known trip count are
unrolled. At a divergent fork every core chooses for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from haulout.checker.paths.runs import Choice, Path
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE
from haulout.ir.schema import Column
from haulout.ir.structure import Fork, Loop, Structure

Paths = list[dict[Choice, int]]


class Option(NamedTuple):
    """One value of a choice."""

    value: int
    """Iterations, or the arm."""
    nodes: tuple[Node, ...]
    """What is chosen inside."""


@dataclass(frozen=True, slots=True)
class Node:
    """A choice, or one for each core."""

    block: int
    around: tuple[int, ...]
    options: tuple[Option, ...]
    """That in which more runs first."""
    is_divergent: bool

    def keys(self, mask: int) -> list[Choice]:
        """The choices of the cores that reach it."""
        cores = bits(mask) if self.is_divergent else [NONE]
        return [(self.block, self.around, core) for core in cores]


def bits(mask: int) -> list[int]:
    """The cores of a mask."""
    return [core for core in range(mask.bit_length()) if mask >> core & 1]


def find_nodes(structure: Structure, copies: Mapping[int, Copies]) -> tuple[Node, ...]:
    """The nodes that are reached whatever is chosen, in order."""

    def sequence(blocks: range, around: tuple[int, ...]) -> Iterator[Node]:
        for item in structure.items(blocks.start, blocks.stop):
            if isinstance(item, Loop):
                yield from loop_nodes(item, around)
            elif isinstance(item, Fork):
                arms = (Option(arm, tuple(sequence(each, around))) for arm, each in enumerate(item.sides))
                yield Node(item.block, around, tuple(arms), item.divergent)

    def loop_nodes(loop: Loop, around: tuple[int, ...]) -> Iterator[Node]:
        chosen = copies[loop.header]
        iterations = [tuple(sequence(loop.body, (*around, at))) for at in range(chosen.count)]
        if loop.trip != NONE:
            yield from (node for nodes in iterations for node in nodes)
            return
        counts = dict.fromkeys([chosen.count, *range(1, chosen.ends + 1), 0])
        options = (Option(count, tuple(node for nodes in iterations[:count] for node in nodes)) for count in counts)
        yield Node(loop.header, around, tuple(options), False)

    return tuple(sequence(structure.functions[0], ()))


def count_paths(structure: Structure, copies: Mapping[int, Copies], cores: int) -> float:
    """How many paths there are, exact up to 2**53; it may be infinite."""
    with np.errstate(over="ignore"):
        ways = np.array([1.0, *np.cumprod(np.arange(1.0, cores + 1))])  # factorials; infinite above 170

    # Values are vectors: of 0, 1, ... cores that come here, how many paths those have.
    def loop(loop: Loop, header: Column, body: Column) -> Column:
        chosen = copies[loop.header]
        counts = [chosen.count] if loop.trip != NONE else {chosen.count, *range(1, chosen.ends + 1), 0}
        return np.where(np.arange(cores + 1) > 0, sum(body**count for count in counts), 1.0)

    def fork(fork: Fork, arms: list[Column]) -> Column:
        one, other = [*arms, np.ones(cores + 1)][:2]
        if not fork.divergent:
            return np.where(np.arange(cores + 1) > 0, one + other, 1.0)
        # Any of the cores to the one side, the others to the other.
        found: Column = np.rint(np.convolve(one / ways, other / ways)[: cores + 1] * ways)
        return found

    def sequence(values: list[Column]) -> Column:
        found: Column = np.prod([np.ones(cores + 1), *values], axis=0)
        return found

    with np.errstate(over="ignore", invalid="ignore"):
        found = structure.fold(lambda block: np.ones(cores + 1), sequence, loop, fork).functions[0]
    return float(np.nan_to_num(found[cores], nan=np.inf))


def all_paths(nodes: Sequence[Node], mask: int) -> Paths:
    """Every path through nodes, for the cores of a mask; the one on which most runs first."""
    paths: Paths = [{}]
    for node in nodes:
        options: Paths = []
        keys = node.keys(mask)
        for values in product([option.value for option in node.options], repeat=len(keys)):
            choice = dict(zip(keys, values, strict=True))
            inner: Paths = [choice]
            for part, inside in _reached(node, choice, mask):
                inner = [{**one, **other} for one in inner for other in all_paths(inside, part)]
            options += inner
        paths = [{**one, **other} for one in paths for other in options]
    return paths


def _reached(node: Node, choice: Path, mask: int) -> Iterator[tuple[int, tuple[Node, ...]]]:
    """The nodes inside what is chosen at a node, and the cores that reach them."""
    for option in node.options:
        chosen = [key for key in node.keys(mask) if choice[key] == option.value]
        if chosen:
            yield sum(1 << key[2] for key in chosen) if node.is_divergent else mask, option.nodes


def covering_paths(nodes: Sequence[Node], mask: int, limit: int) -> Paths:
    """Few paths, up to `limit`, that take every option of every node, as far as they do."""
    paths: Paths = [first_path(nodes, mask)]

    def cover(some: Sequence[Node], cores: int, path: dict[Choice, int]) -> None:
        for node in some:
            for option in node.options:
                for key in node.keys(cores):
                    there = {**path, key: option.value}
                    for row in paths:
                        if all(row.get(choice, value) == value for choice, value in there.items()):
                            row.update(there)
                            break
                    else:
                        if len(paths) < limit:
                            paths.append(dict(there))
                    cover(option.nodes, cores if key[2] == NONE else 1 << key[2], there)

    cover(nodes, mask, {})
    return paths


def first_path(nodes: Sequence[Node], mask: int) -> dict[Choice, int]:
    """The path on which all loops run and all forks take their first arm."""
    found: dict[Choice, int] = {}
    for node in nodes:
        value, inside = node.options[0]
        found.update(dict.fromkeys(node.keys(mask), value))
        found.update(first_path(inside, mask))
    return found
