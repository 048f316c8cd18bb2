"""Which cuts are worth their fences.

Operations that agree form a cluster: no fence is needed inside. A cluster saves the time that its cores would spend
twice, and bytes. It costs a fence where others read what it stores, and that fence is charged to it alone; behind an
`all_gather` there is one in any case. A cluster that costs more than it saves stays undivided. A byte that is held
once more is worth the time in which it moves through the DRAM once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from haulout.analysis.durations import durations
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.exact_cover import block_weight
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.operations import Classes, Operation
from haulout.target import Target


def worthwhile(
    program: Program,
    operations: Mapping[int, Operation],
    cuts: Cuts,
    classes: Mapping[int, Classes],
    target: Target,
    asked: Collection[int] = (),
) -> Cuts:
    """The cuts of those clusters that save more than they cost, and of those with an operation of `asked`."""
    clusters = _clusters(operations, cuts)
    of_location = {
        operand.location: clusters[row] for row in cuts.axes for operand in operations[row].operands if operand.write
    }
    blocks = program.instructions.block
    time, fence = durations(program, target), target.barrier(program.lnc)
    gain: defaultdict[int, float] = defaultdict(float)
    for row in cuts.axes:
        parts = len(operations[row].classes[0])
        gain[clusters[row]] += block_weight(program.structure, int(blocks[row])) * float(time[row]) * (1 - 1 / parts)
    cost: defaultdict[int, float] = defaultdict(float)
    for location, row in read_by_others(program, operations, cuts):
        cluster = of_location[location]
        cost[cluster] = max(cost[cluster], block_weight(program.structure, int(blocks[row])) * fence)
    price = price_of_copies(program, classes, target)
    for location, cluster in of_location.items():
        gain[cluster] += price[location]
    kept = {each for each in gain if gain[each] >= cost[each]}
    kept.update(clusters[row] for row in asked)
    return Cuts(
        {at: key for at, key in cuts.keys.items() if of_location[at] in kept},
        {row: axis for row, axis in cuts.axes.items() if clusters[row] in kept},
    )


def price_of_copies(program: Program, classes: Mapping[int, Classes], target: Target) -> dict[int, float]:
    """Of each location the worth of a cut: microseconds, for its bytes that are held more than once without one."""
    rate = target.dram_gbytes_per_s * 1e3
    return {at: int(program.locations.size[at]) * (program.lnc - len(alike)) / rate for at, alike in classes.items()}


def read_by_others(
    program: Program, operations: Mapping[int, Operation], cuts: Cuts, *, gathered: bool = False
) -> Iterator[tuple[int, int]]:
    """Locations whose parts other cores read behind a fence of their own, and the instructions that do.

    Behind an `all_gather` there is a fence in any case; with `gathered` its results count, too.
    """
    gather = NONE if gathered else program.strings.find("all_gather")
    fenced = {
        operand.location
        for row in cuts.axes
        for operand in operations[row].operands
        if operand.write and program.instructions.opcode[row] == gather
    }
    accesses, starts = program.accesses, program.access_starts
    for access in range(len(accesses) // program.lnc):
        location, row = int(accesses.location[access]), int(accesses.instruction[access])
        apart = location in cuts.keys and location not in fenced
        if apart and not _agrees(operations, cuts, row, access - int(starts[row])):
            yield location, row


def _agrees(operations: Mapping[int, Operation], cuts: Cuts, row: int, at: int) -> bool:
    axis = cuts.axes.get(row)
    return axis is not None and axis.keys[at] == cuts.keys.get(operations[row].operands[at].location)


def _clusters(operations: Mapping[int, Operation], cuts: Cuts) -> dict[int, int]:
    """Of each operation that is cut the first one of its cluster. (Union-find.)"""
    leader = {row: row for row in cuts.axes}

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    touched: defaultdict[int, list[int]] = defaultdict(list)
    for row in sorted(cuts.axes):
        for at, operand in enumerate(operations[row].operands):
            if operand.location in cuts.keys and _agrees(operations, cuts, row, at):
                touched[operand.location].append(row)
    for rows in touched.values():
        for row in rows[1:]:
            one, other = sorted((find(rows[0]), find(row)))
            leader[other] = one
    return {row: find(row) for row in cuts.axes}
