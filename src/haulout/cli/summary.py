"""The figures of a command: `summary` of `--format json`. Keys are an interface; a command gives what it knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Outcome(TypedDict, total=False):
    """How a command ended."""

    proved: bool
    """The checker has proved the program: it found nothing, and no comment accepts a finding."""
    not_proved: Sequence[str]
    """Properties that a proof leaves out, because of an assumption or always."""
    findings: int
    """Errors and warnings."""
    notes: int
    suppressed: int
    """Findings that comments accept."""
    exit_status: int


class Input(TypedDict, total=False):
    """One input of `haulout check`."""

    input: str
    program: str
    cores: int
    instructions: int
    outcome: Outcome


class Summary(TypedDict, total=False):
    """Figures of a command; bytes, and microseconds where a name ends so."""

    outcome: Outcome
    program: str
    cores: int
    instructions: int
    """In the program; of `simulate` and `run`: executed."""
    peak_bytes: int
    """DRAM of all cores; of `plan`: the end of the highest buffer."""
    lower_bound_bytes: int
    fences: int
    """Barriers of all cores, on each core."""
    makespan_us: float
    """Estimated."""
    inputs: Sequence[Input]
    outputs: int
    """Arrays that came out."""
    barriers: int
    schedules: int
    expected: int
    """Outputs that `--expect` compared."""
    seconds: Sequence[float]
    """Of each run."""
    buffers: int
    status: str
    """Of a plan: optimal, feasible, infeasible or unsolved."""
    interrupted: bool
    page: str
    """The file of a memory map."""
