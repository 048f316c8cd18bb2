"""Every read finds the bytes of its own tensor, and outputs are whole; or what is wrong, with paths that show it.

Once every conflict is ordered, the order of the text shows what every run sees. So the text is walked once for each
group of locations that share storage (`holders.py`): what may each byte hold when it is read? Where patterns move,
their loops are written out iteration by iteration (`walks.py`); where that is too long, what is written to a tile is
known in its iteration (`tiles.py`).

What a run may find wrong:

    unwritten bytes     a read of a cell that may be FRESH, unless they reach nothing (`harmless.py`)
    stale bytes         a read of a cell that may be LOST
    shared bytes        a location that is live from the start to the end shares bytes; an output that is written
                        already is touched by another one; one instruction has two on the same bytes
    an output           that may be FRESH at the end

For each a path is searched on which it shows (`witness.py`). There is one, or it was no fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from haulout.checker.columns import grouped, positions
from haulout.checker.flow.harmless import Undefined, bytes_of, harmful
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.text import Text
from haulout.checker.flow.tiles import Tiles, find_tiles, no_tiles
from haulout.checker.flow.walks import ACCESSES, Walk, find_walk
from haulout.checker.flow.witness import Goal, Ways
from haulout.checker.paths.runs import Choice
from haulout.checker.paths.step_trips import Copies
from haulout.checker.paths.unroll import shifted
from haulout.checker.proofs.extents import Extents, find_extents
from haulout.checker.proofs.holders import (
    FRESH,
    INSIDE,
    KEPT,
    LOST,
    MINE,
    Faults,
    Layout,
    cells,
    permanent_overlaps,
    scan_holders,
)
from haulout.checker.proofs.storage import is_permanent
from haulout.checker.proofs.storage_map import physical_map
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.ir.structure import Arm
from haulout.support.jit import compiled_if_large, njit

UNSET = -2
"""In place of another location: nothing was written."""
_MAX_FAULTS = 1 << 16
"""Pairs of an access and a cell that are listed."""
_MAX_WRONG = 64
"""Faults that are returned."""
_MAX_TRIES = 32
"""Cells of one access that are tried for a path."""


@dataclass(frozen=True, slots=True)
class WrongRead:
    """A read, or an output, that does not find what it should."""

    access: int
    """The operand as written; a branch is numbered after all operands, by its block. NONE: an output at the end, or
    locations that share bytes all the time."""
    location: int
    """The owner of its bytes."""
    finds: int
    """What it may find: UNSET, or another location. If that is an output, it may be written already: then it is its
    bytes that are touched."""
    path: dict[Choice, int]
    """A path on which it does ..."""
    copies: dict[int, Copies]
    """... with so many iterations of loops."""


def find_wrong(text: Text, touches: Touches, *, limit: int = _MAX_WRONG) -> list[WrongRead] | None:
    """The reads and outputs that are not right in some run, at most `limit` of them; an empty list is the proof.

    None: that is not known. Holds if all conflicts are ordered, and cores touch no bytes of each other in arms that
    are walked in parts: these are walked one core after the other here.
    """
    return _Judge(text.core_by_core or text, touches).wrong(limit)


@dataclass(slots=True)
class _Group:
    """Locations that are judged together, and what was found."""

    walk: Walk
    layout: Layout
    extents: Extents
    atoms: int
    """Without those of tiles."""
    begin: Bytes
    faults: Faults
    exact: bool
    """All bytes are known: what is found is a fault."""


class _Judge:
    def __init__(self, text: Text, touches: Touches) -> None:
        self.text, self.touches, self.model = text, touches, touches.model
        model, rows, mine = self.model, self.model.program.locations, self.model.locations
        owners = model.owners()
        self.number = positions(mine, len(rows))
        self.place: Ids = self.number[owners[model.location]]
        self.kind = rows.kind[mine]
        is_owner = (owners[mine] == mine) & (rows.size[mine] > 0)
        self.permanent = is_permanent(model)
        self.living = is_owner & (self.permanent | (self.kind == Kind.OUTPUT))
        self.living[self.place] |= is_owner[self.place]
        self.lasting = self.living & (self.kind == Kind.OUTPUT) & ~self.permanent
        schedule = np.empty(len(text.schedule), np.int64)
        schedule[text.schedule] = np.arange(len(text.schedule))
        self.order = np.lexsort((model.write, schedule[touches.event])).astype(np.int32)
        self.block = text.events.block[touches.event]

    def wrong(self, limit: int) -> list[WrongRead] | None:
        """All that is wrong."""
        extents = self.touches.extents
        atoms = max(len(extents.first_key), 1)
        living = np.flatnonzero(self.living).astype(np.int32)
        group_of = _scan_groups(living, len(self.living), extents.starts, extents.low, extents.high, atoms)
        found = self._overlaps(living, extents)
        groups = [self._judged(*each) for each in self._split(group_of)]
        harm = self._undefined(groups)
        for number, group in enumerate(groups):
            if len(found) >= limit or not group.faults.total:
                continue
            some = _Faults(self, group, harm[number]).wrong(limit - len(found))
            if some is None:
                return None
            found += some
        return found

    def _overlaps(self, living: Ids, extents: Extents) -> list[WrongRead]:
        """Locations that are live from the start to the end, and others on their bytes."""
        locations, copies = self.model.locations.tolist(), self.text.runs.copies(deep=False)
        found = []
        for one, other in permanent_overlaps(living, self.permanent, extents):
            path = {} if self.permanent[other] or self.kind[other] == Kind.OUTPUT else self._path_to(other)
            if path is not None:
                found.append(WrongRead(NONE, locations[other], locations[one], path, copies))
        return found

    def _path_to(self, place: int) -> dict[Choice, int] | None:
        """A path on which a location is accessed; None: there is none."""
        structure = self.text.runs.flow.structure
        for access in self.order[self.place[self.order] == place].tolist():
            block, path = int(self.block[access]), dict[Choice, int]()
            around: tuple[int, ...] = ()
            for number in structure.around(block):
                region = structure.regions[number]
                if isinstance(region, Arm):
                    fork = structure.forks[region.fork]
                    core = int(self.model.core[self.model.instruction[access]])
                    path[fork.block, around, core if fork.divergent else NONE] = region.side
                    continue
                if region.trip == NONE:
                    path[region.header, around, NONE] = int(block != region.header)
                elif region.trip == 0 and block != region.header:
                    break
                around = (*around, 0)
            else:
                return path
        return None

    def _split(self, group_of: Ids) -> list[tuple[Bools, frozenset[int]]]:
        """Which places are judged together, and the loops that are written out for them."""
        model, steps = self.model, self.text.runs.steps
        assert model.unrolled is not None
        moving = np.flatnonzero(self.touches.moves)
        origin = model.unrolled.access_origin[model.access[moving]]
        row, step = steps.of(origin)
        header, group = steps.header[step], group_of[self.place[moving[row]]]
        headers: dict[int, set[int]] = {}
        for one, other in np.unique(np.stack([group, header]), axis=1).T.tolist():
            headers.setdefault(one, set()).add(other)
        together: dict[frozenset[int], list[int]] = {frozenset(): []}
        for one, loops_of in headers.items():
            together.setdefault(frozenset(loops_of), []).append(one)
        found = []
        for loops, members in together.items():
            chosen = np.isin(group_of, members) if members else ~np.isin(group_of, list(headers))
            found.append((chosen & self.living, loops))
        return found

    def _judged(self, places: Bools, headers: frozenset[int]) -> _Group:
        """Walk once for some places."""
        text, touches = self.text, self.touches
        access = self.order[places[self.place[self.order]]]
        walk = find_walk(text, touches, access, headers)
        if walk is not None and headers:
            return self._written_out(places, walk)
        extents, tiles = touches.extents, None
        if walk is None:
            walk = find_walk(text, touches, access, frozenset())
            assert walk is not None
            tiles = find_tiles(text, touches, walk, self.place, partial(self._sharing, places))
        of = extents.of_access[walk.access]
        vague = (extents.unknown | extents.atomless)[of] | touches.moves[walk.access]
        exact = tiles is None and not (extents.atomless & ~extents.unknown)[of].any()
        return self._walked(places, walk, extents, of, vague, exact, tiles)

    def _sharing(self, places: Bools, one: int) -> Bools:
        """Which of some places share atoms with one of them."""
        place, atom = cells(np.flatnonzero(places).astype(np.int32), self.touches.extents)
        found = np.zeros(len(places), bool)
        found[place[np.isin(atom, atom[place == one])]] = True
        found[one] = False
        return found

    def _written_out(self, places: Bools, walk: Walk) -> _Group:
        """The same with patterns that move, each time that they are walked."""
        model, steps = self.text.model, self.text.runs.steps
        assert model.unrolled is not None
        program, access = model.program, walk.access
        origin = model.unrolled.access_origin[model.access[access]]
        row, step = steps.of(origin)
        column = np.searchsorted(np.array(walk.headers), steps.header[step])
        shift = steps.shifts(step, walk.iterations[walk.at[row], column], row, len(access))
        size = program.locations.size[model.location[access]]
        pattern, patterns, outside = shifted(program, program.patterns, model.pattern[access], shift, size)
        pattern[outside] = NONE
        made = program.replace(patterns=patterns)
        location, write = model.location[access], model.write[access]
        fake = replace(model, program=made, location=location, pattern=pattern, write=write)
        extents = find_extents(fake, physical_map(model), wholes=places, overlaps=False)
        of = extents.of_access
        vague = (extents.unknown | extents.atomless)[of] | outside
        exact = not outside.any() and not (extents.atomless & ~extents.unknown)[of].any()
        return self._walked(places, walk, extents, of, vague, exact, None)

    def _walked(
        self,
        places: Bools,
        walk: Walk,
        extents: Extents,
        of: Ids,
        vague: Bools,
        exact: bool,
        tiles: Tiles | None,
    ) -> _Group:
        model, access = self.model, walk.access
        tiles = no_tiles(len(self.place), len(walk.trip)) if tiles is None else tiles
        atoms = max(len(extents.first_key), 1)
        place, atom = cells(np.flatnonzero(places).astype(np.int32), extents)
        place = np.append(place, tiles.place)
        atom = np.append(atom, atoms + np.arange(len(tiles.place)))
        starts, order = grouped(atom, atoms + len(tiles.place))
        cell_place = place[order].astype(np.int32)
        tile = tiles.of[access]
        parts = np.flatnonzero(walk.operations[:, 0] == ACCESSES)
        part = parts[np.searchsorted(walk.operations[parts, 1], np.arange(len(access)), "right") - 1]
        tiles_starts, tiles_of = grouped(tiles.place, len(places))
        layout = Layout(
            operations=walk.operations,
            trip=walk.trip,
            extent=np.where(vague, self.place[access], of).astype(np.int32),
            place=self.place[access],
            write=model.write[access],
            sure=~(vague | model.maybe[access]),
            instruction=part * len(model.rows) + model.instruction[access],
            tile=np.where(tile == NONE, NONE, atoms + tile).astype(np.int32),
            tile_sure=~model.maybe[access],
            extent_starts=extents.starts,
            low=extents.low,
            high=extents.high,
            cell_starts=starts,
            cell_place=cell_place,
            permanent=self.permanent,
            lasting=self.lasting,
            turn_starts=tiles.turn_starts,
            turn=(atoms + tiles.turn).astype(np.int32),
            cover_starts=tiles.cover_starts,
            cover=tiles.cover,
            tiles_starts=tiles_starts,
            tiles=(atoms + tiles_of).astype(np.int32),
        )
        is_tile = order >= len(place) - len(tiles.place)
        kind = self.kind[cell_place]
        begins = (kind != Kind.INTERNAL) & (kind != Kind.OUTPUT) & ~is_tile
        begin = np.where(begins, MINE, FRESH).astype(np.uint8)
        ends = (kind == Kind.OUTPUT) & ~is_tile
        with compiled_if_large(10 * (len(access) + len(walk.operations)) + len(cell_place)):
            faults = scan_holders(layout, begin, ends, _MAX_FAULTS)
        return _Group(walk, layout, extents, atoms, begin, faults, exact)

    def _undefined(self, groups: list[_Group]) -> list[set[int]]:
        """Of each group: the accesses that read unwritten bytes which may do harm."""
        reads, of = [], []
        for number, group in enumerate(groups):
            faults = group.faults
            rows = np.flatnonzero((faults.row != NONE) & (faults.state & FRESH > 0))
            access = group.walk.access[faults.row[rows]]
            atom = np.searchsorted(group.layout.cell_starts, faults.cell[rows], "right") - 1
            for each in np.unique(access).tolist():
                some = np.unique(atom[access == each])
                listed = group.exact and faults.total <= _MAX_FAULTS
                reads.append(Undefined(each, bytes_of(group.extents, self._location(each), some) if listed else None))
                of.append(number)
        found: list[set[int]] = [set() for _ in groups]
        for at in harmful(self.text, self.touches, self.order, reads):
            found[of[at]].add(reads[at].access)
        return found

    def operand(self, access: int) -> int:
        """An access as written."""
        if access == NONE:
            return NONE
        model = self.text.model
        assert model.unrolled is not None
        origin = int(model.unrolled.access_origin[model.access[access]])
        block = int(model.unrolled.block[model.rows[model.instruction[access]]])
        return origin if origin != NONE else len(model.unrolled.source.accesses) + block

    def _location(self, access: int) -> int:
        """The owner of its bytes."""
        return int(self.model.locations[self.place[access]])


class _Faults:
    """What a group has found, as faults with their paths."""

    def __init__(self, judge: _Judge, group: _Group, harm: set[int]) -> None:
        self.judge, self.group, self.harm = judge, group, harm
        self.ways = Ways(judge.text, group.walk, group.layout, judge.block)

    def wrong(self, limit: int) -> list[WrongRead] | None:
        """At most `limit` of them; None: something may be wrong, it is not known what."""
        faults = self.group.faults
        rows, cells, states = (column.tolist() for column in (faults.row, faults.cell, faults.state))
        some: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for row, cell, state in zip(rows, cells, states, strict=True):
            access = NONE if row == NONE else int(self.group.walk.access[row])
            place = int(self.group.layout.cell_place[cell])
            for kind in (FRESH, LOST, KEPT, INSIDE):
                if state & kind and not (kind == FRESH and access != NONE and access not in self.harm):
                    some.setdefault((access, place, kind), []).append((row, cell))
        if some and (faults.total > _MAX_FAULTS or not self.group.exact):
            return None
        found: list[WrongRead] = []
        for (access, place, kind), tries in some.items():
            if len(found) == limit:
                break
            for row, cell in tries[:_MAX_TRIES]:
                if one := self._shown(access, place, kind, row, cell):
                    found.append(one)
                    break
            else:
                if len(tries) > _MAX_TRIES:
                    return None
        return found

    def _shown(self, access: int, place: int, kind: int, row: int, cell: int) -> WrongRead | None:
        """One fault; None: no run shows it."""
        judge, layout = self.judge, self.group.layout
        atom = int(np.searchsorted(layout.cell_starts, cell, "right")) - 1
        states = {FRESH: FRESH, LOST: LOST, KEPT: MINE | LOST, INSIDE: FRESH | MINE | LOST}[kind]
        witness = self.ways.find(Goal(row, atom, place, states, int(self.group.begin[cell])))
        if witness is None:
            return None
        locations = judge.model.locations
        finds = UNSET
        if kind == KEPT:
            place, finds = int(judge.place[access]), int(locations[place])
        elif kind == INSIDE:
            mine = (layout.instruction == layout.instruction[row]) & layout.touching(atom)[layout.extent]
            finds = int(locations[layout.place[np.flatnonzero(mine & (layout.place != place))[0]]])
        elif kind == LOST:
            finds = int(locations[layout.place[witness.taker]])
        return WrongRead(judge.operand(access), int(locations[place]), finds, witness.path, witness.copies)


@njit
def _scan_groups(living: Ids, places: int, starts: Ints, low: Ids, high: Ids, atoms: int) -> Ids:
    """A number for each place, equal where places share atoms, directly or not (union-find)."""
    root = np.arange(places).astype(np.int32)
    owner = np.full(atoms, -1, np.int32)
    for at in range(len(living)):
        place = living[at]
        for k in range(starts[place], starts[place + 1]):
            for atom in range(low[k], high[k]):
                if owner[atom] < 0:
                    owner[atom] = place
                one, other = place, owner[atom]
                while root[one] != one:
                    root[one] = root[root[one]]
                    one = root[one]
                while root[other] != other:
                    root[other] = root[root[other]]
                    other = root[other]
                root[max(one, other)] = min(one, other)
    for place in range(places):
        root[place] = root[root[place]]  # roots are smaller, so this one is done
    return root
