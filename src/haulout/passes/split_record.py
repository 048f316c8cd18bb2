"""What `split_uniform` did with each operation, for people: a row for each one of the first core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Stored = Literal["local", "shared"]


@dataclass(frozen=True, slots=True)
class DividedOperation:
    """An operation that is cut."""

    name: str
    opcode: str
    loc: str | None
    """`FILE:LINE` in the user's source."""
    dim: int | None
    """The dimension of the result along which it is cut; None: a cut of a copy that follows no dimension."""
    extent: int
    """How many indices are divided."""
    cores: int
    """How many share the work."""
    time_us: float
    """Estimated microseconds of the undivided operation, as often as it runs."""
    stored: Stored
    """The result: a local part on each core, or one shared copy."""
    read_apart: int
    """Operations that read parts of other cores, each behind a fence."""


@dataclass(frozen=True, slots=True)
class UndividedOperation:
    """An operation that several cores do alike."""

    name: str
    opcode: str
    loc: str | None
    reason: str
    """Why it is not cut."""
    time_us: float


@dataclass(slots=True)
class SplitRecord:
    """All operations of the first core."""

    divided: list[DividedOperation] = field(default_factory=list)
    undivided: list[UndividedOperation] = field(default_factory=list)
    total_us: float = 0.0
    """Time of all operations; those in neither list have different operands on each core."""
    obstacle: str | None = None
    """Why nothing was looked at."""
