"""Judge by exploration: every state that a run can come to.

A state is how far each queue is. From a state, any operation that can happen may happen next. Two conflicting
operations that can both happen in one state race: either may be first. A state from which nothing can happen, before
all is over, is a hang.

What has become possible stays possible until it happens, whatever else happens. So an operation that conflicts with
nothing that is still to come may be taken at once, and no other choice needs to be looked at: that, and remembering
states, keeps small programs small.
"""

from __future__ import annotations

from collections.abc import Sequence

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.testing.judges.queues import Does, Queues, queue_programs
from haulout.testing.judges.straight import NotStraightError, Step, runs
from haulout.testing.judges.verdict import Verdict, hang, joined, of_pairs, unjudged

MOST_STATES = 20_000


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    try:
        return joined([judge_run(steps) for steps in runs(program)])
    except NotStraightError as error:
        return unjudged(str(error))


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    return _Exploration(queue_programs(steps)).verdict()


class _Exploration:
    def __init__(self, made: Queues) -> None:
        self.made = made
        self.place = {op: at for queue in made.queues for at, op in enumerate(queue)}
        ops = range(len(made.ops))
        self.rivals = [
            [b for b in ops if made.ops[b].queue != made.ops[a].queue and made.ops[a].conflicts(made.ops[b])]
            for a in ops
        ]
        """Conflicting operations of other queues."""
        self.pairs: set[tuple[int, int]] = set()

    def verdict(self) -> Verdict:
        first = (0,) * len(self.made.queues)
        seen, stack = {first}, [first]
        while stack:
            state = stack.pop()
            enabled = self.enabled(state)
            if not enabled:
                if any(at < len(queue) for at, queue in zip(state, self.made.queues, strict=True)):
                    return hang("nothing can happen any more")
                continue
            alone = [ops[0] for ops in enabled if len(ops) == 1]
            for index, a in enumerate(alone):
                for b in alone[index + 1 :]:
                    if b in self.rivals[a]:
                        self.pairs.add(self.made.ops[a].pair(self.made.ops[b]))
            quiet = next(
                (ops for ops in enabled if not any(self.to_come(state, r) for r in self.rivals[ops[0]])), None
            )
            for ops in [quiet] if quiet is not None else enabled:
                following = list(state)
                for op in ops:
                    following[self.made.ops[op].queue] += 1
                if (reached := tuple(following)) not in seen:
                    seen.add(reached)
                    stack.append(reached)
            if len(seen) > MOST_STATES:
                return unjudged(f"more than {MOST_STATES} states")
        return of_pairs(frozenset(self.pairs))

    def to_come(self, state: tuple[int, ...], op: int) -> bool:
        return self.place[op] >= state[self.made.ops[op].queue]

    def enabled(self, state: tuple[int, ...]) -> list[list[int]]:
        """What can happen: single operations, and meetings as all of theirs together."""
        found: list[list[int]] = []
        gathered: dict[int, list[int]] = {}
        for queue, at in zip(self.made.queues, state, strict=True):
            if at == len(queue):
                continue
            op = self.made.ops[queue[at]]
            if any(each == NONE or self.to_come(state, each) for each in op.waits):
                continue
            if op.does is Does.MEET:
                gathered.setdefault(op.meeting, []).append(queue[at])
            else:
                found.append([queue[at]])
        met = [ops for meeting, ops in gathered.items() if len(ops) == self.made.wanted[meeting]]
        return met or found
