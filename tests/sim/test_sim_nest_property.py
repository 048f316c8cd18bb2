"""Loops and branches, schedules and reachability: over random programs the comparison agrees with a plain oracle.

The oracle runs the generator's own plan, iteration by iteration, as the contract for control flow states it: what
each execution starts after, closed over, every byte that it touches, and what memory holds when the plan's steps are
done one by one. It shares nothing with the simulator.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.nest_plans import SIZE, Around, Barrier, Branch, Copy, Loop, Named, Step, Text, common, plans
from tests.sim.sim_programs import program
from tests.sim.test_sim_shadow_property import Oracle
from tests.tiers import examples

from haulout.sim import compare_schedules
from haulout.sim.events.schedules import ListOrder, RandomOrder, adversarial_schedules
from haulout.sim.plan import plan_visits, prepare
from haulout.sim.run import run, run_reference

Context = tuple[tuple[int, int], ...]
"""(loop, iteration), outermost first."""
SHARED, LOCAL = range(SIZE), range(20, 20 + SIZE)
"""What memory holds at the start."""


class NestOracle(Oracle):
    """Executes the plan; every execution is a node that knows all nodes before it."""

    def __init__(self, cores: int, text: Text) -> None:
        super().__init__()
        self.text = text
        self.executions: dict[str, list[tuple[Context, int]]] = {}
        self.branch: dict[int, set[int]] = {core: set() for core in range(cores)}
        self.on_core = {core: [] for core in range(cores)}
        self.in_bounds = True
        self.memory = {"shared": bytearray(SHARED)} | {f"local{core}": bytearray(LOCAL) for core in range(cores)}

    def run(self, plan: tuple[Step, ...], context: Context, cores: Sequence[int]) -> None:
        for step in plan:
            match step:
                case Barrier(engine):
                    self._meet(engine, cores)
                case Copy(core) if core in cores:
                    node = self._execute(self.text.copies[id(step)], step.engine, context)
                    self._touch_all(node, step, context)
                case Loop():
                    for iteration in range(step.trip + 1):
                        inside = (*context, (step.number, iteration))
                        writers = self._condition(step, inside, cores)
                        self.run(step.header, inside, cores)
                        self._decide(step, writers)
                        if iteration < step.trip:
                            self.run(step.body, inside, cores)
                case Branch():
                    self._decide(step, self._condition(step, context, cores))
                    at = context[-1][1] if context else 0
                    takers = [[core for core in cores if step.choices[core][at] != arm] for arm in range(2)]
                    for part, engine in enumerate((*step.meets, "")):
                        for arm, taking in zip(step.arms, takers, strict=False):
                            self.run(arm[part], context, taking)
                        if engine:
                            self._meet(engine, cores)

    def _meet(self, engine: str, cores: Sequence[int]) -> None:
        node = self.node(set().union(*(self.before(core, engine) | self.branch[core] for core in cores)))
        for core in cores:
            self.on_core[core].append((engine, node, node))

    def _condition(self, step: Loop | Branch, context: Context, cores: Sequence[int]) -> dict[int, int]:
        writers = {}
        for core in cores:
            writers[core] = self._execute(self.text.conditions[step.number, core], step.engine, context)
            self.accesses.append((writers[core], True, {(f"cond{step.number}of{core}", 0)}))
        return writers

    def _decide(self, step: Loop | Branch, writers: dict[int, int]) -> None:
        for core, writer in writers.items():
            branch = self.node({writer} | self.branch[core] | self.before(core, "branch"))
            self.accesses.append((branch, False, {(f"cond{step.number}of{core}", 0)}))
            self.on_core[core].append(("branch", branch, branch))
            self.branch[core] = {branch}

    def _execute(self, me: Named, engine: str, context: Context) -> int:
        waits = set(self.branch[me.core])
        for producer in me.deps:
            waits.add(self.executions[producer.name][-1][1])
        for producer in me.carried:
            depth = common(me.loops, producer.loops)
            if depth == 0:
                continue
            previous = (*context[: depth - 1], (context[depth - 1][0], context[depth - 1][1] - 1))
            found = [node for where, node in self.executions.get(producer.name, []) if where[:depth] == previous]
            waits.update(found[-1:])
        node = self.instruction(me.core, engine, waits)
        self.executions.setdefault(me.name, []).append((context, node))
        return node

    def _touch_all(self, node: int, step: Copy, context: Context) -> None:
        iteration = context[-1][1] if context else 0
        touched = []
        for place, write in ((step.source, False), (step.target, True)):
            storage = place.location if place.location == "shared" else f"local{step.core}"
            at = place.bytes(iteration)
            self.in_bounds &= at.start >= 0 and at.stop <= SIZE
            self.accesses.append((node, write, {(storage, byte) for byte in at}))
            touched.append((self.memory[storage], slice(at.start, at.stop)))
        (source, read), (target, written) = touched
        target[written] = source[read]


@settings(max_examples=examples(150))
@given(st.data(), st.sampled_from([("copy", "loop", "copy"), ("copy", "branch", "copy"), ("branch", "loop")]))
def test_schedules_agree_exactly_when_every_conflict_is_ordered(data: st.DataObject, kinds: tuple[str, ...]) -> None:
    cores = data.draw(st.integers(1, 2))
    plan = data.draw(plans(Around(cores, ("loop", "branch")), [], *kinds))
    text = Text(cores, plan)
    oracle = NestOracle(cores, text)
    oracle.run(plan, (), range(cores))
    assert oracle.in_bounds
    tested = program(*(text.statements(core) for core in range(cores)))
    report = compare_schedules(tested)
    assert report.agrees == oracle.is_clean, "\n".join(text.lines[0])
    assert not report.assumed
    values = {"shared": np.array(SHARED, np.uint8), "local": np.array(LOCAL, np.uint8)}
    prepared = prepare(tested)
    visits, reference = run_reference(prepared, values)
    planned = plan_visits(prepared, visits)
    again = run(prepared, planned, values, schedule=ListOrder())
    assert again.statistics == reference.statistics
    for (name, one), other in product(reference.outputs.items(), [again.outputs]):
        np.testing.assert_array_equal(one, other[name])
    if oracle.is_clean:
        schedules = [*adversarial_schedules(planned.trace), *(RandomOrder(seed) for seed in range(2))]
        for schedule in schedules:
            outputs = run(prepared, planned, values, schedule=schedule).outputs
            assert bytes(outputs["nc0/shared"]) == oracle.memory["shared"], str(schedule)
            for core in range(cores):
                assert bytes(outputs[f"nc{core}/local"]) == oracle.memory[f"local{core}"], str(schedule)
