"""A loop whose body is written out twice, on all cores of a program in lockstep.

    ^before -> ^header                        ^before           and, of an odd number, the first iteration
    ^header -> ^body, ^after     trip=n       ^header -> ^body, ^after     trip=n/2
    ^body   -> ^header                        ^body -> ^header  one iteration, the header's instructions, another one
    ^after                                    ^after

The header runs before every second iteration, so it finds the states that it found there before. What it computes
besides its condition is computed between the halves as well. Blocks that meet where copies do become one, unless the
second one is a header, so that instructions of two iterations may change places.

In iteration k of the old loop a step with modulus m moves its operand by `stride * ((k + phase) mod m)`. With k =
`2 j + h`, `c = h + phase` and even m this is `stride * (c mod 2) + 2 stride * ((j + c div 2) mod (m / 2))`: an offset
and a step of the new loop. For odd m there is no such step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Dims, Edges, Ids, Ints, Patterns, Steps
from haulout.ir.structure import Arm, Loop

AS_IT_WAS, PEELED, FIRST, SECOND = range(4)
"""Copies of an instruction: outside of the body; of the first iteration, before the loop; of the two in the body."""
_SUFFIXES = {PEELED: ".peeled", SECOND: ".second"}


@dataclass(frozen=True, slots=True)
class Halves:
    """How the halves differ, besides their steps; rows are those of the first core."""

    first: dict[int, int]
    """Of an access in the first half its location, where that may be another one."""
    second: dict[int, int]
    dropped: Collection[int] = ()
    """Instructions that neither half has."""


def refusal(program: Program, loop: Loop) -> str | None:
    """Why a loop of the first core cannot be written out twice; None: it can."""
    if loop.trip == NONE:
        return "it is not known how often it runs"
    if loop.trip < 2:
        return "it runs less than twice"
    inside = [each for each in program.structure.regions if loop.begin < each.begin < loop.end]
    if any(isinstance(each, Arm) or each.trip == NONE for each in inside):
        return "the paths through its body, twice, may be too many to prove"
    steps, rows = program.steps, program.instructions
    if ((steps.header == loop.header) & (steps.modulus % 2 == 1)).any():
        return "an operand starts again after an odd number of iterations"
    first, last = np.searchsorted(rows.block, [loop.begin, loop.end]).tolist()
    if (rows.join[first:last] | rows.gather[first:last]).any() or len(program.dependences):
        return "the program says its order"
    seq = rows.seq[: len(rows) // program.lnc]
    if (seq[1:] < seq[:-1]).any():
        return "its time falls from block to block"
    return None


def unroll(program: Program, loop: Loop, halves: Halves) -> Program:
    """The program with a body of two iterations, of a loop of the first core without `refusal`; cores in lockstep."""
    return _Unroller(program, loop, halves).run()


class _Piece(NamedTuple):
    """An old block in one of its copies."""

    block: int
    copy: int


@dataclass(slots=True)
class _NewBlock:
    """A block of the first core: pieces one after the other, and what the last one leads to."""

    pieces: list[_Piece]
    leads_to: list[_Piece] = field(default_factory=list)


class _Unroller:
    """Builds the tables of the new program; columns of new rows are of the first core until `_on_all`."""

    def __init__(self, program: Program, loop: Loop, halves: Halves) -> None:
        self.program, self.loop, self.halves = program, loop, halves
        self.peels = loop.trip % 2
        self.kept = needed_of_header(program, loop)
        self.layout = self._layout()
        self.at = {piece: number for number, new in enumerate(self.layout) for piece in new.pieces}
        found = [
            (self._rows_of(piece), piece.copy, number)
            for number, new in enumerate(self.layout)
            for piece in new.pieces
        ]
        counts = [len(row) for row, _, _ in found]
        self.row: Ints = np.concatenate([row for row, _, _ in found]).astype(np.int64)
        """Old row of each new instruction."""
        self.copy: Ints = np.repeat([copy for _, copy, _ in found], counts)
        self.block: Ints = np.repeat([number for _, _, number in found], counts)
        starts = program.access_starts
        count = starts[self.row + 1] - starts[self.row]
        self.instruction: Ints = np.repeat(np.arange(len(self.row)), count)
        """Of each new access its new instruction."""
        self.access: Ints = np.arange(int(count.sum())) + np.repeat(
            starts[self.row] - np.cumsum(count) + count, count
        )
        """Old row of each new access."""

    def run(self) -> Program:
        program = self.program
        pattern, steps, patterns, dims = self._moved()
        accesses = program.accesses.take(self._on_all(self.access, "accesses"))
        return program.replace(
            blocks=self._new_blocks(),
            edges=self._new_edges(),
            instructions=self._new_instructions(),
            accesses=accesses.replace(
                instruction=self._on_all(self.instruction, len(self.row)), location=self._locations(), pattern=pattern
            ),
            steps=steps,
            patterns=program.patterns.append(patterns),
            dims=program.dims.append(dims),
        )

    # -- blocks ------------------------------------------------------------------------------------------------------

    def _layout(self) -> list[_NewBlock]:
        loop, old = self.loop, _successors(self.program)
        # The header's instructions are a block before the first copy of the body outside, and before the second one.
        begin = loop.begin if self.kept.any() else loop.begin + 1
        header = _Piece(loop.header, AS_IT_WAS)
        pieces = [_Piece(block, AS_IT_WAS) for block in range(loop.begin)]
        pieces += [_Piece(block, PEELED) for block in range(begin, loop.end) if self.peels]
        pieces.append(header)
        pieces += [_Piece(block, FIRST) for block in loop.body]
        pieces += [_Piece(block, SECOND) for block in range(begin, loop.end)]
        pieces += [_Piece(block, AS_IT_WAS) for block in range(loop.end, len(old))]
        entry = _Piece(begin, PEELED) if self.peels else header
        after = {AS_IT_WAS: entry, PEELED: header, FIRST: _Piece(begin, SECOND), SECOND: header}
        new = []
        for piece in pieces:
            block, copy = piece
            if piece == header:
                leads_to = [_Piece(loop.begin + 1, FIRST), _Piece(loop.end, AS_IT_WAS)]
            elif block == loop.header:
                leads_to = [_Piece(loop.begin + 1, copy)]
            else:
                leads_to = [after[copy] if each == loop.header else _Piece(each, copy) for each in old[block]]
            new.append(_NewBlock([piece], leads_to))
        return self._joined(new)

    def _joined(self, new: list[_NewBlock]) -> list[_NewBlock]:
        """The blocks, with one instead of two where copies meet."""
        loops, found = self.program.structure.loop_at, new[:1]
        for each in new[1:]:
            piece, before = each.pieces[0], found[-1].pieces[-1]
            meet = before.copy != piece.copy or (before.block == self.loop.header and before.copy != AS_IT_WAS)
            is_header = piece.block in loops and (piece.block != self.loop.header or piece.copy == AS_IT_WAS)
            if meet and found[-1].leads_to == [piece] and not is_header:
                found[-1] = _NewBlock(found[-1].pieces + each.pieces, each.leads_to)
            else:
                found.append(each)
        return found

    def _new_blocks(self) -> Any:
        blocks, cores, header = self.program.blocks, self.program.lnc, self.loop.header
        made = blocks.take(self._on_all([new.pieces[0].block for new in self.layout], "blocks"))
        last = blocks.take(self._on_all([new.pieces[-1].block for new in self.layout], "blocks"))
        cond, trip = last.cond.reshape(cores, -1).copy(), last.trip.reshape(cores, -1).copy()
        cond[:, [len(new.leads_to) < 2 for new in self.layout]] = NONE
        trip[:, [len(new.leads_to) < 2 for new in self.layout]] = NONE
        trip[:, self.at[_Piece(header, AS_IT_WAS)]] //= 2
        copies = [new.pieces[0].copy for new in self.layout]
        return made.replace(
            cond=cond.ravel(),
            trip=trip.ravel(),
            divergent=last.divergent,
            name=self._names(blocks.name, made.name, np.array(copies)),
        )

    def _new_edges(self) -> Edges:
        source = [number for number, new in enumerate(self.layout) for _ in new.leads_to]
        target = [self.at[piece] for new in self.layout for piece in new.leads_to]
        blocks = len(self.layout)
        return Edges.make(source=self._on_all(source, blocks), target=self._on_all(target, blocks))

    # -- instructions ------------------------------------------------------------------------------------------------

    def _rows_of(self, piece: _Piece) -> Ints:
        begin, end = np.searchsorted(self.program.instructions.block, [piece.block, piece.block + 1]).tolist()
        rows = np.arange(begin, end)
        if piece.block == self.loop.header and piece.copy != AS_IT_WAS:
            return rows[self.kept]
        return rows[~np.isin(rows, list(self.halves.dropped))] if piece.copy in (FIRST, SECOND) else rows

    def _new_instructions(self) -> Any:
        rows = self.program.instructions.take(self._on_all(self.row, "instructions"))
        return rows.replace(
            block=self._on_all(self.block, len(self.layout)),
            name=self._names(self.program.instructions.name, rows.name, self.copy),
            seq=np.where(rows.seq == NONE, NONE, rows.seq + np.tile(self._later(), self.program.lnc)),
        )

    def _later(self) -> Ints:
        """By how much each new instruction is later: what comes after a copy, by the time that a copy takes."""
        rows = self.program.instructions
        first, last = np.searchsorted(rows.block, [self.loop.begin, self.loop.end]).tolist()
        span = int(np.ptp(rows.seq[first:last])) + 1 if first < last else 0
        copies = np.where(self.copy == SECOND, 1, 0) + ((self.copy == AS_IT_WAS) & (self.row >= last))
        copies += self.peels * ((self.copy != PEELED) & (self.row >= first))
        later: Ints = span * copies
        return later

    def _names(self, taken: Ids, names: Ids, copies: Ints) -> Ids:
        """Names of copies, for rows that have the names of what they are copies of."""
        strings, known = self.program.strings, set(taken.tolist())
        found = names.reshape(self.program.lnc, -1).copy()
        for number in np.flatnonzero(np.isin(copies, list(_SUFFIXES)) & (found[0] != NONE)).tolist():
            stem = strings[int(found[0, number])] + _SUFFIXES[int(copies[number])]
            name, count = strings.intern(stem), 1
            while name in known:
                count += 1
                name = strings.intern(f"{stem}.{count}")
            known.add(name)
            found[:, number] = name
        return found.ravel()

    # -- operands ----------------------------------------------------------------------------------------------------

    def _locations(self) -> Ids:
        old = self.program.accesses.location[self.access].astype(np.int64)
        copy = self.copy[self.instruction]
        for half, changed in ((FIRST, self.halves.first), (SECOND, self.halves.second)):
            new = np.arange(len(self.program.accesses) // self.program.lnc)
            new = self.program.accesses.location[new].astype(np.int64)
            new[list(changed)] = list(changed.values())
            old = np.where(copy == half, new[self.access], old)
        return self._on_all(old, "locations")

    def _moved(self) -> tuple[Ids, Steps, Patterns, Dims]:
        """Patterns and steps of the new accesses, and new rows of patterns."""
        old, cores = self.program.steps, self.program.lnc
        count = len(self.access)
        before = self._on_all(self.access, "accesses")
        starts = np.searchsorted(old.access, np.arange(len(self.program.accesses) + 1))
        many = starts[before + 1] - starts[before]
        access = np.repeat(np.arange(cores * count), many)
        step = np.arange(int(many.sum())) + np.repeat(starts[before] - np.cumsum(many) + many, many)
        stride, modulus, phase = old.stride[step], old.modulus[step], old.phase[step]
        copy = np.tile(self.copy[self.instruction], cores)[access]
        core = access // max(count, 1)
        header = old.header[step] - core * (len(self.program.blocks) // cores)
        mine = header == self.loop.header
        # The first iteration of the old loop that each stands for.
        start = phase + np.where(copy == PEELED, 0, self.peels + (copy == SECOND))
        place = np.where(modulus == 0, start, start % np.where(copy == PEELED, np.maximum(modulus, 1), 2))
        offset = np.zeros(cores * count, np.int64)
        np.add.at(offset, access, np.where(mine, stride * place, 0))
        half = np.maximum(modulus // 2, 1)
        kept = ~mine | ((copy != PEELED) & (modulus != 2))
        inside = (header > self.loop.header) & (header < self.loop.end)
        lookup = np.full((len(self.program.blocks), SECOND + 1), NONE)
        for piece, number in self.at.items():
            lookup[piece] = number
        made = Steps.make(
            len(step),
            access=access,
            header=core * len(self.layout) + lookup[header, np.where(inside, copy, AS_IT_WAS)],
            stride=np.where(mine, 2 * stride, stride),
            modulus=np.where(mine, modulus // 2, modulus),
            phase=np.where(mine, np.where(modulus == 0, 0, start // 2 % half), phase),
        ).take(kept)
        size = self.program.locations.size[self.program.accesses.location[before]]
        pattern, patterns, dims = _shifted(self.program, self.program.accesses.pattern[before], offset, size)
        return pattern, made, patterns, dims

    def _on_all(self, values: Sequence[int] | Ints | Ids, size: int | str) -> Ids:
        """Ids on the first core as ids on all cores, of a table of so many rows a core."""
        rows = len(self.program.table(size)) // self.program.lnc if isinstance(size, str) else size
        shifts = rows * np.arange(self.program.lnc)[:, None]
        found: Ids = (np.asarray(values, np.int64) + shifts).ravel().astype(np.int32)
        return found


def needed_of_header(program: Program, loop: Loop) -> Bools:
    """Which instructions of a loop's header do more than its condition needs, and what these read."""
    accesses, blocks = program.accesses, program.blocks
    block = program.instructions.block
    first, last = np.searchsorted(block, [loop.header, loop.header + 1]).tolist()
    begin, end = program.access_starts[[first, last]].tolist()
    here = np.zeros(len(accesses), bool)
    here[begin:end] = True
    # Locations that hold nothing when the header begins, and that nothing else touches.
    private = program.locations.space != Space.DRAM_SHARED
    private &= program.locations.kind == Kind.INTERNAL
    private[accesses.location[~here]] = False
    private[blocks.cond[(blocks.cond != NONE) & (np.arange(len(blocks)) != loop.header)]] = False
    seen: set[int] = set()
    for access in range(begin, end):
        location = int(accesses.location[access])
        if location not in seen:
            seen.add(location)
            private[location] &= writes_all(program, access)
    kept = np.zeros(last - first, bool)
    needed: set[int] = set()
    for row in range(last - 1, first - 1, -1):
        mine = slice(*program.access_starts[row : row + 2].tolist())
        touched = accesses.location[mine]
        results = touched[accesses.write[mine]]
        if len(results) == 0 or not private[results].all() or needed & set(results.tolist()):
            kept[row - first] = True
            needed.update(touched.tolist())
    return kept


def writes_all(program: Program, access: int) -> bool:
    """Whether an access surely writes every byte of its location."""
    accesses = program.accesses
    begin, end = np.searchsorted(program.steps.access, [access, access + 1]).tolist()
    if not accesses.write[access] or accesses.maybe[access] or accesses.atomic[access] or begin < end:
        return False
    whole = Pattern(0, int(program.locations.size[accesses.location[access]]))
    return program.pattern(int(accesses.pattern[access])) in (None, whole)


def _successors(program: Program) -> list[list[int]]:
    """Of each block of the first core."""
    edges, blocks = program.edges, len(program.blocks) // program.lnc
    cuts = np.searchsorted(edges.source, np.arange(blocks + 1)).tolist()
    return [edges.target[cuts[at] : cuts[at + 1]].tolist() for at in range(blocks)]


def _shifted(program: Program, pattern: Ids, offset: Ints, size: Ints) -> tuple[Ids, Patterns, Dims]:
    """Patterns moved by some bytes, of locations of a size; the rows that are new."""
    found = pattern.copy()
    rows: list[tuple[int, int, int, int]] = []
    dims: list[tuple[int, int]] = []
    known: dict[tuple[int, int, int], int] = {}
    for access in np.flatnonzero(offset).tolist():
        key = int(pattern[access]), int(offset[access]), int(size[access]) if pattern[access] == NONE else NONE
        old = program.pattern(key[0]) or Pattern(0, key[2])
        if old.is_unknown:
            continue
        if key not in known:
            known[key] = len(program.patterns) + len(rows)
            begin = len(program.dims) + len(dims)
            dims += list(old.dims)
            rows.append((old.offset + key[1], old.run, begin, begin + len(old.dims)))
        found[access] = known[key]
    columns, places = np.array(rows, np.int64).reshape(-1, 4).T, np.array(dims, np.int64).reshape(-1, 2).T
    patterns = Patterns.make(offset=columns[0], run=columns[1], dim_begin=columns[2], dim_end=columns[3])
    return found, patterns, Dims.make(stride=places[0], count=places[1])
