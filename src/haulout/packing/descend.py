"""From deciding a capacity to a small peak: ask for less and less, and now and then for the bound itself.

With a goal to fit (a capacity), that alone is asked for, with growing budgets. Otherwise the capacities asked for
lie between the bound and the best peak: the bound first, because many problems reach it, then closer and closer to
the peak, because a small gain is the easier one. A success starts over below the new peak; a refusal raises the
bound; a round without success raises the budget by half.
"""

from __future__ import annotations

from haulout.packing.branch_and_bound import SOLVED
from haulout.packing.capacity_search import Decider
from haulout.packing.incumbent import Incumbent

_STEPS_AT_FIRST = 2_500
_TARGETS = (0.0, 0.7, 0.85, 0.93, 0.97)  # of the way from the bound to the peak

_NEAR = 50  # within a fiftieth of the bound, the bound itself is asked for in every turn


def decide_goal(state: Incumbent, decider: Decider, steps: int, most: int) -> None:
    """Try to reach `state.goal`, by at most `steps` steps in all and `most` in a run."""
    budget = min(most, max(_STEPS_AT_FIRST, 3 * len(state.instance)))
    turn = 0
    while decider.spent < steps and not state.over:
        decider.ask(state.goal, min(budget, steps - decider.spent))
        turn += 1
        if turn % 4 == 0:
            budget = min(budget + budget // 2, most)


def descend(state: Incumbent, decider: Decider, steps: int, most: int) -> None:
    """Lower the peak and raise the bound until they meet, by at most `steps` steps in all and `most` in a run."""
    budget = min(most, max(_STEPS_AT_FIRST, 3 * len(state.instance)))
    turn = 0
    while decider.spent < steps and not state.over:
        gained = False
        turn += 1
        far = state.peak - state.bound > state.bound // _NEAR
        rarely = turn <= 4 or turn & (turn - 1) == 0  # turns 1, 2, 3, 4, 8, 16, ...
        for target in _TARGETS[1:] if far and not rarely else _TARGETS:
            capacity = min(state.bound + int((state.peak - state.bound) * target), state.peak - 1)
            patience = budget if target else 2 * budget  # the bound is the hardest, and the end
            gained = decider.ask(capacity, min(patience, steps - decider.spent)) == SOLVED
            if gained or decider.spent >= steps or state.over:
                break
        if not gained:
            budget = min(budget + budget // 2, most)
