"""The reference run, in program order: it finds what runs by running it, section by section.

The cores that are first in program order enter their next section together, its events happen in the order of the
schedule `list`, and its branches decide where the cores go next. Most sections run to their end this way; the order
of their events is computed once for each section and set of cores.

Some sections depend on later ones: in an arm of a divergent fork, say, a core waits at a barrier for a core that
takes the other arm, or it waits for a semaphore that another core raises in its next section. Such sections *pend*.
Each time that cores enter another section, all pending sections are planned again, and every event that has become
possible happens. Sections that are complete on a core (`retired.py`) no longer pend. When no core can enter a
section, the cores hang; the plan of everything then explains why.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.schema import Bytes, Ids
from haulout.ir.structure import Fork, Loop
from haulout.sim.events.graph import Effect
from haulout.sim.events.schedules import ListOrder, event_order, possible_events
from haulout.sim.events.semaphores import Tally, gains, nothing_counted
from haulout.sim.execution import Execution, Steps
from haulout.sim.flow.trace import Trace
from haulout.sim.flow.visits import Visits, Walk, mask_of
from haulout.sim.plan import Plan, Prepared, plan_section, plan_visits
from haulout.sim.retired import find_retired
from haulout.support.diagnostics import HauloutError, bad_input, fail

_Alone = tuple[Steps, Tally]
"""The steps that run a section to its end, and what they add to semaphores."""


class Reference:
    """One run in program order, in progress."""

    def __init__(self, prepared: Prepared, execution: Execution, limit: int) -> None:
        self.prepared, self.execution, self.code = prepared, execution, prepared.code
        self.every = range(prepared.program.lnc)
        self.walk = Walk(prepared.code, limit)
        self.tally = nothing_counted(prepared.semaphores)
        """The semaphores after all sections that do not pend."""
        self.excess = b""
        """Of each semaphore in `tally`: its value, less what `wait_back` counts."""
        self.alone: dict[tuple[int, int, bytes], _Alone | None] = {}
        self.pending: dict[int, int] = {}
        """Visits that pend, with masks of cores."""
        self.happened: set[tuple[int, int, int, int]] = set()
        """Events of pending sections: row, visit, effect, and an index that tells equal ones apart."""
        self.sent: dict[tuple[int, int], Bytes] = {}

    def run(self) -> Visits:
        """Everything that runs. Raises what `simulate` raises."""
        while self.walk.ready:
            visit, cores = self.walk.enter()
            if self.pending or not self._run_alone(visit, cores):
                self.pending[visit] = self.pending.get(visit, 0) | mask_of(cores)
                self._run_pending()
        if self.pending:
            self._explain()
        return self.walk.visits()

    def _run_alone(self, visit: int, cores: tuple[int, ...]) -> bool:
        """Run a section to its end, after everything before it; False: it depends on later sections."""
        place = self.walk.places[visit]
        # `wait_back` depends only on the excess; the condition of `wait` stays true once it is true.
        key = place.section, mask_of(cores), self.excess
        if key not in self.alone:
            self.alone[key] = self._plan_alone(place.section, key[1])
        known = self.alone[key]
        if known is None:
            return False
        steps, gained = known
        self.execution.happen(steps, place.iteration)
        self.execution.count(steps.instructions, steps.barriers)
        self._add(gained)
        if place.section in self.code.sections.choices:
            branches = self.execution.branches
            taken = tuple(core for core in cores if branches[self.code.branch(place.section, core)])
            self._decide(visit, taken, True)
            if taken != cores:
                self._decide(visit, tuple(core for core in cores if core not in taken), False)
        return True

    def _plan_alone(self, section: int, cores: int) -> _Alone | None:
        try:
            plan = plan_section(self.prepared, section, cores, self.tally, self.every)
        except HauloutError:
            return None
        order = possible_events(plan.trace, plan.graph, ListOrder())
        if len(order) < len(plan.graph):
            return None
        return Steps(plan, order), gains(plan.trace, self.prepared.semaphores)

    def _run_pending(self) -> None:
        """Let the possible events of pending sections happen."""
        try:
            plan = plan_visits(self.prepared, self.walk.visits(self.pending), self.tally, self.every)
        except HauloutError:
            self._plan_everything()
            raise
        trace, graph = plan.trace, plan.graph
        order = possible_events(trace, graph, ListOrder())
        numbers = self.walk.chosen(self.pending)
        names = self._names(trace, graph.item[order].tolist(), graph.effect[order].tolist(), numbers)
        is_new = np.array([name not in self.happened for name in names], np.bool_)
        self.happened.update(names)
        steps = Steps(plan, order[is_new])
        self.execution.happen(steps, sent=self.sent, numbers=numbers)
        self._retire(plan, order, numbers)
        for item, effect in zip(steps.item, steps.effect, strict=True):
            if effect == Effect.BRANCHES:
                visit, row = numbers[steps.visit[item]], steps.row[item]
                self._decide(visit, (steps.core[item],), self.execution.branches[row])

    def _retire(self, plan: Plan, order: Ids, numbers: list[int]) -> None:
        """Remove what is complete, core by core, from the pending visits; later plans do without it."""
        trace, graph = plan.trace, plan.graph
        retired = find_retired(plan, order)
        for visit, cores in zip(numbers, retired.T.tolist(), strict=True):
            self.pending[visit] &= ~mask_of(tuple(core for core in self.every if cores[core]))
            if not self.pending[visit]:
                del self.pending[visit]
        if not self.pending:
            self.happened, self.sent = set(), {}
        items = retired[trace.core, trace.visit]
        instructions = int((items & (trace.row < self.code.instructions)).sum())
        self.execution.count(instructions, int((items[graph.item] & (graph.queue == NONE)).sum()))
        self._add(gains(trace, self.prepared.semaphores, items))

    def _names(
        self, trace: Trace, items: list[int], effects: list[int], numbers: list[int]
    ) -> list[tuple[int, int, int, int]]:
        """Names of events that do not depend on other pending visits; deliveries of one instruction are numbered."""
        rows, visits = trace.row.tolist(), trace.visit.tolist()
        count: dict[tuple[int, int, int], int] = {}
        names = []
        for item, effect in zip(items, effects, strict=True):
            name = rows[item], numbers[visits[item]], effect
            count[name] = count.get(name, -1) + 1
            names.append((*name, count[name]))
        return names

    def _add(self, gained: Tally) -> None:
        if not len(gained.value):
            return
        self.tally = Tally(self.tally.value + gained.value, self.tally.issued + gained.issued)
        self.excess = (self.tally.value - self.tally.issued).tobytes()

    def _plan_everything(self) -> Plan:
        """The plan of the run so far: its messages have the counts of the whole run."""
        walk = self.walk
        unfinished = {*walk.undecided, *(core for cores in walk.ready.values() for core in cores)}
        return plan_visits(self.prepared, walk.visits(), unfinished=unfinished)

    def _explain(self) -> NoReturn:
        """Raise the reason why the cores hang: a mismatch or a cycle of waits."""
        plan = self._plan_everything()
        event_order(plan.trace, plan.graph, ListOrder())
        raise AssertionError("the cores hang, but their plan does not")

    def _decide(self, visit: int, cores: tuple[int, ...], taken: bool) -> None:
        """Move cores past their branches. Raises where they disagree, with other cores or with the loop's trip."""
        if not cores:
            return
        walk, code = self.walk, self.code
        place, decided = walk.places[visit], walk.decided[visit]
        choice, name = code.sections.choices[place.section], code.choice_name(place.section)
        branch = code.branch(place.section, cores[0])
        is_divergent = isinstance(choice, Fork) and choice.divergent
        if decided and not is_divergent and (walk.taken[visit] != 0) != taken:
            other = (decided & -decided).bit_length() - 1
            where = ", ".join(map(str, place.iteration))
            fail(
                "barrier-mismatch",
                f"cores take different branches at {name}" + (f", in iteration {where}" if where else ""),
                *(
                    code.label(code.branch(place.section, core), f"core {core} {code.effect(branch, takes)}")
                    for core, takes in sorted([(other, not taken), (cores[0], taken)])
                ),
                help=["`divergent=true` on the block allows it"] if isinstance(choice, Fork) else [],
            )
        if isinstance(choice, Loop) and choice.trip >= 0 and taken != (place.iteration[-1] < choice.trip):
            k = place.iteration[-1]
            does = f"enters the body once more after {k}" if taken else f"leaves the loop after {k}"
            bad_input(f"{name} has trip={choice.trip}, but its branch {does} iterations", code.label(branch))
        walk.decide(visit, cores, taken)
