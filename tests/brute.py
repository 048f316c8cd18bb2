"""The plain truth about small programs, by sets and transitive closure: what fast algorithms are held against.

Nothing here is shared with the library but the tables. Sizes are tens of instructions.
"""

from __future__ import annotations

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program


def barrier_rows(program: Program) -> dict[int, int]:
    """Instruction -> row of `barriers`."""
    return {int(row): at for at, row in enumerate(program.barriers.instruction)}


def touched(program: Program, access: int, *, physical: bool = False) -> set[tuple[object, int]]:
    """Bytes of an access as (storage, byte)."""
    location = int(program.accesses.location[access])
    pattern = program.pattern(int(program.accesses.pattern[access]))
    size = int(program.locations.size[location])
    offsets = range(size) if pattern is None or pattern.is_unknown else pattern.bytes().tolist()
    address = int(program.locations.address[location])
    if physical and address != NONE:
        return {("dram", address + offset) for offset in offsets}
    owner = int(program.owner[location])
    return {(owner, offset) for offset in offsets}


def conflicts(program: Program, *, physical: bool = False) -> list[tuple[int, int, str]]:
    """Pairs of instructions (smaller row first) that touch a common byte, one writing; RAW, WAR, WAW by row order."""
    barriers = barrier_rows(program)
    reads: dict[int, set[tuple[object, int]]] = {}
    writes: dict[int, set[tuple[object, int]]] = {}
    for access in range(len(program.accesses)):
        row = int(program.accesses.instruction[access])
        if row not in barriers:
            target = writes if program.accesses.write[access] else reads
            target.setdefault(row, set()).update(touched(program, access, physical=physical))
    empty: set[tuple[object, int]] = set()
    found = []
    rows = range(len(program.instructions))
    for a in rows:
        for b in range(a + 1, len(program.instructions)):
            for kind, first, second in (("raw", writes, reads), ("war", reads, writes), ("waw", writes, writes)):
                if first.get(a, empty) & second.get(b, empty):
                    found.append((a, b, kind))
    return found


def happens_before(program: Program) -> list[int]:
    """Per instruction a bit set of those that are complete before it starts, over all cores.

    Rendezvous are matched by index among equal participants; programs with a deadlock or a mismatch are not for this.
    """
    count = len(program.instructions)
    core, engine = program.instruction_core.tolist(), program.instructions.engine.tolist()
    barriers = barrier_rows(program)
    node = list(range(count))
    met: dict[tuple[int, int], int] = {}
    seen: dict[tuple[int, int], int] = {}
    for row, at in barriers.items():
        mask = int(program.barriers.cores[at])
        index = seen[core[row], mask] = seen.get((core[row], mask), -1) + 1
        node[row] = met.setdefault((mask, index), row)
    edges: list[set[int]] = [set() for _ in range(count)]
    """Predecessors of each node."""
    for row in range(count):
        for other in range(row):
            if core[other] != core[row]:
                continue
            if Engine.ALL in (engine[other], engine[row]) or engine[other] == engine[row]:
                edges[node[row]].add(node[other])
    for at in range(len(program.dependences)):
        edges[node[int(program.dependences.instruction[at])]].add(node[int(program.dependences.producer[at])])
    before = [0] * count
    changed = True
    while changed:
        changed = False
        for row in range(count):
            if node[row] != row:
                continue
            reach = before[row]
            for other in edges[row]:
                reach |= before[other] | 1 << other
            if reach != before[row]:
                before[row], changed = reach, True
    return [before[node[row]] for row in range(count)]


def unordered(program: Program, *, physical: bool = False) -> list[tuple[int, int, str]]:
    """Conflicts that nothing orders, either way."""
    before = happens_before(program)
    return [
        (a, b, kind)
        for a, b, kind in conflicts(program, physical=physical)
        if not before[b] >> a & 1 and not before[a] >> b & 1
    ]


def longest_chain(program: Program) -> int:
    """The largest number of cross-core conflicts on a path in `seq` order; 0 when there is none.

    Steps: list order inside a core (free), conflicts between cores whose `seq` differ (one each).
    """
    core, seq = program.instruction_core.tolist(), program.instructions.seq.tolist()
    crossing: dict[int, list[int]] = {}
    for a, b, _ in conflicts(program):
        if core[a] != core[b] and seq[a] != seq[b]:
            first, second = (a, b) if seq[a] < seq[b] else (b, a)
            crossing.setdefault(second, []).append(first)
    level: dict[int, int] = {}
    last_of: dict[int, int] = {}
    for row in sorted(range(len(core)), key=lambda row: (seq[row], row)):
        best = last_of.get(core[row], 0)
        for other in crossing.get(row, []):
            best = max(best, level[other] + 1)
        level[row] = last_of[core[row]] = best
    return max(level.values(), default=0)
