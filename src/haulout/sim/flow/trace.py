"""The trace: what each core executes, in list order, as *items*.

A trace repeats the rows of a section (`code.py`) for every visit (`visits.py`) that the core takes part in. Events,
schedules and the shadow refer to items of the trace, not to instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.schema import Ids, Ints
from haulout.sim.flow.code import Code
from haulout.sim.flow.visits import Visits


@dataclass(frozen=True, slots=True)
class Trace:
    """Executed rows of the code, core after core, each core's in list order."""

    code: Code
    visits: Visits
    row: Ids
    """The row of the code of each item."""
    core: Ids
    """The core that executes it."""
    visit: Ids
    """Its visit."""
    first: Ints
    """[core, visit]: the first item of the visit, if the core takes part."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def position(self) -> Ints:
        """Of each item: its index in its core's list of its visit."""
        return self.code.position[self.row]


def trace_visits(code: Code, visits: Visits) -> Trace:
    """The trace of what ran."""
    rows, cores, visit, first = [np.zeros(0, np.int32)], [0], [np.zeros(0, np.int32)], []
    items = 0
    for core in range(len(code.program.modules)):
        sections = [each[core] for each in code.rows]
        table = np.concatenate([np.zeros(0, np.int32), *sections])
        length = np.array([len(each) for each in sections], np.int64)
        count = np.where(visits.attended(core), length[visits.section], 0)
        begin = np.cumsum(count) - count
        # Row j of a visit is row j of its section.
        source = np.repeat((np.cumsum(length) - length)[visits.section] - begin, count) + np.arange(count.sum())
        rows.append(table[source])
        visit.append(np.repeat(np.arange(len(visits), dtype=np.int32), count))
        first.append(begin + items)
        cores.append(int(count.sum()))
        items += cores[-1]
    core_of = np.repeat(np.arange(len(first), dtype=np.int32), cores[1:])
    shape = len(first), len(visits)
    return Trace(code, visits, np.concatenate(rows), core_of, np.concatenate(visit), np.array(first).reshape(shape))
