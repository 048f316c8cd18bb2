"""Tables on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from haulout.analysis.makespan import ASSUMED_TRIP
from haulout.report.model import Report, ShareLevel, Sharing
from haulout.support.shown import format_bytes


def core_table(report: Report) -> Table:
    """One line for each core: instructions, barriers, peak DRAM and its ratio to the lower bound."""
    # A name is text, not markup.
    table = Table(title=Text(f"{report.program}: {report.lnc} cores"), title_justify="left", title_style="bold")
    for heading in ("core", "instructions", "barriers", "peak DRAM", "lower bound", "ratio"):
        table.add_column(heading, justify="right")
    for core in report.cores:
        ratio = core.peak_bytes / core.lower_bound_bytes if core.lower_bound_bytes else 1.0
        table.add_row(
            str(core.core),
            f"{core.instructions:,}",
            str(core.barriers),
            format_bytes(core.peak_bytes),
            format_bytes(core.lower_bound_bytes),
            f"{ratio:.4f}",
        )
    return table


def summary_lines(report: Report) -> list[str]:
    """The lines below the table."""
    chain = (
        ""
        if report.longest_chain is None
        else f", the longest chain of cross-core dependences is {report.longest_chain}"
    )
    lines = [
        f"shared: {report.shared_locations} locations, {format_bytes(report.shared_bytes)}" + _copies(report.sharing),
        f"fences ({report.fences}): {report.barriers} on each core{chain}",
        f"DRAM of all cores: {format_bytes(report.total_peak_bytes)}" + _partitions(report.partition_totals),
        f"estimated makespan ({report.target}): {format_time(report.estimated_makespan_us)}" + _estimates(report),
    ]
    if report.semaphores:
        dependences, barriers = (report.counters.get(name, {}) for name in ("lower_sync", "lower_barriers"))
        kept = dependences.get("kept", 0)
        met, waited = barriers.get("barriers", 0), dependences.get("reduced", 0) - kept
        lines.append(
            f"semaphores: at most {report.semaphores} on a core, for {waited:,} dependences"
            + (f" and {met:,} barriers of all cores" if met else "")
            + (f"; {kept:,} dependences stay" if kept else "")
        )
    return lines


def verdict_lines(report: Report) -> list[str]:
    """Proved and unproved properties."""
    if not report.proved:
        return ["NOT proved: see the findings above"]
    return [f"proved: {', '.join(report.proved)}", f"not proved: {', '.join(report.not_proved)}"]


def format_time(micros: float) -> str:
    """A time in the largest unit that keeps at least one digit before the point."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if micros >= size:
            return f"{micros / size:,.2f} {unit}"
    return f"{micros:.2f} us"


def _estimates(report: Report) -> str:
    """What the fences placed and the barriers as lowered take before addresses, and what was assumed."""
    parts = []
    lowered = report.makespans_us.get("lowered")
    if lowered is not None and report.placement is not None and report.barriers:
        placed = format_time(report.makespans_us[report.placement])
        parts.append(f"{placed} before addresses, {format_time(lowered)} with the lowering's barriers")
    if report.assumed_trips:
        parts.append(f"{report.assumed_trips} loops of unknown trip count taken to run {ASSUMED_TRIP} times")
    return f" ({'; '.join(parts)})" if parts else ""


def share_table(levels: list[ShareLevel]) -> Table:
    """One line for each value of `--share`."""
    table = Table(title="by --share", title_justify="left", title_style="bold")
    for heading in ("--share", "DRAM of all cores", "fences", "estimated makespan"):
        table.add_column(heading, justify="right")
    for level in levels:
        bytes_, time = format_bytes(level.total_peak_bytes), format_time(level.estimated_makespan_us)
        table.add_row(level.share, bytes_, str(level.barriers), time)
    return table


def _copies(sharing: Sharing) -> str:
    """Copies of equal values that are saved, and those that are left, with the reason for most of them."""
    saved, left = sum(sharing.stored_once_bytes.values()), sum(sharing.copied_bytes.values())
    text = f"; {format_bytes(saved)} of copies saved" if saved else ""
    if left:
        reason = max(sharing.copied_bytes, key=lambda each: sharing.copied_bytes[each])
        text += f", {format_bytes(left)} left, most because {reason}"
    return text


def _partitions(totals: dict[str, int]) -> str:
    """What other partitions would take, in brackets, where that differs."""
    listed = ", ".join(f"{kind} {format_bytes(total)}" for kind, total in totals.items())
    return f" (partitions: {listed})" if len(set(totals.values())) > 1 else ""
