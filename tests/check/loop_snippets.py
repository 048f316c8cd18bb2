"""Small programs with a loop, written as text."""

from __future__ import annotations


def loop(*body: str, header: str = "", trip: int | None = 4, name: str = "loop", behind: str = "") -> str:
    """A loop as text: its header, one block of body, and the block behind it."""
    count = "" if trip is None else f" trip={trip}"
    lines = [f"block ^{name} -> ^{name}_body, ^{name}_done{count}:", header, f"block ^{name}_body -> ^{name}:"]
    return "\n".join([*lines, *body, f"block ^{name}_done{behind}:"])


def core(*parts: str) -> str:
    """Locations, then blocks; the first block leads to the first loop."""
    return "\n".join(parts)


START = "block ^entry -> ^loop:"
BUFFER = "mloc %a dram.local size=64 kind=inout"
FENCE = '%{0} = core_barrier @all () -> () name="{0}"'
