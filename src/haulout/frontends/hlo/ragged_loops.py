"""Loops that cores may leave after different numbers of iterations.

In the program all cores run a loop equally often. So a loop whose condition may differ between cores goes on while
one of them has something to do, and the others pass over its body, by a branch at which cores may part:

    while (condition) body        ->        while (any core's condition)  if (own condition) body

The marks of the loop stay, with those of the branch inside: what its body computes is merged with the state as it
was, and that is the new state. A loop with a collective in it is left alone: HLO demands that all cores run it
equally often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from haulout.frontends.hlo.values import Array, Branch, Loop, Mark, Merged, Operation, Stage, Step, View


def loops_of(steps: Iterable[Step]) -> Iterator[Loop]:
    """The loops among the steps."""
    return (step.loop for step in steps if isinstance(step, Mark) and step.stage is Stage.ENTER)


def even_out(steps: Sequence[Step], ragged: Iterable[Loop]) -> tuple[list[Step], int]:
    """The steps with a branch in each of the loops, `seq` counted anew, and the last `seq` that is taken."""
    branches = {loop: _guard(loop) for loop in ragged}
    numbered: list[Step] = []
    seq = 1
    for step in _with_guards(steps, branches):
        if isinstance(step, Operation):
            step.seq = seq
            seq += 1
            numbered.append(step)
            continue
        numbered.append(replace(step, seq=seq))
        copied = step.region.carried if isinstance(step.region, Loop) else step.region.merged
        seq += 2 * len(copied) + 1  # an array is copied, and perhaps saved before
    return numbered, seq - 1


def _guard(loop: Loop) -> Branch:
    """The branch around the body; the loop carries what it results in."""
    loop.ragged = True
    branch = Branch(loop.instruction, loop.seq, loop.condition, None, ("step", "pass"), "body")
    results = [Array(each.state.source, each.state.shape, each.state.index, branch) for each in loop.carried]
    pairs = list(zip(results, loop.carried, strict=True))
    branch.merged = tuple(Merged(result, each.new, View(each.state, each.state.shape)) for result, each in pairs)
    loop.carried = tuple(replace(each, new=View(result, result.shape)) for result, each in pairs)
    return branch


def _with_guards(steps: Sequence[Step], branches: dict[Loop, Branch]) -> Iterator[Step]:
    for step in steps:
        found = branches.get(step.region) if isinstance(step, Mark) and isinstance(step.region, Loop) else None
        stage = step.stage if isinstance(step, Mark) else None
        if found is not None and stage is Stage.LEAVE:
            yield Mark(found, Stage.ELSE, 0)
            yield Mark(found, Stage.JOIN, 0)
        yield step
        if found is not None and stage is Stage.BRANCH:
            yield Mark(found, Stage.FORK, 0)
