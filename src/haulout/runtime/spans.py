"""What the threads of a run did and when; `report/timeline.py` writes it down."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["instruction", "wait", "signal"]


class Span(NamedTuple):
    """A step of a thread."""

    core: int
    engine: int
    """The queue that the thread runs; NONE: all of the core's."""
    row: int
    """Of the instructions."""
    kind: Kind
    begin: int
    """Nanoseconds from the start of the run."""
    end: int
