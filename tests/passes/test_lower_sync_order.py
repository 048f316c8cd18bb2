"""What semaphores guarantee is what the edges did: by blocking each instruction and running all that can still run.

`behind` shares no code with the pass nor with `read_back`. In straight lists with a counter an engine the order must
be equal; shared counters and waits that look back in loops may order more, never less, and never hang.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from tests.brute import written_out
from tests.property.test_compile_loops import runs

from haulout import HauloutError, Program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import add_dependences
from haulout.ir.enums import Engine
from haulout.ir.schema import Dependences, Semaphores
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout.passes.sync.read_back import guaranteed_order, order_of_run
from haulout.passes.sync.reduce import reduce_order
from haulout.passes.sync.semaphores import waits_of
from haulout_generators.programs import random_loop_program, random_program

ENGINES = [Engine.PE, Engine.ACT, Engine.VECTOR, Engine.POOL, Engine.SYNC, Engine.DMA0, Engine.DMA1]


def lowered(program: Program, **options: object) -> tuple[Program, PassContext]:
    context = PassContext()
    return PassManager([LowerSync(**options)]).run(program, context), context  # type: ignore[arg-type]


def behind(straight: Program, core: int, wanted: dict[int, list[tuple[int, int]]]) -> list[set[int]]:
    """For each instruction of a core: those that cannot start when it never completes.

    `wanted`: instruction -> (semaphore, at least). Signals stand in the program's table.
    """
    rows = [row for row in range(len(straight.instructions)) if straight.instruction_core[row] == core]
    engine = straight.instructions.engine.tolist()
    deps: dict[int, list[int]] = defaultdict(list)
    for row, producer in zip(
        straight.dependences.instruction.tolist(), straight.dependences.producer.tolist(), strict=True
    ):
        deps[row].append(producer)
    adds = [
        (row, name, value)
        for row, name, value, wait in zip(
            straight.semaphores.instruction.tolist(),
            straight.semaphores.name.tolist(),
            straight.semaphores.value.tolist(),
            straight.semaphores.wait.tolist(),
            strict=True,
        )
        if not wait
    ]
    found = []
    for blocked in [None, *rows]:
        done: set[int] = set()
        started: set[int] = set()
        while True:
            ready = []
            for row in rows:
                if row in started:
                    continue
                earlier = [
                    other
                    for other in rows
                    if other < row and (engine[other] == engine[row] or Engine.ALL in (engine[other], engine[row]))
                ]
                counts = [
                    sum(value for other, each, value in adds if each == name and other in done) >= needed
                    for name, needed in wanted.get(row, [])
                ]
                if done.issuperset(earlier) and done.issuperset(deps[row]) and all(counts):
                    ready.append(row)
            if not ready:
                break
            started.update(ready)
            done.update(row for row in ready if row != blocked)
        if blocked is None:
            assert started == set(rows), "it hangs"
        else:
            found.append(set(rows) - started)
    return found


def waits_in(program: Program) -> dict[int, list[tuple[int, int]]]:
    table: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for wait in waits_of(program):
        assert not wait.back, "no wait_back in a straight list"
        table[wait.row].append((wait.name, wait.value))
    return table


def with_random_edges(rng: Random, program: Program, many: int) -> Program:
    """The program with edges between random instructions of a core, backwards in the list, some of them twice."""
    core = program.instruction_core.tolist()
    pairs = []
    for _ in range(many):
        row = rng.randrange(len(core))
        before = [other for other in range(row) if core[other] == core[row]]
        if before:
            pairs.append((row, rng.choice(before)))
    return add_dependences(
        program,
        Dependences.make(len(pairs), instruction=[a for a, _ in pairs], producer=[b for _, b in pairs]),
    )


def straight_program(seed: int) -> Program:
    rng = Random(seed)
    program = random_program(rng, cores=rng.randint(1, 3), steps=rng.randint(4, 12), fences=rng.choice((0.0, 0.2)))
    rows = program.instructions
    engines = [int(rng.choice(ENGINES)) if each != Engine.ALL else each for each in rows.engine.tolist()]
    program = program.replace(instructions=rows.replace(engine=engines))
    return with_random_edges(rng, program, rng.randint(1, 25))


@pytest.mark.thin(5, "4 s")
@pytest.mark.parametrize("seed", range(100))
def test_one_counter_an_engine_gives_exactly_the_order_of_the_edges(seed: int) -> None:
    source = straight_program(seed)
    program, context = lowered(source)
    assert verify(program) == []
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert len(program.dependences) == 0
    for core in range(source.lnc):
        assert behind(program, core, waits_in(program)) == behind(source, core, {})
    assert context.counters["lower_sync"]["semaphores"] <= len(ENGINES)


@pytest.mark.thin(7, "4 s")
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("most", [1, 2, 3])
def test_shared_counters_order_no_less(seed: int, most: int) -> None:
    source = straight_program(seed)
    program, _ = lowered(source, semaphores=most)
    for core in range(source.lnc):
        names = {
            int(program.semaphores.name[at])
            for at in range(len(program.semaphores))
            if program.instruction_core[program.semaphores.instruction[at]] == core
        }
        assert len(names) <= most
        for more, less in zip(behind(program, core, waits_in(program)), behind(source, core, {}), strict=True):
            assert more >= less


@pytest.mark.parametrize("seed", range(40))
def test_no_wait_can_go(seed: int) -> None:
    """Reduced: without any one of the waits the order is a smaller one."""
    source = straight_program(seed)
    program, _ = lowered(source)
    for gone in waits_of(program):
        core = int(program.instruction_core[gone.row])
        left = {row: [w for w in each if (row, *w) != gone[:3]] for row, each in waits_in(program).items()}
        assert behind(program, core, left) != behind(source, core, {})


@pytest.mark.thin(7, "5 s")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("most", [1, 2, 32])
def test_read_back_finds_the_order_of_the_edges(seed: int, most: int) -> None:
    """Edges that counts guarantee, in place of the semaphores, give the same order as the semaphores."""
    source = straight_program(seed)
    program, _ = lowered(source, semaphores=most)
    edges = guaranteed_order(program)
    back = add_dependences(program.replace(semaphores=Semaphores.empty()), edges)
    assert verify(back) == []
    for core in range(source.lnc):
        assert behind(back, core, {}) == behind(program, core, waits_in(program))


def test_read_back_of_counters_that_it_did_not_make() -> None:
    """A counter of two engines: what is certain is what no order of the others can make up for."""
    build = ProgramBuilder("counts", 1)
    block = build.block(build.function(build.module("nc0", 0), "main"), "entry")
    a = build.instruction(block, "a", "op", Engine.DMA0)
    b = build.instruction(block, "b", "op", Engine.DMA1)
    c = build.instruction(block, "c", "op", Engine.VECTOR)
    d = build.instruction(block, "d", "op", Engine.ACT)
    name = build.strings.intern("s")
    for row, value, wait in ((a, 1, False), (b, 1, False), (c, 1, True), (d, 2, True)):
        build.row("semaphores", instruction=row, name=name, value=value, wait=wait)
    edges = guaranteed_order(build.freeze())
    assert list(zip(edges.instruction.tolist(), edges.producer.tolist(), strict=True)) == [(d, a), (d, b)]


def test_read_back_refuses_a_wait_that_never_ends() -> None:
    build = ProgramBuilder("counts", 1)
    block = build.block(build.function(build.module("nc0", 0), "main"), "entry")
    name = build.strings.intern("s")
    for row, wait in (
        (build.instruction(block, "a", "op", Engine.DMA0), False),
        (build.instruction(block, "b", "op", Engine.ACT), True),
    ):
        build.row("semaphores", instruction=row, name=name, value=1 + wait, wait=wait)
    with pytest.raises(HauloutError, match="never exceeds"):
        guaranteed_order(build.freeze())


# -- loops -----------------------------------------------------------------------------------------------------------


def run_of(program: Program, straight: Program, core: int) -> tuple[list[int], list[int]]:
    """(the program's row, the written-out row) of each step of a core's run."""
    row_of = {
        program.instruction_name(row): row
        for row in range(len(program.instructions))
        if program.instruction_core[row] == core
    }
    steps = [row for row in range(len(straight.instructions)) if straight.instruction_core[row] == core]
    return [row_of[straight.instruction_name(step).rpartition("@")[0]] for step in steps], steps


def written_out_with_semaphores(
    program: Program, trips: dict[int, int]
) -> tuple[Program, dict[int, list[tuple[int, int]]]]:
    """The run as a straight program with its signals, and the waits, `wait_back` as the count it stands for."""
    straight, _ = written_out(program, trips)
    rows = []
    wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for core in range(program.lnc):
        before: dict[int, int] = defaultdict(int)
        for row, step in zip(*run_of(program, straight, core), strict=True):
            for wait in waits_of(program):
                if wait.row == row:
                    wanted[step].append((wait.name, before[wait.name] - wait.value if wait.back else wait.value))
            for at in range(len(program.semaphores)):
                if program.semaphores.instruction[at] == row and not program.semaphores.wait[at]:
                    rows.append((step, int(program.semaphores.name[at])))
                    before[int(program.semaphores.name[at])] += 1
    rows.sort()
    table = Semaphores.make(len(rows), instruction=[r for r, _ in rows], name=[n for _, n in rows], value=1)
    return straight.replace(semaphores=table), wanted


def some_runs(source: Program, seed: int) -> list[dict[int, int]]:
    """A few trip counts."""
    every = runs(source, Random(seed))
    return Random(seed).sample(every, min(4, len(every)))


def dominators(program: Program, block: int) -> set[int]:
    """Blocks that every path to a block goes through: those without which it cannot be reached."""
    source, target = program.edges.source.tolist(), program.edges.target.tolist()
    first = int(
        min(row for row in range(len(program.blocks)) if program.block_core[row] == program.block_core[block])
    )
    found = {first, block}
    for without in range(first + 1, block):
        reached, stack = {first}, [first]
        while stack:
            here = stack.pop()
            for one, other in zip(source, target, strict=True):
                if one == here and other != without and other not in reached:
                    reached.add(other)
                    stack.append(other)
        found |= {without} - ({without} if block in reached else set())
    return found


def loops_around(program: Program, block: int) -> list[tuple[int, int]]:
    """(header, latch) of the loops around a block, the innermost last."""
    pairs = zip(program.edges.source.tolist(), program.edges.target.tolist(), strict=True)
    return sorted((target, source) for source, target in pairs if target <= block <= source)


def with_random_loop_edges(rng: Random, program: Program, many: int) -> Program:
    """The program with edges from rows that dominate, and carried ones from anywhere in a common loop."""
    block, core = program.instructions.block.tolist(), program.instruction_core.tolist()
    edges = []
    for _ in range(many):
        row = rng.randrange(len(block))
        mine = [other for other in range(len(block)) if core[other] == core[row]]
        around = loops_around(program, block[row])
        if around and rng.random() < 0.5:
            header, latch = rng.choice(around)
            inside = [other for other in mine if header <= block[other] <= latch]
            producer = rng.choice(inside)
            edges.append((row, producer, True))
            # What the producer waits for itself: implied, if the producer surely runs.
            before = [other for other in inside if other < producer]
            before = [other for other in before if block[other] in dominators(program, block[producer])]
            if before and rng.random() < 0.7:
                other = rng.choice(before)
                edges += [(producer, other, False), (row, other, True)]
        else:
            first = dominators(program, block[row])
            before = [other for other in mine if other < row and block[other] in first]
            if before:
                edges.append((row, rng.choice(before), False))
    return add_dependences(
        program,
        Dependences.make(
            len(edges),
            instruction=[a for a, _, _ in edges],
            producer=[b for _, b, _ in edges],
            carried=[c for _, _, c in edges],
        ),
    )


def loop_source(seed: int) -> Program:
    rng = Random(seed)
    if seed % 3 == 0:
        source = random_loop_program(rng, cores=1, steps=rng.choice((1, 3)), depth=1 + seed % 2)
        return with_random_loop_edges(rng, source, rng.randint(1, 12))
    source = random_loop_program(rng, cores=2, steps=4, depth=1 + seed % 3)
    passes = standard_pipeline()
    if seed % 2 == 0:
        passes = passes[: [each.name for each in passes].index("build_fdeps") + 1]
    return PassManager(passes).run(source, PassContext())


@pytest.mark.thin(7, "20 s")
@pytest.mark.parametrize("most", [1, 2, 32])
@pytest.mark.parametrize("seed", range(45))
def test_loops_are_ordered_for_every_trip_count(seed: int, most: int) -> None:
    source = loop_source(seed)
    program, _ = lowered(source, semaphores=most)
    assert verify(program) == []
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert len(program.dependences) == 0
    for trips in some_runs(source, seed):
        before, _ = written_out(source, trips)
        if len(before.instructions) > 70:
            continue
        after, wanted = written_out_with_semaphores(program, trips)
        for core in range(source.lnc):
            for more, less in zip(behind(after, core, wanted), behind(before, core, {}), strict=True):
                assert more >= less, trips


@pytest.mark.parametrize("seed", range(20))
def test_without_relative_waits_loops_keep_their_edges_and_say_so(seed: int) -> None:
    source = loop_source(seed)
    program, context = lowered(source, relative_waits=False)
    assert not any(wait.back for wait in waits_of(program))
    notes = [each for each in context.diagnostics if each.code == "kept-dependences"]
    assert bool(notes) == bool(len(program.dependences))
    told = sum(int(each.message.split()[0]) for each in notes)
    assert told == len(program.dependences) == context.counters["lower_sync"]["kept"]
    for trips in some_runs(source, seed):
        before, _ = written_out(source, trips)
        if len(before.instructions) > 70:
            continue
        after, wanted = written_out_with_semaphores(program, trips)
        for core in range(source.lnc):
            for more, less in zip(behind(after, core, wanted), behind(before, core, {}), strict=True):
                assert more >= less, trips


@pytest.mark.parametrize("seed", range(20))
def test_read_back_of_runs(seed: int) -> None:
    """Position by position, the order that `order_of_run` reads off covers the edges of the run."""
    source = loop_source(seed)
    program, _ = lowered(source)
    for trips in some_runs(source, seed):
        before, _ = written_out(source, trips)
        if len(before.instructions) > 70:
            continue
        bare, _ = written_out(program, trips)
        edges = []
        for core in range(source.lnc):
            rows, steps = run_of(program, bare, core)
            edges += [(steps[at], steps[other]) for at, other in order_of_run(program, rows)]
        edges.sort()
        back = add_dependences(
            bare, Dependences.make(len(edges), instruction=[a for a, _ in edges], producer=[b for _, b in edges])
        )
        for core in range(source.lnc):
            for more, less in zip(behind(back, core, {}), behind(before, core, {}), strict=True):
                assert more >= less, trips


@pytest.mark.parametrize("seed", range(0, 180, 3))
def test_reduced_edges_of_loops_keep_the_order_of_every_run(seed: int) -> None:
    """The reduction alone, as edges: equal, not only no less."""
    source = loop_source(seed)
    left = reduce_order(source, source.dependences).edges
    reduced = source.replace(dependences=left)
    for trips in some_runs(source, seed):
        before, _ = written_out(source, trips)
        if len(before.instructions) > 70:
            continue
        after, _ = written_out(reduced, trips)
        for core in range(source.lnc):
            assert behind(after, core, {}) == behind(before, core, {}), trips


NESTED = """bir 1
program "an inner loop that may not run" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input
    mloc %p dram.local size=1
    mloc %q dram.local size=1
    mloc %out dram.local size=64 kind=output
    block ^entry -> ^outer:
    block ^outer -> ^work, ^behind cond=p:
      %outer = copy @act (%x[0:1]) -> (%p) seq=0
    block ^work -> ^inner:
      %use = copy @dma0 (%x) -> (%out) seq=1 carried=[maybe,make]
      %make = copy @dma1 (%x) -> (%out) seq=2
    block ^inner -> ^maybe, ^after cond=q:
      %inner = copy @act (%x[0:1]) -> (%q) seq=3
    block ^maybe -> ^inner:
      %maybe = copy @dma2 (%x) -> (%out) seq=4 deps=[make]
    block ^after -> ^outer:
    block ^behind:
  }
}
"""


@pytest.mark.parametrize("inner", [0, 1, 2])
def test_what_may_not_run_implies_nothing(inner: int) -> None:
    """%use needs its edge to %make: where the inner loop does not run, %maybe waits for nothing on its behalf."""
    source = parse_bir(NESTED)
    program, _ = lowered(source)
    trips = {1: 3, 3: inner}
    before, _ = written_out(source, trips)
    after, wanted = written_out_with_semaphores(program, trips)
    for more, less in zip(behind(after, 0, wanted), behind(before, 0, {}), strict=True):
        assert more >= less
