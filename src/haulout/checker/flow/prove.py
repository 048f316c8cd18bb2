"""The proof that a function with loops and forks has no fault, for all of its runs at once.

    text      every block once; meetings agree block by block, and every block has a schedule        text.py
    order     what every line knows at every event; the conflicting pairs that it does not know      claims.py
              of those, the ones that some run leaves unordered                                      follow.py
    times     the schedule has conflicting pairs as `seq` has them                                   times.py
    patterns  whether such a pair meets at all, when its patterns move with loops                    motions.py
    values    every read finds the bytes of its own tensor, outputs are whole                        held.py

What is proved here has no finding. What is left open comes with the path of a run that shows it (`paths/`). Where
this proof does not know, runs decide, if they are few: so it may give up anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from haulout.checker.flow.claims import scan_claims
from haulout.checker.flow.counts import Trust
from haulout.checker.flow.doomed import find_doomed
from haulout.checker.flow.follow import UNORDERED, Followed
from haulout.checker.flow.graph import Open, Queries
from haulout.checker.flow.held import WrongRead, find_wrong
from haulout.checker.flow.leads import lead_to
from haulout.checker.flow.pairs import Touches, find_queries, find_touches
from haulout.checker.flow.refusal import Refusal, Short, Stuck
from haulout.checker.flow.sources import comparable_runs, orders_kept
from haulout.checker.flow.steps import SPLIT
from haulout.checker.flow.text import Text, find_text
from haulout.checker.flow.times import falling_list, misordered, seq_of
from haulout.checker.flow.trusted import find_open
from haulout.checker.model import Runs
from haulout.checker.paths.narrowed import Narrowed
from haulout.checker.paths.runs import Choice
from haulout.checker.proofs.storage import check_placements, check_views
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.support.jit import compiled_if_large, plain_if_small


@dataclass(frozen=True, slots=True)
class Left:
    """A conflicting pair whose order is not proved."""

    operands: tuple[int, int]
    """As written; a branch is numbered after all operands, by its block."""
    why: Callable[[], Refusal]
    choose: Callable[[], dict[Choice, int]]
    is_certain: Callable[[], bool]
    """Whether the run of its path is sure to have it, once that is made."""

    @property
    def path(self) -> dict[Choice, int]:
        """A path on which both run, and nothing known orders them. It is made anew each time."""
        return self.choose()


@dataclass(frozen=True, slots=True)
class Examined:
    """What the proof of a function leaves open."""

    refusal: Refusal | None = None
    """What is not covered; then the rest is not known."""
    pairs: Sequence[Left] = ()
    wrong: Sequence[WrongRead] = ()
    """Reads and outputs that are wrong, if all conflicts are ordered."""
    stuck: Sequence[Stuck] = ()
    """What runs are stuck in. The rest is told of the others."""
    narrowed: Narrowed | None = Narrowed()
    """The choices that lead to these; None: there are none."""

    @property
    def is_proved(self) -> bool:
        """Whether no run of the function has a fault."""
        return self.refusal is None and not (self.pairs or self.wrong or self.stuck)


def is_proved(runs: Runs, source: Program | None = None) -> bool:
    """Whether no run of a function has a fault, made from the source or from none; False where that is not known."""
    return examine(runs, source).is_proved


def examine(runs: Runs, source: Program | None = None) -> Examined:
    """What is wrong, or not known, about the runs of a function, and about their order, if the source has the same
    control flow.
    """
    work = 50 * (runs.size + len(runs.flow.blocks))
    with plain_if_small(scan_claims, work), compiled_if_large(work):
        stuck: list[Stuck] = []
        if len(runs.flow.functions) == 1:  # all cores take the same arm
            forks = (fork.block for fork in runs.flow.structure.forks if fork.divergent)
            runs = runs.narrow(Narrowed(alike=frozenset(forks)))
        while True:
            text = find_text(runs)
            examined = Examined(text) if isinstance(text, Refusal) else _examine(text, source)
            found: Refusal | None = examined.refusal
            if isinstance(text, Text) and isinstance(found, Short):
                found = find_doomed(text)
            if not isinstance(found, Stuck):
                return replace(examined, stuck=tuple(stuck), narrowed=runs.narrowed)
            stuck.append(found)
            if found.rest is None:
                return Examined(stuck=tuple(stuck), narrowed=None)
            runs = runs.narrow(found.rest)


def _examine(text: Text, source: Program | None) -> Examined:
    if check_views(text.model) or check_placements(text.model):
        return Examined(Refusal("locations are not in their places"))
    touches = find_touches(text)
    pairs = _disorder(text, touches, source)
    if isinstance(pairs, Refusal):
        return Examined(pairs)
    wrong = _wrong(text, touches)
    return Examined(wrong) if isinstance(wrong, Refusal) else Examined(None, pairs, wrong)


def _operands(touches: Touches, found: Open, row: int) -> tuple[int, int]:
    """Both sides of a pair, as `Left` has them."""
    model = touches.model
    assert model.unrolled is not None
    sides = []
    for access in (int(found.first[row]), int(found.second[row])):
        origin = int(model.unrolled.access_origin[model.access[access]])
        block = int(model.unrolled.block[model.rows[model.instruction[access]]])
        sides.append(origin if origin != NONE else len(model.unrolled.source.accesses) + block)
    return sides[0], sides[1]


def _path(text: Text, touches: Touches, found: Followed, row: int, trips: dict[int, int]) -> dict[Choice, int]:
    """A path that leaves a pair unordered; `trips` has the iterations that runs have of constant loops."""
    path = found.path(row, trips)
    return _path_to_both(text, touches, found.pairs, row) if path is None else path


def _path_to_both(text: Text, touches: Touches, found: Open, row: int) -> dict[Choice, int]:
    """A path on which both accesses of a pair run, and little else."""
    model = text.model
    path: dict[Choice, int] = {}
    for side, access in enumerate((int(found.first[row]), int(found.second[row]))):
        core, event = int(model.core[model.instruction[access]]), touches.event[access]
        later = int(found.level[row]), int(found.lag[row]) * side
        lead_to(text.runs.flow.structure, int(text.events.block[event]), core, later, path)
    return path


def _wrong(text: Text, touches: Touches) -> list[WrongRead] | Refusal:
    """The reads and outputs that are wrong."""
    if text.core_by_core is not None and _exchanges(text, touches):
        return Refusal("cores that choose for themselves touch bytes of each other in arms with barriers")
    found = find_wrong(text, touches)
    return found if found is not None else Refusal("some read may find bytes that are not of its tensor")


def _exchanges(text: Text, touches: Touches) -> bool:
    """Whether cores may touch bytes that another one writes in arms that are walked in parts."""
    queries = find_queries(text, touches)
    if isinstance(queries, Refusal):
        return True
    count, event = len(touches.event), touches.event
    access = np.repeat(np.arange(count), np.diff(queries.key_starts[: count + 1]))
    block, core = text.events.block[event[access]], text.events.core[event[access]]
    keys = int(queries.key[: len(access)].max(initial=0)) + 1
    for number in text.steps[text.steps[:, 0] == SPLIT, 1].tolist():
        begin, _, join, _ = text.forks[number].tolist()
        rows = np.flatnonzero((block >= begin) & (block < join))
        key = queries.key[rows]
        written = np.zeros(keys, bool)
        written[key[touches.model.write[access[rows]]]] = True
        users = np.unique(np.stack([key[written[key]], core[rows][written[key]]]), axis=1)
        if len(np.unique(users[0])) < users.shape[1]:
            return True
    return False


def _disorder(text: Text, touches: Touches, source: Program | None) -> list[Left] | Refusal:
    """The conflicting pairs that are not ordered as `seq` and the source want it, and do not commute."""
    queries, time = find_queries(text, touches), seq_of(text)
    if isinstance(queries, Refusal):
        return queries
    if falls := falling_list(text, time):
        return falls
    found = _open_pairs(text, touches, queries)
    if isinstance(found, Refusal):
        return found
    trips = {header: copies.count for header, copies in text.runs.copies(deep=True).items()}
    left = [
        _left(
            text,
            touches,
            found.pairs,
            row,
            "is not ordered",
            partial(_path, text, touches, found, row, trips),
            partial(_is_unordered, found, row),
        )
        for row in _conflicting(text, touches, found.pairs)
        if not found.is_ordered(row)
    ]
    times = [(time, "is not in the order of seq")]
    if source is not None and (given := comparable_runs(text.runs, source)) is not None:
        kept = orders_kept(text, given)
        if isinstance(kept, Refusal):
            return kept
        times += [(each, "is not in the order of the source") for each in kept]
    for each, why in times:
        tied = misordered(text, touches, queries, each)
        if isinstance(tied, Refusal):
            return tied
        left += [
            _left(text, touches, tied, row, why, partial(_path_to_both, text, touches, tied, row), _is_unsure)
            for row in _conflicting(text, touches, tied)
        ]
    return left


def _left(
    text: Text,
    touches: Touches,
    found: Open,
    row: int,
    what: str,
    choose: Callable[[], dict[Choice, int]],
    is_certain: Callable[[], bool],
) -> Left:
    why = partial(_pair, text, touches, found, row, what)
    return Left(_operands(touches, found, row), why, choose, is_certain)


def _is_unordered(found: Followed, row: int) -> bool:
    return found.known(row) == UNORDERED


def _is_unsure() -> bool:
    return False


def _pair(text: Text, touches: Touches, found: Open, row: int, what: str) -> Refusal:
    """That something is so of a pair of accesses."""
    model = text.model
    assert model.unrolled is not None
    one, other = (int(model.instruction[side[row]]) for side in (found.first, found.second))
    sides = [f"{model.name(each)} on core {model.core[each]}" for each in (one, other)]
    block = int(text.events.block[touches.event[found.second[row]]])
    instruction = int(model.unrolled.origin[model.rows[other]])
    location = model.location_name(int(model.owners()[model.location[found.second[row]]]))
    return Refusal(f"the conflict of {sides[0]} and {sides[1]} on {location} {what}", block, instruction)


def _open_pairs(text: Text, touches: Touches, queries: Queries) -> Followed | Refusal:
    """The pairs that are not claimed to be ordered."""
    found = find_open(text, queries, len(touches.event), Trust())
    return found if isinstance(found, Refusal) else Followed(text, found[0], touches.event, found[1])


def _conflicting(text: Text, touches: Touches, found: Open) -> Iterator[int]:
    """The pairs that do not commute and may have a common byte."""
    model, owner = touches.model, touches.model.owners()
    one, other = found.first[: found.total], found.second[: found.total]
    commute = (model.atomic[one] > 0) & (model.atomic[one] == model.atomic[other])
    commute &= (
        (owner[model.location[one]] == owner[model.location[other]]) & ~model.fetches[one] & ~model.fetches[other]
    )
    left = np.flatnonzero(~commute)
    moving = touches.moves[one[left]] | touches.moves[other[left]]
    yield from left[~moving].tolist()
    moved = left[moving]
    yield from moved[touches.motions.may_meet(found, moved)].tolist()
