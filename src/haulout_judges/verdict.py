"""The verdict of a judge on a program."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """The verdict in one word."""

    CLEAN = "clean"
    """All conflicting accesses are ordered, and every run ends."""
    RACE = "race"
    """Two conflicting accesses are unordered."""
    HANG = "hang"
    """Cores deadlock, or wait at barriers of different names."""
    UNJUDGED = "unjudged"
    """The judge does not support this program: too large, or a tool is missing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict and its evidence."""

    outcome: Outcome
    pairs: frozenset[tuple[int, int]] | None = None
    """Of a race: all pairs of instruction rows, the smaller first; a branch of block b is `-1 - b`. None: this judge
    does not name pairs."""
    reason: str = ""
    """The reason of `UNJUDGED` and `HANG`."""


def unjudged(reason: str) -> Verdict:
    """No verdict."""
    return Verdict(Outcome.UNJUDGED, None, reason)


def hang(reason: str) -> Verdict:
    """The program does not end."""
    return Verdict(Outcome.HANG, None, reason)


def of_pairs(pairs: frozenset[tuple[int, int]]) -> Verdict:
    """A race when there are pairs."""
    return Verdict(Outcome.RACE if pairs else Outcome.CLEAN, pairs)


def joined(verdicts: list[Verdict]) -> Verdict:
    """The verdict on a program from those on its runs: the worst; all pairs."""
    for outcome in (Outcome.HANG, Outcome.RACE, Outcome.UNJUDGED):
        found = [each for each in verdicts if each.outcome is outcome]
        if found and outcome is Outcome.RACE:
            named = [each.pairs for each in verdicts if each.pairs is not None]
            return Verdict(outcome, frozenset().union(*named) if len(named) == len(verdicts) else None)
        if found:
            return found[0]
    return verdicts[0] if verdicts else of_pairs(frozenset())
