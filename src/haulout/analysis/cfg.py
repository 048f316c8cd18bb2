"""Control flow graphs of any shape: order, dominators both ways, natural loops.

Blocks are numbers, 0 the entry. Block `a` *dominates* `b` when every path from the entry to `b` passes `a`, and
*post-dominates* it when every path from `b` to an exit does; an exit is a block without successors. Both relations
are trees, given by each block's immediate dominator, and found by the iteration of Cooper, Harvey and Kennedy ("A
Simple, Fast Dominance Algorithm", Rice University, 2001): walk the blocks in reverse postorder, meet the dominators
of the predecessors by climbing, until nothing changes. Post-dominators are the dominators of the turned graph, with
one exit behind all exits.

A *natural loop* belongs to a header that dominates the source of an edge back to it: all blocks that reach such an
edge without passing the header. Two loops are nested or apart. A cycle that is entered at two places has no header
and is no natural loop; everything else here holds for it too.

`find_regions` says which shapes the passes accept. What is computed here does not lean on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from haulout.ir.enums import NONE
from haulout.ir.program import Program


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    """A header and what it repeats."""

    header: int
    blocks: frozenset[int]
    """The header included."""
    parent: int
    """Index of the loop around it, NONE when there is none."""


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """The graph of one function and what is known of it; lists are indexed by block."""

    successors: list[list[int]]
    predecessors: list[list[int]]
    order: list[int]
    """The blocks that the entry reaches in reverse postorder: each before its successors, but for edges back."""
    dominator: list[int]
    """Immediate dominator; NONE: the entry, or not reached from it."""
    depth: list[int]
    """Of each block in the tree of dominators: how many others dominate it."""
    post_dominator: list[int]
    """Immediate post-dominator; NONE: only the end of the function, or no exit is reached."""
    post_depth: list[int]
    """Of each block in the tree of post-dominators."""
    loops: list[NaturalLoop]
    """By the place of their headers in `order`, so outer ones before inner ones."""
    loop: list[int]
    """Innermost loop of each block, NONE when it is in none."""

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path from the entry to `b` passes `a`; `b` must be reached."""
        return _above(self.dominator, self.depth, a, b)

    def post_dominates(self, a: int, b: int) -> bool:
        """Whether every path from `b` to an exit passes `a`; `b` must reach one."""
        return _above(self.post_dominator, self.post_depth, a, b)

    def common_dominator(self, blocks: Iterable[int]) -> int:
        """The last block that dominates all of some blocks that the entry reaches."""
        return _common(self.dominator, self.depth, blocks)

    def common_post_dominator(self, blocks: Iterable[int]) -> int:
        """The first block that post-dominates all of some blocks; NONE: only the end of the function does."""
        return _common(self.post_dominator, self.post_depth, blocks)

    def loops_around(self, block: int) -> list[int]:
        """Loops that contain a block, the innermost first."""
        found, at = [], self.loop[block]
        while at != NONE:
            found.append(at)
            at = self.loops[at].parent
        return found


def control_flow(successors: Sequence[Sequence[int]]) -> ControlFlow:
    """Analyse a graph, given by the successors of each block; block 0 is the entry."""
    forward = [list(each) for each in successors]
    backward: list[list[int]] = [[] for _ in forward]
    for block, targets in enumerate(forward):
        for target in targets:
            backward[target].append(block)
    order = _reverse_postorder(forward, 0) if forward else []
    dominator = _dominators(backward, order, len(forward))
    end = len(forward)
    exits = [block for block, targets in enumerate(forward) if not targets]
    turned = [*backward, exits]
    entering = [targets or [end] for targets in forward] + [[]]
    after = _dominators(entering, _reverse_postorder(turned, end), end + 1)
    post_dominator = [NONE if at == end else at for at in after[:end]]
    depth, post_depth = _depths(dominator), _depths(post_dominator)
    loops, loop = _natural_loops(forward, backward, order, dominator, depth)
    return ControlFlow(forward, backward, order, dominator, depth, post_dominator, post_depth, loops, loop)


def function_flow(program: Program, function: int) -> ControlFlow:
    """The graph of a function; its blocks are counted from its first one."""
    first, end = program.starts("blocks", "functions")[function : function + 2].tolist()
    starts = program.starts("edges", "blocks").tolist()
    return control_flow(
        [(program.edges.target[starts[row] : starts[row + 1]] - first).tolist() for row in range(first, end)]
    )


def _reverse_postorder(successors: Sequence[Sequence[int]], entry: int) -> list[int]:
    """Depth first from the entry, without recursion; first successors come out first."""
    left: list[int] = []
    seen = {entry}
    path = [(entry, iter(reversed(successors[entry])))]
    while path:
        block, targets = path[-1]
        target = next(targets, NONE)
        if target == NONE:
            left.append(block)
            path.pop()
        elif target not in seen:
            seen.add(target)
            path.append((target, iter(reversed(successors[target]))))
    return left[::-1]


def _dominators(predecessors: Sequence[Sequence[int]], order: list[int], count: int) -> list[int]:
    """Immediate dominator of each block of `order`, which starts with the root; NONE for the root and all others."""
    place = {block: at for at, block in enumerate(order)}
    above = [NONE] * count
    if not order:
        return above
    root = order[0]
    above[root] = root
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            best = NONE
            for other in predecessors[block]:
                # One that is not reached, or not yet done, says nothing.
                if above[other] != NONE:
                    best = other if best == NONE else _meet(above, place.__getitem__, best, other)
            if best != above[block]:
                above[block], changed = best, True
    above[root] = NONE
    return above


def _meet(above: list[int], place: Callable[[int], int], a: int, b: int) -> int:
    """The lowest common ancestor: whoever stands later in the order climbs."""
    while a != b:
        while place(a) > place(b):
            a = above[a]
        while place(b) > place(a):
            b = above[b]
    return a


def _depths(tree: list[int]) -> list[int]:
    """How many ancestors each block has."""
    depth = [NONE] * len(tree)
    for block in range(len(tree)):
        path = []
        while depth[block] == NONE and tree[block] != NONE:
            path.append(block)
            block = tree[block]
        depth[block] = max(depth[block], 0)
        for below in reversed(path):
            depth[below] = depth[tree[below]] + 1
    return depth


def _above(tree: list[int], depth: list[int], a: int, b: int) -> bool:
    """Whether `a` is `b` or an ancestor of it."""
    while depth[b] > depth[a]:
        b = tree[b]
    return b == a


def _common(tree: list[int], depth: list[int], blocks: Iterable[int]) -> int:
    """The lowest common ancestor of all; each block of the tree is climbed over once at most."""
    found, *others = blocks
    below = {found}
    for block in others:
        while block not in below:
            if depth[block] > depth[found]:
                below.add(block)
                block = tree[block]
            elif tree[found] == NONE:
                return NONE
            else:
                found = tree[found]
                below.add(found)
    return found


def _natural_loops(
    successors: list[list[int]],
    predecessors: list[list[int]],
    order: list[int],
    dominator: list[int],
    depth: list[int],
) -> tuple[list[NaturalLoop], list[int]]:
    """Loops by the place of their headers, and the innermost one of each block."""
    reached = set(order)
    loops: list[NaturalLoop] = []
    loop = [NONE] * len(successors)
    for header in order:
        latches = [
            each for each in predecessors[header] if each in reached and _above(dominator, depth, header, each)
        ]
        if not latches:
            continue
        inside = {header}
        work = latches
        while work:
            block = work.pop()
            if block not in inside:
                inside.add(block)
                work += [each for each in predecessors[block] if each in reached]
        loops.append(NaturalLoop(header, frozenset(inside), loop[header]))
        # Headers of outer loops come first in the order, so the last one to claim a block is the innermost.
        for block in sorted(inside):
            loop[block] = len(loops) - 1
    return loops, loop
