"""A witness in words: what runs, what may happen then, and which bytes the reader sees.

    witness: core 0 runs %init, %ready; core 1 runs %a; then %r on core 1 may start while %w on core 0 has not
    completed
    %r then reads the bytes that %init on core 0 wrote

Only the first and last steps of a long schedule are shown. For display, a schedule stays on one core as long as
possible.
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
from haulout.checker.proofs.extents import Extents
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids, Ints

_MAX_STEPS = 6
"""Steps that are listed."""
_MAX_SORTED = 256
"""Longer schedules are not regrouped by core."""
_MAX_RUNS = 1 << 14
"""Sets of bytes with more runs are compared as a whole."""
_MAX_WRITES = 64
"""Earlier writes that are compared with the bytes of a pair."""


class Evidence:
    """Describes the witnesses of one model."""

    def __init__(self, model: Model, graph: Graph, order: Order, extents: Extents) -> None:
        self.model, self.graph, self.order, self.extents = model, graph, order, extents
        self.witnesses = Witnesses(model, graph, order)

    def notes(self, first: int, second: int, directed: bool = True) -> list[str]:
        """Notes on two unordered accesses; if `directed`, the first should come first."""
        witness = self.witnesses.find(first, second)
        return [f"witness: {self._schedule(witness)}", self._outcome(witness, directed)]

    # -- the schedule -----------------------------------------------------------------------------------------------

    def _schedule(self, witness: Witness) -> str:
        nodes = witness.nodes
        if self.graph.semaphore_order is None and len(nodes) <= _MAX_SORTED:
            nodes = self._by_core(nodes)
        steps = [step for node in nodes.tolist() if (step := self._step(node))]
        if len(steps) > _MAX_STEPS:
            half = _MAX_STEPS // 2
            shown = [*self._grouped(steps[:half]), f"... {len(steps) - _MAX_STEPS} more steps ..."]
            shown += self._grouped(steps[-half:])
        else:
            shown = self._grouped(steps)
        first, second = (self._who(witness, access) for access in (witness.first, witness.second))
        end = f"{second} may start while {first} has not completed"
        return f"{'; '.join(shown)}; then {end}" if shown else f"{end}, whatever else runs"

    def _by_core(self, nodes: Ids) -> Ids:
        """The same steps in another possible order, with few changes from core to core."""
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
        """(Cores, instruction) of a step; None for the branch of a block."""
        members = self.witnesses.members(node)
        first = members[0]
        if int(self.model.engine[first]) == BRANCH:
            return None
        name = self.model.name(first) + self._iteration(first)
        if len(members) > 1:
            cores = ", ".join(str(self.model.core[each]) for each in members)
            return f"cores {cores} attend", name
        if self.graph.enter[first] != self.graph.leave[first]:
            name += " (arrives)" if self.graph.enter[first] == node else " (completes)"
        return f"core {self.model.core[first]} runs", name

    def _iteration(self, instruction: int) -> str:
        """The iterations of the loops around an instruction."""
        unrolled = self.model.unrolled
        if unrolled is None:
            return ""
        _, iterations = unrolled.run.executions[int(unrolled.execution[self.model.rows[instruction]])]
        return f" (iteration {'.'.join(map(str, iterations))})" if iterations else ""

    def _grouped(self, steps: list[tuple[str, str]]) -> list[str]:
        return [
            f"{who} {', '.join(name for _, name in group)}" for who, group in groupby(steps, key=lambda step: step[0])
        ]

    # -- the outcome ------------------------------------------------------------------------------------------------

    def _outcome(self, witness: Witness, directed: bool) -> str:
        """The bytes that result, and those that should result."""
        first, second = witness.first, witness.second
        one, other = self._name(first), self._name(second)
        if not directed:
            one, other = self._who(witness, first), self._who(witness, second)
            if self.model.write[first] and self.model.write[second]:
                return f"the final bytes are those of {one} or those of {other}"
            writer, reader = (one, other) if self.model.write[first] else (other, one)
            return f"{reader} reads what {writer} writes, or {self._before(witness)}"
        if self.model.write[first] and self.model.write[second]:
            return f"the final bytes may be those of {one}, expected those of {other}"
        before = self._before(witness)
        if self.model.write[first]:
            return f"{other} then reads {before}"
        return f"{one} may then read what {other} writes, expected {before}"

    def _before(self, witness: Witness) -> str:
        """The bytes before both accesses."""
        writer = self._last_writer(witness)
        if writer != NONE:
            return f"bytes that {self._name(writer)} on core {self._core_of(writer)} wrote"
        reader = witness.second if self.model.write[witness.first] else witness.first
        location = int(self.model.owners()[self.model.location[reader]])
        if int(self.model.program.locations.kind[location]) in (Kind.INTERNAL, Kind.OUTPUT):
            return "unwritten bytes"
        return f"the initial bytes of {self.model.location_name(location)}"

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
        tried: list[int] = writes[:_MAX_WRITES].tolist()
        for access in tried:
            extent = int(self.extents.of_access[access])
            if wanted is None or not self._is_listed(extent):
                return access
            low, _ = bytesets.common(wanted, self.extents.runs(extent))
            if len(low):
                return access
        return NONE

    def _bytes(self, pair: list[int]) -> tuple[Ints, Ints] | None:
        """The common bytes of two accesses; None where they are unknown, or too many to list."""
        extents = [int(self.extents.of_access[access]) for access in pair]
        if not all(map(self._is_listed, extents)):
            return None
        low, high = bytesets.common(self.extents.runs(extents[0]), self.extents.runs(extents[1]))
        return low, high

    def _is_listed(self, extent: int) -> bool:
        """True if the bytes of an extent are known, and few enough to list."""
        return not self.extents.unknown[extent] and self.extents.max_runs(extent) <= _MAX_RUNS

    def _name(self, access: int) -> str:
        instruction = int(self.model.instruction[access])
        return self.model.name(instruction) + self._iteration(instruction)

    def _who(self, witness: Witness, access: int) -> str:
        """Its name, with its core when the two are on different cores, where names are often equal."""
        across = self._core_of(witness.first) != self._core_of(witness.second)
        return self._name(access) + (f" on core {self._core_of(access)}" if across else "")

    def _core_of(self, access: int) -> int:
        return int(self.model.core[self.model.instruction[access]])
