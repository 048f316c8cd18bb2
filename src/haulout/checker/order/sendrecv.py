"""Pairs of `sendrecv`s: the k-th send of (sender, receiver, tag) is paired with the k-th receive of the same three.

A `sendrecv` is two events, *arrive* and *complete*. It completes when it has arrived itself, and so have its
partners: the `sendrecv` of the core that it sends to and that of the core that it receives from. The pairs found here
become the edges arrive -> complete between cores. A `sendrecv` without a partner deadlocks.
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

_MAX_FINDINGS = 10
"""Unpaired ones that are reported."""


@dataclass(slots=True)
class SendRecvs:
    """The `sendrecv`s of a model, in list order, and which waits for which."""

    instruction: Ids
    arrives: Ids
    """Pairs: the arrival of `instruction[arrives]` ..."""
    completes: Ids
    """... comes before the completion of `instruction[completes]`."""
    unpaired: Ids
    """Sides without a partner: rows of `instruction`, one for each missing side."""
    unpaired_sends: Bools

    def partners(self) -> tuple[dict[int, int], dict[int, int]]:
        """Receiver -> sender, and sender -> receiver, of each pair: the first half lead from senders to receivers."""
        half = len(self.arrives) // 2
        senders, receivers = (self.instruction[side[:half]].tolist() for side in (self.arrives, self.completes))
        return dict(zip(receivers, senders, strict=True)), dict(zip(senders, receivers, strict=True))


def find_sendrecvs(model: Model) -> SendRecvs:
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
    unpaired_send = np.setdiff1d(sends, sends[sender], assume_unique=True)
    unpaired_receive = np.setdiff1d(receives, receives[receiver], assume_unique=True)
    return SendRecvs(
        instruction=instruction,
        arrives=np.concatenate([sends[sender], receives[receiver]]).astype(np.int32),
        completes=np.concatenate([receives[receiver], sends[sender]]).astype(np.int32),
        unpaired=np.concatenate([unpaired_send, unpaired_receive]).astype(np.int32),
        unpaired_sends=np.arange(len(unpaired_send) + len(unpaired_receive)) < len(unpaired_send),
    )


def _keys(model: Model, sender: Ids, receiver: Ids, tag: Ids) -> Column:
    """(sender, receiver, tag, how many of those came before on this side), packed."""
    key = (sender.astype(np.int64) * model.cores + receiver) * (len(model.program.strings) + 1) + tag + 1
    return key * (len(model.program.meetings) + 1) + occurrence(key)


def check_sendrecvs(model: Model, sendrecvs: SendRecvs) -> list[Diagnostic]:
    """`deadlock` for every `sendrecv` without a partner."""
    found = []
    table, program = model.program.meetings, model.program
    row_of = {int(model.local[row]): at for at, row in enumerate(table.instruction.tolist())}
    for at, sends in zip(
        sendrecvs.unpaired[:_MAX_FINDINGS].tolist(), sendrecvs.unpaired_sends.tolist(), strict=False
    ):
        instruction = int(sendrecvs.instruction[at])
        row = row_of[instruction]
        tag = "no tag" if table.tag[row] == NONE else f"tag {format_value(program.strings[int(table.tag[row])])}"
        core = int(model.core[instruction])
        peer = int(table.to[row] if sends else table.source[row])
        does, partner = ("sends to", f"from={core}") if sends else ("receives from", f"to={core}")
        message = (
            f"{model.name(instruction)} on core {core} {does} core {peer} ({tag}) and deadlocks: core {peer} has no "
            f"matching sendrecv {partner}"
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
