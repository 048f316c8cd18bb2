"""Loops, schedules and reachability: over random programs with loops the comparison agrees with a plain oracle.

The oracle runs the generator's own plan, iteration by iteration, as the contract for loops states it: what each
execution starts after, closed over, and every byte that it touches. It shares nothing with the simulator.
"""

import base64
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.sim_programs import program
from tests.sim.test_sim_shadow_property import Oracle

from haulout.sim import compare_schedules
from haulout.sim.plan import plan_visits, prepare
from haulout.sim.run import run, run_reference
from haulout.sim.schedules import ListOrder

ENGINES = ["vector", "pool", "dma0"]
SIZE = 16
TABLE = 4
"""Executions of a header that a table of conditions has room for."""
Context = tuple[tuple[int, int], ...]
"""(loop, iteration), outermost first."""


@dataclass(frozen=True)
class Place:
    """Two bytes of a location that move with the iterations of the loop around: `stride * (k mod modulus)`."""

    location: str
    at: int
    stride: int = 0
    modulus: int = 0

    def bytes(self, iteration: int) -> range:
        k = iteration % self.modulus if self.modulus else iteration
        start = self.at + self.stride * k
        return range(start, start + 2)


@dataclass(frozen=True)
class Copy:
    core: int
    engine: str
    source: Place
    target: Place
    deps: int
    carried: int
    """Bits choose among the copies that there are to wait for."""


@dataclass(frozen=True)
class Barrier:
    engine: str


@dataclass(frozen=True)
class Loop:
    number: int
    trip: int
    says_trip: bool
    engine: str
    """On which the condition is copied from a table."""
    header: tuple["Step", ...]
    body: tuple["Step", ...]


Step = Copy | Barrier | Loop


@st.composite
def places(draw: st.DrawFn, in_loop: bool) -> Place:
    location = draw(st.sampled_from(["shared", "local", "local"]))
    if in_loop and draw(st.booleans()):
        stride, modulus = draw(st.sampled_from([(2, 2), (2, 0), (-2, 0), (1, 3), (-1, 2), (4, 2)]))
        return Place(location, draw(st.sampled_from([6, 8])), stride, modulus)
    return Place(location, draw(st.sampled_from(range(0, SIZE, 2))))


@st.composite
def plans(draw: st.DrawFn, cores: int, depth: int, numbers: list[int], *kinds: str) -> tuple[Step, ...]:
    """Steps of these kinds, and some more."""
    steps: list[Step] = []
    more = ["copy", "copy", "barrier", *(["loop"] if depth < 2 else [])]
    for kind in (*kinds, *draw(st.lists(st.sampled_from(more), max_size=2))):
        if kind == "barrier":
            steps.append(Barrier(draw(st.sampled_from(["all", "all", *ENGINES]))))
        elif kind == "copy":
            source, target = draw(places(depth > 0)), draw(places(depth > 0))
            core, engine = draw(st.integers(0, cores - 1)), draw(st.sampled_from(ENGINES))
            steps.append(Copy(core, engine, source, target, draw(st.integers(0, 15)), draw(st.integers(0, 15))))
        else:
            numbers.append(len(numbers))
            number, trip = numbers[-1], draw(st.integers(0, TABLE - 1))
            header = draw(plans(cores, 2, numbers)) if draw(st.booleans()) else ()
            body = draw(plans(cores, depth + 1, numbers, "copy", "copy"))
            steps.append(Loop(number, trip, draw(st.booleans()), draw(st.sampled_from(ENGINES)), header, body))
    return tuple(steps)


# -- the program -----------------------------------------------------------------------------------------------------


@dataclass
class Named:
    """A copy of the plan in the text: where it stands, and what it waits for."""

    name: str
    core: int
    order: int
    loops: tuple[int, ...]
    in_header: bool
    deps: list["Named"] = field(default_factory=list)
    carried: list["Named"] = field(default_factory=list)

    def dominates(self, other: "Named") -> bool:
        path = self.loops[:-1] if self.in_header else self.loops
        return self.order < other.order and other.loops[: len(path)] == path


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many loops are around both."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Text:
    """Blocks and statements of each core; names of copies by their identity in the plan."""

    def __init__(self, cores: int, plan: tuple[Step, ...]) -> None:
        self.lines: list[list[str]] = [[] for _ in range(cores)]
        self.copies: dict[int, Named] = {}
        self.conditions: dict[tuple[int, int], Named] = {}
        self.tables: list[str] = []
        self.count = 0
        self._collect(plan, (), False)
        self._choose(plan)
        self._each("block ^entry -> {next}:")
        self._emit(plan, ())
        self._each("block ^end:")
        for rows in self.lines:
            self._link(rows)

    def statements(self, core: int) -> str:
        remote = "" if core == 0 else "remote=[shared,0]"
        kind = "kind=inout" if core == 0 else ""
        places = [
            f"mloc %shared dram.shared size={SIZE} dtype=u8 shape=[{SIZE}] {kind} {remote}",
            f"mloc %local dram.local size={SIZE} dtype=u8 shape=[{SIZE}] kind=inout",
        ]
        return "\n".join([*places, *self.tables, *self.lines[core]])

    def _each(self, line: str) -> None:
        for rows in self.lines:
            rows.append(line)

    def _named(self, core: int, loops: tuple[int, ...], in_header: bool) -> Named:
        self.count += 1
        return Named(f"i{self.count}", core, self.count, loops, in_header)

    def _collect(self, plan: tuple[Step, ...], loops: tuple[int, ...], in_header: bool) -> None:
        for step in plan:
            if isinstance(step, Copy):
                self.copies[id(step)] = self._named(step.core, loops, in_header)
            elif isinstance(step, Loop):
                inside = (*loops, step.number)
                for core in range(len(self.lines)):
                    self.conditions[step.number, core] = self._named(core, inside, True)
                self._collect(step.header, inside, True)
                self._collect(step.body, inside, False)

    def _choose(self, plan: tuple[Step, ...]) -> None:
        for step in plan:
            if isinstance(step, Loop):
                self._choose(step.header)
                self._choose(step.body)
            elif isinstance(step, Copy):
                me = self.copies[id(step)]
                others = [*self.copies.values(), *self.conditions.values()]
                mine = [each for each in others if each.core == me.core]
                before = [each for each in mine if each.dominates(me)][-4:]
                around = sorted(mine, key=lambda each: -common(me.loops, each.loops))[:4]
                me.deps = [each for bit, each in enumerate(before) if step.deps >> bit & 1]
                me.carried = [each for bit, each in enumerate(around) if step.carried >> bit & 1]

    def _emit(self, plan: tuple[Step, ...], loops: tuple[int, ...]) -> None:
        for step in plan:
            match step:
                case Barrier(engine):
                    self.count += 1
                    self._each(f"%b{self.count} = core_barrier @{engine} () -> () name=b")
                case Copy():
                    me = self.copies[id(step)]
                    self.lines[step.core].append(_statement(me, step, loops))
                case Loop(number, trip, says_trip, engine):
                    table = [1] * trip + [0] * (TABLE - trip)
                    data = base64.b64encode(bytes(table)).decode()
                    typed = f"dram.local size={TABLE} dtype=u8 shape=[{TABLE}]"
                    self.tables.append(f'mloc %table{number} {typed} kind=const data="{data}"')
                    self.tables.append(f"mloc %cond{number} dram.local size=1 dtype=u8 shape=[]")
                    says = f"trip={trip}" if says_trip else ""
                    self._each(f"block ^h{number} -> ^b{number}, ^e{number} cond=cond{number} {says}:")
                    for core, rows in enumerate(self.lines):
                        rows.append(
                            f"%{self.conditions[number, core].name} = dma_copy @{engine} (%table{number}[0:1]) -> "
                            f"(%cond{number}) step=[[0,h{number},1,0]]"
                        )
                    self._emit(step.header, (*loops, number))
                    self._each(f"block ^b{number} -> {{next}}:")
                    self._emit(step.body, (*loops, number))
                    self._each(f"block ^l{number} -> ^h{number}:")
                    self._each(f"block ^e{number} -> {{next}}:")

    def _link(self, rows: list[str]) -> None:
        """Fill in which block follows."""
        following = ""
        for at in range(len(rows) - 1, -1, -1):
            if rows[at].startswith("block"):
                rows[at] = rows[at].replace("{next}", following)
                following = rows[at].split()[1].rstrip(":")


def _statement(me: Named, step: Copy, loops: tuple[int, ...]) -> str:
    refs, steps = [], []
    for operand, place in enumerate((step.source, step.target)):
        refs.append(f"%{place.location}[{place.at}:{place.at + 2}]")
        if place.stride and loops:
            steps.append(f"[{operand},h{loops[-1]},{place.stride},{place.modulus}]")
    text = f"%{me.name} = dma_copy @{step.engine} ({refs[0]}) -> ({refs[1]})"
    for key, names in (("deps", me.deps), ("carried", me.carried)):
        if names:
            text += f" {key}=[{','.join(each.name for each in names)}]"
    return text + (f" step=[{','.join(steps)}]" if steps else "")


# -- the oracle ------------------------------------------------------------------------------------------------------


class LoopOracle(Oracle):
    """Executes the plan; every execution is a node that knows all nodes before it."""

    def __init__(self, cores: int, text: Text) -> None:
        super().__init__()
        self.text, self.cores = text, range(cores)
        self.executions: dict[str, list[tuple[Context, int]]] = {}
        self.branch: dict[int, set[int]] = {core: set() for core in self.cores}
        self.on_core = {core: [] for core in self.cores}
        self.in_bounds = True

    def run(self, plan: tuple[Step, ...], context: Context) -> None:
        for step in plan:
            match step:
                case Barrier(engine):
                    before = set().union(*(self.before(core, engine) | self.branch[core] for core in self.cores))
                    node = self.node(before)
                    for core in self.cores:
                        self.on_core[core].append((engine, node, node))
                case Copy():
                    node = self._execute(self.text.copies[id(step)], step.engine, context)
                    self._touch_all(node, step, context)
                case Loop():
                    for iteration in range(step.trip + 1):
                        self._header(step, (*context, (step.number, iteration)))
                        if iteration < step.trip:
                            self.run(step.body, (*context, (step.number, iteration)))

    def _header(self, loop: Loop, context: Context) -> None:
        writers = {}
        for core in self.cores:
            writers[core] = self._execute(self.text.conditions[loop.number, core], loop.engine, context)
            self.accesses.append((writers[core], True, {(f"cond{loop.number}of{core}", 0)}))
        self.run(loop.header, context)
        for core in self.cores:
            branch = self.node({writers[core]} | self.branch[core] | self.before(core, "branch"))
            self.accesses.append((branch, False, {(f"cond{loop.number}of{core}", 0)}))
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
        for place, write in ((step.source, False), (step.target, True)):
            storage = place.location if place.location == "shared" else f"local{step.core}"
            touched = place.bytes(iteration)
            self.in_bounds &= touched.start >= 0 and touched.stop <= SIZE
            self.accesses.append((node, write, {(storage, at) for at in touched}))


@settings(max_examples=150)
@given(st.data())
def test_schedules_agree_exactly_when_every_conflict_is_ordered(data: st.DataObject) -> None:
    cores = data.draw(st.integers(1, 2))
    plan = data.draw(plans(cores, 0, [], "copy", "loop", "copy"))
    text = Text(cores, plan)
    oracle = LoopOracle(cores, text)
    oracle.run(plan, ())
    assert oracle.in_bounds
    tested = program(*(text.statements(core) for core in range(cores)))
    report = compare_schedules(tested)
    assert report.agrees == oracle.is_clean, "\n".join(text.lines[0])
    assert not report.assumed
    values = {"shared": np.arange(SIZE, dtype=np.uint8), "local": np.arange(20, 20 + SIZE, dtype=np.uint8)}
    if oracle.is_clean:
        schedules = ["list", *(f"random:{seed}" for seed in range(2))]
        assert compare_schedules(tested, values, schedules, values=True).agrees
    prepared = prepare(tested)
    visits, reference = run_reference(prepared, values)
    again = run(prepared, plan_visits(prepared, visits), values, schedule=ListOrder())
    assert again.statistics == reference.statistics
    for (name, one), other in product(reference.outputs.items(), [again.outputs]):
        np.testing.assert_array_equal(one, other[name])
