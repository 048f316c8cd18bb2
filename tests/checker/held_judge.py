"""What reads and outputs of a one-engine program find, by brute force: every run, byte by byte.

Each byte of each location is FRESH, MINE or LOST, as `checker/flow/holders.py` has it; an access that may miss bytes
leaves a byte in several states. The runs are unrolled by the checker; what they do to bytes is not.
"""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from haulout.checker.model import Model, Runs
from haulout.checker.paths.runs import every_run
from haulout.checker.paths.step_trips import Copies
from haulout.ir.enums import NONE, Kind

Fault = tuple[int, int, bool]
"""(Access as written or NONE, owner of its bytes, whether they are unwritten; else they are another location's)."""
_FRESH, _MINE, _LOST = range(3)
_Byte = tuple[int, int]


def faults_of_runs(runs: Runs, most: int) -> set[Fault] | None:
    """What is wrong in any run with up to four iterations of loops of unknown trip count, or as many as a step has
    room for; None: there are more than `most`.
    """
    structure, cores = runs.flow.structure, len(runs.flow.functions)
    copies = {}
    for loop in structure.loops.values():
        count = max(runs.wanted[loop.header].count, 4) if loop.trip == NONE else loop.trip
        copies[loop.header] = Copies(count, count, stepped=True)
    for loop in structure.loops.values():
        limit = runs.wanted[loop.header]
        if loop.trip == NONE and limit.stepped and not _turns_round(runs, loop.header):
            copies[loop.header] = limit
    every = list(islice(every_run(structure, copies, cores, most), most + 1))
    if len(every) > most:
        return None
    found: set[Fault] = set()
    for run in every:
        found |= _faults(runs.model(run, copies))
    return found


def _turns_round(runs: Runs, header: int) -> bool:
    """True if all patterns that move with a loop come back."""
    mine = (runs.steps.header == header) & (runs.steps.stride != 0)
    return bool((runs.steps.modulus[mine] > 0).all())


def _faults(model: Model) -> set[Fault]:
    assert model.unrolled is not None
    rows, owners = model.program.locations, model.owners().tolist()
    kind, size, address = rows.kind.tolist(), rows.size.tolist(), rows.address.tolist()
    touched = {owners[location] for location in model.unrolled.source.accesses.location.tolist()}
    permanent = {
        row
        for row in set(owners)
        if kind[row] not in (Kind.INTERNAL, Kind.OUTPUT)
        or (kind[row] == Kind.OUTPUT and (row not in touched or model.program.location_attrs(row).get("partial")))
    }
    living = permanent | touched | {row for row in set(owners) if kind[row] == Kind.OUTPUT}

    def key(owner: int, byte: int) -> _Byte:
        return (-1, address[owner] + byte) if address[owner] != NONE else (owner, byte)

    shown = {owners[location] for location in model.location.tolist()}
    shown |= permanent | {row for row in living if kind[row] == Kind.OUTPUT}
    state: dict[_Byte, dict[int, set[int]]] = {}
    for owner in living:
        begins = kind[owner] not in (Kind.INTERNAL, Kind.OUTPUT)
        for byte in range(size[owner]):
            state.setdefault(key(owner, byte), {})[owner] = {_MINE if begins else _FRESH}
    found: set[Fault] = set()
    for cells in state.values():
        for one, other in product(cells, cells):
            if one in permanent and other in shown and (other > one or (other < one and other not in permanent)):
                found.add((NONE, other, False))
    last: dict[_Byte, tuple[int, int]] = {}
    for access in range(len(model.access)):
        origin = int(model.unrolled.access_origin[model.access[access]])
        instruction = int(model.instruction[access])
        if origin == NONE:
            block = int(model.unrolled.block[model.rows[instruction]])
            origin = len(model.unrolled.source.accesses) + block
        owner, write = owners[int(model.location[access])], bool(model.write[access])
        bytes_of, sure = _bytes(model, access)
        for byte in bytes_of:
            cells, place = state[key(owner, byte)], key(owner, byte)
            before = last.get(place, (NONE, NONE))
            if write and before[0] == instruction and before[1] != owner and not {before[1], owner} & permanent:
                found.add((origin, owner, False))
            last[place] = instruction, owner
            if not write and cells[owner] != {_MINE}:
                found |= {(origin, owner, each == _FRESH) for each in cells[owner] - {_MINE}}
            for other, states in cells.items():
                if other == owner:
                    cells[other] = ({_MINE} if sure else states | {_MINE}) if write else states
                elif not {other, owner} & permanent:
                    if kind[other] == Kind.OUTPUT and states & {_MINE, _LOST}:
                        found.add((origin, owner, False))
                    after = {_FRESH if each == _FRESH else _LOST for each in states}
                    cells[other] = (after if sure else states | after) if write else states
    for cells in state.values():
        found |= {(NONE, row, True) for row, states in cells.items() if kind[row] == Kind.OUTPUT and _FRESH in states}
    return found


def _bytes(model: Model, access: int) -> tuple[list[int], bool]:
    """The bytes of an access, and whether it touches them all."""
    size = int(model.program.locations.size[model.location[access]])
    pattern = model.program.pattern(int(model.pattern[access]))
    sure = not model.maybe[access]
    if pattern is None or pattern.is_unknown:
        return list(range(size)), bool(sure and pattern is None)
    starts = np.array([pattern.offset])
    for stride, count in pattern.dims:
        starts = (starts[:, None] + stride * np.arange(count)).ravel()
    return sorted({int(start) + byte for start in starts for byte in range(pattern.run)}), bool(sure)
