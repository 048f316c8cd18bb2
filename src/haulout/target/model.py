"""A machine model: the cost of instructions on each engine, and of rendezvous.

An instruction takes the engine's fixed overhead and then the longest of three times (a roofline):

    issue + max( flops / flop rate,  bytes through the engine / its rate,  bytes of DRAM / the core's share of it )

It does not model engines of one core that compete for DRAM, caches, or variable clocks. It compares placements of the
same instructions; it does not predict wall time. Presets are TOML files in `presets`; `load.py` reads them and those
of users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from haulout.ir.enums import LINES, Engine


@dataclass(frozen=True, slots=True)
class EngineRate:
    """The rates of one engine."""

    issue_us: float = 0.0
    """Fixed overhead of every instruction."""
    gbytes_per_s: float = float("inf")
    """10**9 bytes a second, read and written together; of copies, the bytes copied."""
    gflops_per_s: float = 0.0
    """10**9 flops a second on elements of at most two bytes; 0: its flops are not counted."""
    wide_slowdown: float = 1.0
    """Factor on the time of flops on wider elements."""
    least_run: int = 1
    """A shorter run of bytes costs as much as one of this length."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device of equal cores with one DRAM. Times in microseconds."""

    name: str
    description: str
    engines: tuple[EngineRate, ...]
    """By `Engine`; all DMA queues are equal, and ALL has no cost except its barriers."""
    barrier_us: float
    """A barrier of one core."""
    barrier_per_core_us: float
    """The added cost of each further core."""
    sendrecv_us: float
    """A `sendrecv` of two cores."""
    branch_us: float
    """From the last write of a condition to the first instruction after the branch."""
    dram_gbytes_per_s: float
    """One core's share of the DRAM's rate."""
    dram_bytes: int | None
    """Of all cores together; None: unknown."""
    slowdown: Mapping[str, float]
    """Opcode -> factor on the time of its bytes."""

    def __post_init__(self) -> None:
        assert len(self.engines) == LINES

    def barrier(self, cores: int) -> float:
        """The cost of a barrier of so many cores after the last arrival, in microseconds."""
        return self.barrier_us + self.barrier_per_core_us * max(cores - 1, 0)

    def rate(self, engine: Engine) -> EngineRate:
        """The rates of an engine."""
        return self.engines[engine]
