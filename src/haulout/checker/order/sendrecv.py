"""Who meets whom in `sendrecv`: the k-th send of (sender, receiver, tag) meets the k-th receive of the same three.

A `sendrecv` is two events, *arrive* and *complete*. It completes when its own arrival, that of the core it sends to
and that of the core it receives from are over. The pairs found here become the edges arrive -> complete between
cores. One without a partner waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import occurrence
from haulout.checker.model import Model
from haulout.ir.attributes import format_value
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MOST = 10
"""Lonely ones that are listed."""


@dataclass(slots=True)
class Meetings:
    """The `sendrecv`s of a model, in list order, and who waits for whom."""

    instruction: Ids
    arrives: Ids
    """Pairs: the arrival of `instruction[arrives]` ..."""
    completes: Ids
    """... comes before the completion of `instruction[completes]`."""
    lonely: Ids
    """Sides without a partner: rows of `instruction`, one for each missing side."""
    lonely_sends: Bools


def find_meetings(model: Model) -> Meetings:
    """The `sendrecv`s of a model, paired."""
    table = model.program.meetings
    rows = np.flatnonzero(model.local[table.instruction] != NONE)
    rows = rows[np.argsort(model.local[table.instruction[rows]], kind="stable")]
    instruction = model.local[table.instruction[rows]]
    core, tag = model.core[instruction], table.tag[rows]
    sends, receives = np.flatnonzero(table.to[rows] != NONE), np.flatnonzero(table.source[rows] != NONE)
    send_key = _keys(model, core[sends], table.to[rows[sends]], tag[sends])
    receive_key = _keys(model, table.source[rows[receives]], core[receives], tag[receives])
    _, sender, receiver = np.intersect1d(send_key, receive_key, assume_unique=True, return_indices=True)
    lonely_send = np.setdiff1d(sends, sends[sender], assume_unique=True)
    lonely_receive = np.setdiff1d(receives, receives[receiver], assume_unique=True)
    return Meetings(
        instruction=instruction,
        arrives=np.concatenate([sends[sender], receives[receiver]]).astype(np.int32),
        completes=np.concatenate([receives[receiver], sends[sender]]).astype(np.int32),
        lonely=np.concatenate([lonely_send, lonely_receive]).astype(np.int32),
        lonely_sends=np.arange(len(lonely_send) + len(lonely_receive)) < len(lonely_send),
    )


def _keys(model: Model, sender: Ids, receiver: Ids, tag: Ids) -> Column:
    """(sender, receiver, tag, how many of these came before on this side), packed."""
    key = (sender.astype(np.int64) * model.cores + receiver) * (len(model.program.strings) + 1) + tag + 1
    return key * (len(model.program.meetings) + 1) + occurrence(key)


def check_meetings(model: Model, meetings: Meetings) -> list[Diagnostic]:
    """`deadlock` for every `sendrecv` whose partner never comes."""
    found = []
    table, program = model.program.meetings, model.program
    row_of = {int(model.local[row]): at for at, row in enumerate(table.instruction.tolist())}
    for at, sends in zip(meetings.lonely[:_MOST].tolist(), meetings.lonely_sends.tolist(), strict=False):
        instruction = int(meetings.instruction[at])
        row = row_of[instruction]
        tag = "no tag" if table.tag[row] == NONE else f"tag {format_value(program.strings[int(table.tag[row])])}"
        core = int(model.core[instruction])
        peer = int(table.to[row] if sends else table.source[row])
        does, partner = ("sends to", f"from={core}") if sends else ("receives from", f"to={core}")
        message = (
            f"{model.name(instruction)} on core {core} {does} core {peer} ({tag}) and waits for ever: core {peer} "
            f"has no sendrecv {partner} left to meet it"
        )
        labels: tuple[Label, ...] = (model.label(instruction),)
        subject = Subject(
            "no partner to receive" if sends else "no partner to send",
            model.function,
            (model.instruction_entity(instruction),),
            cores=(core, peer),
            provisos=model.meeting_provisos(),
        )
        found.append(Diagnostic("deadlock", Severity.ERROR, message, labels, subject=subject))
    return found
