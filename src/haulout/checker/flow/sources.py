"""Whether a text keeps the order of the program that it was made from, where both have the same control flow.

A text with `seq` must have it rise where that of the source rises. For one without, the source's happens-before is
the order: it becomes a time for each instruction, its place in a schedule of the source, which `times.py` compares
pair by pair. Of all schedules of the source, the one is taken that follows the text where it can: when no order of
the source contradicts the text, its instructions come in the order of the text.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.columns import occurrence
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text, find_text
from haulout.checker.flow.times import Stretches
from haulout.checker.model import Model, Runs
from haulout.checker.proofs.source_order import function_of, match_instructions
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.ir.structure import Loop


def comparable_runs(runs: Runs, source: Program) -> Runs | None:
    """The function of that name in the source, if it has the same control flow; else nothing is compared."""
    other = function_of(source, runs.name)
    if other is None or other.runs is None:
        return None
    left = other.runs.narrow(runs.narrowed)
    return left if left.flow.structure == runs.flow.structure else None


def orders_kept(text: Text, source: Runs) -> list[Ints] | Refusal:
    """Times of the events that the order of the text must agree with besides `seq`, unless `seq` disagrees with that
    of the source, or instructions are in other blocks there.
    """
    wanted = np.full(len(text.runs.flow.program.instructions), NONE, np.int64)
    assert text.model.unrolled is not None
    origin = text.model.unrolled.origin[text.model.rows]
    place = np.empty(len(text.schedule), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    wanted[origin[origin != NONE]] = place[text.events.first[origin != NONE]]
    other = find_text(source, _priorities(text, source, wanted))
    if isinstance(other, Refusal):
        return Refusal(f"in the source, {other.text}")
    if not _named_once(text.model) or not _named_once(other.model):
        return Refusal("several instructions have one name, so they cannot be found in the source")
    match = match_instructions(text.model, other.model)
    known = np.flatnonzero(match != NONE)
    moved = known[_blocks(text)[known] != _blocks(other)[match[known]]]
    if len(moved):
        name, core = text.model.name(int(moved[0])), text.model.core[moved[0]]
        return Refusal(f"{name} on core {core} is in another block than in the source", int(_blocks(text)[moved[0]]))
    seq = text.model.program.instructions.seq[text.model.rows]
    given = other.model.program.instructions.seq[other.model.rows]
    if refused := _rises(text, known, given[match[known]], seq[known]):
        return refused
    if (seq[_surely_runs(text)[_blocks(text)]] != NONE).any():
        return []  # each run has a `seq` of its own
    place = np.empty(len(other.schedule), np.int64)
    place[other.schedule] = np.arange(len(other.schedule))
    found = np.where(match == NONE, NONE, np.append(place[other.events.first], NONE)[match])
    return [found[text.events.instruction]]


def _blocks(text: Text) -> Ids:
    """Of each instruction, the block."""
    return text.events.block[text.events.first]


def _named_once(model: Model) -> bool:
    name = model.program.instructions.name[model.rows]
    key = model.core.astype(np.int64)[name != NONE] * (len(model.program.strings) + 1) + name[name != NONE]
    return not bool(occurrence(key).any())


def _priorities(text: Text, source: Runs, wanted: Ints) -> Ints:
    """Of each instruction of the source: the place of the one of its name in the schedule of the text."""
    mine, theirs = text.runs.flow, source.flow
    found = np.full(len(theirs.program.instructions), NONE, np.int64)
    strings = mine.program.strings
    ids = np.array([*map(strings.find, theirs.program.strings), NONE], np.int64)
    rows = [np.flatnonzero(flow.block != NONE) for flow in (mine, theirs)]
    names: list[Ints] = [
        mine.program.instructions.name[rows[0]].astype(np.int64),
        ids[theirs.program.instructions.name[rows[1]]],
    ]
    sides: list[Ints] = []
    for flow, row, name in zip((mine, theirs), rows, names, strict=True):
        core: Ints = flow.program.instruction_core[row].astype(np.int64)
        sides.append(core * (len(strings) + 1) + name)
    if not len(sides[0]):
        return found
    order = np.argsort(sides[0], kind="stable")
    at = np.minimum(np.searchsorted(sides[0][order], sides[1]), len(order) - 1)
    hit = (names[1] != NONE) & (sides[0][order[at]] == sides[1])
    found[rows[1][hit]] = wanted[rows[0][order[at[hit]]]]
    return found


def _rises(text: Text, known: Ints, given: Ints, time: Ints) -> Refusal | None:
    """Where a `seq` of the source rises among the blocks of one loop, and that of the text does not."""
    both = np.flatnonzero((given != NONE) & (time != NONE))
    known, given, time = known[both], given[both], time[both].astype(np.int64)
    loop = Stretches(text.runs.flow.structure).loop[_blocks(text)[known]].astype(np.int64)
    order = np.lexsort((time, given, loop))
    known, given, time, loop = known[order], given[order], time[order], loop[order]
    new = np.append(True, loop[1:] != loop[:-1])[: len(loop)]
    later = new | np.append(True, given[1:] != given[:-1])[: len(loop)]
    group = np.cumsum(new) - 1
    _, rank = np.unique(time, return_inverse=True)
    span = len(time) + 1
    highest = np.maximum.accumulate(group * span + rank.ravel()) - group * span
    begin = np.flatnonzero(later)[np.cumsum(later) - 1] if len(later) else np.zeros(0, np.int64)
    wrong = np.flatnonzero(~new[begin] & (rank.ravel() <= np.append(NONE, highest)[begin]))
    if not len(wrong):
        return None
    at = int(known[wrong[0]])
    name, core = text.model.name(at), text.model.core[at]
    return Refusal(f"the seq of {name} on core {core} is in another order than in the source", int(_blocks(text)[at]))


def _surely_runs(text: Text) -> Ids:
    """Which blocks are in no arm and no body."""
    structure = text.runs.flow.structure
    found = np.ones(len(structure.region_of), bool)
    for block in range(len(found)):
        for number in structure.around(block):
            region = structure.regions[number]
            found[block] &= isinstance(region, Loop) and region.header == block and region.parent == NONE
    return found
