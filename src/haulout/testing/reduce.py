"""Test case reduction: delta debugging over the tables of a program.

    functions       all but the first that matters
    cores           modules, with everything that names them
    instructions    rendezvous, then those of one name on all cores, then single ones
    branches        without an arm, or both arms in sequence; not divergent
    loops           as straight code; empty blocks are merged
    locations       by name on all cores, with their accesses and views
    operands        single accesses
    dependences     single edges; participants of barriers; steps; semaphores
    patterns        whole locations in place of patterns, then ranges in place of strided ones
    attributes      addresses, `seq`, trip counts, sizes

Each candidate must be sound (`verify`) and must satisfy `keeps`. The rounds repeat until none of them makes the
program smaller, or the time limit is reached. The order of candidates is fixed, so equal inputs give equal outputs
within the time limit.

The search inside a round is `ddmin` of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"
(2002): remove halves, then quarters, ... of the rest, until no single element can be removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from haulout.ir.core_sets import sets_without
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import TABLES, Bools, Column, Ids
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify

Keeps = Callable[[Program], bool]
TIME_LIMIT = 60.0
"""Seconds."""


def reduce_program(program: Program, keeps: Keeps, *, time_limit: float = TIME_LIMIT) -> Program:
    """The smallest program found that satisfies `keeps`; `program` itself if it does not satisfy it.

    `keeps` sees sound programs only. `time_limit` in seconds bounds the search, not the last call of `keeps`.
    """
    return reduce_until(program, keeps, time_limit=time_limit).program


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a reduction found."""

    program: Program
    interrupted: bool
    """Ctrl-C ended the search: the program is the smallest found until then."""


def reduce_until(program: Program, keeps: Keeps, *, time_limit: float = TIME_LIMIT) -> Reduced:
    """The same; a KeyboardInterrupt ends the search as the time limit does, once a program has satisfied `keeps`."""
    reduction = _Reduction(keeps, time.monotonic() + time_limit)
    try:
        return Reduced(reduction.run(program), False)
    except KeyboardInterrupt:
        if reduction.smallest is None:
            raise
        return Reduced(_tidy(reduction.smallest), True)


class _Reduction:
    def __init__(self, keeps: Keeps, deadline: float) -> None:
        self.keeps, self.deadline = keeps, deadline
        self.smallest: Program | None = None
        """The last program that was accepted; every accepted one is smaller or simpler than those before."""

    def run(self, program: Program) -> Program:
        if not self.holds(program):
            return program
        size = None
        while size != (size := _size(program)) and not self.late:
            program = self.functions(program)
            program = self.cores(program)
            program = self.instructions(program)
            program = self.flow(program)
            program = self.locations(program)
            program = self.rows(program, "accesses")
            program = self.rows(program, "dependences")
            program = self.rows(program, "steps")
            program = self.rows(program, "semaphores")
            program = self.participants(program)
            program = self.patterns(program)
            program = self.attributes(program)
        return _tidy(program)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def holds(self, program: Program) -> bool:
        held = _has_bodies(program) and not verify(program) and self.keeps(program)
        if held:
            self.smallest = program
        return held

    def better(self, program: Program, candidates: Iterable[Program]) -> Program:
        """The first of the candidates that holds, else the program."""
        for candidate in candidates:
            if self.late:
                break
            if self.holds(candidate):
                return candidate
        return program

    def without(
        self, program: Program, units: Sequence[Any], drop: Callable[[Program, Sequence[Any]], Program]
    ) -> Program:
        """Leave out as many units as possible; `drop(program, units)` leaves some out of the program given here."""
        kept, best, parts = list(units), program, 1
        while kept and not self.late:
            length = -(-len(kept) // parts)
            chunks = [kept[at : at + length] for at in range(0, len(kept), length)]
            for chunk in chunks:
                gone = set(map(id, chunk))
                rest = [unit for unit in kept if id(unit) not in gone]
                remaining = set(map(id, rest))
                candidate = drop(program, [unit for unit in units if id(unit) not in remaining])
                if self.holds(candidate):
                    kept, best = rest, candidate
                if self.late:
                    break
            if length == 1:
                break
            parts = min(max(2 * parts, 2), len(kept)) if kept else 1
        return best

    # -- rounds -----------------------------------------------------------------------------------------------------

    def functions(self, program: Program) -> Program:
        names = np.unique(program.functions.name).tolist()
        return self.without(
            program,
            [(name,) for name in names],
            lambda p, gone: keep(p, functions=~np.isin(p.functions.name, [name for (name,) in gone])),
        )

    def cores(self, program: Program) -> Program:
        for core in range(program.lnc - 1, -1, -1):
            if program.lnc > 1:
                program = self.better(program, [without_core(program, core)])
        return program

    def instructions(self, program: Program) -> Program:
        program = self.without(program, _meetings(program), _without_instructions)
        by_name: dict[tuple[int, int], list[int]] = {}
        for row, name in enumerate(program.instructions.name.tolist()):
            by_name.setdefault((name, row if name == NONE else 0), []).append(row)
        program = self.without(program, list(by_name.values()), _without_instructions)
        return self.without(program, [[row] for row in range(len(program.instructions))], _without_instructions)

    def flow(self, program: Program) -> Program:
        block = 0
        while block < _blocks_of_a_core(program):
            program = self.better(program, _straightened(program, block))
            block += 1
        while (merged := _merged(program)) is not None:
            found = self.better(program, [merged])
            if found is program:
                break
            program = found
        return program

    def locations(self, program: Program) -> Program:
        by_name: dict[int, list[int]] = {}
        for row, name in enumerate(program.locations.name.tolist()):
            by_name.setdefault(name, []).append(row)
        program = self.without(program, list(by_name.values()), _without_locations)
        return self.without(program, [[row] for row in range(len(program.locations))], _without_locations)

    def rows(self, program: Program, table: str) -> Program:
        count = len(program.table(table))
        return self.without(
            program,
            [(row,) for row in range(count)],
            lambda p, gone: keep(p, **{table: _mask(count, [row for (row,) in gone])}),
        )

    def participants(self, program: Program) -> Program:
        """Barriers of all cores in place of those of some."""
        rows = program.barriers
        for at in np.flatnonzero(rows.cores != NONE).tolist():
            cores = np.where(np.arange(len(rows)) == at, NONE, program.barriers.cores)
            program = self.better(program, [program.replace(barriers=program.barriers.replace(cores=cores))])
        return program

    def patterns(self, program: Program) -> Program:
        for access in range(len(program.accesses)):
            row = int(program.accesses.pattern[access])
            pattern = program.pattern(row)
            if pattern is None:
                continue
            program = self.better(program, [_with_pattern(program, access, NONE)])
            if int(program.accesses.pattern[access]) == row and pattern.dims:
                program = self.better(program, _plainer(program, access, row))
        return program

    def attributes(self, program: Program) -> Program:
        locations, instructions = program.locations, program.instructions
        if (locations.address != NONE).any():
            plain = locations.replace(address=NONE, bank=NONE, partition=NONE)
            program = self.better(program, [program.replace(locations=plain)])
        if (instructions.seq != NONE).any():
            program = self.better(program, [program.replace(instructions=instructions.replace(seq=NONE))])
        if program.accesses.atomic.any():
            program = self.better(program, [program.replace(accesses=program.accesses.replace(atomic=False))])
        if program.steps.phase.any():
            program = self.better(program, [program.replace(steps=program.steps.replace(phase=0))])
        said = np.flatnonzero(_says_more(program)).tolist()
        return self.without(program, [(row,) for row in said], _without_attributes)


# -- candidates ------------------------------------------------------------------------------------------------------


def keep(program: Program, **masks: Bools) -> Program:
    """The rows of some tables that their masks keep, without everything that cannot be without those that go.

    A row goes when an id of it that must not be null points to a row that has gone; ids that may be null become null.
    """
    maps: dict[str, Ids] = {}
    kept: dict[str, Any] = {}
    for name in ("modules", "functions", "locations", *TABLES):  # parents, and what is named, first
        if name in maps:
            continue
        rows, table = program.table(name), TABLES[name]
        mask = masks.get(name, np.ones(len(rows), bool)).copy()
        for column, spec in table.specs().items():
            if spec["to"] in maps and not spec["null"]:
                mask &= np.append(maps[spec["to"]], NONE)[getattr(rows, column)] != NONE
        if name == "locations" and not mask.all():
            # A view of what has gone goes too.
            mask &= np.append(mask, True)[program.owner]
        maps[name] = np.where(mask, np.cumsum(mask) - 1, NONE).astype(np.int32)
        kept[name] = rows.take(mask)
    return program.replace(**{name: rows.remap(maps) for name, rows in kept.items()})


def without_core(program: Program, core: int) -> Program:
    """One core less: its module, all views of it, and its part in barriers and exchanges; later cores move up."""
    foreign = (program.locations.remote_name == NONE) | (program.locations.remote_core != core)
    program = keep(program, modules=program.modules.core != core, locations=foreign)

    def moved(cores: Column) -> Column:
        return np.where(cores > core, cores - 1, cores)

    signals = program.semaphores.take(program.semaphores.core != core)
    meetings = program.meetings
    to, source = (np.where(each == core, NONE, moved(each)) for each in (meetings.to, meetings.source))
    sets = sets_without(program.barriers.cores, program.strings, core)
    return program.replace(
        lnc=program.lnc - 1,
        modules=program.modules.replace(core=moved(program.modules.core)),
        locations=program.locations.replace(remote_core=moved(program.locations.remote_core)),
        meetings=meetings.replace(to=to, source=source),
        semaphores=signals.replace(core=moved(signals.core)),
        barriers=program.barriers.replace(cores=sets),
    )


def _has_bodies(program: Program) -> bool:
    """Whether every module has a function and every function a block, as the text needs it."""
    return bool(
        np.isin(np.arange(len(program.modules)), program.functions.module).all()
        and np.isin(np.arange(len(program.functions)), program.blocks.function).all()
    )


def _meetings(program: Program) -> list[list[int]]:
    """Instructions that meet: barriers of one name, exchanges of one tag. One alone cannot go: others would wait."""
    groups: dict[tuple[int, int], list[int]] = {}
    for what, rows, names in (
        (0, program.barriers.instruction, program.barriers.name),
        (1, program.meetings.instruction, program.meetings.tag),
    ):
        for row, name in zip(rows.tolist(), names.tolist(), strict=True):
            groups.setdefault((what, name), []).append(row)
    return list(groups.values())


def _mask(count: int, gone: Sequence[int]) -> Bools:
    mask = np.ones(count, bool)
    mask[list(gone)] = False
    return mask


def _without_instructions(program: Program, gone: Sequence[Sequence[int]]) -> Program:
    return keep(program, instructions=_mask(len(program.instructions), [row for rows in gone for row in rows]))


def _without_attributes(program: Program, gone: Sequence[tuple[int]]) -> Program:
    rows, plain = program.instructions, _mask(len(program.instructions), [row for (row,) in gone])
    attrs, maybe = np.where(plain, rows.attrs, NONE), program.accesses.maybe & plain[program.accesses.instruction]
    return program.replace(
        instructions=rows.replace(attrs=attrs, join=rows.join & plain, gather=rows.gather & plain),
        accesses=program.accesses.replace(maybe=maybe),
    )


def _says_more(program: Program) -> Bools:
    """Of each instruction: whether it has an attribute that may go."""
    rows = program.instructions
    found: Bools = (rows.attrs != NONE) | rows.join | rows.gather
    found[program.accesses.instruction[program.accesses.maybe]] = True
    return found


def _without_locations(program: Program, gone: Sequence[Sequence[int]]) -> Program:
    return keep(program, locations=_mask(len(program.locations), [row for rows in gone for row in rows]))


def _blocks_of_a_core(program: Program) -> int:
    return int((program.blocks.function == 0).sum()) if len(program.functions) else 0


def _same_block(program: Program, block: int) -> list[int]:
    """The block of that number in every first function of a core."""
    firsts = program.starts("functions", "modules")[:-1]
    starts = program.starts("blocks", "functions")
    rows = [int(starts[function]) + block for function in firsts.tolist()]
    return rows if all(row < len(program.blocks) for row in rows) else []


def _straightened(program: Program, block: int) -> list[Program]:
    """Simpler programs where a loop's header or a fork stands at that place, the simplest first.

    A loop: without its body; with one straight run of it. A branch: without its arms; with one of them; with both one
    behind the other; no longer divergent.
    """
    rows = np.array(_same_block(program, block), np.int64)
    edges = program.edges
    if not len(rows) or (np.bincount(edges.source, minlength=len(program.blocks))[rows] != 2).any():
        return []
    other = np.array([edges.target[edges.source == row][1] for row in rows.tolist()], np.int64)
    leave = [edges.target[edges.source == row].tolist() for row in (other - 1).tolist()]
    if (other <= rows).any() or any(len(targets) != 1 for targets in leave):
        return []
    if all(targets == [row] for targets, row in zip(leave, rows.tolist(), strict=True)):
        return _without_loop(program, rows, other)
    return _without_branch(program, rows, other, np.array([targets[0] for targets in leave], np.int64))


def _decided(program: Program, rows: Column) -> Program:
    """Blocks that do not branch any more."""
    plain, blocks = np.isin(np.arange(len(program.blocks)), rows), program.blocks
    return program.replace(
        blocks=blocks.replace(
            cond=np.where(plain, NONE, blocks.cond),
            trip=np.where(plain, NONE, blocks.trip),
            divergent=blocks.divergent & ~plain,
        )
    )


def _between(program: Program, begin: Column, end: Column) -> Bools:
    """Blocks `begin:end` of each core."""
    inside = np.zeros(len(program.blocks), bool)
    for first, last in zip(begin.tolist(), end.tolist(), strict=True):
        inside[first:last] = True
    return inside


def _led(program: Program, source: Bools, old: Column, new: Column) -> Program:
    """Edges out of some blocks that lead to other ones: to `new` in place of `old`, core by core."""
    edges, target = program.edges, program.edges.target.copy()
    for before, after in zip(old.tolist(), new.tolist(), strict=True):
        target[source[edges.source] & (edges.target == before)] = after
    return program.replace(edges=edges.replace(target=target))


def _without_edges(program: Program, source: Column, target: Column) -> Program:
    """Without the edge of each core from one block to another."""
    edges = program.edges
    gone = np.zeros(len(edges), bool)
    for begin, end in zip(source.tolist(), target.tolist(), strict=True):
        gone |= (edges.source == begin) & (edges.target == end)
    return program.replace(edges=edges.take(~gone))


def _without_loop(program: Program, headers: Column, behind: Column) -> list[Program]:
    plain, body = _decided(program, headers), _between(program, headers + 1, behind)
    once = _led(_without_edges(plain, headers, behind), body, headers, behind)
    steps = np.isin(once.steps.header, headers)
    return [keep(plain, blocks=~body), keep(once, steps=~steps)]


def _without_branch(program: Program, forks: Column, other: Column, join: Column) -> list[Program]:
    if (join < other).any():
        return []
    plain, at = _decided(program, forks), np.isin(np.arange(len(program.blocks)), forks)
    neither = _led(_without_edges(plain, forks, other), at, forks + 1, join)
    found = [keep(neither, blocks=~_between(program, forks + 1, join))]
    if (other < join).all():
        found.append(keep(plain, blocks=~_between(program, forks + 1, other)))
        found.append(keep(plain, blocks=~_between(program, other, join)))
        then = _between(program, forks + 1, other)
        found.append(_led(_without_edges(plain, forks, other), then, join, other))
    else:
        found.append(_without_edges(plain, forks, other))
    if program.blocks.divergent[forks].any():
        uniform = program.blocks.replace(divergent=program.blocks.divergent & ~at)
        found.append(program.replace(blocks=uniform))
    return found


def _merged(program: Program) -> Program | None:
    """Two blocks of a chain, laid out one behind the other, as one, on all cores; None when there are none."""
    edges, blocks = program.edges, program.blocks
    for block in range(_blocks_of_a_core(program) - 1):
        firsts = np.array(_same_block(program, block), np.int64)
        seconds = firsts + 1
        if (
            not all(
                edges.target[edges.source == row].tolist() == [row + 1] and (edges.target == row + 1).sum() == 1
                for row in firsts.tolist()
            )
            or (blocks.cond[seconds] != NONE).any()
        ):
            continue
        moved = program.instructions.block - np.isin(program.instructions.block, seconds)
        links = np.isin(edges.source, firsts)
        onward = edges.source - np.isin(edges.source, seconds)
        joined = program.replace(
            instructions=program.instructions.replace(block=moved), edges=edges.replace(source=onward).take(~links)
        )
        return keep(joined, blocks=_mask(len(blocks), seconds.tolist()))
    return None


def _with_pattern(program: Program, access: int, pattern: int) -> Program:
    """Another pattern for one access; both sides of an instruction that reads and writes the same bytes change."""
    rows = program.accesses
    same = (
        (rows.instruction == rows.instruction[access])
        & (rows.location == rows.location[access])
        & (rows.pattern == rows.pattern[access])
    )
    return program.replace(accesses=rows.replace(pattern=np.where(same, pattern, rows.pattern)))


def _plainer(program: Program, access: int, row: int) -> list[Program]:
    """A range in place of a strided pattern: its first run."""
    pattern = program.pattern(row)
    assert pattern is not None
    first = program.patterns.take([row]).replace(dim_begin=0, dim_end=0)  # type: ignore[arg-type]
    wider = program.replace(patterns=program.patterns.append(first))
    return [_with_pattern(wider, access, len(program.patterns))]


def _size(program: Program) -> tuple[int, ...]:
    """What must shrink for another round."""
    return (
        *(len(program.table(name)) for name in TABLES if name not in ("patterns", "dims", "shapes")),
        int((program.accesses.pattern != NONE).sum()),
        int((program.locations.address != NONE).sum()),
        int(program.blocks.divergent.sum()),
        int(_says_more(program).sum()),
    )


def _tidy(program: Program) -> Program:
    """Without strings, patterns and shapes that nothing names any more: as it is read back."""
    return parse_bir(print_bir(program), program.file or "reduced.bir")
