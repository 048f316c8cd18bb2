"""Participants of barriers: the distinct sets of cores of a program, numbered.

The column `barriers.cores` holds a set as text, `[0,1,2]` with the cores in rising order; null is the set of all
cores. So a program may have any number of cores, and equal sets are equal ids. Few sets occur in a program: what is
asked about the participants of many barriers is asked about each set once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from haulout.ir.attributes import int_list, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids
from haulout.ir.strings import StringTable


@dataclass(frozen=True, slots=True)
class CoreSets:
    """The sets of cores that barriers name. The set of all cores is always among them, and is the last."""

    of: Ids
    """[barrier]: the number of its set."""
    members: list[tuple[int, ...]]
    """Of each set its cores, in rising order."""

    @property
    def everyone(self) -> int:
        """The number of the set of all cores."""
        return len(self.members) - 1

    @property
    def full(self) -> Bools:
        """[barrier]: whether all cores take part."""
        return np.asarray(self.of == self.everyone)

    def has(self, core: Ids) -> Bools:
        """[barrier]: whether a core, one for each barrier, takes part."""
        cores = len(self.members[-1])
        table = np.zeros((len(self.members), cores), bool)
        for number, members in enumerate(self.members):
            table[number, list(members)] = True
        return np.asarray(table[self.of, core])


def set_text(cores: Iterable[int]) -> str:
    """The text of a set of cores."""
    return f"[{','.join(map(str, sorted(set(cores))))}]"


def set_cores(text: str) -> tuple[int, ...]:
    """The cores of a set's text; empty where it is no list of integers."""
    value = parse_attrs(f"cores={text}")["cores"]
    return tuple(int_list(value) or ())


def core_sets(cores: Ids, strings: StringTable, lnc: int) -> CoreSets:
    """The sets of a column `barriers.cores`, in the order of their largest cores that differ, of a sound program."""
    everyone = tuple(range(lnc))
    if not len(cores) or bool((cores == NONE).all()):
        return CoreSets(np.zeros(len(cores), np.int32), [everyone])
    texts, which = np.unique(cores, return_inverse=True)
    sets = [everyone if text == NONE else set_cores(strings[text]) for text in texts.tolist()]
    members = sorted({*sets, everyone}, key=lambda each: each[::-1])
    number = {each: at for at, each in enumerate(members)}
    return CoreSets(np.array([number[each] for each in sets], np.int32)[which.ravel()], members)


def sets_without(cores: Column, strings: StringTable, core: int) -> Ids:
    """The column `barriers.cores` when a core is gone and later ones have moved up; an empty set becomes all."""

    def moved(text: int) -> int:
        members = () if text == NONE else set_cores(strings[text])
        left = [each - (each > core) for each in members if each != core]
        return strings.intern(set_text(left)) if left else NONE

    texts, which = np.unique(cores, return_inverse=True)
    return np.array([moved(text) for text in texts.tolist()], np.int32)[which.ravel()]
