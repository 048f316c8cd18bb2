"""What a finding advises is tried first: the checker judges the program with the fix in it.

A fix holds when the pair that it is for is ordered then and nothing is wrong that was not wrong before: no pair of
operands, no finding of another kind. The pairs that it orders make one finding together, whatever their locations and
in whichever run they show. Work is counted in instructions judged; when the budget for a program is spent, advice
says that it is not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from haulout.checker.explain.dedup import Faults
from haulout.checker.explain.fixes import Fix
from haulout.checker.proofs import sweep
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.support.diagnostics import Advice, Diagnostic, Entity

BUDGET = 800_000
"""Instructions and operands that are judged to verify the fixes of one program."""
OVERHEAD = 2000
"""What a run costs besides, in instructions."""
_MOST_EDITS = 16
"""Edits of one finding that are tried together."""

_UNVERIFIED = "(not verified: the program is too large to check the fix)"
_MANY = "and so at every place where these lines run (not verified)"
_NONE = "no single dependence, barrier or sendrecv orders these two without another fault"


@dataclass(slots=True)
class Budget:
    """What may still be judged, and what has been."""

    left: int = BUDGET
    spent: int = 0

    def spend(self, work: int) -> bool:
        """Take some; False when there is not so much."""
        if work > self.left:
            return False
        self.left -= work
        self.spent += work
        return True


@dataclass(slots=True)
class Group:
    """Pairs of one kind that are told as one finding."""

    kind: int
    lines: tuple[int, int]
    """Where the two accesses of the pair that is shown stand in the text; negative: unknown."""
    fix: Fix | None
    verified: bool
    advised: bool
    """There are fixes for pairs of this kind."""
    keys: list[Ints] = field(default_factory=list)
    """Its pairs, by run."""
    locations: dict[Entity, None] = field(default_factory=dict)
    complete: bool = True
    """The fix orders all of its pairs, as far as was tried."""
    shown: Diagnostic | None = None
    hazard: str = ""
    """The note that says what the two accesses are to each other."""

    @property
    def pairs(self) -> int:
        """How many there are."""
        return sum(map(len, self.keys))


class Adviser:
    """Finds and verifies the fixes for one function, and keeps its groups from run to run."""

    def __init__(self, program: Program, judge: Callable[[Program, int], Faults], budget: Budget | None) -> None:
        self.program, self.judge, self.budget = program, judge, budget
        self.groups: list[Group] = []
        self.faults = Faults()
        self._unordered: Callable[[Ints], Bools] | None = None
        self._tried: dict[Fix, Faults | None] = {}

    def know(self, faults: Faults, unordered: Callable[[Ints], Bools] | None = None) -> None:
        """What is wrong without any fix. `unordered` tells of pairs that are not listed whether they are bad too."""
        self.faults, self._unordered = faults, unordered

    # -- fixes ------------------------------------------------------------------------------------------------------

    def choose(self, kind: int, key: int, candidates: Iterable[Fix]) -> tuple[Fix | None, bool]:
        """The first fix that holds for a pair, and whether it was verified; None: there is none."""
        if self.budget is None:
            return None, False
        for fix in candidates:
            if fix not in self._tried and not self.budget.spend(
                self.faults.work + OVERHEAD * max(self.faults.runs, 1)
            ):
                return fix, False
            left = self._outcome(fix)
            if left is not None and not left.has(kind, key) and not self._becomes_harmless(left, key):
                return fix, True
        return None, False

    def orders(self, fix: Fix, kind: int, keys: Ints) -> Bools:
        """Which pairs a verified fix puts right: it orders them, or what remains unordered does no harm then."""
        left = self._outcome(fix)
        assert left is not None
        return ~np.isin(keys, left.of(kind))

    def _becomes_harmless(self, left: Faults, key: int) -> bool:
        """Whether a pair is still unordered with a fix, as one that does no harm, which it was not."""
        return any(left.has(kind, key) and not self.faults.has(kind, key) for kind in sweep.HARMLESS)

    def _harmless(self, group: Group) -> int:
        """How many pairs of a group remain unordered with its fix, and do no harm then."""
        left = self._outcome(group.fix) if group.fix is not None else None
        if left is None:
            return 0
        return int(np.isin(np.concatenate(group.keys), _harmless(left)).sum())

    def _outcome(self, fix: Fix) -> Faults | None:
        """What is still wrong with the fix; None when something is that was not."""
        if fix not in self._tried:
            assert self.budget is not None
            faults = self.judge(fix.apply(self.program), self.budget.spent)
            self._tried[fix] = faults if self._nothing_new(faults) else None
        return self._tried[fix]

    def _nothing_new(self, faults: Faults) -> bool:
        if not faults.others <= self.faults.others:
            return False
        harmless = _harmless(self.faults)
        for kind, keys in faults.pairs.items():
            if kind in sweep.HARMLESS:
                continue
            new = np.setdiff1d(keys, self.faults.of(kind))
            if len(new) and (self._unordered is None or kind == sweep.UNFAITHFUL or np.isin(new, harmless).any()):
                return False
            if len(new) and self._unordered is not None and not self._unordered(new).all():
                return False
        return True

    # -- groups -----------------------------------------------------------------------------------------------------

    def add(self, group: Group) -> None:
        """Keep a group."""
        self.groups.append(group)

    def known(self, kind: int, lines: tuple[int, int]) -> Group | None:
        """The group of a kind whose two accesses stand on these lines."""
        if min(lines) < 0:
            return None
        return next((each for each in self.groups if each.kind == kind and each.lines == lines), None)

    def extend(self, group: Group, kind: int, key: int, candidates: Iterable[Fix]) -> None:
        """Make the fix of a group order a pair more, with further edits."""
        fix = group.fix
        if fix is None or not group.complete:
            return
        if not group.verified or len(fix.edits) >= _MOST_EDITS:
            group.complete = False
            return
        found, verified = self.choose(kind, key, (fix + each for each in candidates))
        if found is None:
            group.fix = None
        elif not verified:
            group.complete = False
        else:
            group.fix = found

    def finish(self, found: list[Diagnostic]) -> list[Diagnostic]:
        """The findings with what is known when all runs have been looked at: how many pairs, and the advice."""
        groups = {id(each.shown): each for each in self.groups if each.shown is not None}
        return [self._finished(each, groups[id(each)]) if id(each) in groups else each for each in found]

    def _finished(self, finding: Diagnostic, group: Group) -> Diagnostic:
        assert finding.subject is not None
        notes, advice, helps = list(finding.notes), None, list(finding.help)
        if group.pairs > 1:
            at = notes.index(group.hazard)
            notes[at] += f"; stands for {group.pairs} pairs of accesses"
        if group.fix is not None:
            verified = group.verified and group.complete
            text = group.fix.text(self.program)
            if verified and group.pairs > 1:
                harmless = self._harmless(group)
                text += f"; it orders {group.pairs - harmless} pairs"
                text += f", and {harmless} more leave the same bytes in every order then" if harmless else ""
            elif not group.verified:
                text += f" {_UNVERIFIED}"
            elif not group.complete:
                text += f", {_MANY}"
            helps.insert(0, text)
            advice = Advice(group.fix, verified)
        elif group.advised and self.budget is not None:
            helps.insert(0, _NONE)
        subject = replace(finding.subject, locations=tuple(group.locations), pairs=group.pairs)
        return replace(finding, notes=tuple(notes), help=tuple(helps), subject=subject, advice=advice)


def _harmless(faults: Faults) -> Ints:
    return np.concatenate([faults.of(kind) for kind in sweep.HARMLESS])
