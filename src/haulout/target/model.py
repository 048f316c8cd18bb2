"""A machine model: what an instruction costs on which engine, and what it costs cores to meet.

An instruction takes the engine's fixed overhead and then the longest of three times (a roofline):

    issue + max( flops / flop rate,  bytes through the engine / its rate,  bytes of DRAM / the core's share of it )

What it cannot say: engines of one core that compete for DRAM, caches, clocks that change. It serves to compare two
placements of the same instructions, not to predict a wall clock. Presets stand beside this file as TOML; `load.py`
reads them, and a user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from haulout.ir.enums import LINES, Engine


@dataclass(frozen=True, slots=True)
class EngineRate:
    """One line of a core."""

    issue_us: float = 0.0
    """Fixed overhead of every instruction."""
    gbytes_per_s: float = float("inf")
    """10**9 bytes a second, read and written together; of copies, the bytes copied."""
    gflops_per_s: float = 0.0
    """10**9 flops a second on elements of at most two bytes; 0: its flops are not counted."""
    wide_slowdown: float = 1.0
    """How many times longer flops on wider elements take."""
    least_run: int = 1
    """A shorter run of bytes costs as much as one of this length."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device: cores that are all alike, one DRAM. Times in microseconds."""

    name: str
    description: str
    engines: tuple[EngineRate, ...]
    """By `Engine`; all DMA queues are alike, and ALL costs nothing but its barriers."""
    barrier_us: float
    """A rendezvous of one core alone."""
    barrier_per_core_us: float
    """What each further core adds to it."""
    sendrecv_us: float
    """An exchange of two cores."""
    branch_us: float
    """From the last write of a condition to the first instruction behind the branch."""
    dram_gbytes_per_s: float
    """One core's share of the DRAM's rate."""
    dram_bytes: int | None
    """Of all cores together; None: not known."""
    slowdown: Mapping[str, float]
    """Opcode -> how many times longer its bytes take than the engine's rate says."""

    def __post_init__(self) -> None:
        assert len(self.engines) == LINES

    def barrier(self, cores: int) -> float:
        """What a barrier of so many cores costs once all are there, in microseconds."""
        return self.barrier_us + self.barrier_per_core_us * max(cores - 1, 0)

    def rate(self, engine: Engine) -> EngineRate:
        """The rates of an engine."""
        return self.engines[engine]
