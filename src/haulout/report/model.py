"""`report.json`: the figures of a compile. Field names are an interface; new fields may be added."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from haulout.analysis.makespan import Estimate
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE, Engine
from haulout.ir.origin import aliased_bytes, donated_locations, xla_memory
from haulout.ir.paths import location_path
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.manager import PassRecord
from haulout.passes.split_report import SplitReport
from haulout.report.address_map import RemoteAddress, remote_address_map
from haulout.report.catalog import assumptions
from haulout.report.exchange import Exchange, exchange_time
from haulout.report.peak import Peak, PeakArray, find_peak
from haulout.report.split import with_fences
from haulout.support.render import as_json

PROVED = ("no race", "no deadlock", "one address for every shared location")
"""The properties that a clean check proves (`checker/driver.py` has the full list)."""
SPLIT = "that the split program equals the unsplit one"
"""Never proved: XLA or the author has split the program before."""


class CoreReport(msgspec.Struct):
    """One core. Sizes in bytes."""

    core: int
    instructions: int
    barriers: int
    peak_bytes: int
    lower_bound_bytes: int
    """The most bytes that are live at one time: a lower bound of every allocation."""
    busy_us: dict[str, float]
    """Engine -> estimated busy time in microseconds; idle engines are absent."""
    wait_us: float
    """Microseconds from its arrival at each barrier or exchange until it leaves, estimated, summed."""


class ShareLevel(msgspec.Struct):
    """The figures of a compile with one value of `share`."""

    share: str
    total_peak_bytes: int
    barriers: int
    """On each core."""
    estimated_makespan_us: float

    @classmethod
    def of(cls, share: str, context: PassContext) -> ShareLevel:
        """Those of a run of the pipeline that ended with `estimate`."""
        assert context.timed is not None
        fenced = context.timed.program
        barriers = np.bincount(fenced.instruction_core[fence_rows(fenced)], minlength=fenced.lnc)
        peak = context.counters.get("coloring_allocator_dram_shared", {}).get("total_peak_bytes", 0)
        return cls(share, peak, int(barriers.max(initial=0)), _micro(context.timed.estimate.makespan))


class Sharing(msgspec.Struct):
    """Bytes of locations that hold equal values on several cores."""

    stored_once_bytes: dict[str, int]
    """Pass -> bytes of copies that it saved."""
    copied_bytes: dict[str, int]
    """Reason -> bytes of copies that are still there, but for read-only inputs and constants."""
    levels: list[ShareLevel]
    """With `compare_share` one for each value of `share`."""


class Timing(msgspec.Struct):
    """Wall time of one pass."""

    name: str
    seconds: float
    order: int | None = None


class Donation(msgspec.Struct):
    """Arguments that may be overwritten."""

    asked: int
    used: list[str]
    """Paths or names of those that hold a result ..."""
    unused: list[str]
    """... and of those that no result fits."""
    saved_bytes: int
    """Bytes of the results of all cores that are stored where an argument is."""

    @classmethod
    def of(cls, program: Program) -> Donation | None:
        """What became of the donated arguments; None if there are none."""
        rows = donated_locations(program)
        names = [location_path(program, row) or program.strings[int(program.locations.name[row])] for row, _ in rows]
        used = [name for name, (_, is_used) in zip(names, rows, strict=True) if is_used]
        unused = [name for name, (_, is_used) in zip(names, rows, strict=True) if not is_used]
        return cls(len(rows), used, unused, aliased_bytes(program)) if rows else None


class XlaPlan(msgspec.Struct):
    """The buffers of XLA for CPUs, in bytes on each device."""

    devices: int
    argument_bytes: int
    result_bytes: int
    aliased_bytes: int
    """Of the results: those that are stored where an argument is."""
    temporary_bytes: int
    total_bytes: int
    """On all devices."""

    @classmethod
    def of(cls, program: Program) -> XlaPlan | None:
        """That of a program, None if it is not known."""
        found = xla_memory(program)
        return None if found is None else cls(*found, found.devices * found.total)


class Report(msgspec.Struct):
    """A compile."""

    program: str
    lnc: int
    instructions: int
    """On all cores."""
    barriers: int
    """On each core, with those that became semaphores."""
    semaphores: int
    """The most on one core; 0 if order stays dependences and barriers."""
    fences: str
    """The policy."""
    longest_chain: int | None
    """The least number of fences that any correct placement has; only the policy `minimal` computes it."""
    shared_locations: int
    """Allocations that several cores access."""
    shared_bytes: int
    sharing: Sharing
    split: SplitReport | None
    """How work that several cores would do alike is divided; null where no pass has looked at it."""
    cores: list[CoreReport]
    total_peak_bytes: int
    total_lower_bound_bytes: int
    partition_totals: dict[str, int]
    """Bytes of DRAM of all cores by kind of partitions; a joint space is absent where it was not tried."""
    target: str
    """The machine of the estimated times."""
    estimated_makespan_us: float
    """From the start to the end of the slowest core."""
    phase_balance: float
    """Time of the cores between fences, on average over that of the slowest: 1 when all arrive together."""
    assumed_trips: int
    """Loops with an unknown trip count, which the estimate assumes."""
    placement: str | None
    """The rule that placed the fences: the one with the lowest estimate in `makespans_us`."""
    makespans_us: dict[str, float]
    """Of the program with the barriers that the lowering made (`lowered`), and with the fewest fences, placed by
    each rule that was tried; before addresses, whose order comes later. Policy `minimal` alone."""
    vnc_remote_addr_map: list[RemoteAddress]
    """Every view, and the owner's placement."""
    proved: list[str]
    """Proved properties; empty if there is an error or a warning."""
    not_proved: list[str]
    """Properties that are not proved."""
    counters: dict[str, dict[str, int]]
    diagnostics: list[dict[str, Any]]
    timings: list[Timing]
    """The one field that differs from run to run."""
    peak: Peak | None = None
    """When most bytes of one core are live."""
    peak_arrays: list[PeakArray] = []
    """The largest arrays that are live then, the largest first."""
    exchange: Exchange | None = None
    """Time in which cores exchange data, and the source lines that cause it."""
    donation: Donation | None = None
    """Of a program whose author donates arguments."""
    xla_memory: XlaPlan | None = None
    """What XLA plans for the same module, where it is known."""

    def to_json(self) -> str:
        """Indented JSON with a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def make_report(
    program: Program,
    context: PassContext,
    records: list[PassRecord],
    fences: str,
    *,
    target: str,
    proved: bool,
) -> Report:
    """Collect the numbers of a compile.

    Barriers are counted in the program that was timed on the machine `target`, before any became semaphores.
    """
    assert context.timed is not None
    fenced, estimate = context.timed.program, context.timed.estimate
    peak, peak_arrays = find_peak(program)
    cores = np.arange(program.lnc)
    per_core = np.bincount(program.instruction_core, minlength=program.lnc)
    barriers = np.bincount(fenced.instruction_core[fence_rows(fenced)], minlength=program.lnc)
    owner = program.owner[program.locations.remote_name != NONE]
    shared = np.unique(owner[owner != NONE])
    allocator = "coloring_allocator_dram_shared"
    totals = context.counters.get(allocator, {})

    def core_value(core: int, key: str) -> int:
        return context.counters.get(f"{allocator}.core{core}", {}).get(key, 0)

    return Report(
        program=program.name,
        lnc=program.lnc,
        instructions=len(program.instructions),
        barriers=int(barriers.max(initial=0)),
        semaphores=max(
            context.counters.get(name, {}).get("semaphores", 0) for name in ("lower_sync", "lower_barriers")
        ),
        fences=fences,
        longest_chain=context.counters.get("extend_shared_lifetimes", {}).get("longest_chain"),
        shared_locations=len(shared),
        shared_bytes=int(program.locations.size[shared].sum()),
        sharing=_sharing(context),
        split=None if context.split is None else with_fences(context.split, fenced),
        cores=[
            CoreReport(
                core,
                int(per_core[core]),
                int(barriers[core]),
                core_value(core, "peak_bytes"),
                core_value(core, "lower_bound_bytes"),
                _busy(estimate, core),
                _micro(estimate.waited[core]),
            )
            for core in cores.tolist()
        ],
        total_peak_bytes=totals.get("total_peak_bytes", 0),
        total_lower_bound_bytes=totals.get("total_lower_bound_bytes", 0),
        partition_totals=context.counters.get(f"{allocator}.totals", {}),
        target=target,
        estimated_makespan_us=_micro(estimate.makespan),
        phase_balance=round(estimate.balance, 4),
        assumed_trips=estimate.assumed,
        placement=next(iter(context.counters.get("extend_shared_lifetimes.placement", {})), None),
        makespans_us={
            rule: time / 1e3 for rule, time in context.counters.get("extend_shared_lifetimes.makespan_ns", {}).items()
        },
        vnc_remote_addr_map=remote_address_map(program),
        proved=list(PROVED) if proved else [],
        not_proved=[*([] if proved else PROVED), SPLIT, *assumptions(context.all_findings)],
        counters=context.counters,
        diagnostics=as_json(context.all_findings),
        timings=[Timing(record.name, round(record.seconds, 6), record.order) for record in records],
        peak=peak,
        peak_arrays=peak_arrays,
        exchange=exchange_time(fenced, estimate),
        donation=Donation.of(program),
        xla_memory=XlaPlan.of(program),
    )


def _sharing(context: PassContext) -> Sharing:
    """What the passes that share have counted."""
    saved = {name: found["saved_bytes"] for name, found in context.counters.items() if "saved_bytes" in found}
    return Sharing(saved, context.counters.get("split_uniform.copied_bytes", {}), [])


def _busy(estimate: Estimate, core: int) -> dict[str, float]:
    """Busy time of the engines of a core."""
    return {engine.text: _micro(time) for engine in Engine if (time := estimate.busy[core, engine]) > 0}


def _micro(time: float) -> float:
    """Microseconds, rounded to nanoseconds."""
    return round(float(time), 3)
