"""Which cuts are worth their fences.

Operations that agree form a cluster: no fence is needed inside. A cluster saves the time that its cores would spend
twice, and bytes. It costs a fence where others read what it stores, and that fence is charged to it alone. A cluster
that costs more time than it saves stays undivided, unless it saves more than a thousandth of all bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from haulout.analysis.durations import durations
from haulout.ir.program import Program
from haulout.passes.fences.exact_cover import block_weight
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.operations import Operation, Partition
from haulout.target import Target

_LEAST_SHARE = 1000


def worthwhile(
    program: Program,
    operations: Mapping[int, Operation],
    cuts: Cuts,
    partitions: Mapping[int, Partition],
    target: Target,
) -> Cuts:
    """The cuts of those clusters that save more than they cost."""
    time = durations(program, target)
    clusters = _clusters(operations, cuts)
    saved_time: defaultdict[int, float] = defaultdict(float)
    saved_bytes: defaultdict[int, int] = defaultdict(int)
    fence: defaultdict[int, float] = defaultdict(float)
    blocks = program.instructions.block
    for row in cuts.axes:
        parts = len(operations[row].partition[0])
        weight = block_weight(program.structure, int(blocks[row]))
        saved_time[clusters[row]] += weight * float(time[row]) * (1 - 1 / parts)
    of_location = {
        operand.location: clusters[row] for row in cuts.axes for operand in operations[row].operands if operand.write
    }
    for location, cluster in of_location.items():
        saved_bytes[cluster] += int(program.locations.size[location]) * (program.lnc - len(partitions[location]))
    accesses = program.accesses
    for access in range(len(accesses) // program.lnc):
        location, row = int(accesses.location[access]), int(accesses.instruction[access])
        if location in of_location and not _agrees(operations, cuts, row, access - int(program.access_starts[row])):
            weight = block_weight(program.structure, int(blocks[row]))
            cluster = of_location[location]
            fence[cluster] = max(fence[cluster], weight * target.barrier(program.lnc))
    total = int(program.locations.size.sum())
    kept = {
        cluster
        for cluster in saved_time
        if saved_time[cluster] >= fence[cluster] or saved_bytes[cluster] * _LEAST_SHARE > total
    }
    return Cuts(
        {at: key for at, key in cuts.keys.items() if of_location[at] in kept},
        {row: axis for row, axis in cuts.axes.items() if clusters[row] in kept},
    )


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
