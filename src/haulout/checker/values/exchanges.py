"""The collectives of a program: from which cores each core gets something."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.ir.attributes import AttrValue, int_list

GATHERING = ("all_reduce", "all_gather")
"""All members of a group get the same."""
SCATTERING = ("reduce_scatter", "all_to_all")
"""What a member gets depends on its place in the group."""
_PERMUTE = "collective_permute"
COLLECTIVES = (*GATHERING, *SCATTERING, _PERMUTE)
Members = dict[int, list[int]]
"""Core -> the cores that it gets something from, in order; without an entry it is not known what it gets."""


def members_of(name: str, attrs: Mapping[str, AttrValue], cores: int) -> Members:
    """The members of the group of each core, or the source of each target; an empty list: zeros."""
    value = attrs.get("pairs" if name == _PERMUTE else "groups")
    lists = [int_list(each) for each in value] if isinstance(value, list) else None
    found: Members = {}
    for each in [None] if lists is None else lists:
        if each is None or not all(0 <= core < cores for core in each) or (name == _PERMUTE and len(each) != 2):
            return {}
        for core in each[1:] if name == _PERMUTE else each:
            if core in found:
                return {}
            found[core] = each[:1] if name == _PERMUTE else each
    return {core: found.get(core, []) for core in range(cores)} if name == _PERMUTE else found
