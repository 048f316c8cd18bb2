"""`vnc_remote_addr_map`: the addresses of views of other cores' locations.

One row a view: the core and the name that it uses, the core and the name that own the allocation, and the owner's
placement. It is read from the owner, not from the view, so that it holds whether or not `sync_shared_allocations`
has copied it; the checker proves that the two agree (`view-mismatch`).
"""

from __future__ import annotations

import msgspec
import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program


class RemoteAddress(msgspec.Struct, frozen=True):
    """A view and its address in bytes, absolute in the DRAM; null: the owner is not allocated."""

    function: str
    name: str
    core: int
    """The core of the view."""
    owner_core: int
    owner_name: str
    address: int | None
    bank: int | None
    partition: int | None


def remote_address_map(program: Program) -> list[RemoteAddress]:
    """All views that have an owner, in the order of the locations table: by core, function, name as declared.

    Of an owner that is allocated, an absent bank or partition is 0.
    """
    locations, strings = program.locations, program.strings
    rows = []
    for view in np.flatnonzero((locations.remote_name != NONE) & (program.owner != NONE)).tolist():
        owner = int(program.owner[view])
        address = int(locations.address[owner])
        placed = address != NONE
        rows.append(
            RemoteAddress(
                function=strings[int(program.functions.name[locations.function[view]])],
                name=strings[int(locations.name[view])],
                core=int(program.location_core[view]),
                owner_core=int(program.location_core[owner]),
                owner_name=strings[int(locations.name[owner])],
                address=address if placed else None,
                bank=max(int(locations.bank[owner]), 0) if placed else None,
                partition=max(int(locations.partition[owner]), 0) if placed else None,
            )
        )
    return rows
