"""What `split_uniform` did, as a section of `report.json` and as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from rich.table import Table

from haulout.passes.split_record import SplitRecord, Stored


class Divided(msgspec.Struct):
    """An operation of which each core does a part."""

    name: str
    opcode: str
    loc: str | None
    """`FILE:LINE` in the user's source."""
    dim: int | None
    """The dimension of its result that is cut; null: a cut of a copy that follows no dimension."""
    extent: int
    """How many indices are divided."""
    cores: int
    """How many share the work."""
    time_us: float
    """Estimated microseconds if it were not divided, as often as it runs."""
    share: float
    """Of the time of all operations of a core."""
    stored: Stored
    """The result: a `local` part on each core, or one `shared` copy."""
    read_apart: int
    """Operations that read parts of other cores, which needs a fence before each, or one before several."""


class Undivided(msgspec.Struct):
    """An operation that several cores do alike."""

    name: str
    opcode: str
    loc: str | None
    reason: str
    """Why it is not divided."""
    time_us: float
    share: float


class SplitReport(msgspec.Struct):
    """Operations of one core, in both lists those of the largest share first."""

    obstacle: str | None
    """Why no operation was looked at; null: all were."""
    time_us: float
    """Estimated microseconds of all operations of a core before the division."""
    divided_share: float
    """Of this time, what the cores divide."""
    undivided_share: float
    """What several cores do alike; the rest works on values that differ between cores."""
    local_parts: int
    """Divided operations whose results are local parts."""
    shared: int
    """Those whose results are shared."""
    reasons: dict[str, float]
    """Reason -> share of the time that is undivided because of it, the largest first."""
    divided: list[Divided]
    undivided: list[Undivided]

    @classmethod
    def of(cls, record: SplitRecord) -> SplitReport:
        """The record with shares."""

        def share(time: float) -> float:
            return time / record.total_us if record.total_us else 0.0

        divided = [
            Divided(
                each.name,
                each.opcode,
                each.loc,
                each.dim,
                each.extent,
                each.cores,
                round(each.time_us, 3),
                round(share(each.time_us), 6),
                each.stored,
                each.read_apart,
            )
            for each in sorted(record.divided, key=lambda each: -each.time_us)
        ]
        undivided = [
            Undivided(
                each.name,
                each.opcode,
                each.loc,
                each.reason,
                round(each.time_us, 3),
                round(share(each.time_us), 6),
            )
            for each in sorted(record.undivided, key=lambda each: -each.time_us)
        ]
        reasons: defaultdict[str, float] = defaultdict(float)
        for one in record.undivided:
            reasons[one.reason] += share(one.time_us)
        return cls(
            record.obstacle,
            round(record.total_us, 3),
            round(share(sum(each.time_us for each in record.divided)), 6),
            round(sum(reasons.values()), 6),
            sum(each.stored == "local" for each in divided),
            sum(each.stored == "shared" for each in divided),
            {
                reason: round(reasons[reason], 6)
                for reason in sorted(reasons, key=lambda each: (-reasons[each], each))
            },
            divided,
            undivided,
        )

    def to_json(self) -> str:
        """Indented JSON with a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def split_lines(report: SplitReport) -> list[str]:
    """The totals."""
    if report.obstacle is not None:
        return [f"nothing is divided: {report.obstacle}"]
    rest = max(0.0, 1 - report.divided_share - report.undivided_share)
    lines = [
        f"divided: {len(report.divided)} operations, {_percent(report.divided_share)} of the time of a core; "
        f"results of {report.local_parts} in local parts, of {report.shared} shared",
        f"not divided: {len(report.undivided)} operations, {_percent(report.undivided_share)}",
        *(f"  {_percent(share)}: {reason}" for reason, share in report.reasons.items()),
    ]
    return [*lines, f"on values of each core alone: {_percent(rest)}"] if rest > 5e-6 else lines


def divided_table(divided: Sequence[Divided]) -> Table:
    """One line for each operation that is cut; `apart` is how many read parts of other cores."""
    table = Table(title="divided", title_justify="left", title_style="bold")
    for heading in ("time", "operation", "opcode", "source", "cut", "cores", "result", "apart"):
        right = heading in ("time", "cores", "apart")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for each in divided:
        cut = f"dim {each.dim} of {each.extent}" if each.dim is not None else f"{each.extent} pieces"
        cells = _place(each.loc), cut, str(each.cores), each.stored, str(each.read_apart or "")
        table.add_row(_percent(each.share), f"%{each.name}", each.opcode, *cells)
    return table


def undivided_table(undivided: Sequence[Undivided]) -> Table:
    """One line for each operation that several cores do alike."""
    table = Table(title="not divided", title_justify="left", title_style="bold")
    for heading in ("time", "operation", "opcode", "source", "reason"):
        table.add_column(heading, justify="right" if heading == "time" else "left", overflow="fold")
    for each in undivided:
        table.add_row(_percent(each.share), f"%{each.name}", each.opcode, _place(each.loc), each.reason)
    return table


def _place(loc: str | None) -> str:
    """The source without its folders."""
    return (loc or "").rpartition("/")[2]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
