"""Loops with different trip counts on different cores.

In a program all cores run a loop equally often. A loop whose condition may differ between cores therefore runs while
the condition holds on any core. The other cores skip its body with a branch inside the loop:

    while (condition) body        ->        while (any core's condition)  if (own condition) body

The boundaries of the loop stay, with those of the branch inside. The branch merges what the body computes with the
previous state, and the result is the new state. A loop with a collective in it is not changed: HLO requires that all
cores run it equally often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Merged, Operation, Stage, Step, View


def loops_of(steps: Iterable[Step]) -> Iterator[Loop]:
    """The loops among the steps."""
    return (step.loop for step in steps if isinstance(step, Boundary) and step.stage is Stage.ENTER)


def guard_bodies(steps: Sequence[Step], divergent: Iterable[Loop]) -> tuple[list[Step], int]:
    """The steps with a branch in each of the loops, `seq` counted anew, and the last `seq` that is taken."""
    branches = {loop: _guard(loop) for loop in divergent}
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
    loop.divergent = True
    branch = Branch(loop.instruction, loop.seq, loop.condition, None, ("step", "pass"), "body")
    results = [Array(each.state.source, each.state.shape, each.state.index, branch) for each in loop.carried]
    pairs = list(zip(results, loop.carried, strict=True))
    branch.merged = tuple(Merged(result, each.new, View(each.state, each.state.shape)) for result, each in pairs)
    loop.carried = tuple(replace(each, new=View(result, result.shape)) for result, each in pairs)
    return branch


def _with_guards(steps: Sequence[Step], branches: dict[Loop, Branch]) -> Iterator[Step]:
    for step in steps:
        found = branches.get(step.region) if isinstance(step, Boundary) and isinstance(step.region, Loop) else None
        stage = step.stage if isinstance(step, Boundary) else None
        if found is not None and stage is Stage.LEAVE:
            yield Boundary(found, Stage.ELSE, 0)
            yield Boundary(found, Stage.JOIN, 0)
        yield step
        if found is not None and stage is Stage.BRANCH:
            yield Boundary(found, Stage.FORK, 0)
