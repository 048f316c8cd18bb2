"""What a judge says about a program."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """The verdict in one word."""

    CLEAN = "clean"
    """Every two accesses that conflict are ordered, and every run ends."""
    RACE = "race"
    """Two accesses conflict and nothing orders them."""
    HANG = "hang"
    """Cores wait for ever, or meet at barriers of different names."""
    UNJUDGED = "unjudged"
    """The judge cannot take this program: too large, not understood, or a tool is missing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict, and what it rests on."""

    outcome: Outcome
    pairs: frozenset[tuple[int, int]] | None = None
    """Of a race: all pairs of instruction rows, the smaller first; a branch of block b is `-1 - b`. None: this judge
    does not name pairs."""
    reason: str = ""
    """Of `UNJUDGED` and `HANG`: why."""


def unjudged(reason: str) -> Verdict:
    """No verdict."""
    return Verdict(Outcome.UNJUDGED, None, reason)


def hang(reason: str) -> Verdict:
    """It does not end."""
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
