"""The choices of a function as a tree, and ways to make them.

A *node* is a place where a choice is made: a header of a loop whose trip count is unknown, or a fork, in given
iterations of the loops around. For each value that may be chosen it lists the nodes that are met then; loops that run
a known number of times are unfolded. At a divergent fork every core chooses for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from haulout.checker.paths.loops import Nest
from haulout.checker.paths.runs import SKIP, Choice
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE


@dataclass(frozen=True, slots=True)
class Node:
    """A choice, or one for each core."""

    block: int
    around: tuple[int, ...]
    options: tuple[tuple[int, tuple[Node, ...]], ...]
    """What may be chosen, that in which more runs first, and the nodes inside."""
    inside: range
    """Blocks that run or do not."""
    is_loop: bool
    is_divergent: bool
    can_skip: bool
    """Some option runs nothing."""

    def keys(self, mask: int) -> list[Choice]:
        """The choices of the cores that come here."""
        cores = bits(mask) if self.is_divergent else [NONE]
        return [(self.block, self.around, core) for core in cores]


@dataclass(frozen=True, slots=True)
class Place:
    """A region of a run: the choices that lead to it, and the blocks that stand directly in it."""

    way: dict[Choice, int]
    blocks: tuple[int, ...]


def bits(mask: int) -> list[int]:
    """The cores of a mask."""
    return [core for core in range(mask.bit_length()) if mask >> core & 1]


def find_nodes(nest: Nest, copies: Sequence[Copies]) -> tuple[Node, ...]:
    """The nodes that are met whatever is chosen, in order."""

    def sequence(blocks: range, around: tuple[int, ...]) -> tuple[Node, ...]:
        found: list[Node] = []
        at = blocks.start
        while at < blocks.stop:
            if at in nest.headers:
                found += loop(nest.headers[at], around)
                at = nest.loops[nest.headers[at]].end
            elif at in nest.forking:
                fork = nest.forks[nest.forking[at]]
                options = tuple((arm, sequence(each, around)) for arm, each in enumerate(fork.arms))
                inside, lone = range(at + 1, fork.join), len(fork.arms[1]) == 0
                found.append(Node(at, around, options, inside, False, fork.divergent, lone))
                at = fork.join
            else:
                at += 1
        return tuple(found)

    def loop(number: int, around: tuple[int, ...]) -> list[Node]:
        each = nest.loops[number]
        body = range(each.header + 1, each.end)
        turns = [sequence(body, (*around, turn)) for turn in range(copies[number].count)]
        if each.trip != NONE:
            return [node for turn in turns for node in turn]
        counts = list(dict.fromkeys([copies[number].count, *range(1, copies[number].ends + 1), 0]))
        options = tuple((count, tuple(node for turn in turns[:count] for node in turn)) for count in counts)
        return [Node(each.header, around, options, range(each.header, each.end), True, False, True)]

    return sequence(range(len(nest.paths)), ())


def count_ways(nodes: Sequence[Node], mask: int) -> int:
    """How many ways there are through nodes, for the cores of a mask."""
    total = 1
    for node in nodes:
        inner = [count_ways(inside, mask) for _, inside in node.options]
        cores = mask.bit_count() if node.is_divergent else 1
        # All cores in one arm, or some in each.
        total *= sum(inner) + (2**cores - 2) * inner[0] * inner[-1] if cores > 1 else sum(inner)
    return total


def all_ways(
    nodes: Sequence[Node], mask: int, most: int, wanted: Callable[[Node], int]
) -> list[dict[Choice, int]] | None:
    """Every way through nodes, for the cores of a mask; None when they are more than `most`.

    `wanted` says whose choices at a node matter, a bit a core; what the others choose, or all, is left open.
    """
    ways: list[dict[Choice, int]] = [{}]
    for node in nodes:
        asked = wanted(node) & mask
        if not asked:
            continue
        options: list[dict[Choice, int]] = []
        for picked in _picks(node, asked if node.is_divergent else mask, range(len(node.options)), most):
            if picked is None:
                return None
            choice, inside = picked
            inner: list[dict[Choice, int]] = [choice]
            for part, nodes_inside in inside:
                combined = _combined(inner, all_ways(nodes_inside, part, most, wanted), most)
                if combined is None:
                    return None
                inner = combined
            options += inner
        both = _combined(ways, options, most)
        if both is None:
            return None
        ways = both
    return ways


def _combined(
    ways: list[dict[Choice, int]], others: list[dict[Choice, int]] | None, most: int
) -> list[dict[Choice, int]] | None:
    """Each way with each of the others; None: more than `most`, or the others are too many already."""
    if others is None or len(ways) * len(others) > most:
        return None
    return [{**one, **other} for one in ways for other in others]


_Inside = list[tuple[int, tuple[Node, ...]]]


def _picks(
    node: Node, mask: int, chosen: Sequence[int], most: int
) -> Iterator[tuple[dict[Choice, int], _Inside] | None]:
    """Each choice at a node, with the nodes inside and the cores that come there; None: too many."""
    if not node.is_divergent:
        for number in chosen:
            value, inside = node.options[number]
            yield {(node.block, node.around, NONE): value}, [(mask, inside)]
        return
    keys = node.keys(mask)
    if len(chosen) ** len(keys) > most:
        yield None
        return
    for arms in product([node.options[number][0] for number in chosen], repeat=len(keys)):
        choice = dict(zip(keys, arms, strict=True))
        yield choice, _met(node, choice, mask)


def avoiding(
    nodes: Sequence[Node],
    mask: int,
    way: Mapping[Choice, int],
    writes: Callable[[range | tuple[int, ...]], bool],
    blocks_of: Callable[[Node, int], range],
    most: int,
) -> list[dict[Choice, int]] | None:
    """A way, completed so that blocks for which `writes` holds do not run where that can be helped; every completion
    where it cannot. None: more than `most`.
    """
    ways: list[dict[Choice, int]] = [dict(way)]
    for node in nodes:
        if not writes(node.inside) and not any(key in way for key in node.keys(mask)):
            continue
        free = [at for at, (value, _) in enumerate(node.options) if not writes(blocks_of(node, value))]
        chosen = free[-1:] or list(range(len(node.options)))
        options: list[dict[Choice, int]] = []
        seen: set[tuple[int, ...]] = set()
        for picked in _picks(node, mask, chosen, most):
            if picked is None:
                return None
            choice = {key: way.get(key, value) for key, value in picked[0].items()}
            if tuple(choice.values()) in seen:
                continue
            seen.add(tuple(choice.values()))
            inner: list[dict[Choice, int]] = [choice]
            for part, inside in _met(node, choice, mask):
                combined = _combined(inner, avoiding(inside, part, way, writes, blocks_of, most), most)
                if combined is None:
                    return None
                inner = combined
            options += inner
        both = _combined(ways, options, most)
        if both is None:
            return None
        ways = both
    return ways


def _met(node: Node, choice: Mapping[Choice, int], mask: int) -> _Inside:
    """The nodes inside what is chosen at a node, and the cores that come there."""
    found: _Inside = []
    for value, inside in node.options:
        part = mask
        if node.is_divergent:
            part = sum(1 << key[2] for key in node.keys(mask) if choice[key] == value)
        elif choice[node.keys(mask)[0]] != value:
            part = 0
        if part:
            found.append((part, inside))
    return found


def spread(way: Mapping[Choice, int], cores: Sequence[int]) -> dict[Choice, int]:
    """What one core chooses, chosen by all of some cores."""
    found: dict[Choice, int] = {}
    for (block, around, core), value in way.items():
        for each in cores if core != NONE else (NONE,):
            found[block, around, each] = value
    return found


def find_places(nest: Nest, nodes: Sequence[Node], mask: int) -> list[Place]:
    """Every region that nodes lead to, each by the choices that lead there alone."""
    found: list[Place] = []

    def go(some: Sequence[Node], cores: int, way: dict[Choice, int]) -> None:
        for node in some:
            for value, inside in node.options:
                for key in node.keys(cores):
                    part = cores if key[2] == NONE else 1 << key[2]
                    there = {**way, key: value}
                    found.append(Place(there, _direct(nest, node, value)))
                    go(inside, part, there)

    go(nodes, mask, {})
    return found


def _direct(nest: Nest, node: Node, value: int) -> tuple[int, ...]:
    """Blocks of an option that stand in no region inside it, but in loops that always run."""
    if node.is_loop:
        blocks, region = node.inside if value else range(0), (nest.headers[node.block], NONE)
    else:
        number = nest.forking[node.block]
        blocks, region = nest.forks[number].arms[value], (number, value)
    found = []
    for block in blocks:
        around = nest.around[block]
        deeper = around[around.index(region) + 1 :]
        if block in nest.headers:
            deeper = deeper[:-1]  # a header runs at least once
        if all(arm == NONE and nest.loops[number].trip != NONE for number, arm in deeper):
            found.append(block)
    return tuple(found)


def filled(nodes: Sequence[Node], mask: int, way: Mapping[Choice, int]) -> dict[Choice, int]:
    """A way, with the choices that it leaves open so that nothing more runs: no iteration, neither arm."""
    whole = dict(way)
    for node in nodes:
        least = 0 if node.is_loop else 1 if node.can_skip else SKIP
        for key in node.keys(mask):
            whole.setdefault(key, least)
        for part, inside in _met(node, whole, mask):
            whole = filled(inside, part, whole)
    return whole


def first_way(nodes: Sequence[Node], mask: int) -> dict[Choice, int]:
    """The way in which all loops run and all forks take their first arm."""
    found: dict[Choice, int] = {}
    for node in nodes:
        value, inside = node.options[0]
        found.update(dict.fromkeys(node.keys(mask), value))
        found.update(first_way(inside, mask))
    return found
