"""The choice of cuts against all assignments of random small graphs, and what bytes are worth to it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.passes.split_graphs import TARGET, all_assignments, graph
from tests.tiers import examples

import haulout
from haulout.analysis.makespan import makespan
from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter
from haulout.passes.pipeline import standard_pipeline
from haulout.passes.split_uniform import SplitUniform, local_parts
from haulout.passes.splitting.candidates import Candidates, find_candidates
from haulout.passes.splitting.choose import Chooser, Cuts
from haulout.passes.splitting.estimate import UNDIVIDED, SplitEstimator
from haulout.passes.splitting.parts import emit_parts
from haulout.passes.splitting.prefer import Annotations, parse_split
from haulout.passes.splitting.values import separate
from haulout.passes.splitting.worth import worthwhile

Times = Callable[[Cuts], float]


def compiled(program: Program, found: Candidates) -> Times:
    """The estimated makespan of the program that is made with some cuts."""
    passes = standard_pipeline()
    behind = passes[[isinstance(each, SplitUniform) for each in passes].index(True) + 1 :]

    def time(cuts: Cuts) -> float:
        made, its, (apart,) = separate(program, found, [cuts])
        if apart.axes:
            made = emit_parts(made, its.operations, apart, its.classes, local_parts(made, its, apart))
        context = PassContext()
        for each in behind:
            made = each.run(made, context)
        return makespan(made, TARGET).makespan

    return time


def estimated(program: Program, found: Candidates) -> Times:
    """The time by which the search compares choices."""
    estimator = SplitEstimator(program, found.operations, found.classes, found.sizes.keys(), TARGET)

    def time(cuts: Cuts) -> float:
        choice = np.full(len(program.instructions) // program.lnc, UNDIVIDED, np.int32)
        for row, axis in cuts.axes.items():
            choice[row] = found.operations[row].axes.index(axis)
        return estimator.estimate(choice)

    return time


Choice = Callable[[Program, Candidates], Cuts]


def searched(program: Program, found: Candidates) -> Cuts:
    """What `split_uniform` takes."""
    return SplitUniform().choose(program, found, parse_split(()), Annotations())[1]


def greedy(program: Program, found: Candidates) -> Cuts:
    """Where the search begins."""
    chosen = Chooser(found.operations, found.sizes).run()
    return worthwhile(program, found.operations, chosen, found.classes, TARGET)


def near_the_best(
    seeds: range, most: int, times_by: Callable[[Program, Candidates], Times], choose: Choice = searched
) -> tuple[int, list[str]]:
    """How many graphs count, and those whose time as chosen is not within 5 % of the best."""
    count, others = 0, []
    for seed in seeds:
        program, found = graph(seed)
        every = all_assignments(found, most)
        if every is None:
            continue
        time = times_by(program, found)
        times = [time(each) for each in every]
        if min(times) == max(times):
            continue
        count += 1
        chosen = time(choose(program, found))
        if chosen > 1.05 * min(times):
            others.append(f"seed {seed}: {chosen:.3f}, best {min(times):.3f}, undivided {times[0]:.3f}")
    return count, others


def test_the_search_finds_the_best_of_all_assignments() -> None:
    """By its own estimate."""
    count, others = near_the_best(range(examples(100)), 500, estimated)
    assert count > 5
    assert len(others) <= 0.01 * count, others


@pytest.mark.long("90 s")
def test_the_search_finds_the_best_of_all_assignments_of_many_graphs() -> None:
    count, others = near_the_best(range(100, 620), 3000, estimated)
    assert count >= 400
    assert len(others) <= 0.01 * count, others


@pytest.mark.long("60 s")
def test_the_search_is_needed() -> None:
    """The graphs tell a good choice from a poor one."""
    count, others = near_the_best(range(100, 200), 500, estimated, greedy)
    assert len(others) >= 0.1 * count


@pytest.mark.long("300 s")
def test_compiled_programs_are_near_the_best_of_all_assignments() -> None:
    """Storage that is used again, which makes instructions wait, is not in the estimate."""
    count, others = near_the_best(range(340), 60, compiled)
    assert count >= 150
    assert len(others) <= 0.02 * count, others


def beside_a_product(side: int, product: int) -> Program:
    """A product of some size, and beside it a matrix of `side` that is made quickly and read by columns at once."""
    build = ProgramBuilder("beside", 1)
    function = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(function, "entry")

    def location(name: str, kind: Kind, *shape: int) -> int:
        size = 4 * math.prod(shape)
        return build.location(function, name, Space.DRAM_LOCAL, size, kind=kind, dtype="f32", shape=list(shape))

    a, x = location("a", Kind.INPUT, product, product), location("x", Kind.INPUT, side, side)
    zero = build.location(
        function, "zero", Space.DRAM_LOCAL, 4, kind=Kind.CONST, dtype="f32", shape=[], data="AAAAAA=="
    )
    d, y = location("d", Kind.OUTPUT, product, product), location("y", Kind.OUTPUT, side, side)
    r = location("r", Kind.OUTPUT)
    contracted: dict[str, AttrValue] = {"lhs_contracting": [1], "rhs_contracting": [0]}
    build.instruction(block, "dot", "dot", Engine.PE, [a, a], [d], seq=0, attrs=contracted)
    build.instruction(block, "tanh", "tanh", Engine.ACT, [x], [y], seq=1)
    build.instruction(
        block, "sum", "reduce", Engine.VECTOR, [y, zero], [r], seq=2, attrs={"dims": [0, 1], "op": "add"}
    )
    return LncSplitter(cores=2).run(build.freeze(), PassContext())


@pytest.mark.parametrize(
    ("side", "product", "cut"),
    [
        pytest.param(512, 1024, True, id="its bytes are worth a fence"),
        pytest.param(64, 1024, False, id="a fence costs more than its bytes"),
        pytest.param(512, 512, False, id="its bytes are worth a fence, but the program would be slower"),
    ],
)
def test_bytes_are_saved_where_that_costs_little_time(side: int, product: int, cut: bool) -> None:
    """The cut saves no time: another engine works longer."""
    program = beside_a_product(side, product)
    cuts = searched(program, find_candidates(program))
    assert ("tanh" in {program.instruction_name(row) for row in cuts.axes}) == cut


def program_with_mask(cores: int) -> Program:
    """A matrix by rows, the products of its columns, and these times a row of numbers."""
    build = ProgramBuilder("mask", 1, attrs={"outputs": ["c"]})
    main = build.function(build.module("nc0", 0, subgraph=0), "main")
    block = build.block(main, "entry")

    def array(name: str, shape: list[int], kind: Kind = Kind.INTERNAL) -> int:
        size = 4 * int(np.prod(shape))
        return build.location(main, name, Space.DRAM_LOCAL, size, kind=kind, dtype="f32", shape=shape)

    x, c = array("x", [4096, 64], Kind.INPUT), array("c", [64, 64], Kind.OUTPUT)
    a, b, m = array("a", [4096, 64]), array("b", [64, 64]), array("m", [64])
    by_rows = {"lhs_contracting": [0], "rhs_contracting": [0]}
    build.instruction(block, "double", "add", Engine.VECTOR, [x, x], [a], seq=0)
    build.instruction(block, "products", "dot", Engine.PE, [a, a], [b], seq=1, attrs=by_rows)
    build.instruction(block, "count", "iota", Engine.VECTOR, [], [m], seq=2, attrs={"dim": 0})
    scaled = {"shapes": [[64, 64]] * 3}
    row = (m, Pattern(0, 4, ((0, 64), (4, 64))))
    build.instruction(block, "scale", "multiply", Engine.VECTOR, [b, row], [c], seq=3, attrs=scaled)
    return replicate(build.freeze(), cores, same={x: [list(range(cores))]})


def test_a_short_operation_is_not_cut_for_a_fence() -> None:
    """By the estimate its fence is that of the products."""
    result = haulout.compile(program_with_mask(4))
    assert result.proved
    split = result.report.split
    assert {each.name for each in split.divided} == {"double", "products", "scale"}
    assert [each.name for each in split.undivided] == ["count"]
    assert result.report.barriers == 1
