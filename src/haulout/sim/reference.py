"""The run that finds out what runs: in the order of the program, as far as the cores let each other.

Section by section: the cores that stand furthest behind enter their next section together, its events happen in the
order of `list`, and its branches say where they go on. Most sections can be run to their end like that; how, is found
once for each section and whoever runs it.

Some cannot: an arm of a divergent branch, say, in which one core meets another one that is in the other arm, or a
wait for a semaphore to which the other core adds in its next section. Then sections *pend*. Whenever cores enter
another one, all that pend are planned again, and what has not happened yet and now can does. What is over on a core
(`settled.py`) pends no more. When no core can enter anything, the cores hang, and the plan of everything tells why.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.schema import Bytes, Ids
from haulout.sim.events.graph import Effect
from haulout.sim.events.schedules import ListOrder, as_far_as_it_goes, event_order
from haulout.sim.events.semaphores import Tally, gains, nothing_counted
from haulout.sim.execution import Execution, Steps
from haulout.sim.flow.control import Fork, Loop
from haulout.sim.flow.trace import Trace
from haulout.sim.flow.visits import Visits, Walk, mask_of
from haulout.sim.plan import Plan, Prepared, plan_section, plan_visits
from haulout.sim.retired import settled
from haulout.support.diagnostics import HauloutError, bad_input, fail

_Alone = tuple[Steps, Tally]
"""How a section is run to its end, and what that adds to the semaphores."""


class Reference:
    """One run in the order of the program, under way."""

    def __init__(self, prepared: Prepared, execution: Execution, most: int) -> None:
        code = prepared.code
        self.prepared, self.execution, self.code, self.nest = prepared, execution, code, code.nest
        self.every = range(prepared.program.lnc)
        self.walk = Walk(code.nest, code.sizes, len(self.every), most)
        self.tally = nothing_counted(prepared.semaphores)
        """Of what does not pend."""
        self.under_way = b""
        """In it, how much more each semaphore is than `wait_back` counts."""
        self.alone: dict[tuple[int, int, bytes], _Alone | None] = {}
        self.pending: dict[int, int] = {}
        """Visits that pend, with masks of cores."""
        self.happened: set[tuple[int, int, int, int]] = set()
        """Events of what pends: row, visit, effect, and which of several."""
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
        """Run a section to its end, when everything before it is over; False: it needs more than that."""
        place = self.walk.places[visit]
        # Waits that look back depend on nothing but how many signals are under way; others get easier.
        key = place.section, mask_of(cores), self.under_way
        if key not in self.alone:
            self.alone[key] = self._plan_alone(place.section, key[1])
        known = self.alone[key]
        if known is None:
            return False
        steps, gained = known
        self.execution.happen(steps, place.iteration)
        self.execution.count(steps.instructions, steps.barriers)
        self._add(gained)
        choice = self.nest.choices.get(place.section)
        if choice is not None:
            branches = self.execution.branches
            taken = tuple(core for core in cores if branches[self.code.branch(choice.blocks[core])])
            self._decide(visit, taken, choice, True)
            if taken != cores:
                self._decide(visit, tuple(core for core in cores if core not in taken), choice, False)
        return True

    def _plan_alone(self, section: int, cores: int) -> _Alone | None:
        try:
            plan = plan_section(self.prepared, section, cores, self.tally, self.every)
        except HauloutError:
            return None
        order = as_far_as_it_goes(plan.trace, plan.graph, ListOrder())
        if len(order) < len(plan.graph):
            return None
        return Steps(plan, order), gains(plan.trace, self.prepared.semaphores)

    def _run_pending(self) -> None:
        """Let happen what can."""
        try:
            plan = plan_visits(self.prepared, self.walk.visits(self.pending), self.tally, self.every)
        except HauloutError:
            self._plan_everything()
            raise
        trace, graph = plan.trace, plan.graph
        order = as_far_as_it_goes(trace, graph, ListOrder())
        numbers = self.walk.chosen(self.pending)
        names = self._names(trace, graph.item[order].tolist(), graph.effect[order].tolist(), numbers)
        is_new = np.array([name not in self.happened for name in names], np.bool_)
        self.happened.update(names)
        steps = Steps(plan, order[is_new])
        self.execution.happen(steps, sent=self.sent, numbers=numbers)
        self._settle(plan, order, numbers)
        for item, effect in zip(steps.item, steps.effect, strict=True):
            if effect == Effect.BRANCHES:
                visit, row = numbers[steps.visit[item]], steps.row[item]
                self._decide(visit, (steps.core[item],), self.code.choice(row), self.execution.branches[row])

    def _settle(self, plan: Plan, order: Ids, numbers: list[int]) -> None:
        """Let go of what is over, core by core; what follows then has no need to plan it again."""
        trace, graph = plan.trace, plan.graph
        over = settled(plan, order)
        for visit, cores in zip(numbers, over.T.tolist(), strict=True):
            self.pending[visit] &= ~mask_of(tuple(core for core in self.every if cores[core]))
            if not self.pending[visit]:
                del self.pending[visit]
        if not self.pending:
            self.happened, self.sent = set(), {}
        items = over[trace.core, trace.visit]
        instructions = int((items & (trace.row < self.code.instructions)).sum())
        self.execution.count(instructions, int((items[graph.item] & (graph.queue == NONE)).sum()))
        self._add(gains(trace, self.prepared.semaphores, items))

    def _names(
        self, trace: Trace, items: list[int], effects: list[int], numbers: list[int]
    ) -> list[tuple[int, int, int, int]]:
        """What events are called whatever else pends; deliveries of one instruction are told apart by number."""
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
        self.under_way = (self.tally.value - self.tally.issued).tobytes()

    def _plan_everything(self) -> Plan:
        """The plan of the run so far; in it, what is wrong is told with the counts of the whole run."""
        walk = self.walk
        going_on = {*walk.undecided, *(core for cores in walk.ready.values() for core in cores)}
        return plan_visits(self.prepared, walk.visits(), going_on=going_on)

    def _explain(self) -> NoReturn:
        """Raise why the cores hang: a mismatch, or what waits for what."""
        plan = self._plan_everything()
        event_order(plan.trace, plan.graph, ListOrder())
        raise AssertionError("the cores hang, but their plan does not")

    def _decide(self, visit: int, cores: tuple[int, ...], choice: Loop | Fork, taken: bool) -> None:
        """Send cores on their way. Raises where they disagree, with others or with the loop's trip."""
        if not cores:
            return
        walk, code = self.walk, self.code
        place = walk.places[visit]
        decided = walk.decided[visit]
        if decided and not choice.divergent and (walk.taken[visit] != 0) != taken:
            other = (decided & -decided).bit_length() - 1
            where = ", ".join(map(str, place.iteration))
            says = [
                code.label(code.branch(choice.blocks[core]), f"core {core} {choice.takes(takes)}")
                for core, takes in sorted([(other, not taken), (cores[0], taken)])
            ]
            fail(
                "barrier-mismatch",
                f"cores take different branches at {choice.name}" + (f", in iteration {where}" if where else ""),
                *says,
                help=["`divergent=true` on the block says that they may"] if isinstance(choice, Fork) else [],
            )
        if isinstance(choice, Loop) and choice.trip >= 0 and taken != (place.iteration[-1] < choice.trip):
            k = place.iteration[-1]
            does = f"enters the body once more after {k}" if taken else f"leaves the loop after {k}"
            label = code.label(code.branch(choice.blocks[cores[0]]))
            bad_input(f"{choice.name} says trip={choice.trip}, but its branch {does} iterations", label)
        walk.decide(visit, cores, taken)
