"""`same=[[0,1],[2,3]]` of a location: classes of cores that hold equal bytes in it.

On an input it is a contract of the caller, as `kind=input` is: `simulate` refuses inputs that break it. On any other
location it is a claim about what the program computes: the checker derives it again, `simulate` compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from haulout.ir.attributes import int_list, parse_attrs
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.schema import Ids

Classes = list[list[int]]


def core_classes(program: Program, row: int) -> Classes:
    """The classes of a location; empty without `same`."""
    text = int(program.locations.same[row])
    return [] if text == NONE else parse_classes(program.strings[text])


def parse_classes(text: str) -> Classes:
    """The classes that a text writes; empty where it is no list of lists of cores."""
    value = parse_attrs(f"same={text}")["same"]
    found = [int_list(each) for each in value] if isinstance(value, list) else []
    return [] if None in found else [each for each in found if each is not None]


def claims(program: Program) -> Ids:
    """The locations with `same=` that are no inputs."""
    rows = program.locations
    found: Ids = np.flatnonzero((rows.same != NONE) & ~np.isin(rows.kind, (Kind.INPUT, Kind.INOUT))).astype(np.int32)
    return found


def without_claims(program: Program) -> Program:
    """The same program with `same=` on inputs only: for passes after which cores hold other things in a location."""
    rows = claims(program)
    if not len(rows):
        return program
    same = program.locations.same.copy()
    same[rows] = NONE
    return program.replace(locations=program.locations.replace(same=same))


def classes_error(classes: Sequence[Sequence[Any]], lnc: int) -> str | None:
    """What is wrong with the classes of a location, or None."""
    cores = [core for each in classes for core in each]
    if not cores or not all(isinstance(core, int) and not isinstance(core, bool) for core in cores):
        return "same must be lists of cores, [[0,1],[2,3]]"
    if len(set(cores)) != len(cores) or not all(0 <= core < lnc for core in cores):
        return f"same={[list(each) for each in classes]} must name each core at most once, from 0 to {lnc - 1}"
    return None
