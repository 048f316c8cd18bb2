"""Judge by exploration: every state that a run can come to.

A state is how far each queue is. From a state, any operation that can happen may happen next. Two conflicting
operations that can both happen in one state race: either may be first. A state from which nothing can happen, before
all is over, is a hang.

What has become possible stays possible until it happens, whatever else happens. So an operation that conflicts with
nothing that is still to come may be taken at once, and no other choice needs to be looked at: that, and remembering
states, keeps small programs small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout_judges.queues import Does, Op, Queues, queue_programs
from haulout_judges.straight import Semaphore, Step, runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MOST_STATES = 20_000


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    verdicts = []
    try:
        for steps in runs(program):
            verdicts.append(judge_run(steps))
            if verdicts[-1].outcome is Outcome.UNJUDGED:
                break
        return joined(verdicts)
    except NotStraightError as error:
        return unjudged(str(error))


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    return _Exploration(queue_programs(steps)).verdict()


class _Exploration:
    def __init__(self, made: Queues) -> None:
        self.made = made
        ops = range(len(made.ops))
        self.rivals = [
            _mask(b for b in ops if made.ops[b].queue != op.queue and op.conflicts(made.ops[b])) for op in made.ops
        ]
        """Of each operation a bit set of the conflicting ones of other queues."""
        self.waits = [_mask(each for each in op.waits if each != NONE) for op in made.ops]
        self.never = [NONE in op.waits for op in made.ops]
        self.signals: dict[Semaphore, list[tuple[int, int]]] = defaultdict(list)
        """Of each semaphore: (operation, what it adds)."""
        for number, op in enumerate(made.ops):
            for semaphore, value in op.signals:
                self.signals[semaphore].append((number, value))
        self.pairs: set[tuple[int, int]] = set()

    def verdict(self) -> Verdict:
        everything = (1 << len(self.made.ops)) - 1
        seen = {0}
        stack = [((0,) * len(self.made.queues), 0)]
        while stack:
            places, over = stack.pop()
            enabled = self.enabled(places, over)
            if not enabled:
                if over != everything:
                    return hang("nothing can happen any more")
                continue
            self.note_races([ops[0] for ops in enabled if len(ops) == 1])
            left = ~over
            quiet = [ops for ops in enabled if not self.rivals[ops[0]] & left]
            for ops in quiet[:1] or enabled:
                reached = over | _mask(ops)
                if reached in seen:
                    continue
                seen.add(reached)
                following = list(places)
                for op in ops:
                    following[self.made.ops[op].queue] += 1
                stack.append((tuple(following), reached))
            if len(seen) > MOST_STATES:
                # A race that was seen is one; which others there are is not known.
                return Verdict(Outcome.RACE) if self.pairs else unjudged(f"more than {MOST_STATES} states")
        return of_pairs(frozenset(self.pairs))

    def note_races(self, enabled: Sequence[int]) -> None:
        among = _mask(enabled)
        for a in enabled:
            found = self.rivals[a] & among
            if found:
                self.pairs |= {self.made.ops[a].pair(self.made.ops[b]) for b in enabled if found >> b & 1}

    def enabled(self, places: tuple[int, ...], over: int) -> list[list[int]]:
        """What can happen: single operations, and meetings as all of theirs together."""
        found: list[list[int]] = []
        gathered: dict[int, list[int]] = {}
        for queue, at in zip(self.made.queues, places, strict=True):
            if at == len(queue):
                continue
            number = queue[at]
            op = self.made.ops[number]
            if self.never[number] or self.waits[number] & ~over or not self.reached(op, over):
                continue
            if op.does is Does.MEET:
                gathered.setdefault(op.meeting, []).append(number)
            else:
                found.append([number])
        met = [ops for meeting, ops in gathered.items() if len(ops) == self.made.wanted[meeting]]
        return met or found

    def reached(self, op: Op, over: int) -> bool:
        """Whether semaphores let an operation go on. They never fall, so it stays so."""
        return all(
            sum(added for number, added in self.signals[semaphore] if over >> number & 1) >= value
            for semaphore, value in op.needs
        )


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
