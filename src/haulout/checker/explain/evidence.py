"""A witness in words: what runs, what may happen then, and which bytes the reader sees instead.

    witness: core 0 runs %init, %ready; core 1 runs %a; then %r on core 1 may start while %w on core 0 has not
    completed
    %r then reads the bytes that %init on core 0 wrote

Long schedules are shown by their first and last steps. For what they show, a schedule stays on one core as long as it
can.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from haulout.checker import bytesets
from haulout.checker.explain.witness import Witness, Witnesses
from haulout.checker.model import Model
from haulout.checker.order.graph import Graph
from haulout.checker.order.happens_before import Order
from haulout.checker.paths.unroll import BRANCH
from haulout.checker.proofs.extents import Regions
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids, Ints

_SHOWN = 6
"""Steps that are listed."""
_SORTED = 256
"""Longer schedules stay as they are."""
_MOST_RUNS = 1 << 14
"""Sets of bytes with more runs are compared as a whole."""
_TRIED = 64
"""Earlier writes that are compared with the bytes of a pair."""


class Evidence:
    """Tells the witnesses of one model."""

    def __init__(self, model: Model, graph: Graph, order: Order, regions: Regions) -> None:
        self.model, self.graph, self.order, self.regions = model, graph, order, regions
        self.witnesses = Witnesses(model, graph, order)

    def tell(self, first: int, second: int, directed: bool = True) -> list[str]:
        """Notes on two unordered accesses, of which the first should come first if anything says so (`directed`)."""
        witness = self.witnesses.find(first, second)
        return [f"witness: {self._schedule(witness)}", self._outcome(witness, directed)]

    # -- the schedule -----------------------------------------------------------------------------------------------

    def _schedule(self, witness: Witness) -> str:
        nodes = witness.nodes
        if self.graph.counting is None and len(nodes) <= _SORTED:
            nodes = self._by_core(nodes)
        steps = [step for node in nodes.tolist() if (step := self._step(node))]
        if len(steps) > _SHOWN:
            half = _SHOWN // 2
            told = [*self._grouped(steps[:half]), f"... {len(steps) - _SHOWN} more steps ..."]
            told += self._grouped(steps[-half:])
        else:
            told = self._grouped(steps)
        first, second = (self._who(witness, access) for access in (witness.first, witness.second))
        end = f"{second} may start while {first} has not completed"
        return f"{'; '.join(told)}; then {end}" if told else f"{end}, whatever else runs"

    def _by_core(self, nodes: Ids) -> Ids:
        """The same steps in another order in which they can run, changing from core to core as seldom as may be."""
        graph = self.graph
        inside = dict.fromkeys(nodes.tolist(), 0)
        for node in inside:
            for other in graph.successors[graph.starts[node] : graph.starts[node + 1]].tolist():
                if other in inside:
                    inside[other] += 1
        place = {node: at for at, node in enumerate(nodes.tolist())}
        ready: dict[int, list[tuple[int, int]]] = {}
        for node, missing in inside.items():
            if missing == 0:
                heappush(ready.setdefault(self._core(node), []), (place[node], node))
        order: list[int] = []
        here = NONE
        while ready:
            if here not in ready:
                here = min(ready, key=lambda core: ready[core][0])
            _, node = heappop(ready[here])
            if not ready[here]:
                del ready[here]
            order.append(node)
            for other in graph.successors[graph.starts[node] : graph.starts[node + 1]].tolist():
                if other in inside:
                    inside[other] -= 1
                    if inside[other] == 0:
                        heappush(ready.setdefault(self._core(other), []), (place[other], other))
        return np.array(order, np.int32)

    def _core(self, node: int) -> int:
        """The core of a node; NONE of a rendezvous of several."""
        cores = {int(self.model.core[each]) for each in self.witnesses.members(node)}
        return cores.pop() if len(cores) == 1 else NONE

    def _step(self, node: int) -> tuple[str, str] | None:
        """(Who, what) of a step; None of what nobody wrote down as an instruction."""
        members = self.witnesses.members(node)
        first = members[0]
        if int(self.model.engine[first]) == BRANCH:
            return None
        name = self.model.name(first) + self._turn(first)
        if len(members) > 1:
            cores = ", ".join(str(self.model.core[each]) for each in members)
            return f"cores {cores} meet at", name
        if self.graph.enter[first] != self.graph.leave[first]:
            name += " (arrives)" if self.graph.enter[first] == node else " (completes)"
        return f"core {self.model.core[first]} runs", name

    def _turn(self, instruction: int) -> str:
        """Which of its runs in loops."""
        unrolled = self.model.unrolled
        if unrolled is None:
            return ""
        _, iterations = unrolled.run.executions[int(unrolled.execution[self.model.rows[instruction]])]
        return f" (iteration {'.'.join(map(str, iterations))})" if iterations else ""

    def _grouped(self, steps: list[tuple[str, str]]) -> list[str]:
        return [
            f"{who} {', '.join(name for _, name in group)}" for who, group in groupby(steps, key=lambda step: step[0])
        ]

    # -- what comes of it -------------------------------------------------------------------------------------------

    def _outcome(self, witness: Witness, directed: bool) -> str:
        """What the bytes hold then, instead of what they should."""
        first, second = witness.first, witness.second
        one, other = self._name(first), self._name(second)
        if not directed:
            one, other = self._who(witness, first), self._who(witness, second)
            if self.model.write[first] and self.model.write[second]:
                return f"the bytes end as {one} or as {other} leaves them"
            writer, reader = (one, other) if self.model.write[first] else (other, one)
            return f"{reader} reads what {writer} writes, or {self._before(witness)}"
        if self.model.write[first] and self.model.write[second]:
            return f"the bytes may end as {one} leaves them, not {other}"
        before = self._before(witness)
        if self.model.write[first]:
            return f"{other} then reads {before}"
        return f"{one} may then read what {other} writes; it should read {before}"

    def _before(self, witness: Witness) -> str:
        """What the bytes held before both."""
        writer = self._last_writer(witness)
        if writer != NONE:
            return f"bytes that {self._name(writer)} on core {self._core_of(writer)} wrote"
        reader = witness.second if self.model.write[witness.first] else witness.first
        location = int(self.model.owners()[self.model.location[reader]])
        if int(self.model.program.locations.kind[location]) in (Kind.INTERNAL, Kind.OUTPUT):
            return "bytes that nothing has written yet"
        return f"bytes of {self.model.location_name(location)} as they were at the start"

    def _last_writer(self, witness: Witness) -> int:
        """The last access of the witness that writes some of the bytes; NONE: there is none."""
        model = self.model
        owners = model.owners()
        pair = [witness.first, witness.second]
        place = np.full(self.graph.nodes, NONE, np.int64)
        place[witness.nodes] = np.arange(len(witness.nodes))
        owner = owners[model.location]
        writes: Ints = np.flatnonzero(model.write & np.isin(owner, owner[pair]) & (place[self.order.node] != NONE))
        writes = writes[np.argsort(-place[self.order.node[writes]], kind="stable")]
        wanted = self._bytes(pair)
        tried: list[int] = writes[:_TRIED].tolist()
        for access in tried:
            region = int(self.regions.of_access[access])
            if wanted is None or self.regions.unknown[region] or self._many(region):
                return access
            low, _ = bytesets.common(wanted, self.regions.runs(region))
            if len(low):
                return access
        return NONE

    def _bytes(self, pair: list[int]) -> tuple[Ints, Ints] | None:
        """The bytes that two accesses have in common; None where they are not known, or too many to list."""
        regions = [int(self.regions.of_access[access]) for access in pair]
        if any(self.regions.unknown[region] or self._many(region) for region in regions):
            return None
        low, high = bytesets.common(self.regions.runs(regions[0]), self.regions.runs(regions[1]))
        return low, high

    def _many(self, region: int) -> bool:
        if self.regions.storage.is_grid[self.regions.location[region]]:
            return False
        return self.regions.byte_set(region).most_runs > _MOST_RUNS

    def _name(self, access: int) -> str:
        instruction = int(self.model.instruction[access])
        return self.model.name(instruction) + self._turn(instruction)

    def _who(self, witness: Witness, access: int) -> str:
        """Its name, and its core when the two are on different ones: names are often equal on all cores."""
        across = self._core_of(witness.first) != self._core_of(witness.second)
        return self._name(access) + (f" on core {self._core_of(access)}" if across else "")

    def _core_of(self, access: int) -> int:
        return int(self.model.core[self.model.instruction[access]])
