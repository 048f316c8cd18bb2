"""The least cost of slots that meets every demand: an integer programme.

A demand is a set of terms, one of which must hold:

    ("slot", k)      slot k has a fence
    ("fork", b)    fork b is cut: on each of its two arms some term of that arm holds

so with a variable of 0 or 1 for each slot and each fork

    minimise  sum(weight * slot)    with    sum(terms of the demand) >= 1    for every demand
                                            sum(terms of the arm) >= fork  for both arms of every fork

Demands are intervals of slots, or complements of intervals, so that the linear relaxation is nearly always integral;
SciPy's solver (HiGHS) does the rest. Equal demands and those that another one implies are dropped first. Slots behind
the last weight are fences that are there: they hold, and cost nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np

Term = tuple[Literal["slot", "fork"], int]


@dataclass(frozen=True, slots=True)
class Covering:
    """One problem."""

    weights: list[float]
    """Of each slot."""
    present: int
    """Slots that have a fence, numbered behind the others."""
    arms: dict[int, list[set[Term]]]
    """What cuts each arm of each fork; one that is not here can never be cut."""
    demands: set[frozenset[Term]]

    def solve(self) -> list[int] | None:
        """The slots to fence; None when no set of them meets every demand."""
        held: set[Term] = {("slot", len(self.weights) + at) for at in range(self.present)}
        held |= self._held_forks(held)
        open_demands = {self._possible(demand) for demand in self.demands if not demand & held}
        if frozenset() in open_demands:
            return None
        least = _least(open_demands)
        if not least:
            return []
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        rows: list[tuple[frozenset[Term] | set[Term], Term | None]] = [
            (each, None) for each in sorted(least, key=sorted)
        ]
        used: set[Term] = set().union(*least)
        pending = sorted(term[1] for term in used if term[0] == "fork")
        while pending:
            fork = pending.pop()
            for arm in self.arms[fork]:
                if arm & held:
                    continue
                rows.append((self._possible(arm), ("fork", fork)))
                pending += sorted(term[1] for term in rows[-1][0] - used if term[0] == "fork")
                used |= rows[-1][0]
        terms = sorted(used)
        number = {term: at for at, term in enumerate(terms)}
        entries = [(at, number[term], 1.0) for at, (row, _) in enumerate(rows) for term in sorted(row)]
        entries += [(at, number[fork], -1.0) for at, (_, fork) in enumerate(rows) if fork is not None]
        row, column, value = (np.array(each) for each in zip(*entries, strict=True))
        matrix = csr_array((value, (row, column)), shape=(len(rows), len(terms)))
        # Of equally cheap sets the one with fewer fences: a fence in a loop of zero trips is not for nothing.
        weights = [self.weights[at] + 1e-3 if kind == "slot" else 0.0 for kind, at in terms]
        result = milp(
            np.array(weights),
            constraints=LinearConstraint(matrix, lb=np.array([1.0 if fork is None else 0.0 for _, fork in rows])),
            integrality=np.ones(len(terms), np.int64),
            bounds=Bounds(0, 1),
        )
        if result.x is None:
            return None
        return [at for (kind, at), value in zip(terms, result.x, strict=True) if kind == "slot" and value > 0.5]

    def _held_forks(self, held: set[Term]) -> set[Term]:
        """Branches that the fences that are there cut."""
        found: set[Term] = set()
        for fork in sorted(self.arms, reverse=True):  # inner ones first
            if all(arm & (held | found) for arm in self.arms[fork]):
                found.add(("fork", fork))
        return found

    def _possible(self, terms: frozenset[Term] | set[Term]) -> frozenset[Term]:
        """Without forks that can never be cut."""
        return frozenset(term for term in terms if term[0] == "slot" or term[1] in self.arms)


def _least(demands: set[frozenset[Term]]) -> list[frozenset[Term]]:
    """The demands that no other one implies."""
    uses = Counter(term for demand in demands for term in demand)
    by_rarest: dict[Term, list[frozenset[Term]]] = defaultdict(list)
    for demand in demands:
        # What is a part of another demand has its rarest term there, too.
        by_rarest[min(demand, key=lambda term: (uses[term], term))].append(demand)
    return [each for each in demands if not any(other < each for term in each for other in by_rarest.get(term, ()))]
