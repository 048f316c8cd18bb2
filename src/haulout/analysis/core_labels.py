"""Which cores hold equal bytes, of every location: a partition of the cores, as labels.

The label of (location, core) is the smallest core whose copy of the location holds the same bytes. It holds at every
point of the program: all cores run one list (`ir/lockstep.py`), and after each instruction, run by all cores that
reach it, what they hold in a location is equal within each class.

    input                   what `same=` promises, else each core alone
    constant                cores with equal data
    function of operands    the meet: cores that agree on all operands, and on what the location held before
    all_reduce, all_gather  members of a group; groups whose members' operands are equal, one by one
    reduce_scatter, all_to_all      members of one place in groups whose operands are equal, one by one
    collective_permute      targets of equal sources; all cores that are no target
    anything else           each core alone
    loops, branches         what is written inside also meets the condition

It is the greatest fixpoint: every location that is written starts as one class, and classes are refined until nothing
changes. (Partition refinement over a flow-insensitive abstraction; one label a location, not one a value.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.ir.attributes import AttrValue, int_list, parse_attrs
from haulout.ir.core_classes import parse_classes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.lockstep import alike_operands
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids
from haulout.support.jit import njit, plain_if_small

_FUNCTION, _GATHERING, _SCATTERING, _PERMUTE, _UNKNOWN = range(5)
_COLLECTIVES = {
    "all_reduce": _GATHERING,
    "all_gather": _GATHERING,
    "reduce_scatter": _SCATTERING,
    "all_to_all": _SCATTERING,
    "collective_permute": _PERMUTE,
}


def core_labels(program: Program) -> Ids:
    """[location of core 0, core]: the smallest core that holds equal bytes there; the cores must run in lockstep."""
    cores, locations = program.lnc, len(program.locations) // program.lnc
    labels = _initial(program, locations)
    rows = len(program.instructions) // cores
    kind, groups, tables = _transfers(program, rows)
    accesses = len(program.accesses) // cores
    control, controls = _controls(program)
    with plain_if_small(_refine, accesses * cores):
        _refine(
            labels,
            program.access_starts[: rows + 1].astype(np.int32),
            program.accesses.location[:accesses],
            program.accesses.write[:accesses],
            alike_operands(program),
            kind,
            groups,
            tables,
            control[program.instructions.block[:rows]],
            controls,
        )
    return labels


def _initial(program: Program, count: int) -> Ids:
    """Labels before any instruction runs."""
    locations, cores = program.locations, program.lnc
    labels = np.zeros((count, cores), np.int32)
    alone = np.arange(cores, dtype=np.int32)
    given = np.isin(locations.kind[:count], (Kind.INPUT, Kind.INOUT))
    labels[given] = alone
    by_text: dict[int, Ids] = {}
    for text in np.unique(locations.same[:count]).tolist():
        if text != NONE:
            label = alone.copy()
            for members in parse_classes(program.strings[text]):
                label[members] = min(members)
            by_text[text] = label
    for row in np.flatnonzero(locations.same[:count] != NONE).tolist():
        labels[row] = by_text[int(locations.same[row])]
    # What one core writes to a shared location another may have read before.
    written = np.zeros(len(locations), bool)
    written[program.owner[program.accesses.location[program.accesses.write]]] = True
    shared = (locations.space == Space.DRAM_SHARED) & written[program.owner]
    labels[shared.reshape(cores, count).any(axis=0)] = alone
    constants = np.flatnonzero(locations.kind[:count] == Kind.CONST)
    data = locations.data.reshape(cores, count)[:, constants].T
    for core in range(cores - 1, -1, -1):
        labels[constants] = np.where(data == data[:, core : core + 1], core, labels[constants])
    return labels


def _transfers(program: Program, rows: int) -> tuple[Ids, Ids, Ids]:
    """Of each row how its results follow from its operands; and of collectives the row of a table.

    A row of the table: for groups, [place in the group, then the first core of the group] of each core, two lines;
    for pairs, the source of each core.
    """
    instructions, cores = program.instructions, program.lnc
    kind = np.full(rows, _UNKNOWN, np.int32)
    for opcode in np.unique(instructions.opcode[:rows]).tolist():
        name = program.strings[opcode]
        known = _FUNCTION if lookup(name).function else _COLLECTIVES.get(name, _UNKNOWN)
        kind[instructions.opcode[:rows] == opcode] = known
    table: dict[tuple[int, int], int] = {}
    lines: list[list[int]] = []
    group = np.full(rows, NONE, np.int32)
    for row in np.flatnonzero((kind != _FUNCTION) & (kind != _UNKNOWN)).tolist():
        key = (int(kind[row]), int(instructions.attrs[row]))
        if key not in table:
            table[key] = len(lines)
            attrs = parse_attrs(program.strings.get(key[1]) or "")
            lists = attrs.get("pairs" if kind[row] == _PERMUTE else "groups")
            lines += _lines(lists if isinstance(lists, list) else [], cores, kind[row] == _PERMUTE)
        group[row] = table[key]
    return kind, group, np.array(lines or [[0] * cores], np.int32)


def _lines(lists: Sequence[AttrValue], cores: int, pairs: bool) -> list[list[int]]:
    place, first = [NONE] * cores, list(range(cores))
    for each in lists:
        members = [core for core in int_list(each) or [] if 0 <= core < cores]
        if pairs and len(members) == 2:
            place[members[1]] = members[0]
        elif not pairs:
            for at, core in enumerate(members):
                place[core], first[core] = at, members[0]
    if pairs:
        return [place]
    members_of: list[list[int]] = [[] for _ in range(cores)]
    for core in range(cores):
        if place[core] != NONE:
            members_of[first[core]].append(core)
    order = [sorted(each, key=lambda core: place[core]) for each in members_of]
    # member lists, one line for each place
    return [place, first, *([o[at] if at < len(o) else NONE for o in order] for at in range(cores))]


def _controls(program: Program) -> tuple[Ids, Ids]:
    """Of each block of core 0 a row of a table: the conditions of the loops and branches around, NONE behind."""
    structure, blocks = program.structure, len(program.blocks) // program.lnc
    cond = program.blocks.cond
    chains: dict[tuple[int, ...], int] = {(): 0}
    control = np.zeros(max(blocks, 1), np.int32)
    for block in range(blocks):
        chain = []
        for number in structure.around(block):
            region = structure.regions[number]
            decider = region.begin if number in structure.loops else structure.forks[region.fork].block  # type: ignore[union-attr]
            chain.append(int(cond[decider]))
        control[block] = chains.setdefault(tuple(dict.fromkeys(chain)), len(chains))
    width = max(map(len, chains)) + 1
    table = np.full((len(chains), width), NONE, np.int32)
    for chain_key, at in chains.items():
        table[at, : len(chain_key)] = chain_key
    return control, table


@njit
def _meet(into: Ids, other: Ids) -> bool:
    """Refine labels by others; whether they change."""
    changed = False
    cores = len(into)
    found = np.empty(cores, np.int32)
    for core in range(cores):
        first = core
        for before in range(core):
            if into[before] == into[core] and other[before] == other[core]:
                first = before
                break
        found[core] = first
    for core in range(cores):
        if into[core] != found[core]:
            into[core] = found[core]
            changed = True
    return changed


@njit
def _collective(label: Ids, kind: int, at: int, tables: Ids) -> Ids:
    """Labels of the results of a collective whose operands have these."""
    cores = len(label)
    found = np.empty(cores, np.int32)
    for core in range(cores):
        found[core] = core
        for before in range(core):
            if kind == 3:
                mine, theirs = tables[at, core], tables[at, before]
                same = mine == theirs or (mine >= 0 and theirs >= 0 and label[mine] == label[theirs])
            else:
                if tables[at, core] < 0 or tables[at, before] < 0:
                    continue
                one, other = tables[at + 1, core], tables[at + 1, before]
                same = kind == 1 or tables[at, core] == tables[at, before]
                place = 0
                while same and one != other and place < cores:
                    mine, theirs = tables[at + 2 + place, one], tables[at + 2 + place, other]
                    if mine < 0 and theirs < 0:
                        break
                    same = mine >= 0 and theirs >= 0 and label[mine] == label[theirs]
                    place += 1
            if same:
                found[core] = before
                break
    # the smallest core of each class: `before` is that core's own smallest by induction
    for core in range(cores):
        found[core] = found[found[core]]
    return found


@njit
def _refine(
    labels: Ids,
    starts: Ids,
    location: Ids,
    write: Bools,
    alike: Bools,
    kind: Ids,
    group: Ids,
    tables: Ids,
    control: Ids,
    controls: Ids,
) -> None:
    cores = labels.shape[1]
    changed = True
    label = np.empty(cores, np.int32)
    while changed:
        changed = False
        for row in range(len(starts) - 1):
            for core in range(cores):
                label[core] = 0
            known = kind[row] != 4
            for access in range(starts[row], starts[row + 1]):
                known &= alike[access]
                if not write[access]:
                    _meet(label, labels[location[access]])
            if not known:
                for core in range(cores):
                    label[core] = core
            elif kind[row] == 1 or kind[row] == 2 or kind[row] == 3:
                label = _collective(label, kind[row], group[row], tables)
            for at in range(controls.shape[1]):
                decider = controls[control[row], at]
                if decider < 0:
                    break
                _meet(label, labels[decider])
            for access in range(starts[row], starts[row + 1]):
                if write[access] and _meet(labels[location[access]], label):
                    changed = True
