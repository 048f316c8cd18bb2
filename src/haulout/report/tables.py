"""Tables on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from haulout.analysis.makespan import ASSUMED_TRIP
from haulout.report.model import Report, ShareLevel, Sharing
from haulout.report.peak import Peak
from haulout.support.shown import format_bytes

_MAX_NAMES = 3
"""Arrays that a line names."""


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


def peak_table(report: Report) -> Table | None:
    """The arrays that make the peak, by what their author calls them; None without one that has such a name."""
    if report.peak is None or not any(array.path for array in report.peak_arrays):
        return None
    table = Table(title=Text(_peak_title(report.peak)), title_justify="left", title_style="bold")
    for heading in ("array", "type", "bytes", "made by"):
        table.add_column(heading, justify="right" if heading == "bytes" else "left", overflow="fold")
    for array in report.peak_arrays:
        kind = "" if array.dtype is None else f"{array.dtype}[{','.join(map(str, array.shape))}]"
        # What a caller gives is made by no line of the program.
        source = array.kind if array.kind in ("input", "inout", "const") else Path(array.loc or "").name
        table.add_row(Text(array.path or array.name), kind, format_bytes(array.bytes), Text(source))
    return table


def _peak_title(peak: Peak) -> str:
    where = f", when %{peak.instruction} runs" if peak.instruction is not None else ""
    where += f" ({Path(peak.loc).name})" if peak.loc is not None else ""
    return f"peak of core {peak.core}: {format_bytes(peak.bytes)} in {peak.arrays} arrays{where}"


def origin_lines(report: Report) -> list[str]:
    """Donation, the memory that XLA plans, and the time of exchanges; lines that have nothing to say are left out."""
    lines = []
    if (donation := report.donation) is not None:
        unused = _listed(donation.unused)
        lines.append(
            f"donated: {len(donation.used)} of {donation.asked} arrays hold a result, which saves "
            f"{format_bytes(donation.saved_bytes)}" + (f"; no result fits {unused}" if unused else "")
        )
    if (plan := report.xla_memory) is not None:
        lines.append(
            f"memory in XLA's own plan for CPUs: {format_bytes(plan.total_bytes)} on {plan.devices} "
            f"device{'s' if plan.devices > 1 else ''} (each: arguments {format_bytes(plan.argument_bytes)}, "
            f"other results {format_bytes(plan.result_bytes - plan.aliased_bytes)}, "
            f"temporaries {format_bytes(plan.temporary_bytes)})"
        )
    worst = next(iter(report.exchange.lines), None) if report.exchange is not None else None
    if report.exchange is not None and worst is not None and worst.loc is not None:
        time = format_time(worst.move_us + worst.wait_us)
        source = f"{Path(worst.loc).name} ({time})"
        lines.append(f"exchange between cores: {report.exchange.share:.1%} of the time, most for {source}")
    return lines


def _listed(names: list[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


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
