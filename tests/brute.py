"""The plain truth about small programs, by sets and transitive closure: what fast algorithms are held against.

Nothing here is shared with the library but the tables. Sizes are tens of instructions.
"""

from __future__ import annotations

from haulout.ir.builder import Operand, ProgramBuilder
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


def participants(program: Program, at: int) -> frozenset[int]:
    """The cores of a row of `barriers`."""
    text = program.strings.get(int(program.barriers.cores[at]))
    return frozenset(range(program.lnc) if text is None else map(int, text.strip("[]").split(",")))


def happens_before(program: Program) -> list[int]:
    """Per instruction a bit set of those that are complete before it starts, over all cores.

    Rendezvous are matched by index among equal participants; programs with a deadlock or a mismatch are not for this.
    """
    count = len(program.instructions)
    core, engine = program.instruction_core.tolist(), program.instructions.engine.tolist()
    barriers = barrier_rows(program)
    node = list(range(count))
    met: dict[tuple[frozenset[int], int], int] = {}
    seen: dict[tuple[int, frozenset[int]], int] = {}
    for row, at in barriers.items():
        cores = participants(program, at)
        index = seen[core[row], cores] = seen.get((core[row], cores), -1) + 1
        node[row] = met.setdefault((cores, index), row)
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


# -- loops: what a program does for given trip counts, written out as a straight list --------------------------------


def written_out(program: Program, trips: dict[int, int]) -> tuple[Program, list[tuple[int, int, int]]]:
    """The straight-line program that runs when loop `k` (by the number of its header block) runs `trips[k]` times.

    Also the source time of each of its instructions: (place of the block in the run, seq, core). What a branch
    decides waits for the writers of its condition, by plain dependences.
    """
    build = ProgramBuilder(program.name, program.lnc)
    times: list[tuple[int, int, int]] = []
    blocks = len(program.blocks) // program.lnc
    starts = program.starts("instructions", "blocks").tolist()
    deps: dict[int, list[tuple[int, bool]]] = {}
    for row, producer, carried in zip(
        program.dependences.instruction.tolist(),
        program.dependences.producer.tolist(),
        program.dependences.carried.tolist(),
        strict=True,
    ):
        deps.setdefault(row, []).append((producer, carried))
    barriers = barrier_rows(program)
    views = program.module_views()
    for core in range(program.lnc):
        function = build.function(build.module(f"nc{core}", core), "main")
        locations = {}
        for view in views[core].functions[0].locations:
            locations[view.row] = build.location(
                function, view.name, view.space, view.size, kind=view.kind, remote=view.remote, address=view.address
            )
        entry = build.block(function, "entry")
        run = _run_of(program, core * blocks, blocks, trips)
        instances: dict[int, list[tuple[int, tuple[int, ...], tuple[int, ...]]]] = {}
        decided: list[int] = []
        for place, (block, loops, copies) in enumerate(run):
            for row in range(starts[block], starts[block + 1]):
                waits = list(decided)
                for producer, carried in deps.get(row, []):
                    for index, other_loops, other_copies in reversed(instances.get(producer, [])):
                        common = [k for k, (a, b) in enumerate(zip(loops, other_loops, strict=False)) if a == b]
                        depth = len(common)
                        if not carried or (
                            depth
                            and copies[: depth - 1] == other_copies[: depth - 1]
                            and other_copies[depth - 1] == copies[depth - 1] - 1
                        ):
                            waits.append(index)
                            break
                begin, end = program.access_starts[row : row + 2].tolist()
                operands: tuple[list[Operand], list[Operand]] = ([], [])
                for access in range(begin, end):
                    location = locations[int(program.accesses.location[access])]
                    pattern = program.pattern(int(program.accesses.pattern[access]))
                    operands[bool(program.accesses.write[access])].append((location, pattern))
                engine = Engine(int(program.instructions.engine[row]))
                name = f"{program.instruction_name(row)}@{place}"
                if row in barriers:
                    rendezvous = program.strings[int(program.barriers.name[barriers[row]])]
                    index = build.barrier(entry, name, rendezvous, engine=engine, deps=waits)
                else:
                    index = build.instruction(entry, name, "op", engine, *operands, deps=waits)
                instances.setdefault(row, []).append((index, loops, copies))
                times.append((place, int(program.instructions.seq[row]), core))
            cond = int(program.blocks.cond[block])
            if cond != NONE:
                writers = [
                    int(program.accesses.instruction[access])
                    for access in range(*program.access_starts[[starts[block], starts[block + 1]]].tolist())
                    if program.accesses.write[access] and program.accesses.location[access] == cond
                ]
                decided = [instances[row][-1][0] for row in writers]
    return build.freeze(), times


def _run_of(
    program: Program, first: int, blocks: int, trips: dict[int, int]
) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """(block, loops around it, iteration of each) in the order in which the blocks of a core run."""
    run = []
    loops: list[int] = []
    counts: list[int] = []
    block = first
    while True:
        successors = program.edges.target[program.edges.source == block].tolist()
        if len(successors) == 2:
            if not loops or loops[-1] != block:
                loops.append(block)
                counts.append(0)
            run.append((block, tuple(loops), tuple(counts)))
            if counts[-1] < trips[block - first]:
                block = successors[0]
            else:
                loops.pop()
                counts.pop()
                block = successors[1]
            continue
        run.append((block, tuple(loops), tuple(counts)))
        if not successors:
            return run
        if successors[0] <= block:
            counts[-1] += 1
        block = successors[0]


def wrong_reads(program: Program, times: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Reads (instruction, location) that find another write's bytes at their address.

    In source order between the fences of all cores: at one source time, a core may be in front of a fence that
    another core has passed.
    """
    logical: dict[tuple[object, int], int] = {}
    physical: dict[tuple[object, int], int] = {}
    wrong = []
    starts = program.access_starts.tolist()
    fences = set(program.barriers.instruction[program.barriers.cores == NONE].tolist())
    epoch, passed = [], [0] * program.lnc
    for row, core in enumerate(program.instruction_core.tolist()):
        passed[core] += row in fences
        epoch.append(passed[core])
    for row in sorted(range(len(times)), key=lambda row: (epoch[row], times[row])):
        for write in (False, True):
            for access in range(starts[row], starts[row + 1]):
                if bool(program.accesses.write[access]) != write:
                    continue
                location = int(program.accesses.location[access])
                pattern = program.pattern(int(program.accesses.pattern[access]))
                size = int(program.locations.size[location])
                offsets = range(size) if pattern is None else pattern.bytes().tolist()
                address = int(program.locations.address[location])
                for offset in offsets:
                    here, there = (int(program.owner[location]), offset), ("dram", address + offset)
                    if write:
                        logical[here] = physical[there] = row
                    elif logical.get(here) != physical.get(there) and here in logical:
                        wrong.append((row, location))
    return wrong
