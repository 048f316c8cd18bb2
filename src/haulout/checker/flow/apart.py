"""Arms of a divergent fork that cores cannot take together, since what they meet at differs.

Two cores take one arm each. Barriers of both, engine by engine, and `sendrecv`s from one to the other are matched by
their place, so where one core has more of them than the other, or others, the run is stuck; unless the core behind
has more of them later, before both come to a fence. An arm that no arm of some other core goes with is left out.
Where all cores are bound to take the same arm, the fork is no longer divergent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from haulout.checker.flow.constants import Settled
from haulout.checker.flow.events import Events, refused
from haulout.checker.flow.leads import lead_to
from haulout.checker.flow.refusal import Stuck
from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.paths.narrowed import Narrowed
from haulout.checker.paths.runs import Choice
from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bools
from haulout.ir.structure import Fork, Structure

_Arm = tuple[int, int]
"""A core, and which arm it takes."""
_Pairs = set[tuple[_Arm, _Arm]]
_Part = tuple[int, range]
"""A core, and the blocks that it goes through."""


@dataclass(frozen=True, slots=True)
class _Meeting:
    """One of a core."""

    block: int
    kind: tuple[int, ...]
    """The engine of a barrier; the sender, the receiver and the tag of a `sendrecv`."""
    name: tuple[int, int]
    """Of a barrier, and the number of its participants."""
    cores: tuple[int, ...]


class Meetings:
    """What cores meet at, in list order."""

    def __init__(self, structure: Structure, model: Model, events: Events, barriers: Barriers) -> None:
        self.structure, self.model, self.events = structure, model, events
        self.lists: dict[tuple[int, int], list[_Meeting]] = {}
        """By core and block."""
        found: list[tuple[int, _Meeting]] = []
        for at, instruction in enumerate(barriers.instruction.tolist()):
            kind, name = (int(barriers.engine[at]),), (int(barriers.name[at]), int(barriers.cores[at]))
            found.append((instruction, _Meeting(NONE, kind, name, barriers.members[name[1]])))
        table = model.program.meetings
        columns = table.instruction, table.to, table.source, table.tag
        for row, to, source, tag in zip(*(each.tolist() for each in columns), strict=True):
            if (instruction := int(model.local[row])) != NONE:
                core = int(model.core[instruction])
                for pair in ((core, to), (source, core)):
                    if NONE not in pair:
                        found.append((instruction, _Meeting(NONE, (*pair, tag), (NONE, NONE), pair)))
        self.instructions = {instruction for instruction, _ in found}
        for instruction, each in sorted(found, key=lambda one: one[0]):
            block = int(events.block[events.first[instruction]])
            key = int(model.core[instruction]), block
            self.lists.setdefault(key, []).append(replace(each, block=block))

    def first(self, begin: int, end: int) -> int:
        """The first event in some blocks where cores meet."""
        inside = np.flatnonzero((self.events.block >= begin) & (self.events.block < end))
        return next(each for each in inside.tolist() if int(self.events.instruction[each]) in self.instructions)

    def of(self, core: int, blocks: range, other: int) -> dict[tuple[int, ...], list[_Meeting]]:
        """Those of a core with another one in some blocks, by kind."""
        found: dict[tuple[int, ...], list[_Meeting]] = {}
        for block in blocks:
            for each in self.lists.get((core, block), []):
                if core in each.cores and other in each.cores:
                    found.setdefault(each.kind, []).append(each)
        return found

    def may_follow(self, wanted: _Meeting, core: int, other: int, blocks: range) -> bool:
        """Whether a core may meet another one behind some blocks, a part of the structure, at what that one waits
        for, before a fence of both.
        """
        todo = [self.structure.post_dominator[blocks.start]] if len(blocks) > 1 else [*self._successors(blocks.start)]
        seen = set(todo)
        while todo:
            at = todo.pop()
            for each in self.lists.get((core, at), []):
                if core not in each.cores or other not in each.cores:
                    continue
                if each.kind == wanted.kind and (each.name == wanted.name or self._exclude(each, wanted)):
                    return True
                if each.kind == (Engine.ALL,):
                    break
            else:
                following = [each for each in self._successors(at) if each not in seen]
                seen.update(following)
                todo += following
        return False

    def _exclude(self, one: _Meeting, other: _Meeting) -> bool:
        """Whether names may differ, as two meetings are in different arms of one divergent fork."""
        fork = self.structure.separating_fork(one.block, other.block)
        return one.name[1] == other.name[1] and fork != NONE and self.structure.forks[fork].divergent

    def _successors(self, block: int) -> Iterator[int]:
        structure = self.structure
        if block in structure.loop_at:
            yield block + 1
        if block in structure.fork_at:
            fork = structure.forks[structure.fork_at[block]]
            yield from (fork.block + 1, fork.middle)
        elif structure.post_dominator[block] != NONE:
            yield structure.post_dominator[block]


def find_apart(meetings: Meetings, forks: Sequence[int], settled: Settled, narrowed: Narrowed) -> Stuck | None:
    """That some arms of a fork are left out, with a path to what is stuck; None: none is known to be.

    Cores come to a fork with as many meetings behind them, unless some fork leaves that open.
    """
    cores, wrong = range(meetings.model.cores), dict[int, _Pairs]()
    arms: dict[int, list[list[int]]] = {}
    for number in forks:
        sides = [settled.side(number, core) for core in cores]
        arms[number] = [[side] if side != NONE else [0, 1] for side in sides]
        found = _unfit(meetings, meetings.structure.forks[number], arms[number])
        if found is None:
            return None
        wrong[number] = found
    for number in forks:
        if wrong[number] and (stuck := _stuck(meetings, number, arms[number], wrong[number], narrowed)):
            return stuck
    return None


def find_disagreeing(meetings: Meetings, live: Bools, narrowed: Narrowed) -> Stuck | None:
    """The first block outside of arms of divergent forks that has other meetings on one core than on another."""
    structure, model, events = meetings.structure, meetings.model, meetings.events
    wrong: list[int] = []
    for block in sorted({block for _, block in meetings.lists}):
        if not live[block] or structure.divergent_fork(block) != NONE:
            continue
        here = range(block, block + 1)
        for one, other in combinations(range(model.cores), 2):
            fits = _fits(meetings, here, (one, here), (other, here))
            if fits is None:
                return None
            if not fits:
                wrong.append(block)
    if not wrong:
        return None
    path: dict[Choice, int] = {}
    lead_to(structure, wrong[0], NONE, (0, 0), path)
    event = meetings.first(wrong[0], wrong[0] + 1)
    why = refused(model, events, event, "meets at what other cores do not have in the block")
    return Stuck.at(why, narrowed, path, narrowed.without(structure, wrong[0], NONE))


def _unfit(meetings: Meetings, fork: Fork, arms: Sequence[Sequence[int]]) -> _Pairs | None:
    """The arms that two cores cannot take; None: that depends on what comes later."""
    wrong: _Pairs = set()
    whole = range(fork.block, fork.join)
    for one, other in combinations(range(len(arms)), 2):
        for a, b in product(arms[one], arms[other]):
            fits = _fits(meetings, whole, (one, fork.sides[a]), (other, fork.sides[b]))
            if fits is None:
                return None
            if not fits:
                wrong |= {((one, a), (other, b)), ((other, b), (one, a))}
    return wrong


def _stuck(meetings: Meetings, number: int, arms: list[list[int]], wrong: _Pairs, narrowed: Narrowed) -> Stuck | None:
    structure, model, events = meetings.structure, meetings.model, meetings.events
    fork = structure.forks[number]
    left = _without_lone_arms(arms, wrong)
    first, second = min(wrong)
    path: dict[Choice, int] = {}
    around = lead_to(structure, fork.block, NONE, (0, 0), path)
    for core in range(model.cores):
        side = dict((first, second)).get(core, first[1])
        path[fork.block, around, core] = side if side in arms[core] else arms[core][0]
    rest = _rest(structure, fork, narrowed, left, arms, wrong)
    if rest == narrowed:
        return None
    event = meetings.first(fork.block + 1, fork.join)
    why = "is in an arm that each core chooses for itself, and not all arms of all cores have the same meetings"
    return Stuck.at(refused(model, events, event, why), narrowed, path, rest)


def _fits(meetings: Meetings, whole: range, one: _Part, other: _Part) -> bool | None:
    """Whether two cores can go through some blocks each, of those of a part of the structure; None: that depends on
    what comes later.
    """
    sides = one, other
    kinds = [
        meetings.of(core, blocks, with_core)
        for (core, blocks), (with_core, _) in zip(sides, sides[::-1], strict=True)
    ]
    fits: bool | None = True
    for kind in sorted(kinds[0].keys() | kinds[1].keys()):
        lists = [each.get(kind, []) for each in kinds]
        for here, there in zip(*lists, strict=False):
            if here.name != there.name and (one[1] == other[1] or here.name[1] != there.name[1]):
                return False
        size = min(map(len, lists))
        for ahead, behind in ((0, 1), (1, 0)):
            if len(lists[ahead]) > size:
                core, waiting = sides[behind][0], sides[ahead][0]
                if not meetings.may_follow(lists[ahead][size], core, waiting, whole):
                    return False
                fits = None
    return fits


def _without_lone_arms(arms: Sequence[Sequence[int]], wrong: _Pairs) -> list[list[int]]:
    """The arms of each core that go with some arm of each other one."""
    left = [list(each) for each in arms]
    while True:
        kept = [
            [
                a
                for a in left[core]
                if all(
                    any(((core, a), (other, b)) not in wrong for b in left[other])
                    for other in range(len(left))
                    if other != core
                )
            ]
            for core in range(len(left))
        ]
        if kept == left:
            return left
        left = kept


def _rest(
    structure: Structure,
    fork: Fork,
    narrowed: Narrowed,
    left: list[list[int]],
    arms: list[list[int]],
    wrong: _Pairs,
) -> Narrowed | None:
    """What is left; all that was left before, where the arms that go together are not of a kind that it has."""
    if not all(left):
        return narrowed.without(structure, fork.block, NONE)
    if left == [left[0]] * len(left) and len(left[0]) == 1:
        sides = {**narrowed.sides, (fork.block, NONE): left[0][0]}
        return replace(narrowed, alike=narrowed.alike | {fork.block}, sides=sides)
    if left != arms:
        made = {(fork.block, core): sides[0] for core, sides in enumerate(left) if len(sides) == 1}
        return replace(narrowed, sides={**narrowed.sides, **made})
    if left[0] != [0, 1] or left != [left[0]] * len(left):
        return narrowed
    # Cores that cannot take different arms are bound to each other, and so are those that are bound to both.
    bound = {0}
    while True:
        more = {
            core
            for core in range(len(left))
            if any(((each, 0), (core, 1)) in wrong and ((each, 1), (core, 0)) in wrong for each in bound)
        }
        if more <= bound:
            break
        bound |= more
    alike = all(((one, a), (other, a)) not in wrong for one, other in combinations(bound, 2) for a in (0, 1))
    if len(bound) < len(left) or not alike:
        return narrowed
    return replace(narrowed, alike=narrowed.alike | {fork.block})
