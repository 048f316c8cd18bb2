"""`same=[[0,1],[2,3]]` of an input: classes of cores that get equal bytes.

It is a contract of the caller, as `kind=input` is: `simulate` refuses inputs that break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haulout.ir.attributes import int_list, parse_attrs
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program

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


def classes_error(classes: Sequence[Sequence[Any]], lnc: int, kind: Kind) -> str | None:
    """What is wrong with the classes of a location of some kind, or None."""
    if kind not in (Kind.INPUT, Kind.INOUT):
        return f"same belongs to kind=input and kind=inout, not to {kind.text}"
    cores = [core for each in classes for core in each]
    if not cores or not all(isinstance(core, int) and not isinstance(core, bool) for core in cores):
        return "same must be lists of cores, [[0,1],[2,3]]"
    if len(set(cores)) != len(cores) or not all(0 <= core < lnc for core in cores):
        return f"same={[list(each) for each in classes]} must name each core at most once, from 0 to {lnc - 1}"
    return None
