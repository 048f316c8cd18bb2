"""What happens at one time: an instruction is one event, a `sendrecv` two, its arrival and its completion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import occurrence
from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import SendRecvs
from haulout.ir.schema import Bools, Ids


@dataclass(slots=True)
class Events:
    """Columns over events."""

    instruction: Ids
    completes: Bools
    """It is the completion of a `sendrecv`."""
    line: Ids
    core: Ids
    block: Ids
    """In the function."""
    position: Ids
    """On its line."""
    first: Ids
    """Instruction -> its first event."""
    last: Ids
    """Instruction -> its last event."""


def find_events(model: Model, sendrecvs: SendRecvs, block_of: Ids) -> Events:
    """The events of a model, core after core in list order; `block_of` is the block of each instruction."""
    size = np.ones(len(model.rows), np.int64)
    size[sendrecvs.instruction] = 2
    first = np.cumsum(size) - size
    instruction = np.repeat(np.arange(len(size), dtype=np.int32), size)
    line = model.queue[instruction]
    return Events(
        instruction=instruction,
        completes=np.arange(len(instruction)) > first[instruction],
        line=line,
        core=model.core[instruction],
        block=block_of[instruction].astype(np.int32),
        position=occurrence(line).astype(np.int32),
        first=first.astype(np.int32),
        last=(first + size - 1).astype(np.int32),
    )


def refused(model: Model, events: Events, event: int, why: str) -> Refusal:
    """That something is so of the instruction of an event."""
    assert model.unrolled is not None
    instruction = int(events.instruction[event])
    row = int(model.unrolled.origin[model.rows[instruction]])
    text = f"{model.name(instruction)} on core {model.core[instruction]} {why}"
    return Refusal(text, int(events.block[event]), row)
