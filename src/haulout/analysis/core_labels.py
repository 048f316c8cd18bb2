"""Which cores hold equal bytes, of every location: a partition of the cores, as labels.

The label of (location, core) is the smallest core whose copy of the location holds the same bytes. It holds at every
point of the program: all cores run one list (`ir/lockstep.py`), and after each instruction, run by all cores that
reach it, the bytes of a location that hold a value are equal within each class.

    input                   what `same=` promises, else each core alone
    constant                cores with equal data
    shared location         of who owns it, if nothing writes it, else each core alone
    function of operands    the meet: cores that agree on all operands, and on what the location held before
    operand                 also cores that name the same bytes of it
    collective              `ir/partitions.py`
    anything else           each core alone: other opcodes, atomic accesses (their order is free), unknown bytes
    loops, branches         what is written inside also meets the condition

It is the greatest fixpoint: every location that is written starts as one class, and classes are refined until nothing
changes. A row is looked at again when a location that it reads, or that decides whether it runs, has changed; that
happens less than once for each core. (Partition refinement over a flow-insensitive abstraction; one label a location,
not one a value. Worklist as in Kildall 1973.)

The kernel knows partitions by numbers and asks for a meet that it does not know yet.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from haulout.ir.attributes import AttrValue, format_value, int_list
from haulout.ir.core_classes import parse_classes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.lockstep import operand_labels
from haulout.ir.opcodes import Opcode, lookup
from haulout.ir.partitions import (
    Groups,
    Partition,
    alone,
    by_key,
    from_classes,
    gathered,
    meet,
    one_class,
    permuted,
    scattered,
)
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop
from haulout.support.jit import njit, plain_if_small

_ONE_CLASS = 0
"""The number of a partition; that of the finest is 1."""
_FUNCTION, _UNKNOWN = -1, -2
"""Instead of the number of a transfer."""
_TRANSFERS = {
    "all_reduce": gathered,
    "all_gather": gathered,
    "reduce_scatter": scattered,
    "all_to_all": scattered,
    "collective_permute": permuted,
}


def core_labels(program: Program) -> Ids:
    """[location of core 0, core]: the smallest core that holds equal bytes there; the cores must run in lockstep.

    Raises `bad-input` for control flow that is not supported.
    """
    return _Refinement(program).run()


class _Refinement:
    """One program: numbered partitions, and what is known of their meets."""

    def __init__(self, program: Program) -> None:
        self.program, self.cores = program, program.lnc
        self.count = len(program.locations) // program.lnc
        self.rows = len(program.instructions) // program.lnc
        self.partitions: list[Partition] = [one_class(self.cores), alone(self.cores)]
        self.numbers = {partition: number for number, partition in enumerate(self.partitions)}
        self.transfers: list[tuple[str, Groups]] = []
        self.meets = np.full((16, 16), NONE, np.int32)
        """[partition, partition]: the number of their meet."""
        self.results = np.zeros((0, 16), np.int32)
        """[transfer, partition]: what it makes of it."""

    def run(self) -> Ids:
        """Labels of all locations."""
        labels = np.array([self._number(each) for each in self._initial()], np.int32)
        accesses = len(self.program.accesses) // self.cores
        rows, table = operand_labels(self.program)
        named = np.array([self._number(tuple(line)) for line in table.tolist()] + [_ONE_CLASS], np.int32)
        transfer, paired = self._transfers()
        self.results = np.full((len(self.transfers), len(self.meets)), NONE, np.int32)
        pairs, controls = self._controls()
        readers = self._readers(pairs, controls)
        state = np.array([0, self.rows], np.int64)
        queue = np.arange(max(self.rows, 1), dtype=np.int32)
        waiting = np.ones(max(self.rows, 1), np.bool_)
        columns = self.program.accesses
        with plain_if_small(_refine, accesses):
            while True:
                question, one, other = _refine(
                    labels,
                    self.program.access_starts[: self.rows + 1],
                    columns.location[:accesses],
                    columns.write[:accesses],
                    named[rows],
                    transfer,
                    paired,
                    pairs[self.program.instructions.block[: self.rows]],
                    controls,
                    *readers,
                    self.meets,
                    self.results,
                    queue,
                    waiting,
                    state,
                )
                if question == _DONE:
                    break
                self._answer(question, one, other)
        found: Ids = np.array(self.partitions, np.int32)[labels].reshape(self.count, self.cores)
        return found

    def _number(self, partition: Partition) -> int:
        if partition not in self.numbers:
            self.numbers[partition] = len(self.partitions)
            self.partitions.append(partition)
        if len(self.partitions) > len(self.meets):
            more = 2 * len(self.meets)
            self.meets = np.pad(self.meets, ((0, more), (0, more)), constant_values=NONE)
            self.results = np.pad(self.results, ((0, 0), (0, more)), constant_values=NONE)
        return self.numbers[partition]

    def _answer(self, question: int, one: int, other: int) -> None:
        if question == _MEET:
            number = self._number(meet(self.partitions[one], self.partitions[other]))
            self.meets[one, other] = self.meets[other, one] = number
            return
        name, groups = self.transfers[one]
        number = self._number(_TRANSFERS[name](self.partitions[other], groups))
        self.results[one, other] = number

    def _initial(self) -> list[Partition]:
        """Of each location before any instruction runs."""
        program, cores, count = self.program, self.cores, self.count
        locations = program.locations
        everyone, apart = one_class(cores), alone(cores)
        of_text: dict[int, Partition] = {NONE: apart}
        for text in np.unique(locations.same[:count]).tolist():
            if text != NONE:
                of_text[text] = from_classes(parse_classes(program.strings[text]), cores)
        found = [everyone] * count
        for row in np.flatnonzero(np.isin(locations.kind[:count], (Kind.INPUT, Kind.INOUT))).tolist():
            found[row] = of_text[int(locations.same[row])]
        data = locations.data.reshape(cores, count)
        for row in np.flatnonzero(locations.kind[:count] == Kind.CONST).tolist():
            texts = data[:, row].tolist()
            found[row] = apart if NONE in texts else by_key(texts)
        # Of a shared location its owner's bytes; what one core writes there another may have read before.
        written = np.zeros(len(locations), bool)
        written[program.owner[program.accesses.location[program.accesses.write]]] = True
        shared = (locations.space == Space.DRAM_SHARED).reshape(cores, count)
        owner = program.owner.reshape(cores, count)
        held = list(found)
        for row in np.flatnonzero(shared.any(axis=0)).tolist():
            owners = owner[:, row].tolist()
            if NONE in owners or written[owners].any():
                found[row] = apart
            else:
                # The owner is on a core of its own row: equal rows and classes there are equal bytes.
                found[row] = by_key((each % count, self._base(held, each)) for each in owners)
        return found

    def _base(self, held: list[Partition], owner: int) -> object:
        """What tells the contents of an owner from those of other cores; internal bytes hold no value at first."""
        count, kind = self.count, self.program.locations.kind[owner]
        return owner if kind in (Kind.INTERNAL, Kind.OUTPUT) else held[owner % count][owner // count]

    def _transfers(self) -> tuple[Ids, Bools]:
        """Of each row how its results follow from its operands, and whether each result from the operand in its
        place alone.
        """
        program, rows = self.program, self.rows
        instructions, accesses = program.instructions, program.accesses
        keys = instructions.opcode[:rows].astype(np.int64) * (len(program.strings) + 1) + instructions.attrs[:rows]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        known = [self._transfer(row) for row in first.tolist()]
        found = np.array([number for number, _ in known], np.int32)[which]
        begins = program.access_starts[: rows + 1]
        writes = np.diff(np.append(0, np.cumsum(accesses.write))[begins])
        paired = np.array([in_turn for _, in_turn in known], np.bool_)[which] & (2 * writes == np.diff(begins))
        # The order of atomic accesses is free, and bytes that are not known may be others on each core.
        size = len(accesses) // self.cores
        unknown = np.append(program.patterns.run == NONE, False)[accesses.pattern] | accesses.maybe | accesses.atomic
        odd = unknown.reshape(self.cores, size).any(axis=0)
        found[accesses.instruction[:size][odd]] = _UNKNOWN
        return found, paired

    def _transfer(self, row: int) -> tuple[int, bool]:
        """The number of its transfer, and whether result j comes from operand j."""
        program = self.program
        name = program.strings.get(int(program.instructions.opcode[row])) or ""
        attrs = program.instruction_attrs(row)
        if name not in _TRANSFERS:
            opcode = lookup(name)
            return _FUNCTION if is_function(opcode, attrs) else _UNKNOWN, False
        groups = _groups(attrs.get("pairs" if name == "collective_permute" else "groups"), self.cores)
        if groups is None or not _names_each_once(name, groups):
            return _UNKNOWN, False
        if (name, groups) not in self.transfers:
            self.transfers.append((name, groups))
        return self.transfers.index((name, groups)), name != "all_to_all" or "dim" in attrs

    def _controls(self) -> tuple[Ids, Ids]:
        """Of each block of core 0 a row of a table: the conditions of the loops and branches around, NONE behind."""
        program = self.program
        structure, blocks = program.structure, len(program.blocks) // self.cores
        chains: dict[tuple[int, ...], int] = {(): 0}
        control = np.zeros(max(blocks, 1), np.int32)
        for block in range(blocks):
            chain: dict[int, None] = {}
            for number in structure.around(block):
                region = structure.regions[number]
                decider = region.header if isinstance(region, Loop) else structure.forks[region.fork].block
                chain[int(program.blocks.cond[decider])] = None
            control[block] = chains.setdefault(tuple(chain), len(chains))
        table = np.full((len(chains), max(map(len, chains)) + 1), NONE, np.int32)
        for each, at in chains.items():
            table[at, : len(each)] = each
        return control, table

    def _readers(self, control: Ids, controls: Ids) -> tuple[Ints, Ids]:
        """The rows that depend on each location, as ranges of a column."""
        accesses = self.program.accesses
        size = len(accesses) // self.cores
        reads = np.flatnonzero(~accesses.write[:size])
        deciders = controls[control[self.program.instructions.block[: self.rows]]]
        row, at = np.nonzero(deciders != NONE)
        location = np.concatenate([accesses.location[reads], deciders[row, at]])
        reader = np.concatenate([accesses.instruction[reads], row.astype(np.int32)])
        order = np.argsort(location, kind="stable")
        starts = np.searchsorted(location[order], np.arange(self.count + 1)).astype(np.int64)
        return starts, reader[order]


def is_function(opcode: Opcode, attrs: Mapping[str, AttrValue]) -> bool:
    """Whether equal operands give equal results on every core: `args` tells all that an opcode of NKI does, unless it
    reduces into a register of the engine, whose contents are no operand.
    """
    if opcode.is_nki and ("args" not in attrs or "reduce_cmd" in format_value(attrs["args"])):
        return False
    return opcode.function and not opcode.collective


def _groups(value: AttrValue | None, cores: int) -> Groups | None:
    """Lists of cores; None for anything else."""
    lists = [int_list(each) for each in value] if isinstance(value, list) else [None]
    if any(each is None or not all(0 <= core < cores for core in each) for each in lists):
        return None
    return tuple(tuple(each) for each in lists if each is not None)


def _names_each_once(name: str, groups: Groups) -> bool:
    """Whether no core has two results."""
    if name == "collective_permute" and any(len(pair) != 2 for pair in groups):
        return False
    cores = (
        [pair[1] for pair in groups] if name == "collective_permute" else [core for each in groups for core in each]
    )
    return len(set(cores)) == len(cores)


_DONE, _MEET, _TRANSFER = range(3)
"""What the kernel asks for."""


@njit
def _met(meets: Ids, one: int, other: int) -> int:
    """The number of a meet; NONE: it is not known."""
    if one == other or other == 0 or one == 1:
        return one
    return other if one == 0 or other == 1 else meets[one, other]


@njit
def _refine(
    labels: Ids,
    starts: Ints,
    location: Ids,
    write: Bools,
    named: Ids,
    transfer: Ids,
    paired: Bools,
    control: Ids,
    controls: Ids,
    reader_starts: Ints,
    readers: Ids,
    meets: Ids,
    results: Ids,
    queue: Ids,
    waiting: Bools,
    state: Ints,
) -> tuple[int, int, int]:
    """Refine until nothing changes, or until the result for two numbers is not known: (question, one, other).

    `queue` is a ring of rows; `state` has its first place and its length.
    """
    size = len(queue)
    while state[1] > 0:
        row = queue[state[0]]
        state[0] = (state[0] + 1) % size
        state[1] -= 1
        waiting[row] = False
        begin, end = starts[row], starts[row + 1]
        question, one, other = _DONE, 0, 0
        # What all results of the row have in common.
        common = 1 if transfer[row] == _UNKNOWN else 0
        if not paired[row]:
            for access in range(begin, end):
                if write[access]:
                    break
                for number in (labels[location[access]], named[access]):
                    one, other = common, number
                    common = _met(meets, one, other)
                    if common < 0:
                        question = _MEET
                        break
                if question != _DONE:
                    break
            if question == _DONE and transfer[row] >= 0:
                one, other = transfer[row], common
                common = results[one, other]
                if common < 0:
                    question = _TRANSFER
        if question == _DONE:
            for at in range(controls.shape[1]):
                decider = controls[control[row], at]
                if decider < 0:
                    break
                one, other = common, labels[decider]
                common = _met(meets, one, other)
                if common < 0:
                    question = _MEET
                    break
        for access in range(begin, end):
            if question != _DONE:
                break
            if not write[access]:
                continue
            found = common
            if paired[row] and transfer[row] >= 0:
                operand = access - (end - begin) // 2
                one, other = labels[location[operand]], named[operand]
                each = _met(meets, one, other)
                if each < 0:
                    question = _MEET
                    break
                one, other = transfer[row], each
                each = results[one, other]
                if each < 0:
                    question = _TRANSFER
                    break
                one, other = common, each
                found = _met(meets, one, other)
                if found < 0:
                    question = _MEET
                    break
            target = location[access]
            for number in (named[access], labels[target]):
                one, other = found, number
                found = _met(meets, one, other)
                if found < 0:
                    question = _MEET
                    break
            if question != _DONE or found == labels[target]:
                continue
            labels[target] = found
            for at in range(reader_starts[target], reader_starts[target + 1]):
                reader = readers[at]
                if not waiting[reader]:
                    waiting[reader] = True
                    queue[(state[0] + state[1]) % size] = reader
                    state[1] += 1
        if question != _DONE:
            if not waiting[row]:
                waiting[row] = True
                queue[(state[0] + state[1]) % size] = row
                state[1] += 1
            return question, one, other
    return _DONE, 0, 0
