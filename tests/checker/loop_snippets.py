"""Small programs with loops and branches, written as text."""

from __future__ import annotations

COND = "mloc %go dram.local size=1 kind=input dtype=pred shape=[]"
"""What loops and forks branch on, where that does not matter."""


def loop(*body: str, header: str = "", trip: int | None = 4, name: str = "loop", behind: str = "") -> str:
    """A loop as text: its header, one block of body, and the block behind it."""
    count = "" if trip is None else f" trip={trip}"
    lines = [
        f"block ^{name} -> ^{name}_body, ^{name}_done{count} cond=go:",
        header,
        f"block ^{name}_body -> ^{name}:",
    ]
    return "\n".join([*lines, *body, f"block ^{name}_done{behind}:"])


def branch(then: str = "", other: str | None = None, name: str = "fork", attrs: str = "", behind: str = "") -> str:
    """A branch as text: an arm or two of one block each, and the join; the block before leads to the fork `^NAME`."""
    second = f"{name}_join" if other is None else f"{name}_else"
    lines = [f"block ^{name} -> ^{name}_then, ^{second} cond=go {attrs}:".replace(" :", ":")]
    lines += [f"block ^{name}_then -> ^{name}_join:", then]
    if other is not None:
        lines += [f"block ^{name}_else -> ^{name}_join:", other]
    return "\n".join([*lines, f"block ^{name}_join{behind}:"])


def core(*parts: str) -> str:
    """Locations, then blocks; the first block leads to the first loop or fork."""
    return "\n".join([COND, *parts])


START = "block ^entry -> ^loop:"
FORK = "block ^entry -> ^fork:"
BUFFER = "mloc %a dram.local size=64 kind=inout"
FENCE = '%{0} = core_barrier @all () -> () name="{0}"'
