"""Random programs of loops and branches in each other: a plan that an oracle can run, and its text.

Conditions are copied from tables that move with the iterations of the loop around, so that the plan says how often
loops run and where branches go. In the arms of a divergent branch stand equally many barriers, so nothing hangs.
"""

import base64
from dataclasses import dataclass, field

from hypothesis import strategies as st

ENGINES = ["vector", "pool", "dma0"]
SIZE = 16
TABLE = 4
"""Executions of a condition that a table has room for."""


@dataclass(frozen=True)
class Place:
    """Two bytes of a location that move with the iterations around: `stride * ((k + phase) mod modulus)`."""

    location: str
    at: int
    stride: int = 0
    modulus: int = 0
    phase: int = 0

    def bytes(self, iteration: int) -> range:
        k = (iteration + self.phase) % self.modulus if self.modulus else iteration
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

    def table(self, core: int) -> list[int]:
        return [1] * self.trip + [0] * (TABLE - self.trip)


@dataclass(frozen=True)
class Branch:
    number: int
    divergent: bool
    choices: tuple[tuple[int, ...], ...]
    """For each core: in which iterations of the loop around it takes the first arm."""
    engine: str
    meets: tuple[str, ...]
    """Engines of the barriers between the parts of an arm."""
    arms: tuple[tuple[tuple["Step", ...], ...], ...]
    """One or two, each in parts."""

    def table(self, core: int) -> list[int]:
        return list(self.choices[core])


Step = Copy | Barrier | Loop | Branch


@st.composite
def places(draw: st.DrawFn, in_loop: bool) -> Place:
    location = draw(st.sampled_from(["shared", "local", "local"]))
    if in_loop and draw(st.booleans()):
        stride, modulus = draw(st.sampled_from([(2, 2), (2, 0), (-2, 0), (1, 3), (-1, 2), (4, 2)]))
        phase = draw(st.integers(0, modulus - 1)) if modulus else 0
        return Place(location, draw(st.sampled_from([6, 8])), stride, modulus, phase)
    return Place(location, draw(st.sampled_from(range(0, SIZE, 2))))


@dataclass(frozen=True)
class Around:
    """What is around the steps to be drawn."""

    cores: int
    kinds: tuple[str, ...] = ("loop",)
    """What may stand in each other."""
    depth: int = 0
    in_loop: bool = False
    meets: bool = True
    """Whether all cores come here together."""

    def inside(self, in_loop: bool, meets: bool = True) -> "Around":
        return Around(self.cores, self.kinds, self.depth + 1, self.in_loop or in_loop, self.meets and meets)


@st.composite
def plans(draw: st.DrawFn, around: Around, numbers: list[int], *kinds: str) -> tuple[Step, ...]:
    """Steps of these kinds, and some more."""
    steps: list[Step] = []
    nests = list(around.kinds) if around.depth < 2 else []
    more = ["copy", "copy", *(["barrier"] if around.meets else []), *nests]
    for kind in (*kinds, *draw(st.lists(st.sampled_from(more), max_size=2))):
        if kind == "barrier":
            steps.append(Barrier(draw(st.sampled_from(["all", "all", *ENGINES]))))
        elif kind == "copy":
            source, target = draw(places(around.in_loop)), draw(places(around.in_loop))
            core, engine = draw(st.integers(0, around.cores - 1)), draw(st.sampled_from(ENGINES))
            steps.append(Copy(core, engine, source, target, draw(st.integers(0, 15)), draw(st.integers(0, 15))))
        elif kind == "loop":
            numbers.append(len(numbers))
            number, trip = numbers[-1], draw(st.integers(0, TABLE - 1))
            headed = Around(around.cores, (), 2, True, around.meets)
            header = draw(plans(headed, numbers)) if draw(st.booleans()) else ()
            body = draw(plans(around.inside(True), numbers, "copy", "copy"))
            steps.append(Loop(number, trip, draw(st.booleans()), draw(st.sampled_from(ENGINES)), header, body))
        else:
            steps.append(draw(branches(around, numbers)))
    return tuple(steps)


@st.composite
def branches(draw: st.DrawFn, around: Around, numbers: list[int]) -> Branch:
    numbers.append(len(numbers))
    number, divergent = numbers[-1], draw(st.booleans())
    choice = st.tuples(*(st.integers(0, 1) for _ in range(TABLE)))
    first = draw(choice)
    choices = tuple(draw(choice) if divergent and core else first for core in range(around.cores))
    arms = draw(st.integers(1, 2))
    meets = draw(st.lists(st.sampled_from(["all", *ENGINES]), max_size=2)) if around.meets and arms == 2 else []
    inside = around.inside(False, not divergent)
    parts = [[draw(plans(inside, numbers, "copy")) for _ in range(len(meets) + 1)] for _ in range(arms)]
    engine = draw(st.sampled_from(ENGINES))
    return Branch(number, divergent, choices, engine, tuple(meets), tuple(tuple(each) for each in parts))


# -- the program -----------------------------------------------------------------------------------------------------

Region = tuple[int, int]
"""(number of a loop, -1), or of a branch and the arm."""


@dataclass
class Named:
    """A copy of the plan in the text: where it stands, and what it waits for."""

    name: str
    core: int
    order: int
    regions: tuple[Region, ...]
    in_header: bool
    deps: list["Named"] = field(default_factory=list)
    carried: list["Named"] = field(default_factory=list)

    @property
    def loops(self) -> tuple[int, ...]:
        return tuple(number for number, arm in self.regions if arm < 0)

    def dominates(self, other: "Named") -> bool:
        path = self.regions[:-1] if self.in_header else self.regions
        return self.order < other.order and other.regions[: len(path)] == path

    def runs_in_all_iterations_around(self, other: "Named") -> bool:
        return common(self.loops, other.loops) > 0 and all(arm < 0 for _, arm in self.regions)


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many loops are around both."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Text:
    """Blocks and statements of each core; names of copies by their identity in the plan.

    `strict`: nothing is carried but from what every iteration of a common loop runs, as passes have it.
    """

    def __init__(self, cores: int, plan: tuple[Step, ...], strict: bool = False) -> None:
        self.lines: list[list[str]] = [[] for _ in range(cores)]
        self.copies: dict[int, Named] = {}
        self.steps: list[tuple[Named, Copy]] = []
        self.conditions: dict[tuple[int, int], Named] = {}
        self.tables: list[list[str]] = [[] for _ in range(cores)]
        self.count = 0
        self._collect(plan, (), False)
        self._choose(strict)
        self._each("block ^entry -> {next}:")
        self._emit(plan, ())
        self._each("block ^end:")
        for rows in self.lines:
            self._link(rows)

    def statements(self, core: int) -> str:
        remote = "" if core == 0 else "remote=[shared,0]"
        kind = "kind=inout" if core == 0 else ""
        found = [
            f"mloc %shared dram.shared size={SIZE} dtype=u8 shape=[{SIZE}] {kind} {remote}",
            f"mloc %local dram.local size={SIZE} dtype=u8 shape=[{SIZE}] kind=inout",
        ]
        return "\n".join([*found, *self.tables[core], *self.lines[core]])

    def _each(self, line: str) -> None:
        for rows in self.lines:
            rows.append(line)

    def _named(self, core: int, regions: tuple[Region, ...], in_header: bool) -> Named:
        self.count += 1
        return Named(f"i{self.count}", core, self.count, regions, in_header)

    def _collect(self, plan: tuple[Step, ...], regions: tuple[Region, ...], in_header: bool) -> None:
        for step in plan:
            if isinstance(step, Copy):
                me = self.copies[id(step)] = self._named(step.core, regions, in_header)
                self.steps.append((me, step))
            elif isinstance(step, Loop | Branch):
                inside = (*regions, (step.number, -1)) if isinstance(step, Loop) else regions
                for core in range(len(self.lines)):
                    self.conditions[step.number, core] = self._named(core, inside, isinstance(step, Loop))
                if isinstance(step, Loop):
                    self._collect(step.header, inside, True)
                    self._collect(step.body, inside, False)
                    continue
                for number, arm in enumerate(step.arms):
                    for part in arm:
                        self._collect(part, (*regions, (step.number, number)), False)

    def _choose(self, strict: bool) -> None:
        others = [*self.copies.values(), *self.conditions.values()]
        for me, step in self.steps:
            mine = [each for each in others if each.core == me.core]
            before = [each for each in mine if each.dominates(me)][-4:]
            around = sorted(mine, key=lambda each: -common(me.loops, each.loops))[:4]
            if strict:
                around = [each for each in around if each.runs_in_all_iterations_around(me)]
            me.deps = [each for bit, each in enumerate(before) if step.deps >> bit & 1]
            me.carried = [each for bit, each in enumerate(around) if step.carried >> bit & 1]

    def _emit(self, plan: tuple[Step, ...], loops: tuple[int, ...]) -> None:
        for step in plan:
            match step:
                case Barrier(engine):
                    self._barrier(engine, "b")
                case Copy():
                    self.lines[step.core].append(_statement(self.copies[id(step)], step, loops))
                case Loop(number, trip, says_trip):
                    says = f"trip={trip}" if says_trip else ""
                    self._each(f"block ^h{number} -> ^b{number}, ^e{number} cond=cond{number} {says}:")
                    self._condition(step, (*loops, number))
                    self._emit(step.header, (*loops, number))
                    self._each(f"block ^b{number} -> {{next}}:")
                    self._emit(step.body, (*loops, number))
                    self._each(f"block ^l{number} -> ^h{number}:")
                    self._each(f"block ^e{number} -> {{next}}:")
                case Branch(number, divergent):
                    says = "divergent=true" if divergent else ""
                    other = f"^a{number}x1" if len(step.arms) == 2 else f"^e{number}"
                    self._each(f"block ^f{number} -> ^a{number}x0, {other} cond=cond{number} {says}:")
                    self._condition(step, loops)
                    for at, arm in enumerate(step.arms):
                        self._each(f"block ^a{number}x{at} -> {{next}}:")
                        for part, engine in zip(arm, (*step.meets, ""), strict=True):
                            self._emit(part, loops)
                            if engine:
                                self._barrier(engine, f"arm{at}")
                        self._each(f"block ^z{number}x{at} -> ^e{number}:")
                    self._each(f"block ^e{number} -> {{next}}:")

    def _barrier(self, engine: str, name: str) -> None:
        self.count += 1
        self._each(f"%b{self.count} = core_barrier @{engine} () -> () name={name}")

    def _condition(self, step: Loop | Branch, loops: tuple[int, ...]) -> None:
        number = step.number
        typed = f"dram.local size={TABLE} dtype=u8 shape=[{TABLE}]"
        moves = f"step=[[0,h{loops[-1]},1,0]]" if loops else ""
        for core, rows in enumerate(self.lines):
            data = base64.b64encode(bytes(step.table(core))).decode()
            self.tables[core].append(f'mloc %table{number} {typed} kind=const data="{data}"')
            self.tables[core].append(f"mloc %cond{number} dram.local size=1 dtype=u8 shape=[]")
            name = self.conditions[number, core].name
            rows.append(f"%{name} = dma_copy @{step.engine} (%table{number}[0:1]) -> (%cond{number}) {moves}")

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
            steps.append(f"[{operand},h{loops[-1]},{place.stride},{place.modulus},{place.phase}]")
    text = f"%{me.name} = dma_copy @{step.engine} ({refs[0]}) -> ({refs[1]})"
    for key, names in (("deps", me.deps), ("carried", me.carried)):
        if names:
            text += f" {key}=[{','.join(each.name for each in names)}]"
    return text + (f" step=[{','.join(steps)}]" if steps else "")
