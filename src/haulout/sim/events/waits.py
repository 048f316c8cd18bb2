"""Dependences between items of a trace: the execution of the producer that an execution of the consumer waits for.

    deps      the latest execution before it, in this iteration or, of a loop that is over, in the last one
    carried   the last execution in the previous iteration of the innermost loop around both; none in the first
              iteration, or where the producer is in an arm that was not taken

A branch waits for every write of `cond` in its block. Producer and consumer are in some sections; the visits that
wait for each other are found once for each pair of sections.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop
from haulout.sim.flow.code import Code
from haulout.sim.flow.sections import Sections
from haulout.sim.flow.trace import Trace
from haulout.sim.flow.visits import Visits
from haulout.support.diagnostics import bad_input


class Waits(NamedTuple):
    """Dependences between rows of the code, sorted by pairs of sections."""

    consumer: Ids
    producer: Ids
    carried: Bools


def find_waits(code: Code) -> Waits:
    """The dependences of rows that run. Raises `bad-input` where a producer may not have run before its consumer."""
    program, section = code.program, code.section
    table, branches = program.dependences, _branch_waits(code)
    consumer = np.concatenate([table.instruction, branches[0]])
    producer = np.concatenate([table.producer, branches[1]])
    carried = np.concatenate([table.carried, np.zeros(len(branches[0]), np.bool_)])
    runs = section[consumer] != NONE
    consumer, producer, carried = consumer[runs], producer[runs], carried[runs]
    _check(code, consumer[~carried], producer[~carried])
    # The producer of a carried dependence may never run: nothing waits for it.
    kept = section[producer] != NONE
    order = np.lexsort((carried[kept], section[producer[kept]], section[consumer[kept]]))
    return Waits(consumer[kept][order], producer[kept][order], carried[kept][order])


def dependences(trace: Trace, waits: Waits) -> tuple[Ids, Ids]:
    """Edges between items, (producer, consumer). A producer outside of the trace is complete."""
    if not len(waits.consumer):
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    visits, code = trace.visits, trace.code
    order = np.argsort(visits.section, kind="stable")
    cuts = np.searchsorted(visits.section[order], np.arange(len(code.sections) + 1))
    visits_of = [order[begin:end] for begin, end in pairwise(cuts)]
    rows = np.arange(len(waits.consumer))
    core = code.core[waits.consumer]
    ends = code.section[waits.consumer], code.section[waits.producer]
    diverge = visits.diverge()
    if diverge:
        rows = np.lexsort((core, waits.carried, ends[1], ends[0]))
        attended = [visits.attended(each) for each in range(trace.first.shape[0])]
    keys = (ends[0], ends[1], waits.carried, core) if diverge else (ends[0], ends[1], waits.carried)
    differs = np.logical_or.reduce([np.diff(key[rows]) != 0 for key in keys])
    bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(rows)]
    parts = []
    for begin, end in pairwise(bounds):
        chosen = rows[begin:end]
        consumer, producer = (int(each[chosen[0]]) for each in ends)
        both = visits_of[consumer], visits_of[producer]
        if diverge:
            mine = attended[int(core[chosen[0]])]
            both = both[0][mine[both[0]]], both[1][mine[both[1]]]
        if waits.carried[chosen[0]]:
            waiting, awaited = _carried(code.sections, visits, consumer, producer, *both)
        else:
            waiting, awaited = _latest(*both)
        first = trace.first[core[chosen]]
        parts.append(
            [
                (first[:, each] + code.position[column[chosen]][:, None]).ravel()
                for column, each in ((waits.producer, awaited), (waits.consumer, waiting))
            ]
        )
    found = np.concatenate([np.array(part, np.int32) for part in parts], axis=1)
    return found[0], found[1]


def _latest(waiting: Ints, awaited: Ints) -> tuple[Ints, Ints]:
    """Visits of the consumer, and for each the latest visit of the producer up to it."""
    at = np.searchsorted(awaited, waiting, "right") - 1
    return waiting[at >= 0], awaited[at[at >= 0]]


def _carried(
    sections: Sections, visits: Visits, consumer: int, producer: int, waiting: Ints, awaited: Ints
) -> tuple[Ints, Ints]:
    """Visits of the consumer, and for each the producer's last visit in the previous iteration, if there is one."""
    none = np.zeros(0, np.int64)
    loop = sections.structure.common_loop(consumer, producer)
    depth = NONE if loop == NONE else sections.depths[sections.structure.loops[loop].header]
    if loop == NONE or visits.began.shape[1] < depth or not len(awaited):
        return none, none
    began = visits.began[waiting, depth - 1]
    at = np.searchsorted(awaited, began, "left") - 1
    there = (began != NONE) & (visits.iteration[waiting, depth - 1] > 0) & (at >= 0)
    # Where the previous visit of the header is not among these visits, no earlier one is.
    there &= awaited[at] >= visits.before[began]
    return waiting[there], awaited[at[there]]


def _branch_waits(code: Code) -> tuple[Ids, Ids]:
    """(Branch, instruction of its block that writes `cond`)."""
    program = code.program
    accesses, owner = program.accesses, program.owner
    starts = program.starts("instructions", "blocks")
    branches: list[int] = []
    writers: list[int] = []
    for section in code.sections.choices:
        for core, blocks in enumerate(code.sections.blocks[section]):
            block = blocks[-1]
            rows = slice(*program.access_starts[starts[block : block + 2]].tolist())
            cond = owner[program.blocks.cond[block]]
            writes = accesses.write[rows] & (owner[accesses.location[rows]] == cond)
            found = np.unique(accesses.instruction[rows][writes]).tolist()
            branches += [code.branch(section, core)] * len(found)
            writers += found
    return np.array(branches, np.int32), np.array(writers, np.int32)


def _check(code: Code, consumer: Ids, producer: Ids) -> None:
    """`bad-input` at the first dependence on an instruction that may not have run before."""
    section, count, structure = code.section, len(code.sections), code.sections.structure
    pairs, which = np.unique(section[producer].astype(np.int64) * count + section[consumer], return_inverse=True)
    # The section of a producer that never runs is negative.
    fine = [pair >= 0 and structure.dominates(*divmod(pair, count)) for pair in pairs.tolist()]
    for at in np.flatnonzero(~np.array(fine, np.bool_)[which])[:1].tolist():
        name = format_name(code.program.instruction_name(int(producer[at])))
        first, second = int(section[producer[at]]), int(section[consumer[at]])
        if first == NONE:
            why = "never runs"
        elif first > second:
            why = "comes later"
        else:
            region = structure.regions[structure.left_region(first, second)]
            what = "a loop that may not run" if isinstance(region, Loop) else "an arm that may not be taken"
            why = f"is in {what}"
        bad_input(f"it depends on %{name}, which {why}", instruction_label(code.program, int(consumer[at])))
