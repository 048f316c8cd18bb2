"""The proof that a function with loops and forks has no fault, for all of its runs at once.

    text      every block once; meetings agree block by block, and every block has a schedule        text.py
    times     `seq` rises along the schedule of each loop's body; conflicts of equal `seq` are none
    order     what every line knows at every event; the conflicting pairs that it does not know      claims.py
    patterns  whether such a pair meets at all, when its patterns move with loops                    motions.py
    values    every read finds the bytes of its own tensor, outputs are whole                        held.py

What is proved here has no finding. Where something is not, runs are judged one by one (`paths/`): they name the
fault, or show that there is none. So this proof may give up wherever it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from haulout.checker.flow.claims import Open, Queries, scan_claims
from haulout.checker.flow.counts import Trust, less_trust
from haulout.checker.flow.held import all_held
from haulout.checker.flow.pairs import Touches, find_queries, find_touches
from haulout.checker.flow.text import Text, find_text
from haulout.checker.flow.waits import find_graph
from haulout.checker.model import Runs
from haulout.checker.paths.runs import Choice
from haulout.checker.proofs.storage import check_placements, check_views
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids, Ints
from haulout.ir.structure import Arm
from haulout.support.jit import compiled_if_large, plain_if_small

_MAX_OPEN = 1 << 18
"""Unordered pairs whose patterns are compared."""


def is_proved(runs: Runs) -> bool:
    """Whether no run of a function has a fault; False where that is not known."""
    work = 50 * (runs.size + len(runs.flow.blocks))
    with plain_if_small(scan_claims, work), compiled_if_large(work):
        text = find_text(runs)
        if text is None or check_views(text.model) or check_placements(text.model):
            return False
        touches = find_touches(text)
        return _ordered(text, touches) and all_held(text, touches)


@dataclass(frozen=True, slots=True)
class Left:
    """A conflicting pair whose order is not proved."""

    operands: tuple[int, int]
    """As written; a branch is numbered after all operands, by its block."""
    path: dict[Choice, int]
    """A path on which both run, and little else."""


def find_left(runs: Runs) -> list[Left] | None:
    """The pairs that keep a function from being proved; None where it is not for pairs alone, or too many."""
    text = find_text(runs)
    if text is None or check_views(text.model) or check_placements(text.model):
        return None
    touches = find_touches(text)
    queries, loop = find_queries(text, touches), _loop_of(text)
    if queries is None or not _times_rise(text, touches, loop) or not all_held(text, touches):
        return None
    found, tied = _open_pairs(text, touches, queries), _tied(text, touches, queries, loop)
    if found is None or tied is None:
        return None
    left = []
    for some in (found, tied):
        left += [_left(text, touches, some, row) for row in _conflicting(text, touches, some)]
    return left


def _left(text: Text, touches: Touches, found: Open, row: int) -> Left:
    model = text.model
    assert model.unrolled is not None
    path: dict[Choice, int] = {}
    operands = []
    for side, access in enumerate((int(found.first[row]), int(found.second[row]))):
        origin = int(model.unrolled.access_origin[model.access[access]])
        instruction = int(model.instruction[access])
        block = int(model.unrolled.block[model.rows[instruction]])
        operands.append(origin if origin != NONE else len(model.unrolled.source.accesses) + block)
        later = int(found.level[row]), int(found.lag[row]) * side
        _lead_to(text, int(text.events.block[touches.event[access]]), int(model.core[instruction]), later, path)
    return Left((operands[0], operands[1]), path)


def _lead_to(text: Text, block: int, core: int, later: tuple[int, int], path: dict[Choice, int]) -> None:
    """Choose what leads to a block, in a later iteration of the loop of a level."""
    structure = text.runs.flow.structure
    around: tuple[int, ...] = ()
    for number in structure.around(block):
        region = structure.regions[number]
        if isinstance(region, Arm):
            fork = structure.forks[region.fork]
            path[fork.block, around, core if fork.divergent else NONE] = region.side
            continue
        turn = later[1] if len(around) + 1 == later[0] else 0
        if region.trip == NONE:
            key = region.header, around, NONE
            path[key] = max(path.get(key, 0), turn + (block != region.header))
        around = (*around, turn)


def _loop_of(text: Text) -> Ids:
    """Of each event: the innermost loop around it, NONE: there is none."""
    structure = text.runs.flow.structure
    loops = [structure.loops_around(block) for block in text.runs.flow.blocks]
    found = np.array([around[-1] if around else NONE for around in loops], np.int32)
    return found[text.events.block]


def _times_rise(text: Text, touches: Touches, loop: Ids) -> bool:
    """Whether `seq` never falls along the schedule among the blocks of one loop, or those of none.

    In the arms of one divergent fork it may, from core to core: what conflicts there is not ordered.
    """
    structure, events, cores = text.runs.flow.structure, text.events, np.int64(text.model.cores)
    seq = _seq(text)
    touching = np.zeros(len(seq), bool)
    touching[touches.event] = True
    listed = text.schedule[(seq != NONE)[text.schedule]]
    shared = listed[touching[listed]]
    fork = np.array([structure.divergent_fork(block) for block in text.runs.flow.blocks], np.int32)
    apart = fork[events.block[shared]]
    group = np.where(apart == NONE, len(fork) + np.arange(len(shared)), apart)
    inside = _rises(loop[listed] * cores + events.core[listed], np.arange(len(listed)), seq[listed])
    return inside and _rises(loop[shared], group, seq[shared])


def _rises(key: Ints, group: Ints, time: Ints) -> bool:
    """Whether, among rows of each key, no time is less than one of an earlier group; a group is a stretch of rows."""
    order = np.argsort(key, kind="stable")
    key, group, time = key[order], group[order], time[order]
    first = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (group[1:] != group[:-1]))[: len(key)])
    if not len(first):
        return True
    low, high, key = np.minimum.reduceat(time, first), np.maximum.reduceat(time, first), key[first]
    return not bool(np.any((key[1:] == key[:-1]) & (low[1:] < high[:-1])))


def _seq(text: Text) -> Ints:
    """The `seq` of each event."""
    return text.model.program.instructions.seq[text.model.rows][text.events.instruction]


def _tied(text: Text, touches: Touches, queries: Queries, loop: Ids) -> Open | None:
    """Pairs of one `seq` in one loop that may conflict, as if they were unordered; None: too many."""
    event, model = touches.event, touches.model
    access = np.repeat(np.arange(len(event)), np.diff(queries.key_starts[: len(event) + 1]))
    seq = _seq(text)[event[access]]
    timed = np.flatnonzero(seq != NONE)
    access, seq = access[timed], seq[timed]
    _, rank = np.unique(seq, return_inverse=True)
    place = rank * np.int64(len(text.runs.flow.structure.regions) + 1) + loop[event[access]] + 1
    order = np.lexsort((place, queries.key[timed]))
    key, place, access = queries.key[timed][order], place[order], access[order]
    new = np.append(True, (key[1:] != key[:-1]) | (place[1:] != place[:-1]))[: len(key)]
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], len(key))
    instruction = model.instruction[access]
    several = np.flatnonzero(end - begin > 1)
    pairs: dict[tuple[int, int], None] = {}
    for first, last in zip(begin[several].tolist(), end[several].tolist(), strict=True):
        for one, other in combinations(range(first, last), 2):
            if instruction[one] != instruction[other] and model.write[access[[one, other]]].any():
                pairs[int(access[one]), int(access[other])] = None
                if len(pairs) > _MAX_OPEN:
                    return None
    sides = np.array(list(pairs), np.int32).reshape(-1, 2)
    depth = np.array([len(text.runs.flow.structure.loops_around(block)) for block in text.runs.flow.blocks], np.int32)
    level = depth[text.events.block[event[sides[:, 0]]]]
    return Open(len(sides), sides[:, 0], sides[:, 1], level, np.zeros(len(sides), np.int32), 0)


def _ordered(text: Text, touches: Touches) -> bool:
    """Whether every conflicting pair is ordered as `seq` wants it, or commutes."""
    loop = _loop_of(text)
    queries = find_queries(text, touches)
    if queries is None or not _times_rise(text, touches, loop):
        return False
    found = _open_pairs(text, touches, queries)
    if found is None:
        return False
    if not _all_apart(text, touches, found):
        return False
    tied = _tied(text, touches, queries, loop)
    return tied is not None and _all_apart(text, touches, tied)


def _open_pairs(text: Text, touches: Touches, queries: Queries) -> Open | None:
    """The pairs that are not known to be ordered; None: too many. Waits that may not be trusted are not."""
    trust, accesses = Trust(), len(touches.event)
    while True:
        graph = find_graph(text, trust)
        if graph is None:
            return None
        # Each event asks what all lines know. This kernel takes far longer to compile than others.
        with compiled_if_large(12 * len(text.schedule) * len(text.places), limit=60_000):
            found = scan_claims(graph, queries, _MAX_OPEN)
        if found.total > _MAX_OPEN:
            return None
        signals = np.flatnonzero(found.first[: found.total] >= accesses)
        columns = (
            found.first[signals] - accesses,
            found.second[signals] - accesses,
            found.level[signals],
            found.lag[signals],
        )
        less = less_trust(text, trust, list(zip(*(column.tolist() for column in columns), strict=True)))
        if less == trust:
            kept = np.flatnonzero(found.first[: found.total] < accesses)
            sides = found.first[kept], found.second[kept], found.level[kept], found.lag[kept]
            return Open(len(kept), *sides, found.walks)
        trust = less


def _all_apart(text: Text, touches: Touches, found: Open) -> bool:
    """Whether pairs commute, or have no common byte."""
    return next(_conflicting(text, touches, found), None) is None


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
