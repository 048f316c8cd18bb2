"""What instructions do to semaphores, as columns: signals of the own core and of others, waits for a count.

A semaphore belongs to one core and has a name; it starts at 0 in every function and never falls. `signal` and `wait`
have a table. The other two are attributes:

    remote_signal=[[CORE,NAME,INT],...]     on completion, adds to the semaphore NAME of another core
    wait_back=[[NAME,INT],...]              starts when all that this core has issued to NAME before, signals and
                                            remote signals alike, is made but the last INT: when the own semaphore is
                                            at least that sum less INT

`Use` lists all four. It raises `bad-input` where an attribute is not of this form; `verify` says so beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from haulout.ir.attributes import AttrValue
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints

WAIT_BACK = "wait_back"
REMOTE_SIGNAL = "remote_signal"
MOST = (1 << 31) - 1
"""No amount and no count is larger, so that sums stay inside 64 bits."""

Malformed = Callable[[int, str], None]
"""Takes an instruction and what is wrong with one of its attributes."""


@dataclass(slots=True)
class Signals:
    """Additions on completion, by instruction."""

    instruction: Ids
    core: Ids
    """Whose semaphore."""
    name: Ids
    """Number in `Use.names`."""
    amount: Ints
    remote: Bools
    """Written as a `remote_signal`."""


@dataclass(slots=True)
class Waits:
    """Counts needed to start, by instruction."""

    instruction: Ids
    name: Ids
    """Number in `Use.names`; the own core's semaphore."""
    value: Ints
    back: Bools
    """`value` counts back from what the core has issued (`wait_back`)."""


@dataclass(slots=True)
class Use:
    """All semaphores of a program and what is done to them."""

    names: list[str]
    signals: Signals
    waits: Waits

    def __bool__(self) -> bool:
        return bool(len(self.signals.instruction) or len(self.waits.instruction))


def semaphore_use(program: Program, malformed: Malformed) -> Use:
    """Signals and waits of a whole program; what is no list of the right form is handed to `malformed`, and left
    out.
    """
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    table, core = program.semaphores, program.instruction_core
    names = [number(program.strings[name]) for name in np.unique(table.name).tolist()]
    of_table = np.array(names, np.int32)[np.searchsorted(np.unique(table.name), table.name)] if names else table.name
    remote: list[tuple[int, int, int, int]] = []
    back: list[tuple[int, int, int]] = []
    for row in rows_with(program, (REMOTE_SIGNAL, WAIT_BACK)):
        attrs = program.instruction_attrs(row)
        for item in items(attrs, REMOTE_SIGNAL):
            match item:
                case [int(to), str(name), int(amount)] if (
                    _plain(to, amount) and abs(to) <= MOST and 1 <= amount <= MOST
                ):
                    remote.append((row, to, number(name), int(amount)))
                case _:
                    malformed(row, f"expected {REMOTE_SIGNAL}=[[CORE,NAME,INT],...], the amounts from 1 to {MOST}")
        for item in items(attrs, WAIT_BACK):
            match item:
                case [str(name), int(value)] if _plain(value) and 0 <= value <= MOST:
                    back.append((row, number(name), value))
                case _:
                    malformed(row, f"expected {WAIT_BACK}=[[NAME,INT],...], the counts from 0 to {MOST}")
    made = np.flatnonzero(~table.wait)
    far = np.array(remote, np.int64).reshape(-1, 4)
    signals = Signals(
        np.concatenate([table.instruction[made], far[:, 0]]).astype(np.int32),
        np.concatenate([core[table.instruction[made]], far[:, 1]]).astype(np.int32),
        np.concatenate([of_table[made], far[:, 2]]).astype(np.int32),
        np.concatenate([table.value[made], far[:, 3]]),
        np.arange(len(made) + len(far)) >= len(made),
    )
    needed = np.flatnonzero(table.wait)
    late = np.array(back, np.int64).reshape(-1, 3)
    waits = Waits(
        np.concatenate([table.instruction[needed], late[:, 0]]).astype(np.int32),
        np.concatenate([of_table[needed], late[:, 1]]).astype(np.int32),
        np.concatenate([table.value[needed], late[:, 2]]),
        np.arange(len(needed) + len(late)) >= len(needed),
    )
    by, then = (np.argsort(each.instruction, kind="stable") for each in (signals, waits))
    return Use(
        list(numbers),
        Signals(*(getattr(signals, column)[by] for column in Signals.__slots__)),
        Waits(*(getattr(waits, column)[then] for column in Waits.__slots__)),
    )


def rows_with(program: Program, keys: tuple[str, ...]) -> list[int]:
    """Instructions whose attribute text has one of some words, ascending."""
    attrs = program.instructions.attrs
    used = np.zeros(len(program.strings) + 1, bool)  # the last stands for NONE
    used[attrs] = True
    found = [text for text in np.flatnonzero(used[:-1]).tolist() if any(key in program.strings[text] for key in keys)]
    if not found:
        return []
    wanted = np.zeros(len(used), bool)
    wanted[found] = True
    rows: list[int] = np.flatnonzero(wanted[attrs] & (attrs != NONE)).tolist()
    return rows


def items(attrs: dict[str, AttrValue], key: str) -> Iterator[AttrValue]:
    """The entries of an attribute that should be a list; itself, when it is none."""
    value = attrs.get(key, [])
    yield from value if isinstance(value, list) else [value]


def _plain(*numbers: int) -> bool:
    """Whether none of the numbers is a truth value."""
    return not any(isinstance(number, bool) for number in numbers)
