"""What `split_uniform` did, and what each fence is for: the fences of a report, and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace
from rich.table import Table

from haulout.analysis.fence_pairs import fence_pairs
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.passes.split_report import Divided, Fence, Judged, Ordered, SplitReport, Undivided, Why

_SHOWN = 3
"""Pairs of a fence that a table shows."""


def with_fences(report: SplitReport, program: Program) -> SplitReport:
    """The report with the fences of `program`, in which they are placed, and which operations need them."""
    pairs = fence_pairs(program)
    accesses = program.accesses
    orders: defaultdict[int, dict[Ordered, None]] = defaultdict(dict)
    columns = (
        pairs.fence,
        accesses.instruction[pairs.earlier],
        accesses.instruction[pairs.later],
        accesses.write[pairs.later],
        pairs.carried,
    )
    # Cores do alike under one name, which is wanted once.
    kept = _first_of_each(program, columns)
    for fence, earlier, later, write, carried in zip(*(each[kept].tolist() for each in columns), strict=True):
        names = program.instruction_name(earlier), program.instruction_name(later)
        orders[fence][Ordered(*names, "overwrites" if write else "reads", carried)] = None
    rows = fence_rows(program)
    fences = [
        Fence(program.instruction_name(row), _why(program, row, orders[row]), list(orders[row]))
        for row in rows[program.instruction_core[rows] == 0].tolist()
    ]
    needs: defaultdict[str, list[str]] = defaultdict(list)
    every: list[Judged] = [*report.divided, *report.undivided]
    known = {each.name for each in every}
    for each in fences:
        for name in {_operation(one.later, known): None for one in each.orders}:
            needs[name].append(each.name)
    return replace(
        report,
        divided=[replace(each, fences=needs[each.name]) for each in report.divided],
        undivided=[replace(each, fences=needs[each.name]) for each in report.undivided],
        fences=fences,
    )


def _first_of_each(program: Program, columns: tuple[Ids, Ids, Ids, Bools, Bools]) -> Ints:
    """The first rows (fence, earlier, later, write, carried) with each two names, ascending."""
    fence, earlier, later, write, carried = columns
    name = program.instructions.name
    # What has no name is named by its row.
    first, second = (
        np.where(name[each] == NONE, each + len(program.strings), name[each]) for each in (earlier, later)
    )
    code = np.zeros(len(fence), np.int64)
    for column in (first, second, fence, 2 * write + carried):
        numbers = np.unique(column, return_inverse=True)[1]
        code = np.unique(code * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)[1]
    return np.sort(np.unique(code, return_index=True)[1])


def _operation(name: str, known: set[str]) -> str:
    """The operation that an instruction comes from: `%sum.out0` is a part of the collective `%sum`."""
    while name not in known and "." in name:
        name = name.rpartition(".")[0]
    return name


def _why(program: Program, row: int, orders: Iterable[Ordered]) -> Why:
    carried = {each.next_iteration for each in orders}
    if carried:
        return "next iteration" if carried == {True} else "conflicts"
    barriers = program.barriers
    (at,) = (barriers.instruction == row).nonzero()[0]
    if barriers.made_by[at] == NONE:
        return "source"
    return "storage" if "_free" in program.strings[int(barriers.name[at])] else "several"


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
    alone = [f"on values of each core alone: {_percent(rest)}"] if rest > 5e-6 else []
    return [*lines, *alone, _fence_line(report)]


def divided_table(divided: Sequence[Divided], fences: Sequence[Fence]) -> Table:
    """One line for each operation that is cut; `apart`: how many read other cores' parts; `fences`: what it needs."""
    table = Table(title="divided", title_justify="left", title_style="bold")
    for heading in ("time", "operation", "opcode", "source", "cut", "cores", "result", "apart", "fences"):
        right = heading in ("time", "cores", "apart")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for each in divided:
        dims = each.dims if each.dim is None else [(each.dim, each.extent)]
        cut = " and ".join(f"dim {dim} of {extent}" for dim, extent in dims) or f"{each.extent} pieces"
        cut += "" if each.asked is None else ", as asked" if each.asked == each.dim else f", asked: dim {each.asked}"
        cells = (
            _place(each.loc),
            cut,
            str(each.cores),
            each.stored,
            str(each.read_apart or ""),
            _numbers(each.fences, fences),
        )
        table.add_row(_percent(each.share), f"%{each.name}", each.opcode, *cells)
    return table


def undivided_table(undivided: Sequence[Undivided], fences: Sequence[Fence]) -> Table:
    """One line for each operation that several cores do alike."""
    table = Table(title="not divided", title_justify="left", title_style="bold")
    for heading in ("time", "operation", "opcode", "source", "reason", "fences"):
        table.add_column(heading, justify="right" if heading == "time" else "left", overflow="fold")
    for each in undivided:
        table.add_row(
            _percent(each.share),
            f"%{each.name}",
            each.opcode,
            _place(each.loc),
            each.reason,
            _numbers(each.fences, fences),
        )
    return table


def _numbers(names: Sequence[str], fences: Sequence[Fence]) -> str:
    """The numbers of fences in the list of a core, from 1."""
    return " ".join(str(number) for number, each in enumerate(fences, 1) if each.name in names)


def fence_table(fences: Sequence[Fence]) -> Table:
    """One line for each fence: what needs it."""
    table = Table(title="fences", title_justify="left", title_style="bold")
    for heading in ("", "fence", "for", "orders"):
        table.add_column(heading, overflow="fold")
    for number, each in enumerate(fences, 1):
        listed = [
            f"%{one.later} {one.how} %{one.earlier}{' of the iteration before' if one.next_iteration else ''}"
            for one in each.orders[:_SHOWN]
        ]
        more = len(each.orders) - len(listed)
        table.add_row(
            str(number), f"%{each.name}", each.why, "; ".join(listed) + (f"; and {more} more" if more else "")
        )
    return table


def _fence_line(report: SplitReport) -> str:
    """How many fences there are, and how many several operations need."""
    needing = [len({one.later for one in each.orders}) for each in report.fences]
    kinds = [each.why for each in report.fences]
    shared = sum(count > 1 for count in needing)
    counted = f"; {shared} that several operations need, listed with each" if shared else ""
    for why, text in (("storage", "free storage"), ("next iteration", "order iterations of a loop alone")):
        counted += f"; {kinds.count(why)} {text}" if why in kinds else ""
    return f"fences: {len(report.fences)}{counted}"


def _place(loc: str | None) -> str:
    """The source without its folders."""
    return (loc or "").rpartition("/")[2]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
