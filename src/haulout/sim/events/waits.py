"""Dependences between items of a trace: which execution of the producer an execution of the consumer waits for.

    deps      the newest execution before it: of this iteration, or of the last one of the loop that is over
    carried   the last execution in the previous iteration of the innermost loop around both; none in the first one,
              or where the producer stood in an arm that was not taken

A branch waits for every write of `cond` in its block. Both ends of a dependence run in some sections; which visit
waits for which is found once for each pair of sections.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.sim.flow.code import Code
from haulout.sim.flow.control import Nest
from haulout.sim.flow.trace import Trace
from haulout.sim.flow.visits import Visits
from haulout.support.diagnostics import bad_input


class Waits(NamedTuple):
    """Dependences between rows of the code that sections run, sorted by pairs of sections."""

    consumer: Ids
    producer: Ids
    carried: Bools
    section: Ids
    """Of each row of the code; NONE for what never runs."""
    position: Ids
    """Of each row of the code: its place in its section, on its core."""


def find_waits(code: Code) -> Waits:
    """The dependences of what runs. Raises `bad-input` where a producer need not have run before."""
    program = code.program
    section = np.full(len(code), NONE, np.int32)
    position = np.zeros(len(code), np.int32)
    for number, cores in enumerate(code.rows):
        for rows in cores:
            section[rows], position[rows] = number, np.arange(len(rows))
    table, branches = program.dependences, _branch_waits(code)
    consumer = np.concatenate([table.instruction, branches[0]])
    producer = np.concatenate([table.producer, branches[1]])
    carried = np.concatenate([table.carried, np.zeros(len(branches[0]), np.bool_)])
    runs = section[consumer] != NONE
    consumer, producer, carried = consumer[runs], producer[runs], carried[runs]
    _check(code, section, consumer[~carried], producer[~carried])
    # In the first iteration nothing is carried, so a producer that never runs is nobody's.
    kept = section[producer] != NONE
    order = np.lexsort((carried[kept], section[producer[kept]], section[consumer[kept]]))
    return Waits(consumer[kept][order], producer[kept][order], carried[kept][order], section, position)


def dependences(trace: Trace, waits: Waits) -> tuple[Ids, Ids]:
    """Edges between items, (producer, consumer). A producer outside of the trace has been complete for long."""
    if not len(waits.consumer):
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    visits, nest = trace.visits, trace.code.nest
    order = np.argsort(visits.section, kind="stable")
    cuts = np.searchsorted(visits.section[order], np.arange(len(nest.sections) + 1))
    visits_of = [order[begin:end] for begin, end in pairwise(cuts)]
    rows = np.arange(len(waits.consumer))
    core = trace.code.core[waits.consumer]
    ends = waits.section[waits.consumer], waits.section[waits.producer]
    parted = visits.is_parted(trace.first.shape[0])
    if parted:
        rows = np.lexsort((core, waits.carried, ends[1], ends[0]))
        attended = [visits.attended(each) for each in range(trace.first.shape[0])]
    keys = (ends[0], ends[1], waits.carried, core) if parted else (ends[0], ends[1], waits.carried)
    differs = np.logical_or.reduce([np.diff(key[rows]) != 0 for key in keys])
    bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(rows)]
    parts = []
    for begin, end in pairwise(bounds):
        chosen = rows[begin:end]
        consumer, producer = (int(each[chosen[0]]) for each in ends)
        both = visits_of[consumer], visits_of[producer]
        if parted:
            mine = attended[int(core[chosen[0]])]
            both = both[0][mine[both[0]]], both[1][mine[both[1]]]
        if waits.carried[chosen[0]]:
            waiting, awaited = _carried(nest, visits, consumer, producer, *both)
        else:
            waiting, awaited = _newest(*both)
        first = trace.first[core[chosen]]
        parts.append(
            [
                (first[:, each] + waits.position[column[chosen]][:, None]).ravel()
                for column, each in ((waits.producer, awaited), (waits.consumer, waiting))
            ]
        )
    found = np.concatenate([np.array(part, np.int32) for part in parts], axis=1)
    return found[0], found[1]


def _newest(waiting: Ints, awaited: Ints) -> tuple[Ints, Ints]:
    """Visits of the consumer, and for each the newest visit of the producer up to it."""
    at = np.searchsorted(awaited, waiting, "right") - 1
    return waiting[at >= 0], awaited[at[at >= 0]]


def _carried(
    nest: Nest, visits: Visits, consumer: int, producer: int, waiting: Ints, awaited: Ints
) -> tuple[Ints, Ints]:
    """Visits of the consumer, and for each the producer's last visit in the previous iteration, if there is one."""
    nobody = np.zeros(0, np.int64)
    depth = 0
    for loop, other in zip(nest.sections[consumer].path, nest.sections[producer].path, strict=False):
        if loop != other:
            break
        depth += 1
    if depth == 0 or visits.began.shape[1] < depth or not len(awaited):
        return nobody, nobody
    began = visits.began[waiting, depth - 1]
    at = np.searchsorted(awaited, began, "left") - 1
    there = (began != NONE) & (visits.iteration[waiting, depth - 1] > 0) & (at >= 0)
    # Where the header of the iteration before is not among these visits, nothing before it is.
    there &= awaited[at] >= visits.before[began]
    return waiting[there], awaited[at[there]]


def _branch_waits(code: Code) -> tuple[Ids, Ids]:
    """(Branch, instruction of its block that writes `cond`)."""
    program = code.program
    accesses, owner = program.accesses, program.owner
    starts = program.starts("instructions", "blocks")
    branches: list[int] = []
    writers: list[int] = []
    for choice in code.nest.choices.values():
        for block in choice.blocks:
            rows = slice(*program.access_starts[starts[block : block + 2]].tolist())
            cond = owner[program.blocks.cond[block]]
            writes = accesses.write[rows] & (owner[accesses.location[rows]] == cond)
            found = np.unique(accesses.instruction[rows][writes]).tolist()
            branches += [code.branch(block)] * len(found)
            writers += found
    return np.array(branches, np.int32), np.array(writers, np.int32)


def _check(code: Code, section: Ids, consumer: Ids, producer: Ids) -> None:
    """`bad-input` at the first dependence on something that need not have run before."""
    sections = len(code.nest.sections)
    pairs, which = np.unique(section[producer].astype(np.int64) * sections + section[consumer], return_inverse=True)
    # One that never runs has a negative section.
    fine = [pair >= 0 and code.nest.dominates(*divmod(pair, sections)) for pair in pairs.tolist()]
    for at in np.flatnonzero(~np.array(fine, np.bool_)[which])[:1].tolist():
        row = int(producer[at])
        if section[row] == NONE:
            why = "is never executed"
        else:
            behind = section[row] > section[consumer[at]]
            why = "stands behind it" if behind else _why_not(code.nest, section[row], section[consumer[at]])
        name = format_name(code.program.instruction_name(row))
        bad_input(f"it waits for %{name}, which {why}", instruction_label(code.program, int(consumer[at])))


def _why_not(nest: Nest, producer: int, consumer: int) -> str:
    """Why a section need not have run before another one that stands behind it."""
    around = nest.sections[consumer].regions
    first = next(region for region in nest.sections[producer].regions if region not in around)
    what = "a loop that may not have run" if first.fork == NONE else "an arm that need not have been taken"
    return f"stands in {what}"
