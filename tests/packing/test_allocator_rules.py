"""Aliases, in-place pairs, pools, segments, symmetric groups: against brute force over all offsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.packing.rule_oracle import is_right, least_total
from tests.tiers import examples

from haulout.packing import LIMIT, Pool, Problem, Rules, Solution, Status, plan, solve, violations
from haulout.support.diagnostics import HauloutError

TOP = 8


@st.composite
def tied(
    draw: st.DrawFn, most: int = 4, pools: int = 1, ties: bool = True, sizes: int = 3, segments: bool = True
) -> Problem:
    """A few small buffers with some of every rule."""
    n = draw(st.integers(1, most))
    lower = [draw(st.integers(0, 4)) for _ in range(n)]
    upper = [lo + draw(st.integers(0, 3)) for lo in lower]
    size = [draw(st.integers(0, sizes)) for _ in range(n)]
    numbers = list(range(n))
    aliases: list[tuple[int, ...]] = []
    if ties and n > 1 and draw(st.booleans()):
        aliases = [tuple(draw(st.permutations(numbers))[:2])]
    pairs = [
        (i, o)
        for i in numbers
        for o in numbers
        if ties and upper[i] - 1 == lower[o] > lower[i] and draw(st.booleans())
    ]
    count = draw(st.integers(1, pools))
    made = tuple(
        Pool(
            f"p{k}",
            draw(st.sampled_from([None, 3, 4, 6])),
            draw(st.sampled_from([None, None, 4])) if segments else None,
        )
        for k in range(count)
    )
    allowed: tuple[tuple[int, ...], ...] = ()
    if count > 1 and draw(st.booleans()):
        allowed = tuple(tuple(draw(st.permutations(range(count)))[: draw(st.integers(0, count))]) for _ in numbers)
    symmetric: list[tuple[int, ...]] = []
    if count > 1 and n > 1 and draw(st.booleans()):
        symmetric = [tuple(draw(st.permutations(numbers))[:2])]
    segment = draw(st.sampled_from([0, 0, 4])) if segments else 0
    alignment = draw(st.sampled_from([1, 2]))
    rules = Rules(tuple(aliases), tuple(pairs), tuple(symmetric), made, allowed)
    return Problem.of(lower, upper, size, alignment, segment=segment, rules=rules)


def check(problem: Problem, solution: Solution) -> None:
    """What holds for every solution."""
    offset, pool = solution.offset.tolist(), solution.pool.tolist()
    assert is_right(problem, offset, pool, capacities=solution.fits)
    assert violations(problem, solution.offset, pool=solution.pool, capacities=solution.fits) == []
    assert solution.lower_bound <= solution.peak
    assert solution.peak == sum(use.peak for use in solution.pools)


@settings(max_examples=examples(250))
@given(tied(pools=3))
def test_every_rule_is_obeyed_and_every_refusal_is_right(problem: Problem) -> None:
    try:
        solution = solve(problem)
    except HauloutError as error:
        assert error.diagnostics[0].code == "bad-input"  # rules that contradict one another
        assert least_total(problem, TOP) is None
        return
    check(problem, solution)
    if not solution.fits:
        assert all(pool.capacity is not None for pool in problem.rules.pools) or solution.status is not Status.OPTIMAL
    if solution.status is Status.INFEASIBLE:
        assert least_total(problem, TOP) is None


@settings(max_examples=examples(150))
@given(tied(pools=1))
def test_one_pool_bound_and_capacity(problem: Problem) -> None:
    solution = solve(problem)
    check(problem, solution)
    truth = least_total(problem, TOP)
    if solution.fits:
        assert truth is not None
        assert truth >= solution.lower_bound - 1  # a bound counts bytes as reserved: at most one more at the top
    if solution.status is Status.UNSOLVED and problem.rules.in_place == ():
        assert truth is None


@settings(max_examples=examples(150))
@given(tied(ties=False, segments=True, most=4), st.integers(2, 7))
def test_segments_alone_are_solved_exactly(problem: Problem, capacity: int) -> None:
    capacity = capacity // problem.granule * problem.granule
    limited = Problem.of(
        problem.lower, problem.upper, problem.size, problem.alignment, segment=4, owner=problem.owner
    )
    solution = solve(limited, capacity=capacity)
    check(
        Problem.of(
            problem.lower,
            problem.upper,
            problem.size,
            problem.alignment,
            segment=4,
            owner=problem.owner,
            rules=Rules(pools=(Pool(capacity=capacity),)),
        ),
        solution,
    )
    best = least_total(limited, 12)
    assert best is not None
    assert solution.fits == (best <= capacity)
    assert solution.status is not Status.UNSOLVED


@settings(max_examples=examples(100))
@given(tied(pools=2, ties=False, segments=False))
def test_pools_of_few_buffers_fit_when_they_can(problem: Problem) -> None:
    assume(not problem.rules.symmetric)
    solution = solve(problem)
    check(problem, solution)
    assert solution.fits == (least_total(problem, 12) is not None)


@settings(max_examples=examples(150))
@given(tied(most=4, pools=3), st.data())
def test_validator_agrees_with_pairs(problem: Problem, data: st.DataObject) -> None:
    n = len(problem)
    offset = [data.draw(st.integers(0, 5)) for _ in range(n)]
    for group in (*problem.rules.aliases, *problem.rules.symmetric, *problem.rules.in_place):
        if data.draw(st.booleans()):
            for b in group:
                offset[b] = offset[group[0]]
    pool = [data.draw(st.integers(0, len(problem.rules.pools) - 1)) for _ in range(n)]
    found = violations(problem, np.array(offset), pool=np.array(pool))
    assert (found == []) == is_right(problem, offset, pool)


def test_aliases_are_one_storage_with_holes() -> None:
    """x and y are one storage, dead from 2 to 6: z fits into the hole."""
    solution = plan([0, 6, 2], [2, 8, 6], [64, 64, 64], aliases=[(0, 1)])
    assert solution.peak == 64
    assert solution.offset.tolist() == [0, 0, 0]
    assert plan([0, 1, 2], [4, 5, 6], [64, 128, 64], aliases=[(0, 2)]).peak == 192


def test_output_takes_over_its_input() -> None:
    """The sum is written at time 3, when its operand is read for the last time."""
    columns = ([0, 3], [4, 9], [64, 64])
    assert plan(*columns).peak == 128
    solution = plan(*columns, in_place=[(0, 1)])
    assert solution.peak == solution.lower_bound == 64
    assert solution.in_place == ((0, 1),)
    assert solution.status is Status.OPTIMAL


def test_input_that_lives_on_is_not_taken_over() -> None:
    solution = plan([0, 3], [5, 9], [64, 64], in_place=[(0, 1)])
    assert (solution.peak, solution.in_place) == (128, ())


def test_an_input_is_taken_over_once() -> None:
    solution = plan([0, 3, 3], [4, 9, 9], [64, 64, 64], in_place=[(0, 1), (0, 2)])
    assert solution.peak == 128
    assert len(solution.in_place) == 1


def test_chain_of_pairs_is_one_storage() -> None:
    n = 30
    solution = plan(range(n), range(2, n + 2), [64] * n, in_place=[(k, k + 1) for k in range(n - 1)])
    assert solution.peak == 64


def test_pair_is_left_when_equal_offsets_cost_more() -> None:
    """Taking the small input's place for the large output would make the small one as large as that."""
    solution = plan([0, 3, 0], [4, 9, 3], [64, 640, 640], in_place=[(0, 1)])
    assert solution.peak == 704
    assert solution.in_place == ()


def test_buffers_are_spread_over_banks() -> None:
    banks = [Pool(f"bank{k}", 256) for k in range(4)]
    solution = plan([0] * 8, [1] * 8, [128] * 8, pools=banks)
    assert sorted(solution.pool.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [use.peak for use in solution.pools] == [256] * 4


def test_fast_memory_first_then_spill() -> None:
    pools = [Pool("sram", 128), Pool("dram")]
    solution = plan([0, 0, 0], [1, 1, 1], [128, 64, 64], pools=pools)
    assert [use.peak for use in solution.pools] == [128, 128]


def test_only_allowed_pools() -> None:
    solution = plan([0, 0, 0], [1, 1, 1], [64, 64, 64], pools=[Pool("a"), Pool("b")], allowed=[1, 0, [1]])
    assert solution.pool.tolist() == [1, 0, 1]


def test_pool_that_overflows_is_named() -> None:
    with pytest.raises(HauloutError) as caught:
        plan([0, 0, 0], [1, 1, 1], [64, 64, 64], pools=[Pool("a", 64), Pool("b", 64)], allowed=[0, 1, 1])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "over-capacity"
    assert "pool b" in diagnostic.message
    assert [label.message for label in diagnostic.labels] == ["buffer 1: 64 bytes", "buffer 2: 64 bytes"]


def test_symmetric_buffers_have_equal_offsets() -> None:
    """Two cores, each with its own temporaries in the way at other times."""
    solution = plan(
        [0, 0, 4, 0, 0], [4, 8, 8, 8, 2], [64, 64, 128, 64, 64],
        pools=[Pool("core0"), Pool("core1")], allowed=[0, 0, 0, 1, 1], symmetric=[(1, 3)],
    )  # fmt: skip
    assert solution.offset[1] == solution.offset[3]
    assert solution.pool.tolist() == [0, 0, 0, 1, 1]
    assert [use.peak for use in solution.pools] == [192, 128]


def test_symmetric_with_different_capacities() -> None:
    pools = [Pool("small", 64), Pool("large", 256)]
    solution = plan([0, 0, 0], [1, 1, 1], [64, 64, 128], pools=pools, allowed=[0, 1, 1], symmetric=[(0, 1)])
    assert solution.offset.tolist() == [0, 0, 64]


@pytest.mark.parametrize("many", [False, True])
def test_no_buffer_crosses_a_segment(many: bool) -> None:
    n = 400 if many else 6
    rng = np.random.default_rng(1)
    lower = rng.integers(0, n // 2, n)
    problem = Problem.of(lower, lower + rng.integers(1, 8, n), rng.integers(1, 1024, n), 16, segment=1024)
    solution = solve(problem, effort=0.1)
    assert ((solution.offset % 1024) + problem.size <= 1024).all()
    pool = solve(
        Problem.of(problem.lower, problem.upper, problem.size, 16, rules=Rules(pools=(Pool(segment=1024),))),
        effort=0.1,
    )
    assert pool.peak == solution.peak


def test_buffer_larger_than_a_segment() -> None:
    for options in ({"segment": 64}, {"pools": [Pool(segment=64)]}):
        with pytest.raises(HauloutError, match="the largest contiguous stretch is 64") as caught:
            plan([0], [1], [65], alignment=1, **options)  # type: ignore[arg-type]
        assert caught.value.diagnostics[0].code == "over-capacity"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aliases": [(0, 2)]}, "buffer 2"),
        ({"aliases": [(0, 1), (1, 0)]}, "given twice"),
        ({"in_place": [(0, -1)]}, "buffer -1"),
        ({"symmetric": [(0, 1)]}, "`symmetric`.*1"),
        ({"allowed": [0]}, "`allowed` has 1 rows"),
        ({"allowed": [0, 1]}, "pool 1"),
        ({"pools": [Pool(capacity=-1)]}, "capacity is -1"),
        ({"pools": [Pool(segment=0)]}, "segment is 0"),
        ({"pools": [Pool(), Pool()], "capacity": 64}, "`capacity`"),
        ({"segment": 96}, "not a multiple of the alignment"),
        ({"pools": [Pool(segment=128)], "segment": 192}, "segments of (128 and 192|192 and 128)"),
        ({"aliases": [(0, 1)], "pinned": [0, 64]}, "an alias of it at"),
        ({"pools": [Pool(), Pool()], "aliases": [(0, 1)], "allowed": [0, 1]}, "no allowed pool in common"),
        ({"pools": [Pool(), Pool()], "symmetric": [(0, 1)], "allowed": [0, 0]}, r"symmetric buffers \(0, 1\)"),
        ({"spread": True}, "needs a capacity"),
        ({"hint": [0]}, "must be 2 integers"),
    ],
)
def test_bad_rules(options: dict[str, object], message: str) -> None:
    with pytest.raises(HauloutError, match=message) as caught:
        plan([0, 0], [1, 1], [64, 64], **options)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == "bad-input"


def test_validator_names_each_broken_rule() -> None:
    rules = Rules(
        aliases=((0, 1),), symmetric=((2, 3),), pools=(Pool("a", 64, 64), Pool("b")), allowed=((0,), (0,), (1,), (0,))
    )
    problem = Problem.of([0, 2, 0, 0], [1, 3, 1, 1], [4, 4, 4, 4], rules=rules)

    def codes(offset: list[int], pool: list[int]) -> list[str]:
        return [each.code for each in violations(problem, np.array(offset), pool=np.array(pool))]

    assert codes([0, 0, 8, 8], [0, 0, 1, 0]) == []
    assert codes([0, 8, 8, 8], [0, 0, 1, 0]) == ["split-alias"]
    assert codes([0, 0, 8, 16], [0, 0, 1, 0]) == ["unequal-offsets"]
    assert codes([0, 0, 8, 8], [0, 0, 1, 1]) == ["wrong-pool"]
    assert codes([0, 0, 0, 8], [0, 0, 1, 5]) == ["wrong-pool"]
    assert codes([0, 0, 62, 62], [0, 0, 1, 0]) == ["over-capacity", "crossed-segment"]
    assert codes([0, 0, 2, 2], [0, 0, 1, 0]) == ["overlapping-storage"]


def test_times_and_sizes_to_the_limit() -> None:
    half = LIMIT // 2
    solution = plan(
        [-LIMIT, 0, 0], [1, LIMIT, LIMIT], [half, half, half], alignment=1, in_place=[(0, 1)],
        pools=[Pool("a", LIMIT), Pool("b", half)], symmetric=[(1, 2)],
    )  # fmt: skip
    assert solution.fits
    assert solution.offset[1] == solution.offset[2]


def test_hint_is_where_the_search_starts() -> None:
    problem = Problem.of([0, 0, 0], [1, 1, 1], [64, 128, 64], 64)
    solution = solve(problem, hint=[192, 0, 128], effort=0)
    assert (solution.method, solution.offset.tolist()) == ("hint", [192, 0, 128])
    wrong = solve(problem, hint=[0, 0, -1], effort=0)
    assert wrong.peak == 256


def test_valid_hint_is_never_made_worse() -> None:
    rng = np.random.default_rng(3)
    lower = rng.integers(0, 300, 200)
    problem = Problem.of(lower, lower + rng.integers(1, 80, 200), rng.integers(1, 1000, 200), 8)
    good = solve(problem)
    assert solve(problem, hint=good.offset, effort=0).peak == good.peak


def test_spare_memory_avoids_reuse() -> None:
    columns = (range(8), range(1, 9), [64] * 8)
    assert plan(*columns, capacity=64, spread=True).reuse_pairs == 28
    assert plan(*columns, capacity=512, spread=True).reuse_pairs == 0
    assert plan(*columns, capacity=256, spread=True).reuse_pairs == 4
    assert plan(*columns, capacity=256).reuse_pairs is None


@settings(max_examples=examples(60))
@given(tied(most=5, pools=2), st.integers(0, 6))
def test_spreading_keeps_every_rule(problem: Problem, more: int) -> None:
    assume(all(pool.capacity is not None for pool in problem.rules.pools))
    try:
        solution = solve(problem, spread=True)
    except HauloutError:
        assume(False)
        raise
    assume(solution.fits)
    check(problem, solution)


def test_rules_are_repeated_exactly() -> None:
    rng = np.random.default_rng(5)
    n = 300
    lower = rng.integers(0, 200, n)
    upper = lower + rng.integers(2, 60, n)
    pairs = [(i, o) for i in range(n) for o in range(n) if upper[i] - 1 == lower[o] and (i * 7 + o) % 29 == 0]
    options = {
        "pools": [Pool("a", 60_000, 16_384), Pool("b", 100_000), Pool("c")],
        "aliases": [(0, 5, 9), (20, 21)],
        "in_place": pairs,
        "symmetric": [(30, 40), (50, 51, 52)],
        "effort": 0.1,
    }
    sizes = rng.integers(1, 8192, n)
    one, two = (plan(lower, upper, sizes, **options) for _ in range(2))  # type: ignore[arg-type]
    assert one.offset.tobytes() == two.offset.tobytes()
    assert one.pool.tobytes() == two.pool.tobytes()


def test_a_pool_that_cannot_hold_its_buffers_proves_that_nothing_fits() -> None:
    """Also if all pools together are large enough, and the other pool has no capacity."""
    for other in (1024, None):
        rules = Rules(pools=(Pool("small", 128), Pool("large", other)), allowed=((0,), (0,), (1,)))
        problem = Problem.of([0, 0, 0], [1, 1, 1], [128, 64, 64], 64, rules=rules)
        assert solve(problem).status is Status.INFEASIBLE
