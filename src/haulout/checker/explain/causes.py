"""The reason why two accesses of different cores are not ordered, as a sentence.

A reader of the program sees the barriers between the two in list order. There are three causes. First: there is no
barrier. Second: there is one, but it does not wait for the engine of the producer, so the producer may still be in
flight when it opens. Third: it waits, but it does not hold back the engine of the consumer.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.happens_before import NEVER, Order
from haulout.ir.attributes import format_name
from haulout.ir.enums import Engine
from haulout.ir.schema import Ids


class Chains:
    """The barrier chains of a model by core, and the positions of accesses on them."""

    def __init__(self, model: Model, barriers: Barriers, order: Order) -> None:
        self.model, self.barriers, self.order = model, barriers, order
        self._rows: dict[tuple[int, int], Ids] = {}
        first = np.unique(barriers.chain, return_index=True)[1]
        self.engine: list[int] = barriers.engine[first].tolist()
        self.members = [barriers.members[each] for each in barriers.cores[first].tolist()]

    def rows(self, chain: int, core: int) -> Ids:
        """The barriers (rows of `Barriers`) of a chain on one core, by index."""
        if (chain, core) not in self._rows:
            mine = (self.barriers.chain == chain) & (self.barriers.core == core)
            self._rows[chain, core] = np.flatnonzero(mine).astype(np.int32)
        return self._rows[chain, core]

    def instruction(self, chain: int, core: int, index: int) -> int:
        """The instruction of the barrier with that index."""
        return int(self.barriers.instruction[self.rows(chain, core)[index]])

    def title(self, chain: int, core: int, index: int) -> str:
        """`barrier cb_x (%b, index 3)`."""
        row = int(self.rows(chain, core)[index])
        name = format_name(self.model.program.strings[int(self.barriers.name[row])])
        engine = Engine(self.engine[chain]).text
        return f"barrier {name} ({self.model.name(int(self.barriers.instruction[row]))} @{engine}, index {index})"

    def common(self, first: int, second: int) -> list[int]:
        """Chains that both cores attend, `all` first, then by how many cores attend."""
        chains = [chain for chain, members in enumerate(self.members) if first in members and second in members]
        return sorted(chains, key=lambda chain: (-self.engine[chain], -len(self.members[chain]), chain))

    def band(self, access: int, chain: int) -> str:
        """The barriers of a chain between which an access runs."""
        core = int(self.model.core[self.order.instruction[access]])
        node = int(self.order.node[access])
        up, down = int(self.order.up[node, chain]), int(self.order.down[node, chain])
        after = "the start" if up < 0 else self.title(chain, core, up)
        before = "the end" if down == NEVER else self.title(chain, core, down)
        return f"between {after} and {before}"


def find_cause(chains: Chains, producer: int, consumer: int, directed: bool = True) -> str:
    """Why `producer` (an access) does not come before `consumer`, on another core, where it should.

    If the direction of the pair is unknown (not `directed`), either order is correct.
    """
    model, order = chains.model, chains.order
    i, j = int(order.instruction[producer]), int(order.instruction[consumer])
    first, second = int(model.core[i]), int(model.core[j])
    i_name, j_name = model.name(i), model.name(j)
    for chain in chains.common(first, second):
        here = chains.barriers.instruction[chains.rows(chain, first)]
        there = chains.barriers.instruction[chains.rows(chain, second)]
        begin = int(np.searchsorted(here, i, "right"))
        end = int(np.searchsorted(there, j, "left")) - 1  # barriers begin..end are between the two
        if begin > end:
            continue
        gated = int(order.up[order.node[consumer], chain])
        waits = int(order.down[order.node[producer], chain])
        if waits <= end:
            title = chains.title(chain, second, waits)
            return f"{title} waits for {i_name} but does not hold back @{_engine(model, j)}, where {j_name} runs"
        at = max(begin, min(gated, end))
        title = chains.title(chain, first, at)
        text = f"{title} is between them but does not wait for @{_engine(model, i)}: {i_name} may still be in flight"
        if gated < at:
            text += f"; it does not hold back @{_engine(model, j)} either, where {j_name} runs"
        return text
    if not directed:
        return f"no barrier of both cores is between {i_name} on core {first} and {j_name} on core {second}"
    return f"no barrier of both cores is after {i_name} and before {j_name}{model.later(i, j)}"


def _engine(model: Model, instruction: int) -> str:
    return model.engine_name(instruction)
