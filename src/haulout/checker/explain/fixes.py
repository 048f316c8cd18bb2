"""What would order two accesses, as data: edits of a program, which can be applied to it and told to a reader.

    add deps=[w] to %b on core 0                                   AddDependence
    put a core_barrier @all on every core, before %r               AddBarrier
    put a sendrecv from core 0 to core 1: ...                      AddExchange
    put a nop with carried=[w] at the start of ^loop, ...          AddRelay

Edits name rows of the program that they are for; several of them are applied at once. They take no operands and add
none, so the operands of the changed program have the numbers that they had before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.edit import NewInstructions, add_dependences, insert
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Barriers, Dependences, Instructions, Meetings


@dataclass(frozen=True, slots=True)
class Place:
    """In front of an instruction of a block, or at its end."""

    block: int
    before: int
    """The first row behind the block: at its end."""


@dataclass(frozen=True, slots=True)
class AddDependence:
    """One instruction waits for another one of its core."""

    consumer: int
    producer: int
    carried: bool = False


@dataclass(frozen=True, slots=True)
class AddBarrier:
    """A barrier of all engines and cores, with its place on each core."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class AddExchange:
    """A meeting of two cores: the sender's side waits for the producer, the consumer for the receiver's."""

    producer: int
    consumer: int
    sender: Place
    receiver: Place


@dataclass(frozen=True, slots=True)
class AddRelay:
    """Nops that wait for one another, the first for the producer; the consumer waits for the last. They stand where
    the producer's loop is over, or at the end of its arm and behind the branch.
    """

    producer: int
    consumer: int
    places: tuple[Place, ...]
    carried: bool


Edit = AddDependence | AddBarrier | AddExchange | AddRelay


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together."""

    edits: tuple[Edit, ...]

    def apply(self, program: Program) -> Program:
        """The program with the edits in it; anonymous instructions get the names by which they are known now."""
        return _Writer(_named(program)).write(self.edits)

    def text(self, program: Program) -> str:
        """What to do, in words."""
        told = [_told(program, edit) for edit in self.edits[:_TOLD_EDITS]]
        more = [f"{len(self.edits) - len(told)} more of the kind"] if len(self.edits) > len(told) else []
        if self.is_barrier and len(self.edits) > 1:
            places = [_where(program, edit) for edit in self.edits[:_TOLD_EDITS] if isinstance(edit, AddBarrier)]
            return f"put {len(self.edits)} core_barriers @all on every core: {'; '.join([*places, *more])}"
        shared = "add " if all(text.startswith("add ") for text in told) else ""
        return ", and ".join([told[0], *(text.removeprefix(shared) for text in told[1:]), *more])

    def __add__(self, other: Fix) -> Fix:
        return Fix((*self.edits, *(each for each in other.edits if each not in self.edits)))

    @property
    def is_barrier(self) -> bool:
        """Whether barriers alone are added."""
        return all(isinstance(edit, AddBarrier) for edit in self.edits)


_TOLD_EDITS = 4
"""Edits that are listed."""


# -- changing the program --------------------------------------------------------------------------------------------


def _named(program: Program) -> Program:
    nameless = np.flatnonzero(program.instructions.name == NONE)
    if not len(nameless):
        return program
    name = program.instructions.name.copy()
    name[nameless] = [program.strings.intern(program.instruction_name(row)) for row in nameless.tolist()]
    return program.replace(instructions=program.instructions.replace(name=name))


@dataclass(slots=True)
class _New:
    """An instruction to insert; `number` is what dependences call it."""

    place: Place
    opcode: str
    engine: Engine
    name: str
    number: int
    seq: int
    to: int = NONE
    source: int = NONE


@dataclass(slots=True)
class _Writer:
    program: Program
    new: list[_New] = field(default_factory=list)
    edges: list[tuple[int, int, bool]] = field(default_factory=list)
    """Consumer, producer, carried; new instructions are numbered behind the old ones."""
    barriers: int = 0

    def write(self, edits: Sequence[Edit]) -> Program:
        for edit in edits:
            match edit:
                case AddDependence(consumer, producer, carried):
                    self.edges.append((consumer, producer, carried))
                case AddBarrier(places):
                    name = self._fresh()
                    for place, seq in zip(places, _times(self.program, places), strict=True):
                        self._add(place, "core_barrier", Engine.ALL, name, seq)
                case AddExchange(producer, consumer, sender, receiver):
                    core = self.program.instruction_core
                    name, here, there = self._fresh(), int(core[producer]), int(core[consumer])
                    times = _times(self.program, (sender, receiver))
                    sends = self._add(sender, "sendrecv", Engine.SYNC, name, times[0], to=there)
                    receives = self._add(receiver, "sendrecv", Engine.SYNC, name, times[1], source=here)
                    self.edges += [(sends, producer, False), (consumer, receives, False)]
                case AddRelay(producer, consumer, places, carried):
                    last = producer
                    for at, place in enumerate(places):
                        nop = self._add(place, "nop", Engine.SYNC, self._fresh(), *_times(self.program, (place,)))
                        # What stands in an arm need not have run: its engine brings the order behind the branch.
                        if at == 0:
                            self.edges.append((nop, last, carried))
                        last = nop
                    self.edges.append((consumer, last, False))
        return self._written()

    def _add(
        self, place: Place, opcode: str, engine: Engine, name: str, seq: int, to: int = NONE, source: int = NONE
    ) -> int:
        number = len(self.program.instructions) + len(self.new)
        self.new.append(_New(place, opcode, engine, name, number, seq, to, source))
        return number

    def _fresh(self) -> str:
        """A name that the program does not have yet."""
        program, number = self.program, 0
        taken = {each.name for each in self.new}
        used = (program.instructions.name, program.barriers.name, program.meetings.tag)
        while True:
            name = f"fix{number or ''}"
            known = program.strings.find(name)
            if name not in taken and (known == NONE or not any(np.any(column == known) for column in used)):
                return name
            number += 1

    def _written(self) -> Program:
        program, strings = self.program, self.program.strings
        order = sorted(self.new, key=lambda each: (each.place.before, each.place.block, each.number))
        old = len(program.instructions)
        table = {each.name: strings.intern(each.name) for each in order}
        instructions = Instructions.make(
            len(order),
            name=[table[each.name] for each in order],
            block=[each.place.block for each in order],
            opcode=[strings.intern(each.opcode) for each in order],
            engine=[each.engine for each in order],
            seq=[each.seq for each in order],
        )
        fences = [at for at, each in enumerate(order) if each.opcode == "core_barrier"]
        meets = [at for at, each in enumerate(order) if each.opcode == "sendrecv"]
        barriers = Barriers.make(len(fences), instruction=fences, name=[table[order[at].name] for at in fences])
        meetings = Meetings.make(
            len(meets),
            instruction=meets,
            to=[order[at].to for at in meets],
            source=[order[at].source for at in meets],
            tag=[table[order[at].name] for at in meets],
        )
        before = np.array([each.place.before for each in order], np.int32)
        made, position = insert(program, NewInstructions(before, instructions, barriers=barriers, meetings=meetings))
        number = {each.number: old + at for at, each in enumerate(order)}
        rows = [tuple(number.get(row, row) for row in edge[:2]) for edge in self.edges]
        ends = position[np.array(rows, np.int32).reshape(-1, 2)]
        carried = [each for *_, each in self.edges]
        return add_dependences(
            made, Dependences.make(len(rows), instruction=ends[:, 0], producer=ends[:, 1], carried=carried)
        )


def _times(program: Program, places: Sequence[Place]) -> list[int]:
    """A `seq` for each of several places, one that fits its neighbours, and the same for all where that can be."""
    spans = [_span(program, place) for place in places]
    time = min(high for _, high in spans)
    if time == _LATE:
        time = max(low for low, _ in spans)
    return [min(max(time, low), high) if low != NONE else NONE for low, high in spans]


def _span(program: Program, place: Place) -> tuple[int, int]:
    """The least and the largest `seq` that fit a place."""
    seq, block = program.instructions.seq, program.instructions.block
    rows = [row for row in (place.before - 1, place.before) if 0 <= row < len(seq)]
    function = program.blocks.function[place.block]
    rows = [row for row in rows if program.blocks.function[block[row]] == function]
    known = {row - place.before: int(seq[row]) for row in rows if block[row] == place.block}
    if not known:
        # An empty block: what stands around it in the text.
        known = {-1: int(seq[rows[0]])} if rows else {}
    low = known.get(-1, known.get(0, NONE))
    return low, known.get(0, low if low == NONE else _LATE)


_LATE = np.iinfo(np.int64).max


# -- words -----------------------------------------------------------------------------------------------------------


def _name(program: Program, row: int) -> str:
    return format_name(program.instruction_name(row))


def _dependence(program: Program, edit: AddDependence) -> str:
    key = "carried" if edit.carried else "deps"
    core = program.instruction_core[edit.consumer]
    return f"add {key}=[{_name(program, edit.producer)}] to %{_name(program, edit.consumer)} on core {core}"


def _place(program: Program, place: Place, seq: int) -> str:
    begin, end = program.starts("instructions", "blocks")[[place.block, place.block + 1]].tolist()
    if place.before < end:
        text = f"before %{_name(program, place.before)}"
    elif begin < end:
        text = f"after %{_name(program, end - 1)}"
    else:
        text = f"in {_block(program, place)}"
    return text + _time(seq)


def _time(seq: int) -> str:
    """What a new instruction of a program with `seq` needs too."""
    return "" if seq == NONE else f" (its seq={seq})"


def _block(program: Program, place: Place) -> str:
    return "^" + format_name(program.strings[int(program.blocks.name[place.block])])


def _where(program: Program, edit: AddBarrier) -> str:
    cores: dict[str, list[int]] = {}
    for core, (place, seq) in enumerate(zip(edit.places, _times(program, edit.places), strict=True)):
        cores.setdefault(_place(program, place, seq), []).append(core)
    if len(cores) == 1:
        return next(iter(cores))
    return ", ".join(
        f"{place} on core{'s' if len(some) > 1 else ''} {_listed(some)}" for place, some in cores.items()
    )


def _listed(cores: list[int]) -> str:
    texts = [str(core) for core in cores]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def _exchange(program: Program, edit: AddExchange) -> str:
    here, there = (int(program.instruction_core[row]) for row in (edit.producer, edit.consumer))
    producer, consumer = _name(program, edit.producer), _name(program, edit.consumer)
    times = _times(program, (edit.sender, edit.receiver))
    sender, receiver = _place(program, edit.sender, times[0]), _place(program, edit.receiver, times[1])
    return (
        f"put a sendrecv @sync from core {here} to core {there}: with deps=[{producer}] {sender} on core {here}, "
        f"{receiver} on core {there}, and its name there into the deps of %{consumer}"
    )


def _relay(program: Program, edit: AddRelay) -> str:
    producer, consumer = _name(program, edit.producer), _name(program, edit.consumer)
    times = [_time(*_times(program, (place,))) for place in edit.places]
    start = f"at the start of {_block(program, edit.places[-1])}{times[-1]}"
    if edit.carried:
        return f"put a nop @sync with carried=[{producer}] {start}, and its name into the deps of %{consumer}"
    return (
        f"put a nop @sync with deps=[{producer}] at the end of its arm{times[0]}, a nop @sync {start}, and the "
        f"name of the latter into the deps of %{consumer}"
    )


def _told(program: Program, edit: Edit) -> str:
    match edit:
        case AddDependence():
            return _dependence(program, edit)
        case AddBarrier():
            return f"put a core_barrier @all on every core: {_where(program, edit)}"
        case AddExchange():
            return _exchange(program, edit)
        case AddRelay():
            return _relay(program, edit)
