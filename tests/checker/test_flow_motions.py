"""Which accesses that move with loops may meet, against every iteration of small programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pytest
from tests.checker.loop_snippets import START, core, loop
from tests.checker.snippets import program
from tests.checker.test_flow import bytes_at, random_moving, runs_of
from tests.tiers import examples

from haulout.checker import check_program
from haulout.checker.flow import moving
from haulout.checker.flow.claims import Open, Queries
from haulout.checker.flow.moving import FAR, meet, sums
from haulout.checker.flow.pairs import find_queries, find_touches
from haulout.checker.flow.prove import Examined, is_proved
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import find_text
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.text import parse_bir

TRIPS = {"h0": 3, "h1": 4}
SIZE = 1024


def test_what_is_not_tried_one_by_one_is_never_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    random, seen = Random(7), Counter[str]()
    for _ in range(examples(3000)):
        monkeypatch.setattr(moving, "MOST", random.choice((0, 8, 64)))
        one, other = random_moving(random), random_moving(random)
        low = random.randint(0, 2)
        high = random.choice((low, FAR))
        places = [[bytes_at(each, at) for at in range(each.last + 1)] for each in (one, other)]
        meets = any(a & b for i, a in enumerate(places[0]) for j, b in enumerate(places[1]) if low <= j - i <= high)
        answer = meet(one, other, low, high)
        assert answer or not meets, (one, other, low, high)
        seen["apart"] += not meets
        seen["told apart"] += not answer
    assert seen["told apart"] > 0.8 * seen["apart"] > 0


def test_sums_of_strides_are_exact() -> None:
    random, found = Random(3), Counter[bool]()
    for _ in range(examples(3000)):
        strides = (2, 3, 5, 6, 7, 12, 20, 35, -4, -9)
        dims = [(random.choice(strides), random.randint(1, 6)) for _ in range(random.randint(0, 4))]
        low = random.randint(-60, 150)
        high = low + random.randint(-1, 3)
        places = [0]
        for stride, count in dims:
            places = [place + stride * at for place in places for at in range(count)]
        assert sums(dims, low, high) == any(low <= place <= high for place in places), (dims, low, high)
        found[any(low <= place <= high for place in places)] += 1
    assert min(found.values()) > 10


def test_unlimited_dimensions_take_no_iterations() -> None:
    assert not sums([(64, FAR), (-96, FAR)], 1, 31)
    assert sums([(64, FAR), (-96, FAR)], 1, 32)
    assert not sums([(999_999_937, FAR), (-1_000_000_007, 1 << 40)], 1 << 100, 1 << 100)


# -- whole texts -----------------------------------------------------------------------------------------------------


@dataclass
class Step:
    header: str
    stride: int
    modulus: int
    phase: int


@dataclass
class Access:
    """One operand of a random program."""

    name: str
    pattern: Pattern
    loops: dict[str, int]
    """The loops around it, the outermost first, and how often it runs in each."""
    steps: list[Step]

    def iterations(self) -> Iterator[tuple[int, ...]]:
        yield from product(*(range(times) for times in self.loops.values()))

    def bytes(self, iteration: tuple[int, ...]) -> list[int]:
        """Those of its location."""
        turns = dict(zip(self.loops, iteration, strict=True))
        shift = sum(
            step.stride * ((turns[step.header] + step.phase) % step.modulus if step.modulus else turns[step.header])
            for step in self.steps
        )
        return [shift + byte for byte in self.pattern.bytes().tolist()]


class Nest:
    """Writes in two nested loops, of two tensors in one memory, whose bytes may be the same."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.grid = random.random() < 0.5
        self.parts = {"A": 4, "B": random.choice((4, 8))}
        self.at = {"A": (0, 0), "B": (random.randrange(3), random.choice((0, 16, 32, 512)))}
        if not self.grid:
            self.at["B"] = 0, random.choice((0, 64, 128, 1024))
        once, again, inner = (TRIPS["h0"], TRIPS["h0"] + 1, TRIPS["h1"])
        around = [{"h0": again}, {"h0": once, "h1": inner + 1}]
        around += [{"h0": once, "h1": inner}] * 3 + [{"h0": once}]
        self.accesses = [self.access(loops) for loops in around]
        lines = [f"mloc %{name} {self.where(name)}" for name in "AB"] + ["mloc %c dram.local size=4 kind=input"]
        rows = [self.line(number) for number in range(len(around))]
        lines += [f"block ^h0 -> ^h1, ^after cond=c trip={TRIPS['h0']}:", rows[0]]
        lines += [f"block ^h1 -> ^body, ^latch cond=c trip={TRIPS['h1']}:", rows[1]]
        lines += ["block ^body -> ^h1:", *rows[2:5], "block ^latch -> ^h0:", rows[5], "block ^after:"]
        body = "\n".join(lines)
        self.text = f'bir 1\nprogram "nest" lnc=1\nmodule @nc0 core=0 {{\nfunc @main {{\n{body}\n}}\n}}\n'

    def where(self, name: str) -> str:
        partition, address = self.at[name]
        if not self.grid:
            return f"dram.local size={SIZE} align=1 address={address}"
        return f"sbuf size={SIZE} align=1 parts={self.parts[name]} partition={partition} address={address}"

    def access(self, loops: dict[str, int]) -> Access:
        random = self.random
        while True:
            steps, low, high = [], 0, 0
            rings = random.random() < 0.4
            for header, times in loops.items():
                for _ in range(random.choice((0, 1, 1, 1, 2))):
                    modulus = random.choice((0, 2, 3)) if rings else 0
                    stride = random.choice((256, -256, 16) if self.grid else (4, 8, 16, 32, 64, 64, 128, -8, -64))
                    turns = (modulus or times) - 1
                    low, high = low + min(0, stride * turns), high + max(0, stride * turns)
                    steps.append(Step(header, stride, modulus, random.randint(0, 1) if modulus else 0))
            run = random.choice((4, 8, 8, 16) if self.grid else (4, 8, 8, 16, 64))
            shape = Pattern(0, run, random.choice(((), (), ((16, 2),), ((256, 2),), ((256, 2), (16, 2)))))
            room = SIZE - (high - low + shape.hull[1])
            if room >= 0:
                # In a grid every pattern stays in the partitions where it begins, or has whole ones.
                start = random.randrange(0, room + 1, 4) - low
                if self.grid:
                    start = random.randrange(0, room + 1, 128) + random.choice((0, 16)) - low
                return Access(random.choice("AB"), shape._replace(offset=start), loops, steps)

    def line(self, number: int) -> str:
        access = self.accesses[number]
        rows = [f"[0,{step.header},{step.stride},{step.modulus},{step.phase}]" for step in access.steps]
        steps = f" step=[{','.join(rows)}]" if rows else ""
        return f"%w{number} = dma_copy @dma{number % 2} () -> (%{access.name}[{access.pattern}]){steps}"

    def storage(self, access: Access, iteration: tuple[int, ...]) -> set[tuple[int, int]]:
        """What it touches in one iteration, as (partition, address)."""
        partition, address = self.at[access.name]
        share = SIZE // self.parts[access.name] if self.grid else SIZE
        return {(partition + byte // share, address + byte % share) for byte in access.bytes(iteration)}

    def meet(self, one: Access, other: Access, level: int, lag: int) -> bool:
        """Whether two accesses meet: in one iteration of the loops outside of a level, and at a lag of its own."""
        for i, j in product(one.iterations(), other.iterations()):
            if i[: max(level - 1, 0)] != j[: max(level - 1, 0)]:
                continue
            if level and not (j[level - 1] - i[level - 1] == lag or j[level - 1] - i[level - 1] > lag == 2):
                continue
            if self.storage(one, i) & self.storage(other, j):
                return True
        return False

    def is_plain(self, one: Access, other: Access) -> bool:
        """Whether the answer is exact: no rings."""
        return not any(step.modulus for step in (*one.steps, *other.steps))


def share_a_key(queries: Queries, one: int, other: int) -> bool:
    for key in queries.key[queries.key_starts[one] : queries.key_starts[one + 1]].tolist():
        groups = slice(queries.any_of[queries.any_starts[key]], queries.any_of[queries.any_starts[key + 1]])
        if other in queries.any_access[groups]:
            return True
    return False


def test_accesses_in_nested_loops_meet_as_their_iterations_do() -> None:
    seen = Counter[str]()
    for seed in range(examples(16)):
        nest = Nest(Random(seed))
        (runs,) = runs_of(parse_bir(nest.text))
        text = find_text(runs)
        assert text is not None
        touches = find_touches(text)
        queries = find_queries(text, touches)
        assert queries is not None
        writes = np.flatnonzero(touches.model.write)
        assert len(writes) == len(nest.accesses)
        for (a, one), (b, other) in product(enumerate(nest.accesses), repeat=2):
            common = [h for h, k in zip(one.loops, other.loops, strict=False) if h == k]
            ever = False
            for level, lag in [(0, 0), *product(range(1, len(common) + 1), (0, 1, 2))]:
                sides = (np.array([writes[side]], np.int32) for side in (a, b))
                pair = Open(1, *sides, np.array([level], np.int32), np.array([lag], np.int32), 0)
                found = bool(touches.motions.may_meet(pair, np.array([0]))[0])
                wanted = nest.meet(one, other, level, lag)
                assert found or not wanted, (seed, a, b, level, lag)
                if nest.is_plain(one, other):
                    assert found == wanted, (seed, a, b, level, lag)
                    seen[f"plain {wanted} {nest.grid} {one.name == other.name}"] += 1
                ever |= wanted
                seen["on rings, apart"] += not nest.is_plain(one, other) and not wanted
                seen["on rings, told apart"] += not found and not nest.is_plain(one, other)
            assert share_a_key(queries, int(writes[a]), int(writes[b])) or not ever, (seed, a, b)
            seen["never"] += not ever
            seen["other keys"] += not share_a_key(queries, int(writes[a]), int(writes[b]))
    kinds = [f"plain {wanted} {grid} {same}" for wanted, grid, same in product((True, False), repeat=3)]
    assert examples(16) < 16 or min(map(seen.__getitem__, kinds)) > 0
    assert seen["on rings, told apart"] > 0.8 * seen["on rings, apart"] > 0
    assert seen["other keys"] > 0.9 * seen["never"] > 0


def test_the_proof_agrees_with_all_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two or three writes of a nest on two lines: what is proved has no finding, and nearly all that has none is."""
    seen = Counter[str]()
    for seed in range(examples(30)):
        random = Random(seed)
        nest, kept = Nest(random), random.sample(range(6), random.choice((2, 3)))
        dropped = [f"%w{number} " for number in range(6) if number not in kept]
        lines = [line for line in nest.text.splitlines() if not line.startswith(tuple(dropped))]
        some = parse_bir("\n".join(lines))
        (runs,) = runs_of(some)
        proved = is_proved(runs)
        with monkeypatch.context() as patch:
            patch.setattr("haulout.checker.driver.examine", lambda runs, source: Examined(Refusal("not asked")))
            clean = not check_program(some, advise=False)
        assert clean or not proved, seed
        seen.update(clean=clean, proved=proved, wrong=not clean)
    assert seen["proved"] > 0.8 * seen["clean"] > 0
    assert seen["wrong"] > 0


# -- whole programs --------------------------------------------------------------------------------------------------


def tiles(trip: int | None, modulus: tuple[int, int], second: str, count: int = 1) -> Program:
    """Two cores write tiles of their own in each iteration: `count` of 64 bytes on one, the other half on the other.

    `second` is where core 1 begins.
    """
    cores = []
    for number in range(2):
        remote = "remote=[S,0]" if number else "kind=inout"
        begin = int(second) if number else 0
        size = 128 * count * (trip or max(max(modulus), 32))
        writes = []
        for at in range(count):
            low = begin + 64 * at
            step = f"[0,loop,{128 * count},{modulus[number]}]"
            writes.append(f"%w{at} = dma_copy @dma{at % 4} () -> (%S[{low}:{low + 64}]) step=[{step}]")
        shared = f"mloc %S dram.shared size={size + 64} {remote}"
        cores.append(core(shared, START, loop("\n".join(writes), trip=trip)))
    return program(*cores)


@pytest.mark.parametrize("trip", [None, 1, 16, 17, 300])
@pytest.mark.parametrize("modulus", [(0, 0), (8, 8), (9, 9), (8, 9)])
def test_interleaved_tiles_are_apart_for_every_trip_count(trip: int | None, modulus: tuple[int, int]) -> None:
    some = tiles(trip, modulus, "64")
    assert {each.code for each in check_program(some)} <= {"assumed-trip"}
    assert all(is_proved(runs) for runs in runs_of(some))


@pytest.mark.parametrize("modulus", [(0, 0), (8, 9)])
def test_interleaved_tiles_that_touch_are_found(modulus: tuple[int, int]) -> None:
    some = tiles(None, modulus, "60")
    assert not any(is_proved(runs) for runs in runs_of(some))
    assert {each.code for each in check_program(some, advise=False)} & {"cross-core-race", "possible-race"}


def test_many_tiles_leave_few_pairs_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up under all bytes that each ever touches, not under their common location."""
    monkeypatch.setattr("haulout.checker.flow.trusted.MAX_OPEN", 0)
    some = tiles(50, (0, 0), str(64 * 300), 300)
    assert all(is_proved(runs) for runs in runs_of(some))


@pytest.mark.parametrize(("column", "proved"), [(64, True), (60, False)])
def test_tiles_of_a_grid_move_from_partition_to_partition(column: int, proved: bool) -> None:
    """Two tensors lie side by side in 16 partitions, and two lines go through them at speeds of their own."""
    lines = ["mloc %a sbuf size=1024 align=4 parts=16 partition=0 address=0"]
    lines += [f"mloc %b sbuf size=1024 align=4 parts=16 partition=0 address={column}"]
    writes = ["%w = iota @dma0 () -> (%a[0:64]) step=[[0,loop,64,0]]"]
    writes += ["%v = iota @dma1 () -> (%b[0:64]) step=[[0,loop,128,0]]"]
    some = program(core(*lines, START, loop("\n".join(writes), trip=8)))
    (runs,) = runs_of(some)
    text = find_text(runs)
    assert text is not None
    touches = find_touches(text)
    sides = (np.flatnonzero(touches.model.write)[[side]].astype(np.int32) for side in range(2))
    pair = Open(1, *sides, np.array([1], np.int32), np.array([0], np.int32), 0)
    assert touches.motions.may_meet(pair, np.array([0])).tolist() == [not proved]
    assert is_proved(runs) == proved


def test_what_is_only_read_needs_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of a whole tensor, of which others read each byte by itself."""
    monkeypatch.setattr("haulout.checker.flow.pairs.MAX_KEYS", 50)
    reads = [f"%r{at} = copy @act (%a[{at}:{at + 1}]) -> ()" for at in range(64)]
    reads += [f"%w{at} = copy @pool (%a) -> ()" for at in range(10)]
    some = program(core("mloc %a dram.local size=64 kind=input", START, loop("\n".join(reads))))
    assert all(is_proved(runs) for runs in runs_of(some))
