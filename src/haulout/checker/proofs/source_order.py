"""The compiled program must order every conflict as its source does, where the source orders it.

The order of the source is `seq`, the position of the source operation, equal on all cores; inside a core it is list
order, and `seq` must not contradict that. The sweep compares each ordered pair with it (`Order.time`): once no pair
races, every read sees exactly the writes that it sees in the source. Storage that two tensors share is not a matter
of order: `storage.py` and `stale_bytes.py` prove that no read sees bytes of the other tensor. In loops time is
(iterations, `seq`).

A program without `seq` is its own source. When it was made from another program, the happens-before of that one
counts: one schedule of it replaces `seq`, and a pair that disagrees with the schedule is reported only when the
source itself orders it in the opposite direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import occurrence, positions
from haulout.checker.model import Function, Model, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import build_graph
from haulout.checker.order.happens_before import Order, build_order
from haulout.checker.order.sendrecv import find_sendrecvs
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity, Subject


@dataclass(slots=True)
class SourceOrder:
    """The time of each instruction of a model, and the order of the source when that time is only one schedule of
    it.
    """

    time: Ints
    match: Ids | None = None
    """Instruction -> the instruction of that name in the source; NONE: there is none."""
    order: Order | None = None

    def contradicts(self, model: Model, first: Ids, second: Ids) -> Bools:
        """Which pairs, ordered against `time`, the source orders in the opposite direction."""
        wrong = np.ones(len(first), bool)
        if self.order is None or self.match is None:
            return wrong
        for at, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            i, j = int(model.instruction[a]), int(model.instruction[b])
            if model.core[i] != model.core[j]:
                wrong[at] = _before(self.order, int(self.match[j]), int(self.match[i]))
        return wrong


def source_order(model: Model, source: Program | None) -> SourceOrder:
    """The order to be kept: `seq`, else the order of the source, else only list order."""
    time = model.time
    if source is None or bool(np.any(time != NONE)):
        return SourceOrder(time)
    other = _model_of(source, model)
    if other is None:
        return SourceOrder(time)
    barriers, sendrecvs = find_barriers(other), find_sendrecvs(other)
    if check_barriers(other, barriers) or len(sendrecvs.unpaired):
        return SourceOrder(time)
    graph = build_graph(other, barriers, sendrecvs)
    if len(graph.order) != graph.nodes:
        return SourceOrder(time)
    match = match_instructions(model, other)
    rank = positions(graph.order, graph.nodes).astype(np.int64)
    time = np.where(match == NONE, NONE, np.append(rank[graph.enter], NONE)[match])
    nothing = np.full(len(other.rows), NONE, np.int64)
    return SourceOrder(time, match, build_order(other, graph, barriers, sendrecvs, nothing))


def check_times(model: Model, source: Program | None) -> list[Diagnostic]:
    """`unfaithful-order` where `seq` falls along the list of a core, or contradicts that of the source."""
    seq, time = model.program.instructions.seq[model.rows], model.time
    found = []
    timed = np.flatnonzero(time != NONE)
    same = model.core[timed[1:]] == model.core[timed[:-1]]
    falls = np.flatnonzero(same & (time[timed[1:]] < time[timed[:-1]]))
    for before, after in zip(timed[falls][:1].tolist(), timed[falls + 1][:1].tolist(), strict=True):
        message = (
            f"seq falls from {seq[before]} to {seq[after]} in the list of core {model.core[before]}: the list is not "
            f"in source order"
        )
        found.append(_unfaithful(model, before, after, "falling seq", message))
    other = _model_of(source, model) if source is not None else None
    if other is None:
        return found
    match = match_instructions(model, other)
    known = np.flatnonzero((match != NONE) & (time != NONE))
    given = other.time[match[known]]
    known, given = known[given != NONE], given[given != NONE]
    # Sorted by the time of the source, the time of the program may not fall, and must rise where the former rises.
    by = np.lexsort((time[known], given))
    known, given = known[by], given[by]
    highest = np.maximum.accumulate(time[known])
    new = np.append(False, given[1:] != given[:-1]) if len(given) else np.zeros(0, bool)
    wrong = np.flatnonzero(new & (time[known] <= np.append(NONE, highest[:-1])[: len(known)]))
    for at in wrong[:1].tolist():
        later = int(known[at])
        earlier = int(known[int(np.argmax(time[known[:at]]))])
        message = (
            f"the source runs {model.name(earlier)} on core {model.core[earlier]} before {model.name(later)} on core "
            f"{model.core[later]}, but their seq is {seq[earlier]} and {seq[later]}"
        )
        found.append(_unfaithful(model, earlier, later, "other order than the source", message))
    return found


def _unfaithful(model: Model, first: int, second: int, kind: str, message: str) -> Diagnostic:
    labels = (model.label(second), model.label(first))
    entities = (model.instruction_entity(first), model.instruction_entity(second))
    subject = Subject(kind, model.function, entities, cores=tuple(sorted({each.core for each in entities})))
    return Diagnostic("unfaithful-order", Severity.ERROR, message, labels, subject=subject)


def _before(order: Order, first: int, second: int) -> bool:
    """True if one instruction of the source comes before another one on a different core."""
    if NONE in (first, second):
        return False
    accesses = [np.flatnonzero(order.instruction == each) for each in (first, second)]
    if not all(map(len, accesses)):
        return False
    return any(order.before(int(a), int(b)) for a in accesses[0] for b in accesses[1])


def check_comparable(function: Function, source: Program) -> list[Diagnostic]:
    """A warning where source order is not checked, because the source has different loops and branches."""
    other = function_of(source, function.name)
    if other is not None and other.structure == function.structure:
        return []
    why = "has different loops or branches in" if other is not None else "has no supported function"
    message = f"the source {why} @{function.name}: source order is not checked"
    kind = "different control flow" if other is not None else "no supported source function"
    return [Diagnostic("unfaithful-order", Severity.WARNING, message, subject=Subject(kind, function.name))]


def function_of(source: Program, name: str) -> Function | None:
    """The function of that name in the source."""
    return next((each for each in functions(source) if isinstance(each, Function) and each.name == name), None)


def _model_of(source: Program, model: Model) -> Model | None:
    """The function of that name in the source; where it has loops or branches, the same run of it."""
    other = function_of(source, model.function)
    if other is None:
        return None
    if model.unrolled is None:
        return other.straight() if other.runs is None else None
    if other.runs is not None and other.structure == model.unrolled.structure:
        return other.runs.model(model.unrolled.run, other.runs.wanted)
    return None


def match_instructions(model: Model, other: Model) -> Ids:
    """Join on (core, name, number of the copy): the source instruction of each instruction; NONE: there is none."""
    strings, theirs = model.program.strings, other.program.strings
    names = model.program.instructions.name[model.rows]
    other_names = other.program.instructions.name[other.rows]
    if theirs is not strings:
        known = np.array([*map(strings.find, theirs), NONE], np.int32)
        other_names = known[other_names]

    def keys(cores: Ids, ids: Ids) -> Ints:
        key: Ints = cores.astype(np.int64) * (len(strings) + 1) + ids
        return key if model.unrolled is None else key * (len(model.rows) + len(other.rows)) + occurrence(key)

    named = np.flatnonzero(other_names != NONE)
    have = keys(other.core[named], other_names[named])
    order = np.argsort(have, kind="stable")
    wanted = keys(model.core, names)
    at = np.searchsorted(have[order], wanted)
    found = np.append(named[order], NONE)[at]
    hit = (names != NONE) & (np.append(have[order], NONE)[at] == wanted)
    return np.where(hit, found, NONE).astype(np.int32)
