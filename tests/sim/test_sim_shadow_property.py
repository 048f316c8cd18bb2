"""The comparison of schedules is exact: over random programs it agrees with plain reachability and byte sets.

The oracle shares nothing with the simulator: it builds the happens-before relation from the generator's own steps, as
semantics.md states it, closes it, and looks at every pair of accesses.
"""

from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.sim_programs import program
from tests.tiers import examples

from haulout.sim import compare_schedules

ENGINES = ["vector", "pool", "dma0"]
SIZE = 12


@dataclass(frozen=True)
class Place:
    """Some bytes of a location, in order, and how the format writes them."""

    location: str
    pattern: str
    bytes: tuple[int, ...]


def _places() -> list[Place]:
    """Every byte range of 1, 2 and 4 bytes, and patterns of one and two dims."""
    found = [(f"{at}:{at + run}", range(at, at + run)) for run in (1, 2, 4) for at in range(SIZE - run + 1)]
    for offset, run, (s1, n1), (s2, n2) in product(
        range(SIZE), (1, 2), ((6, 2), (1, 2), (-3, 2), (1, 1)), ((2, 2), (3, 2), (-2, 2))
    ):
        touched = [offset + s1 * i + s2 * j + k for i in range(n1) for j in range(n2) for k in range(run)]
        if len(set(touched)) == len(touched) and min(touched) >= 0 and max(touched) < SIZE:
            found.append((f"{offset};{s1}x{n1},{s2}x{n2};{run}", touched))
    return [Place(location, text, tuple(at)) for location in ("shared", "local") for text, at in found]


PLACES = {length: [place for place in _places() if len(place.bytes) == length] for length in (1, 2, 4, 8)}


@dataclass(frozen=True)
class Copy:
    core: int
    engine: str
    source: Place
    target: Place
    waits: int
    """Bits choose among the core's earlier copies."""


@dataclass(frozen=True)
class Barrier:
    engine: str
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Exchange:
    sender: int
    receiver: int
    engines: tuple[str, str]
    source: Place
    target: Place


@st.composite
def steps(draw: st.DrawFn, cores: int) -> Copy | Barrier | Exchange:
    kind = draw(st.sampled_from(["copy"] * 5 + ["barrier", "exchange"]))
    if kind == "barrier":
        members = draw(st.sets(st.integers(0, cores - 1), min_size=2))
        return Barrier(draw(st.sampled_from(["all", "all", *ENGINES])), tuple(sorted(members)))
    places = st.sampled_from(PLACES[draw(st.sampled_from(sorted(PLACES)))])
    source, target = draw(places), draw(places)
    if kind == "exchange":
        sender, receiver = draw(st.permutations(range(cores)))[:2]
        engines = draw(st.sampled_from(ENGINES)), draw(st.sampled_from(ENGINES))
        return Exchange(sender, receiver, engines, source, target)
    core, engine = draw(st.integers(0, cores - 1)), draw(st.sampled_from(ENGINES))
    return Copy(core, engine, source, target, draw(st.integers(0, 7)))


@dataclass
class Oracle:
    """Happens-before by hand: nodes with what they come after, and the bytes that they touch."""

    after: list[set[int]] = field(default_factory=list)
    accesses: list[tuple[int, bool, set[tuple[str, int]]]] = field(default_factory=list)
    on_core: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    """For each core: (engine, first node, last node) of what it has executed."""

    def node(self, after: set[int]) -> int:
        self.after.append(set().union(after, *(self.after[before] for before in after)))
        return len(self.after) - 1

    def before(self, core: int, engine: str) -> set[int]:
        """What an instruction of an engine starts after: its line, and the barriers that fence the core."""
        done = self.on_core.setdefault(core, [])
        return {last for line, _, last in done if engine == "all" or line in (engine, "all")}

    def instruction(self, core: int, engine: str, more: set[int] = frozenset()) -> int:  # type: ignore[assignment]
        node = self.node(self.before(core, engine) | more)
        self.on_core[core].append((engine, node, node))
        return node

    def touch(self, node: int, core: int, place: Place, write: bool) -> None:
        storage = place.location if place.location == "shared" else f"local{core}"
        self.accesses.append((node, write, {(storage, at) for at in place.bytes}))

    @property
    def is_clean(self) -> bool:
        return all(
            a == b or a in self.after[b] or b in self.after[a] or not (wa or wb) or not bytes_a & bytes_b
            for (a, wa, bytes_a), (b, wb, bytes_b) in combinations(self.accesses, 2)
        )


def build(cores: int, plan: list[Copy | Barrier | Exchange]) -> tuple[list[list[str]], Oracle]:
    lines: list[list[str]] = [[] for _ in range(cores)]
    copies: list[list[tuple[str, int]]] = [[] for _ in range(cores)]
    oracle = Oracle()
    for core in range(cores):
        remote = "" if core == 0 else "remote=[shared,0]"
        kind = "kind=inout" if core == 0 else ""
        lines[core].append(f"mloc %shared dram.shared size={SIZE} dtype=u8 shape=[{SIZE}] {kind} {remote}")
        lines[core].append(f"mloc %local dram.local size={SIZE} dtype=u8 shape=[{SIZE}] kind=inout")
        oracle.on_core[core] = []
    for number, step in enumerate(plan):
        match step:
            case Barrier(engine, members):
                node = oracle.node(set().union(*(oracle.before(core, engine) for core in members)))
                for core in members:
                    oracle.on_core[core].append((engine, node, node))
                    listed = ",".join(map(str, members))
                    lines[core].append(f"%i{number} = core_barrier @{engine} () -> () name=b cores=[{listed}]")
            case Exchange(sender, receiver, engines, source, target):
                sides = [(sender, engines[0]), (receiver, engines[1])]
                arrive = [oracle.node(oracle.before(*side)) for side in sides]
                complete = [oracle.node(set(arrive)) for _ in sides]
                for (core, engine), first, last in zip(sides, arrive, complete, strict=True):
                    oracle.on_core[core].append((engine, first, last))
                oracle.touch(arrive[0], sender, source, write=False)
                oracle.touch(complete[1], receiver, target, write=True)
                out, into = engines
                lines[sender].append(f"%i{number} = sendrecv @{out} ({_ref(source)}) -> () to={receiver} tag=t")
                lines[receiver].append(f"%i{number} = sendrecv @{into} () -> ({_ref(target)}) from={sender} tag=t")
            case Copy(core, engine, source, target, waits):
                common = set(source.bytes) & set(target.bytes) if source.location == target.location else set()
                if common and source.pattern != target.pattern:
                    continue  # operands that overlap in part are not sound
                chosen = [copy for bit, copy in enumerate(copies[core][-3:]) if waits >> bit & 1]
                node = oracle.instruction(core, engine, {node for _, node in chosen})
                oracle.touch(node, core, source, write=False)
                oracle.touch(node, core, target, write=True)
                deps = f"deps=[{','.join(name for name, _ in chosen)}]" if chosen else ""
                lines[core].append(f"%i{number} = dma_copy @{engine} ({_ref(source)}) -> ({_ref(target)}) {deps}")
                copies[core].append((f"i{number}", node))
    return lines, oracle


def _ref(place: Place) -> str:
    return f"%{place.location}[{place.pattern}]"


@settings(max_examples=examples(300))
@given(st.data())
def test_schedules_agree_exactly_when_every_conflict_is_ordered(data: st.DataObject) -> None:
    cores = data.draw(st.integers(2, 3))
    plan = data.draw(st.lists(steps(cores), min_size=2, max_size=12))
    lines, oracle = build(cores, plan)
    text = program(*("\n".join(rows) for rows in lines))
    report = compare_schedules(text)
    assert report.agrees == oracle.is_clean
    assert bool(report.diagnostics) == (not oracle.is_clean)
    if oracle.is_clean:
        values = {"shared": np.arange(SIZE, dtype=np.uint8), "local": np.arange(20, 20 + SIZE, dtype=np.uint8)}
        schedules = ["list", *(f"random:{seed}" for seed in range(5))]
        assert compare_schedules(text, values, schedules, values=True).agrees
