"""Dead code elimination: the steps of a flat computation that its result depends on.

Instructions that are understood have no side effects. Liveness therefore goes backwards from the result: the operands
of an operation are live if its result is; the initial value, the new value and the condition of a loop are live if
its state is; the values of both arms and the selector of a branch are live if its result is. An opaque operation may
have effects, so it is live itself, with what decides whether it runs.
"""

from __future__ import annotations

from haulout.frontends.hlo.flatten import Flat
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Opaque, Operation, Stage, Step, leaves


def live_steps(flat: Flat) -> list[Step]:
    """The steps that the result depends on, in order.

    Loops carry no more than that, and branches result in no more: they are narrowed in place.
    """
    around = _around_opaque(flat)
    needed = _needed(flat, around)
    kept: list[Step] = []
    for step in flat.steps:
        if isinstance(step, Operation):
            if isinstance(step, Opaque) or any(result in needed for result in step.results):
                kept.append(step)
        elif isinstance(step.region, Branch):
            step.branch.merged = tuple(each for each in step.branch.merged if each.result in needed)
            if step.branch.merged or step.region in around:
                kept.append(step)
        else:
            step.loop.carried = tuple(each for each in step.loop.carried if each.state in needed)
            if step.loop.carried or step.region in around:
                kept.append(step)
    return kept


def live_operations(flat: Flat) -> list[Operation]:
    """The same for a computation without loops and branches."""
    return [step for step in live_steps(flat) if isinstance(step, Operation)]


def _around_opaque(flat: Flat) -> set[Loop | Branch]:
    """The loops and branches with opaque operations inside."""
    open_: list[Loop | Branch] = []
    found: set[Loop | Branch] = set()
    for step in flat.steps:
        if isinstance(step, Opaque):
            found.update(open_)
        elif isinstance(step, Boundary):
            if step.stage in (Stage.ENTER, Stage.FORK):
                open_.append(step.region)
            elif step.stage in (Stage.LEAVE, Stage.JOIN):
                open_.pop()
    return found


def _needed(flat: Flat, around: set[Loop | Branch]) -> set[Array]:
    """The arrays that the result depends on, and opaque operations, and whether these run."""
    loops = [step.loop for step in flat.steps if isinstance(step, Boundary) and step.stage is Stage.ENTER]
    branches = [step.branch for step in flat.steps if isinstance(step, Boundary) and step.stage is Stage.FORK]
    carried = {each.state: each for loop in loops for each in loop.carried}
    merged = {each.result: each for branch in branches for each in branch.merged}
    needed: set[Array] = set()
    waiting = [view.array for _, view in leaves(flat.result)]
    waiting += [view.array for step in flat.steps if isinstance(step, Opaque) for view in step.operands]
    waiting += [each.condition.array if isinstance(each, Loop) else each.selector.array for each in around]
    while waiting:
        array = waiting.pop()
        if array in needed:
            continue
        needed.add(array)
        if isinstance(array.producer, Loop):
            state = carried[array]
            waiting += [state.init.array, state.new.array, array.producer.condition.array]
        elif isinstance(array.producer, Branch):
            result = merged[array]
            waiting += [result.then.array, result.other.array, array.producer.selector.array]
        elif array.producer is not None:
            waiting += [operand.array for operand in array.producer.operands]
    return needed
