"""Semaphores, schedules and order: over random programs the comparison agrees with what can run without an access.

What an instruction needs in order to start stays fulfilled. So x is before y on every schedule exactly when y is not
in the largest run in which x never completes; the oracle makes that run for every access, by trying again and again.
And programs whose dependences `lower_sync` has made into semaphores run as before.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.nest_plans import Around, Text, plans
from tests.sim.sim_programs import program
from tests.sim.test_sim_nest_property import LOCAL, SHARED, NestOracle
from tests.sim.test_sim_semaphores import found, lowered, without_signal
from tests.tiers import examples

from haulout.ir.program import Program
from haulout.sim import compare_schedules, simulate
from haulout.sim.events.schedules import RandomOrder, adversarial_schedules
from haulout.sim.plan import plan_visits, prepare
from haulout.sim.run import run, run_reference
from haulout.support.diagnostics import HauloutError

ENGINES = ["vector", "dma0"]
Semaphore = tuple[int, str]
"""Core and name."""


@dataclass
class Node:
    """Something that happens at one moment on one or all cores."""

    cores: Sequence[int]
    engine: str
    needs: list[tuple[Semaphore, int]] = field(default_factory=list)
    adds: list[tuple[Semaphore, int]] = field(default_factory=list)
    touched: list[tuple[bool, tuple[str, int]]] = field(default_factory=list)
    """Whether it writes, and a byte."""

    def is_behind(self, other: "Node") -> bool:
        """Whether an earlier node is on a line in front of it."""
        lines = {self.engine, other.engine}
        return bool(set(self.cores) & set(other.cores)) and (len(lines) == 1 or "all" in lines)


def largest_run(nodes: list[Node], without: int = -1) -> set[int]:
    """What happens when one node never does."""
    done: set[int] = set()
    value: Counter[Semaphore] = Counter()
    before = {at: {k for k in range(at) if node.is_behind(nodes[k])} for at, node in enumerate(nodes)}
    goes_on = True
    while goes_on:
        goes_on = False
        for at, node in enumerate(nodes):
            ready = before[at] <= done and all(value[semaphore] >= least for semaphore, least in node.needs)
            if at not in done and at != without and ready:
                done.add(at)
                value.update(dict_of(node.adds))
                goes_on = True
    return done


def dict_of(adds: list[tuple[Semaphore, int]]) -> Counter[Semaphore]:
    total: Counter[Semaphore] = Counter()
    for semaphore, amount in adds:
        total[semaphore] += amount
    return total


def is_clean(nodes: list[Node]) -> bool:
    runs = [largest_run(nodes, at) for at in range(len(nodes))]
    for a, b in combinations(range(len(nodes)), 2):
        conflict = any(
            one == other and (wa or wb) for wa, one in nodes[a].touched for wb, other in nodes[b].touched
        )  # fmt: skip
        if conflict and b in runs[a] and a in runs[b]:
            return False
    return True


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, list[Node]]:
    """A straight program, and what happens in it."""
    cores = draw(st.integers(1, 3))
    lines: list[list[str]] = [
        [
            f"mloc %shared dram.shared size=8 dtype=u8 shape=[8] {'remote=[shared,0]' if core else 'kind=inout'}",
            "mloc %local dram.local size=8 dtype=u8 shape=[8] kind=inout",
        ]
        for core in range(cores)
    ]
    nodes: list[Node] = []
    value: Counter[Semaphore] = Counter()
    issued: Counter[Semaphore] = Counter()
    for number in range(draw(st.integers(2, 8))):
        if draw(st.integers(0, 7)) == 0:
            for rows in lines:
                rows.append(f"%i{number} = core_barrier @all () -> () name=b")
            nodes.append(Node(range(cores), "all"))
            continue
        core, engine = draw(st.integers(0, cores - 1)), draw(st.sampled_from(ENGINES))
        node = Node([core], engine)
        said: dict[str, list[str]] = {}
        for name in draw(st.lists(st.sampled_from("st"), max_size=2)):
            own, kind = (core, name), draw(st.sampled_from(["wait", "wait", "wait_back"]))
            if kind == "wait":
                # Mostly what is there when the cores do their lists in turn.
                most = value[own] + draw(st.sampled_from([0, 0, 0, 0, 1]))
                count = least = draw(st.integers(min(1, most), most))
            else:
                count = draw(st.integers(0, 1))
                least = issued[own] - count
            said.setdefault(kind, []).append(f"[{name},{count}]")
            node.needs.append((own, least))
        places = [(draw(st.sampled_from(["shared", "local"])), draw(st.integers(0, 3))) for _ in range(2)]
        node.touched = [
            (write, (where if where == "shared" else f"local{core}", at))
            for write, (where, at) in zip((False, True), places, strict=True)
        ]
        for name in draw(st.lists(st.sampled_from("st"), max_size=2)):
            target, amount = draw(st.integers(0, cores - 1)), draw(st.integers(1, 2))
            key, text = ("signal", "") if target == core else ("remote_signal", f"{target},")
            said.setdefault(key, []).append(f"[{text}{name},{amount}]")
            node.adds.append(((target, name), amount))
            issued[core, name] += amount
        value.update(dict_of(node.adds))
        source, target_text = (f"%{where}[{at}:{at + 1}]" for where, at in places)
        attrs = " ".join(f"{key}=[{','.join(rows)}]" for key, rows in said.items())
        lines[core].append(f"%i{number} = dma_copy @{engine} ({source}) -> ({target_text}) {attrs}")
        nodes.append(node)
    return program(*("\n".join(rows) for rows in lines)), nodes


@settings(max_examples=examples(400))
@given(programs())
def test_schedules_agree_exactly_when_every_conflict_is_ordered(drawn: tuple[Program, list[Node]]) -> None:
    tested, nodes = drawn
    if len(largest_run(nodes)) < len(nodes):
        for call in (compare_schedules, simulate):
            with pytest.raises(HauloutError) as caught:
                call(tested)
            assert caught.value.diagnostics[0].code == "deadlock"
        return
    report = compare_schedules(tested)
    assert report.agrees == is_clean(nodes)
    assert bool(report.diagnostics) == (not report.agrees)
    if report.agrees:
        assert compare_schedules(tested, schedules=["list", *(f"random:{k}" for k in range(5))], values=True).agrees


@settings(max_examples=examples(100))
@given(st.data(), st.sampled_from([("copy", "copy", "copy"), ("copy", "loop", "copy"), ("copy", "branch", "copy")]))
def test_lowered_programs_run_as_before(data: st.DataObject, kinds: tuple[str, ...]) -> None:
    """On every schedule, with a semaphore an engine or one for all."""
    cores = data.draw(st.integers(1, 2))
    nests = () if "loop" not in kinds and "branch" not in kinds else ("loop", "branch")
    plan = data.draw(plans(Around(cores, nests), [], *kinds))
    text = Text(cores, plan, strict=True)
    oracle = NestOracle(cores, text)
    oracle.run(plan, (), range(cores))
    tested = program(*(text.statements(core) for core in range(cores)))
    if not oracle.is_clean:
        return
    try:
        low = lowered(tested, semaphores=data.draw(st.sampled_from([1, 32])))
    except HauloutError as error:
        assert error.diagnostics[0].code == "too-few-semaphores"
        low = lowered(tested)
    values = {"shared": np.array(SHARED, np.uint8), "local": np.array(LOCAL, np.uint8)}
    report = compare_schedules(low, values)
    assert report.agrees, report.diagnostics
    prepared = prepare(low)
    planned = plan_visits(prepared, run_reference(prepared, values)[0])
    for schedule in [*adversarial_schedules(planned.trace), *(RandomOrder(seed) for seed in range(2))]:
        outputs = run(prepared, planned, values, schedule=schedule).outputs
        assert bytes(outputs["nc0/shared"]) == oracle.memory["shared"], str(schedule)
        for core in range(cores):
            assert bytes(outputs[f"nc{core}/local"]) == oracle.memory[f"local{core}"], str(schedule)
    if not nests:
        # In a straight list the last signal of a counter is waited for by its number.
        for at in range(int((~low.semaphores.wait).sum())):
            assert found(without_signal(low, at), values)
