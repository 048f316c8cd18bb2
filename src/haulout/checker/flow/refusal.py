"""Why a function is not proved by data flow: the construct that the proof does not cover, and its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from haulout.checker.paths.narrowed import Narrowed
from haulout.checker.paths.runs import Choice
from haulout.ir.enums import NONE


@dataclass(frozen=True, slots=True)
class Refusal:
    """A construct that is not proved, in words that complete "not proved: ..."."""

    text: str
    block: int = NONE
    """The number of its block in the function; NONE: the function as a whole."""
    instruction: int = NONE
    """Its row in the program as written; NONE: no instruction in particular."""


@dataclass(frozen=True, slots=True)
class Short(Refusal):
    """A wait that signals before it in the text may not satisfy."""


@dataclass(frozen=True, slots=True)
class Stuck(Refusal):
    """A construct in which all runs of some choices are stuck."""

    narrowed: Narrowed = Narrowed()
    """The choices that are left out before ..."""
    path: Mapping[Choice, int] = field(default_factory=dict)
    """... a path to it through what is left by then ..."""
    rest: Narrowed | None = None
    """... and those that are left out from then on; None: every run is stuck."""

    @staticmethod
    def at(where: Refusal, narrowed: Narrowed, path: Mapping[Choice, int], rest: Narrowed | None) -> Stuck:
        """The construct of a refusal."""
        return Stuck(where.text, where.block, where.instruction, narrowed, path, rest)
