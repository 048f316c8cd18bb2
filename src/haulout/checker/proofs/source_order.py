"""The compiled program must order every conflict as its source does, where the source orders it.

The source's order is `seq`, the position of the source operation, equal on all cores; inside a core it is list order,
and `seq` must not contradict that. The sweep compares each ordered pair with it (`Order.time`): once no pair races,
every read sees exactly the writes that it sees in the source. Storage that two tensors share is no matter of order
here: `storage.py` and `holders.py` prove that no read sees the other's bytes. In loops time is (iterations, `seq`).

A program without `seq` is its own source. When it was made from another one, that one's happens-before counts: a
schedule of it stands in for `seq`, and a pair that disagrees with the schedule is reported only when the source
itself orders it the other way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import occurrence
from haulout.checker.model import Function, Model, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import build_graph
from haulout.checker.order.happens_before import Order, build_order
from haulout.checker.order.sendrecv import find_meetings
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity, Subject


@dataclass(slots=True)
class SourceOrder:
    """Where each instruction of a model stands in time, and the source's own order when that is a schedule only."""

    time: Ints
    match: Ids | None = None
    """Instruction -> the source's instruction of that name, NONE: it has none."""
    order: Order | None = None

    def contradicts(self, model: Model, first: Ids, second: Ids) -> Bools:
        """Of pairs that run first to second against `time`: those that the source orders the other way."""
        wrong = np.ones(len(first), bool)
        if self.order is None or self.match is None:
            return wrong
        for at, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            i, j = int(model.instruction[a]), int(model.instruction[b])
            if model.core[i] != model.core[j]:
                wrong[at] = _before(self.order, int(self.match[j]), int(self.match[i]))
        return wrong


def source_order(model: Model, source: Program | None) -> SourceOrder:
    """The order to be kept: `seq`, else the order of the source, else none but list order."""
    time = model.time
    if source is None or bool(np.any(time != NONE)):
        return SourceOrder(time)
    other = _model_of(source, model)
    if other is None:
        return SourceOrder(time)
    barriers, meetings = find_barriers(other), find_meetings(other)
    if check_barriers(other, barriers) or len(meetings.lonely):
        return SourceOrder(time)
    graph = build_graph(other, barriers, meetings)
    if len(graph.order) != graph.nodes:
        return SourceOrder(time)
    match = _match(model, other)
    rank = np.empty(graph.nodes, np.int64)
    rank[graph.order] = np.arange(graph.nodes)
    time = np.where(match == NONE, NONE, np.append(rank[graph.enter], NONE)[match])
    nothing = np.full(len(other.rows), NONE, np.int64)
    return SourceOrder(time, match, build_order(other, graph, barriers, meetings, nothing))


def check_times(model: Model, source: Program | None) -> list[Diagnostic]:
    """`unfaithful-order` where `seq` falls along a core's list, or rises otherwise than the source's."""
    seq, time = model.program.instructions.seq[model.rows], model.time
    found = []
    timed = np.flatnonzero(time != NONE)
    same = model.core[timed[1:]] == model.core[timed[:-1]]
    falls = np.flatnonzero(same & (time[timed[1:]] < time[timed[:-1]]))
    for before, after in zip(timed[falls][:1].tolist(), timed[falls + 1][:1].tolist(), strict=True):
        message = (
            f"seq falls from {seq[before]} to {seq[after]} along the list of core {model.core[before]}: the list "
            f"runs in another order than the source"
        )
        found.append(_unfaithful(model, before, after, "falling seq", message))
    other = _model_of(source, model) if source is not None else None
    if other is None:
        return found
    match = _match(model, other)
    known = np.flatnonzero((match != NONE) & (time != NONE))
    given = other.time[match[known]]
    known, given = known[given != NONE], given[given != NONE]
    # Sort by the source's time: the compiled program's may not fall, nor stand still where the source's rises.
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
    """Whether one instruction of the source comes before another on a different core; `sendrecv`s count as one."""
    if NONE in (first, second):
        return False
    accesses = [np.flatnonzero(order.instruction == each) for each in (first, second)]
    if not all(map(len, accesses)):
        return False
    return any(order.before(int(a), int(b)) for a in accesses[0] for b in accesses[1])


def check_comparable(function: Function, source: Program) -> list[Diagnostic]:
    """A warning where the source's order cannot be compared, because its function has other loops and branches."""
    other = _function_of(source, function.name)
    if other is not None and other.structure == function.structure:
        return []
    why = "has other loops or branches" if other is not None else "has none that is understood"
    message = f"the source {why} in @{function.name}: its order was not compared"
    return [Diagnostic("unfaithful-order", Severity.WARNING, message, subject=Subject(why, function.name))]


def _function_of(source: Program, name: str) -> Function | None:
    """The source's function of that name."""
    return next((each for each in functions(source) if isinstance(each, Function) and each.name == name), None)


def _model_of(source: Program, model: Model) -> Model | None:
    """The source's function of that name; where it has loops or branches, the same run of it."""
    other = _function_of(source, model.function)
    if other is None:
        return None
    if model.unrolled is None:
        return other.straight() if other.runs is None else None
    if other.runs is not None and other.structure == model.unrolled.structure:
        return other.runs.model(model.unrolled.run, other.runs.wanted)
    return None


def _match(model: Model, other: Model) -> Ids:
    """Join on (core, name, which copy): the source's instruction for each of the model's, NONE: it has none."""
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
