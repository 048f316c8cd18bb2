"""Why two accesses of different cores are not ordered, in words.

Some barrier between the two, by list order, is what a reader of the program sees. Of the three causes, the first is
that there is none. The second: there is one, but it does not wait for the producer's engine, so the producer may
still be in flight when it opens. The third: it waits, but it does not hold back the consumer's engine.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.happens_before import NEVER, Order
from haulout.ir.attributes import format_name
from haulout.ir.enums import Engine
from haulout.ir.schema import Ids


class Lines:
    """The barrier lines of a model by core, and where accesses stand on them."""

    def __init__(self, model: Model, barriers: Barriers, order: Order) -> None:
        self.model, self.barriers, self.order = model, barriers, order
        self._rows: dict[tuple[int, int], Ids] = {}
        first = np.unique(barriers.line, return_index=True)[1]
        self.engine: list[int] = barriers.engine[first].tolist()
        self.cores: list[int] = barriers.cores[first].tolist()

    def rows(self, line: int, core: int) -> Ids:
        """The barriers (rows of `Barriers`) of a line on one core, by index."""
        if (line, core) not in self._rows:
            mine = (self.barriers.line == line) & (self.barriers.core == core)
            self._rows[line, core] = np.flatnonzero(mine).astype(np.int32)
        return self._rows[line, core]

    def instruction(self, line: int, core: int, index: int) -> int:
        """The instruction of the barrier with that index."""
        return int(self.barriers.instruction[self.rows(line, core)[index]])

    def title(self, line: int, core: int, index: int) -> str:
        """`barrier cb_x (%b, index 3)`."""
        row = int(self.rows(line, core)[index])
        name = format_name(self.model.program.strings[int(self.barriers.name[row])])
        engine = Engine(self.engine[line]).text
        return f"barrier {name} ({self.model.name(int(self.barriers.instruction[row]))} @{engine}, index {index})"

    def common(self, first: int, second: int) -> list[int]:
        """Lines that both cores attend, `all` first, then by how many cores attend."""
        both = 1 << first | 1 << second
        lines = [line for line, cores in enumerate(self.cores) if cores & both == both]
        return sorted(lines, key=lambda line: (-self.engine[line], -self.cores[line].bit_count(), line))

    def band(self, access: int, line: int) -> str:
        """Between which barriers of a line an access runs."""
        core = int(self.model.core[self.order.instruction[access]])
        node = int(self.order.node[access])
        up, down = int(self.order.up[node, line]), int(self.order.down[node, line])
        after = "the start" if up < 0 else self.title(line, core, up)
        before = "the end" if down == NEVER else self.title(line, core, down)
        return f"between {after} and {before}"


def find_cause(lines: Lines, producer: int, consumer: int, directed: bool = True) -> str:
    """Why `producer` (an access) does not come before `consumer`, on another core, where it should.

    Where nothing says that it should (not `directed`), either order will do.
    """
    model, order = lines.model, lines.order
    i, j = int(order.instruction[producer]), int(order.instruction[consumer])
    first, second = int(model.core[i]), int(model.core[j])
    i_name, j_name = model.name(i), model.name(j)
    for line in lines.common(first, second):
        here = lines.barriers.instruction[lines.rows(line, first)]
        there = lines.barriers.instruction[lines.rows(line, second)]
        begin = int(np.searchsorted(here, i, "right"))
        end = int(np.searchsorted(there, j, "left")) - 1  # barriers begin..end stand between the two
        if begin > end:
            continue
        gated = int(order.up[order.node[consumer], line])
        waits = int(order.down[order.node[producer], line])
        if waits <= end:
            title = lines.title(line, second, waits)
            return f"{title} waits for {i_name} but does not hold back @{_engine(model, j)}, where {j_name} runs"
        at = max(begin, min(gated, end))
        title = lines.title(line, first, at)
        text = (
            f"{title} stands between them but does not wait for @{_engine(model, i)}: {i_name} may still be in flight"
        )
        if gated < at:
            text += f"; nor does it hold back @{_engine(model, j)}, where {j_name} runs"
        return text
    if not directed:
        return f"no barrier of both cores stands between {i_name} on core {first} and {j_name} on core {second}"
    return f"no barrier of both cores stands after {i_name} and before {j_name}{model.later(i, j)}"


def _engine(model: Model, instruction: int) -> str:
    return model.engine_name(instruction)
