"""From deciding a capacity to a small peak: ask for less and less, and now and then for the bound itself.

With a goal to fit (a capacity), that alone is asked for, with growing budgets. Otherwise the capacities asked for
lie between the bound and the best peak: the bound first, because many problems reach it, then closer and closer to
the peak, because a small gain is the easier one. A success starts over below the new peak; a refusal raises the
bound; a round without either doubles the budget.
"""

from __future__ import annotations

from haulout.passes.allocator.branch_and_bound import SOLVED
from haulout.passes.allocator.decide import Decider
from haulout.passes.allocator.incumbent import Incumbent

_FIRST_BUDGET = 1_500  # failures
_STEPS = (0.0, 0.5, 0.8, 0.92)  # of the way from the bound to the peak


def decide_goal(state: Incumbent, decider: Decider, failures: int, largest: int) -> None:
    """Try to reach `state.goal`, by at most `failures` failures in all and `largest` in a run."""
    budget = _FIRST_BUDGET
    turn = 0
    while failures > 0 and not state.over and state.bound <= state.goal:
        decider.ask(state.goal, min(budget, failures, largest))
        failures -= budget
        turn += 1
        if turn % 4 == 0:
            budget = min(2 * budget, largest)


def descend(state: Incumbent, decider: Decider, failures: int, largest: int) -> None:
    """Lower the peak and raise the bound until they meet, by at most `failures` failures in all."""
    budget = _FIRST_BUDGET
    while failures > 0 and not state.over:
        gained = False
        for step in _STEPS:
            capacity = min(state.bound + int((state.peak - state.bound) * step), state.peak - 1)
            answer = decider.ask(capacity, min(budget, failures, largest))
            failures -= budget
            gained = answer == SOLVED
            if gained or failures <= 0 or state.over:
                break
        if not gained:
            budget = min(2 * budget, largest)
