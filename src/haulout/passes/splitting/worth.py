"""Which cuts are worth their fences.

Operations that agree form a cluster: no fence is needed inside. A cluster saves the time that its cores would spend
twice, and bytes. It costs a fence where others read what it stores, and that fence is charged to it alone; behind an
`all_gather` there is one in any case. A cluster that costs more time than it saves stays undivided, unless it saves
more than a thousandth of all bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from haulout.analysis.durations import durations
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.exact_cover import block_weight
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.operations import Classes, Operation
from haulout.target import Target

_LEAST_SHARE = 1000


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
    saved_bytes: Counter[int] = Counter()
    for location, cluster in of_location.items():
        saved_bytes[cluster] += int(program.locations.size[location]) * (program.lnc - len(classes[location]))
    total = int(program.locations.size.sum())
    kept = {each for each in gain if gain[each] >= cost[each] or saved_bytes[each] * _LEAST_SHARE > total}
    kept.update(clusters[row] for row in asked)
    return Cuts(
        {at: key for at, key in cuts.keys.items() if of_location[at] in kept},
        {row: axis for row, axis in cuts.axes.items() if clusters[row] in kept},
    )


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
