"""The choices of a function as a tree, and the paths that they make.

A *node* is one choice: at a header of a loop whose trip count is unknown, or at a fork, in given iterations of the
loops around. Each of its options has the nodes that are reached when it is chosen; loops of known trip count are
unrolled. At a divergent fork every core chooses for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from haulout.checker.paths.runs import SKIP, Choice, Path
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE
from haulout.ir.structure import Fork, Loop, Structure

Paths = list[dict[Choice, int]]


class Option(NamedTuple):
    """One value of a choice."""

    value: int
    """Iterations, or the arm."""
    blocks: range
    """What runs then."""
    nodes: tuple[Node, ...]
    """What is chosen inside."""


@dataclass(frozen=True, slots=True)
class Node:
    """A choice, or one for each core."""

    block: int
    around: tuple[int, ...]
    options: tuple[Option, ...]
    """That in which more runs first."""
    inside: range
    """Blocks that run or do not."""
    is_loop: bool
    is_divergent: bool
    can_skip: bool
    """Some option runs nothing."""

    def keys(self, mask: int) -> list[Choice]:
        """The choices of the cores that reach it."""
        cores = bits(mask) if self.is_divergent else [NONE]
        return [(self.block, self.around, core) for core in cores]


@dataclass(frozen=True, slots=True)
class GuardedBlocks:
    """The blocks directly in a region of a run, and the choices that lead to it."""

    path: dict[Choice, int]
    blocks: tuple[int, ...]


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
                arms = [Option(arm, each, tuple(sequence(each, around))) for arm, each in enumerate(item.sides)]
                inside, lone = range(item.block + 1, item.join), len(item.arms) == 1
                yield Node(item.block, around, tuple(arms), inside, False, item.divergent, lone)

    def loop_nodes(loop: Loop, around: tuple[int, ...]) -> Iterator[Node]:
        chosen = copies[loop.header]
        iterations = [tuple(sequence(loop.body, (*around, at))) for at in range(chosen.count)]
        if loop.trip != NONE:
            yield from (node for nodes in iterations for node in nodes)
            return
        inside = range(loop.begin, loop.end)
        counts = dict.fromkeys([chosen.count, *range(1, chosen.ends + 1), 0])
        options = [
            Option(
                count, inside if count else range(0), tuple(node for nodes in iterations[:count] for node in nodes)
            )
            for count in counts
        ]
        yield Node(loop.header, around, tuple(options), inside, True, False, True)

    return tuple(sequence(structure.functions[0], ()))


def count_paths(nodes: Sequence[Node], mask: int) -> int:
    """How many paths there are through nodes, for the cores of a mask."""
    total = 1
    for node in nodes:
        inner = [count_paths(option.nodes, mask) for option in node.options]
        cores = mask.bit_count() if node.is_divergent else 1
        # All cores in one arm, or some in each.
        total *= sum(inner) + (2**cores - 2) * inner[0] * inner[-1] if cores > 1 else sum(inner)
    return total


def all_paths(nodes: Sequence[Node], mask: int, limit: int, wanted: Callable[[Node], int]) -> Paths | None:
    """Every path through nodes, for the cores of a mask; None when they are more than `limit`.

    `wanted` says whose choices at a node matter, a bit a core; those of others stay open.
    """
    paths: Paths = [{}]
    for node in nodes:
        asked = wanted(node) & mask
        if not asked:
            continue
        options: Paths = []
        for picked in _picks(node, asked if node.is_divergent else mask, node.options, limit):
            if picked is None:
                return None
            choice, inside = picked
            inner: Paths = [choice]
            for part, nodes_inside in inside:
                combined = _combined(inner, all_paths(nodes_inside, part, limit, wanted), limit)
                if combined is None:
                    return None
                inner = combined
            options += inner
        both = _combined(paths, options, limit)
        if both is None:
            return None
        paths = both
    return paths


def _combined(paths: Paths, others: Paths | None, limit: int) -> Paths | None:
    """Each path with each of the others; None: more than `limit`, or the others are too many already."""
    if others is None or len(paths) * len(others) > limit:
        return None
    return [{**one, **other} for one in paths for other in others]


_Inside = list[tuple[int, tuple[Node, ...]]]


def _picks(
    node: Node, mask: int, options: Sequence[Option], limit: int
) -> Iterator[tuple[dict[Choice, int], _Inside] | None]:
    """Each choice of some options at a node, with the nodes inside and the cores that reach them; None: too many."""
    if not node.is_divergent:
        for option in options:
            yield {(node.block, node.around, NONE): option.value}, [(mask, option.nodes)]
        return
    keys = node.keys(mask)
    if len(options) ** len(keys) > limit:
        yield None
        return
    for arms in product([option.value for option in options], repeat=len(keys)):
        choice = dict(zip(keys, arms, strict=True))
        yield choice, _reached(node, choice, mask)


def avoiding(
    nodes: Sequence[Node], mask: int, path: Path, writes: Callable[[range], bool], limit: int
) -> Paths | None:
    """A path, completed so that blocks for which `writes` holds do not run where that can be avoided; every
    completion where it cannot. None: more than `limit`.
    """
    paths: Paths = [dict(path)]
    for node in nodes:
        if not writes(node.inside) and not any(key in path for key in node.keys(mask)):
            continue
        free = [option for option in node.options if not writes(option.blocks)]
        options: Paths = []
        known: set[tuple[int, ...]] = set()
        for picked in _picks(node, mask, free[-1:] or node.options, limit):
            if picked is None:
                return None
            choice = {key: path.get(key, value) for key, value in picked[0].items()}
            if tuple(choice.values()) in known:
                continue
            known.add(tuple(choice.values()))
            inner: Paths = [choice]
            for part, inside in _reached(node, choice, mask):
                combined = _combined(inner, avoiding(inside, part, path, writes, limit), limit)
                if combined is None:
                    return None
                inner = combined
            options += inner
        both = _combined(paths, options, limit)
        if both is None:
            return None
        paths = both
    return paths


def _reached(node: Node, choice: Path, mask: int) -> _Inside:
    """The nodes inside what is chosen at a node, and the cores that reach them."""
    found: _Inside = []
    for option in node.options:
        part = mask
        if node.is_divergent:
            part = sum(1 << key[2] for key in node.keys(mask) if choice[key] == option.value)
        elif choice[node.keys(mask)[0]] != option.value:
            part = 0
        if part:
            found.append((part, option.nodes))
    return found


def on_cores(path: Path, cores: Sequence[int]) -> dict[Choice, int]:
    """The choices of one core, made by all of some cores."""
    found: dict[Choice, int] = {}
    for (block, around, core), value in path.items():
        for each in cores if core != NONE else (NONE,):
            found[block, around, each] = value
    return found


def find_guarded(structure: Structure, nodes: Sequence[Node], mask: int) -> list[GuardedBlocks]:
    """Every region that nodes lead to, each with only the choices that lead there."""
    found: list[GuardedBlocks] = []

    def visit(some: Sequence[Node], cores: int, path: dict[Choice, int]) -> None:
        for node in some:
            for option in node.options:
                blocks: tuple[int, ...] = ()
                if option.blocks and node.is_loop:
                    blocks = (node.block, *_direct(structure, option.blocks[1:]))
                elif option.blocks:
                    blocks = tuple(_direct(structure, option.blocks))
                for key in node.keys(cores):
                    there = {**path, key: option.value}
                    found.append(GuardedBlocks(there, blocks))
                    visit(option.nodes, cores if key[2] == NONE else 1 << key[2], there)

    visit(nodes, mask, {})
    return found


def _direct(structure: Structure, blocks: range) -> Iterator[int]:
    """Those blocks of a region that no choice inside the region guards. A header runs at least once."""
    for item in structure.items(blocks.start, blocks.stop):
        if isinstance(item, Loop):
            yield item.header
            yield from _direct(structure, item.body) if item.trip != NONE else ()
        elif not isinstance(item, Fork):
            yield item


def filled(nodes: Sequence[Node], mask: int, path: Path) -> dict[Choice, int]:
    """A path, with its open choices made so that nothing more runs: no iteration, neither arm."""
    whole = dict(path)
    for node in nodes:
        least = 0 if node.is_loop else 1 if node.can_skip else SKIP
        for key in node.keys(mask):
            whole.setdefault(key, least)
        for part, inside in _reached(node, whole, mask):
            whole = filled(inside, part, whole)
    return whole


def first_path(nodes: Sequence[Node], mask: int) -> dict[Choice, int]:
    """The path on which all loops run and all forks take their first arm."""
    found: dict[Choice, int] = {}
    for node in nodes:
        value, _, inside = node.options[0]
        found.update(dict.fromkeys(node.keys(mask), value))
        found.update(first_path(inside, mask))
    return found
