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
    view = np.flatnonzero((locations.remote_name != NONE) & (program.owner != NONE))
    owner = program.owner[view]
    columns = (
        program.functions.name[locations.function[view]],
        locations.name[view],
        program.location_core[view],
        program.location_core[owner],
        locations.name[owner],
        locations.address[owner],
        np.maximum(locations.bank[owner], 0),
        np.maximum(locations.partition[owner], 0),
    )
    return [
        RemoteAddress(
            function=strings[function],
            name=strings[name],
            core=core,
            owner_core=owner_core,
            owner_name=strings[owner_name],
            address=address if address != NONE else None,
            bank=bank if address != NONE else None,
            partition=partition if address != NONE else None,
        )
        for function, name, core, owner_core, owner_name, address, bank, partition in zip(
            *(each.tolist() for each in columns), strict=True
        )
    ]
