"""Programs for the runtime's tests: with addresses, so that they count as compiled."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from tests.sim import sim_programs

from haulout.ir.program import Program


def placed(*cores: str) -> Program:
    """A program of one function from the statements of each core; every location gets an address of its own."""
    return place(sim_programs.program(*cores))


def place(program: Program) -> Program:
    """The same program, each owner at an address of its own."""
    locations = program.locations
    owner = program.owner
    rooms = -(-locations.size // 64) * 64
    first = np.cumsum(rooms) - rooms
    columns = {item.name: getattr(locations, item.name) for item in fields(locations)}
    return program.replace(locations=type(locations)(**{**columns, "address": first[owner]}))
