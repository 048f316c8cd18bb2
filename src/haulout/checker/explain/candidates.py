"""Fixes that might order two accesses, cheapest first; whether one does is for the checker to say (`advice.py`).

A single dependence that joins an order that is there already comes first: the consumer waits for something on its own
core that the producer leads to, or something on the producer's core that leads to the consumer waits for the
producer. Then two dependences, one to a rendezvous and one from it. Then a new rendezvous: a barrier on every core, a
`sendrecv`. Inside a core it is the dependence, or what carries it over the end of a loop or of an arm.

Without `seq` nothing says which of the two comes first. List positions are tried before the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from haulout.checker.explain.barrier_placement import Placer
from haulout.checker.explain.fix_coverage import orders
from haulout.checker.explain.fixes import AddDependence, AddExchange, AddRelay, Fix, Place
from haulout.checker.model import Model
from haulout.checker.order.graph import Graph
from haulout.checker.order.happens_before import Order
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids
from haulout.ir.structure import Loop

_TRIED = 3
"""Ends of a dependence that are tried in one place."""
_COUNTED = 1 << 12
"""Pairs of which it is counted how many a fix orders, to choose one."""


class Candidates:
    """Fixes for the pairs of one model."""

    def __init__(self, model: Model, graph: Graph, order: Order) -> None:
        self.model, self.graph, self.order, self.placer = model, graph, order, Placer(model)
        self.source = model.program if model.unrolled is None else model.unrolled.source
        nothing = np.zeros(0, np.int32)
        self.aims = nothing, nothing

    def aim(self, first: Ids, second: Ids, timed: Bools) -> None:
        """The pairs of which a barrier should order as many as can be; if not timed, in any direction."""
        self.aims = first[:_COUNTED], second[:_COUNTED]
        self.placer.aim(self.model.instruction[first], self.model.instruction[second], timed)

    def find(self, first: int, second: int, ways: int) -> Iterator[Fix]:
        """Fixes that might order two accesses, the first before the second; with two `ways`, or the other way
        round.
        """
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        if self.model.core[i] == self.model.core[j]:
            yield from self._wait(i, j)
            yield from self._fences([(i, j)])
            return
        sides = [(first, second), (second, first)][:ways]
        yield from chain.from_iterable(self._joins(*side) for side in sides)
        yield from chain.from_iterable(self._passes(*side) for side in sides)
        ends = [(i, j), (j, i)][:ways]
        yield from self._fences(ends)
        yield from chain.from_iterable(self._exchange(*side) for side in ends)

    def row(self, instruction: int) -> int:
        """The row of an instruction in the program as it is written; NONE: a branch."""
        row = int(self.model.rows[instruction])
        return row if self.model.unrolled is None else int(self.model.unrolled.origin[row])

    # -- on one core ------------------------------------------------------------------------------------------------

    def _dependence(self, producer: int, consumer: int) -> AddDependence | None:
        """An edge between two instructions of a core, where the format has one."""
        rows, where = [self.row(producer), self.row(consumer)], self.model.wait(producer, consumer)
        if NONE in rows or where not in ("deps", "carried"):
            return None
        return AddDependence(rows[1], rows[0], where == "carried")

    def _wait(self, i: int, j: int) -> Iterator[Fix]:
        if self._dependence(i, j):
            yield from self._edges([(i, j)])
            return
        unrolled, rows = self.model.unrolled, (self.row(i), self.row(j))
        if unrolled is None or NONE in rows or self.model.later(i, j):
            return
        flow, structure = unrolled.flow, unrolled.structure
        own = flow.rows[int(self.model.core[i])]
        region = structure.regions[structure.left_region(*(int(flow.block[row]) for row in rows))]
        if isinstance(region, Loop):
            places: tuple[Place, ...] = (self._start(own[region.header]),)
        else:
            places = (self._end(own[region.end - 1]), self._start(own[structure.forks[region.fork].join]))
        yield Fix((AddRelay(*rows, places, isinstance(region, Loop)),))

    def _start(self, block: int) -> Place:
        return Place(block, int(np.searchsorted(self.source.instructions.block, block)))

    def _end(self, block: int) -> Place:
        return Place(block, int(np.searchsorted(self.source.instructions.block, block, "right")))

    def _fences(self, ends: list[tuple[int, int]]) -> list[Fix]:
        """Barriers, those first that order the most pairs."""
        found = [Fix((each,)) for each in dict.fromkeys(chain.from_iterable(self.placer.barriers(*e) for e in ends))]
        return self._ranked(found)

    def _ranked(self, fixes: list[Fix]) -> list[Fix]:
        """Those first that order the most pairs."""
        count = {fix: int(orders(self.model, self.order, self.graph, *self.aims, fix).sum()) for fix in fixes}
        return sorted(fixes, key=lambda fix: -count[fix])

    # -- between cores ----------------------------------------------------------------------------------------------

    def _joins(self, first: int, second: int) -> Iterator[Fix]:
        """One dependence."""
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        up, down = self.order.up, self.order.down
        behind = self._span(j, before=True)
        reached = _meet(down[self.order.node[first]], up[self.graph.leave[behind]])
        yield from self._edges([(each, j) for each in behind[reached][: 16 * _TRIED].tolist()])
        ahead = self._span(i, before=False)
        leads = _meet(down[self.graph.enter[ahead]], up[self.order.node[second]])
        yield from self._edges([(i, each) for each in ahead[leads][::-1][: 16 * _TRIED].tolist()])

    def _passes(self, first: int, second: int) -> Iterator[Fix]:
        """Two dependences, by way of what leads from the one core to the other."""
        i, j = (int(self.order.instruction[access]) for access in (first, second))
        up, down = self.order.up, self.order.down
        ahead, behind = self._span(i, before=False), self._span(j, before=True)
        if not len(ahead) or not len(behind) or up.shape[1] == 0:
            return
        leads = ahead[_meet(down[self.graph.enter[ahead]], up[self.graph.leave[behind]].max(axis=0))]
        for each in leads[::-1][:1].tolist():
            reached = behind[_meet(down[self.graph.enter[each]], up[self.graph.leave[behind]])]
            ends = [self._dependence(i, each), self._dependence(int(reached[0]), j)]
            if ends[0] is not None and ends[1] is not None:
                yield Fix((ends[0], ends[1]))

    def _edges(self, ends: list[tuple[int, int]]) -> Iterator[Fix]:
        """Dependences between some ends, and between others that order these too, if that orders more pairs."""
        found = 0
        for producer, consumer in ends:
            if found == _TRIED:
                return
            if (edge := self._dependence(producer, consumer)) is None:
                continue
            found += 1
            wider = [self._dependence(*each) for each in self._wider(producer, consumer)]
            fixes = [Fix((each,)) for each in dict.fromkeys([edge, *wider]) if each is not None]
            best = self._ranked(fixes)[0]
            yield from dict.fromkeys([best, fixes[0]])

    def _wider(self, producer: int, consumer: int) -> list[tuple[int, int]]:
        """Ends of bad pairs between which an edge orders two instructions of a core as well."""
        model, clock, column = self.model, self.order.clock, self.order.column
        ends = np.unique(model.instruction[np.concatenate(self.aims)])
        ends = ends[(model.core[ends] == model.core[producer]) & (producer <= ends) & (ends <= consumer)]
        late = ends[clock[ends, column[producer]] >= producer][-_TRIED:].tolist()
        early = ends[clock[consumer, column[ends]] >= ends][:_TRIED].tolist()
        return [(one, other) for one in [producer, *late] for other in [consumer, *early] if one < other]

    def _span(self, instruction: int, before: bool) -> Ids:
        """What stands before an instruction in the list of its core, or after it; without branches."""
        core = int(self.model.core[instruction])
        begin, end = self.model.core_starts[core : core + 2].tolist()
        begin, end = (begin, instruction) if before else (instruction + 1, end)
        each = np.arange(begin, end, dtype=np.int32)
        return each[~self.model.is_branch[begin:end]]

    def _exchange(self, i: int, j: int) -> Iterator[Fix]:
        rows = [self.row(each) for each in (i, j)]
        if NONE in rows:
            return
        blocks = self.source.instructions.block[rows].tolist()
        yield Fix((AddExchange(rows[0], rows[1], Place(blocks[0], rows[0] + 1), Place(blocks[1], rows[1])),))


def _meet(down: Column, up: Column) -> Bools:
    """Whether a path goes down to some line and up from it; of many nodes, each for itself."""
    found: Bools = np.any(np.atleast_2d(down) <= np.atleast_2d(up), axis=1)
    return found
