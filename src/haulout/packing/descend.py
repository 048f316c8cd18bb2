"""From a capacity search to a small peak: search for smaller and smaller capacities, sometimes for the bound itself.

With a capacity as the goal, only that capacity is searched, with growing budgets. Otherwise the searched capacities
are between the bound and the best peak: the bound first, because many problems reach it, then closer and closer to
the peak, because small gains are easier. After a success the round starts again below the new peak. A proof of
infeasibility raises the bound. A round without success raises the budget by half.

That is the first half of the steps. The second half goes to one capacity at a time (`descend_by_fixed_targets`): all
settings of the search try it, with weights of failures that belong to it. What rounds do not solve often yields to
that; the bound is asked for by the rounds.
"""

from __future__ import annotations

from haulout.packing.branch_and_bound import GAVE_UP, SOLVED
from haulout.packing.capacity_search import CapacitySearch
from haulout.packing.incumbent import Incumbent

_STEPS_AT_FIRST = 2_500
_TARGETS = (0.0, 0.7, 0.85, 0.93, 0.97)  # fractions of the distance from the bound to the peak

_NEAR = 50  # with a peak within a fiftieth of the bound, every turn searches for the bound

_FIXED_TARGET = 0.85
_FIXED_RUNS = 24  # each of the settings of a run four times


def reach(
    state: Incumbent, search: CapacitySearch, capacity: int, steps: int, most: int, runs: int | None = None
) -> bool:
    """Search for one capacity with growing budgets, by at most `steps` steps in all, `most` in a run, `runs` runs."""
    budget = min(most, max(_STEPS_AT_FIRST, 3 * len(state.instance)))
    turn = 0
    while search.spent < steps and not state.over and turn != runs:
        answer = search.ask(capacity, min(budget, steps - search.spent))
        if answer != GAVE_UP:
            return answer == SOLVED
        turn += 1
        if turn % 4 == 0:
            budget = min(budget + budget // 2, most)
    return False


def descend(state: Incumbent, search: CapacitySearch, steps: int, most: int) -> None:
    """Lower the peak and raise the bound until they are equal, in at most `steps` steps, `most` in a run."""
    budget = min(most, max(_STEPS_AT_FIRST, 3 * len(state.instance)))
    turn = 0
    while search.spent < steps and not state.over:
        gained = False
        turn += 1
        far = state.peak - state.bound > state.bound // _NEAR
        rarely = turn <= 4 or turn & (turn - 1) == 0  # turns 1, 2, 3, 4, 8, 16, ...
        for target in _TARGETS[1:] if far and not rarely else _TARGETS:
            capacity = min(state.bound + int((state.peak - state.bound) * target), state.peak - 1)
            patience = budget if target else 2 * budget  # the bound is the hardest target, and the last
            gained = search.ask(capacity, min(patience, steps - search.spent)) == SOLVED
            if gained or search.spent >= steps or state.over:
                break
        if not gained:
            budget = min(budget + budget // 2, most)


def descend_by_fixed_targets(state: Incumbent, search: CapacitySearch, steps: int, most: int) -> None:
    """Lower the peak: one capacity for many runs; without success, the next one is nearer to the peak."""
    target = _FIXED_TARGET
    while search.spent < steps and not state.over:
        capacity = min(state.bound + int((state.peak - state.bound) * target), state.peak - 1)
        if not reach(state, search, capacity, steps, most, _FIXED_RUNS):
            target = (1 + target) / 2
