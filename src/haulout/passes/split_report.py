"""What `split_uniform` did with each operation: the section `split` of `report.json`."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import msgspec

Stored = Literal["local", "shared"]
Why = Literal["conflicts", "next iteration", "storage", "several", "source"]


class Judged(msgspec.Struct, kw_only=True):
    """An operation that several cores would do alike."""

    name: str
    opcode: str
    loc: str | None
    """`FILE:LINE` in the user's source."""
    time_us: float
    """Estimated microseconds if it were not divided, as often as it runs."""
    share: float = 0.0
    """Of the time of all operations of a core."""
    asked: int | None = None
    """The dimension that an annotation of the source asks for."""
    fences: list[str] = []
    """Fences that it needs: it reads what another core has written, or overwrites what another core has read or
    written, and no other fence is between. A fence that several operations need is listed with each."""


class Divided(Judged, kw_only=True):
    """One of which each core does a part."""

    dim: int | None
    """The dimension of its result that is cut; null: a cut of two dimensions, or of a copy that follows none."""
    dims: list[tuple[int, int]] = []
    """Of a cut of two dimensions these, and their extents: groups of cores have one index each of the first one."""
    extent: int
    """How many indices are divided."""
    cores: int
    """How many share the work."""
    stored: Stored
    """The result: a `local` part on each core, or one `shared` copy."""
    read_apart: int
    """Operations that read parts of other cores, which needs a fence before each, or one before several."""


class Undivided(Judged, kw_only=True):
    """One that they do alike."""

    reason: str
    """Why it is not divided."""


class Ordered(msgspec.Struct, frozen=True):
    """Two operations between which there is this fence alone."""

    earlier: str
    later: str
    how: Literal["reads", "overwrites"]
    """What the later one does with bytes of the earlier one, on another core."""
    next_iteration: bool
    """Of a loop: the later one is in the iteration after that of the earlier one."""


class Fence(msgspec.Struct):
    """A barrier of all cores."""

    name: str
    why: Why
    """`conflicts`: it alone orders some; `next iteration`: all of these are between iterations of a loop; `storage`:
    another value takes it earlier because of the fence; `several`: all conflicts across it cross other fences, too;
    `source`: the program has it, and no conflict needs it."""
    orders: list[Ordered]


class SplitReport(msgspec.Struct):
    """Operations of one core, in both lists those of the largest share first."""

    obstacle: str | None = None
    """Why no operation was looked at; null: all were."""
    time_us: float = 0.0
    """Estimated microseconds of all operations of a core before the division."""
    divided_share: float = 0.0
    """Of this time, what the cores divide."""
    undivided_share: float = 0.0
    """What several cores do alike; the rest works on values that differ between cores."""
    local_parts: int = 0
    """Divided operations whose results are local parts."""
    shared: int = 0
    """Those whose results are shared."""
    reasons: dict[str, float] = {}
    """Reason -> share of the time that is undivided because of it, the largest first."""
    divided: list[Divided] = []
    undivided: list[Undivided] = []
    fences: list[Fence] = []
    """Fences of a core, in the order of its list."""

    @classmethod
    def of(cls, divided: list[Divided], undivided: list[Undivided], time_us: float) -> SplitReport:
        """The report on operations whose `time_us` is exact and whose `share` is not known yet."""
        reasons: defaultdict[str, float] = defaultdict(float)
        total = time_us or 1.0
        for each in undivided:
            reasons[each.reason] += each.time_us / total
        shares = [sum(each.time_us for each in made) / total for made in (divided, undivided)]
        divided.sort(key=lambda each: -each.time_us)
        undivided.sort(key=lambda each: -each.time_us)
        every: list[Judged] = [*divided, *undivided]
        for one in every:
            one.time_us, one.share = round(one.time_us, 3), round(one.time_us / total, 6)
        return cls(
            time_us=round(time_us, 3),
            divided_share=round(shares[0], 6),
            undivided_share=round(shares[1], 6),
            local_parts=sum(each.stored == "local" for each in divided),
            shared=sum(each.stored == "shared" for each in divided),
            reasons={why: round(reasons[why], 6) for why in sorted(reasons, key=lambda each: (-reasons[each], each))},
            divided=divided,
            undivided=undivided,
        )

    def to_json(self) -> str:
        """Indented JSON with a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
